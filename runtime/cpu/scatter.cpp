// SPDX-License-Identifier: MIT
// Moves to and from places that indices name: chunks of neighbouring elements, one for each place.
#include <cstring>
#include <utility>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

/// Where the chunks begin in the whole tensor, in the order of the indices.
struct Places {
  std::vector<int64_t> at;
  int64_t chunk = 1;
};

/// Of GatherElements and ScatterElements: the place of an index itself, moved along the axis.
Status element_places(int axis, const Shape &shape, const Tensor &indices, Places &out) {
  std::vector<int64_t> strides = dense_strides(shape);
  const auto d = static_cast<size_t>(axis);
  const int64_t stride = std::exchange(strides[d], 0);
  out.at.resize(static_cast<size_t>(indices.count()));
  Status status;
  Walk<1>(indices.shape, {strides}).rows({}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    for (int64_t i = 0; i < n && status.ok(); ++i) {
      int64_t index = 0;
      status = load_index(indices, first + i, d, shape[d], index);
      out.at[static_cast<size_t>(first + i)] = at[0] + i * step[0] + index * stride;
    }
  });
  return status;
}

/// Of GatherNd and ScatterNd: a row of indices names the dimensions behind the first `batch_dims`.
Status row_places(int batch_dims, const Shape &shape, const Tensor &indices, Places &out) {
  const auto batched = static_cast<size_t>(batch_dims), named = static_cast<size_t>(indices.shape.back());
  const std::vector<int64_t> strides = dense_strides(shape);
  out.chunk = strides[batched + named - 1];
  const int64_t rows = element_count(Shape(indices.shape.begin(), indices.shape.end() - 1));
  const int64_t batches = element_count(Shape(shape.begin(), shape.begin() + batch_dims));
  out.at.resize(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = batched ? row / (rows / batches) * strides[batched - 1] : 0;
    for (size_t k = 0; k < named; ++k) {
      const size_t d = batched + k;
      int64_t index;
      NPU_TRY(load_index(indices, row * static_cast<int64_t>(named) + static_cast<int64_t>(k), d, shape[d], index));
      at += index * strides[d];
    }
    out.at[static_cast<size_t>(row)] = at;
  }
  return {};
}

void gather_places(const Tensor &x, const Places &places, Tensor &out) {
  const size_t size = dtype_bytes(x.dtype), bytes = static_cast<size_t>(places.chunk) * size;
  uint8_t *to = out.data.data();
  for (size_t i = 0; bytes && i < places.at.size(); ++i, to += bytes)
    std::memcpy(to, x.data.data() + static_cast<size_t>(places.at[i]) * size, bytes);
}

template <class T, class F>
void combine(const Places &places, const Tensor &updates, Tensor &out, F f) {
  const T *from = updates.as<T>();
  for (int64_t at : places.at)
    for (int64_t k = 0; k < places.chunk; ++k, ++from) out.as<T>()[at + k] = f(out.as<T>()[at + k], *from);
}

void scatter_places(Reduction reduction, const Places &places, const Tensor &updates, Tensor &out) {
  if (reduction == Reduction::None) {
    const size_t size = dtype_bytes(out.dtype), bytes = static_cast<size_t>(places.chunk) * size;
    const uint8_t *from = updates.data.data();
    for (size_t i = 0; bytes && i < places.at.size(); ++i, from += bytes)
      std::memcpy(out.data.data() + static_cast<size_t>(places.at[i]) * size, from, bytes);
    return;
  }
  with_number(out.dtype, [&](auto type) {
    using T = decltype(type);
    if (reduction == Reduction::Add) return combine<T>(places, updates, out, plus<T>);
    if (reduction == Reduction::Mul) return combine<T>(places, updates, out, times<T>);
    if (reduction == Reduction::Max) return combine<T>(places, updates, out, maximum<T>);
    return combine<T>(places, updates, out, minimum<T>);
  });
}

}  // namespace

Status gather_elements(int axis, const Tensor &x, const Tensor &indices, Tensor &out) {
  Places places;
  NPU_TRY(element_places(axis, x.shape, indices, places));
  gather_places(x, places, out);
  return {};
}

Status gather_nd(int batch_dims, const Tensor &x, const Tensor &indices, Tensor &out) {
  Places places;
  NPU_TRY(row_places(batch_dims, x.shape, indices, places));
  gather_places(x, places, out);
  return {};
}

Status scatter_elements(const ScatterAttrs &attrs, const Tensor &x, const Tensor &indices, const Tensor &updates,
                        Tensor &out) {
  Places places;
  NPU_TRY(element_places(attrs.axis, x.shape, indices, places));
  out.data = x.data;
  scatter_places(attrs.reduction, places, updates, out);
  return {};
}

Status scatter_nd(Reduction reduction, const Tensor &x, const Tensor &indices, const Tensor &updates, Tensor &out) {
  Places places;
  NPU_TRY(row_places(0, x.shape, indices, places));
  out.data = x.data;
  scatter_places(reduction, places, updates, out);
  return {};
}

}  // namespace npu::cpu
