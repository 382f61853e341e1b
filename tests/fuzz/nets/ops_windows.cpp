// SPDX-License-Identifier: MIT
// Convolution and pooling.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

/// One spatial dimension of a window, and how many places it has.
struct Side {
  int64_t size = 1, kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0, places = 0;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// Of auto_pad SAME; less than 0 where windows leave out cells at the end.
  int64_t same_padding() const { return (places - 1) * stride + extent() - size; }
};

struct Windows {
  std::vector<Side> sides;
  std::string auto_pad;
  bool ceil_mode = false, strides = false, dilations = false, pads = false;

  std::vector<int64_t> list(int64_t Side::*field) const {
    std::vector<int64_t> out;
    for (const Side &s : sides) out.push_back(s.*field);
    return out;
  }
};

/// Places of a window; with ceil_mode one that begins in the padding behind the data is none, and true is returned.
bool set_places(Side &s, const Windows &w) {
  if (w.auto_pad.starts_with("SAME")) {
    s.places = (s.size + s.stride - 1) / s.stride;
    const int64_t total = std::max<int64_t>(s.same_padding(), 0);
    s.begin = w.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    s.end = total - s.begin;
    return false;
  }
  const int64_t span = s.size + s.begin + s.end - s.extent();
  if (span < 0) return false;
  s.places = (span + (w.ceil_mode ? s.stride - 1 : 0)) / s.stride + 1;
  const bool behind = w.ceil_mode && (s.places - 1) * s.stride >= s.size + s.begin;
  s.places -= behind;
  return behind;
}

/// Whether each window sees some of the data.
bool sees_data(const Side &s) {
  for (int64_t place = 0; place < s.places; ++place) {
    bool any = false;
    for (int64_t k = 0; k < s.kernel; ++k) {
      const int64_t at = place * s.stride - s.begin + k * s.dilation;
      any = any || (at >= 0 && at < s.size);
    }
    if (!any) return false;
  }
  return true;
}

Windows choose_windows(Net &net, Choices &c, const Tensor &x, bool pool, bool dilations) {
  Windows w;
  w.strides = c.chance(50);
  w.dilations = dilations && c.chance(25);
  const int64_t padding = c.below(4);
  w.pads = padding == 1 || padding == 2;
  if (padding == 3) w.auto_pad = c.one_of<const char *>({"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"});
  // ONNX Runtime refuses that.
  if (w.dilations && w.auto_pad.starts_with("SAME")) net.onnxruntime = false;
  w.ceil_mode = pool && net.opset >= 10 && c.chance(40);
  for (size_t i = 2; i < x.dims.size(); ++i) {
    Side s;
    s.size = x.dims[i];
    s.kernel = c.from(1, std::min<int64_t>(s.size + 1, c.chance(10) ? 11 : 4));
    if (w.strides) s.stride = c.from(1, 4);
    if (w.dilations) s.dilation = c.from(1, 3);
    if (w.pads) {
      s.begin = c.from(0, s.kernel - 1);
      s.end = c.from(0, s.kernel - 1);
    }
    // ONNX Runtime 1.20 still has that window, full of the lowest number.
    if (set_places(s, w)) net.onnxruntime = false;
    // ONNX Runtime takes a negative padding as it is, and begins behind the first cell.
    if (w.auto_pad.starts_with("SAME") && s.same_padding() < 0) net.onnxruntime = false;
    w.sides.push_back(s);
  }
  return w;
}

bool usable(const Windows &w, bool pool) {
  return std::all_of(w.sides.begin(), w.sides.end(),
                     [&](const Side &s) { return s.places > 0 && (!pool || sees_data(s)); });
}

Dims result_dims(const Windows &w, int64_t n, int64_t channels) {
  Dims out{n, channels};
  for (const Side &s : w.sides) out.push_back(s.places);
  return out;
}

