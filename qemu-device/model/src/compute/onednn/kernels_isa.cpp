// SPDX-License-Identifier: MIT
// The vector loops. Compiled once for each kind of CPU, with NPU_KERNELS the name of the table; therefore every
// function here is local to this file and none comes from a header: an inline function compiled for AVX-512 must not
// become the program's only copy.
#include "qemu-device/model/src/compute/onednn/kernels.h"

namespace npu::model {
namespace {

// Independent sums in a reduction, so that it fills vectors without changing with their width.
constexpr size_t kLanes = 32;

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float of_bits(uint32_t x) { return __builtin_bit_cast(float, x); }

// exp(x) within 2 ULP: 2^n * exp(r), |r| <= ln(2) / 2. NaN stays NaN. Results below 2^-126 lose bits, which the bounds
// allow.
inline float exp_approx(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded number in the low bits
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  // ln(2) in two parts; the first has few bits, so that its product with n is exact.
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  // 2^n in two factors: n reaches beyond the exponents of normal floats on both sides.
  const int32_t whole = static_cast<int32_t>(bits_of(shifted) - bits_of(kRound));
  const int32_t half = whole >> 1;
  const float scale_a = of_bits(static_cast<uint32_t>(half + 127) << 23);
  const float scale_b = of_bits(static_cast<uint32_t>(whole - half + 127) << 23);
  return p * scale_a * scale_b;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp_approx(-x)); }

// Near zero an odd polynomial (interpolated at Chebyshev nodes), elsewhere by exp, whose argument is cut where tanh
// is 1.
inline float tanh_approx(float x) {
  const float size = of_bits(bits_of(x) & 0x7fffffffu);
  const float z = x * x;
  float p = -0.00609671417f;
  p = p * z + 0.020997179f;
  p = p * z - 0.0538509096f;
  p = p * z + 0.133327697f;
  p = p * z - 0.333333289f;
  const float small = x + x * (z * p);
  const float cut = size > 20.0f ? 20.0f : size;
  const float large = 1.0f - 2.0f / (exp_approx(2.0f * cut) + 1.0f);
  const float with_sign = of_bits(bits_of(large) | (bits_of(x) & 0x80000000u));
  return size < 0.625f ? small : with_sign;
}

// 1 - erf(t) for t >= 0: exp(-t^2) times a polynomial (interpolated at Chebyshev nodes) in u, which is 1 at 0 and goes
// to 0 with 1 / t. The error falls with the value, as GELU needs.
inline float erfc_approx(float t) {
  const float u = 1.0f / (1.0f + 0.4f * t);
  float p = 0.036117135f;
  p = p * u - 0.115469409f;
  p = p * u + 0.032907275f;
  p = p * u + 0.146080313f;
  p = p * u + 0.0398289761f;
  p = p * u + 0.210313935f;
  p = p * u + 0.197577451f;
  p = p * u + 0.227045447f;
  p = p * u + 0.225598909f;
  return p * u * exp_approx(-t * t);
}

// Near zero an odd polynomial, elsewhere by what is missing to 1.
inline float erf_approx(float x) {
  const float size = of_bits(bits_of(x) & 0x7fffffffu);
  const float z = x * x;
  float p = -0.000610268704f;
  p = p * z + 0.00501448415f;
  p = p * z - 0.0267807191f;
  p = p * z + 0.112821941f;
  p = p * z - 0.376125288f;
  p = p * z + 0.128379155f;
  const float small = x + x * p;
  const float with_sign = of_bits(bits_of(1.0f - erfc_approx(size)) | (bits_of(x) & 0x80000000u));
  return size < 0.9f ? small : with_sign;
}

// Below zero the factor is what is missing to 1 itself: no digits cancel.
inline float gelu_erf(float x) {
  const float rest = erfc_approx(of_bits(bits_of(x) & 0x7fffffffu) * 0.707106781f);
  return 0.5f * x * (x < 0.0f ? rest : 2.0f - rest);
}

// (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)).
inline float gelu_tanh(float x) {
  const float twice = 1.59576912f * (x + 0.044715f * (x * x * x));
  return x / (1.0f + exp_approx(-twice));
}

// In double, as the reference: results are the same bit by bit.
inline double unit(double y) { return y <= 0.0 ? 0.0 : (y > 1.0 ? 1.0 : y); }

inline float sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : (x == 0.0f ? 0.0f : x)); }

