// SPDX-License-Identifier: MIT
// Strided shapes: reducing them to few dimensions and moving elements between two of them in host memory.
#ifndef NPU_MODEL_STRIDED_H
#define NPU_MODEL_STRIDED_H

#include <cstdint>
#include <utility>

namespace npu::model {

/// The elements of a transfer with their distance in bytes on both sides, outermost dimension first.
struct Strided {
  static constexpr unsigned kDims = 6;
  unsigned count = 0;  ///< dimensions, at least 1
  uint32_t size = 0;   ///< bytes of an element
  uint64_t dims[kDims] = {};
  int64_t dst[kDims] = {};
  int64_t src[kDims] = {};

  uint64_t elements() const;
  uint64_t bytes() const { return elements() * size; }
  /// True if the elements of the destination follow each other without a gap, in order; likewise the source.
  bool dense_dst() const { return count == 1 && dst[0] == size; }
  bool dense_src() const { return count == 1 && src[0] == size; }

  /// Drops dimensions of 1.
  void squeeze();
  /// Can two destination elements be the same? Never says no wrongly.
  bool may_overlap() const;
  /// For destinations that do not overlap, where the order of elements is free: makes their strides positive and
  /// descending and joins dimensions that continue each other. Returns what this adds to the destination's and the
  /// source's first offset.
  void normalise(int64_t &dst_first, int64_t &src_first);
};

/// Sorts a few dimension numbers so that `before` holds between neighbours.
template <class Before>
void sort_dims(unsigned *order, unsigned n, Before before) {
  for (unsigned i = 1; i < n; ++i)
    for (unsigned j = i; j > 0 && before(order[j], order[j - 1]); --j) std::swap(order[j - 1], order[j]);
}

/// Lowest and highest byte (exclusive) of a strided range, from its first element.
struct Hull {
  int64_t low = 0, high = 0;
};
Hull hull(const Strided &shape, const int64_t (&stride)[Strided::kDims]);

/// A side of a transfer in host memory.
struct View {
  const uint8_t *data = nullptr;  ///< first element
  int64_t stride[Strided::kDims] = {};
};

/// Copies shape's elements from a view to dst, whose strides are the shape's. The destination does not overlap.
void move_elements(const Strided &shape, uint8_t *dst, const View &src);
/// Fills the destination with the low shape.size bytes of value.
void fill_elements(const Strided &shape, uint8_t *dst, uint64_t value);

}  // namespace npu::model

#endif  // NPU_MODEL_STRIDED_H
