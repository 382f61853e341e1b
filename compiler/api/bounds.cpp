// SPDX-License-Identifier: MIT
#include "compiler/api/bounds.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

uint64_t macs_of(const LoweredOp &op) {
  const auto outputs = static_cast<uint64_t>(op.out.count());
  if (op.kind == Kind::Conv) {
    const int64_t weights = op.weights ? op.weights->count() : op.in[1].count();
    return outputs * static_cast<uint64_t>(weights / op.out.dims[3]);
  }
  if (op.kind == Kind::MatMul) return outputs * static_cast<uint64_t>(op.in[0].dims[2]);
  return 0;
}

/// Bytes of a constant, if it has not been used yet.
int64_t first_bytes(const graph::TensorPtr &t, std::set<const graph::Tensor *> &used) {
  return t && used.insert(t.get()).second ? t->count() * kElementBytes : 0;
}

}  // namespace

uint64_t constant_bytes(const Lowered &lowered) {
  std::set<const graph::Tensor *> used;
  int64_t bytes = 0;
  for (const LoweredOp &op : lowered.ops) bytes += first_bytes(op.weights, used) + first_bytes(op.bias, used);
  for (const Storage &s : lowered.storages)
    if (s.kind == StorageKind::Const) bytes += s.bytes();
  return static_cast<uint64_t>(bytes);
}

uint64_t order_bound(const std::vector<LoweredOp> &ops, int64_t lmem_bytes) {
  constexpr hw::CostParams p;
  std::set<const graph::Tensor *> used;
  std::vector<int64_t> fresh;  // bytes of weights that an operator is the first to use
  for (const LoweredOp &op : ops) fresh.push_back(first_bytes(op.weights, used) + first_bytes(op.bias, used));
  int64_t later = std::accumulate(fresh.begin(), fresh.end(), int64_t{0});
  uint64_t macs = 0, bound = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    macs += macs_of(ops[i]);
    later -= fresh[i];
    const auto rest = static_cast<uint64_t>(std::max<int64_t>(later - lmem_bytes, 0));
    bound = std::max(bound, macs / (uint64_t{p.mac_ic} * p.mac_oc * p.mac_pixels) + rest / p.ddr_bw);
  }
  return bound;
}

}  // namespace npu::compiler
