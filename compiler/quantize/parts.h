// SPDX-License-Identifier: MIT
// Parts of a tensor whose numbers have magnitudes of their own: the tensors that it was concatenated of, and groups of
// indices of one dimension. One cosine or one scale for all of them says nothing about the small ones.
#ifndef NPU_QUANTIZE_PARTS_H
#define NPU_QUANTIZE_PARTS_H

#include "compiler/graph/ir.h"
#include "compiler/quantize/result.h"

namespace npu::quantize {

/// The tensors that a value was concatenated of.
struct Pieces {
  std::vector<std::string> names;  ///< empty: it was not concatenated
  std::vector<uint8_t> of;         ///< for each element of the value: index of its piece

  bool empty() const { return names.empty(); }
};

/// Goes back from a value through moves and element-wise operators to the Concat nodes in front of them. `names`: those
/// of all values (tensor_names).
Pieces find_pieces(const graph::Graph &graph, graph::ValueId v, const std::vector<std::string> &names);

/// Ranges of a tensor's slices: for each dimension and each index of it, and for each piece. Infinite numbers and NaN
/// have no part in them.
class Slices {
 public:
  Slices() = default;
  Slices(const graph::Shape &shape, const Pieces &pieces);

  void add(const float *numbers, const Pieces &pieces);
  void merge(const Slices &other);

  const std::vector<std::vector<Range>> &axes() const { return axes_; }
  const std::vector<Range> &pieces() const { return pieces_; }

 private:
  graph::Shape shape_;
  std::vector<std::vector<Range>> axes_;
  std::vector<Range> pieces_;
};

/// Indices of one dimension, or one piece.
struct Part {
  std::string name;  ///< "part 'scores'", "indices 4-83 of dimension 1"
  Range range;       ///< with 0
};

/// All parts of a tensor. A dimension whose slices have similar ranges has none.
class Parts {
 public:
  Parts() = default;
  Parts(const graph::Shape &shape, const Pieces &pieces, const Slices &slices);

  const std::vector<Part> &list() const { return list_; }
  /// Adds the differences of each part.
  void add(const float *wanted, const float *got, std::vector<Difference> &out) const;

 private:
  /// A way to cut the tensor: runs of elements, each of which belongs to a part or to none.
  struct Cut {
    int64_t run = 1;        ///< elements
    std::vector<int> part;  ///< of each run, repeated to the end of the tensor; -1: none
  };

  void cut_pieces(const Pieces &pieces, const std::vector<Range> &ranges);
  void cut_axis(size_t axis, const std::vector<Range> &ranges);

  graph::Shape shape_;
  std::vector<Part> list_;
  std::vector<Cut> cuts_;
};

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_PARTS_H
