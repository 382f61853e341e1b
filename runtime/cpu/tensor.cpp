// SPDX-License-Identifier: MIT
#include "runtime/cpu/tensor.h"

#include <algorithm>
#include <cstring>

namespace npu::cpu {

unsigned dtype_bytes(Dtype type) {
  switch (type) {
    case Dtype::U8:
    case Dtype::I8:
    case Dtype::Bool:
      return 1;
    case Dtype::U16:
    case Dtype::I16:
    case Dtype::F16:
    case Dtype::BF16:
      return 2;
    case Dtype::F32:
    case Dtype::I32:
    case Dtype::U32:
      return 4;
    case Dtype::I64:
    case Dtype::U64:
    case Dtype::F64:
      return 8;
    default:
      return 0;
  }
}

namespace {

/// Types that no tensor can have here, by their numbers in ONNX.
const char *foreign_name(unsigned number) {
  constexpr const char *kNames[] = {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",
                                    "int4",         "float4e2m1",     "float8e8m0", "uint2",          "int2"};
  constexpr unsigned kFirst = 17;
  if (number >= kFirst && number - kFirst < std::size(kNames)) return kNames[number - kFirst];
  return number == 14 ? "complex64" : number == 15 ? "complex128" : "an unknown type";
}

}  // namespace

const char *dtype_name(Dtype type) {
  switch (type) {
    case Dtype::F32:
      return "float32";
    case Dtype::U8:
      return "uint8";
    case Dtype::I8:
      return "int8";
    case Dtype::U16:
      return "uint16";
    case Dtype::I16:
      return "int16";
    case Dtype::I32:
      return "int32";
    case Dtype::I64:
      return "int64";
    case Dtype::String:
      return "string";
    case Dtype::Bool:
      return "bool";
    case Dtype::F16:
      return "float16";
    case Dtype::F64:
      return "float64";
    case Dtype::U32:
      return "uint32";
    case Dtype::U64:
      return "uint64";
    case Dtype::BF16:
      return "bfloat16";
    default:
      return foreign_name(static_cast<unsigned>(type));
  }
}

bool is_byte(Dtype type) { return type == Dtype::I8 || type == Dtype::U8; }
bool is_half(Dtype type) { return type == Dtype::F16 || type == Dtype::BF16; }
bool is_real(Dtype type) { return type == Dtype::F32 || is_half(type); }

std::string shape_text(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t element_count(const Shape &shape) {
  // A dimension of 0 does not excuse the others: their products are formed, too.
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(n, d ? d : 1, &n) || n > kMaxElements) return -1;
    empty = empty || d == 0;
  }
  return empty ? 0 : n;
}

std::string kind_text(const TensorKind &kind) {
  return std::string(dtype_name(kind.dtype)) + " " + shape_text(kind.shape);
}

Tensor::Tensor(Dtype type, Shape dims) : TensorKind{type, std::move(dims)} {
  data.resize(static_cast<size_t>(element_count(shape)) * dtype_bytes(type));
}

TensorPtr make_f32(const Shape &shape, const std::vector<float> &values) {
  auto t = std::make_shared<Tensor>(Dtype::F32, shape);
  if (!values.empty()) std::memcpy(t->data.data(), values.data(), values.size() * sizeof(float));
  return t;
}

TensorPtr make_i64(const std::vector<int64_t> &values) {
  auto t = std::make_shared<Tensor>(Dtype::I64, Shape{static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(t->data.data(), values.data(), values.size() * sizeof(int64_t));
  return t;
}

TensorPtr make_scalar(float value) { return make_f32({}, {value}); }

namespace {

template <class T>
void widen(const Tensor &tensor, std::vector<int64_t> &out) {
  const int64_t n = tensor.count();
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int64_t>(tensor.as<T>()[i]));
}

}  // namespace

bool to_ints(const Tensor &tensor, std::vector<int64_t> &out) {
  out.clear();
  switch (tensor.dtype) {
    case Dtype::I64:
      widen<int64_t>(tensor, out);
      return true;
    case Dtype::I32:
      widen<int32_t>(tensor, out);
      return true;
    case Dtype::U8:
    case Dtype::Bool:
      widen<uint8_t>(tensor, out);
      return true;
    case Dtype::I8:
      widen<int8_t>(tensor, out);
      return true;
    default:
      return false;
  }
}

std::vector<int64_t> dense_strides(const Shape &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t run = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = run;
    run *= shape[i];
  }
  return strides;
}

bool broadcast_shapes(const Shape &a, const Shape &b, Shape &out) {
  const size_t rank = std::max(a.size(), b.size());
  out.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t db = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (da != db && da != 1 && db != 1) return false;
    out[i] = da == 1 ? db : da;
  }
  return true;
}

}  // namespace npu::cpu