void set_attributes(Net &net, const Windows &w) {
  if (w.strides) net.b.attr("strides", w.list(&Side::stride));
  if (w.dilations) net.b.attr("dilations", w.list(&Side::dilation));
  if (!w.auto_pad.empty()) net.b.attr("auto_pad", w.auto_pad.c_str());
  if (w.pads) {
    std::vector<int64_t> pads = w.list(&Side::begin);
    const std::vector<int64_t> ends = w.list(&Side::end);
    pads.insert(pads.end(), ends.begin(), ends.end());
    net.b.attr("pads", pads);
  }
  if (w.ceil_mode) net.b.attr("ceil_mode", int64_t{1});
}

bool is_picture(const Tensor &t) { return t.rank() >= 3 && t.rank() <= 5; }

int64_t divisor(Choices &c, int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all[static_cast<size_t>(c.below(static_cast<int64_t>(all.size())))];
}

bool conv(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found) return false;
  const Tensor x = *found;
  const Windows w = choose_windows(net, c, x, false, true);
  const int64_t groups = c.chance(30) ? divisor(c, x.dims[1]) : 1, out = groups * c.from(1, groups > 1 ? 2 : 9);
  Dims weights{out, x.dims[1] / groups};
  for (const Side &s : w.sides) weights.push_back(s.kernel);
  const Dims y = result_dims(w, x.dims[0], out);
  const auto terms = static_cast<double>(count_of(weights) / out);
  // Such weights keep the size of what goes through them, about.
  const double weight = std::sqrt(3 / terms), most = std::min(terms * weight, 4.0) * x.most + 1;
  const bool fits = usable(w, false) && net.allows(y, most) && count_of(y) * static_cast<int64_t>(terms) <= 3000000;
  if (!fits || count_of(weights) > 50000) return false;
  std::vector<std::string> inputs{x.name, net.constant(weights, weight).name};
  const int64_t bias = c.below(8);
  if (bias == 7)
    if (const Tensor *t = net.pick(c, [&](const Tensor &v) { return v.dims == Dims{out}; })) inputs.push_back(t->name);
  if (bias > 1 && inputs.size() == 2) inputs.push_back(net.constant({out}, 0.5).name);
  const std::string result = net.node(type, inputs);
  set_attributes(net, w);
  if (groups > 1) net.b.attr("group", groups);
  if (c.chance(50)) net.b.attr("kernel_shape", w.list(&Side::kernel));
  net.add(result, y, most);
  return true;
}

bool pool(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found) return false;
  const Tensor x = *found;
  const bool max = std::string(type) == "MaxPool";
  const Windows w = choose_windows(net, c, x, true, net.opset >= (max ? 10 : 19));
  const Dims y = result_dims(w, x.dims[0], x.dims[1]);
  if (!usable(w, true) || !net.allows(y, x.most)) return false;
  const std::string result = net.node(type, {x.name});
  // Where the largest element is depends on it.
  const std::string indices = max && net.host && x.exact && net.opset >= 8 && c.chance(30) ? net.b.more_output() : "";
  net.b.attr("kernel_shape", w.list(&Side::kernel));
  set_attributes(net, w);
  if (!indices.empty() && c.chance(30)) net.b.attr("storage_order", int64_t{1});
  if (!indices.empty()) {
    Tensor places{indices, y, static_cast<double>(x.count())};
    places.type = onnx::TensorProto::INT64;
    places.positive = places.exact = true;
    net.add(places);
  }
  if (max) {
    Tensor largest = x;
    largest.name = result;
    largest.dims = y;
    net.add(largest);
    return true;
  }
  if (c.chance(40)) {
    net.b.attr("count_include_pad", int64_t{1});
    // What ceil_mode adds behind the padding does not count; ONNX Runtime 1.20 counts it.
    if (w.ceil_mode) net.onnxruntime = false;
    // Since operator set 19 it leaves out padding at the end.
    if (net.opset >= 19) net.onnxruntime = false;
  }
  net.add(result, y, x.most, 0, x.positive);
  return true;
}

