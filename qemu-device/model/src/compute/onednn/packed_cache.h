// SPDX-License-Identifier: MIT
// Packed copies of constant operands, by address space and address. Knows nothing of oneDNN.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_PACKED_CACHE_H
#define NPU_MODEL_COMPUTE_ONEDNN_PACKED_CACHE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace npu::model {

/// Memory aligned for vector loads. Growing loses the contents.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) { reserve(bytes); }
  void *reserve(size_t bytes);
  void *data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void *p) const;
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

/// A packed copy. Its maker may derive from it to keep what belongs to the copy.
struct Packed {
  /// `memory` is from PackedCache::allocate().
  Packed(std::shared_ptr<void> memory, size_t size) : data(std::move(memory)), bytes(size) {}
  virtual ~Packed() = default;
  const std::shared_ptr<void> data;
  const size_t bytes;
  double reach = 0;  ///< largest sum of weight magnitudes of an output channel; infinite where one is not finite
};

/// A description of source and packed layout; equal words mean interchangeable copies.
using Layout = std::vector<int64_t>;

struct PackedKey {
  uint32_t asid;
  uint64_t va, bytes;
  uint64_t part;  ///< which matrix of a batch
  std::shared_ptr<const Layout> layout;
  bool operator==(const PackedKey &o) const {
    return asid == o.asid && va == o.va && bytes == o.bytes && part == o.part && *layout == *o.layout;
  }
};

/// Thread-safe. A copy in use lives on after forget() or eviction, until its user lets go of it.
class PackedCache {
 public:
  using Ref = std::shared_ptr<const Packed>;

  explicit PackedCache(size_t max_bytes);

  /// Memory for a copy, which may share a block with others. Copies are dropped where all blocks would be more than the
  /// bound.
  std::shared_ptr<void> allocate(size_t bytes);

  Ref find(const PackedKey &key);
  /// To be asked for before the operand is read: insert() with a ticket from before a forget() does nothing, as the
  /// copy may be of the old contents.
  uint64_t ticket(uint32_t asid);
  void insert(const PackedKey &key, Ref packed, uint64_t ticket);
  /// kEveryIdentity: of all.
  void forget(uint32_t asid);
  size_t bytes() const;
  /// Of the blocks that live.
  size_t held() const { return *live_; }

 private:
  struct Hash {
    size_t operator()(const PackedKey &k) const {
      return (k.va ^ k.bytes << 20 ^ uint64_t{k.asid} << 48 ^ k.part * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    }
  };
  using Entry = std::pair<PackedKey, Ref>;

  // With mutex_ held:
  void drop(std::list<Entry>::iterator entry);
  std::shared_ptr<AlignedBuffer> new_block(size_t bytes);
  uint64_t &forgets(uint32_t asid) { return forgets_[asid % forgets_.size()]; }

  const size_t max_bytes_, block_bytes_;
  mutable std::mutex mutex_;  // protects everything below
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<PackedKey, std::list<Entry>::iterator, Hash> index_;
  // Forgets of the ASIDs, which share a few counters: they come without end.
  std::array<uint64_t, 256> forgets_{};
  size_t bytes_ = 0;
  std::shared_ptr<AlignedBuffer> block_;  // of small copies, the newest
  size_t used_ = 0;                       // of block_
  // Bytes of blocks: copies in use may outlive the cache.
  const std::shared_ptr<std::atomic<size_t>> live_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_PACKED_CACHE_H
