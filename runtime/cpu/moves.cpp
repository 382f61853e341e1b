// SPDX-License-Identifier: MIT
#include <cstring>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

/// n elements of that type, at steps counted in elements.
void copy_row(Dtype type, const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step, int64_t n) {
  with_size(type, [&](auto size) {
    constexpr auto kBytes = static_cast<int64_t>(size());
    if (from_step == 1 && to_step == 1)
      std::memcpy(to, from, static_cast<size_t>(n * kBytes));
    else
      for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step * kBytes, from + i * from_step * kBytes, size());
  });
}

}  // namespace

void strided_copy(const Tensor &x, int64_t offset, const std::vector<int64_t> &strides, Tensor &out) {
  const int64_t size = dtype_bytes(x.dtype);
  Walk<1>(out.shape, {strides}).rows({offset}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    copy_row(x.dtype, x.data.data() + at[0] * size, step[0], out.data.data() + first * size, 1, n);
  });
}

void transpose(const TransposeAttrs &attrs, const Tensor &x, Tensor &out) {
  const std::vector<int64_t> dense = dense_strides(x.shape);
  std::vector<int64_t> strides;
  for (int p : attrs.perm) strides.push_back(dense[static_cast<size_t>(p)]);
  strided_copy(x, 0, strides, out);
}

void slice(const SliceAttrs &attrs, const Tensor &x, Tensor &out) {
  if (!out.count()) return;  // places are outside, perhaps
  std::vector<int64_t> strides = dense_strides(x.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += attrs.start[d] * strides[d];
    strides[d] *= attrs.count[d] > 1 ? attrs.step[d] : 0;  // a step that is not taken may be anything
  }
  strided_copy(x, offset, strides, out);
}

void expand(const Tensor &x, Tensor &out) { strided_copy(x, 0, broadcast_strides(x.shape, out.shape), out); }

namespace {

/// Bytes of the part of a tensor that lies inside an axis.
size_t inner_bytes(const Tensor &t, int axis) {
  size_t n = dtype_bytes(t.dtype);
  for (size_t i = static_cast<size_t>(axis) + 1; i < t.shape.size(); ++i) n *= static_cast<size_t>(t.shape[i]);
  return n;
}

int64_t outer_count(const Tensor &t, int axis) { return element_count(Shape(t.shape.begin(), t.shape.begin() + axis)); }

}  // namespace

void concat(int axis, std::span<const Tensor *const> parts, Tensor &out) {
  const size_t row = inner_bytes(out, axis) * static_cast<size_t>(out.shape[static_cast<size_t>(axis)]);
  const int64_t outer = outer_count(out, axis);
  size_t at = 0;
  for (const Tensor *p : parts) {
    const size_t bytes = inner_bytes(*p, axis) * static_cast<size_t>(p->shape[static_cast<size_t>(axis)]);
    for (int64_t i = 0; i < outer && bytes; ++i)
      std::memcpy(out.data.data() + static_cast<size_t>(i) * row + at, p->data.data() + static_cast<size_t>(i) * bytes,
                  bytes);
    at += bytes;
  }
}

void pad(const PadAttrs &attrs, const Tensor &x, Tensor &out) {
  Tensor value(x.dtype, {});
  store(value, 0, attrs.value);
  strided_copy(value, 0, std::vector<int64_t>(out.shape.size(), 0), out);
  const std::vector<int64_t> strides = dense_strides(out.shape);
  const int64_t size = dtype_bytes(x.dtype);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += attrs.begin[d] * strides[d];
  Walk<1>(x.shape, {strides}).rows({offset}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    copy_row(x.dtype, x.data.data() + first * size, 1, out.data.data() + at[0] * size, step[0], n);
  });
}

Status gather(int axis, const Tensor &x, const Tensor &indices, Tensor &out) {
  const auto d = static_cast<size_t>(axis);
  std::vector<int64_t> picks(static_cast<size_t>(indices.count()));
  for (size_t k = 0; k < picks.size(); ++k)
    NPU_TRY(load_index(indices, static_cast<int64_t>(k), d, x.shape[d], picks[k]));
  const size_t bytes = inner_bytes(x, axis), row = bytes * static_cast<size_t>(x.shape[d]);
  const int64_t outer = outer_count(x, axis);
  uint8_t *to = out.data.data();
  for (int64_t i = 0; bytes && i < outer; ++i)
    for (int64_t pick : picks) {
      std::memcpy(to, x.data.data() + static_cast<size_t>(i) * row + static_cast<size_t>(pick) * bytes, bytes);
      to += bytes;
    }
  return {};
}

}  // namespace npu::cpu
