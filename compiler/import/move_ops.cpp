// SPDX-License-Identifier: MIT
// Operators that repeat, join or cut tensors.
#include <algorithm>

#include "compiler/import/op_context.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

/// The constant integers of an operand that early operator sets have in the type of the data.
Status any_ints(OpContext &c, size_t k, const char *what, std::vector<int64_t> &out) {
  const TensorPtr given = c.value(k).constant;
  if (!given || given->dtype != Dtype::F32) return c.const_ints(k, what, out);
  Tensor whole(Dtype::I64, given->shape);
  cpu::cast(*given, cpu::Overflow::Saturate, whole);
  out.assign(whole.as<int64_t>(), whole.as<int64_t>() + whole.count());
  return {};
}

// Joining and cutting.

Status concat(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1 << 20));
  std::vector<ValueId> parts;
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", c.opset < 4 ? 1 : 0), c.rank(0), axis));
  for (size_t k = 0; k < c.input_count(); ++k) {
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
    if (c.value(k).dtype != c.value(0).dtype) return Status::error("inputs of different types");
    if (c.rank(k) == c.rank(0) && c.shape(k)[static_cast<size_t>(axis)] == 0) continue;
    parts.push_back(c.in(k));
  }
  if (parts.empty()) parts.push_back(c.in(0));
  return c.concat(axis, std::move(parts), c.results[0]);
}

/// Operands of Slice: attributes up to operator set 9, inputs since.
Status slice_operand(OpContext &c, size_t k, const char *name, std::vector<int64_t> &out) {
  if (c.opset < 10)
    out = c.attr_ints(name);
  else if (c.has_input(k))
    return c.const_ints(k, name, out);
  return {};
}

/// One axis of a slice of `size` elements. Numbers below 0 count from the end; what lies outside moves to where the
/// elements begin or end, as the specification of Slice has it.
void clamp_slice(int64_t size, int64_t &start, int64_t end, int64_t &step, int64_t &count) {
  const auto place = [&](int64_t v, int64_t least, int64_t most) {
    return std::clamp(v < 0 ? v + size : v, least, std::max(least, most));
  };
  const bool forward = step > 0;
  step = std::clamp(step, -kMaxElements, kMaxElements);
  start = place(start, 0, forward ? size : size - 1);
  end = place(end, forward ? 0 : -1, forward ? size : size - 1);
  const int64_t span = size == 0 ? 0 : forward ? end - start : start - end;
  count = span <= 0 ? 0 : (span - 1) / (forward ? step : -step) + 1;
}

Status slice(OpContext &c) {
  NPU_TRY(c.need_inputs(c.opset < 10 ? 1 : 3, c.opset < 10 ? 1 : 5));
  std::vector<int64_t> starts, ends, axes, steps;
  NPU_TRY(slice_operand(c, 1, "starts", starts));
  NPU_TRY(slice_operand(c, 2, "ends", ends));
  NPU_TRY(slice_operand(c, 3, "axes", axes));
  NPU_TRY(slice_operand(c, 4, "steps", steps));
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return Status::error("starts, ends, axes and steps differ in length");
  const Shape x = c.shape(0);
  SliceAttrs attrs{std::vector<int64_t>(x.size(), 0), std::vector<int64_t>(x.size(), 1), x};
  for (size_t i = 0; i < starts.size(); ++i) {
    int axis;
    NPU_TRY(c.axis(axes[i], c.rank(0), axis));
    const auto d = static_cast<size_t>(axis);
    if (steps[i] == 0) return Status::error("a step is 0");
    clamp_slice(x[d], starts[i], ends[i], steps[i], attrs.count[d]);
    attrs.start[d] = starts[i];
    attrs.step[d] = steps[i];
  }
  c.results[0] = c.in(0);
  const bool forward = std::all_of(attrs.step.begin(), attrs.step.end(), [](int64_t s) { return s > 0; });
  if (attrs.count == x && forward) return {};
  return c.emit(Op::Slice, {c.in(0)}, attrs, c.results[0]);
}

/// The lengths of the parts: given, or equal. With num_outputs the last one of equal parts may be shorter.
Status split_sizes(OpContext &c, int64_t length, std::vector<int64_t> &sizes) {
  const auto parts = static_cast<int64_t>(c.node.outputs.size());
  sizes = c.attr_ints("split");
  if (c.has_input(1)) NPU_TRY(c.opset < 2 ? any_ints(c, 1, "split", sizes) : c.const_ints(1, "split", sizes));
  if (c.attr_i("num_outputs", parts) != parts)
    return Status::error("num_outputs is " + std::to_string(c.attr_i("num_outputs", parts)) + ", it has " +
                         std::to_string(parts) + " outputs");
  if (!sizes.empty()) return {};
  const int64_t each = length / parts + (length % parts ? 1 : 0), last = length - each * (parts - 1);
  if (last < 0 || (last != each && !c.has("num_outputs")))
    return Status::error("cannot split " + shape_text(c.shape(0)) + " into " + std::to_string(parts) + " equal parts");
  sizes.assign(static_cast<size_t>(parts), each);
  sizes.back() = last;
  return {};
}

