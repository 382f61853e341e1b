// SPDX-License-Identifier: MIT
// ELTWISE, UNARY, REQUANT, LUT and SELECT as they are defined. Transcendental functions are computed in double and
// rounded once.
#include <algorithm>
#include <numbers>

#include "npu_arith.hpp"
#include "npu_enums.hpp"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

/// 0.5 x (1 + tanh(u)), written so that no digits cancel where tanh is near -1.
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

/// max(0, min(1, y)); the comparisons are false for NaN, which stays.
double unit(double y) { return y <= 0 ? 0 : (y > 1 ? 1 : y); }

/// Functions that are not exact in binary32.
double function(hw::Act act, double a, double b, double x) {
  switch (act) {
    case hw::Act::Sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case hw::Act::Tanh:
      return std::tanh(x);
    case hw::Act::Exp:
      return std::exp(x);
    case hw::Act::Log:
      return std::log(x);
    case hw::Act::Rsqrt:
      return 1 / std::sqrt(x);
    case hw::Act::Erf:
      return std::erf(x);
    case hw::Act::Gelu:
      return a == 0 ? 0.5 * x * std::erfc(-x / std::numbers::sqrt2) : gelu_tanh(x);
    case hw::Act::Elu:
      return x < 0 ? a * std::expm1(x) : x;
    case hw::Act::HardSigmoid:
      return unit(a * x + b);
    case hw::Act::HardSwish:
      return x * unit(x / 6 + 0.5);
    case hw::Act::Softplus:
      return std::log1p(std::exp(-std::fabs(x))) + (x > 0 ? x : 0);
    case hw::Act::Sin:
      return std::sin(x);
    case hw::Act::Cos:
      return std::cos(x);
    case hw::Act::None:  // activate_one() has the others
    case hw::Act::Relu:
    case hw::Act::Clip:
    case hw::Act::LeakyRelu:
    case hw::Act::Sqrt:
    case hw::Act::Reciprocal:
    case hw::Act::Abs:
    case hw::Act::Neg:
    case hw::Act::Floor:
    case hw::Act::Ceil:
    case hw::Act::Round:
    case hw::Act::Sign:
      break;
  }
  return x;
}

float activate_one(uint8_t number, float a, float b, float x) {
  const hw::Act act{number};
  switch (act) {
    case hw::Act::None:
      return x;
    case hw::Act::Relu:
      return relu(x);
    case hw::Act::Clip:
      return clip(x, a, b);
    case hw::Act::LeakyRelu:
      return leaky_relu(x, a);
    case hw::Act::Sqrt:
      return std::sqrt(x);
    case hw::Act::Reciprocal:
      return 1 / x;
    case hw::Act::Abs:
      return std::fabs(x);
    case hw::Act::Neg:
      return -x;
    case hw::Act::Floor:
      return std::floor(x);
    case hw::Act::Ceil:
      return std::ceil(x);
    case hw::Act::Round:
      return std::nearbyint(x);
    case hw::Act::Sign:
      return sign(x);
    default:  // function() names all others
      return static_cast<float>(function(act, a, b, x));
  }
}

float combine(uint8_t op, float a, float b) {
  switch (hw::Eltwise{op}) {
    case hw::Eltwise::Add:
      return a + b;
    case hw::Eltwise::Sub:
      return a - b;
    case hw::Eltwise::Mul:
      return a * b;
    case hw::Eltwise::Div:
      return a / b;
    case hw::Eltwise::Max:
      return maximum(a, b);
    case hw::Eltwise::Min:
      return minimum(a, b);
    case hw::Eltwise::Pow:
      return static_cast<float>(std::pow(double{a}, double{b}));
    case hw::Eltwise::CmpEq:
      return a == b ? 1 : 0;
    case hw::Eltwise::CmpLt:
      return a < b ? 1 : 0;
    case hw::Eltwise::CmpLe:
      return a <= b ? 1 : 0;
  }
  return 0;
}

/// Elements that are brought into f32 at a time.
constexpr size_t kRun = 256;

/// An operand whose rows are read as f32.
struct Rows {
  Number number;
  const char *base;
  size_t stride;  ///< elements from one of a row to the next

  /// Elements [first, first + count) of the row that begins at element `row`.
  void load(size_t row, size_t first, size_t count, float *to) const {
    const size_t size = hw::arith::dtype_bytes(number.dtype);
    if (stride == 1) return load_numbers(number, base + (row + first) * size, count, to);
    if (stride == 0) {
      load_numbers(number, base + row * size, 1, to);
      std::fill(to + 1, to + count, *to);
      return;
    }
    for (size_t i = 0; i < count; ++i) load_numbers(number, base + (row + (first + i) * stride) * size, 1, to + i);
  }
};

/// Calls f(index) for each combination of the first four dimensions.
template <class F>
void each_row(const uint32_t (&dims)[5], F f) {
  size_t i[4];
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
}

size_t row_at(const uint32_t (&stride)[5], const size_t (&i)[4]) {
  size_t at = 0;
  for (int d = 0; d < 4; ++d) at += i[d] * stride[d];
  return at;
}

