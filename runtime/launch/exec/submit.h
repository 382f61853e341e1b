// SPDX-License-Identifier: MIT
// From bound programs to jobs of the calling thread's context.
#ifndef NPURT_SUBMIT_H
#define NPURT_SUBMIT_H

#include <memory>
#include <utility>
#include <vector>

#include "runtime/launch/exec/convert.h"
#include "runtime/launch/model/card.h"
#include "runtime/launch/model/network.h"

namespace npurt {

struct LaunchedJob {
  npu_context *context;
  uint64_t seqno;
  const Unit *unit;  ///< null: a conversion
  const Card *card;
  bool copy;  ///< brings a staged output home, or a tensor into another store mode
};

/// The jobs of a launch, in the order of their submission.
struct Launched {
  const Network *network = nullptr;
  std::weak_ptr<const Stage> stage;  ///< of the units below
  std::vector<LaunchedJob> jobs;
};

/// Returns a scratch to its pool however the launch ends.
class ScratchGuard {
 public:
  ScratchGuard(Pool &pool, Scratch *scratch) : pool_(pool), scratch_(scratch) {}
  ~ScratchGuard() {
    if (scratch_) pool_.release(scratch_, nullptr, 0);
  }
  ScratchGuard(ScratchGuard &&other) : pool_(other.pool_), scratch_(std::exchange(other.scratch_, nullptr)) {}
  ScratchGuard &operator=(ScratchGuard &&) = delete;
  Scratch *get() const { return scratch_; }
  /// It is in use until this job has finished.
  void busy(npu_context *context, uint64_t seqno) { pool_.release(std::exchange(scratch_, nullptr), context, seqno); }

 private:
  Pool &pool_;
  Scratch *scratch_;
};

/// Runs the program of a node on tensors that have been found, with activation memory that the caller holds until the
/// last of the jobs added to `launched` has finished.
Status submit_unit(const Card &card, const Plan::Node &node, std::span<const Place> places, Scratch &scratch,
                   uint32_t core_mask, Launched &launched);

/// Brings tensors into another store mode, in a job each. None of a card is written if the last job of `launched` on
/// that card has failed.
Status submit_conversions(std::span<const Card> cards, std::span<const Conversion> conversions, uint32_t core_mask,
                          Launched &launched);

/// Waits for jobs [first, end) of a launch. The status is that of the first that failed.
Status wait_for(const Launched &launched, size_t first = 0);

}  // namespace npurt

#endif  // NPURT_SUBMIT_H
