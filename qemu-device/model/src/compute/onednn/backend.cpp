// SPDX-License-Identifier: MIT
// The module's entry.
#include <cstdio>

#include "qemu-device/model/src/compute/onednn/onednn_backend.h"
#include "qemu-device/model/src/compute/onednn_module.h"

namespace npu::model {

extern "C" __attribute__((visibility("default"))) Backend *npu_onednn_create(uint32_t interface,
                                                                             uint64_t max_packed_bytes, char *why,
                                                                             size_t why_bytes) {
  if (interface != kBackendInterface) {
    std::snprintf(why, why_bytes, "%s has interface %u, the model needs %u", kOnednnModule, kBackendInterface,
                  interface);
    return nullptr;
  }
  try {
    cpu_engine();
    return new Onednn(max_packed_bytes);
  } catch (const std::exception &e) {
    std::snprintf(why, why_bytes, "oneDNN: %s", e.what());
    return nullptr;
  }
}

}  // namespace npu::model
