// SPDX-License-Identifier: MIT
// Window functions, and Fourier transforms as products with constant matrices, whose elements are computed in double
// precision.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// Elements of a window or a matrix, 256 MiB.
constexpr int64_t kMaxTable = int64_t{1} << 26;

constexpr double kTurn = 2 * std::numbers::pi;

/// The constant number that operand k is.
Status one_int(const OpContext &c, size_t k, const char *what, int64_t &out) {
  std::vector<int64_t> given;
  NPU_TRY(c.const_ints(k, what, given));
  if (given.size() != 1)
    return Status::error(std::string(what) + " is " + shape_text(c.shape(k)) + ", one number was expected");
  out = given[0];
  return {};
}

Status check_range(const char *what, int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most
             ? Status()
             : Status::error(std::string(what) + " is " + std::to_string(value) + ", " + std::to_string(least) +
                             " to " + std::to_string(most) + " was expected");
}

/// Converts a constant to the type that the attribute output_datatype names.
Status put_table(OpContext &c, const Shape &shape, const std::vector<float> &values) {
  const int64_t type = c.attr_i("output_datatype", 1);
  const auto to = static_cast<Dtype>(type);
  if (type < 1 || type > 255 || dtype_bytes(to) == 0 || to == Dtype::Bool)
    return refuse(Obstacle::Type, "output_datatype " + std::to_string(type) + " is not a type that is supported");
  return c.cast(c.constant(make_f32(shape, values)), working_type(to), c.results[0]);
}

/// a0 - a1 * cos(2 pi i / n) + a2 * cos(4 pi i / n), where n is the size, or for a symmetric window one less.
Status cosine_window(OpContext &c, double a0, double a1, double a2) {
  NPU_TRY(c.need_inputs(1, 1));
  int64_t size;
  NPU_TRY(one_int(c, 0, "size", size));
  NPU_TRY(check_range("size", size, 0, kMaxTable));
  // Where the formula divides by 0 the window is its top.
  const bool periodic = c.attr_i("periodic", 1) != 0, single = size == 1 && !periodic;
  const auto n = static_cast<double>(periodic || single ? size : size - 1);
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = single ? kTurn / 2 : kTurn * static_cast<double>(i) / n;
    values.push_back(static_cast<float>(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)));
  }
  return put_table(c, {size}, values);
}

Status hann_window(OpContext &c) { return cosine_window(c, 0.5, 0.5, 0); }
Status hamming_window(OpContext &c) { return cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }
Status blackman_window(OpContext &c) { return cosine_window(c, 0.42, 0.5, 0.08); }

// Mel weights.

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

/// What MelWeightMatrix is given.
struct MelScale {
  int64_t filters = 0, length = 0, rate = 0;
  double lower = 0, upper = 0;
  int64_t bins() const { return length / 2 + 1; }

