// SPDX-License-Identifier: MIT
// Shapes and tensors: plain arithmetic of the C API.
#include "bmruntime_interface.h"
#include "runtime/bmodel/types.h"
#include "runtime/launch/error.h"

namespace {

npu::Status set_shape(bm_shape_t &shape, const int *dims, int num_dims) {
  if (num_dims < 0 || num_dims > BM_MAX_DIMS_NUM)
    return npu::Status::error(std::to_string(num_dims) + " dims, 0 to " + std::to_string(BM_MAX_DIMS_NUM) +
                              " are possible");
  if (num_dims && !dims) return npu::Status::error("null pointer instead of dims");
  shape.num_dims = num_dims;
  for (int i = 0; i < num_dims; ++i) shape.dims[i] = dims[i];
  return {};
}

}  // namespace

void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims) {
  if (!shape) return;
  *shape = {};
  (void)npurt::report(__func__, set_shape(*shape, dims, num_dims));
}

uint64_t bmrt_shape_count(const bm_shape_t *shape) {
  uint64_t n = 1;
  for (int i = 0; shape && i < shape->num_dims && i < BM_MAX_DIMS_NUM; ++i) n *= static_cast<uint64_t>(shape->dims[i]);
  return n;
}

bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right) {
  if (!left || !right || left->num_dims != right->num_dims) return false;
  for (int i = 0; i < left->num_dims && i < BM_MAX_DIMS_NUM; ++i)
    if (left->dims[i] != right->dims[i]) return false;
  return true;
}

size_t bmrt_data_type_size(bm_data_type_t dtype) {
  if (dtype == BM_INT4 || dtype == BM_UINT4) return 1;
  return npu::bmodel::dtype_bytes(static_cast<uint32_t>(dtype));
}

size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor) {
  return tensor ? bmrt_shape_count(&tensor->shape) * bmrt_data_type_size(tensor->dtype) : 0;
}

size_t bmrt_tensor_device_size(const bm_tensor_t *tensor) {
  return tensor ? bm_mem_get_device_size(tensor->device_mem) : 0;
}

void bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype, bm_shape_t shape) {
  if (tensor) *tensor = {dtype, shape, device_mem, BM_STORE_1N};
}
