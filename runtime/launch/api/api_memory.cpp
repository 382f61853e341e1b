// SPDX-License-Identifier: MIT
// The C API: tensors in device memory, and copies on all devices of a runtime at once.
#include <algorithm>
#include <thread>

#include "runtime/launch/api/guard.h"

using npurt::guarded;
using npurt::Runtime;
using npurt::Status;

namespace {

Status make_tensor(bm_tensor_t *tensor, Runtime &r, int device, bm_data_type_t dtype, const bm_shape_t &shape) {
  if (!tensor) return Status::error("null pointer instead of a tensor");
  *tensor = {dtype, shape, bm_mem_null(), BM_STORE_1N};
  if (shape.num_dims < 0 || shape.num_dims > BM_MAX_DIMS_NUM)
    return Status::error(std::to_string(shape.num_dims) + " dims, at most 8 are possible");
  for (int i = 0; i < shape.num_dims; ++i)
    if (shape.dims[i] < 0)
      return Status::error("dimension " + std::to_string(i) + " is " + std::to_string(shape.dims[i]));
  if (!bmrt_data_type_size(dtype)) return Status::error("type " + std::to_string(dtype) + " does not exist");
  const std::span<const npurt::Card> cards = r.cards();
  if (device < 0 || static_cast<size_t>(device) >= cards.size())
    return Status::error("device number " + std::to_string(device) + ", the runtime has " +
                         std::to_string(cards.size()));
  const size_t bytes = bmrt_tensor_bytesize(tensor);
  if (bytes == 0 || bytes > 0xffffffffu)
    return Status::error("a tensor of " + std::to_string(bytes) + " bytes, 1 to 4294967295 are possible");
  if (bm_malloc_device_byte(cards[static_cast<size_t>(device)].handle, &tensor->device_mem,
                            static_cast<unsigned int>(bytes)) != BM_SUCCESS)
    return npurt::npu_error();
  return {};
}

/// Calls copy(handle, i) for each tensor i; devices in parallel, a device's tensors in order.
template <class Copy>
Status on_all_devices(Runtime &r, const int *tensor_num, int device_num, Copy copy) {
  const std::span<const npurt::Card> cards = r.cards();
  if (!tensor_num) return Status::error("null pointer instead of numbers of tensors");
  if (device_num < 1 || static_cast<size_t>(device_num) > cards.size())
    return Status::error(std::to_string(device_num) + " devices, the runtime has " + std::to_string(cards.size()));
  const auto devices = static_cast<size_t>(device_num);
  std::vector<Status> done(devices);
  std::vector<std::thread> threads;
  for (size_t d = 0, first = 0; d < devices; ++d) {
    if (tensor_num[d] < 0) done[d] = Status::error("negative number of tensors for device " + std::to_string(d));
    const size_t last = first + static_cast<size_t>(std::max(tensor_num[d], 0));
    threads.emplace_back([&done, &copy, handle = cards[d].handle, d, first, last] {
      for (size_t i = first; i < last && done[d].ok(); ++i)
        done[d] = copy(handle, i).within("tensor " + std::to_string(i) + " on device " + std::to_string(d));
    });
    first = last;
  }
  for (std::thread &t : threads) t.join();
  for (const Status &status : done) NPU_TRY(status);
  return {};
}

Status check(bm_status_t status) { return status == BM_SUCCESS ? Status() : npurt::npu_error(); }

Status check_strides(const bm_shape_t &shape, const bm_shape_t &dst, const bm_shape_t &src) {
  if (shape.num_dims < 0 || shape.num_dims > BM_MAX_DIMS_NUM || dst.num_dims != shape.num_dims ||
      src.num_dims != shape.num_dims)
    return Status::error("shape and strides have " + std::to_string(shape.num_dims) + ", " +
                         std::to_string(dst.num_dims) + " and " + std::to_string(src.num_dims) + " dims");
  for (int d = 0; d < shape.num_dims; ++d)
    if (shape.dims[d] < 1 || dst.dims[d] < 0 || src.dims[d] < 0)
      return Status::error("dim " + std::to_string(d) + ": length " + std::to_string(shape.dims[d]) + ", strides " +
                           std::to_string(dst.dims[d]) + " and " + std::to_string(src.dims[d]));
  return {};
}

/// A box of elements, in runs that are dense on both sides.
struct BoxCopy {
  bm_handle_t handle;
  const bm_tensor_t &dst, &src;
  const bm_shape_t &shape, &dst_strides, &src_strides;
  size_t element;

