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

#ifdef __cplusplus
}
#endif

#endif /* NPU_PRIVATE_H */
