// SPDX-License-Identifier: MIT
// Convolution and pooling: everything with a sliding window.
#include <algorithm>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

Status spatial_attr(const OpContext &c, const char *name, size_t rank, std::array<int64_t, 2> &out) {
  const std::vector<int64_t> given = c.attr_ints(name);
  if (given.empty()) return {};
  if (given.size() != rank)
    return Status::error(std::string(name) + " has " + std::to_string(given.size()) + " entries, " +
                         std::to_string(rank) + " were expected");
  std::copy(given.begin(), given.end(), out.begin());
  return {};
}

Status explicit_padding(const OpContext &c, size_t rank, Window &w) {
  const std::vector<int64_t> pads = c.attr_ints("pads");
  if (pads.empty()) return {};
  if (pads.size() != 2 * rank)
    return Status::error("pads has " + std::to_string(pads.size()) + " entries, " + std::to_string(2 * rank) +
                         " were expected");
  for (size_t i = 0; i < rank; ++i) {
    w.begin[i] = pads[i];
    w.end[i] = pads[rank + i];
  }
  return {};
}

/// Strides, dilations and padding for an input of that shape. The kernel is set by the caller.
Status make_window(const OpContext &c, const Shape &x, Window &w) {
  if (x.size() != 3 && x.size() != 4)
    return Status::error("input " + shape_text(x) + " has " + std::to_string(static_cast<int64_t>(x.size()) - 2) +
                         " spatial dimensions, 1 or 2 are supported");
  const size_t rank = x.size() - 2;
  NPU_TRY(spatial_attr(c, "strides", rank, w.stride));
  NPU_TRY(spatial_attr(c, "dilations", rank, w.dilation));
  for (size_t i = 0; i < rank; ++i)
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 ||
        std::max({w.kernel[i], w.stride[i], w.dilation[i]}) > 65535)
      return Status::error("kernel, stride and dilation have to lie between 1 and 65535");
  const std::string mode = c.attr_s("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return explicit_padding(c, rank, w);
  if (mode == "VALID") return {};
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return Status::error("auto_pad '" + mode + "' is not known");
  for (size_t i = 0; i < rank; ++i) {
    const int64_t places = (x[i + 2] + w.stride[i] - 1) / w.stride[i];
    const int64_t total = std::max<int64_t>((places - 1) * w.stride[i] + w.extent(static_cast<int>(i)) - x[i + 2], 0);
    const int64_t less = total / 2, more = total - less;
    w.begin[i] = mode == "SAME_UPPER" ? less : more;
    w.end[i] = mode == "SAME_UPPER" ? more : less;
  }
  return {};
}

Status conv(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  if (!c.value(1).constant)
    return Status::error("its weights ('" + c.value(1).name + "') are not known at compile time");
  ConvAttrs attrs;
  const Shape x = c.shape(0), w = c.shape(1);
  if (w.size() != x.size()) return Status::error("weights " + shape_text(w) + " do not fit input " + shape_text(x));
  for (size_t i = 2; i < std::min<size_t>(w.size(), 4); ++i) attrs.window.kernel[i - 2] = w[i];
  const std::vector<int64_t> kernel = c.attr_ints("kernel_shape");
  if (!kernel.empty() && !std::equal(kernel.begin(), kernel.end(),
                                     w.begin() + std::min<int64_t>(2, static_cast<int64_t>(w.size())), w.end()))
    return Status::error("kernel_shape " + shape_text(kernel) + " differs from weights " + shape_text(w));
  attrs.groups = c.attr_i("group", 1);
  NPU_TRY(make_window(c, x, attrs.window));
  if (!c.has_input(2)) return c.emit(Op::Conv, {c.in(0), c.in(1), kNoValue}, attrs, c.results[0]);
  if (c.value(2).constant) return c.emit(Op::Conv, {c.in(0), c.in(1), c.in(2)}, attrs, c.results[0]);
  // A bias that arrives at run time is added afterwards.
  ValueId y, bias;
  NPU_TRY(c.emit(Op::Conv, {c.in(0), c.in(1), kNoValue}, attrs, y));
  Shape wide(x.size() - 1, 1);
  wide[0] = w[0];
  NPU_TRY(c.reshape(c.in(2), wide, bias));
  return c.emit(Op::Binary, {y, bias}, BinaryAttrs{}, c.results[0]);
}

/// ceil_mode adds a window where the last one does not reach the end, and leaves out one that begins in the padding
/// behind the data: docs/compiler.md says why. What that changes goes into the padding at the end.
void round_up(const Shape &x, Window &w) {
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t span = x[i + 2] + w.begin[i] + w.end[i] - w.extent(static_cast<int>(i));
    if (span < 0) continue;
    const int64_t over = span % w.stride[i], next = span / w.stride[i] * w.stride[i] + (over ? w.stride[i] : 0);
    const bool behind = next >= x[i + 2] + w.begin[i];
    if (over && !behind) w.end[i] += w.stride[i] - over;
    if (!over && behind) w.end[i] = std::max<int64_t>(w.end[i] - w.stride[i], 0);
  }
}

Status pool(OpContext &c, bool max) {
  NPU_TRY(c.need_inputs(1, 1));
  if (max && c.wants_output(1)) return Status::error("its second output (indices) is not supported");
  PoolAttrs attrs;
  attrs.max = max;
  attrs.count_pad = !max && c.attr_i("count_include_pad", 0) != 0;
  const std::vector<int64_t> kernel = c.attr_ints("kernel_shape");
  if (kernel.size() + 2 != c.shape(0).size())
    return Status::error("kernel_shape " + shape_text(kernel) + " does not fit input " + shape_text(c.shape(0)));
  for (size_t i = 0; i < std::min<size_t>(kernel.size(), 2); ++i) attrs.window.kernel[i] = kernel[i];
  NPU_TRY(make_window(c, c.shape(0), attrs.window));
  attrs.counted_end = attrs.window.end;
  if (c.attr_i("ceil_mode", 0)) round_up(c.shape(0), attrs.window);
  return c.emit(Op::Pool, {c.in(0)}, attrs, c.results[0]);
}

Status max_pool(OpContext &c) { return pool(c, true); }
Status average_pool(OpContext &c) { return pool(c, false); }

Status global_pool(OpContext &c, bool max) {
  NPU_TRY(c.need_inputs(1, 1));
  Shape x = c.shape(0);
  if (x.size() < 3) return Status::error("input " + shape_text(x) + " has no spatial dimensions");
  ValueId in = c.in(0), y;
  Shape out(x.size(), 1);
  out[0] = x[0];
  out[1] = x[1];
  if (x.size() > 4) {
    int64_t inner = 1;
    for (size_t i = 3; i < x.size(); ++i) inner *= x[i];
    x = {x[0], x[1], x[2], inner};
    NPU_TRY(c.reshape(in, x, in));
  }
  PoolAttrs attrs;
  attrs.max = max;
  for (size_t i = 2; i < x.size(); ++i) attrs.window.kernel[i - 2] = x[i];
  NPU_TRY(c.emit(Op::Pool, {in}, attrs, y));
  return c.reshape(y, out, c.results[0]);
}

Status global_max_pool(OpContext &c) { return global_pool(c, true); }
Status global_average_pool(OpContext &c) { return global_pool(c, false); }

constexpr OpEntry kOps[] = {
    {"AveragePool", average_pool},      {"Conv", conv},        {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool}, {"MaxPool", max_pool},
};

}  // namespace

std::span<const OpEntry> window_ops() { return kOps; }

}  // namespace npu::graph
