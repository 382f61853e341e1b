// SPDX-License-Identifier: MIT
// The name of each enumerator, and the parameters of functions. The switches have no default, so that the
// compiler names what a new enumerator lacks (-Wswitch). A number that is no enumerator has no name.
#ifndef NPU_CPU_NAMES_H
#define NPU_CPU_NAMES_H

#include "runtime/cpu/node.h"

namespace npu::cpu {

/// Null for a number that is none, as of the other enumerations.
constexpr const char *name_of(Op op) {
  switch (op) {
    case Op::Conv:
      return "Conv";
    case Op::MatMul:
      return "MatMul";
    case Op::Pool:
      return "Pool";
    case Op::Binary:
      return "Binary";
    case Op::Unary:
      return "Unary";
    case Op::Softmax:
      return "Softmax";
    case Op::Transpose:
      return "Transpose";
    case Op::Reshape:
      return "Reshape";
    case Op::Concat:
      return "Concat";
    case Op::Slice:
      return "Slice";
    case Op::Pad:
      return "Pad";
    case Op::Expand:
      return "Expand";
    case Op::Gather:
      return "Gather";
    case Op::Cast:
      return "Cast";
    case Op::Where:
      return "Where";
    case Op::Reduce:
      return "Reduce";
    case Op::ArgMax:
      return "ArgMax";
    case Op::TopK:
      return "TopK";
    case Op::CumSum:
      return "CumSum";
    case Op::GatherElements:
      return "GatherElements";
    case Op::GatherNd:
      return "GatherNd";
    case Op::ScatterElements:
      return "ScatterElements";
    case Op::ScatterNd:
      return "ScatterNd";
    case Op::PoolIndices:
      return "PoolIndices";
    case Op::Requant:
      return "Requant";
    case Op::Lookup:
      return "Lookup";
    case Op::Plugin:
      return "Plugin";
    case Op::PluginOutput:
      return "PluginOutput";
    case Op::Fail:
      return "Fail";
  }
  return nullptr;
}

constexpr const char *name_of(ActKind kind) {
  switch (kind) {
    case ActKind::None:
      return "None";
    case ActKind::Relu:
      return "Relu";
    case ActKind::Clip:
      return "Clip";
    case ActKind::LeakyRelu:
      return "LeakyRelu";
    case ActKind::Sigmoid:
      return "Sigmoid";
    case ActKind::Tanh:
      return "Tanh";
    case ActKind::Exp:
      return "Exp";
    case ActKind::Log:
      return "Log";
    case ActKind::Sqrt:
      return "Sqrt";
    case ActKind::Rsqrt:
      return "Rsqrt";
    case ActKind::Reciprocal:
      return "Reciprocal";
    case ActKind::Abs:
      return "Abs";
    case ActKind::Neg:
      return "Neg";
    case ActKind::Erf:
      return "Erf";
    case ActKind::Gelu:
      return "Gelu";
    case ActKind::Elu:
      return "Elu";
    case ActKind::HardSigmoid:
      return "HardSigmoid";
    case ActKind::HardSwish:
      return "HardSwish";
    case ActKind::Softplus:
      return "Softplus";
    case ActKind::Floor:
      return "Floor";
    case ActKind::Ceil:
      return "Ceil";
    case ActKind::Round:
      return "Round";
    case ActKind::Sign:
      return "Sign";
    case ActKind::Sin:
      return "Sin";
    case ActKind::Cos:
      return "Cos";
    case ActKind::Tan:
      return "Tan";
    case ActKind::Asin:
      return "Asin";
    case ActKind::Acos:
      return "Acos";
    case ActKind::Atan:
      return "Atan";
    case ActKind::Sinh:
      return "Sinh";
    case ActKind::Cosh:
      return "Cosh";
    case ActKind::Asinh:
      return "Asinh";
    case ActKind::Acosh:
      return "Acosh";
    case ActKind::Atanh:
      return "Atanh";
    case ActKind::Not:
      return "Not";
    case ActKind::IsNan:
      return "IsNan";
    case ActKind::IsInf:
      return "IsInf";
  }
  return nullptr;
}

constexpr const char *name_of(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Add:
      return "Add";
    case BinaryKind::Sub:
      return "Sub";
    case BinaryKind::Mul:
      return "Mul";
    case BinaryKind::Div:
      return "Div";
    case BinaryKind::Max:
      return "Max";
    case BinaryKind::Min:
      return "Min";
    case BinaryKind::Pow:
      return "Pow";
    case BinaryKind::Mod:
      return "Mod";
    case BinaryKind::Fmod:
      return "Fmod";
    case BinaryKind::And:
      return "And";
    case BinaryKind::Or:
      return "Or";
    case BinaryKind::Xor:
      return "Xor";
    case BinaryKind::ShiftLeft:
      return "ShiftLeft";
    case BinaryKind::ShiftRight:
      return "ShiftRight";
    case BinaryKind::Equal:
      return "Equal";
    case BinaryKind::Less:
      return "Less";
    case BinaryKind::LessOrEqual:
      return "LessOrEqual";
  }
  return nullptr;
}

constexpr const char *name_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "Sum";
    case ReduceKind::Mean:
      return "Mean";
    case ReduceKind::Max:
      return "Max";
    case ReduceKind::Min:
      return "Min";
    case ReduceKind::Prod:
      return "Prod";
  }
  return nullptr;
}

constexpr const char *name_of(Reduction kind) {
  switch (kind) {
    case Reduction::None:
      return "None";
    case Reduction::Add:
      return "Add";
    case Reduction::Mul:
      return "Mul";
    case Reduction::Max:
      return "Max";
    case Reduction::Min:
      return "Min";
  }
  return nullptr;
}

/// Parameters of a function: none, a, or a and b.
constexpr int parameters_of(ActKind kind) {
  switch (kind) {
    case ActKind::Clip:
    case ActKind::HardSigmoid:
    case ActKind::IsInf:
      return 2;
    case ActKind::LeakyRelu:
    case ActKind::Gelu:
    case ActKind::Elu:
      return 1;
    case ActKind::None:
    case ActKind::Relu:
    case ActKind::Sigmoid:
    case ActKind::Tanh:
    case ActKind::Exp:
    case ActKind::Log:
    case ActKind::Sqrt:
    case ActKind::Rsqrt:
    case ActKind::Reciprocal:
    case ActKind::Abs:
    case ActKind::Neg:
    case ActKind::Erf:
    case ActKind::HardSwish:
    case ActKind::Softplus:
    case ActKind::Floor:
    case ActKind::Ceil:
    case ActKind::Round:
    case ActKind::Sign:
    case ActKind::Sin:
    case ActKind::Cos:
    case ActKind::Tan:
    case ActKind::Asin:
    case ActKind::Acos:
    case ActKind::Atan:
    case ActKind::Sinh:
    case ActKind::Cosh:
    case ActKind::Asinh:
    case ActKind::Acosh:
    case ActKind::Atanh:
    case ActKind::Not:
    case ActKind::IsNan:
      return 0;
  }
  return 0;
}

}  // namespace npu::cpu

#endif  // NPU_CPU_NAMES_H
