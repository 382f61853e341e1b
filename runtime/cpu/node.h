// SPDX-License-Identifier: MIT
// The typed operators: what the compiler's graph and the sub-networks for the CPU consist of. Each has one result.
#ifndef NPU_CPU_NODE_H
#define NPU_CPU_NODE_H

#include <cerrno>
#include <span>
#include <variant>

#include "common/status.h"
#include "runtime/cpu/attributes.h"

namespace npu::cpu {

/// Numbers stand in .bmodel files: a new operator gets the next one. "Reals" are float32, float16 and bfloat16 in any
/// mixture; the attributes say what the result is, a Unary keeps its type. They are computed in float32, and the result
/// is rounded once. Operators without a word about types take what their comment in attributes.h says, float32 of
/// floating point; moves take all.
enum class Op : uint8_t {
  Conv = 0,       ///< x [n, c, spatial...], weights [oc, c / groups, kernel...], optional bias [oc]; reals (bias
                  ///< float32), or quantized: 8 bits, bias int32, and a multiplier [oc] or [1] unless the result is
                  ///< int32
  MatMul = 1,     ///< a [..., m, k], b [..., k, n], optional bias [n]; as Conv, or all int32, int64
  Pool = 2,       ///< x [n, c, spatial...]; reals, int8, uint8
  Binary = 3,     ///< a, b with numpy broadcasting
  Unary = 4,      ///< x: an activation alone
  Softmax = 5,    ///< x; reals, int8, uint8
  Transpose = 6,  ///< x
  Reshape = 7,    ///< x; the new shape is that of the result
  Concat = 8,     ///< any number
  Slice = 9,      ///< x
  Pad = 10,       ///< x, with one value
  Expand = 11,    ///< x, broadcast to the shape of the result
  Gather = 12,    ///< x, indices (int32 or int64; negative ones count from the end, as everywhere)
  Cast = 13,      ///< x
  Where = 14,     ///< condition (bool), a, b with numpy broadcasting
  Reduce = 15,    ///< x; sums of integers wrap round
  ArgMax = 16,    ///< x; int64, the axis stays with length 1
  TopK = 17,      ///< x; the indices, int64
  CumSum = 18,    ///< x
  GatherElements = 19,   ///< x, indices; GatherAttrs
  GatherNd = 20,         ///< x, indices
  ScatterElements = 21,  ///< x, indices, updates
  ScatterNd = 22,        ///< x, indices, updates; ScatterAttrs
  PoolIndices = 23,      ///< x [n, c, spatial...]; int64
  Requant = 24,          ///< x; int8, uint8, int16, uint16 and reals
  Lookup = 25,           ///< x (int8, uint8), table [256]: the element whose index is the byte
  Plugin = 26,           ///< any number: a user's own operator, whose result is bytes (uint8) with all of its outputs
  PluginOutput = 27,     ///< x (uint8): one of these outputs
  Fail = 28,  ///< x, whose type the result has; ShapeAttrs. Always an error: a branch that could not be compiled
};

/// "unknown" for a number that is none.
const char *op_name(Op op);

/// The code of infer()'s error where an operand has a type that the operator does not take.
inline constexpr int kWrongType = -EPROTOTYPE;

/// The alternative of each operator is the one that is named after it; MatMul, Reshape, Expand, Fail: see above; Where
/// and Lookup have none. Indices into this list stand in .bmodel files: a new alternative goes to the end.
using Attrs = std::variant<std::monostate, ConvAttrs, PoolAttrs, MatMulAttrs, BinaryAttrs, UnaryAttrs, SoftmaxAttrs,
                           TransposeAttrs, ConcatAttrs, SliceAttrs, PadAttrs, GatherAttrs, CastAttrs, ShapeAttrs,
                           ReduceAttrs, ArgMaxAttrs, TopKAttrs, CumSumAttrs, GatherNdAttrs, ScatterAttrs,
                           PoolIndicesAttrs, RequantAttrs, PluginAttrs, PluginOutputAttrs>;

/// The type and shape of a result, from those of the operands and the attributes. Checks everything that evaluate() and
/// the compiler rely on, also that there are as many operands as the operator has and that `attrs` is its alternative.
/// An operand that is left out is null.
Status infer(Op op, const Attrs &attrs, std::span<const TensorKind *const> operands, TensorKind &out);

/// Computes. infer() has passed for these operands and gave `out` its type and shape; its data has its size. Data may
/// still be wrong: an index outside of its dimension, an integer divided by 0.
Status evaluate(Op op, const Attrs &attrs, std::span<const Tensor *const> operands, Tensor &out);

}  // namespace npu::cpu

#endif  // NPU_CPU_NODE_H
