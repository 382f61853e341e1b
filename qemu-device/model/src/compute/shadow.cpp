// SPDX-License-Identifier: MIT
// Runs every command on a fast back end and on the reference, and reports the first result of a command outside the
// documented bound.
#include <cstdio>
#include <limits>
#include <vector>

#include "qemu-device/model/src/backend.h"
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

Values absolute(const void *p, size_t count) {
  if (!p) return {};
  Values v(count);
  for (size_t i = 0; i < count; ++i) v[i] = std::fabs(load_f32(p, i));
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

class Shadow final : public Backend {
 public:
  Shadow(std::unique_ptr<Backend> fast, void (*report)(void *, const char *), void *arg)
      : fast_(std::move(fast)), report_(report), arg_(arg) {}

  const char *name() const override { return "shadow"; }

  bool run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
           void *out) override {
    const size_t count = size_t{c.n} * c.oh * c.ow * c.oc;
    const size_t terms = size_t{c.kh} * c.kw * (c.ic / c.groups);
    Values trial = psum == out ? Values(f32(psum), f32(psum) + count) : Values(count);
    if (!fast_->run(c, in, wgt, bias, psum == out ? trial.data() : psum, trial.data())) return false;
    const void *w = wgt.fetch(wgt.arg);
    if (!w) return false;
    npu_cmd_conv plain = c;
    plain.act = NPU_ACT_NONE;
    Values size(count);
    const Values a = absolute(in, size_t{c.n} * c.ih * c.iw * c.ic), b = absolute(w, terms * c.oc);
    const Values bias_size = absolute(bias, c.oc), psum_size = absolute(psum, count);
    reference_.run(plain, a.data(), Streamed::at(b.data()), data_or_null(bias_size), data_or_null(psum_size),
                   size.data());
    reference_.run(c, in, Streamed::at(w), bias, psum, out);
    compare_sums("CONV", c.act, c.act_a, terms, size, trial, f32(out));
    return true;
  }

  bool run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
           void *out) override {
    const size_t count = size_t{c.batch} * c.m * c.n;
    Values trial = psum == out ? Values(f32(psum), f32(psum) + count) : Values(count);
    if (!fast_->run(c, in, wgt, bias, psum == out ? trial.data() : psum, trial.data())) return false;
    const void *w = wgt.fetch(wgt.arg);
    if (!w) return false;
    npu_cmd_matmul plain = c;
    plain.act = NPU_ACT_NONE;
    Values size(count);
    const Values a = absolute(in, size_t{c.batch - 1} * c.a_batch_stride + size_t{c.m} * c.k);
    const Values b = absolute(w, size_t{c.batch - 1} * c.b_batch_stride + size_t{c.k} * c.n);
    const Values bias_size = absolute(bias, c.n), psum_size = absolute(psum, count);
    reference_.run(plain, a.data(), Streamed::at(b.data()), data_or_null(bias_size), data_or_null(psum_size),
                   size.data());
    reference_.run(c, in, Streamed::at(w), bias, psum, out);
    compare_sums("MATMUL", c.act, c.act_a, c.k, size, trial, f32(out));
    return true;
  }

  void run(const npu_cmd_pool &c, const void *in, void *out) override {
    const size_t count = size_t{c.n} * c.oh * c.ow * c.c;
    Values trial(count), size(count, 0.0f);
    fast_->run(c, in, trial.data());
    size_t terms = 1;
    if (c.subop == NPU_POOL_AVG) {
      // Cells outside the image add nothing, so a window has no more terms than the image has cells.
      terms = std::min(size_t{c.kh}, size_t{c.ih}) * std::min(size_t{c.kw}, size_t{c.iw});
      const Values a = absolute(in, size_t{c.n} * c.ih * c.iw * c.c);
      reference_.run(c, a.data(), size.data());
    }
    reference_.run(c, in, out);
    compare_sums("POOL", NPU_ACT_NONE, 0, terms, size, trial, f32(out));
  }

  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    size_t count = 1;
    for (const uint32_t d : c.dims) count *= d;
    // An operand that is the result as well is dense, so a copy of as many elements is the whole of it.
    Values trial(count);
    if (a == out || b == out) trial.assign(f32(out), f32(out) + count);
    fast_->run(c, a == out ? trial.data() : a, b == out ? trial.data() : b, trial.data());
    reference_.run(c, a, b, out);
    compare("ELTWISE", Tolerance::of(c.act, c.act_a), trial, f32(out));
  }

  void run(const npu_cmd_unary &c, const void *in, void *out) override {
    Values trial(f32(in), f32(in) + c.count);
    fast_->run(c, in == out ? trial.data() : in, trial.data());
    reference_.run(c, in, out);
    compare("UNARY", Tolerance::of(c.subop, c.act_a), trial, f32(out));
  }

  void run(const npu_cmd_softmax &c, const void *in, void *out) override {
    Values trial(f32(in), f32(in) + size_t{c.rows} * c.cols);
    fast_->run(c, in == out ? trial.data() : in, trial.data());
    reference_.run(c, in, out);
    compare("SOFTMAX", {1, 8, 2e-7}, trial, f32(out));
  }

  void forget(uint32_t asid) override { fast_->forget(asid); }

 private:
  // Results that need no sum: the activation's tolerance alone.
  void compare(const char *command, const Tolerance &t, const Values &got, const float *want) {
    for (size_t i = 0; i < got.size(); ++i)
      if (!agree(want[i], got[i], 0, t)) return report(command, i, want[i], got[i], 0);
  }

  // `size` holds the sum of the magnitudes of everything that was added. Where it is infinite an order of summation may
  // overflow that another avoids; where it is NaN an operand makes every order NaN.
  void compare_sums(const char *command, uint8_t act, float act_a, size_t terms, const Values &size, const Values &got,
                    const float *want) {
    const Tolerance t = Tolerance::of(act, act_a);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isinf(size[i])) continue;
      const double error = 2.0 * (static_cast<double>(terms) + 2) * kEpsilon * size[i];
      if (!agree(want[i], got[i], std::isnan(error) ? 0 : error, t)) return report(command, i, want[i], got[i], error);
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
