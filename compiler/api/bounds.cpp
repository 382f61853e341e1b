// SPDX-License-Identifier: MIT
#include "compiler/api/bounds.h"

#include <algorithm>
#include <functional>
#include <map>
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

/// Elements that a command of the GDMA moves.
uint64_t moved_elements(const Command &command) {
  const auto product = [](const uint32_t(&dims)[6]) {
    return std::accumulate(std::begin(dims), std::end(dims), uint64_t{1}, std::multiplies<>());
  };
  if (const auto *copy = std::get_if<npu_cmd_copy>(&command.body)) return product(copy->dims);
  if (const auto *fill = std::get_if<npu_cmd_fill>(&command.body)) return product(fill->dims);
  return 0;
}

}  // namespace

uint64_t io_bytes(const Program &program) {
  struct Tensor {
    uint64_t bytes = 0, moved = 0;
  };
  std::map<std::pair<StorageKind, int>, Tensor> tensors;
  for (size_t core = 0; core < program.streams.cores.size(); ++core) {
    const std::vector<Storage> &storages = program.lowered.cores[core].storages;
    const auto add = [&](int s, uint64_t elements) {
      if (s < 0 || static_cast<size_t>(s) >= storages.size()) return;
      const Storage &storage = storages[static_cast<size_t>(s)];
      if (storage.kind != StorageKind::Input && storage.kind != StorageKind::Output) return;
      Tensor &tensor = tensors[{storage.kind, storage.index}];
      tensor.bytes = static_cast<uint64_t>(storage.bytes());
      tensor.moved += elements * static_cast<uint64_t>(storage.element_bytes());
    };
    for (const Command &c : program.streams.cores[core].gdma) {
      add(c.src_storage, moved_elements(c));
      add(c.dst_storage, moved_elements(c));
    }
  }
  uint64_t bytes = 0;
  for (const auto &[name, tensor] : tensors)
    if (tensor.moved >= tensor.bytes) bytes += tensor.bytes;
  return bytes;
}

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
