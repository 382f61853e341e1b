// SPDX-License-Identifier: MIT
// Runs every command on a fast back end and on the reference, and reports the first result of a command outside the
// documented bound.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "npu_isa.hpp"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model {
namespace {

using Values = std::vector<float>;

constexpr float kEpsilon = 0x1p-23f;

// The distance from |x| to the next float above it.
float ulp(float x) {
  const float a = std::fabs(x);
  return std::nextafter(a, std::numeric_limits<float>::infinity()) - a;
}

// Elements from the first to the last that a command touches of an operand.
template <class Cmd>
size_t span(const Cmd &c, unsigned place) {
  hw::OperandList list;
  hw::operands_detail::describe(c, list);
  return list[place].used ? static_cast<size_t>(list[place].hull().bytes / list[place].size) : 0;
}

Values magnitudes(uint8_t dtype, const void *p, size_t count) {
  if (!p) return {};
  Values v(count);
  load_numbers({dtype}, p, count, v.data());
  for (float &x : v) x = std::fabs(x);
  return v;
}

const float *data_or_null(const Values &v) { return v.empty() ? nullptr : v.data(); }

// How far two right results may be apart: an absolute error, widened by what the activation does to it.
struct Tolerance {
  double slope = 1;  // largest steepness of the activation
  double ulps = 0;   // of the result, for rounding after the activation
  double absolute = 0;

  static Tolerance of(uint8_t act, float act_a) {
    switch (act) {
      case NPU_ACT_LEAKY_RELU:
        return {std::max(1.0, std::fabs(double{act_a})), 1, 0};
      case NPU_ACT_SIGMOID:
      case NPU_ACT_TANH:
      case NPU_ACT_EXP:
      case NPU_ACT_LOG:
      case NPU_ACT_ERF:
      case NPU_ACT_GELU:
      case NPU_ACT_ELU:
      case NPU_ACT_HARD_SIGMOID:
      case NPU_ACT_HARD_SWISH:
      case NPU_ACT_SOFTPLUS:
      case NPU_ACT_SIN:
      case NPU_ACT_COS:
        return {1, 8, 2e-7};
      default:
        return {};
    }
  }
};

// Equal, both NaN, or within the tolerance of each other.
bool agree(float want, float got, double error, const Tolerance &t) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (want == got) return true;
  if (!std::isfinite(want) || !std::isfinite(got)) return false;
  return std::fabs(double{want} - got) <= error * t.slope + t.ulps * ulp(want) + t.absolute;
}

// The distance from |x| to the next number of the type; of integers, which are compared as such, a step.
double ulp_of(uint8_t dtype, float x) {
  const double size = std::max(std::fabs(double{x}), 0x1p-126);
  switch (dtype) {
    case NPU_DTYPE_F32:
      return ulp(x);
    case NPU_DTYPE_F16:
      return std::max(std::exp2(std::floor(std::log2(size)) - 10), 0x1p-24);
    case NPU_DTYPE_BF16:
      return std::exp2(std::floor(std::log2(size)) - 7);
    default:
      return 1;
  }
}

class Shadow final : public Backend {
 public:
  Shadow(std::unique_ptr<Backend> fast, void (*report)(void *, const char *), void *arg)
      : fast_(std::move(fast)), report_(report), arg_(arg) {}

  const char *name() const override { return "shadow"; }

  bool run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override {
    return product("CONV", size_t{c.kh} * c.kw * (c.ic / c.groups), c.oc, c, in, wgt, params, psum, out);
  }
  bool run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override {
    return product("MATMUL", c.k, c.n, c, in, wgt, params, psum, out);
  }

