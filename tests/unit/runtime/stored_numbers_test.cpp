// SPDX-License-Identifier: MIT
// Numbers and layouts that stand in .bmodel files, as they were released: graphs for the CPU (NPU_CPU_GRAPH). Lines are
// only added. A line that changes makes the files wrong that have been written so far.
#include <gtest/gtest.h>

#include "runtime/cpu/fields.h"
#include "runtime/cpu/names.h"

namespace npu::cpu {
namespace {

constexpr const char *kNumbers =
    "Op:\n"
    "0 Conv, 1 MatMul, 2 Pool, 3 Binary, 4 Unary, 5 Softmax, 6 Transpose, 7 Reshape, 8 Concat, 9 Slice, 10 "
    "Pad, 11 Expand, 12 Gather, 13 Cast, 14 Where, 15 Reduce, 16 ArgMax, 17 TopK, 18 CumSum, 19 "
    "GatherElements, 20 GatherNd, 21 ScatterElements, 22 ScatterNd, 23 PoolIndices, 24 Requant, 25 Lookup, 26 "
    "Plugin, 27 PluginOutput, 28 Fail\n"
    "ActKind:\n"
    "0 None, 1 Relu, 2 Clip, 3 LeakyRelu, 4 Sigmoid, 5 Tanh, 6 Exp, 7 Log, 8 Sqrt, 9 Rsqrt, 10 Reciprocal, 11 "
    "Abs, 12 Neg, 13 Erf, 14 Gelu, 15 Elu, 16 HardSigmoid, 17 HardSwish, 18 Softplus, 19 Floor, 20 Ceil, 21 "
    "Round, 22 Sign, 23 Sin, 24 Cos, 128 Tan, 129 Asin, 130 Acos, 131 Atan, 132 Sinh, 133 Cosh, 134 Asinh, "
    "135 Acosh, 136 Atanh, 137 Not, 138 IsNan, 139 IsInf\n"
    "BinaryKind:\n"
    "0 Add, 1 Sub, 2 Mul, 3 Div, 4 Max, 5 Min, 128 Pow, 129 Mod, 130 Fmod, 131 And, 132 Or, 133 Xor, 134 "
    "ShiftLeft, 135 ShiftRight, 136 Equal, 137 Less, 138 LessOrEqual\n"
    "ReduceKind:\n"
    "0 Sum, 1 Mean, 2 Max, 3 Min, 4 Prod\n"
    "Reduction:\n"
    "0 None, 1 Add, 2 Mul, 3 Max, 4 Min\n"
    "Dtype:\n"
    "1 float32, 2 uint8, 3 int8, 4 uint16, 5 int16, 6 int32, 7 int64, 9 bool, 10 float16, 11 float64, 12 "
    "uint32, 13 uint64, 16 bfloat16\n";

template <class Enum, class Name>
std::string listed(const char *title, Name name) {
  std::string text;
  for (int n = 0; n < 256; ++n)
    if (const char *known = name(static_cast<Enum>(n)))
      text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + known;
  return std::string(title) + ":\n" + text + "\n";
}

TEST(StoredNumbers, AreAsTheyWereReleased) {
  const auto name = [](auto value) { return name_of(value); };
  const auto type = [](Dtype t) { return dtype_bytes(t) ? dtype_name(t) : nullptr; };
  EXPECT_EQ(listed<Op>("Op", name) + listed<ActKind>("ActKind", name) + listed<BinaryKind>("BinaryKind", name) +
                listed<ReduceKind>("ReduceKind", name) + listed<Reduction>("Reduction", name) +
                listed<Dtype>("Dtype", type),
            kNumbers);
}

/// The layout of a field: f4 for 4 bytes of floating point, i8 for 8 of an integer, [i4] for a list, i8*2 for an array.
struct Layout {
  std::string operator()(const std::string &) const { return "text"; }
  std::string operator()(const Tensor &) const { return "tensor"; }
  std::string operator()(const TensorKind &) const { return "kind"; }
  std::string operator()(const std::array<int64_t, 2> &) const { return "i8*2"; }
  template <class T>
  std::string operator()(const std::vector<T> &) const {
    return "[" + (*this)(T{}) + "]";
  }
  template <class T>
  std::string operator()(const T &value) const {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      return (std::is_floating_point_v<T> ? "f" : "i") + std::to_string(sizeof(T));
    } else {
      std::string text;
      for_each_field(value, [&](const char *name, const auto &field) {
        text += (text.empty() ? "" : ", ") + std::string(name) + " " + (*this)(field);
      });
      return "{" + text + "}";
    }
  }
};

template <size_t... I>
std::string layouts(std::index_sequence<I...>) {
  return ((std::to_string(I) + " " + Layout()(std::variant_alternative_t<I, Attrs>{}) + "\n") + ...);
}

constexpr const char *kLayouts =
    "0 {}\n"
    "1 {window {kernel i8*2, stride i8*2, dilation i8*2, begin i8*2, end i8*2}, groups i8, act {kind i1, a "
    "f4, b f4}, quant {quantized i1, x_zero i4, w_zero i4, out_zero i4, out i1}}\n"
    "2 {window {kernel i8*2, stride i8*2, dilation i8*2, begin i8*2, end i8*2}, max i1, count_pad i1, "
    "counted_end i8*2, in_quant {scale f4, zero i4}, out_quant {scale f4, zero i4}, out_type i1}\n"
    "3 {act {kind i1, a f4, b f4}, quant {quantized i1, x_zero i4, w_zero i4, out_zero i4, out i1}}\n"
    "4 {kind i1, act {kind i1, a f4, b f4}, a_quant {scale f4, zero i4}, b_quant {scale f4, zero i4}, "
    "out_quant {scale f4, zero i4}, out_type i1}\n"
    "5 {act {kind i1, a f4, b f4}}\n"
    "6 {axis i4, log i1, in_quant {scale f4, zero i4}, out_quant {scale f4, zero i4}, out_type i1}\n"
    "7 {perm [i4]}\n"
    "8 {axis i4}\n"
    "9 {start [i8], step [i8], count [i8]}\n"
    "10 {begin [i8], end [i8], value f8}\n"
    "11 {axis i4}\n"
    "12 {to i1, saturate i1}\n"
    "13 {shape [i8]}\n"
    "14 {kind i1, axes [i4]}\n"
    "15 {axis i4, last i1, smallest i1}\n"
    "16 {axis i4, count i8, smallest i1}\n"
    "17 {axis i4, exclusive i1, reverse i1}\n"
    "18 {batch_dims i4}\n"
    "19 {axis i4, reduction i1}\n"
    "20 {window {kernel i8*2, stride i8*2, dilation i8*2, begin i8*2, end i8*2}, column_major i1}\n"
    "21 {in_quant {scale f4, zero i4}, out_quant {scale f4, zero i4}, act {kind i1, a f4, b f4}, to i1}\n"
    "22 {library text, domain text, op text, attributes [{name text, kind i1, ints [i8], floats [f4], strings "
    "[text], tensor tensor}], outputs [kind]}\n"
    "23 {offset i8, kind kind}\n";

TEST(StoredNumbers, FieldsOfAttributesAreInTheOrderThatWasReleased) {
  EXPECT_EQ(layouts(std::make_index_sequence<std::variant_size_v<Attrs>>()), kLayouts);
}

}  // namespace
}  // namespace npu::cpu