  Status copy(int dim, size_t to, size_t from) const {
    const int last = shape.num_dims - 1;
    if (dim > last) return run(to, from, 1);
    if (dim == last && dst_strides.dims[dim] == 1 && src_strides.dims[dim] == 1)
      return run(to, from, static_cast<size_t>(shape.dims[dim]));
    for (int i = 0; i < shape.dims[dim]; ++i) {
      NPU_TRY(copy(dim + 1, to, from));
      to += static_cast<size_t>(dst_strides.dims[dim]) * element;
      from += static_cast<size_t>(src_strides.dims[dim]) * element;
    }
    return {};
  }
  Status run(size_t to, size_t from, size_t count) const {
    return check(bm_memcpy_d2d_byte(handle, dst.device_mem, to, src.device_mem, from, count * element));
  }
};

}  // namespace

bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) { return make_tensor(tensor, r, 0, dtype, shape); });
}

bool bmrt_tensor_ex(bm_tensor_t *tensor, void *p_bmrt, int devid, bm_data_type_t dtype, bm_shape_t shape) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) { return make_tensor(tensor, r, devid, dtype, shape); });
}

bool bmrt_memcpy_s2d_parallel(void *p_bmrt, bm_tensor_t tensors[], void *datas[], int tensor_num[], int device_num) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (!tensors || !datas) return Status::error("null pointer instead of tensors or data");
    return on_all_devices(r, tensor_num, device_num, [&](bm_handle_t handle, size_t i) {
      const auto bytes = static_cast<unsigned int>(bmrt_tensor_bytesize(&tensors[i]));
      return check(bm_memcpy_s2d_partial(handle, tensors[i].device_mem, datas[i], bytes));
    });
  });
}

bool bmrt_memcpy_d2s_parallel(void *p_bmrt, void *datas[], bm_tensor_t tensors[], int tensor_num[], int device_num) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (!tensors || !datas) return Status::error("null pointer instead of tensors or data");
    return on_all_devices(r, tensor_num, device_num, [&](bm_handle_t handle, size_t i) {
      const auto bytes = static_cast<unsigned int>(bmrt_tensor_bytesize(&tensors[i]));
      return check(bm_memcpy_d2s_partial(handle, datas[i], tensors[i].device_mem, bytes));
    });
  });
}

bool bmrt_memcpy_d2d_byte_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                   bm_tensor_t src_tensors[], size_t src_offsets[], size_t sizes[], int tensor_num[],
                                   int device_num) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (!dst_tensors || !dst_offsets || !src_tensors || !src_offsets || !sizes)
      return Status::error("null pointer instead of tensors, offsets or sizes");
    return on_all_devices(r, tensor_num, device_num, [&](bm_handle_t handle, size_t i) {
      return check(bm_memcpy_d2d_byte(handle, dst_tensors[i].device_mem, dst_offsets[i], src_tensors[i].device_mem,
                                      src_offsets[i], sizes[i]));
    });
  });
}

bool bmrt_memcpy_d2d_stride_ex_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                        bm_shape_t dst_strides[], bm_tensor_t src_tensors[], size_t src_offsets[],
                                        bm_shape_t src_strides[], bm_shape_t shapes[], int tensor_num[],
                                        int device_num) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (!dst_tensors || !dst_offsets || !dst_strides || !src_tensors || !src_offsets || !src_strides || !shapes)
      return Status::error("null pointer instead of tensors, offsets, strides or shapes");
    return on_all_devices(r, tensor_num, device_num, [&](bm_handle_t handle, size_t i) -> Status {
      NPU_TRY(check_strides(shapes[i], dst_strides[i], src_strides[i]));
      const size_t element = bmrt_data_type_size(src_tensors[i].dtype);
      if (element == 0 || element != bmrt_data_type_size(dst_tensors[i].dtype))
        return Status::error("types of different sizes");
      return BoxCopy{handle, dst_tensors[i], src_tensors[i], shapes[i], dst_strides[i], src_strides[i], element}.copy(
          0, dst_offsets[i], src_offsets[i]);
    });
  });
}