  void run(const npu_cmd_pool &c, const void *in, void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    fast_->run(c, in, trial.data());
    size_t terms = 1;
    Values size;
    if (c.subop == NPU_POOL_AVG && is_float(c.in_dtype)) {
      // Cells outside the image add nothing, so a window has no more terms than the image has cells.
      terms = std::min(size_t{c.kh}, size_t{c.ih}) * std::min(size_t{c.kw}, size_t{c.iw});
      npu_cmd_pool plain = c;
      plain.in_dtype = plain.out_dtype = NPU_DTYPE_F32;
      plain.out_scale = 0;
      plain.out_zp = 0;
      size.resize(trial.count());
      reference_.run(plain, magnitudes(c.in_dtype, in, span(c, Places::kIn)).data(), size.data());
    }
    reference_.run(c, in, out);
    compare("POOL", {}, trial, out, terms, size, c.out_scale);
  }

  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kResult));
    fast_->run(c, trial.instead(a), trial.instead(b), trial.data());
    reference_.run(c, a, b, out);
    Tolerance t = Tolerance::of(c.act, c.act_a);
    if (c.subop == NPU_ELTWISE_POW) t.ulps = std::max(t.ulps, 8.0);
    compare("ELTWISE", t, trial, out, 0, {}, c.out_scale);
  }

  void run(const npu_cmd_unary &c, const void *in, void *out) override {
    Trial trial(c.out_dtype, out, c.count);
    fast_->run(c, trial.instead(in), trial.data());
    reference_.run(c, in, out);
    compare("UNARY", Tolerance::of(c.subop, c.act_a), trial, out);
  }

  void run(const npu_cmd_softmax &c, const void *in, void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    fast_->run(c, trial.instead(in), trial.data());
    reference_.run(c, in, out);
    compare("SOFTMAX", {1, 8, 2e-7}, trial, out, 0, {}, c.out_scale);
  }

  void run(const npu_cmd_reduce &c, const void *in, void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    fast_->run(c, in, trial.data());
    const bool sums = c.subop == NPU_REDUCE_SUM || c.subop == NPU_REDUCE_MEAN;
    Values size;
    if (sums) {
      npu_cmd_reduce plain = c;
      plain.in_dtype = plain.out_dtype = NPU_DTYPE_F32;
      plain.in_scale = plain.out_scale = 0;
      plain.in_zp = plain.out_zp = 0;
      Values x(span(c, Places::kIn));
      load_numbers({c.in_dtype, c.in_scale, c.in_zp}, in, x.size(), x.data());
      size.resize(trial.count());
      reference_.run(plain, magnitudes(NPU_DTYPE_F32, x.data(), x.size()).data(), size.data());
    }
    reference_.run(c, in, out);
    const bool exact = c.subop == NPU_REDUCE_MAX || c.subop == NPU_REDUCE_MIN || c.subop >= NPU_REDUCE_ARGMAX;
    compare("REDUCE", {1, exact ? 0.0 : 2.0 * c.n, 0}, trial, out, c.n, size, c.out_scale);
  }

  void run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    fast_->run(c, trial.instead(in), scale, bias, trial.data());
    reference_.run(c, in, scale, bias, out);
    float largest = 1;
    for (size_t i = 0; scale && i < c.cols; ++i) largest = std::max(largest, std::fabs(load_f32(scale, i)));
    compare("NORM", {1, 8, 1e-5 * largest}, trial, out);
  }

  void run(const npu_cmd_lut &c, const void *in, const void *table, void *out) override {
    Trial trial(c.out_dtype, out, c.count);
    fast_->run(c, trial.instead(in), table, trial.data());
    reference_.run(c, in, table, out);
    compare_bits("LUT", trial, out);
  }

  void run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales,
           void *out) override {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    fast_->run(c, trial.instead(in), in_scales, out_scales, trial.data());
    reference_.run(c, in, in_scales, out_scales, out);
    float scale = c.out_scale;
    for (size_t i = 0; out_scales && i < c.cols; ++i) scale = std::min(scale, load_f32(out_scales, i));
    compare("REQUANT", Tolerance::of(c.act, c.act_a), trial, out, 0, {}, scale);
  }

  void run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) override {
    Trial trial(c.dtype, out, span(c, Places::kResult));
    fast_->run(c, trial.instead(a), trial.instead(b), trial.instead(condition), trial.data());
    reference_.run(c, a, b, condition, out);
    compare_bits("SELECT", trial, out);
  }

  void forget(uint32_t asid) override { fast_->forget(asid); }

 private:
  using Places = hw::OperandPlaces;

  // Where the fast back end writes: a copy of the result's place, with what lies between its elements.
  class Trial {
   public:
    Trial(uint8_t dtype, const void *out, size_t count)
        : dtype_(dtype),
          count_(count),
          out_(out),
          bytes_(static_cast<const char *>(out),
                 static_cast<const char *>(out) + count * hw::arith::dtype_bytes(dtype)) {}

    void *data() { return bytes_.data(); }
    const void *data() const { return bytes_.data(); }
    size_t bytes() const { return bytes_.size(); }
    size_t count() const { return count_; }
    uint8_t dtype() const { return dtype_; }
    /// An operand that lies where the result does is read from the copy.
    const void *instead(const void *operand) { return operand == out_ ? data() : operand; }

   private:
    uint8_t dtype_;
    size_t count_;
    const void *out_;
    std::vector<char> bytes_;
  };

  template <class Cmd>
  bool product(const char *command, size_t terms, size_t channels, const Cmd &c, const void *in, const Streamed &wgt,
               const ProductParams &params, const void *psum, void *out) {
    Trial trial(c.out_dtype, out, span(c, Places::kOut));
    if (!fast_->run(c, in, wgt, params, trial.instead(psum), trial.data())) return false;
    const void *w = wgt.fetch(wgt.arg);
    if (!w) return false;
    if (!is_float(c.in_dtype)) {  // integers are exact, up to a function of them
      reference_.run(c, in, Streamed::at(w), params, psum, out);
      const Tolerance t = Tolerance::of(c.act, c.act_a);
      c.act > NPU_ACT_LEAKY_RELU ? compare(command, t, trial, out) : compare_bits(command, trial, out);
      return true;
    }
    Cmd plain = c;
    plain.in_dtype = plain.wgt_dtype = plain.out_dtype = NPU_DTYPE_F32;
    plain.act = NPU_ACT_NONE;
    const Values a = magnitudes(c.in_dtype, in, span(c, Places::kIn)),
                 b = magnitudes(c.wgt_dtype, w, span(c, Places::kWeights)),
                 bias = magnitudes(NPU_DTYPE_F32, params.bias, channels),
                 sums = magnitudes(NPU_DTYPE_F32, psum, trial.count());
    Values size(trial.count(), 0.0f);
    reference_.run(plain, a.data(), Streamed::at(b.data()), {data_or_null(bias), nullptr}, data_or_null(sums),
                   size.data());
    reference_.run(c, in, Streamed::at(w), params, psum, out);
    compare(command, Tolerance::of(c.act, c.act_a), trial, out, terms, size);
    return true;
  }

  void compare_bits(const char *command, const Trial &got, const void *want) {
    if (std::memcmp(got.data(), want, got.bytes()) == 0) return;
    const size_t size = hw::arith::dtype_bytes(got.dtype());
    size_t i = 0;
    while (std::memcmp(static_cast<const char *>(got.data()) + i * size, static_cast<const char *>(want) + i * size,
                       size) == 0)
      ++i;
    uint64_t a = 0, b = 0;
    std::memcpy(&a, static_cast<const char *>(got.data()) + i * size, size);
    std::memcpy(&b, static_cast<const char *>(want) + i * size, size);
    char text[256];
    std::snprintf(text, sizeof text, "%s: element %zu is %#llx on %s and %#llx on the reference", command, i,
                  static_cast<unsigned long long>(a), fast_->name(), static_cast<unsigned long long>(b));
    report_(arg_, text);
  }

  // `size` holds the sum of the magnitudes of everything that was added, or nothing where nothing is. Where it is
  // infinite an order of summation may overflow that another avoids; where it is NaN an operand makes every order NaN.
  // Results that are stored as another type are rounded once more; those of functions of integers by a step.
  void compare(const char *command, const Tolerance &t, const Trial &got, const void *want, size_t terms = 0,
               const Values &size = {}, float scale = 0) {
    Values a(got.count()), b(got.count());
    const uint8_t dtype = got.dtype();
    load_numbers({dtype, 1, 0}, got.data(), a.size(), a.data());
    load_numbers({dtype, 1, 0}, want, b.size(), b.data());
    const bool exact = t.ulps == 0 && t.absolute == 0 && size.empty();
    for (size_t i = 0; i < a.size(); ++i) {
      if (!size.empty() && std::isinf(size[i])) continue;
      double error = size.empty() ? 0 : 2.0 * (static_cast<double>(terms) + 2) * kEpsilon * size[i];
      if (std::isnan(error)) error = 0;
      if (!is_float(dtype) && !exact)  // in steps: what the number may be off by, and one more for its rounding
        error = (scale > 0 ? (error + t.absolute) / scale : error) + t.ulps * kEpsilon * std::fabs(double{b[i]}) + 1;
      if (is_float(dtype) && dtype != NPU_DTYPE_F32 && !exact) error += ulp_of(dtype, b[i]);
      if (!agree(b[i], a[i], error, t)) return report(command, i, b[i], a[i], error);
    }
  }

  void report(const char *command, size_t index, float want, float got, double bound) {
    char text[256];
    std::snprintf(text, sizeof text, "%s: element %zu is %.9g on %s and %.9g on the reference (bound %.3g)", command,
                  index, static_cast<double>(got), fast_->name(), static_cast<double>(want), bound);
    report_(arg_, text);
  }

  const std::unique_ptr<Backend> fast_;
  Reference reference_;
  void (*const report_)(void *arg, const char *text);
  void *const arg_;
};

}  // namespace

std::unique_ptr<Backend> make_shadow_backend(std::unique_ptr<Backend> fast, void (*report)(void *arg, const char *text),
                                             void *arg) {
  return std::make_unique<Shadow>(std::move(fast), report, arg);
}

}  // namespace npu::model
