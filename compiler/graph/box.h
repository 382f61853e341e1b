// SPDX-License-Identifier: MIT
// Parts of tensors: a range of each dimension.
#ifndef NPU_GRAPH_BOX_H
#define NPU_GRAPH_BOX_H

#include "compiler/graph/ir.h"

namespace npu::graph {

/// Indices [begin, end) of a dimension.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range &) const = default;
};
/// A range of each dimension of a tensor.
using Box = std::vector<Range>;

Box whole_box(const Shape &shape);
/// What two boxes have in common; ranges that do not meet are empty, or end before they begin.
Box common(const Box &a, const Box &b);
/// The least range that holds both.
Range hull(Range a, Range b);
/// The least box that holds both; an empty list holds nothing.
Box hull(const Box &a, const Box &b);
bool inside(const Box &a, const Box &b);
bool is_empty(const Box &box);

Shape shape_of(const Box &box);
/// Where a box begins within another one.
std::vector<int64_t> begin_in(const Box &from, const Box &box);
/// The attributes of the Slice that takes a box out of another one.
SliceAttrs slice_attrs(const Box &from, const Box &box);
/// A box of a constant.
TensorPtr slice_constant(const Tensor &tensor, const Box &box);

}  // namespace npu::graph

#endif  // NPU_GRAPH_BOX_H
