// SPDX-License-Identifier: MIT
// A dynamic network's programs for shapes that launches bring: compiled at the first launch with them, from the network
// in the file.
#ifndef NPURT_VARIANTS_H
#define NPURT_VARIANTS_H

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/model/unit.h"

namespace npurt {

struct Card;
struct Stage;

/// Thread-safe. Threads that want the same new shapes wait for one of them to compile, others do not.
class Variants {
 public:
  /// So many are kept; the one that was used longest ago goes first.
  static constexpr size_t kMost = 32;

  /// `largest` is what tensors may be. `card` outlives this.
  Variants(const Card &card, std::string network, std::span<const uint8_t> source, std::vector<TensorInfo> inputs,
           std::vector<TensorInfo> outputs)
      : card_(card),
        network_(std::move(network)),
        source_(source.begin(), source.end()),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  Status find(std::span<const bm_shape_t> shapes, std::shared_ptr<const Stage> &out);
  void set_max_launches(int count);

 private:
  using Key = std::vector<std::vector<int64_t>>;
  struct Entry {
    std::mutex mutex;                    // held while it is compiled
    std::shared_ptr<const Stage> stage;  // null: not yet, or it failed; guarded by `mutex`
    uint64_t used = 0;                   // guarded by the list's mutex_
  };
  Status compile(std::span<const bm_shape_t> shapes, const Key &key, std::shared_ptr<const Stage> &out);
  Status load(std::span<const uint8_t> file, Stage &stage) const;
  void trim(size_t most, const Key &but);

  const Card &card_;
  const std::string network_;
  const std::vector<uint8_t> source_;
  const std::vector<TensorInfo> inputs_, outputs_;  // names and types are those of every variant
  std::mutex mutex_;                                // guards what follows
  std::map<Key, std::shared_ptr<Entry>> entries_;
  uint64_t uses_ = 0;
  int max_launches_ = 16;
};

}  // namespace npurt

#endif  // NPURT_VARIANTS_H
