// SPDX-License-Identifier: MIT
#include "compiler/kernels/kernel.h"

#include <algorithm>

#include "compiler/kernels/lmem.h"

namespace npu::compiler {

uint32_t KernelContext::address(const View &v, const Shape &start) const {
  int64_t at = v.offset;
  for (size_t i = 0; i < start.size(); ++i) at += start[i] * v.strides[i];
  return place(v).addr + static_cast<uint32_t>(at * storage(v).element_bytes());
}

End KernelContext::end(const View &v, const Shape &start) const {
  const Storage &s = storage(v);
  if (place(v).local) return {-1, s.type, address(v, start), v.strides};
  int64_t at = v.offset;
  for (size_t i = 0; i < start.size(); ++i) at += start[i] * v.strides[i];
  return {v.storage, s.type, at * s.element_bytes() + s.coeff_offset, v.strides};
}

double KernelContext::transfer_cycles(const View &v, const Shape &box) const {
  if (place(v).local)  // is read there, and written
    return transfer_weight * (kGdmaFixed + static_cast<double>(2 * bytes(v, box)) / kLocalBandwidth);
  const double memory = static_cast<double>(traffic(box, v.strides, storage(v).element_bytes())) / kMemoryBandwidth;
  return transfer_weight * (kGdmaFixed + kDdrLatency + memory);
}

std::unique_ptr<Kernel> make_kernel(const LoweredOp &op, const KernelContext &context) {
  return std::visit([&](const auto &typed) { return make_kernel(typed, op.out, context); }, op.body);
}

std::vector<int64_t> tile_sizes(int64_t size) {
  std::vector<int64_t> out;
  for (int64_t parts = 1; parts <= size; parts += std::max<int64_t>(1, parts / 3)) {
    const int64_t t = tiles_of(size, parts);
    if (out.empty() || out.back() != t) out.push_back(t);
  }
  if (out.back() != 1) out.push_back(1);
  return out;
}

std::vector<int64_t> channel_tiles(int64_t size, int64_t grain) {
  std::vector<int64_t> out{size};
  for (int64_t t = size / 2 / grain * grain; t >= grain; t = t / 2 / grain * grain)
    if (t < out.back()) out.push_back(t);
  for (int64_t t = grain; t >= 1; t /= 2)
    if (t < out.back()) out.push_back(t);
  return out;
}

double pipelined(int64_t tiles, double load, double work, double store) {
  const auto n = static_cast<double>(tiles);
  return std::max(n * work + load + store, n * (load + store) + work);
}

void add_buffers(Plan &plan, bool direct, int64_t bytes, int64_t tiles) {
  if (direct) return;
  plan.buffers.insert(plan.buffers.end(), tiles > 1 ? 2 : 1, LmemAllocator::rounded(bytes));
}

int64_t total_bytes(const std::vector<int64_t> &buffers) {
  int64_t sum = 0;
  for (int64_t b : buffers) sum += b;
  return sum;
}

}  // namespace npu::compiler