// As numerics.h defines them. Equal values differ at most in the sign of zero, which their bits combine to.
inline float maximum(float a, float b) {
  const float other = ((a > b) | (a != a)) ? a : b;
  return a == b ? of_bits(bits_of(a) & bits_of(b)) : other;
}
inline float minimum(float a, float b) {
  const float other = ((a < b) | (a != a)) ? a : b;
  return a == b ? of_bits(bits_of(a) | bits_of(b)) : other;
}

template <class Op>
void combine_loop(const float *a, size_t a_step, const float *b, size_t b_step, float *out, size_t count, Op op) {
  // Only an operand at the very place of the result may overlap it, so iterations are independent.
  if (a_step && b_step) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) out[i] = op(a[i], b[i]);
  } else if (a_step) {
    const float y = *b;
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) out[i] = op(a[i], y);
  } else if (b_step) {
    const float x = *a;
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) out[i] = op(x, b[i]);
  } else {
    const float value = op(*a, *b);
    for (size_t i = 0; i < count; ++i) out[i] = value;
  }
}

void combine_span(uint8_t op, const float *a, size_t a_step, const float *b, size_t b_step, float *out, size_t count) {
  const auto loop = [&](auto f) { combine_loop(a, a_step, b, b_step, out, count, f); };
  switch (op) {
    case NPU_ELTWISE_ADD:
      return loop([](float x, float y) { return x + y; });
    case NPU_ELTWISE_SUB:
      return loop([](float x, float y) { return x - y; });
    case NPU_ELTWISE_MUL:
      return loop([](float x, float y) { return x * y; });
    case NPU_ELTWISE_DIV:
      return loop([](float x, float y) { return x / y; });
    case NPU_ELTWISE_MAX:
      return loop([](float x, float y) { return maximum(x, y); });
    case NPU_ELTWISE_MIN:
      return loop([](float x, float y) { return minimum(x, y); });
    case NPU_ELTWISE_POW:
      return loop([](float x, float y) { return static_cast<float>(__builtin_pow(x, y)); });
    case NPU_ELTWISE_CMP_EQ:
      return loop([](float x, float y) { return x == y ? 1.0f : 0.0f; });
    case NPU_ELTWISE_CMP_LT:
      return loop([](float x, float y) { return x < y ? 1.0f : 0.0f; });
    default:
      return loop([](float x, float y) { return x <= y ? 1.0f : 0.0f; });
  }
}

template <class Function>
void map_loop(const float *in, float *out, size_t count, Function f) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = f(in[i]);
}

void activate_span(uint8_t act, float act_a, float act_b, const float *in, float *out, size_t count) {
  const auto loop = [&](auto f) { map_loop(in, out, count, f); };
  switch (act) {
    case NPU_ACT_RELU:
      return loop([](float x) { return x <= 0.0f ? 0.0f : x; });
    case NPU_ACT_CLIP:
      return loop([=](float x) {
        const float low = x < act_a ? act_a : x;
        return low > act_b ? act_b : low;
      });
    case NPU_ACT_LEAKY_RELU:
      return loop([=](float x) { return x < 0.0f ? act_a * x : x; });
    case NPU_ACT_SIGMOID:
      return loop([](float x) { return sigmoid(x); });
    case NPU_ACT_TANH:
      return loop([](float x) { return tanh_approx(x); });
    default:
      if (in != out) __builtin_memcpy(out, in, count * sizeof *in);
  }
}

