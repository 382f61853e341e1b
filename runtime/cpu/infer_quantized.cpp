// SPDX-License-Identifier: MIT
// What infer() checks of quantized operators.
#include <cmath>
#include <utility>

#include "runtime/cpu/element.h"
#include "runtime/cpu/infer_checks.h"

namespace npu::cpu {
namespace {

bool is_short(Dtype type) { return is_byte(type) || type == Dtype::I16 || type == Dtype::U16; }

/// Precondition: is_short(type).
Status check_zero(const std::string &what, int32_t zero, Dtype type) {
  if (with_integer(type, [&](auto value) { return std::in_range<decltype(value)>(zero); })) return {};
  return Status::error("zero point " + std::to_string(zero) + " of " + what + " is outside " + dtype_name(type));
}

Status check_multiplier(OperandKinds in, int64_t channels) {
  const TensorKind &factor = *in[3];
  NPU_TRY(check_type(factor.dtype == Dtype::F32, "the multiplier", factor.dtype, "float32"));
  return factor.shape == Shape{1} || factor.shape == Shape{channels}
             ? Status()
             : Status::error("multiplier " + shape_text(factor.shape) + " does not have 1 or " +
                             std::to_string(channels) + " elements");
}

/// In steps of the result, whose factor has no part in it.
bool works_in_steps(ActKind kind) {
  return kind == ActKind::None || kind == ActKind::Relu || kind == ActKind::Clip || kind == ActKind::LeakyRelu;
}

Status check_product_result(const ProductQuant &quant, const Activation &act) {
  NPU_TRY(check_type(is_byte(quant.out) || is_real(quant.out) || quant.out == Dtype::I32, "the result", quant.out,
                     "int8, uint8, int32, float32, float16, bfloat16"));
  NPU_TRY(check_fused(act, quant.out == Dtype::I32 ? Dtype::I32 : Dtype::F32));
  if (!is_byte(quant.out))
    return quant.out_zero == 0 ? Status()
                               : Status::error("a zero point of a result of " + std::string(dtype_name(quant.out)));
  if (!works_in_steps(act.kind))
    return Status::error("function " + std::to_string(static_cast<int>(act.kind)) + " does not work on steps");
  return check_zero("the result", quant.out_zero, quant.out);
}

}  // namespace

Status check_quant(const std::string &what, const Quant &quant, Dtype type, Wide wide) {
  if (quant.scale == 0 && !std::signbit(quant.scale)) {
    NPU_TRY(check_type(is_real(type), (what + ", which has no scale,").c_str(), type, kReals));
    return quant.zero == 0 ? Status() : Status::error(what + " has a zero point and no scale");
  }
  const bool fits = wide == Wide::Yes ? is_short(type) : is_byte(type);
  NPU_TRY(check_type(fits, (what + ", which has a scale,").c_str(), type,
                     wide == Wide::Yes ? "int8, uint8, int16, uint16" : "int8, uint8"));
  if (!std::isfinite(quant.scale) || !(quant.scale > 0))
    return Status::error("scale " + std::to_string(quant.scale) + " of " + what + " is not positive and finite");
  return check_zero(what, quant.zero, type);
}

Status check_no_quant(std::span<const Quant> quants, Dtype out_type) {
  for (const Quant &q : quants)
    if (q.zero != 0 || std::signbit(q.scale)) return Status::error("a zero point without a scale");
  return is_real(out_type) ? Status() : Status::error("a type of the result without a scale");
}

Status check_product(const ProductQuant &quant, const Activation &act, OperandKinds in, int64_t channels, Dtype &out) {
  for (size_t k = 0; k < 2; ++k) NPU_TRY(check_type(is_byte(in[k]->dtype), "an operand", in[k]->dtype, "int8, uint8"));
  NPU_TRY(check_zero("operand 0", quant.x_zero, in[0]->dtype));
  NPU_TRY(check_zero("operand 1", quant.w_zero, in[1]->dtype));
  if (in.size() > 2 && in[2]) NPU_TRY(check_type(in[2]->dtype == Dtype::I32, "the bias", in[2]->dtype, "int32"));
  NPU_TRY(check_product_result(quant, act));
  const bool scaled = in.size() > 3 && in[3];
  if (scaled == (quant.out == Dtype::I32))
    return Status::error(scaled ? "a multiplier of int32 sums" : "the multiplier is missing");
  if (scaled) NPU_TRY(check_multiplier(in, channels));
  out = quant.out;
  return {};
}

Status infer_requant(const RequantAttrs &attrs, OperandKinds in, TensorKind &out) {
  if (attrs.in.scale == 0 && attrs.out.scale == 0) return Status::error("neither the input nor the result has a scale");
  NPU_TRY(check_quant("the input", attrs.in, in[0]->dtype, Wide::Yes));
  NPU_TRY(check_quant("the result", attrs.out, attrs.to, Wide::Yes));
  NPU_TRY(check_fused(attrs.act, Dtype::F32));
  out.dtype = attrs.to;
  return {};
}

Status infer_lookup(const std::monostate &, OperandKinds in, TensorKind &out) {
  NPU_TRY(check_type(is_byte(in[0]->dtype), "the input", in[0]->dtype, "int8, uint8"));
  if (in[1]->shape != Shape{256}) return Status::error("a table " + shape_text(in[1]->shape) + ", expected [256]");
  NPU_TRY(check_type(dtype_bytes(in[1]->dtype) <= 4, "the table", in[1]->dtype, "types of 8, 16 and 32 bits"));
  out.dtype = in[1]->dtype;
  return {};
}

}  // namespace npu::cpu
