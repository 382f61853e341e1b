// SPDX-License-Identifier: MIT
#include "compiler/kernels/emitter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "compiler/lowering/chip_types.h"
#include "runtime/cpu/element.h"

namespace npu::compiler {

namespace {

constexpr size_t kDims = 6;

/// Reorders dimensions so that one side's strides fall; repeated ones (stride 0) go outermost, where they do not break
/// a row.
void order_by(Shape &dims, Strides &by, Strides &other) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t sa = by[a] ? std::abs(by[a]) : INT64_MAX, sb = by[b] ? std::abs(by[b]) : INT64_MAX;
    return sa > sb;
  });
  const Shape d = dims;
  const Strides s = by, o = other;
  for (size_t i = 0; i < order.size(); ++i) {
    dims[i] = d[order[i]];
    by[i] = s[order[i]];
    other[i] = o[order[i]];
  }
}

npu_cmd_copy make_copy(const Shape &dims, const End &src, const End &dst) {
  auto c = hw::make<npu_cmd_copy>();
  c.src_offset = static_cast<uint64_t>(src.base);
  c.dst_offset = static_cast<uint64_t>(dst.base);
  c.src_region = c.dst_region = NPU_REGION_LOCAL;
  if (src.storage >= 0) c.src_region = 0;
  if (dst.storage >= 0) c.dst_region = 0;
  c.src_dtype = chip_type(src.type);
  c.dst_dtype = chip_type(dst.type);
  std::fill(std::begin(c.dims), std::end(c.dims), 1u);
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t k = kDims - dims.size() + i;
    c.dims[k] = static_cast<uint32_t>(dims[i]);
    c.src_stride[k] = static_cast<int32_t>(src.strides[i]);
    c.dst_stride[k] = static_cast<int32_t>(dst.strides[i]);
  }
  return c;
}

}  // namespace

int64_t append_vectors(Coefficients &coeff, const graph::TensorPtr &bias, const graph::TensorPtr &multiplier,
                       int64_t first, int64_t count) {
  constexpr int64_t kBytes = 4;
  if (!bias && !multiplier) return 0;
  std::vector<graph::TensorPtr> vectors;
  Coefficients::Key key{bias ? bias.get() : multiplier.get(), {first, count}};
  for (const graph::TensorPtr &t : {bias, multiplier}) {
    if (t) vectors.push_back(t);
    key.cut.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(t.get())));
  }
  const auto write = [vectors, first, count](uint8_t *out) {
    for (const graph::TensorPtr &t : vectors) out = std::copy_n(t->data.begin() + first * kBytes, count * kBytes, out);
  };
  return coeff.append(key, {{static_cast<int64_t>(vectors.size()) * count * kBytes, write}})[0];
}

void Emitter::push_copy(const Shape &dims, const End &src, const End &dst) {
  if (dims.size() > kDims) {
    End s = src, d = dst;
    s.strides.erase(s.strides.begin());
    d.strides.erase(d.strides.begin());
    const Shape inner(dims.begin() + 1, dims.end());
    for (int64_t i = 0; i < dims[0]; ++i) {
      push_copy(inner, s, d);
      s.base += src.strides[0] * graph::dtype_bytes(src.type);
      d.base += dst.strides[0] * graph::dtype_bytes(dst.type);
    }
    return;
  }
  npu_cmd_copy c = make_copy(dims, src, dst);
  c.layer = layer;
  commands.push_back({c, src.storage, dst.storage});
}

void Emitter::copy(const Shape &dims, const End &src, const End &dst) {
  struct Variant {
    Shape dims;
    End src, dst;
    uint64_t bytes = 0;
  } best;
  for (int by_dst = 0; by_dst < 2; ++by_dst) {
    Variant v{dims, src, dst};
    collapse(v.dims, {&v.src.strides, &v.dst.strides});
    if (by_dst)
      order_by(v.dims, v.dst.strides, v.src.strides);
    else
      order_by(v.dims, v.src.strides, v.dst.strides);
    collapse(v.dims, {&v.src.strides, &v.dst.strides});
    if (v.dims.size() <= kDims) v.bytes = hw::cost_detail::cost(make_copy(v.dims, v.src, v.dst), {}).flow_bytes;
    if (!by_dst || v.bytes < best.bytes) best = std::move(v);
  }
  push_copy(best.dims, best.src, best.dst);
}

namespace {

/// The bits of a number in a type that fills may have.
uint64_t bits_of(float value, graph::Dtype type) {
  graph::Tensor number(type, {});
  cpu::store(number, 0, static_cast<double>(value));
  uint64_t bits = 0;
  std::ranges::copy(number.data, reinterpret_cast<uint8_t *>(&bits));
  return bits;
}

}  // namespace

void Emitter::fill(const Shape &dims, float value, const End &dst) {
  Shape d = dims;
  Strides s = dst.strides, ignored(s.size(), 0);
  order_by(d, s, ignored);
  collapse(d, {&s});
  const size_t outer = d.size() > kDims ? d.size() - kDims : 0;
  Shape index(outer, 0);
  for (int64_t n = graph::element_count(Shape(d.begin(), d.begin() + static_cast<int64_t>(outer))); n > 0; --n) {
    auto c = hw::make<npu_cmd_fill>();
    c.value = bits_of(value, dst.type);
    c.layer = layer;
    c.dst_region = dst.storage >= 0 ? 0 : NPU_REGION_LOCAL;
    c.dst_dtype = chip_type(dst.type);
    int64_t base = dst.base;
    for (size_t i = 0; i < outer; ++i) base += index[i] * s[i] * graph::dtype_bytes(dst.type);
    c.dst_offset = static_cast<uint64_t>(base);
    std::fill(std::begin(c.dims), std::end(c.dims), 1u);
    for (size_t i = outer; i < d.size(); ++i) {
      c.dims[kDims - d.size() + i] = static_cast<uint32_t>(d[i]);
      c.dst_stride[kDims - d.size() + i] = static_cast<int32_t>(s[i]);
    }
    commands.push_back({c, -1, dst.storage});
    for (size_t i = outer; i-- > 0;) {
      if (++index[i] < d[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace npu::compiler
