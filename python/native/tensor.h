// SPDX-License-Identifier: MIT
// Tensors in device memory, and what types and shapes are called. Nothing here knows Python.
#ifndef NPU_PYTHON_TENSOR_H
#define NPU_PYTHON_TENSOR_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/native/device.h"

namespace npu::python {

using Shape = std::vector<int64_t>;

/// "float32"; "type 17" for what has no name.
std::string type_name(bm_data_type_t type);
bm_data_type_t type_of(const std::string &name);
std::optional<bm_data_type_t> find_type(const std::string &name);
/// Throws, if elements of a type are not taken for those of another; bfloat16, which numpy does not have, may be its
/// bits in uint16. `advice` is the end of the text.
void check_type(const std::string &where, bm_data_type_t have, bm_data_type_t want, const std::string &advice = "");
[[noreturn]] void wrong_dtype(const std::string &where, const std::string &have, bm_data_type_t want,
                              const std::string &advice);
/// Bytes of an element.
uint64_t type_bytes(bm_data_type_t type);
/// "[1,3,8,8]"
std::string shape_text(const Shape &shape);
Shape shape_of(const bm_shape_t &shape);
/// `where` is for the text of an error: a shape that the runtime has no place for.
bm_shape_t runtime_shape(const Shape &shape, const std::string &where);
uint64_t bytes_of(bm_data_type_t type, const Shape &shape, const std::string &where);

/// Dense elements in device memory, row-major. Copies and parts of it share the memory.
class Tensor {
 public:
  /// Zeros.
  Tensor(DevicePtr device, Shape shape, bm_data_type_t type);
  Tensor(MemoryPtr memory, uint64_t offset, Shape shape, bm_data_type_t type);

  const MemoryPtr &memory() const { return memory_; }
  const Shape &shape() const { return shape_; }
  bm_data_type_t type() const { return type_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t address() const { return memory_->address() + offset_; }
  bm_device_mem_t device_mem() const { return memory_->part(offset_, bytes_); }

  void write(const void *data) { memory_->write(offset_, data, bytes_); }
  void read(void *data) const { memory_->read(offset_, data, bytes_); }
  /// In the process, with what the device has written so far.
  uint8_t *map();
  void flush() { memory_->flush(offset_, bytes_); }
  void invalidate() { memory_->invalidate(offset_, bytes_); }
  /// Another shape in the same memory, of another type if there is one, from so many elements of that type on.
  Tensor view(Shape shape, uint64_t first, std::optional<bm_data_type_t> type = {}) const;

 private:
  MemoryPtr memory_;
  uint64_t offset_ = 0;
  Shape shape_;
  bm_data_type_t type_;
  uint64_t bytes_;
};

using TensorPtr = std::shared_ptr<Tensor>;

}  // namespace npu::python

#endif  // NPU_PYTHON_TENSOR_H
