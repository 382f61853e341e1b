// SPDX-License-Identifier: MIT
// A card as one session, or the memory of all sessions, has it open.
#ifndef NPU_ORT_CARD_H
#define NPU_ORT_CARD_H

#include <bmlib_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"

namespace npu::ort {

/// Memory on a card is told by its device address, which ONNX Runtime keeps as a pointer that nobody follows.
inline uint64_t address_of(const void *p) { return reinterpret_cast<uintptr_t>(p); }
inline void *pointer_of(uint64_t address) { return reinterpret_cast<void *>(static_cast<uintptr_t>(address)); }

class Card {
 public:
  static Status open(int index, std::shared_ptr<Card> &out);
  ~Card();
  Card(const Card &) = delete;
  Card &operator=(const Card &) = delete;

  bm_handle_t handle() const { return handle_; }
  int index() const { return index_; }
  int cores() const { return cores_; }
  uint64_t lmem_bytes() const { return lmem_bytes_; }
  uint32_t clock_khz() const { return clock_khz_; }

  Status allocate(size_t bytes, uint64_t &address) const;
  void release(uint64_t address) const;
  /// Copies wait for the launches that use the memory; whether these succeeded is sync_thread()'s to tell.
  Status write(uint64_t to, const void *from, size_t bytes) const;
  Status read(void *to, uint64_t from, size_t bytes) const;
  Status copy(uint64_t to, uint64_t from, size_t bytes) const;

  /// Waits for the calling thread's launches on this card, or for all; errors are of the launches.
  Status sync_thread() const;
  Status sync_all() const;

 private:
  Card(int index, bm_handle_t handle) : index_(index), handle_(handle) {}

  int index_;
  bm_handle_t handle_;
  int cores_ = 1;
  uint64_t lmem_bytes_ = 0;
  uint32_t clock_khz_ = 0;  ///< nominal
};

/// Memory on a card that goes with this object.
class CardMemory {
 public:
  CardMemory() = default;
  CardMemory(CardMemory &&other) noexcept;
  CardMemory &operator=(CardMemory &&other) noexcept;
  ~CardMemory() { reset(); }
  Status allocate(const std::shared_ptr<Card> &card, size_t bytes);
  uint64_t address() const { return address_; }

 private:
  void reset();
  std::shared_ptr<Card> card_;
  uint64_t address_ = 0;
};

/// Number of cards of this machine. A machine without any is an error that says what was looked for (-ENODEV).
Status count_cards(int &out);

/// Device memory, from `begin` to before `end`.
struct Range {
  uint64_t begin = 0, end = 0;
};

/// The calling thread has launched something that writes this memory, and not waited for it.
void note_launch(const std::shared_ptr<Card> &card, const std::vector<Range> &written);
/// Waits for the sessions whose launches of the calling thread write this memory of the card with that number. The
/// first error; those of other sessions are left for whoever waits for these.
Status sync_writers(int card, const Range &memory);

}  // namespace npu::ort

#endif  // NPU_ORT_CARD_H
