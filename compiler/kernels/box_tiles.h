// SPDX-License-Identifier: MIT
// Boxes for element-wise work: one dimension is cut, everything outside it goes index by index, everything inside is
// whole.
#ifndef NPU_COMPILER_BOX_TILES_H
#define NPU_COMPILER_BOX_TILES_H

#include <algorithm>

#include "compiler/kernels/kernel.h"

namespace npu::compiler {

/// The box that is cut at dimension `split` into pieces of `chunk`.
inline Shape box_of(const Shape &dims, size_t split, int64_t chunk) {
  Shape box = dims;
  for (size_t i = 0; i < split; ++i) box[i] = 1;
  box[split] = chunk;
  return box;
}

inline int64_t box_count(const Shape &dims, size_t split, int64_t chunk) {
  int64_t n = tiles_of(dims[split], chunk);
  for (size_t i = 0; i < split; ++i) n *= dims[i];
  return n;
}

/// Calls f(start, box) for all boxes in row-major order.
template <class F>
void for_boxes(const Shape &dims, size_t split, int64_t chunk, F f) {
  Shape start(dims.size(), 0);
  for (;;) {
    Shape box = box_of(dims, split, std::min(chunk, dims[split] - start[split]));
    f(start, box);
    start[split] += chunk;
    if (start[split] < dims[split]) continue;
    start[split] = 0;
    size_t d = split;
    while (d > 0 && ++start[d - 1] == dims[d - 1]) start[--d] = 0;
    if (d == 0) return;
  }
}

/// Calls f(split, chunk) for the ways to cut that are worth trying, coarse to fine.
template <class F>
void for_cuts(const Shape &dims, F f) {
  for (size_t split = 0; split < dims.size(); ++split)
    for (int64_t chunk : tile_sizes(dims[split]))
      if (split == 0 || chunk < dims[split] || split + 1 == dims.size()) f(split, chunk);
}

}  // namespace npu::compiler

#endif  // NPU_COMPILER_BOX_TILES_H
