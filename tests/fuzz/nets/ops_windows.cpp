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

bool is_picture(const Tensor &t) { return t.rank() == 3 || t.rank() == 4; }

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
  const Windows w = choose_windows(net, c, x, true, max && net.opset >= 10);
  const Dims y = result_dims(w, x.dims[0], x.dims[1]);
  if (!usable(w, true) || !net.allows(y, x.most)) return false;
  const std::string result = net.node(type, {x.name});
  net.b.attr("kernel_shape", w.list(&Side::kernel));
  set_attributes(net, w);
  if (!max && c.chance(40)) {
    net.b.attr("count_include_pad", int64_t{1});
    // What ceil_mode adds behind the padding does not count; ONNX Runtime 1.20 counts it.
    if (w.ceil_mode) net.onnxruntime = false;
  }
  net.add(result, y, x.most);
  return true;
}

bool global_pool(Net &net, Choices &c, const char *type) {
  const Tensor *x = net.pick(c, [](const Tensor &t) { return t.rank() >= 3; });
  if (!x) return false;
  Dims y(x->dims.size(), 1);
  std::copy_n(x->dims.begin(), 2, y.begin());
  const double most = x->most;
  if (x->rank() > 5) net.onnxruntime = false;  // which refuses so many dimensions
  net.add(net.node(type, {x->name}), y, most);
  return true;
}

constexpr Op kOps[] = {
    {"Conv", conv},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"Conv", conv},
    {"GlobalMaxPool", global_pool},
    {"GlobalAveragePool", global_pool},
    {"Conv", conv},
};

}  // namespace

std::span<const Op> window_ops() { return kOps; }

}  // namespace npu::fuzz
