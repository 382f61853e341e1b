// SPDX-License-Identifier: MIT
// Convolution and pooling: everything with a sliding window. Any number of spatial dimensions becomes nodes with one or
// two.
#include <algorithm>
#include <span>

#include "compiler/import/windows.h"

namespace npu::graph {
namespace {

constexpr int64_t kMaxPadding = 1 << 28;
constexpr int64_t kMaxPlanes = 4096;  // of a kernel with more than two dimensions: each is a convolution of its own

/// A window's way along one spatial dimension.
struct Slide {
  int64_t kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;
  int64_t counted_end = 0;  ///< `end` without what ceil_mode adds
  /// Dilated kernel extent.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};
using Slides = std::vector<Slide>;

Status spatial_attr(const OpContext &c, const char *name, int64_t Slide::*field, Slides &slides) {
  const std::vector<int64_t> given = c.attr_ints(name);
  if (given.empty()) return {};
  if (given.size() != slides.size())
    return Status::error(std::string(name) + " has " + std::to_string(given.size()) + " entries, " +
                         std::to_string(slides.size()) + " were expected");
  for (size_t i = 0; i < slides.size(); ++i) slides[i].*field = given[i];
  return {};
}

/// Kernel, strides and dilations for an input of that shape.
Status read_slides(const OpContext &c, const Shape &x, std::span<const int64_t> kernel, Slides &slides) {
  if (x.size() < 3) return Status::error("input " + shape_text(x) + " has no spatial dimensions");
  if (element_count(x) < 1) return Status::error("input " + shape_text(x) + " is empty");
  if (kernel.size() + 2 != x.size())
    return Status::error("a kernel of " + std::to_string(kernel.size()) + " dimensions does not fit input " +
                         shape_text(x));
  slides.resize(kernel.size());
  for (size_t i = 0; i < kernel.size(); ++i) slides[i].kernel = kernel[i];
  NPU_TRY(spatial_attr(c, "strides", &Slide::stride, slides));
  NPU_TRY(spatial_attr(c, "dilations", &Slide::dilation, slides));
  for (const Slide &s : slides)
    if (std::min({s.kernel, s.stride, s.dilation}) < 1 || std::max({s.kernel, s.stride, s.dilation}) > 65535)
      return Status::error("kernel, stride and dilation have to lie between 1 and 65535");
  return {};
}

Status explicit_padding(const OpContext &c, Slides &slides) {
  const std::vector<int64_t> pads = c.attr_ints("pads");
  if (pads.empty()) return {};
  if (pads.size() != 2 * slides.size())
    return Status::error("pads has " + std::to_string(pads.size()) + " entries, " + std::to_string(2 * slides.size()) +
                         " were expected");
  for (int64_t p : pads)
    if (p < -kMaxPadding || p > kMaxPadding) return Status::error("pads " + shape_text(pads) + " are out of range");
  for (size_t i = 0; i < slides.size(); ++i) {
    slides[i].begin = pads[i];
    slides[i].end = pads[slides.size() + i];
  }
  return {};
}

/// Whether auto_pad has the sizes decide; `upper`: the odd element goes behind the data.
Status read_auto_pad(const OpContext &c, bool &same, bool &upper) {
  const std::string mode = c.attr_s("auto_pad", "NOTSET");
  upper = mode == "SAME_UPPER";
  same = upper || mode == "SAME_LOWER";
  if (same || mode == "NOTSET" || mode == "VALID" || mode.empty()) return {};
  return Status::error("auto_pad '" + mode + "' is not known");
}

/// Padding of a convolution or pooling.
Status read_padding(const OpContext &c, const Shape &x, Slides &slides) {
  bool same, upper;
  NPU_TRY(read_auto_pad(c, same, upper));
  if (!same) return c.attr_s("auto_pad", "NOTSET") == "VALID" ? Status() : explicit_padding(c, slides);
  for (size_t i = 0; i < slides.size(); ++i) {
    Slide &s = slides[i];
    const int64_t places = (x[i + 2] + s.stride - 1) / s.stride;
    const int64_t total = std::max<int64_t>((places - 1) * s.stride + s.extent() - x[i + 2], 0);
    s.begin = upper ? total / 2 : total - total / 2;
    s.end = total - s.begin;
  }
  return {};
}

/// The window of a node: one dimension or two.
Window window_of(std::span<const Slide> slides) {
  Window w;
  for (size_t i = 0; i < slides.size(); ++i) {
    w.kernel[i] = slides[i].kernel;
    w.stride[i] = slides[i].stride;
    w.dilation[i] = slides[i].dilation;
    w.begin[i] = slides[i].begin;
    w.end[i] = slides[i].end;
  }
  return w;
}

// Convolution.

/// Zeros in front of an axis and behind it; negative numbers cut off.
Status pad_axis(OpContext &c, ValueId x, int axis, int64_t begin, int64_t end, ValueId &out) {
  const Shape shape = c.graph[x].shape;
  const auto d = static_cast<size_t>(axis);
  const int64_t length = shape[d] + begin + end;
  if (length < 1)
    return Status::error("padding " + shape_text({begin, end}) + " leaves nothing of axis " + std::to_string(axis) +
                         " of " + shape_text(shape));
  std::vector<int64_t> before(shape.size(), 0), behind(shape.size(), 0);
  before[d] = std::max<int64_t>(begin, 0);
  behind[d] = std::max<int64_t>(end, 0);
  NPU_TRY(c.pad(x, before, behind, 0, out));
  return c.slice(out, axis, std::max<int64_t>(-begin, 0), length, out);
}

/// One number for each channel, added to [n, c, spatial...].
Status add_to_channels(OpContext &c, ValueId x, ValueId bias, ValueId &out) {
  const Shape shape = c.graph[x].shape;
  Shape wide(shape.size() - 1, 1);
  wide[0] = shape[1];
  NPU_TRY(c.reshape(bias, wide, bias));
  return c.binary(BinaryKind::Add, x, bias, out);
}

/// A convolution as one node. The chip's has a constant bias; one that arrives at run time is added afterwards.
Status convolve_flat(OpContext &c, ValueId x, ValueId w, ValueId bias, std::span<const Slide> slides, int64_t groups,
                     ValueId &y) {
  const bool inside = bias == kNoValue || c.graph.is_constant(bias) || !c.graph.is_constant(w);
  NPU_TRY(c.emit(Op::Conv, {x, w, inside ? bias : kNoValue}, ConvAttrs{window_of(slides), groups, {}}, y));
  return inside ? Status() : add_to_channels(c, y, bias, y);
}

/// With more than two dimensions the first one joins the batch: for each plane of the kernel a convolution of the
/// planes that meet it, and the sum of these.
Status convolve(OpContext &c, ValueId x, ValueId w, ValueId bias, std::span<const Slide> slides, int64_t groups,
                ValueId &y) {
  if (slides.size() <= 2) return convolve_flat(c, x, w, bias, slides, groups, y);
  const Slide &s = slides[0];
  std::vector<int> swapped(slides.size() + 2);
  for (size_t i = 0; i < swapped.size(); ++i) swapped[i] = static_cast<int>(i);
  std::swap(swapped[1], swapped[2]);
  NPU_TRY(c.transpose(x, swapped, x));
  NPU_TRY(pad_axis(c, x, 1, s.begin, s.end, x));
  Shape shape = c.graph[x].shape, kernel = c.graph[w].shape;
  if (shape[1] < s.extent())
    return Status::error("a window of " + std::to_string(s.extent()) + " does not fit " + std::to_string(shape[1]) +
                         " padded planes");
  const int64_t batch = shape[0], places = (shape[1] - s.extent()) / s.stride + 1;
  shape.erase(shape.begin());
  shape[0] = batch * places;
  kernel.erase(kernel.begin() + 2);
  for (int64_t k = 0; k < s.kernel; ++k) {
    ValueId planes, weights, term;
    NPU_TRY(c.slice(x, 1, k * s.dilation, places, planes, s.stride));
    NPU_TRY(c.reshape(planes, shape, planes));
    NPU_TRY(c.slice(w, 2, k, 1, weights));
    NPU_TRY(c.reshape(weights, kernel, weights));
    NPU_TRY(convolve(c, planes, weights, k ? kNoValue : bias, slides.subspan(1), groups, term));
    NPU_TRY(k ? c.binary(BinaryKind::Add, y, term, y) : (y = term, Status()));
  }
  shape = c.graph[y].shape;
  shape[0] = places;
  shape.insert(shape.begin(), batch);
  NPU_TRY(c.reshape(y, shape, y));
  return c.transpose(y, swapped, y);
}

/// Slides of a convolution, whose kernel is that of the weights.
Status weight_slides(const OpContext &c, Slides &slides) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (w.size() != x.size()) return Status::error("weights " + shape_text(w) + " do not fit input " + shape_text(x));
  const std::span<const int64_t> kernel = std::span(w).subspan(std::min<size_t>(w.size(), 2));
  const std::vector<int64_t> given = c.attr_ints("kernel_shape");
  if (!given.empty() && !std::equal(given.begin(), given.end(), kernel.begin(), kernel.end()))
    return Status::error("kernel_shape " + shape_text(given) + " differs from weights " + shape_text(w));
  NPU_TRY(read_slides(c, x, kernel, slides));
  const int64_t planes = element_count(Shape(kernel.begin(), kernel.end() - std::min<int64_t>(2, std::ssize(kernel))));
  if (planes >= 0 && planes <= kMaxPlanes) return {};
  return refuse(Obstacle::Form, "a kernel of " + shape_text(Shape(kernel.begin(), kernel.end())) + " has more than " +
                                    std::to_string(kMaxPlanes) + " planes");
}

Status conv(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  Slides slides;
  NPU_TRY(weight_slides(c, slides));
  NPU_TRY(read_padding(c, c.shape(0), slides));
  return convolve(c, c.in(0), c.in(1), optional_input(c, 2), slides, c.attr_i("group", 1), c.results[0]);
}

// Transposed convolution.

/// [in, out / groups, kernel...] as the weights of a convolution, [out, in / groups, kernel...] with the kernel back to
/// front.
Status turn_weights(OpContext &c, ValueId w, int64_t groups, ValueId &out) {
  const Shape shape = c.graph[w].shape;
  if (groups < 1 || groups > shape[0] || shape[0] % groups)
    return Status::error("group " + std::to_string(groups) + " does not divide the channels of weights " +
                         shape_text(shape));
  Shape split = shape, joined = shape;
  split[0] /= groups;
  split.insert(split.begin(), groups);
  std::vector<int> perm(split.size());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int>(i);
  std::swap(perm[1], perm[2]);
  joined[0] = groups * shape[1];
  joined[1] = shape[0] / groups;
  NPU_TRY(c.reshape(w, split, out));
  NPU_TRY(c.transpose(out, perm, out));
  NPU_TRY(c.reshape(out, joined, out));
  SliceAttrs back{std::vector<int64_t>(joined.size(), 0), std::vector<int64_t>(joined.size(), 1), joined};
  for (size_t d = 2; d < joined.size(); ++d) {
    back.start[d] = joined[d] - 1;
    back.step[d] = -1;
  }
  return c.emit(Op::Slice, {out}, std::move(back), out);
}

/// `stride` - 1 zeros behind each element along an axis.
Status spread(OpContext &c, ValueId x, int axis, int64_t stride, ValueId &out) {
  out = x;
  if (stride == 1) return {};
  Shape shape = c.graph[x].shape;
  const int64_t inner = element_count(Shape(shape.begin() + axis + 1, shape.end()));
  NPU_TRY(c.reshape(x, {element_count(shape) / inner, inner}, out));
  NPU_TRY(c.pad(out, {0, 0}, {0, (stride - 1) * inner}, 0, out));
  shape[static_cast<size_t>(axis)] *= stride;
  return c.reshape(out, shape, out);
}

/// Where an element of x meets element k of the kernel, the result at stride * place + dilation * k - begin gets their
/// product: a convolution, without strides, of x with zeros between its elements.
Status convolve_transposed(OpContext &c, ValueId x, ValueId w, ValueId bias, Slides slides, int64_t groups,
                           ValueId &y) {
  NPU_TRY(turn_weights(c, w, groups, w));
  for (size_t i = 0; i < slides.size(); ++i) {
    Slide &s = slides[i];
    const int axis = static_cast<int>(i) + 2;
    NPU_TRY(spread(c, x, axis, s.stride, x));
    s.begin = s.extent() - 1 - s.begin;
    s.end = s.extent() - 1 - s.end - (s.stride - 1);
    if (s.begin < 0 || s.end < 0) {
      NPU_TRY(pad_axis(c, x, axis, s.begin, s.end, x));
      s.begin = s.end = 0;
    }
    s.stride = 1;
  }
  return convolve(c, x, w, bias, slides, groups, y);
}

/// Padding that makes the results so long. Of an odd number the larger half goes to the front, but for SAME_UPPER (the
/// text of operator set 11 has it the other way round, its tests have not). Where the result is longer than the windows
/// reach, the rest of it follows behind them (ONNX Runtime).
void fit(const Shape &x, std::span<const int64_t> sizes, bool upper, Slides &slides) {
  for (size_t i = 0; i < slides.size(); ++i) {
    Slide &s = slides[i];
    const int64_t total = s.stride * (x[i + 2] - 1) + s.extent() - s.end - sizes[i];
    s.begin = total < 0 ? 0 : upper ? total / 2 : total - total / 2;
    s.end += total - s.begin;
  }
}

/// Padding of a transposed convolution cuts off the result. output_padding adds to it, as negative padding at the end.
Status transposed_padding(const OpContext &c, const Shape &x, Slides &slides) {
  Slides extra(slides.size());
  NPU_TRY(spatial_attr(c, "output_padding", &Slide::end, extra));
  for (const Slide &e : extra)
    if (e.end < 0 || e.end > 65535) return Status::error("output_padding is outside 0 to 65535");
  std::vector<int64_t> sizes = c.attr_ints("output_shape");
  if (sizes.size() == x.size()) sizes.erase(sizes.begin(), sizes.begin() + 2);  // some tools write batch and channels
  bool same, upper;
  NPU_TRY(read_auto_pad(c, same, upper));
  const bool fitted = same || !sizes.empty();
  if (!fitted && c.attr_s("auto_pad", "NOTSET") != "VALID") NPU_TRY(explicit_padding(c, slides));
  for (size_t i = 0; i < slides.size(); ++i) slides[i].end -= extra[i].end;
  if (!fitted) return {};
  if (sizes.empty())
    for (size_t i = 0; i < slides.size(); ++i) sizes.push_back(x[i + 2] * slides[i].stride);
  if (sizes.size() != slides.size() || element_count(sizes) < 1)
    return Status::error("output_shape " + shape_text(sizes) + " does not fit input " + shape_text(x));
  fit(x, sizes, upper, slides);
  return {};
}

Status conv_transpose(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  Slides slides;
  NPU_TRY(weight_slides(c, slides));
  NPU_TRY(transposed_padding(c, c.shape(0), slides));
  return convolve_transposed(c, c.in(0), c.in(1), optional_input(c, 2), slides, c.attr_i("group", 1), c.results[0]);
}

// Sums into places.

/// Zeros of the type of x, without a constant of that size in the file.
Status zeros_like(OpContext &c, ValueId x, int64_t count, ValueId &out) {
  const int64_t length = element_count(c.graph[x].shape);
  NPU_TRY(c.reshape(x, {length}, out));
  NPU_TRY(c.pad(out, {0}, {count}, 0, out));
  return c.slice(out, 0, length, count, out);
}

/// Places in an image, row-major, of the points of a grid that are `steps` apart in each dimension.
Shape grid_places(const Shape &points, const Shape &steps, const Shape &image) {
  Shape out{0};
  for (size_t d = 0; d < image.size(); ++d) {
    Shape next;
    for (int64_t place : out)
      for (int64_t i = 0; i < points[d]; ++i) next.push_back(place * image[d] + i * steps[d]);
    out = std::move(next);
  }
  return out;
}

/// Col2Im: blocks that lie in an image with padding.
struct ImageBlocks {
  Slides slides;
  Shape image;   ///< padded
  Shape counts;  ///< of blocks, in each dimension
};

/// Where element k of block b lies, for all (k, b).
TensorPtr block_places(const ImageBlocks &blocks) {
  Shape kernel, strides, dilations;
  for (const Slide &s : blocks.slides) {
    kernel.push_back(s.kernel);
    strides.push_back(s.stride);
    dilations.push_back(s.dilation);
  }
  const Shape inside = grid_places(kernel, dilations, blocks.image),
              origins = grid_places(blocks.counts, strides, blocks.image);
  Shape places;
  for (int64_t k : inside)
    for (int64_t b : origins) places.push_back(k + b);
  auto out = std::make_shared<Tensor>(*make_i64(places));
  out->shape.push_back(1);
  return out;
}

/// The blocks of input [n, c * kernel, number of blocks].
Status read_blocks(const OpContext &c, const Shape &x, ImageBlocks &out) {
  Shape kernel;
  NPU_TRY(c.const_ints(1, "image_shape", out.image));
  NPU_TRY(c.const_ints(2, "block_shape", kernel));
  Shape whole = out.image;
  whole.insert(whole.begin(), {1, 1});
  NPU_TRY(read_slides(c, whole, kernel, out.slides));
  NPU_TRY(explicit_padding(c, out.slides));
  int64_t taps = 1;
  for (size_t d = 0; d < kernel.size(); ++d) {
    const Slide &s = out.slides[d];
    int64_t &length = out.image[d];
    length += s.begin + s.end;
    out.counts.push_back(length < s.extent() ? 0 : (length - s.extent()) / s.stride + 1);
    taps = taps > kMaxElements ? taps : taps * s.kernel;
  }
  if (x.size() == 3 && element_count(x) > 0 && element_count(out.image) > 0 && x[1] % taps == 0 &&
      element_count(out.counts) == x[2])
    return {};
  return Status::error("input " + shape_text(x) + " does not fit blocks of " + shape_text(kernel) + " elements at " +
                       shape_text(out.counts) + " places");
}

/// The sum of all blocks where they lie in the padded image; then the padding is cut off.
Status col2im(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  const Shape x = c.shape(0);
  ImageBlocks blocks;
  NPU_TRY(read_blocks(c, x, blocks));
  const TensorPtr places = block_places(blocks);
  const int64_t channels = element_count(x) / places->count(), area = element_count(blocks.image);
  if (element_count({area, channels}) < 0) return refuse(Obstacle::Size, "the padded image is too large");
  ValueId y, updates;
  NPU_TRY(c.reshape(c.in(0), {channels, places->count()}, updates));
  NPU_TRY(c.transpose(updates, {1, 0}, updates));
  NPU_TRY(zeros_like(c, c.in(0), area * channels, y));
  NPU_TRY(c.reshape(y, {area, channels}, y));
  NPU_TRY(c.emit(Op::ScatterNd, {y, c.constant(places), updates}, ScatterAttrs{0, Reduction::Add}, y));
  NPU_TRY(c.transpose(y, {1, 0}, y));
  Shape shape = blocks.image;
  shape.insert(shape.begin(), {x[0], channels / x[0]});
  NPU_TRY(c.reshape(y, shape, c.results[0]));
  for (size_t d = 0; d < blocks.slides.size(); ++d)
    NPU_TRY(pad_axis(c, c.results[0], static_cast<int>(d) + 2, -blocks.slides[d].begin, -blocks.slides[d].end,
                     c.results[0]));
  return {};
}

// Pooling.

/// ceil_mode adds a window where the last one does not reach the end, and leaves out one that begins in the padding
/// behind the data: docs/reference/compiler.md says why. What that changes goes into the padding at the end.
void round_up(const Shape &x, Slides &slides) {
  for (size_t i = 0; i < slides.size(); ++i) {
    Slide &s = slides[i];
    const int64_t span = x[i + 2] + s.begin + s.end - s.extent();
    if (span < 0) continue;
    const int64_t over = span % s.stride, next = span / s.stride * s.stride + (over ? s.stride : 0);
    const bool behind = next >= x[i + 2] + s.begin;
    if (over && !behind) s.end += s.stride - over;
    if (!over && behind) s.end = std::max<int64_t>(s.end - s.stride, 0);
  }
}

/// The shape in which `count` dimensions, from the one on, are the spatial ones: those in front of them join the
/// channels, those behind them become one.
Shape pool_view(const Shape &x, size_t first, size_t count) {
  Shape view{x[0], x[1]};
  for (size_t i = 2; i < first; ++i) view[1] *= x[i];
  for (size_t i = first; i < first + count; ++i) view.push_back(x[i]);
  if (first + count == x.size()) return view;
  view.push_back(element_count(Shape(x.begin() + static_cast<int64_t>(first + count), x.end())));
  return view;
}

/// What a pooling computes, and how far it has come.
struct Pooling {
  PoolAttrs attrs;  ///< but for the window
  bool column_major = false;
  ValueId y = kNoValue;
  ValueId indices = kNoValue;  ///< where the elements of y are in the input
};

/// Places in y of the next step, as places in the input.
Status follow_indices(OpContext &c, const Window &window, Pooling &p) {
  ValueId places;
  const bool first = p.indices == kNoValue;
  NPU_TRY(c.emit(Op::PoolIndices, {p.y}, PoolIndicesAttrs{window, first && p.column_major}, places));
  if (first) return p.indices = places, Status();
  NPU_TRY(c.reshape(p.indices, {element_count(c.graph[p.indices].shape)}, p.indices));
  return c.gather(0, p.indices, places, p.indices);
}

Status pool_step(OpContext &c, std::span<const Slide> slides, const Shape &view, bool with_indices, Pooling &p) {
  NPU_TRY(c.reshape(p.y, view, p.y));
  PoolAttrs attrs = p.attrs;
  attrs.window = window_of(slides);
  for (size_t i = 0; i < slides.size(); ++i) attrs.counted_end[i] = slides[i].counted_end;
  if (with_indices) NPU_TRY(follow_indices(c, attrs.window, p));
  return c.emit(Op::Pool, {p.y}, attrs, p.y);
}

/// The last two spatial dimensions at once, those in front of them one after the other. The divisor of an average is a
/// product of one factor a dimension, at the borders and with ceil_mode as well, so that averages may be taken so, too.
Status pool_spatial(OpContext &c, const Slides &slides, bool with_indices, Pooling &p) {
  Shape now = c.graph[p.y].shape;
  size_t first = std::max<size_t>(now.size() - 2, 2), count = now.size() - first;
  for (;; --first, count = 1) {
    NPU_TRY(pool_step(c, std::span(slides).subspan(first - 2, count), pool_view(now, first, count), with_indices, p));
    for (size_t i = 0; i < count; ++i) now[first + i] = c.graph[p.y].shape[2 + i];
    if (first == 2) break;
  }
  if (with_indices) NPU_TRY(c.reshape(p.indices, now, p.indices));
  return c.reshape(p.y, now, p.y);
}

/// Row-major places in pictures as column-major ones: the first spatial dimension varies fastest.
Status to_column_major(OpContext &c, const Shape &x, ValueId &index) {
  int64_t step = element_count(Shape(x.begin() + 2, x.end()));
  ValueId rest, sum, along;
  NPU_TRY(c.binary(BinaryKind::Mod, index, static_cast<double>(step), rest));
  NPU_TRY(c.binary(BinaryKind::Sub, index, rest, sum));
  for (size_t i = x.size(); i-- > 2;) {
    step /= x[i];
    NPU_TRY(c.binary(BinaryKind::Mod, rest, static_cast<double>(x[i]), along));
    NPU_TRY(c.binary(BinaryKind::Mul, along, static_cast<double>(step), along));
    NPU_TRY(c.binary(BinaryKind::Add, sum, along, sum));
    NPU_TRY(c.binary(BinaryKind::Div, rest, static_cast<double>(x[i]), rest));
  }
  index = sum;
  return {};
}

Status pool(OpContext &c, bool max) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape x = c.shape(0);
  const Dtype type = c.value(0).dtype;
  Slides slides;
  NPU_TRY(read_slides(c, x, c.attr_ints("kernel_shape"), slides));
  NPU_TRY(read_padding(c, x, slides));
  for (Slide &s : slides) s.counted_end = std::max<int64_t>(s.end, 0);
  if (c.attr_i("ceil_mode", 0)) round_up(x, slides);
  Pooling p;
  p.attrs.max = max;
  p.attrs.count_pad = !max && c.attr_i("count_include_pad", 0) != 0;
  const bool with_indices = max && c.wants_output(1), column_major = c.attr_i("storage_order", 0) != 0;
  p.column_major = column_major && x.size() <= 4;
  // As float32, where the indices are wanted.
  const bool exact = with_indices && (type == Dtype::I8 || type == Dtype::U8);
  p.y = c.in(0);
  if (exact) NPU_TRY(c.cast(p.y, Dtype::F32, p.y));
  NPU_TRY(pool_spatial(c, slides, with_indices, p));
  if (with_indices && column_major && !p.column_major) NPU_TRY(to_column_major(c, x, p.indices));
  if (with_indices) c.results[1] = p.indices;
  return exact ? c.cast(p.y, type, c.results[0]) : (c.results[0] = p.y, Status());
}

Status max_pool(OpContext &c) { return pool(c, true); }
Status average_pool(OpContext &c) { return pool(c, false); }

Status global_pool(OpContext &c, bool max) {
  NPU_TRY(c.need_inputs(1, 1));
  Shape x = c.shape(0);
  if (x.size() < 3) return Status::error("input " + shape_text(x) + " has no spatial dimensions");
  if (element_count(x) < 1) return Status::error("input " + shape_text(x) + " is empty");
  Shape out(x.size(), 1);
  out[0] = x[0];
  out[1] = x[1];
  if (x.size() > 4) x = {x[0], x[1], x[2], element_count(Shape(x.begin() + 3, x.end()))};
  PoolAttrs attrs;
  attrs.max = max;
  ValueId y;
  NPU_TRY(c.reshape(c.in(0), x, y));
  if (*std::max_element(x.begin() + 2, x.end()) > 65535) {  // more than a kernel has
    NPU_TRY(c.reshape(y, {x[0], x[1], element_count(x) / (x[0] * x[1])}, y));
    NPU_TRY(c.reduce(max ? ReduceKind::Max : ReduceKind::Mean, y, {2}, true, y));
  } else {
    for (size_t i = 2; i < x.size(); ++i) attrs.window.kernel[i - 2] = x[i];
    NPU_TRY(c.emit(Op::Pool, {y}, attrs, y));
  }
  return c.reshape(y, out, c.results[0]);
}

Status global_max_pool(OpContext &c) { return global_pool(c, true); }
Status global_average_pool(OpContext &c) { return global_pool(c, false); }

/// The node that indices come from, through the steps that follow it where there are more than two dimensions; null:
/// they are not those of a pooling.
const Node *pooling_of(const Graph &graph, ValueId indices) {
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node &n = graph.nodes[i];
    if (n.output != indices) continue;
    if (n.op == Op::PoolIndices) return &n;
    if (n.op != Op::Reshape && n.op != Op::Gather) return nullptr;
    indices = n.inputs[0];
  }
  return nullptr;
}

