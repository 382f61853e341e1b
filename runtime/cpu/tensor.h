// SPDX-License-Identifier: MIT
// Dense tensors with their data, and arithmetic on shapes: what the operators on the host take, and the compiler's
// constants.
#ifndef NPU_CPU_TENSOR_H
#define NPU_CPU_TENSOR_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace npu::cpu {

/// Element types, with the numbers of ONNX TensorProto.DataType. Other numbers have a name at most, and no size.
enum class Dtype : uint8_t {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  BF16 = 16,
};

/// Size of an element; 0 for types without a fixed size.
unsigned dtype_bytes(Dtype type);
const char *dtype_name(Dtype type);
/// int8 or uint8: the numbers of quantized networks.
bool is_byte(Dtype type);
/// float16 or bfloat16: numbers that are stored in 16 bits and computed with in float32.
bool is_half(Dtype type);
/// float32, float16 or bfloat16.
bool is_real(Dtype type);

using Shape = std::vector<int64_t>;

/// "[1, 3, 224, 224]"
std::string shape_text(const Shape &shape);

/// The largest tensor that is accepted, in elements; every product of dimensions is checked against it.
inline constexpr int64_t kMaxElements = int64_t{1} << 31;

/// Elements of a shape; -1 for a negative dimension or more than kMaxElements.
int64_t element_count(const Shape &shape);

/// What is known of a tensor without its data.
struct TensorKind {
  Dtype dtype = Dtype::F32;
  Shape shape;
  bool operator==(const TensorKind &) const = default;
};

/// "float32 [1, 3]"
std::string kind_text(const TensorKind &kind);

/// A dense row-major tensor and its data.
struct Tensor : TensorKind {
  std::vector<uint8_t> data;

  Tensor() = default;
  /// Zero-filled. Precondition: element_count(shape) >= 0 and dtype_bytes(dtype) > 0.
  Tensor(Dtype type, Shape dims);

  int64_t count() const { return element_count(shape); }
  template <class T>
  T *as() {
    return reinterpret_cast<T *>(data.data());
  }
  template <class T>
  const T *as() const {
    return reinterpret_cast<const T *>(data.data());
  }
};

using TensorPtr = std::shared_ptr<const Tensor>;

TensorPtr make_f32(const Shape &shape, const std::vector<float> &values);
TensorPtr make_i64(const std::vector<int64_t> &values);
TensorPtr make_scalar(float value);

/// The elements as 64-bit integers; false when the tensor is not of an integer type.
bool to_ints(const Tensor &tensor, std::vector<int64_t> &out);

/// Row-major strides in elements.
std::vector<int64_t> dense_strides(const Shape &shape);

/// The numpy broadcast of two shapes; false when they do not fit.
bool broadcast_shapes(const Shape &a, const Shape &b, Shape &out);

}  // namespace npu::cpu

#endif  // NPU_CPU_TENSOR_H