/// What an unpooling makes of a pooling without padding, whose windows do not overlap.
bool max_unpool(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return is_picture(t) && t.exact; });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  std::vector<int64_t> kernel;
  Dims small = x.dims, plain = x.dims;
  for (size_t i = 2; i < x.dims.size(); ++i) {
    kernel.push_back(c.from(1, std::min<int64_t>(x.dims[i], 3)));
    small[i] = x.dims[i] / kernel.back();
    plain[i] = small[i] * kernel.back();
  }
  const std::string pooled = net.node("MaxPool", {x.name}), places = net.b.more_output();
  net.b.attr("kernel_shape", kernel).attr("strides", kernel);
  const bool shape = plain != x.dims || c.chance(50);
  std::vector<std::string> inputs{pooled, places};
  if (shape) inputs.push_back(net.ints(c, x.dims));
  const std::string y = net.node(type, inputs);
  net.b.attr("kernel_shape", kernel).attr("strides", kernel);
  Tensor result = x;
  result.name = y;
  result.least = 0;
  net.add(result);
  return true;
}

/// Blocks of a picture, which overlap, summed up where they lie.
bool col2im(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 3 || t.rank() == 4; });
  if (!found || net.opset < 18) return false;
  const Tensor x = *found;
  // Its rows, as blocks of k elements along a line or k * l in a picture.
  const int64_t k = c.from(1, 3), l = c.from(1, 2), step = c.from(1, 2), channels = c.from(1, 2);
  const int64_t blocks = x.count() / (k * l * channels);
  if (blocks < 1 || blocks > 2000) return false;
  const Dims image{(blocks - 1) * step + k, l};
  if (!net.allows({1, channels, image[0], image[1]}, x.most * static_cast<double>(k))) return false;
  const std::string flat = net.node("Reshape", {x.name, net.b.ints({-1})});
  const std::string part = net.node("Slice", {flat, net.b.ints({0}), net.b.ints({blocks * k * l * channels})});
  const std::string rows = net.node("Reshape", {part, net.b.ints({1, channels * k * l, blocks})});
  const std::string y = net.node(type, {rows, net.ints(c, image), net.ints(c, {k, l})});
  if (step > 1 || c.chance(50)) net.b.attr("strides", std::vector<int64_t>{step, 1});
  net.add(y, {1, channels, image[0], image[1]}, x.most * static_cast<double>(k));
  return true;
}

bool lp_pool(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found) return false;
  constexpr double kMost = 8;
  const Tensor given = *found;
  const Windows w = choose_windows(net, c, given, true, net.opset >= 18);
  const Dims y = result_dims(w, given.dims[0], given.dims[1]);
  double taps = 1;
  for (const Side &s : w.sides) taps *= static_cast<double>(s.kernel);
  const int64_t p = c.from(1, 3);
  const double most = std::min(given.most, kMost) * std::pow(taps, 1 / static_cast<double>(p));
  // ceil_mode came with operator set 18.
  if (!usable(w, true) || !net.allows(y, most) || (w.ceil_mode && net.opset < 18)) return false;
  const std::string result = net.node(type, {bounded(net, given, kMost).name});
  net.b.attr("kernel_shape", w.list(&Side::kernel)).attr("p", p);
  set_attributes(net, w);
  net.add(result, y, most, 0, true);
  return true;
}

bool global_pool(Net &net, Choices &c, const char *type) {
  const Tensor *x = net.pick(c, [](const Tensor &t) { return t.rank() >= 3; });
  if (!x) return false;
  Dims y(x->dims.size(), 1);
  std::copy_n(x->dims.begin(), 2, y.begin());
  const std::string kind = type;
  Tensor result = *x;
  result.dims = y;
  if (x->rank() > 5) net.onnxruntime = false;  // which refuses so many dimensions
  if (kind == "GlobalLpPool") result.most *= std::sqrt(static_cast<double>(x->count() / (y[0] * y[1])));
  if (!net.allows(y, result.most)) return false;
  result.name = net.node(type, {x->name});
  result.least = 0;
  result.exact = x->exact && kind == "GlobalMaxPool";
  result.positive = x->positive || kind == "GlobalLpPool";
  net.add(result);
  return true;
}