Status split(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  const int64_t length = c.shape(0)[static_cast<size_t>(axis)];
  std::vector<int64_t> sizes;
  NPU_TRY(split_sizes(c, length, sizes));
  int64_t sum = 0;
  for (int64_t s : sizes) sum = s < 0 || s > length ? length + 1 : std::min(sum + s, length + 1);
  if (sizes.size() != c.node.outputs.size() || sum != length)
    return Status::error("the parts " + shape_text(sizes) + " do not make up axis " + std::to_string(axis) + " of " +
                         shape_text(c.shape(0)));
  int64_t start = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (c.wants_output(k)) NPU_TRY(c.slice(c.in(0), axis, start, sizes[k], c.results[k]));
    start += sizes[k];
  }
  return {};
}

// Padding.

struct Padding {
  std::vector<int64_t> begin, end;
};

/// What an operand or attribute says, for each axis of the input.
Status read_padding(OpContext &c, Padding &p) {
  std::vector<int64_t> pads = c.attr_ints(c.opset < 2 ? "paddings" : "pads"), axes;
  if (c.opset >= 11) {
    if (!c.has_input(1)) return Status::error("pads are missing");
    NPU_TRY(c.const_ints(1, "pads", pads));
  }
  if (c.has_input(3))
    NPU_TRY(c.const_ints(3, "axes", axes));
  else
    for (int64_t i = 0; i < c.rank(0); ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size())
    return Status::error("pads has " + std::to_string(pads.size()) + " entries, " + std::to_string(2 * axes.size()) +
                         " were expected");
  p.begin.assign(c.shape(0).size(), 0);
  p.end = p.begin;
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis;
    NPU_TRY(c.axis(axes[i], c.rank(0), axis));
    const int64_t begin = pads[i], end = pads[axes.size() + i];
    if (std::min(begin, end) < -kMaxElements || std::max(begin, end) > kMaxElements)
      return Status::error("pads " + shape_text(pads) + " are out of range");
    p.begin[static_cast<size_t>(axis)] = begin;
    p.end[static_cast<size_t>(axis)] = end;
  }
  return {};
}

/// Padding below 0 cuts off; what is left is not below 0.
Status crop(OpContext &c, Padding &p, ValueId &x) {
  const Shape given = c.graph[x].shape;
  SliceAttrs attrs{std::vector<int64_t>(given.size(), 0), std::vector<int64_t>(given.size(), 1), given};
  for (size_t i = 0; i < given.size(); ++i) {
    attrs.start[i] = std::max<int64_t>(-p.begin[i], 0);
    attrs.count[i] -= attrs.start[i] + std::max<int64_t>(-p.end[i], 0);
    if (attrs.count[i] < 0)
      return Status::error("padding cuts more off than axis " + std::to_string(i) + " of " + shape_text(given) +
                           " has");
    p.begin[i] = std::max<int64_t>(p.begin[i], 0);
    p.end[i] = std::max<int64_t>(p.end[i], 0);
  }
  return attrs.count == given ? Status() : c.emit(Op::Slice, {x}, attrs, x);
}

Status pad_value(const OpContext &c, double &value) {
  value = static_cast<double>(c.attr_f("value", 0));
  if (c.opset < 11 || !c.has_input(2)) return {};
  const Value &given = c.value(2);
  if (!given.constant)
    return refuse(Obstacle::Value, "constant_value ('" + given.name + "') is not known at compile time");
  value = given.constant->count() ? cpu::load(*given.constant, 0) : 0;
  return {};
}

enum class Border : uint8_t { Edge, Reflect, Wrap };

/// The element of an axis of `size` that stands at place i, which may lie outside.
int64_t border_index(Border border, int64_t i, int64_t size) {
  if (border == Border::Edge || size == 1) return std::clamp<int64_t>(i, 0, size - 1);
  const int64_t period = border == Border::Wrap ? size : 2 * (size - 1);
  const int64_t inside = (i % period + period) % period;
  return border == Border::Wrap ? inside : std::min(inside, period - inside);
}

