// SPDX-License-Identifier: MIT
// What the model and the module with the oneDNN back end agree on.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_MODULE_H
#define NPU_MODEL_COMPUTE_ONEDNN_MODULE_H

#include <cstddef>

#include "qemu-device/model/src/backend.h"

namespace npu::model {

inline constexpr char kOnednnModule[] = "libnpu-onednn.so";
inline constexpr char kOnednnCreate[] = "npu_onednn_create";

/// Returns a back end that the caller deletes, or nullptr with a text in `why`: also where `interface` is not the
/// kBackendInterface that it was built with. Throws nothing.
using OnednnCreate = Backend *(uint32_t interface, uint64_t max_packed_bytes, char *why, size_t why_bytes);

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_MODULE_H