/// One dimension of a transposed convolution: its own padding cuts off.
bool set_transposed(Choices &c, bool sizes, Side &s, int64_t &extra) {
  const int64_t full = (s.size - 1) * s.stride + s.extent();
  extra = s.stride > 1 || s.dilation > 1 ? c.from(0, std::max(s.stride, s.dilation) - 1) : 0;
  if (c.chance(50)) extra = 0;
  if (sizes) {
    s.places = full - c.from(0, std::min<int64_t>(s.extent() - 1, full - 1));
    extra = 0;
    return s.places > 0;
  }
  s.begin = c.from(0, s.extent() - 1);
  s.end = c.from(0, s.extent() - 1);
  s.places = full + extra - s.begin - s.end;
  return s.places > 0;
}

bool conv_transpose(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found) return false;
  const Tensor x = *found;
  const int64_t groups = c.chance(30) ? divisor(c, x.dims[1]) : 1, own = c.from(1, 4);
  const bool sizes = c.chance(20), dilated = c.chance(25), strided = c.chance(70);
  Windows w;
  std::vector<int64_t> extra, wanted;
  Dims weights{x.dims[1], own};
  for (size_t i = 2; i < x.dims.size(); ++i) {
    Side s;
    s.size = x.dims[i];
    s.kernel = c.from(1, 4);
    if (strided) s.stride = c.from(1, 3);
    if (dilated) s.dilation = c.from(1, 2);
    extra.push_back(0);
    if (!set_transposed(c, sizes, s, extra.back())) return false;
    w.sides.push_back(s);
    weights.push_back(s.kernel);
    wanted.push_back(s.places);
  }
  w.strides = strided;
  w.dilations = dilated;
  w.pads = !sizes;
  const Dims y = result_dims(w, x.dims[0], groups * own);
  const auto terms = static_cast<double>(count_of(weights) / own / groups);
  const double weight = std::sqrt(3 / terms), most = std::min(terms * weight, 4.0) * x.most + 1;
  const bool fits = net.allows(y, most) && count_of(y) * static_cast<int64_t>(terms) <= 3000000;
  if (!fits || count_of(weights) > 50000) return false;
  std::vector<std::string> inputs{x.name, net.constant(weights, weight).name};
  if (c.chance(60)) inputs.push_back(net.constant({groups * own}, 0.5).name);
  const std::string result = net.node(type, inputs);
  set_attributes(net, w);
  if (groups > 1) net.b.attr("group", groups);
  if (sizes) net.b.attr("output_shape", wanted);
  // ONNX Runtime lays the elements wrong where there are dilations, too.
  if (dilated && *std::max_element(extra.begin(), extra.end()) > 0) net.onnxruntime = false;
  if (*std::max_element(extra.begin(), extra.end()) > 0) net.b.attr("output_padding", extra);
  if (c.chance(50)) net.b.attr("kernel_shape", w.list(&Side::kernel));
  net.add(result, y, most);
  return true;
}

constexpr Op kWindows[] = {
    {"Conv", conv},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"Conv", conv},
    {"GlobalMaxPool", global_pool},
    {"GlobalAveragePool", global_pool},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"LpPool", lp_pool},
    {"GlobalLpPool", global_pool},
};

constexpr Op kHostOps[] = {{"MaxUnpool", max_unpool}, {"Col2Im", col2im}};

}  // namespace

std::span<const Op> window_ops() { return kWindows; }
std::span<const Op> host_window_ops() { return kHostOps; }

}  // namespace npu::fuzz
