// SPDX-License-Identifier: MIT
// From a launch's tensors to jobs: find their buffers, bind the program's regions.
#ifndef NPURT_BIND_H
#define NPURT_BIND_H

#include <span>
#include <vector>

#include "runtime/launch/model/network.h"

namespace npurt {

/// A tensor's memory: its buffer and the place in it.
struct Place {
  Bo bo;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// The same place, with a reference of its own.
Place share(const Place &place);

/// Whether they share bytes of a card.
bool overlap(const Place &a, const Place &b);

/// Finds the buffer behind a descriptor that need not be an allocation's own, and checks that `bytes` lie in both.
Status locate(npu_device *device, const bm_device_mem_t &mem, uint64_t bytes, Place &place);

/// The memory of a program's tensors: of all slots, and which of them are its inputs and outputs.
struct Operands {
  std::span<const Place> slots;
  std::span<const uint32_t> inputs, outputs;

  const Place &input(size_t i) const { return slots[inputs[i]]; }
  const Place &output(size_t i) const { return slots[outputs[i]]; }
};

/// What a submission points to; has to live until npu_submit() has returned.
struct Jobs {
  std::vector<npu_job_region> regions;
  std::vector<drm_npu_stream> streams;  ///< one a core
  std::vector<std::vector<npu_job_region>> copy_regions;
  std::vector<drm_npu_stream> copy_streams;
  std::vector<npu_job_desc> jobs;  ///< the network's, then one copy for each staged output
};

class Binder {
 public:
  Binder(const Unit &unit, const Operands &tensors, Scratch &scratch)
      : unit_(unit), tensors_(tensors), scratch_(scratch), staged_(tensors.outputs.size(), false) {}

  /// Outputs that may be written before an input in the same memory is dead get a buffer of their own.
  Status stage_outputs(npu_device *device);
  void bind(uint32_t core_mask, Jobs &out) const;

 private:
  npu_job_region bind_region(const npu_program_region &r) const;
  void add_copies(Jobs &out) const;

  const Unit &unit_;
  const Operands tensors_;
  Scratch &scratch_;
  std::vector<bool> staged_;
};

}  // namespace npurt

#endif  // NPURT_BIND_H
