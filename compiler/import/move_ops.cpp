// SPDX-License-Identifier: MIT
// Operators that pick, repeat or join elements.
#include <algorithm>
#include <cstdlib>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

Status concat(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1 << 20));
  std::vector<ValueId> parts;
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  for (size_t k = 0; k < c.input_count(); ++k) {
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
    if (c.value(k).dtype != c.value(0).dtype) return Status::error("inputs of different types");
    if (c.rank(k) == c.rank(0) && c.shape(k)[static_cast<size_t>(axis)] == 0) continue;
    parts.push_back(c.in(k));
  }
  if (parts.size() == 1) {
    c.results[0] = parts[0];
    return {};
  }
  if (parts.empty()) return Status::error("all inputs are empty");
  return c.emit(Op::Concat, parts, ConcatAttrs{axis}, c.results[0]);
}

/// Operands of Slice: attributes up to operator set 9, inputs since.
Status slice_operand(OpContext &c, size_t k, const char *name, std::vector<int64_t> &out) {
  if (c.opset < 10)
    out = c.attr_ints(name);
  else if (c.has_input(k))
    return c.const_ints(k, name, out);
  return {};
}

Status slice(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 5));
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
  Shape out = c.shape(0);
  SliceAttrs attrs;
  attrs.start.assign(out.size(), 0);
  attrs.step.assign(out.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    int axis;
    NPU_TRY(c.axis(axes[i], c.rank(0), axis));
    const auto d = static_cast<size_t>(axis);
    const int64_t size = c.shape(0)[d], step = steps[i];
    if (step == 0) return Status::error("a step is 0");
    const auto place = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? v + size : v, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    };
    const int64_t start = place(starts[i]), end = ends[i] < -size && step < 0 ? -1 : place(ends[i]);
    attrs.start[d] = start;
    attrs.step[d] = step;
    out[d] = std::max<int64_t>(0, step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step);
  }
  if (element_count(out) == 0) attrs.start.assign(out.size(), 0);
  return c.emit(Op::Slice, {c.in(0)}, attrs, c.results[0], out);
}

Status split(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  const auto d = static_cast<size_t>(axis);
  const auto parts = static_cast<int64_t>(c.node.outputs.size());
  std::vector<int64_t> sizes = c.attr_ints("split");
  if (c.has_input(1)) NPU_TRY(c.const_ints(1, "split", sizes));
  if (sizes.empty()) {
    if (c.shape(0)[d] % parts)
      return Status::error("cannot split " + shape_text(c.shape(0)) + " into " + std::to_string(parts) +
                           " equal parts");
    sizes.assign(static_cast<size_t>(parts), c.shape(0)[d] / parts);
  }
  int64_t sum = 0;
  for (int64_t s : sizes) sum += s < 0 || s > kMaxElements ? kMaxElements : s;
  if (static_cast<int64_t>(sizes.size()) != parts || sum != c.shape(0)[d])
    return Status::error("the parts " + shape_text(sizes) + " do not make up axis " + std::to_string(axis) + " of " +
                         shape_text(c.shape(0)));
  Shape out = c.shape(0);
  SliceAttrs attrs;
  attrs.start.assign(out.size(), 0);
  attrs.step.assign(out.size(), 1);
  for (size_t k = 0; k < sizes.size(); ++k) {
    out[d] = sizes[k];
    if (!c.node.outputs[k].empty()) NPU_TRY(c.emit(Op::Slice, {c.in(0)}, attrs, c.results[k], out));
    attrs.start[d] += sizes[k];
  }
  return {};
}

Status pad(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 3));
  if (c.attr_s("mode", "constant") != "constant")
    return Status::error("mode '" + c.attr_s("mode", "") + "' is not supported");
  std::vector<int64_t> pads = c.attr_ints("pads");
  float value = c.attr_f("value", 0);
  if (c.opset >= 11) {
    if (!c.has_input(1)) return Status::error("pads are missing");
    NPU_TRY(c.const_ints(1, "pads", pads));
    std::vector<float> given;
    if (c.has_input(2)) NPU_TRY(c.const_floats(2, "constant_value", given));
    if (!given.empty()) value = given[0];
  }
  const size_t rank = c.shape(0).size();
  if (pads.size() != 2 * rank)
    return Status::error("pads has " + std::to_string(pads.size()) + " entries, " + std::to_string(2 * rank) +
                         " were expected");
  SliceAttrs crop;
  PadAttrs attrs;
  attrs.value = value;
  Shape inner = c.shape(0);
  bool cropped = false;
  for (size_t i = 0; i < rank; ++i) {  // negative padding crops
    const int64_t begin = pads[i], end = pads[rank + i];
    if (std::abs(begin) > kMaxElements || std::abs(end) > kMaxElements)
      return Status::error("pads " + shape_text(pads) + " are out of range");
    crop.start.push_back(std::max<int64_t>(-begin, 0));
    crop.step.push_back(1);
    inner[i] -= std::max<int64_t>(-begin, 0) + std::max<int64_t>(-end, 0);
    cropped = cropped || inner[i] != c.shape(0)[i];
    if (inner[i] < 1) return Status::error("pads " + shape_text(pads) + " leave nothing of " + shape_text(c.shape(0)));
    attrs.begin.push_back(std::max<int64_t>(begin, 0));
    attrs.end.push_back(std::max<int64_t>(end, 0));
  }
  ValueId x = c.in(0);
  if (cropped) NPU_TRY(c.emit(Op::Slice, {x}, crop, x, inner));
  if (std::all_of(attrs.begin.begin(), attrs.begin.end(), [](int64_t v) { return v == 0; }) &&
      std::all_of(attrs.end.begin(), attrs.end.end(), [](int64_t v) { return v == 0; })) {
    c.results[0] = x;
    return {};
  }
  return c.emit(Op::Pad, {x}, attrs, c.results[0]);
}

Status expand(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  Shape wanted, out;
  NPU_TRY(c.const_ints(1, "shape", wanted));
  if (element_count(wanted) < 0 || !broadcast_shapes(c.shape(0), wanted, out))
    return Status::error("cannot expand " + shape_text(c.shape(0)) + " to " + shape_text(wanted));
  return c.expand(c.in(0), out, c.results[0]);
}

Status gather(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  std::vector<int64_t> index;
  NPU_TRY(c.const_ints(1, "indices", index));
  const int64_t size = c.shape(0)[static_cast<size_t>(axis)];
  for (int64_t &i : index) {
    if (i < -size || i >= size)
      return Status::error("index " + std::to_string(i) + " is outside a dimension of " + std::to_string(size));
    i = i < 0 ? i + size : i;
  }
  if (index.empty()) return Status::error("there are no indices");
  TensorPtr wrapped = make_i64(index);
  auto shaped = std::make_shared<Tensor>(*wrapped);
  shaped->shape = c.shape(1);
  return c.emit(Op::Gather, {c.in(0), c.constant(std::move(shaped))}, GatherAttrs{axis}, c.results[0]);
}

constexpr OpEntry kOps[] = {
    {"Concat", concat}, {"Expand", expand}, {"Gather", gather}, {"Pad", pad}, {"Slice", slice}, {"Split", split},
};

}  // namespace

std::span<const OpEntry> move_ops() { return kOps; }

}  // namespace npu::graph
