// SPDX-License-Identifier: MIT
// What schedules are recorded for: the structure of a network, as the code generator sees it.
#include <cstring>

#include "compiler/schedule/records.h"
#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

/// FNV-1a of 64-bit words, and a final mix.
class Hash {
 public:
  template <class T>
  void add(T v) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    for (auto word = static_cast<uint64_t>(v), i = uint64_t{0}; i < 8; ++i) {
      value_ = (value_ ^ (word & 0xff)) * 0x100000001b3u;
      word >>= 8;
    }
  }
  void add(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    add(bits);
  }
  template <class List>
  void add_list(const List &list) {
    add(std::size(list));
    for (const auto &v : list) add(v);
  }
  void add(const graph::TensorPtr &tensor) {
    add(tensor != nullptr);
    if (!tensor) return;
    add_list(tensor->shape);
    add(tensor->dtype);
  }
  /// float32 goes without saying: there was nothing else when the first records were made.
  void add(graph::Dtype type) {
    if (type != graph::Dtype::F32) add(static_cast<int>(type));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

/// What an operator counts with, besides its views. The order of the numbers that make a hash, and what stands for
/// fields that an operator does not have, outlive the form of the operators: records are made for these hashes.
struct Fields {
  graph::Activation act;
  graph::Window window;
  int64_t groups = 1;
  bool pool_max = true, count_pad = false;
  std::array<int64_t, 2> counted_end{0, 0};
  graph::BinaryKind binary = graph::BinaryKind::Add;
  bool log = false, has_number = false;
};

Fields fields_of(const ConvOp &op) {
  Fields f;
  f.act = op.act;
  f.window = op.window;
  f.groups = op.groups;
  return f;
}
Fields fields_of(const MatMulOp &op) {
  Fields f;
  f.act = op.act;
  return f;
}
Fields fields_of(const PoolOp &op) {
  Fields f;
  f.window = op.window;
  f.pool_max = op.max;
  f.count_pad = op.count_pad;
  f.counted_end = op.counted_end;
  return f;
}
Fields fields_of(const BinaryOp &op) {
  Fields f;
  f.act = op.act;
  f.binary = op.kind;
  f.has_number = std::holds_alternative<float>(op.b);
  return f;
}
Fields fields_of(const UnaryOp &op) {
  Fields f;
  f.act = op.act;
  return f;
}
Fields fields_of(const SoftmaxOp &op) {
  Fields f;
  f.log = op.log;
  return f;
}
Fields fields_of(const OneOf<CopyOp, FillOp> auto &) { return {}; }

void add_view(const View &v, const std::vector<Storage> &storages, Hash &h) {
  h.add(v.storage);
  h.add(v.offset);
  h.add_list(v.dims);
  h.add_list(v.strides);
  h.add(storages[static_cast<size_t>(v.storage)].type);
}

void add_op(const LoweredOp &op, const std::vector<Storage> &storages, Hash &h) {
  const Fields f = std::visit([](const auto &typed) { return fields_of(typed); }, op.body);
  const OpConstants constants = constants_of(op);
  h.add(static_cast<uint8_t>(op.body.index()));
  h.add(op.source);
  h.add(op.inputs().size());
  for (const View *v : op.inputs()) add_view(*v, storages, h);
  add_view(op.out, storages, h);
  h.add(f.act.kind);
  h.add(f.act.a);
  h.add(f.act.b);
  for (const auto *list : {&f.window.kernel, &f.window.stride, &f.window.dilation, &f.window.begin, &f.window.end})
    h.add_list(*list);
  h.add(f.groups);
  h.add(f.pool_max);
  h.add(f.count_pad);
  h.add_list(f.counted_end);
  h.add(f.binary);
  h.add(f.log);
  h.add(f.has_number);
  h.add(constants.weights);
  h.add(constants.bias);
}

}  // namespace

uint64_t hash_of(const Lowered &lowered) {
  constexpr hw::CostParams p;
  Hash h;
  h.add_list(std::initializer_list<uint32_t>{p.mac_ic, p.mac_oc, p.mac_pixels, p.lmem_bw, p.ew_lanes, p.tiu_fixed,
                                             p.gdma_fixed, p.ddr_latency, p.ddr_bw});
  h.add(lowered.storages.size());
  for (const Storage &s : lowered.storages) {
    h.add(s.kind);
    h.add(s.index);
    h.add(s.elements);
    h.add(s.element_bytes());
  }
  h.add(lowered.ops.size());
  for (const LoweredOp &op : lowered.ops) add_op(op, lowered.storages, h);
  return h.value();
}

}  // namespace npu::compiler
