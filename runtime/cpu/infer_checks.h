// SPDX-License-Identifier: MIT
// Parts of infer().
#ifndef NPU_CPU_INFER_CHECKS_H
#define NPU_CPU_INFER_CHECKS_H

#include "runtime/cpu/node.h"

namespace npu::cpu {

using OperandKinds = std::span<const TensorKind *const>;

inline constexpr const char *kReals = "float32, float16, bfloat16";  ///< what is_real() is true for

/// `supported` says what fits.
Status check_type(bool fits, const char *what, Dtype type, const char *supported);
/// Kind and parameters of an activation.
Status check_activation(const Activation &act);
/// An activation inside of another operator.
Status check_fused(const Activation &act, Dtype type);

/// The quantization of a tensor of that type: none of reals and one of integers of 8 bits, or 16 as well.
enum class Wide : uint8_t { No, Yes };
Status check_quant(const std::string &what, const Quant &quant, Dtype type, Wide wide = Wide::No);
/// Scales that the operator has not: the fields are at their defaults. The result is a real.
Status check_no_quant(std::span<const Quant> quants, Dtype out_type);
/// Types of the operands of a convolution or matrix product, with so many output channels or columns. `out` gets the
/// type of the result.
Status check_product(const ProductQuant &quant, const Activation &act, OperandKinds in, int64_t channels, Dtype &out);

Status infer_requant(const RequantAttrs &attrs, OperandKinds in, TensorKind &out);
Status infer_lookup(const std::monostate &, OperandKinds in, TensorKind &out);

}  // namespace npu::cpu

#endif  // NPU_CPU_INFER_CHECKS_H
