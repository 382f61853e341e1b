// SPDX-License-Identifier: MIT
#include "compiler/graph/box.h"

#include <algorithm>

namespace npu::graph {

Box whole_box(const Shape &shape) {
  Box box;
  for (int64_t size : shape) box.push_back({0, size});
  return box;
}

Box common(const Box &a, const Box &b) {
  Box out;
  for (size_t d = 0; d < a.size(); ++d) out.push_back({std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)});
  return out;
}

Range hull(Range a, Range b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

Box hull(const Box &a, const Box &b) {
  if (a.empty()) return b;
  Box out = a;
  for (size_t d = 0; d < a.size() && !b.empty(); ++d) out[d] = hull(a[d], b[d]);
  return out;
}

bool inside(const Box &a, const Box &b) {
  for (size_t d = 0; d < a.size(); ++d)
    if (a[d].begin < b[d].begin || a[d].end > b[d].end) return false;
  return true;
}

bool is_empty(const Box &box) {
  return std::any_of(box.begin(), box.end(), [](Range r) { return r.size() <= 0; });
}

Shape shape_of(const Box &box) {
  Shape shape;
  for (Range r : box) shape.push_back(r.size());
  return shape;
}

std::vector<int64_t> begin_in(const Box &from, const Box &box) {
  std::vector<int64_t> begin;
  for (size_t d = 0; d < box.size(); ++d) begin.push_back(box[d].begin - from[d].begin);
  return begin;
}

SliceAttrs slice_attrs(const Box &from, const Box &box) {
  return {begin_in(from, box), std::vector<int64_t>(box.size(), 1), shape_of(box)};
}

TensorPtr slice_constant(const Tensor &tensor, const Box &box) {
  auto part = std::make_shared<Tensor>(tensor.dtype, shape_of(box));
  const Tensor *operands[] = {&tensor};
  // A slice of what is there cannot fail.
  (void)cpu::evaluate(Op::Slice, slice_attrs(whole_box(tensor.shape), box), operands, *part);
  return part;
}

}  // namespace npu::graph
