// SPDX-License-Identifier: MIT
// Attributes of the operators, one struct each: for the operators on the host and for the nodes of the compiler's
// graph.
#ifndef NPU_CPU_ATTRIBUTES_H
#define NPU_CPU_ATTRIBUTES_H

#include <array>

#include "npu_isa.h"
#include "runtime/cpu/tensor.h"

namespace npu::cpu {

// Numbers of all enumerators stand in .bmodel files: none is ever changed or used for something else, which
// tests/unit/runtime/stored_numbers_test.cpp checks. Names are in runtime/cpu/names.h.

/// Functions of one number: the chip's, and from kFirstHostAct on those that only the CPU has.
enum class ActKind : uint8_t {
  None = NPU_ACT_NONE,
  Relu = NPU_ACT_RELU,
  Clip = NPU_ACT_CLIP,             ///< to [a, b]
  LeakyRelu = NPU_ACT_LEAKY_RELU,  ///< x < 0 ? a * x : x
  Sigmoid = NPU_ACT_SIGMOID,
  Tanh = NPU_ACT_TANH,
  Exp = NPU_ACT_EXP,
  Log = NPU_ACT_LOG,
  Sqrt = NPU_ACT_SQRT,
  Rsqrt = NPU_ACT_RSQRT,
  Reciprocal = NPU_ACT_RECIPROCAL,
  Abs = NPU_ACT_ABS,
  Neg = NPU_ACT_NEG,
  Erf = NPU_ACT_ERF,
  Gelu = NPU_ACT_GELU,                 ///< a = 0: by erf; a = 1: by tanh
  Elu = NPU_ACT_ELU,                   ///< x < 0 ? a * (exp(x) - 1) : x
  HardSigmoid = NPU_ACT_HARD_SIGMOID,  ///< max(0, min(1, a * x + b))
  HardSwish = NPU_ACT_HARD_SWISH,      ///< x * max(0, min(1, x / 6 + 0.5))
  Softplus = NPU_ACT_SOFTPLUS,         ///< log(exp(x) + 1)
  Floor = NPU_ACT_FLOOR,
  Ceil = NPU_ACT_CEIL,
  Round = NPU_ACT_ROUND,  ///< halves to the even neighbour
  Sign = NPU_ACT_SIGN,    ///< -1, 0, 1
  Sin = NPU_ACT_SIN,
  Cos = NPU_ACT_COS,
  Tan = 128,
  Asin = 129,
  Acos = 130,
  Atan = 131,
  Sinh = 132,
  Cosh = 133,
  Asinh = 134,
  Acosh = 135,
  Atanh = 136,
  Not = 137,    ///< a bool; each bit of an integer
  IsNan = 138,  ///< to bool
  IsInf = 139,  ///< to bool; a: whether plus infinity counts, b: minus infinity
};
inline constexpr int kFirstHostAct = 128;

struct Activation {
  ActKind kind = ActKind::None;
  float a = 0, b = 0;  ///< 0 where the kind has none
  bool operator==(const Activation &) const = default;
};

/// Functions of two numbers: the chip's, and from kFirstHostBinary on those that only the CPU has.
enum class BinaryKind : uint8_t {
  Add = NPU_ELTWISE_ADD,
  Sub = NPU_ELTWISE_SUB,
  Mul = NPU_ELTWISE_MUL,
  Div = NPU_ELTWISE_DIV,  ///< of integers towards zero
  Max = NPU_ELTWISE_MAX,
  Min = NPU_ELTWISE_MIN,
  Pow = 128,   ///< the exponent may have another type than base and result
  Mod = 129,   ///< with the sign of the divisor
  Fmod = 130,  ///< with the sign of the dividend
  And = 131,   ///< bools, and integers bit by bit, as the next two
  Or = 132,
  Xor = 133,
  ShiftLeft = 134,
  ShiftRight = 135,
  Equal = 136,  ///< to bool, as the next two
  Less = 137,
  LessOrEqual = 138,
};
inline constexpr int kFirstHostBinary = 128;

/// What the integers of an operand stand for: float(q - zero) * scale, with a float32 difference and product.
struct Quant {
  float scale = 0;  ///< 0: the operand is floating point, or taken as it is
  int32_t zero = 0;
  bool operator==(const Quant &) const = default;
};

/// A product of integers of 8 bits: sums of (x - x_zero) * (w - w_zero) in int32, which wrap round. Not `on`: a product
/// of floating-point numbers, and `out`, the type of the result, is the only field that is not at its default.
struct ProductQuant {
  bool on = false;
  int32_t x_zero = 0, w_zero = 0;
  int32_t out_zero = 0;    ///< added behind multiplier and activation, which work in steps of the result
  Dtype out = Dtype::F32;  ///< int8, uint8, float32, float16, bfloat16; of integers int32: the sums alone
  bool operator==(const ProductQuant &) const = default;
};

/// A sliding window over one or two spatial dimensions; a missing second one has kernel 1, stride 1, no padding.
struct Window {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, begin{0, 0}, end{0, 0};
  /// Dilated kernel extent.
  int64_t extent(int i) const { return (kernel[i] - 1) * dilation[i] + 1; }
  bool operator==(const Window &) const = default;
};

struct ConvAttrs {
  Window window;
  int64_t groups = 1;
  Activation act;
  ProductQuant quant;
  bool operator==(const ConvAttrs &) const = default;
};
struct PoolAttrs {
  Window window;
  bool max = true;
  bool count_pad = false;  ///< averages: padding counts in the divisor,
  /// behind the data only that much; window.end has also what ceil_mode adds
  std::array<int64_t, 2> counted_end{0, 0};
  Quant in, out;                ///< averages only
  Dtype out_type = Dtype::F32;  ///< of integers where `out` has a scale, else of floating point
  bool operator==(const PoolAttrs &) const = default;
};
struct MatMulAttrs {
  Activation act;
  ProductQuant quant;
  bool operator==(const MatMulAttrs &) const = default;
};
/// Without scales: in the type of the operands, which floating-point ones choose for themselves (all of them compute in
/// float32). With one: in float32, from what the integers stand for.
struct BinaryAttrs {
  BinaryKind kind = BinaryKind::Add;
  Activation act;
  Quant a, b, out;
  Dtype out_type = Dtype::F32;  ///< of integers where `out` has a scale, else of floating point
  bool operator==(const BinaryAttrs &) const = default;
};
struct UnaryAttrs {
  Activation act;
  bool operator==(const UnaryAttrs &) const = default;
};
struct SoftmaxAttrs {
  int axis = -1;
  bool log = false;
  Quant in, out;
  Dtype out_type = Dtype::F32;  ///< of integers where `out` has a scale, else of floating point
  bool operator==(const SoftmaxAttrs &) const = default;
};
/// Whether an operand or the result has a scale.
inline bool is_quantized(const BinaryAttrs &a) { return a.a.scale != 0 || a.b.scale != 0 || a.out.scale != 0; }
inline bool is_quantized(const PoolAttrs &a) { return a.in.scale != 0 || a.out.scale != 0; }
inline bool is_quantized(const SoftmaxAttrs &a) { return a.in.scale != 0 || a.out.scale != 0; }

struct TransposeAttrs {
  std::vector<int> perm;
  bool operator==(const TransposeAttrs &) const = default;
};
struct ConcatAttrs {
  int axis = 0;
  bool operator==(const ConcatAttrs &) const = default;
};
/// One start, step and number of elements for each dimension; a step may be negative.
struct SliceAttrs {
  std::vector<int64_t> start, step, count;
  bool operator==(const SliceAttrs &) const = default;
};
struct PadAttrs {
  std::vector<int64_t> begin, end;  ///< not negative
  double value = 0;                 ///< converted to the tensor's type
  bool operator==(const PadAttrs &) const = default;
};
struct GatherAttrs {
  int axis = 0;
  bool operator==(const GatherAttrs &) const = default;
};
struct CastAttrs {
  Dtype to = Dtype::F32;
  bool saturate = false;  ///< integers that the new type cannot hold; otherwise they wrap round
  bool operator==(const CastAttrs &) const = default;
};
/// Reshape, Expand.
struct ShapeAttrs {
  Shape shape;
  bool operator==(const ShapeAttrs &) const = default;
};
struct ArgMaxAttrs {
  int axis = 0;
  bool last = false;      ///< of equal elements the last, not the first
  bool smallest = false;  ///< the place of the smallest element instead
};
struct TopKAttrs {
  int axis = 0;
  int64_t count = 1;
  bool smallest = false;
};
enum class ReduceKind : uint8_t { Sum = 0, Mean = 1, Max = 2, Min = 3, Prod = 4 };
struct ReduceAttrs {
  ReduceKind kind = ReduceKind::Sum;
  std::vector<int> axes;  ///< rising, without repetition; they stay, with length 1
  bool operator==(const ReduceAttrs &) const = default;
};
struct CumSumAttrs {
  int axis = 0;
  bool exclusive = false, reverse = false;
};
struct GatherNdAttrs {
  int batch_dims = 0;
};
/// How an element joins what is at its place.
enum class Reduction : uint8_t { None = 0, Add = 1, Mul = 2, Max = 3, Min = 4 };
struct ScatterAttrs {
  int axis = 0;  ///< ScatterElements only
  Reduction reduction = Reduction::None;
};
/// Where in the whole input the largest element of each pooling window is.
struct PoolIndicesAttrs {
  Window window;
  bool column_major = false;  ///< the last spatial dimension varies slowest within a picture
};
/// Non-maximum suppression.
struct NmsAttrs {
  bool center = false;       ///< boxes are centre and size, not two opposite corners
  uint32_t per_class = 0;    ///< at most so many boxes of a class; 0: any number
  float iou = 0, score = 0;  ///< boxes that overlap a better one by more, and those that score no more, are left out
};

/// From one quantization to another, or from and to floating point (scale 0).
struct RequantAttrs {
  Quant in, out;
  Activation act;  ///< of the number in between
  Dtype to = Dtype::F32;
  bool operator==(const RequantAttrs &) const = default;
};

/// The values of an attribute of a user's own operator: one number or text is a list of one.
enum class PluginValue : uint8_t { Ints = 0, Floats = 1, Strings = 2, Tensor = 3 };
struct PluginAttribute {
  std::string name;
  PluginValue kind = PluginValue::Ints;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  Tensor tensor;
};
/// An operator of a user's own (runtime/cpu/plugin.h).
struct PluginAttrs {
  std::string library;  ///< file name of the plug-in that the network was compiled with, for messages
  std::string domain, op;
  std::vector<PluginAttribute> attributes;
  std::vector<TensorKind> outputs;
};
/// One of the outputs in the result of such an operator.
struct PluginOutputAttrs {
  int64_t offset = 0;  ///< in bytes
  TensorKind kind;
};

}  // namespace npu::cpu

#endif  // NPU_CPU_ATTRIBUTES_H