template <class Word>
void select(const npu_cmd_select &c, const void *a, const void *b, const uint8_t *condition, void *out) {
  auto *to = static_cast<Word *>(out);
  each_row(c.dims, [&](const size_t(&i)[4]) {
    const Word *x = static_cast<const Word *>(a) + row_at(c.a_stride, i);
    const Word *y = static_cast<const Word *>(b) + row_at(c.b_stride, i);
    const uint8_t *which = condition + row_at(c.c_stride, i);
    for (size_t k = 0; k < c.dims[4]; ++k)
      *to++ = which[k * c.c_stride[4]] ? x[k * c.a_stride[4]] : y[k * c.b_stride[4]];
  });
}

template <class Word>
void look_up(const uint8_t *in, size_t count, const void *table, void *out) {
  Word words[256];
  std::memcpy(words, table, sizeof words);
  auto *to = static_cast<Word *>(out);
  for (size_t i = 0; i < count; ++i) to[i] = words[in[i]];
}

}  // namespace

void activate(uint8_t act, float act_a, float act_b, float *x, size_t count) {
  if (act == NPU_ACT_NONE) return;
  for (size_t i = 0; i < count; ++i) x[i] = activate_one(act, act_a, act_b, x[i]);
}

void Reference::run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) {
  const bool imm = c.flags & NPU_ELTWISEF_B_IMM;
  const Rows left{{c.a_dtype, c.a_scale, c.a_zp}, static_cast<const char *>(a), c.a_stride[4]};
  const Rows right{{c.b_dtype, c.b_scale, c.b_zp}, static_cast<const char *>(b), c.b_stride[4]};
  const Number result{c.out_dtype, c.out_scale, c.out_zp};
  const size_t size = hw::arith::dtype_bytes(c.out_dtype), row = c.dims[4], pitch = c.out_pitch ? c.out_pitch : row;
  char *to = static_cast<char *>(out);
  each_row(c.dims, [&](const size_t(&i)[4]) {
    const size_t at_a = row_at(c.a_stride, i), at_b = row_at(c.b_stride, i);
    float x[kRun], y[kRun];
    std::fill(y, y + kRun, c.imm);
    for (size_t k = 0; k < row; k += kRun) {
      const size_t count = std::min(kRun, row - k);
      left.load(at_a, k, count, x);
      if (!imm) right.load(at_b, k, count, y);
      for (size_t n = 0; n < count; ++n) x[n] = activate_one(c.act, c.act_a, c.act_b, combine(c.subop, x[n], y[n]));
      store_numbers(result, x, count, to + k * size);
    }
    to += pitch * size;
  });
}

void Reference::run(const npu_cmd_unary &c, const void *in, void *out) {
  const Rows from{{c.in_dtype}, static_cast<const char *>(in), 1};
  const Number result{c.out_dtype};
  const size_t size = hw::arith::dtype_bytes(c.out_dtype);
  const auto each = [&](auto f) {
    float x[kRun];
    for (size_t k = 0; k < c.count; k += kRun) {
      const size_t count = std::min<size_t>(kRun, c.count - k);
      from.load(0, k, count, x);
      for (size_t i = 0; i < count; ++i) x[i] = f(c.subop, c.act_a, c.act_b, x[i]);
      store_numbers(result, x, count, static_cast<char *>(out) + k * size);
    }
  };
  each(activate_one);
}

void Reference::run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales,
                    void *out) {
  const size_t from_size = hw::arith::dtype_bytes(c.in_dtype), to_size = hw::arith::dtype_bytes(c.out_dtype);
  const size_t in_pitch = c.in_pitch ? c.in_pitch : c.cols, out_pitch = c.out_pitch ? c.out_pitch : c.cols;
  Number number{c.in_dtype, c.in_scale, c.in_zp}, result{c.out_dtype, c.out_scale, c.out_zp};
  const size_t run = in_scales || out_scales ? 1 : kRun;
  float x[kRun];
  for (size_t row = 0; row < c.rows; ++row) {
    const char *from = static_cast<const char *>(in) + row * in_pitch * from_size;
    char *to = static_cast<char *>(out) + row * out_pitch * to_size;
    for (size_t k = 0; k < c.cols; k += run) {
      const size_t count = std::min<size_t>(run, c.cols - k);
      if (in_scales && !is_float(c.in_dtype)) number.scale = load_f32(in_scales, k);
      if (out_scales && !is_float(c.out_dtype)) result.scale = load_f32(out_scales, k);
      load_numbers(number, from + k * from_size, count, x);
      activate(c.act, c.act_a, c.act_b, x, count);
      store_numbers(result, x, count, to + k * to_size);
    }
  }
}

void Reference::run(const npu_cmd_lut &c, const void *in, const void *table, void *out) {
  const auto *from = static_cast<const uint8_t *>(in);
  switch (hw::arith::dtype_bytes(c.out_dtype)) {
    case 1:
      return look_up<uint8_t>(from, c.count, table, out);
    case 2:
      return look_up<uint16_t>(from, c.count, table, out);
    default:
      return look_up<uint32_t>(from, c.count, table, out);
  }
}

void Reference::run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) {
  const auto *which = static_cast<const uint8_t *>(condition);
  switch (hw::arith::dtype_bytes(c.dtype)) {
    case 1:
      return select<uint8_t>(c, a, b, which, out);
    case 2:
      return select<uint16_t>(c, a, b, which, out);
    case 4:
      return select<uint32_t>(c, a, b, which, out);
    default:
      return select<uint64_t>(c, a, b, which, out);
  }
}

}  // namespace npu::model
