// SPDX-License-Identifier: MIT
#include "compiler/api/bounds.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/lowering/chip_types.h"
#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

/// Multiply-accumulates of an operator; those of 8 and 16 bits, of which the array takes several at once, as fewer.
uint64_t array_macs(const LoweredOp &op, const Lowered &lowered) {
  const auto rate = [&](const View &v) { return hw::CostParams{}.rate(chip_type(lowered.storage_of(v).type)); };
  const auto outputs = static_cast<uint64_t>(op.out.count());
  return std::visit(
      Overloaded{
          [&](const ConvOp &conv) {
            const graph::TensorPtr constant = constant_of(conv.weights);
            const int64_t weights = constant ? constant->count() : std::get<View>(conv.weights).count();
            return outputs * static_cast<uint64_t>(weights / op.out.dims[3]) / rate(conv.input);
          },
          [&](const MatMulOp &product) { return outputs * static_cast<uint64_t>(product.a.dims[2]) / rate(product.a); },
          [](const OneOf<PoolOp, BinaryOp, UnaryOp, SoftmaxOp, RequantOp, LookupOp, CopyOp, FillOp> auto &) {
            return uint64_t{0};
          },
      },
      op.body);
}

/// Bytes of an operator's constants that have not been used yet.
int64_t first_bytes(const LoweredOp &op, std::set<const graph::Tensor *> &used) {
  const OpConstants constants = constants_of(op);
  int64_t bytes = 0;
  for (const graph::TensorPtr &t : constants.all())
    if (t && used.insert(t.get()).second) bytes += static_cast<int64_t>(t->data.size());
  return bytes;
}

}  // namespace

uint64_t constant_bytes(const Lowered &lowered) {
  std::set<const graph::Tensor *> used;
  int64_t bytes = 0;
  for (const LoweredOp &op : lowered.ops) bytes += first_bytes(op, used);
  for (const Storage &s : lowered.storages)
    if (s.kind == StorageKind::Const) bytes += s.bytes();
  return static_cast<uint64_t>(bytes);
}

uint64_t order_bound(const Lowered &lowered, int64_t lmem_bytes) {
  const std::vector<LoweredOp> &ops = lowered.ops;
  constexpr hw::CostParams p;
  std::set<const graph::Tensor *> used;
  std::vector<int64_t> fresh;  // bytes of weights that an operator is the first to use
  for (const LoweredOp &op : ops) fresh.push_back(first_bytes(op, used));
  int64_t later = std::accumulate(fresh.begin(), fresh.end(), int64_t{0});
  uint64_t macs = 0, bound = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    macs += array_macs(ops[i], lowered);
    later -= fresh[i];
    const auto rest = static_cast<uint64_t>(std::max<int64_t>(later - lmem_bytes, 0));
    bound = std::max(bound, macs / (uint64_t{p.mac_ic} * p.mac_oc * p.mac_pixels) + rest / p.ddr_bw);
  }
  return bound;
}

}  // namespace npu::compiler
