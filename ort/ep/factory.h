// SPDX-License-Identifier: MIT
// Finds the cards, and makes what sessions use of them.
#ifndef NPU_ORT_FACTORY_H
#define NPU_ORT_FACTORY_H

#include <cstdint>
#include <list>

#include "ort/ep/memory.h"

namespace npu::ort {

class Factory : public OrtEpFactory {
 public:
  Factory(uint32_t interface, const OrtLogger *logger);

 private:
  Status find_devices(const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out, size_t most,
                      size_t *found);
  Status add_device(int card, const OrtHardwareDevice *host, OrtEpDevice *&out);
  Status create(const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                const OrtLogger *logger, OrtEp *&out);
  Status create_allocator(const OrtMemoryInfo *info, OrtAllocator *&out);
  Status validate(const char *text, OrtCompiledModelCompatibility &out);

  const uint32_t interface_;       ///< the latest version that this ONNX Runtime has
  const OrtLogger *const logger_;  ///< ONNX Runtime's own
  Cards cards_;
  std::list<Ort::MemoryInfo> memory_;  ///< ONNX Runtime keeps pointers to them
};

}  // namespace npu::ort

#endif  // NPU_ORT_FACTORY_H
