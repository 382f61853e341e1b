// SPDX-License-Identifier: MIT
// Runs a stage's plan: one launch. A stage of one program is a plan of one node.
#ifndef NPURT_RUNNER_H
#define NPURT_RUNNER_H

#include "runtime/launch/exec/runtime.h"

namespace npurt {

/// Programs are submitted one after another without waiting; whatever the CPU looks at is waited for.
class Runner {
 public:
  Runner(std::span<const Card> cards, const Prepared &what);
  /// When it succeeds `launched` has the jobs, of which those from unfinished() on may still run.
  Status run(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs, Launched &launched);
  size_t unfinished() const { return settled_; }

 private:
  bool waits() const { return plan_.waits || what_.rows; }
  Status run_plan();
  Status run_nodes();

  // Memory of the slots.
  Status acquire_scratch();
  Status fit_to_program(uint32_t slot);
  Status keep_apart();
  /// The launch has output `slot` at `place`, the program writes it elsewhere.
  void set_wanted(uint32_t slot, Place place);
  /// Where the launch has an input or output.
  const Place &wanted(uint32_t slot) const;
  Scratch &scratch(const Plan::Slot &slot) { return *scratch_[slot.device].get(); }

  // Nodes.
  Status run_cpu(const Plan::Node &node);
  Status run_merge(const Plan::Node &node);
  Status run_switch(const Plan::Node &node, int &next);
  /// `to` gets the contents of `from`.
  Status forward(uint32_t from, uint32_t to);
  Status transfer(uint32_t from, uint32_t to);
  void written(uint32_t slot) {
    if (!written_.empty()) written_[slot] = step_;
  }
  Status deliver();
  /// Waits for what has been submitted.
  Status settle();
  Status read(uint32_t slot, std::vector<uint8_t> &data);

  std::span<const Card> cards_;
  const Prepared &what_;
  const Network &net_;
  const Stage &stage_;
  const Plan &plan_;
  Launched *launched_ = nullptr;
  std::vector<ScratchGuard> scratch_;       // one a card
  std::vector<Place> places_;               // of each slot
  std::vector<Place> wanted_;               // see set_wanted(); empty while there is none
  std::vector<Conversion> before_, after_;  // inputs and outputs that the launch has in another store mode
  std::vector<uint64_t> written_;           // when a slot was written, counted in nodes; empty: nobody asks
  uint64_t step_ = 0;
  size_t settled_ = 0;  // jobs that are known to have finished well
};

}  // namespace npurt

#endif  // NPURT_RUNNER_H
