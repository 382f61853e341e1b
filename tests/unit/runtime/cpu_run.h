// SPDX-License-Identifier: MIT
// For tests of operators: tensors of given values, evaluate() on them, and what its result is to be.
#ifndef NPU_TESTS_CPU_RUN_H
#define NPU_TESTS_CPU_RUN_H

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/cpu/node.h"

namespace npu::cpu {

inline constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
template <class T>
inline constexpr T kMost = std::numeric_limits<T>::max();
template <class T>
inline constexpr T kLeast = std::numeric_limits<T>::lowest();

/// Elements of bool tensors: std::vector<bool> has none.
enum class Truth : uint8_t { No, Yes };
inline constexpr Truth kNo = Truth::No, kYes = Truth::Yes;

template <class T>
Dtype dtype_of() {
  if (std::is_same_v<T, Truth>) return Dtype::Bool;
  if (std::is_same_v<T, float>) return Dtype::F32;
  if (std::is_same_v<T, double>) return Dtype::F64;
  constexpr Dtype kSigned[] = {Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64};
  constexpr Dtype kUnsigned[] = {Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64};
  constexpr size_t kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? kSigned[kSize] : kUnsigned[kSize];
}

template <class T>
Tensor tensor(const Shape &shape, const std::vector<T> &values) {
  Tensor t(dtype_of<T>(), shape);
  EXPECT_EQ(static_cast<size_t>(t.count()), values.size());
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}
template <class T>
Tensor row(const std::vector<T> &values) {
  return tensor<T>({static_cast<int64_t>(values.size())}, values);
}
inline Tensor bits16(Dtype type, const std::vector<uint16_t> &values) {
  Tensor t = row(values);
  t.dtype = type;
  return t;
}

inline Status evaluate_all(Op op, const Attrs &attrs, const std::vector<Tensor> &operands, Tensor &out) {
  std::vector<const TensorKind *> kinds;
  std::vector<const Tensor *> in;
  for (const Tensor &t : operands) {
    kinds.push_back(&t);
    in.push_back(&t);
  }
  TensorKind kind;
  const Status inferred = infer(op, attrs, kinds, kind);
  EXPECT_EQ(inferred.message(), "");
  NPU_TRY(inferred);
  out = Tensor(kind.dtype, kind.shape);
  return evaluate(op, attrs, in, out);
}

inline Tensor run(Op op, const Attrs &attrs, const std::vector<Tensor> &operands) {
  Tensor out;
  EXPECT_EQ(evaluate_all(op, attrs, operands, out).message(), "");
  return out;
}

inline std::string error(Op op, const Attrs &attrs, const std::vector<Tensor> &operands) {
  Tensor out;
  return evaluate_all(op, attrs, operands, out).message();
}

template <class T>
inline std::string text(const T &value) {
  return std::to_string(+value);
}
inline std::string text(Truth value) { return value == kYes ? "true" : value == kNo ? "false" : "neither"; }

/// NaN equals NaN; 0 and -0 differ.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  else
    return a == b;
}

template <class T>
void expect(const Tensor &found, const Shape &shape, const std::vector<T> &values) {
  ASSERT_EQ(kind_text(found), kind_text({dtype_of<T>(), shape}));
  ASSERT_EQ(found.data.size(), values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(same(found.as<T>()[i], values[i]))
        << "element " << i << " is " << text(found.as<T>()[i]) << ", expected " << text(values[i]);
}
template <class T>
void expect(const Tensor &found, const std::vector<T> &values) {
  expect<T>(found, {static_cast<int64_t>(values.size())}, values);
}

}  // namespace npu::cpu

#endif  // NPU_TESTS_CPU_RUN_H