Status pad_with_border(OpContext &c, Border border, const Padding &p, ValueId x, ValueId &out) {
  const Shape shape = c.graph[x].shape;
  Shape wide = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    wide[i] += p.begin[i] + p.end[i];
    if (shape[i] == 0 && wide[i] > 0) return Status::error(shape_text(shape) + " has no border");
  }
  if (element_count(wide) < 0) return refuse(Obstacle::Size, "the result " + shape_text(wide) + " is too large");
  out = x;
  if (element_count(wide) == 0) return c.reshape(x, wide, out);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (wide[d] == shape[d]) continue;
    std::vector<int64_t> index;
    for (int64_t i = -p.begin[d]; i < shape[d] + p.end[d]; ++i) index.push_back(border_index(border, i, shape[d]));
    NPU_TRY(c.gather(static_cast<int>(d), out, c.constant(make_i64(index)), out));
  }
  return {};
}

Status pad(OpContext &c) {
  NPU_TRY(c.need_inputs(1, c.opset < 11 ? 1 : c.opset < 18 ? 3 : 4));
  Padding p;
  ValueId x = c.in(0);
  NPU_TRY(read_padding(c, p));
  NPU_TRY(crop(c, p, x));
  const std::string mode = c.attr_s("mode", "constant");
  if (mode == "constant") {
    double value;
    NPU_TRY(pad_value(c, value));
    return c.pad(x, p.begin, p.end, value, c.results[0]);
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") return Status::error("mode '" + mode + "' is not known");
  return pad_with_border(c,
                         mode == "edge"   ? Border::Edge
                         : mode == "wrap" ? Border::Wrap
                                          : Border::Reflect,
                         p, x, c.results[0]);
}

// Repeating.

Status expand(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  Shape wanted, out;
  NPU_TRY(c.const_ints(1, "shape", wanted));
  if (element_count(wanted) < 0 || !broadcast_shapes(c.shape(0), wanted, out))
    return Status::error("cannot expand " + shape_text(c.shape(0)) + " to " + shape_text(wanted));
  return c.expand(c.in(0), out, c.results[0]);
}

/// How often each axis is repeated. Operator set 1 repeats one, and has both numbers in the type of the data.
Status tile_repeats(OpContext &c, std::vector<int64_t> &repeats) {
  if (c.opset >= 6) {
    NPU_TRY(c.need_inputs(2, 2));
    return c.const_ints(1, "repeats", repeats);
  }
  NPU_TRY(c.need_inputs(3, 3));
  std::vector<int64_t> times, along;
  int axis;
  NPU_TRY(any_ints(c, 1, "tiles", times));
  NPU_TRY(any_ints(c, 2, "axis", along));
  if (times.size() != 1 || along.size() != 1) return Status::error("tiles or axis is not one number");
  NPU_TRY(c.axis(along[0], c.rank(0), axis));
  repeats.assign(c.shape(0).size(), 1);
  repeats[static_cast<size_t>(axis)] = times[0];
  return {};
}

/// Expands a new dimension in front of each axis that is repeated. Axes between those are taken together.
Status tile(OpContext &c) {
  std::vector<int64_t> repeats;
  NPU_TRY(tile_repeats(c, repeats));
  Shape out = c.shape(0), narrow{1}, wide{1};
  if (repeats.size() != out.size())
    return Status::error("repeats " + shape_text(repeats) + " do not fit input " + shape_text(out));
  for (size_t i = 0; i < out.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > kMaxElements)
      return Status::error("repeats " + shape_text(repeats) + " are out of range");
    if (repeats[i] != 1) {
      narrow.insert(narrow.end(), {1, 1});
      wide.insert(wide.end(), {repeats[i], 1});
    }
    narrow.back() *= out[i];
    wide.back() *= out[i];
    out[i] *= repeats[i];
  }
  if (element_count(out) < 0) return refuse(Obstacle::Size, "the result " + shape_text(out) + " is too large");
  if (element_count(out) == 0) {
    c.results[0] = c.constant(std::make_shared<Tensor>(c.value(0).dtype, out));
    return {};
  }
  ValueId y;
  NPU_TRY(c.reshape(c.in(0), narrow, y));
  NPU_TRY(c.expand(y, wide, y));
  return c.reshape(y, out, c.results[0]);
}

constexpr OpEntry kMoveOps[] = {
    {"Concat", concat}, {"Expand", expand}, {"Pad", pad}, {"Slice", slice}, {"Split", split}, {"Tile", tile},
};

}  // namespace

std::span<const OpEntry> move_ops() { return kMoveOps; }

}  // namespace npu::graph
