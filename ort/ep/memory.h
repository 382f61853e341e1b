// SPDX-License-Identifier: MIT
// Memory of cards for ONNX Runtime's tensors, and copies between it and the host's.
#ifndef NPU_ORT_MEMORY_H
#define NPU_ORT_MEMORY_H

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "ort/ep/card.h"
#include "ort/ep/ort_api.h"

namespace npu::ort {

/// Cards, opened once for their memory: addresses are those of the process, whichever session uses them.
class Cards {
 public:
  Status get(int index, std::shared_ptr<Card> &out);

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Card>> open_;
};

/// The number of the card that a tensor is on, nothing for one in memory that the host reads. Memory of other devices
/// is an error.
Status card_of(const OrtValue *value, std::optional<int> &out);

/// What ONNX Runtime calls the memory of a card.
Ort::MemoryInfo memory_info(int card);

class Allocator : public OrtAllocator {
 public:
  Allocator(std::shared_ptr<Card> card, const OrtMemoryInfo *info);

 private:
  void *allocate(size_t bytes) noexcept;
  void release(void *p) noexcept;
  OrtStatus *stats(OrtKeyValuePairs **out) const noexcept;

  std::shared_ptr<Card> card_;
  const OrtMemoryInfo *info_;  ///< the factory's
  mutable std::mutex mutex_;
  std::map<void *, size_t> sizes_;
  size_t in_use_ = 0, most_ = 0, count_ = 0;
};

class DataTransfer : public OrtDataTransferImpl {
 public:
  explicit DataTransfer(Cards &cards);

 private:
  Status copy(const OrtValue *from, OrtValue *to, OrtSyncStream *stream);
  Cards &cards_;
};

}  // namespace npu::ort

#endif  // NPU_ORT_MEMORY_H
