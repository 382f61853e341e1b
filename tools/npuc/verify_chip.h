// SPDX-License-Identifier: MIT
// A .bmodel on a device, for comparisons.
#ifndef NPU_NPUC_VERIFY_CHIP_H
#define NPU_NPUC_VERIFY_CHIP_H

#include <memory>
#include <span>

#include "compiler/graph/ir.h"
#include "runtime/bmodel/builder.h"
#include "tools/npuc/verify_compare.h"
#include "tools/npuc/verify_runtime.h"

namespace npu::npuc {

/// Tensors have the types of the reference graph. Where those of the .bmodel are others, numbers are converted.
class Chip {
 public:
  Chip() = default;
  ~Chip();
  Chip(const Chip &) = delete;
  Chip &operator=(const Chip &) = delete;

  /// Loads a .bmodel on the device that NPU_DEVICE names, or a simulated one, which has as many cores and as much local
  /// memory as the file needs. `like`: a file of another origin must have a network with the names of this one's
  /// tensors, in any order, and a static one with its inputs' shapes; null: the file has this one network alone.
  Status load(std::span<const uint8_t> bmodel, int cores, int64_t lmem_bytes, const bmodel::NetDesc *like = nullptr);
  std::string device() const;

  /// Makes the inputs numbers that the .bmodel's inputs can hold.
  Status settle(std::vector<graph::Tensor> &inputs) const;
  /// Launches, and waits. `outputs` have their kinds and get their data.
  Status run(const std::vector<graph::Tensor> &inputs, std::vector<graph::Tensor> &outputs) const;
  /// The type of output `index` in the .bmodel, and the step of its integers.
  void stored(size_t index, graph::Dtype &type, double &step) const;

 private:
  Status find_network(const bmodel::NetDesc *like);
  Status find_tensors(const bmodel::NetDesc &like);
  Status check_shapes(const bmodel::NetDesc &like) const;

  const Runtime *r_ = nullptr;  // set before the others
  bm_handle_t handle_ = nullptr;
  void *runtime_ = nullptr;
  const bm_net_info_t *net_ = nullptr;
  std::vector<int> inputs_, outputs_;  ///< indices in the .bmodel of the graph's tensors
};

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_CHIP_H
