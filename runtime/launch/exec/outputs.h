// SPDX-License-Identifier: MIT
// Output tensors of a launch.
#ifndef NPURT_OUTPUTS_H
#define NPURT_OUTPUTS_H

#include <span>
#include <utility>

#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/model/card.h"

namespace npurt {

/// Outputs that the runtime allocated and has to free again if the launch fails.
class OwnOutputs {
 public:
  OwnOutputs(std::span<const Card> cards, const Stage &stage, const std::vector<TensorInfo> &infos,
             std::span<bm_tensor_t> outputs)
      : cards_(cards), stage_(stage), infos_(infos), outputs_(outputs) {}
  ~OwnOutputs() {
    for (size_t i = 0; i < allocated_; ++i)
      bm_free_device(handle(i), std::exchange(outputs_[i].device_mem, bm_mem_null()));
  }
  Status allocate(const Network &net) {
    for (; allocated_ < outputs_.size(); ++allocated_) {
      const TensorInfo &t = infos_[allocated_];
      if (t.bytes > 0xffffffffu)
        return tensor_error(net, "output", allocated_, t,
                            "it has " + std::to_string(t.bytes) + " bytes in " + npu::bmodel::store_mode_name(t.mode) +
                                ", memory can have 4294967295");
      if (bm_malloc_device_byte(handle(allocated_), &outputs_[allocated_].device_mem,
                                static_cast<unsigned int>(t.bytes)) != BM_SUCCESS)
        return npu_error().within(tensor_name(net, "output", allocated_, t));
    }
    return {};
  }
  void keep() { allocated_ = 0; }

 private:
  bm_handle_t handle(size_t i) const { return cards_[stage_.output_device[i]].handle; }

  std::span<const Card> cards_;
  const Stage &stage_;
  const std::vector<TensorInfo> &infos_;  // of this launch
  std::span<bm_tensor_t> outputs_;
  size_t allocated_ = 0;
};

/// What a caller finds in its output tensors, besides the memory.
inline void describe_outputs(const std::vector<TensorInfo> &infos, std::span<bm_tensor_t> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].dtype = infos[i].dtype;
    outputs[i].shape = infos[i].shape;
    outputs[i].st_mode = infos[i].mode;
  }
}

}  // namespace npurt

#endif  // NPURT_OUTPUTS_H