bool unary_span(uint8_t act, float act_a, float act_b, const float *in, float *out, size_t count) {
  const auto loop = [&](auto f) {
    map_loop(in, out, count, f);
    return true;
  };
  switch (act) {
    case NPU_ACT_EXP:
      return loop([](float x) { return exp_approx(x); });
    case NPU_ACT_SQRT:
      return loop([](float x) { return __builtin_sqrtf(x); });
    case NPU_ACT_RSQRT:
      return loop([](float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); });
    case NPU_ACT_RECIPROCAL:
      return loop([](float x) { return 1.0f / x; });
    case NPU_ACT_ABS:
      return loop([](float x) { return of_bits(bits_of(x) & 0x7fffffffu); });
    case NPU_ACT_NEG:
      return loop([](float x) { return of_bits(bits_of(x) ^ 0x80000000u); });
    case NPU_ACT_ERF:
      return loop([](float x) { return erf_approx(x); });
    case NPU_ACT_GELU:
      return act_a == 0.0f ? loop([](float x) { return gelu_erf(x); }) : loop([](float x) { return gelu_tanh(x); });
    case NPU_ACT_HARD_SIGMOID:
      return loop([a = double{act_a}, b = double{act_b}](float x) { return static_cast<float>(unit(a * x + b)); });
    case NPU_ACT_HARD_SWISH:
      return loop([](float x) { return static_cast<float>(x * unit(x / 6.0 + 0.5)); });
    case NPU_ACT_FLOOR:
      return loop([](float x) { return __builtin_floorf(x); });
    case NPU_ACT_CEIL:
      return loop([](float x) { return __builtin_ceilf(x); });
    case NPU_ACT_ROUND:
      return loop([](float x) { return __builtin_nearbyintf(x); });
    case NPU_ACT_SIGN:
      return loop([](float x) { return sign(x); });
    default:
      if (act > NPU_ACT_TANH) return false;
      activate_span(act, act_a, act_b, in, out, count);
      return true;
  }
}

// Takes some cells of a window's row into the result; the first ones of a window are all that is in it.
template <size_t cells, class Op>
void pool_cells(const float *in, size_t step, bool first, float *out, size_t channels, Op op) {
  const auto loop = [&](auto begin) {
#pragma GCC ivdep
    for (size_t c = 0; c < channels; ++c) {
      float result = begin(c);
      for (size_t i = 1; i < cells; ++i) result = op(result, in[i * step + c]);
      out[c] = result;
    }
  };
  if (first)
    loop([&](size_t c) { return in[c]; });
  else
    loop([&](size_t c) { return op(out[c], in[c]); });
}

template <class Op>
void pool_loop(const float *in, size_t rows, size_t row_step, size_t cols, size_t col_step, float *out, size_t channels,
               Op op) {
  constexpr size_t kCells = 3;  // windows of 3 x 3 are the most frequent
  for (size_t y = 0; y < rows; ++y)
    for (size_t x = 0; x < cols;) {
      const float *cell = in + y * row_step + x * col_step;
      const bool first = x == 0 && y == 0;
      if (cols - x >= kCells) {
        pool_cells<kCells>(cell, col_step, first, out, channels, op);
        x += kCells;
      } else {
        pool_cells<1>(cell, col_step, first, out, channels, op);
        ++x;
      }
    }
}

void pool_window(uint8_t op, const float *in, size_t rows, size_t row_step, size_t cols, size_t col_step, float count,
                 float *out, size_t channels) {
  if (op == NPU_POOL_MAX)
    return pool_loop(in, rows, row_step, cols, col_step, out, channels, [](float a, float b) { return maximum(a, b); });
  pool_loop(in, rows, row_step, cols, col_step, out, channels, [](float a, float b) { return a + b; });
  for (size_t c = 0; c < channels; ++c) out[c] /= count;
}

// out[j] += sum of a[i] * b[i][j] over kTerms rows of b.
constexpr size_t kTerms = 8;
void add_terms(const float *a, const float *b, size_t b_row, size_t n, float *out) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    float sum = out[j];
    for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i * b_row + j];
    out[j] = sum;
  }
}

