// SPDX-License-Identifier: MIT
// Parts of a tensor whose numbers have magnitudes of their own: the tensors that it was concatenated from (pieces), and
// groups of indices of one dimension. One cosine or one scale for all of them says nothing about the small ones.
#ifndef NPU_QUANTIZE_PARTS_H
#define NPU_QUANTIZE_PARTS_H

#include "compiler/graph/output_parts.h"
#include "compiler/quantize/result.h"

namespace npu::quantize {

/// Ranges of a tensor's slices: one for each index of each dimension, and one for each piece. Infinite numbers and NaN
/// are left out.
class Slices {
 public:
  Slices() = default;
  Slices(const graph::Shape &shape, const graph::OutputParts &pieces);

  void add(const float *numbers, const graph::OutputParts &pieces);
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
  Parts(const graph::Shape &shape, const graph::OutputParts &pieces, const Slices &slices);

  const std::vector<Part> &list() const { return list_; }
  /// Adds the differences of each part.
  void add(const float *wanted, const float *got, std::vector<Difference> &out) const;

 private:
  /// A way to cut the tensor: runs of elements, each of which belongs to a part or to none.
  struct Cut {
    int64_t run = 1;        ///< elements
    std::vector<int> part;  ///< index of each run's part, repeated to the end of the tensor; -1: none
  };

  void cut_pieces(const graph::OutputParts &pieces, const std::vector<Range> &ranges);
  void cut_axis(size_t axis, const std::vector<Range> &ranges);

  graph::Shape shape_;
  std::vector<Part> list_;
  std::vector<Cut> cuts_;
};

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_PARTS_H
