// SPDX-License-Identifier: MIT
#include <cstring>

#include "runtime/cpu/operators.h"

namespace npu::cpu {

void strided_copy(const Tensor &x, int64_t offset, const std::vector<int64_t> &strides, Tensor &out) {
  const size_t size = dtype_bytes(x.dtype);
  const int64_t n = out.count();
  std::vector<int64_t> index(out.shape.size());
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out.data.data() + static_cast<size_t>(i) * size, x.data.data() + static_cast<size_t>(offset) * size,
                size);
    for (size_t d = out.shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < out.shape[d]) break;
      offset -= strides[d] * out.shape[d];
      index[d] = 0;
    }
  }
}

void transpose(const TransposeAttrs &attrs, const Tensor &x, Tensor &out) {
  const std::vector<int64_t> dense = dense_strides(x.shape);
  std::vector<int64_t> strides;
  for (int p : attrs.perm) strides.push_back(dense[static_cast<size_t>(p)]);
  strided_copy(x, 0, strides, out);
}

void slice(const SliceAttrs &attrs, const Tensor &x, Tensor &out) {
  std::vector<int64_t> strides = dense_strides(x.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += attrs.start[d] * strides[d];
    strides[d] *= attrs.step[d];
  }
  strided_copy(x, offset, strides, out);
}

void expand(const Tensor &x, Tensor &out) {
  const std::vector<int64_t> dense = dense_strides(x.shape);
  std::vector<int64_t> strides(out.shape.size(), 0);
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (x.shape[d] != 1) strides[d + out.shape.size() - x.shape.size()] = dense[d];
  strided_copy(x, 0, strides, out);
}

namespace {

/// Bytes of the part of a tensor that lies inside an axis.
size_t inner_bytes(const Tensor &t, int axis) {
  size_t n = dtype_bytes(t.dtype);
  for (size_t i = static_cast<size_t>(axis) + 1; i < t.shape.size(); ++i) n *= static_cast<size_t>(t.shape[i]);
  return n;
}

int64_t outer_count(const Tensor &t, int axis) { return element_count(Shape(t.shape.begin(), t.shape.begin() + axis)); }

}  // namespace

void concat(int axis, const std::vector<const Tensor *> &parts, Tensor &out) {
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
  for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = attrs.value;
  const std::vector<int64_t> strides = dense_strides(out.shape);
  std::vector<int64_t> index(x.shape.size());
  int64_t to = 0;
  for (size_t d = 0; d < x.shape.size(); ++d) to += attrs.begin[d] * strides[d];
  for (int64_t i = 0; i < x.count(); ++i) {
    out.as<float>()[to] = x.as<float>()[i];
    for (size_t d = x.shape.size(); d-- > 0;) {
      to += strides[d];
      if (++index[d] < x.shape[d]) break;
      to -= strides[d] * x.shape[d];
      index[d] = 0;
    }
  }
}

void gather(int axis, const Tensor &x, const Tensor &index, Tensor &out) {
  const size_t bytes = inner_bytes(x, axis), row = bytes * static_cast<size_t>(x.shape[static_cast<size_t>(axis)]);
  const int64_t outer = outer_count(x, axis), picks = index.count();
  uint8_t *to = out.data.data();
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t k = 0; k < picks; ++k, to += bytes)
      if (bytes)
        std::memcpy(to,
                    x.data.data() + static_cast<size_t>(i) * row + static_cast<size_t>(index.as<int64_t>()[k]) * bytes,
                    bytes);
}

}  // namespace npu::cpu
