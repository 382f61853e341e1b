// SPDX-License-Identifier: MIT
// A part of a graph on ONNX Runtime's own CPU provider, for shapes for which the NPU has no program.
#ifndef NPU_ORT_CPU_PART_H
#define NPU_ORT_CPU_PART_H

#include <mutex>

#include "ort/ep/group.h"
#include "ort/ep/ort_api.h"

namespace npu::ort {

class CpuPart {
 public:
  ~CpuPart();
  CpuPart() = default;
  CpuPart(const CpuPart &) = delete;
  CpuPart &operator=(const CpuPart &) = delete;

  /// Computes the group's network. Inputs and outputs are in the host's memory, in the order of the group's.
  Status run(const Group &group, const std::vector<const OrtValue *> &inputs, std::vector<Ort::Value> &outputs);

 private:
  Status prepare(const Group &group);

  std::mutex mutex_;  // held while the session is made
  OrtEnv *env_ = nullptr;
  Ort::Session session_{nullptr};
};

}  // namespace npu::ort

#endif  // NPU_ORT_CPU_PART_H
