// SPDX-License-Identifier: MIT
#include "compiler/graph/cut_rules.h"

#include <algorithm>

namespace npu::graph {
namespace {

constexpr int kNone = -1;
constexpr int64_t kLanes = 32;  ///< elements at whose multiples channels are cut, where there are enough

size_t at(int axis) { return static_cast<size_t>(axis); }

/// The dimension of an operand that a dimension of the broadcast result runs through; kNone where the operand repeats.
int broadcast_axis(const Shape &operand, const Shape &result, int axis) {
  const int own = axis - static_cast<int>(result.size() - operand.size());
  return own < 0 || (operand[at(own)] == 1 && result[at(axis)] != 1) ? kNone : own;
}

/// The dimension of a reshaped tensor that is the same as a dimension of the result.
int reshaped_axis(const Shape &from, const Shape &to, int axis) {
  int64_t before = 1, sum = 1;
  for (int i = 0; i < axis; ++i) before *= to[at(i)];
  for (int i = 0; i < static_cast<int>(from.size()); sum *= from[at(i++)])
    if (sum == before && from[at(i)] == to[at(axis)]) return i;
  return kNone;
}

/// Number of the window's dimension that a dimension of a picture is; kNone for batch and channels.
int window_axis(int axis) { return axis < 2 ? kNone : axis - 2; }

const Window &window_of(const Node &n) {
  return n.op == Op::Conv ? std::get<ConvAttrs>(n.attrs).window : std::get<PoolAttrs>(n.attrs).window;
}

/// Rows of the input that a run of outputs sees, with those in the padding.
Range seen_by(const Window &w, size_t d, Range out) {
  return {out.begin * w.stride[d] - w.begin[d],
          (out.end - 1) * w.stride[d] - w.begin[d] + w.extent(static_cast<int>(d))};
}

Range clipped(Range r, int64_t size) { return {std::max<int64_t>(r.begin, 0), std::min(r.end, size)}; }

int64_t groups_of(const Node &n) { return n.op == Op::Conv ? std::get<ConvAttrs>(n.attrs).groups : 1; }

/// Elements of a dimension that stay together when it is cut.
int64_t grain(const Graph &g, const Node &n, int axis, int cores) {
  const Shape &shape = g[n.output].shape;
  const int64_t size = shape[at(axis)];
  if (n.op == Op::Conv && axis == 1 && groups_of(n) > 1 && groups_of(n) < size) return size / groups_of(n);
  const bool channels = axis == 1 || axis + 1 == static_cast<int>(shape.size());
  return channels && size >= kLanes * cores ? kLanes : 1;
}

/// The operand's range for a range of the result, in a dimension that both have.
void set(Box &box, int axis, Range range) {
  if (axis != kNone) box[at(axis)] = range;
}

/// The channels of weights or of a vector; one element is for all.
void set_vector(const Graph &g, const Node &n, size_t operand, Range range, Box &box) {
  if (g[n.inputs[operand]].shape[0] != 1) set(box, 0, range);
}

void window_needed(const Graph &g, const Node &n, size_t operand, int axis, Range range, Box &box) {
  const int64_t groups = groups_of(n);
  if (operand == 0 && window_axis(axis) != kNone) {
    const auto d = at(window_axis(axis));
    return set(box, axis, clipped(seen_by(window_of(n), d, range), g[n.inputs[0]].shape[at(axis)]));
  }
  if (operand == 0 && axis == 0) return set(box, 0, range);
  if (axis != 1) return;
  if (operand > 0) return set_vector(g, n, operand, range, box);  // weights, bias, multiplier
  if (n.op == Op::Pool) return set(box, 1, range);
  if (groups == 1) return;
  const int64_t outputs = g[n.output].shape[1] / groups, inputs = g[n.inputs[0]].shape[1] / groups;
  set(box, 1, {range.begin / outputs * inputs, range.end / outputs * inputs});
}

void matmul_needed(const Graph &g, const Node &n, size_t operand, int axis, Range range, Box &box) {
  const Shape &out = g[n.output].shape;
  const int rank = static_cast<int>(out.size()), own = static_cast<int>(box.size());
  if (operand >= 2) {
    if (axis == rank - 1) set_vector(g, n, operand, range, box);
    return;
  }
  if (axis >= rank - 2) {
    const bool is_mine = (axis == rank - 2) == (operand == 0);
    if (is_mine) set(box, operand == 0 ? own - 2 : own - 1, range);
    return;
  }
  set(box, broadcast_axis(g[n.inputs[operand]].shape, out, axis), range);
}

void gather_needed(const Graph &g, const Node &n, size_t operand, int axis, Range range, Box &box) {
  if (operand != 0) return;
  const int from = std::get<GatherAttrs>(n.attrs).axis;
  const int picks = static_cast<int>(g[n.inputs[1]].shape.size());
  set(box, axis < from ? axis : axis - picks + 1, range);
}

/// The attributes of a window for a range of its outputs.
template <class T>
Attrs cut_window(const Graph &g, const Node &n, int axis, Range range) {
  T attrs = std::get<T>(n.attrs);
  if (window_axis(axis) == kNone) return attrs;
  const auto d = at(window_axis(axis));
  const Range seen = seen_by(attrs.window, d, range);
  attrs.window.begin[d] = std::max<int64_t>(-seen.begin, 0);
  attrs.window.end[d] = std::max<int64_t>(seen.end - g[n.inputs[0]].shape[at(axis)], 0);
  if constexpr (std::is_same_v<T, PoolAttrs>)
    attrs.counted_end[d] = std::min(attrs.counted_end[d], attrs.window.end[d]);
  return attrs;
}

bool can_cut_gather(const Graph &g, const Node &n, int axis) {
  const int from = std::get<GatherAttrs>(n.attrs).axis;
  return axis < from || axis >= from + static_cast<int>(g[n.inputs[1]].shape.size());
}

}  // namespace

bool can_cut(const Graph &g, const Node &n, int axis) {
  const Shape &out = g[n.output].shape;
  if (axis < 0 || axis >= static_cast<int>(out.size())) return false;
  switch (n.op) {
    case Op::Softmax:
      return axis != std::get<SoftmaxAttrs>(n.attrs).axis;
    case Op::Concat:
      return axis != std::get<ConcatAttrs>(n.attrs).axis;
    case Op::Reshape:
      return reshaped_axis(g[n.inputs[0]].shape, out, axis) != kNone;
    case Op::Slice:
      return std::get<SliceAttrs>(n.attrs).step[at(axis)] > 0;
    case Op::Pad: {
      const auto &a = std::get<PadAttrs>(n.attrs);
      return a.begin[at(axis)] == 0 && a.end[at(axis)] == 0;
    }
    case Op::Gather:
      return can_cut_gather(g, n, axis);
    case Op::Conv:
    case Op::Pool:
    case Op::MatMul:
    case Op::Binary:
    case Op::Unary:
    case Op::Transpose:
    case Op::Expand:
    case Op::Requant:
    case Op::Lookup:
    case Op::Cast:
      return true;
    default:
      return false;
  }
}

bool can_compute(const Graph &g, const Node &n, int axis, const Box &part) {
  if (n.op != Op::Conv && n.op != Op::Pool) return true;
  // A window of nothing but padding is no window.
  if (window_axis(axis) != kNone) return needed(g, n, 0, axis, part)[at(axis)].size() > 0;
  if (axis == 0 || groups_of(n) == 1) return true;
  const int64_t outputs = g[n.output].shape[1] / groups_of(n);
  return part[1].begin % outputs == 0 && part[1].end % outputs == 0;
}

bool can_cut(const Graph &g, const Node &n, int axis, int cores) {
  if (!can_cut(g, n, axis) || g[n.output].shape[at(axis)] / grain(g, n, axis, cores) < cores) return false;
  for (int c = 0; c < cores; ++c)
    if (!can_compute(g, n, axis, part_of(g, n, axis, cores, c))) return false;
  return true;
}

Box part_of(const Graph &g, const Node &n, int axis, int cores, int core) {
  Box box = whole_box(g[n.output].shape);
  if (axis == kWhole) return box;
  Range &r = box[at(axis)];
  const int64_t step = grain(g, n, axis, cores), pieces = (r.end + step - 1) / step;
  const auto cut = [&](int64_t c) { return std::min(r.end, (pieces * c + cores - 1) / cores * step); };
  r = {cut(core), cut(core + 1)};
  return box;
}

Box needed(const Graph &g, const Node &n, size_t operand, int axis, const Box &part) {
  const Shape &shape = g[n.inputs[operand]].shape, &out = g[n.output].shape;
  Box box = whole_box(shape);
  if (axis == kWhole) return box;
  const Range range = part[at(axis)];
  switch (n.op) {
    case Op::Conv:
    case Op::Pool:
      window_needed(g, n, operand, axis, range, box);
      break;
    case Op::MatMul:
      matmul_needed(g, n, operand, axis, range, box);
      break;
    case Op::Gather:
      gather_needed(g, n, operand, axis, range, box);
      break;
    case Op::Transpose:
      set(box, std::get<TransposeAttrs>(n.attrs).perm[at(axis)], range);
      break;
    case Op::Reshape:
      set(box, reshaped_axis(shape, out, axis), range);
      break;
    case Op::Slice: {
      const auto &a = std::get<SliceAttrs>(n.attrs);
      const int64_t start = a.start[at(axis)], step = a.step[at(axis)];
      set(box, axis, {start + range.begin * step, start + (range.end - 1) * step + 1});
      break;
    }
    case Op::Lookup:
      if (operand == 0) set(box, axis, range);  // the table is for all
      break;
    default:
      set(box, broadcast_axis(shape, out, axis), range);
      break;
  }
  return box;
}

Attrs cut_attrs(const Graph &g, const Node &n, int axis, const Box &part) {
  if (axis == kWhole) return n.attrs;
  const Range range = part[at(axis)];
  switch (n.op) {
    case Op::Conv: {
      auto a = std::get<ConvAttrs>(cut_window<ConvAttrs>(g, n, axis, range));
      if (axis == 1 && a.groups > 1) a.groups = a.groups * range.size() / g[n.output].shape[1];
      return a;
    }
    case Op::Pool:
      return cut_window<PoolAttrs>(g, n, axis, range);
    case Op::Reshape:
    case Op::Expand: {
      auto a = std::get<ShapeAttrs>(n.attrs);
      a.shape[at(axis)] = range.size();
      return a;
    }
    case Op::Slice: {
      auto a = std::get<SliceAttrs>(n.attrs);
      a.start[at(axis)] = 0;
      a.count[at(axis)] = range.size();
      return a;
    }
    default:
      return n.attrs;
  }
}

Status check_parts(const Graph &g) {
  for (const Node &n : g.nodes) {
    TensorKind kind;
    NPU_TRY(infer(g, n, kind));
    if (!(kind == static_cast<const TensorKind &>(g[n.output])))
      return Status::error(std::string("a part of ") + op_name(n.op) + " is " + kind_text(kind) + ", expected " +
                           kind_text(g[n.output]));
  }
  return {};
}

}  // namespace npu::graph
