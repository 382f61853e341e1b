// SPDX-License-Identifier: MIT
// Strided windows on storages. A storage is a run of elements of one type that lies in memory or in local memory, with
// the same order in both; a view says where in it the elements of a tensor are. Transposes, reshapes, slices and
// concatenations are views wherever strides can express them.
//
// A view has no type of its own: its elements are what its storage has. Another type takes a command that converts, and
// with it another storage.
#ifndef NPU_COMPILER_VIEW_H
#define NPU_COMPILER_VIEW_H

#include <optional>

#include "compiler/graph/tensor.h"

namespace npu::compiler {

using graph::Shape;
using Strides = std::vector<int64_t>;

struct View {
  int storage = -1;
  int64_t offset = 0;  ///< of the first element
  Shape dims;
  Strides strides;  ///< in elements, may be 0 (repetition) or negative

  int64_t count() const { return graph::element_count(dims); }
};

View dense_view(int storage, const Shape &dims);
/// Dense in memory in the order of the dimensions that `order` lists, outermost first.
View ordered_view(int storage, const Shape &dims, const std::vector<int> &order);
View permuted(const View &v, const std::vector<int> &perm);
View sliced(const View &v, const std::vector<int64_t> &start, const std::vector<int64_t> &step, const Shape &dims);
View expanded(const View &v, const Shape &dims);
/// The same elements in another shape; nullopt when strides cannot express it.
std::optional<View> reshaped(const View &v, const Shape &dims);

/// [n, c, w] or [n, c, h, w] as [n, h, w, c]; nullopt for other ranks.
std::optional<View> as_picture(const View &v);
/// Whether two views of one shape have each element at the same offset.
bool same_places(const View &a, const View &b);

/// The dimensions from the outermost in memory to the innermost.
std::vector<int> memory_order(const View &v);
/// Whether a box of these dimensions is one dense row-major run.
bool is_dense(const Shape &dims, const Strides &strides);
/// Whether the view covers `elements` elements, each once.
bool covers(const View &v, int64_t elements);

/// The rows (or columns) of the input that a run of outputs sees, never empty, and the padding in front of them.
struct Reach {
  int64_t first, count, pad;
};
Reach reach(int64_t out, int64_t outs, int64_t stride, int64_t pad, int64_t dilation, int64_t kernel, int64_t size);

/// Bytes of memory traffic of a strided transfer of a box of such elements, as the cost model counts them for the best
/// order of dimensions.
int64_t traffic(const Shape &dims, const Strides &strides, int64_t element_bytes);

/// Merges neighbouring dimensions that all given stride lists step through alike, and drops dimensions of 1.
void collapse(Shape &dims, const std::vector<Strides *> &strides);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_VIEW_H