/// The shape that the indices of a MaxUnpool count in. ONNX's tests have them count in the shape that kernel, strides
/// and padding give, which output_shape then makes longer. But MaxPool's own indices count in the shape of its input,
/// which output_shape names where it is another (ONNX Runtime).
const Shape &counted_in(const OpContext &c, const Shape &plain, const Shape &wanted) {
  const Node *pooling = pooling_of(c.graph, c.in(1));
  if (pooling && element_count(c.graph[pooling->inputs[0]].shape) == element_count(wanted)) return wanted;
  for (size_t i = 0; i < plain.size(); ++i)
    if (wanted[i] < plain[i]) return wanted;
  return plain;
}

/// The shape of the result, and the one that the indices count in.
Status unpooled_shapes(const OpContext &c, Shape &wanted, Shape &counted) {
  const Shape &x = c.shape(0);
  if (c.shape(1) != x) return Status::error("indices " + shape_text(c.shape(1)) + " do not fit input " + shape_text(x));
  Slides slides;
  NPU_TRY(read_slides(c, x, c.attr_ints("kernel_shape"), slides));
  NPU_TRY(explicit_padding(c, slides));
  Shape plain = x;
  for (size_t i = 0; i < slides.size(); ++i)
    plain[i + 2] = (x[i + 2] - 1) * slides[i].stride - slides[i].begin - slides[i].end + slides[i].kernel;
  wanted = plain;
  if (c.has_input(2)) NPU_TRY(c.const_ints(2, "output_shape", wanted));
  if (wanted.size() != x.size() || element_count(wanted) < 1 || wanted[0] != x[0] || wanted[1] != x[1])
    return Status::error("the result " + shape_text(wanted) + " does not fit input " + shape_text(x));
  counted = counted_in(c, plain, wanted);
  if (element_count(counted) > 0) return {};
  return Status::error("the indices count in a result of " + shape_text(counted) + ", which is empty or too large");
}

Status max_unpool(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  Shape wanted, counted;
  NPU_TRY(unpooled_shapes(c, wanted, counted));
  const Shape flat{element_count(c.shape(0))};
  ValueId y, indices, updates;
  NPU_TRY(zeros_like(c, c.in(0), element_count(counted), y));
  NPU_TRY(c.reshape(c.in(0), flat, updates));
  NPU_TRY(c.reshape(c.in(1), flat, indices));
  NPU_TRY(c.emit(Op::ScatterElements, {y, indices, updates}, ScatterAttrs{}, y));
  NPU_TRY(c.reshape(y, counted, y));
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] -= counted[i];
  return c.pad(y, Shape(wanted.size(), 0), wanted, 0, c.results[0]);
}

constexpr OpEntry kWindowOps[] = {
    {"AveragePool", average_pool},
    {"Col2Im", col2im},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"MaxPool", max_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const OpEntry> window_ops() { return kWindowOps; }

Status read_conv(const OpContext &c, ConvAttrs &out) {
  Slides slides;
  NPU_TRY(weight_slides(c, slides));
  NPU_TRY(read_padding(c, c.shape(0), slides));
  out.window = window_of(slides);
  out.groups = c.attr_i("group", 1);
  return {};
}

}  // namespace npu::graph
