// SPDX-License-Identifier: MIT
#include "runtime/launch/model/quant.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/cpu/element.h"
#include "runtime/cpu/numbers.h"
#include "runtime/cpu/subnet.h"

namespace npurt {

namespace {

using npu::cpu::Dtype;

/// The type and quantization, once they are checked.
Status read(const bmrt_quant_t &quant, Dtype &type, npu::cpu::Quant &out) {
  int32_t number;  // programs in C may have any there, not only those of the enumeration
  static_assert(sizeof number == sizeof quant.dtype);
  std::memcpy(&number, &quant.dtype, sizeof number);
  type = npu::cpu::dtype_of_bm(static_cast<uint32_t>(number));
  if (!npu::cpu::has_numbers(type))
    return Status::error("type " + std::to_string(number) +
                         " cannot be converted: float32, float16, bfloat16 and integers of 8 to 32 bits can");
  if (!npu::cpu::is_integer(type)) return {};
  if (!(quant.step > 0) || !std::isfinite(quant.step))
    return Status::error("step " + std::to_string(quant.step) + ", expected a number above 0 that is finite");
  const bool fits = npu::cpu::with_integer(type, [&](auto v) { return std::in_range<decltype(v)>(quant.zero_point); });
  if (!fits)
    return Status::error("zero point " + std::to_string(quant.zero_point) + " is outside " +
                         npu::cpu::dtype_name(type));
  out = {quant.step, quant.zero_point};
  return {};
}

}  // namespace

bmrt_quant_t quant_of(const TensorInfo &t, Side side) {
  const float by_scale = side == Side::Input ? 1 / t.scale : t.scale;
  return {t.dtype, t.step != 0 ? t.step : by_scale, t.zero_point};
}

Status quantize(const bmrt_quant_t &quant, const float *values, uint64_t count, void *elements) {
  Dtype type;
  npu::cpu::Quant q;
  NPU_TRY(read(quant, type, q));
  if (count && (!values || !elements)) return Status::error("null pointer instead of data");
  npu::cpu::store_numbers(type, q, values, count, elements);
  return {};
}

Status dequantize(const bmrt_quant_t &quant, const void *elements, uint64_t count, float *values) {
  Dtype type;
  npu::cpu::Quant q;
  NPU_TRY(read(quant, type, q));
  if (count && (!values || !elements)) return Status::error("null pointer instead of data");
  npu::cpu::load_numbers(type, q, elements, count, values);
  return {};
}

}  // namespace npurt