  /// The frequency bins where filters begin and end, in units of the transform. ONNX's formula divides the range into
  /// filters + 2 steps, so that the last end lies below the upper edge.
  std::vector<int64_t> edges() const {
    std::vector<int64_t> out;
    const double low = mel_of(lower), step = (mel_of(upper) - low) / static_cast<double>(filters + 2);
    for (int64_t i = 0; i < filters + 2; ++i) {
      const double hertz = hertz_of(low + static_cast<double>(i) * step);
      out.push_back(
          static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    }
    return out;
  }
};

Status read_mel_scale(const OpContext &c, MelScale &m) {
  std::vector<float> lower, upper;
  NPU_TRY(one_int(c, 0, "num_mel_bins", m.filters));
  NPU_TRY(one_int(c, 1, "dft_length", m.length));
  NPU_TRY(one_int(c, 2, "sample_rate", m.rate));
  NPU_TRY(c.const_floats(3, "lower_edge_hertz", lower));
  NPU_TRY(c.const_floats(4, "upper_edge_hertz", upper));
  NPU_TRY(check_range("num_mel_bins", m.filters, 0, kMaxTable));
  NPU_TRY(check_range("dft_length", m.length, 0, kMaxTable));
  NPU_TRY(check_range("sample_rate", m.rate, 1, kMaxElements));
  if (lower.size() != 1 || upper.size() != 1) return Status::error("the edges are not one number each");
  m.lower = lower[0];
  m.upper = upper[0];
  if (!(m.lower >= 0) || !(m.upper >= m.lower) || m.upper > static_cast<double>(m.rate))
    return Status::error("edges " + std::to_string(m.lower) + " and " + std::to_string(m.upper) +
                         " Hz do not rise from 0 to the sample rate");
  return check_range("the number of weights", m.bins() * m.filters, 0, kMaxTable);
}

/// Each filter is a column: a triangle over three edges. Where the first two are one bin it begins at its top.
Status mel_weight_matrix(OpContext &c) {
  NPU_TRY(c.need_inputs(5, 5));
  MelScale m;
  NPU_TRY(read_mel_scale(c, m));
  const std::vector<int64_t> edges = m.edges();
  std::vector<float> values(static_cast<size_t>(m.bins() * m.filters));
  const auto set = [&](int64_t bin, int64_t filter, int64_t up, int64_t of) {
    if (bin < m.bins())
      values[static_cast<size_t>(bin * m.filters + filter)] = static_cast<float>(up) / static_cast<float>(of);
  };
  for (int64_t i = 0; i < m.filters; ++i) {
    const int64_t *edge = &edges[static_cast<size_t>(i)];
    const int64_t rise = edge[1] - edge[0], fall = edge[2] - edge[1];
    if (rise == 0) set(edge[1], i, 1, 1);
    for (int64_t k = 1; k <= rise; ++k) set(edge[0] + k, i, k, rise);
    for (int64_t k = 0; k < fall; ++k) set(edge[1] + k, i, fall - k, fall);
  }
  return put_table(c, {m.bins(), m.filters}, values);
}

// Fourier transforms.

/// A transform of `points`, of which the first `used` elements of the input are taken and the others are 0.
struct Transform {
  int64_t points = 0, used = 0, results = 0;
  bool complex = false;  ///< the input
  bool inverse = false;
  bool real_result = false;     ///< of an inverse: the input is the first half of a spectrum that mirrors itself
  std::vector<float> window{};  ///< factors of the input, if any
  int64_t parts_in() const { return complex ? 2 : 1; }
  int64_t parts_out() const { return real_result ? 1 : 2; }
};

/// Rows are parts of the input's elements, columns parts of the results.
Status transform_matrix(OpContext &c, const Transform &t, ValueId &out) {
  const Shape shape{t.used * t.parts_in(), t.results * t.parts_out()};
  const int64_t count = element_count(shape);
  if (count < 0 || count > kMaxTable)
    return refuse(Obstacle::Size, "a Fourier transform of " + std::to_string(t.points) + " points needs a matrix of " +
                                      shape_text(shape) + ", up to " + std::to_string(kMaxTable) +
                                      " elements are supported");
  std::vector<float> values;
  values.reserve(static_cast<size_t>(count));
  const auto points = static_cast<double>(t.points);
  const double norm = t.inverse ? 1 / points : 1, sense = t.inverse ? 1 : -1;
  for (int64_t i = 0; i < t.used; ++i) {
    // The mirrored half counts as well; the first element and the middle have no mirror image.
    const double mirror = t.real_result && i != 0 && 2 * i != t.points ? 2 : 1;
    const double factor =
        norm * mirror * (t.window.empty() ? 1 : static_cast<double>(t.window[static_cast<size_t>(i)]));
    for (int64_t part = 0; part < t.parts_in(); ++part)
      for (int64_t k = 0; k < t.results; ++k) {
        const double angle = kTurn * static_cast<double>(i * k % t.points) / points;
        const double re = factor * std::cos(angle), im = factor * sense * std::sin(angle);
        values.push_back(static_cast<float>(part ? -im : re));
        if (!t.real_result) values.push_back(static_cast<float>(part ? re : im));
      }
  }
  out = c.constant(make_f32(shape, values));
  return {};
}

/// x [rows..., used * parts] becomes [rows..., results, parts].
Status transform_rows(OpContext &c, const Transform &t, ValueId x, ValueId &out) {
  ValueId matrix = kNoValue;
  Shape rows = c.graph[x].shape;
  rows.pop_back();
  NPU_TRY(transform_matrix(c, t, matrix));
  NPU_TRY(c.reshape(x, {element_count(rows), t.used * t.parts_in()}, out));
  NPU_TRY(c.matmul(out, matrix, out));
  rows.insert(rows.end(), {t.results, t.parts_out()});
  return c.reshape(out, rows, out);
}

/// The axis: an attribute in operator set 17, the constant operand 2 since 20.
Status dft_axis(const OpContext &c, int &axis) {
  int64_t value = c.attr_i("axis", c.opset < 20 ? 1 : -2);
  if (c.opset >= 20 && c.has_input(2)) NPU_TRY(one_int(c, 2, "axis", value));
  NPU_TRY(c.axis(value, c.rank(0), axis));
  return axis + 1 < c.rank(0) ? Status() : Status::error("the axis is the last one, of real and imaginary parts");
}

/// With `onesided` the forward transform is from real to complex numbers, the inverse one back (onnx/onnx, pull request
/// 7574).
Status read_transform(const OpContext &c, int axis, Transform &t) {
  const Shape x = c.shape(0);
  const bool onesided = c.attr_i("onesided", 0) != 0;
  const int64_t length = x[static_cast<size_t>(axis)];
  t.complex = x.back() == 2;
  t.inverse = c.attr_i("inverse", 0) != 0;
  t.real_result = onesided && t.inverse;
  if (x.back() != 1 && x.back() != 2)
    return Status::error("input " + shape_text(x) + " has not 1 or 2 parts in its last dimension");
  if (onesided && t.complex != t.inverse)
    return Status::error(t.inverse ? "onesided: the inverse transform needs a complex input"
                                   : "onesided: the input is complex, a real one was expected");
  t.points = t.real_result ? 2 * (length - 1) : length;
  if (c.has_input(1)) NPU_TRY(one_int(c, 1, "dft_length", t.points));
  NPU_TRY(check_range("dft_length", t.points, 1, kMaxTable));
  t.results = onesided && !t.inverse ? t.points / 2 + 1 : t.points;
  t.used = std::min(length, t.real_result ? t.points / 2 + 1 : t.points);
  return {};
}

Status dft(OpContext &c) {
  NPU_TRY(c.need_inputs(1, c.opset < 20 ? 2 : 3));
  Transform t;
  int axis;
  NPU_TRY(dft_axis(c, axis));
  NPU_TRY(read_transform(c, axis, t));
  const int last = static_cast<int>(c.rank(0)) - 1;
  std::vector<int> there, back;  // the axis goes in front of the parts
  for (int i = 0; i < last; ++i) {
    if (i != axis) there.push_back(i);
    back.push_back(i < axis ? i : i == axis ? last - 1 : i - 1);
  }
  there.insert(there.end(), {axis, last});
  back.push_back(last);
  ValueId y;
  NPU_TRY(c.slice(c.in(0), axis, 0, t.used, y));
  NPU_TRY(c.transpose(y, there, y));
  Shape rows = c.graph[y].shape;
  rows.resize(rows.size() - 2);
  rows.push_back(t.used * t.parts_in());
  NPU_TRY(c.reshape(y, rows, y));
  NPU_TRY(transform_rows(c, t, y, y));
  return c.transpose(y, back, c.results[0]);
}

/// The sizes of an STFT, from the shape [batch, length, parts] of the signal; a known window joins the transform.
Status read_frames(const OpContext &c, const Shape &x, Transform &t, int64_t &step) {
  const bool onesided = c.attr_i("onesided", 1) != 0;
  if (x.size() != 3 || (x[2] != 1 && x[2] != 2))
    return Status::error("signal " + shape_text(c.shape(0)) + " is not [batch, length] or [batch, length, 1 or 2]");
  t.complex = x[2] == 2;
  if (onesided && t.complex) return Status::error("onesided: the signal is complex, a real one was expected");
  const bool window = c.has_input(2);
  if (window && c.rank(2) != 1) return Status::error("window " + shape_text(c.shape(2)) + " is not a vector");
  t.points = window ? c.shape(2)[0] : x[1];
  NPU_TRY(one_int(c, 1, "frame_step", step));
  if (c.has_input(3)) NPU_TRY(one_int(c, 3, "frame_length", t.points));
  NPU_TRY(check_range("frame_step", step, 1, kMaxElements));
  NPU_TRY(check_range("frame_length", t.points, 1, std::min(x[1], kMaxTable)));
  t.used = window ? std::min(t.points, c.shape(2)[0]) : t.points;
  t.results = onesided ? t.points / 2 + 1 : t.points;
  if (window && c.value(2).constant) NPU_TRY(c.const_floats(2, "window", t.window));
  return {};
}

/// Frames are rows of a matrix. A window that is shorter than they are leaves the rest of them 0. PyTorch exports a
/// real signal without the last dimension.
Status stft(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  Transform t;
  int64_t step;
  Shape x = c.shape(0);
  if (x.size() == 2) x.push_back(1);
  NPU_TRY(read_frames(c, x, t, step));
  const int64_t frames = (x[1] - t.points) / step + 1;
  if (element_count({frames, t.used, x[0], x[2]}) < 0)
    return refuse(Obstacle::Size, "the frames have too many elements");
  auto places = std::make_shared<Tensor>(Dtype::I64, Shape{frames, t.used});
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < t.used; ++i) places->as<int64_t>()[f * t.used + i] = f * step + i;
  ValueId y, window;
  NPU_TRY(c.reshape(c.in(0), x, y));
  NPU_TRY(c.gather(1, y, c.constant(std::move(places)), y));
  if (c.has_input(2) && t.window.empty()) {
    NPU_TRY(c.slice(c.in(2), 0, 0, t.used, window));
    NPU_TRY(c.reshape(window, {t.used, 1}, window));
    NPU_TRY(c.binary(BinaryKind::Mul, y, window, y));
  }
  NPU_TRY(c.reshape(y, {x[0], frames, t.used * x[2]}, y));
  return transform_rows(c, t, y, c.results[0]);
}

constexpr OpEntry kSignalOps[] = {
    {"BlackmanWindow", blackman_window},    {"DFT", dft},
    {"HammingWindow", hamming_window},      {"HannWindow", hann_window},
    {"MelWeightMatrix", mel_weight_matrix}, {"STFT", stft},
};

}  // namespace

std::span<const OpEntry> signal_ops() { return kSignalOps; }

}  // namespace npu::graph
