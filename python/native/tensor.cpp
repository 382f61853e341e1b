// SPDX-License-Identifier: MIT
#include "python/native/tensor.h"

#include <limits>

namespace npu::python {

namespace {

struct Type {
  bm_data_type_t type;
  const char *name;
  uint64_t bytes;
};

constexpr Type kTypes[] = {
    {BM_FLOAT32, "float32", 4}, {BM_FLOAT16, "float16", 2}, {BM_BFLOAT16, "bfloat16", 2},
    {BM_INT8, "int8", 1},       {BM_UINT8, "uint8", 1},     {BM_INT16, "int16", 2},
    {BM_UINT16, "uint16", 2},   {BM_INT32, "int32", 4},     {BM_UINT32, "uint32", 4},
};

}  // namespace

std::string type_name(bm_data_type_t type) {
  for (const Type &t : kTypes)
    if (t.type == type) return t.name;
  return "type " + std::to_string(static_cast<int>(type));
}

std::optional<bm_data_type_t> find_type(const std::string &name) {
  for (const Type &t : kTypes)
    if (name == t.name) return t.type;
  return {};
}

bm_data_type_t type_of(const std::string &name) {
  if (const auto type = find_type(name)) return *type;
  std::string names;
  for (const Type &t : kTypes) names += (names.empty() ? "" : ", ") + std::string(t.name);
  throw Failure("dtype " + name + ": tensors may have " + names);
}

void wrong_dtype(const std::string &where, const std::string &have, bm_data_type_t want, const std::string &advice) {
  throw Failure(where + ": dtype " + have + ", expected " + type_name(want) +
                (want == BM_BFLOAT16 ? " (its bits as uint16)" : "") + advice);
}

void check_type(const std::string &where, bm_data_type_t have, bm_data_type_t want, const std::string &advice) {
  if (have == want || (want == BM_BFLOAT16 && have == BM_UINT16)) return;
  wrong_dtype(where, type_name(have), want, advice);
}

uint64_t type_bytes(bm_data_type_t type) {
  for (const Type &t : kTypes)
    if (t.type == type) return t.bytes;
  throw Failure("tensors of " + type_name(type) + " are not supported in Python");
}

std::string shape_text(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

Shape shape_of(const bm_shape_t &shape) { return {shape.dims, shape.dims + shape.num_dims}; }

bm_shape_t runtime_shape(const Shape &shape, const std::string &where) {
  if (shape.size() > BM_MAX_DIMS_NUM)
    throw Failure(where + ": shape " + shape_text(shape) + ": at most " + std::to_string(BM_MAX_DIMS_NUM) +
                  " dimensions are expected");
  bm_shape_t out{};
  out.num_dims = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 1 || shape[i] > std::numeric_limits<int>::max())
      throw Failure(where + ": shape " + shape_text(shape) + ": dimensions from 1 to 2147483647 are expected");
    out.dims[i] = static_cast<int>(shape[i]);
  }
  return out;
}

uint64_t bytes_of(bm_data_type_t type, const Shape &shape, const std::string &where) {
  (void)runtime_shape(shape, where);
  uint64_t bytes = type_bytes(type);
  for (const int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes))
      throw Failure(where + ": shape " + shape_text(shape) + ": less than 4 GiB are expected");
  return bytes;
}

Tensor::Tensor(DevicePtr device, Shape shape, bm_data_type_t type)
    : shape_(std::move(shape)), type_(type), bytes_(bytes_of(type_, shape_, "tensor")) {
  memory_ = std::make_shared<Memory>(std::move(device), bytes_);
}

Tensor::Tensor(MemoryPtr memory, uint64_t offset, Shape shape, bm_data_type_t type)
    : memory_(std::move(memory)),
      offset_(offset),
      shape_(std::move(shape)),
      type_(type),
      bytes_(bytes_of(type_, shape_, "tensor")) {
  if (offset_ > memory_->bytes() || bytes_ > memory_->bytes() - offset_)
    throw Failure("tensor of " + std::to_string(bytes_) + " bytes at offset " + std::to_string(offset_) +
                  ": the memory has " + std::to_string(memory_->bytes()) + " bytes");
}

uint8_t *Tensor::map() {
  uint8_t *const memory = memory_->map();
  invalidate();
  return memory + offset_;
}

Tensor Tensor::view(Shape shape, uint64_t first, std::optional<bm_data_type_t> type) const {
  const bm_data_type_t elements = type.value_or(type_);
  const uint64_t size = type_bytes(elements), count = bytes_ / size;
  const uint64_t wanted = bytes_of(elements, shape, "view") / size;
  if (first > count || wanted > count - first)
    throw Failure("view of " + std::to_string(wanted) + " elements from " + std::to_string(first) +
                  " on: the tensor has " + std::to_string(count));
  return {memory_, offset_ + first * size, std::move(shape), elements};
}

}  // namespace npu::python
