// SPDX-License-Identifier: MIT
// Tensors between libraries: the structures of DLPack (version 0.8, https://dmlc.github.io/dlpack), as far as they are
// needed here.
#ifndef NPU_PYTHON_DLPACK_H
#define NPU_PYTHON_DLPACK_H

#include <cstddef>
#include <cstdint>

namespace npu::python::dlpack {

inline constexpr int32_t kCpu = 1;
enum Code : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4 };

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  DataType dtype;
  int64_t *shape;
  int64_t *strides;  ///< in elements; null: dense and row-major
  uint64_t byte_offset;
};

/// What a capsule named "dltensor" points to. Whoever takes it renames the capsule and calls the deleter in the end.
struct ManagedTensor {
  DLTensor tensor;
  void *manager;
  void (*deleter)(ManagedTensor *self);
};

static_assert(sizeof(DataType) == 4);
static_assert(sizeof(void *) != 8 || (sizeof(DLTensor) == 48 && offsetof(DLTensor, byte_offset) == 40));
static_assert(sizeof(void *) != 8 || sizeof(ManagedTensor) == 64);

}  // namespace npu::python::dlpack

#endif  // NPU_PYTHON_DLPACK_H
