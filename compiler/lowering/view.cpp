// SPDX-License-Identifier: MIT
#include "compiler/lowering/view.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace npu::compiler {

View dense_view(int storage, const Shape &dims) { return {storage, 0, dims, graph::dense_strides(dims)}; }

View ordered_view(int storage, const Shape &dims, const std::vector<int> &order) {
  View v{storage, 0, dims, Strides(dims.size())};
  int64_t run = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    v.strides[d] = run;
    run *= dims[d];
  }
  return v;
}

View permuted(const View &v, const std::vector<int> &perm) {
  View out{v.storage, v.offset, {}, {}};
  for (int p : perm) {
    out.dims.push_back(v.dims[static_cast<size_t>(p)]);
    out.strides.push_back(v.strides[static_cast<size_t>(p)]);
  }
  return out;
}

View sliced(const View &v, const std::vector<int64_t> &start, const std::vector<int64_t> &step, const Shape &dims) {
  View out{v.storage, v.offset, dims, v.strides};
  for (size_t i = 0; i < dims.size(); ++i) {
    out.offset += start[i] * v.strides[i];
    out.strides[i] *= step[i];
  }
  return out;
}

View expanded(const View &v, const Shape &dims) {
  View out{v.storage, v.offset, dims, Strides(dims.size(), 0)};
  const size_t shift = dims.size() - v.dims.size();
  for (size_t i = 0; i < v.dims.size(); ++i)
    if (v.dims[i] != 1) out.strides[i + shift] = v.strides[i];
  return out;
}

std::optional<View> reshaped(const View &v, const Shape &dims) {
  Shape from;
  Strides step;
  for (size_t i = 0; i < v.dims.size(); ++i) {
    if (v.dims[i] == 1) continue;
    from.push_back(v.dims[i]);
    step.push_back(v.strides[i]);
  }
  View out{v.storage, v.offset, dims, Strides(dims.size(), 1)};
  size_t i = 0, j = 0;
  while (i < from.size() || j < dims.size()) {
    // The smallest groups of old and new dimensions with equal products.
    const size_t i0 = i, j0 = j;
    int64_t a = i < from.size() ? from[i++] : 1, b = j < dims.size() ? dims[j++] : 1;
    while (a != b) {
      if (a < b)
        a *= from[i++];
      else
        b *= dims[j++];
    }
    for (size_t k = i0; k + 1 < i; ++k)
      if (step[k] != step[k + 1] * from[k + 1]) return std::nullopt;
    int64_t run = i > i0 ? step[i - 1] : 1;
    for (size_t k = j; k-- > j0;) {
      out.strides[k] = run;
      run *= dims[k];
    }
  }
  return out;
}

std::vector<int> memory_order(const View &v) {
  std::vector<int> order(v.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (v.dims[i] == 1 || v.dims[j] == 1) return false;
    return std::abs(v.strides[i]) > std::abs(v.strides[j]);
  });
  return order;
}

bool is_dense(const Shape &dims, const Strides &strides) {
  int64_t run = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (strides[i] != run) return false;
    run *= dims[i];
  }
  return true;
}

std::optional<View> as_picture(const View &v) {
  if (v.dims.size() == 4) return permuted(v, {0, 2, 3, 1});
  if (v.dims.size() != 3) return std::nullopt;
  return View{v.storage, v.offset, {v.dims[0], v.dims[2], 1, v.dims[1]}, {v.strides[0], v.strides[2], 0, v.strides[1]}};
}

bool same_places(const View &a, const View &b) {
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return false;
  return a.offset == b.offset;
}

bool covers(const View &v, int64_t elements) {
  if (v.offset != 0 || v.count() != elements) return false;
  const View sorted = permuted(v, memory_order(v));
  return is_dense(sorted.dims, sorted.strides);
}

Reach reach(int64_t out, int64_t outs, int64_t stride, int64_t pad, int64_t dilation, int64_t kernel, int64_t size) {
  const int64_t low = out * stride - pad, high = (out + outs - 1) * stride - pad + (kernel - 1) * dilation;
  const int64_t first = std::clamp<int64_t>(low, 0, size - 1), last = std::clamp<int64_t>(high, 0, size - 1);
  return {first, last - first + 1, first - low};
}

int64_t traffic(const Shape &dims, const Strides &strides, int64_t element_bytes) {
  std::vector<std::pair<int64_t, int64_t>> sorted;  // stride, size
  int64_t total = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    total *= dims[i];
    if (dims[i] != 1 && strides[i] > 0) sorted.emplace_back(strides[i], dims[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  int64_t run = 1;
  for (const auto &[stride, size] : sorted) {
    if (stride != run) break;
    run *= size;
  }
  return total / run * ((run * element_bytes + 63) / 64 * 64);
}

void collapse(Shape &dims, const std::vector<Strides *> &strides) {
  Shape out;
  std::vector<Strides> kept(strides.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    bool merges = !out.empty();
    for (size_t k = 0; k < strides.size() && merges; ++k) merges = kept[k].back() == (*strides[k])[i] * dims[i];
    if (merges)
      out.back() *= dims[i];
    else
      out.push_back(dims[i]);
    for (size_t k = 0; k < strides.size(); ++k) {
      if (merges)
        kept[k].back() = (*strides[k])[i];
      else
        kept[k].push_back((*strides[k])[i]);
    }
  }
  if (out.empty()) {
    out.push_back(1);
    for (Strides &k : kept) k.push_back(0);
  }
  dims = std::move(out);
  for (size_t k = 0; k < strides.size(); ++k) *strides[k] = std::move(kept[k]);
}

}  // namespace npu::compiler
