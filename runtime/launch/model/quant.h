// SPDX-License-Identifier: MIT
// Numbers of float32 and the elements of tensors that stand for them.
#ifndef NPURT_QUANT_H
#define NPURT_QUANT_H

#include "runtime/launch/model/unit.h"

namespace npurt {

enum class Side : uint8_t { Input, Output };

/// What the elements of a network's tensor stand for.
bmrt_quant_t quant_of(const TensorInfo &tensor, Side side);

/// `count` elements of numbers, and numbers of elements, at any address. Error: a type without numbers, a step that is
/// not above 0 and finite, a zero point that the type does not have.
Status quantize(const bmrt_quant_t &quant, const float *values, uint64_t count, void *elements);
Status dequantize(const bmrt_quant_t &quant, const void *elements, uint64_t count, float *values);

}  // namespace npurt

#endif  // NPURT_QUANT_H