float dot(const float *a, const float *b, size_t k) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < k; ++i) sum += a[i] * b[i];
  return sum;
}

void multiply_rows(const float *a, size_t a_row, size_t rows, size_t k, const float *b, size_t b_row, size_t n,
                   bool trans, float *out, size_t out_row) {
  if (trans || (n == 1 && b_row == 1)) {
    const size_t column = trans ? b_row : k;
    for (size_t j = 0; j < n; ++j)
      for (size_t r = 0; r < rows; ++r) out[r * out_row + j] += dot(a + r * a_row, b + j * column, k);
    return;
  }
  size_t i = 0;
  for (; i + kTerms <= k; i += kTerms)
    for (size_t r = 0; r < rows; ++r) add_terms(a + r * a_row + i, b + i * b_row, b_row, n, out + r * out_row);
  for (; i < k; ++i)
    for (size_t r = 0; r < rows; ++r) {
      const float x = a[r * a_row + i];
#pragma GCC ivdep
      for (size_t j = 0; j < n; ++j) out[r * out_row + j] += x * b[i * b_row + j];
    }
}

// Sum of exp(x - top) in double: the sum of many small terms keeps its bits. Each term goes to `terms` unless that is
// null.
double exp_sum(const float *in, float top, float *terms, size_t count) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float e[kLanes];
    for (size_t l = 0; l < kLanes; ++l) e[l] = exp_approx(in[i + l] - top);
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(e[l]);
    if (terms) __builtin_memcpy(terms + i, e, sizeof e);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) {
    const float e = exp_approx(in[i] - top);
    sum += static_cast<double>(e);
    if (terms) terms[i] = e;
  }
  return sum;
}

void softmax_row(uint8_t op, const float *in, float *out, size_t count) {
  float lanes[kLanes];
  for (float &lane : lanes) lane = -__builtin_inff();
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) lanes[l] = in[i + l] > lanes[l] ? in[i + l] : lanes[l];
  float top = -__builtin_inff();
  for (const float lane : lanes) top = lane > top ? lane : top;
  for (; i < count; ++i) top = in[i] > top ? in[i] : top;

  if (op == NPU_SOFTMAX_LOG) {
    const float log_sum = static_cast<float>(__builtin_log(exp_sum(in, top, nullptr, count)));
#pragma GCC ivdep
    for (size_t j = 0; j < count; ++j) out[j] = in[j] - top - log_sum;
    return;
  }
  const double inverse = 1.0 / exp_sum(in, top, out, count);
  for (size_t j = 0; j < count; ++j) out[j] = static_cast<float>(out[j] * inverse);
}

// ---- rows and columns in double: float by float the same as the reference, but for the order of a row's sum ----

inline double term(uint8_t op, float x) {
  const double wide = static_cast<double>(x);
  switch (op) {
    case NPU_REDUCE_L1:
      return static_cast<double>(of_bits(bits_of(x) & 0x7fffffffu));
    case NPU_REDUCE_L2:
      return wide * wide;
    default:
      return wide;
  }
}

/// Calls f with a function that makes a term of an element.
template <class F>
void with_term(uint8_t op, F f) {
  switch (op) {
    case NPU_REDUCE_L1:
      return f([](float x) { return term(NPU_REDUCE_L1, x); });
    case NPU_REDUCE_L2:
      return f([](float x) { return term(NPU_REDUCE_L2, x); });
    default:
      return f([](float x) { return term(NPU_REDUCE_SUM, x); });
  }
}

template <class Term>
double sum_of(const float *in, size_t count, Term term_of) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += term_of(in[i + l]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += term_of(in[i]);
  return sum;
}

double accumulate_row(uint8_t op, const float *in, size_t count) {
  double sum = 0;
  with_term(op, [&](auto term_of) { sum = sum_of(in, count, term_of); });
  return sum;
}

