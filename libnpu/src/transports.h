// SPDX-License-Identifier: MIT
#ifndef NPU_TRANSPORTS_H
#define NPU_TRANSPORTS_H

#include "libnpu/src/transport.h"

namespace npu {

/// The transport that NPU_DEVICE chooses, and how many devices it has. 0, or a negative errno with a text in
/// npu_last_error(); no device is no error.
int choose_transport(const npu_transport **transport, int *count);

/// npu_require_transport(), without a look at what is open.
int require_transport(const char *name);

}  // namespace npu

#endif  // NPU_TRANSPORTS_H
