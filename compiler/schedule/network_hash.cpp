// SPDX-License-Identifier: MIT
// What schedules are recorded for: the structure of a network, as the code generator sees it.
#include <algorithm>
#include <cstring>

#include "compiler/schedule/op_words.h"
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
  void add_source(int source) { add(source); }
  void add_view(const View &v, graph::Dtype type) {
    add(v.storage);
    add(v.offset);
    add_list(v.dims);
    add_list(v.strides);
    add(type);
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
    if (s.shared) h.add(s.shared);
  }
  h.add(lowered.ops.size());
  for (const LoweredOp &op : lowered.ops) add_op(op, lowered.storages, h);
  // Where all elements have 32 bits these count for nothing, and records of then stay valid.
  const auto is_narrow = [](const Storage &s) { return s.element_bytes() < 4; };
  if (std::any_of(lowered.storages.begin(), lowered.storages.end(), is_narrow))
    h.add_list(std::initializer_list<uint32_t>{p.rate_16, p.rate_8});
  return h.value();
}

}  // namespace npu::compiler
