// SPDX-License-Identifier: MIT
// From a launch's tensors to jobs: find their buffers, bind the program's regions.
#ifndef NPURT_BIND_H
#define NPURT_BIND_H

#include <span>
#include <vector>

#include "network.h"

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

/// Finds the buffer behind a descriptor that need not be an allocation's own, and checks that `bytes` lie in both.
Reason locate(npu_device *device, const bm_device_mem_t &mem, uint64_t bytes, Place &place);

/// The same for all inputs or outputs of a launch.
Reason locate_all(npu_device *device, const Network &net, const char *what, const std::vector<TensorInfo> &infos,
                  std::span<const bm_tensor_t> tensors, std::vector<Place> &places);

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
  Binder(const Unit &unit, const std::vector<Place> &inputs, const std::vector<Place> &outputs, Scratch &scratch)
      : unit_(unit), inputs_(inputs), outputs_(outputs), scratch_(scratch), staged_(outputs.size(), false) {}

  /// Outputs that may be written before an input in the same memory is dead get a buffer of their own.
  Reason stage_outputs(npu_device *device);
  void bind(uint32_t core_mask, Jobs &out) const;

 private:
  npu_job_region bind_region(const npu_program_region &r) const;
  void add_copies(Jobs &out) const;

  const Unit &unit_;
  const std::vector<Place> &inputs_, &outputs_;
  Scratch &scratch_;
  std::vector<bool> staged_;
};

}  // namespace npurt

#endif  // NPURT_BIND_H
