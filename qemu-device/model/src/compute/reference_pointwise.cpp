// SPDX-License-Identifier: MIT
// ELTWISE, UNARY and SOFTMAX as they are defined. Transcendental functions are computed in double and rounded once.
#include <limits>
#include <numbers>

#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

float activate_one(uint8_t act, float a, float b, float x) {
  switch (act) {
    case NPU_ACT_RELU:
      return relu(x);
    case NPU_ACT_CLIP:
      return clip(x, a, b);
    case NPU_ACT_LEAKY_RELU:
      return leaky_relu(x, a);
    case NPU_ACT_SIGMOID:
      return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
    case NPU_ACT_TANH:
      return static_cast<float>(std::tanh(static_cast<double>(x)));
    default:
      return x;
  }
}

/// 0.5 x (1 + tanh(u)), written so that no digits cancel where tanh is near -1.
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

/// max(0, min(1, y)); the comparisons are false for NaN, which stays.
double unit(double y) { return y <= 0 ? 0 : (y > 1 ? 1 : y); }

/// What only UNARY has, as far as it is not exact in binary32.
double function(uint8_t act, double a, double b, double x) {
  switch (act) {
    case NPU_ACT_EXP:
      return std::exp(x);
    case NPU_ACT_LOG:
      return std::log(x);
    case NPU_ACT_RSQRT:
      return 1 / std::sqrt(x);
    case NPU_ACT_ERF:
      return std::erf(x);
    case NPU_ACT_GELU:
      return a == 0 ? 0.5 * x * std::erfc(-x / std::numbers::sqrt2) : gelu_tanh(x);
    case NPU_ACT_ELU:
      return x < 0 ? a * std::expm1(x) : x;
    case NPU_ACT_HARD_SIGMOID:
      return unit(a * x + b);
    case NPU_ACT_HARD_SWISH:
      return x * unit(x / 6 + 0.5);
    case NPU_ACT_SOFTPLUS:
      return std::log1p(std::exp(-std::fabs(x))) + (x > 0 ? x : 0);
    case NPU_ACT_SIN:
      return std::sin(x);
    default:
      return std::cos(x);
  }
}

float function_one(uint8_t act, float a, float b, float x) {
  switch (act) {
    case NPU_ACT_SQRT:
      return std::sqrt(x);
    case NPU_ACT_RECIPROCAL:
      return 1 / x;
    case NPU_ACT_ABS:
      return std::fabs(x);
    case NPU_ACT_NEG:
      return -x;
    case NPU_ACT_FLOOR:
      return std::floor(x);
    case NPU_ACT_CEIL:
      return std::ceil(x);
    case NPU_ACT_ROUND:
      return std::nearbyint(x);
    case NPU_ACT_SIGN:
      return sign(x);
    default:
      return static_cast<float>(function(act, a, b, x));
  }
}

float combine(uint8_t op, float a, float b) {
  switch (op) {
    case NPU_ELTWISE_ADD:
      return a + b;
    case NPU_ELTWISE_SUB:
      return a - b;
    case NPU_ELTWISE_MUL:
      return a * b;
    case NPU_ELTWISE_DIV:
      return a / b;
    case NPU_ELTWISE_MAX:
      return maximum(a, b);
    default:
      return minimum(a, b);
  }
}

}  // namespace

void activate(uint8_t act, float act_a, float act_b, float *x, size_t count) {
  if (act == NPU_ACT_NONE) return;
  for (size_t i = 0; i < count; ++i) x[i] = activate_one(act, act_a, act_b, x[i]);
}

void Reference::run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) {
  const bool imm = c.flags & NPU_ELTWISEF_B_IMM;
  const auto offset = [](const uint32_t(&stride)[5], const size_t(&i)[5]) {
    size_t at = 0;
    for (int d = 0; d < 5; ++d) at += i[d] * stride[d];
    return at;
  };
  float *to = f32(out);
  size_t i[5];
  for (i[0] = 0; i[0] < c.dims[0]; ++i[0])
    for (i[1] = 0; i[1] < c.dims[1]; ++i[1])
      for (i[2] = 0; i[2] < c.dims[2]; ++i[2])
        for (i[3] = 0; i[3] < c.dims[3]; ++i[3])
          for (i[4] = 0; i[4] < c.dims[4]; ++i[4]) {
            const float y = imm ? c.imm : f32(b)[offset(c.b_stride, i)];
            const float z = combine(c.subop, f32(a)[offset(c.a_stride, i)], y);
            *to++ = activate_one(c.act, c.act_a, c.act_b, z);
          }
}

void Reference::run(const npu_cmd_unary &c, const void *in, void *out) {
  const auto each = [&](auto f) {
    for (size_t i = 0; i < c.count; ++i) f32(out)[i] = f(c.subop, c.act_a, c.act_b, f32(in)[i]);
  };
  c.subop <= NPU_ACT_TANH ? each(activate_one) : each(function_one);
}

void Reference::run(const npu_cmd_softmax &c, const void *in, void *out) {
  const float *from = f32(in);
  float *to = f32(out);
  for (size_t row = 0; row < c.rows; ++row, from += c.cols, to += c.cols) {
    double top = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < c.cols; ++i) top = std::max(top, static_cast<double>(from[i]));
    double sum = 0;
    for (size_t i = 0; i < c.cols; ++i) sum += std::exp(from[i] - top);
    const double log_sum = std::log(sum);
    for (size_t i = 0; i < c.cols; ++i) {
      const double x = from[i] - top;
      to[i] = static_cast<float>(c.subop == NPU_SOFTMAX_LOG ? x - log_sum : std::exp(x) / sum);
    }
  }
}

}  // namespace npu::model
