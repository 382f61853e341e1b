// SPDX-License-Identifier: MIT
#include "compiler/lowering/operators.h"

namespace npu::compiler {

OpConstants constants_of(const LoweredOp &op) {
  return std::visit(Overloaded{
                        [](const ConvOp &conv) {
                          return OpConstants{constant_of(conv.weights), conv.bias, conv.multiplier};
                        },
                        [](const MatMulOp &product) {
                          return OpConstants{constant_of(product.b), product.bias, product.multiplier};
                        },
                        [](const LookupOp &lookup) {
                          return OpConstants{lookup.table, nullptr, nullptr};
                        },
                        [](const OneOf<PoolOp, BinaryOp, UnaryOp, SoftmaxOp, RequantOp, CopyOp, FillOp> auto &) {
                          return OpConstants{};
                        },
                    },
                    op.body);
}

}  // namespace npu::compiler
