// SPDX-License-Identifier: MIT
// Runs a plan: one launch of a stage of several sub-networks.
#ifndef NPURT_RUNNER_H
#define NPURT_RUNNER_H

#include "runtime.h"

namespace npurt {

/// Sub-networks for the NPU are submitted one after another without waiting; whatever the CPU looks at is waited for.
class Runner {
 public:
  Runner(std::span<const Card> cards, const Prepared &what);
  /// When it succeeds `launched` has the jobs, of which those from unfinished() on may still run.
  Reason run(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs, Launched &launched);
  size_t unfinished() const { return settled_; }

 private:
  Reason find_memory(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs);
  Reason find_tensor(uint32_t slot, const bm_tensor_t &tensor, std::vector<std::vector<Conversion>> &before);
  const Place &wanted(uint32_t slot) const;
  Reason keep_apart();
  Reason run_node(const Plan::Node &node, int &next);
  Reason run_unit(const Plan::Node &node);
  Reason run_cpu(const Plan::Node &node);
  Reason run_merge(const Plan::Node &node);
  Reason run_switch(const Plan::Node &node, int &next);
  /// `to` gets the contents of `from`.
  Reason forward(uint32_t from, uint32_t to);
  Reason transfer(uint32_t from, uint32_t to);
  Reason deliver();
  /// Waits for what has been submitted.
  Reason settle();
  Reason read(uint32_t slot, std::vector<uint8_t> &data);
  std::vector<Place> places(const std::vector<uint32_t> &slots) const;

  std::span<const Card> cards_;
  const Prepared &what_;
  const Network &net_;
  const Stage &stage_;
  const Plan &plan_;
  const uint32_t core_mask_;
  Launched *launched_ = nullptr;
  std::vector<Scratch *> scratch_;  // one a card
  std::vector<Place> places_;       // of each slot
  std::vector<Place> wanted_;       // of outputs that were put elsewhere: where the program wants them; else empty
  std::vector<std::vector<Conversion>> after_;  // of each card: outputs that the launch has in another store mode
  std::vector<uint64_t> written_;               // when a slot was written, counted in sub-networks; 0: not yet
  uint64_t step_ = 0;
  size_t settled_ = 0;  // jobs that are known to have finished well
};

}  // namespace npurt

#endif  // NPURT_RUNNER_H
