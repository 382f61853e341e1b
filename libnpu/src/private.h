/* SPDX-License-Identifier: MIT */
/* What the libraries and tools of this project use of libnpu beyond npu.h. Not installed, symbol version NPU_PRIVATE:
 * may change at any time. */
#ifndef NPU_PRIVATE_H
#define NPU_PRIVATE_H

#include <npu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets npu_last_error() of the calling thread and returns error. */
NPU_API int npu_private_fail(int error, const char *text);
/* A line for the log. */
NPU_API void npu_private_log(int level, const char *text);
/* Name and version (major, minor, patch) of the device's driver. */
NPU_API int npu_private_driver(npu_device *device, int version[3], char *name, size_t name_bytes);

/*
 * A mapping of the whole buffer without a cache between the program and the chip, so that no npu_bo_sync() is needed;
 * counted like npu_bo_map(). Where npu_bo_map() gives such a mapping anyway it is the same one.
 */
NPU_API int npu_private_bo_map_uncached(npu_bo *bo, void **ptr);
NPU_API void npu_private_bo_unmap_uncached(npu_bo *bo);

#ifdef __cplusplus
}
#endif

#endif /* NPU_PRIVATE_H */