void accumulate_span(uint8_t op, const float *in, bool first, double *acc, size_t count) {
  if (op == NPU_REDUCE_PROD) {
    for (size_t i = 0; i < count; ++i)
      acc[i] = first ? static_cast<double>(in[i]) : acc[i] * static_cast<double>(in[i]);
    return;
  }
  with_term(op, [&](auto term_of) {
    if (first)
      for (size_t i = 0; i < count; ++i) acc[i] = 0.0 + term_of(in[i]);
    else
      for (size_t i = 0; i < count; ++i) acc[i] += term_of(in[i]);
  });
}

void note_places_span(uint8_t op, bool last, const float *in, int32_t place, float *best, int32_t *where,
                      size_t count) {
  const auto loop = [&](auto nearer) {
    for (size_t i = 0; i < count; ++i) {
      const float x = in[i], top = best[i];
      const bool takes = (x == x) & ((where[i] < 0) | nearer(x, top) | ((x == top) & last));
      best[i] = takes ? x : top;
      where[i] = takes ? place : where[i];
    }
  };
  op == NPU_REDUCE_ARGMAX ? loop([](float x, float top) { return x > top; })
                          : loop([](float x, float top) { return x < top; });
}

void normalize_row(uint8_t op, float epsilon, const float *in, const void *scale, const void *bias, float *out,
                   size_t count) {
  const double number = static_cast<double>(count);
  const double mean = op == NPU_NORM_LAYER ? accumulate_row(NPU_REDUCE_SUM, in, count) / number : 0.0;
  const double squares = sum_of(in, count, [mean](float x) {
    const double from_mean = static_cast<double>(x) - mean;
    return from_mean * from_mean;
  });
  const double factor = 1.0 / __builtin_sqrt(squares / number + static_cast<double>(epsilon));
  const char *scales = static_cast<const char *>(scale), *biases = static_cast<const char *>(bias);
  float one[kLanes], more[kLanes];
  for (float &x : one) x = 1;
  for (float &x : more) x = 0;
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t n = count - i < kLanes ? count - i : kLanes;
    if (scale) __builtin_memcpy(one, scales + i * sizeof(float), n * sizeof(float));
    if (bias) __builtin_memcpy(more, biases + i * sizeof(float), n * sizeof(float));
    for (size_t l = 0; l < n; ++l) {
      const double x = (static_cast<double>(in[i + l]) - mean) * factor;
      out[i + l] = static_cast<float>(x * static_cast<double>(one[l]) + static_cast<double>(more[l]));
    }
  }
}

double sum_of_magnitudes(const void *x, size_t count) {
  const char *bytes = static_cast<const char *>(x);
  double lanes[kLanes] = {};
  float some[kLanes] = {};
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t n = count - i < kLanes ? count - i : kLanes;
    if (n < kLanes) __builtin_memset(some, 0, sizeof some);
    __builtin_memcpy(some, bytes + i * sizeof(float), n == kLanes ? sizeof some : n * sizeof(float));
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(of_bits(bits_of(some[l]) & 0x7fffffffu));
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

float largest_magnitude(const float *x, size_t count) {
  uint32_t lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) {
      const uint32_t size = bits_of(x[i + l]) & 0x7fffffffu;
      lanes[l] = size > lanes[l] ? size : lanes[l];
    }
  uint32_t top = 0;
  for (const uint32_t lane : lanes) top = lane > top ? lane : top;
  for (; i < count; ++i) {
    const uint32_t size = bits_of(x[i]) & 0x7fffffffu;
    top = size > top ? size : top;
  }
  return top >= 0x7f800000u ? __builtin_inff() : of_bits(top);
}

}  // namespace

extern const Kernels NPU_KERNELS = {combine_span,   activate_span,    unary_span,        pool_window,
                                    multiply_rows,  softmax_row,      normalize_row,     accumulate_span,
                                    accumulate_row, note_places_span, sum_of_magnitudes, largest_magnitude};

}  // namespace npu::model
