// SPDX-License-Identifier: MIT
#include "compiler/kernels/check_types.h"

#include "compiler/lowering/chip_types.h"

namespace npu::compiler {
namespace {

/// The types of all that an operator reads and writes, the result first.
std::vector<graph::Dtype> types_of(const LoweredOp &op, const std::vector<Storage> &storages) {
  std::vector<graph::Dtype> types{storages[static_cast<size_t>(op.out.storage)].type};
  for (const View *v : op.inputs()) types.push_back(storages[static_cast<size_t>(v->storage)].type);
  const OpConstants constants = constants_of(op);
  for (const graph::TensorPtr &t : {constants.weights, constants.bias})
    if (t) types.push_back(t->dtype);
  return types;
}

}  // namespace

Status check_types(const LoweredOp &op, const std::vector<Storage> &storages) {
  const std::vector<graph::Dtype> types = types_of(op, storages);
  // Copies move what there is. All others compute.
  const graph::Dtype wanted =
      std::visit(Overloaded{
                     [&](const CopyOp &) { return types[0]; },
                     [](const OneOf<ConvOp, MatMulOp, PoolOp, BinaryOp, UnaryOp, SoftmaxOp, FillOp> auto &) {
                       return graph::Dtype::F32;
                     },
                 },
                 op.body);
  for (graph::Dtype type : types)
    if (type != wanted)
      return Status::error(std::string(op.name()) + " of " + graph::dtype_name(wanted) + " has an operand of " +
                           graph::dtype_name(type));
  if (!has_chip_type(wanted))
    return Status::error(std::string(op.name()) + " of " + graph::dtype_name(wanted) +
                         ", which the chip does not have");
  return {};
}

}  // namespace npu::compiler
