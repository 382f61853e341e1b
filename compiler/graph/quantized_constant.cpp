// SPDX-License-Identifier: MIT
#include "compiler/graph/quantized_constant.h"

#include <algorithm>
#include <limits>

namespace npu::graph {
namespace {

int64_t product(const Shape &shape, size_t begin, size_t end) {
  return element_count(
      Shape(shape.begin() + static_cast<std::ptrdiff_t>(begin), shape.begin() + static_cast<std::ptrdiff_t>(end)));
}

/// The dimension of `to` that has the same elements as dimension `axis` of `from`, in the same order; false: none.
bool reshaped_axis(const Shape &from, const Shape &to, size_t &axis) {
  const int64_t before = product(from, 0, axis), length = from[axis];
  for (size_t d = 0; d < to.size(); ++d)
    if (to[d] == length && product(to, 0, d) == before) {
      axis = d;
      return true;
    }
  return false;
}

/// q - zero of each element.
template <class F>
void for_differences(const Tensor &integers, std::span<const int32_t> zeros, size_t axis, F f) {
  const int64_t inner = zeros.size() > 1 ? product(integers.shape, axis + 1, integers.shape.size()) : 1;
  const int64_t n = integers.count();
  for (int64_t i = 0; i < n; ++i) {
    const int32_t q = integers.dtype == Dtype::I8 ? integers.as<int8_t>()[i] : integers.as<uint8_t>()[i];
    f(i, q - zeros[zeros.size() > 1 ? static_cast<size_t>(i / inner) % zeros.size() : 0]);
  }
}

}  // namespace

bool moved_axis(const Node &n, const Shape &from, size_t &axis) {
  if (n.op == Op::Reshape) return reshaped_axis(from, std::get<ShapeAttrs>(n.attrs).shape, axis);
  if (n.op == Op::Transpose) {
    const std::vector<int> &perm = std::get<TransposeAttrs>(n.attrs).perm;
    axis = static_cast<size_t>(std::find(perm.begin(), perm.end(), static_cast<int>(axis)) - perm.begin());
    return true;
  }
  const auto &slice = std::get<SliceAttrs>(n.attrs);
  return slice.start[axis] == 0 && slice.step[axis] == 1 && slice.count[axis] == from[axis];
}

std::shared_ptr<const QuantizedConstant> moved_integers(const Graph &graph, const Node &node) {
  if (node.op != Op::Reshape && node.op != Op::Transpose && node.op != Op::Slice) return nullptr;
  const Value &x = graph[node.inputs[0]];
  if (!x.quantized) return nullptr;
  QuantizedConstant out = *x.quantized;
  if (out.scales.size() > 1 || out.zeros.size() > 1)
    if (!moved_axis(node, x.shape, out.axis)) return nullptr;
  TensorKind kind;
  const TensorKind *kinds[] = {out.integers.get()};
  if (!cpu::infer(node.op, node.attrs, kinds, kind).ok()) return nullptr;
  auto moved = std::make_shared<Tensor>(kind.dtype, kind.shape);
  const Tensor *operands[] = {out.integers.get()};
  if (!cpu::evaluate(node.op, node.attrs, operands, *moved).ok()) return nullptr;
  out.integers = std::move(moved);
  return std::make_shared<const QuantizedConstant>(std::move(out));
}

TensorPtr with_single_zero(const TensorPtr &integers, std::span<const int32_t> zeros, size_t axis, int32_t &zero) {
  int32_t low = 0, high = 0;
  for_differences(*integers, zeros, axis, [&](int64_t, int32_t difference) {
    low = std::min(low, difference);
    high = std::max(high, difference);
  });
  using Limits = std::numeric_limits<int8_t>;
  if (low < Limits::min() || high > Limits::max()) {
    zero = zeros[0];
    return std::all_of(zeros.begin(), zeros.end(), [&](int32_t z) { return z == zero; }) ? integers : nullptr;
  }
  zero = 0;
  const auto is_zero = [](int32_t z) { return z == 0; };
  if (integers->dtype == Dtype::I8 && std::all_of(zeros.begin(), zeros.end(), is_zero)) return integers;
  auto out = std::make_shared<Tensor>(Dtype::I8, integers->shape);
  for_differences(*integers, zeros, axis,
                  [&](int64_t i, int32_t difference) { out->as<int8_t>()[i] = static_cast<int8_t>(difference); });
  return out;
}

}  // namespace npu::graph
