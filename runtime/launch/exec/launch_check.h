// SPDX-License-Identifier: MIT
// What a launch must agree with before anything is bound: counts, types, store modes, shapes, cores.
#ifndef NPURT_LAUNCH_CHECK_H
#define NPURT_LAUNCH_CHECK_H

#include <span>
#include <string>
#include <vector>

#include "runtime/launch/model/network.h"

namespace npurt {

/// A stage's tensors as a launch has them: the stage's own until the launch has another batch or store mode.
class LaunchTensors {
 public:
  /// `stage` outlives this. `rows`: as with_rows(). Without `modes` the launch has its tensors in 1N.
  void set(const std::vector<TensorInfo> &stage, int rows, std::span<const bm_tensor_t> tensors, bool modes);
  operator const std::vector<TensorInfo> &() const { return changed_.empty() ? *stage_ : changed_; }
  const TensorInfo &operator[](size_t i) const { return changed_.empty() ? (*stage_)[i] : changed_[i]; }

 private:
  const std::vector<TensorInfo> *stage_ = nullptr;
  std::vector<TensorInfo> changed_;  // empty: there is no difference
};

/// What a launch has been found to be, once its tensors agree with a network.
struct Prepared {
  const Network *network = nullptr;
  std::shared_ptr<const Stage> stage;
  uint32_t core_mask = 0;
  int rows = 0;  ///< batch of a dynamic stage that is less than the stage's; 0: the tensors are the stage's
  LaunchTensors inputs, outputs;
};

/// "network 'x' input 0 ('name')".
std::string tensor_name(const Network &net, const char *what, size_t i, const TensorInfo &t);
/// The complaint `text` about a tensor.
Status tensor_error(const Network &net, const char *what, size_t i, const TensorInfo &t, const std::string &text);

Status check_counts(const Network &net, size_t inputs, size_t outputs);
Status check_inputs(const Network &net, std::span<const bm_tensor_t> inputs);
/// The store modes that a caller wants for the outputs.
Status check_store_modes(const Network &net, std::span<const bm_tensor_t> outputs);
/// Batches that share words cannot be counted otherwise than by the stage; `infos` are its tensors as the launch has
/// them.
Status check_batches(const Network &net, const std::vector<TensorInfo> &infos, std::span<const bm_tensor_t> inputs);
/// The stage for inputs of these shapes; one is compiled if there is none and the network is in the file.
Status choose_stage(const Network &net, const std::vector<bm_shape_t> &shapes, std::shared_ptr<const Stage> &stage);
/// Why find_stage() found none.
Status no_stage(const Network &net, const std::vector<bm_shape_t> &shapes);
/// The mask for a list of cores: its first core_num different ones, missing ones added; 0 (any) for an empty list.
Status choose_cores(const Network &net, std::span<const int> list, uint32_t cores_of_card, uint32_t &mask);

}  // namespace npurt

#endif  // NPURT_LAUNCH_CHECK_H
