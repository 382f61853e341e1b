// SPDX-License-Identifier: MIT
// From a launch's tensors to jobs: find their buffers, bind the program's regions.
#ifndef NPURT_BIND_H
#define NPURT_BIND_H

#include <span>
#include <vector>

#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/model/card.h"

namespace npurt {

/// A tensor's memory: a reference of its buffer, and the place in that.
struct Place {
  Bo bo;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// The same place, with a reference of its own.
Place share(const Place &place);

/// Whether they share bytes of a card.
bool overlap(const Place &a, const Place &b);

/// Finds the memory of a launch's inputs and outputs: `places` are those of the plan's slots. Descriptors need not be
/// allocations' own; all bytes of a tensor have to lie in both.
Status locate_tensors(std::span<const Card> cards, const Prepared &what, std::span<const bm_tensor_t> inputs,
                      std::span<const bm_tensor_t> outputs, std::vector<Place> &places);

/// What a submission points to; has to live until npu_submit() has returned.
struct Jobs {
  std::vector<npu_job_region> regions;
  std::vector<drm_npu_stream> streams;  ///< one a core
  std::vector<std::vector<npu_job_region>> copy_regions;
  std::vector<drm_npu_stream> copy_streams;
  std::vector<npu_job_desc> jobs;  ///< the network's, then one copy for each staged output
};

/// Binds the regions of a node's program to memory: tensors in `places`, and what `scratch` has. Outputs that may be
/// written before an input in the same memory is dead get a buffer of their own there, and a job that copies them.
Status bind_program(npu_device *device, const Plan::Node &node, std::span<const Place> places, Scratch &scratch,
                    uint32_t core_mask, Jobs &out);

}  // namespace npurt

#endif  // NPURT_BIND_H
