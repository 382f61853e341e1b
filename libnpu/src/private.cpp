// SPDX-License-Identifier: MIT
#include "libnpu/src/private.h"

#include <cstring>

#include "libnpu/src/internal.h"

int npu_private_fail(int error, const char *text) { return npu::fail(error, "%s", text); }

void npu_private_log(int level, const char *text) { npu::log(level, "%s", text); }

int npu_private_driver(npu_device *device, int version[3], char *name, size_t name_bytes) {
  if (int err = device->transport->driver(device->file, version, name, name_bytes))
    return npu::fail(err, "cannot ask for the driver's version: %s", strerror(-err));
  return 0;
}
