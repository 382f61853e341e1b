// SPDX-License-Identifier: MIT
// Constants of types that the graph has not: integers of 2 and 4 bits, floating point of 4 and 8. Files have weights in
// them, which become wider where a DequantizeLinear or a Cast reads them.
#ifndef NPU_GRAPH_NARROW_H
#define NPU_GRAPH_NARROW_H

#include "compiler/graph/tensor.h"

namespace npu::graph {

/// Bits of an element; 0 for all other types.
unsigned narrow_bits(Dtype type);

/// Bytes of so many elements, the first of a byte in its lowest bits.
uint64_t narrow_bytes(Dtype type, int64_t count);

/// The type that holds all of its numbers: int8, uint8 or float32.
Dtype widened_type(Dtype type);

/// The same numbers in that type. `packed` has narrow_bytes() of data.
TensorPtr widened(const Tensor &packed);

}  // namespace npu::graph

#endif  // NPU_GRAPH_NARROW_H
