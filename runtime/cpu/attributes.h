// SPDX-License-Identifier: MIT
// Attributes of the operators, one struct each: for the operators on the host and for the nodes of the compiler's
// graph.
#ifndef NPU_CPU_ATTRIBUTES_H
#define NPU_CPU_ATTRIBUTES_H

#include <array>

#include "npu_isa.h"
#include "runtime/cpu/tensor.h"

namespace npu::cpu {

/// The chip's numbers.
enum class ActKind : uint8_t {
  None = NPU_ACT_NONE,
  Relu = NPU_ACT_RELU,
  Clip = NPU_ACT_CLIP,
  LeakyRelu = NPU_ACT_LEAKY_RELU,
  Sigmoid = NPU_ACT_SIGMOID,
  Tanh = NPU_ACT_TANH,
};

struct Activation {
  ActKind kind = ActKind::None;
  float a = 0, b = 0;  ///< 0 where the kind has none
};

/// The chip's numbers.
enum class BinaryKind : uint8_t {
  Add = NPU_ELTWISE_ADD,
  Sub = NPU_ELTWISE_SUB,
  Mul = NPU_ELTWISE_MUL,
  Div = NPU_ELTWISE_DIV,
  Max = NPU_ELTWISE_MAX,
  Min = NPU_ELTWISE_MIN,
};

/// A sliding window over one or two spatial dimensions; a missing second one has kernel 1, stride 1, no padding.
struct Window {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, begin{0, 0}, end{0, 0};
  /// Dilated kernel extent.
  int64_t extent(int i) const { return (kernel[i] - 1) * dilation[i] + 1; }
};

struct ConvAttrs {
  Window window;
  int64_t groups = 1;
  Activation act;
};
struct PoolAttrs {
  Window window;
  bool max = true;
  bool count_pad = false;  ///< averages: padding counts in the divisor,
  /// behind the data only that much; window.end has also what ceil_mode adds
  std::array<int64_t, 2> counted_end{0, 0};
};
struct MatMulAttrs {
  Activation act;
};
struct BinaryAttrs {
  BinaryKind kind = BinaryKind::Add;
  Activation act;
};
struct UnaryAttrs {
  Activation act;
};
struct SoftmaxAttrs {
  int axis = -1;
  bool log = false;
};
struct TransposeAttrs {
  std::vector<int> perm;
};
struct ConcatAttrs {
  int axis = 0;
};
/// One start and step for each dimension; a step may be negative.
struct SliceAttrs {
  std::vector<int64_t> start, step;
};
struct PadAttrs {
  std::vector<int64_t> begin, end;
  float value = 0;
};
struct GatherAttrs {
  int axis = 0;
};
struct CastAttrs {
  Dtype to = Dtype::F32;
};
/// Reshape, Expand.
struct ShapeAttrs {
  Shape shape;
};
struct ArgMaxAttrs {
  int axis = 0;
  bool last = false;  ///< of equal elements the last, not the first
};
struct TopKAttrs {
  int axis = 0;
  int64_t count = 1;
  bool smallest = false;
};
/// Non-maximum suppression.
struct NmsAttrs {
  bool center = false;       ///< boxes are centre and size, not two opposite corners
  uint32_t per_class = 0;    ///< at most so many boxes of a class; 0: any number
  float iou = 0, score = 0;  ///< boxes that overlap a better one by more, and those that score no more, are left out
};

}  // namespace npu::cpu

#endif  // NPU_CPU_ATTRIBUTES_H
