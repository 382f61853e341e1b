// SPDX-License-Identifier: MIT
#include "compiler/import/narrow.h"

#include <cmath>
#include <limits>

namespace npu::graph {
namespace {

/// What a pattern with the exponent's highest value, or with the sign alone, means.
enum class Special : uint8_t {
  None,         ///< only numbers
  AllOnes,      ///< NaN where all bits but the sign are 1
  Ieee,         ///< infinity and NaN
  NegativeZero  ///< NaN instead of -0
};

/// Integers have no mantissa and no exponent.
struct Form {
  unsigned number, bits;  ///< of TensorProto.DataType
  Dtype wide;
  bool sign;
  unsigned mantissa;
  int bias;
  Special special;
};
constexpr unsigned kExponentAlone = 24;  // float8e8m0: a power of 2
constexpr Form kForms[] = {
    {17, 8, Dtype::F32, true, 3, 7, Special::AllOnes}, {18, 8, Dtype::F32, true, 3, 8, Special::NegativeZero},
    {19, 8, Dtype::F32, true, 2, 15, Special::Ieee},   {20, 8, Dtype::F32, true, 2, 16, Special::NegativeZero},
    {21, 4, Dtype::U8, false, 0, 0, Special::None},    {22, 4, Dtype::I8, true, 0, 0, Special::None},
    {23, 4, Dtype::F32, true, 1, 1, Special::None},    {24, 8, Dtype::F32, false, 0, 127, Special::AllOnes},
    {25, 2, Dtype::U8, false, 0, 0, Special::None},    {26, 2, Dtype::I8, true, 0, 0, Special::None},
};

const Form *form_of(Dtype type) {
  for (const Form &f : kForms)
    if (f.number == static_cast<unsigned>(type)) return &f;
  return nullptr;
}

float as_float(const Form &f, unsigned pattern) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (f.number == kExponentAlone) return pattern == 255 ? kNan : std::ldexp(1.0f, static_cast<int>(pattern) - f.bias);
  const unsigned magnitude_bits = f.bits - 1, sign = pattern >> magnitude_bits;
  const unsigned magnitude = pattern & ((1u << magnitude_bits) - 1), top = (1u << (magnitude_bits - f.mantissa)) - 1;
  const unsigned exponent = magnitude >> f.mantissa, fraction = magnitude & ((1u << f.mantissa) - 1);
  if (f.special == Special::NegativeZero && sign && magnitude == 0) return kNan;
  if (f.special == Special::AllOnes && magnitude == (1u << magnitude_bits) - 1) return kNan;
  float value = std::numeric_limits<float>::infinity();
  if (f.special == Special::Ieee && exponent == top) {
    if (fraction) return kNan;
  } else {
    const unsigned digits = fraction + (exponent ? 1u << f.mantissa : 0);
    value = std::ldexp(static_cast<float>(digits),
                       static_cast<int>(exponent ? exponent : 1) - f.bias - static_cast<int>(f.mantissa));
  }
  return sign ? -value : value;
}

}  // namespace

unsigned narrow_bits(Dtype type) {
  const Form *const f = form_of(type);
  return f ? f->bits : 0;
}

uint64_t narrow_bytes(Dtype type, int64_t count) { return (static_cast<uint64_t>(count) * narrow_bits(type) + 7) / 8; }

Dtype widened_type(Dtype type) { return form_of(type)->wide; }

TensorPtr widened(const Tensor &packed) {
  const Form &f = *form_of(packed.dtype);
  auto out = std::make_shared<Tensor>(f.wide, packed.shape);
  for (int64_t i = 0; i < out->count(); ++i) {
    const auto bit = static_cast<uint64_t>(i) * f.bits;
    const unsigned pattern = (packed.data[bit / 8] >> (bit % 8)) & ((1u << f.bits) - 1);
    if (f.wide == Dtype::F32)
      out->as<float>()[i] = as_float(f, pattern);
    else  // the sign bit, if there is one, counts negatively
      out->data[static_cast<size_t>(i)] =
          static_cast<uint8_t>(f.sign && pattern >> (f.bits - 1) ? pattern - (1u << f.bits) : pattern);
  }
  return out;
}

}  // namespace npu::graph
