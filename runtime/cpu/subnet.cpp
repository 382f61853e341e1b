// SPDX-License-Identifier: MIT
#include "runtime/cpu/subnet.h"

#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

/// The axis counted from 0.
int axis_of(const npu_cpu_param &p, const Tensor &x) {
  return p.axis < 0 ? p.axis + static_cast<int>(x.shape.size()) : p.axis;
}

}  // namespace

bool is_true(const Tensor &condition) { return load(condition, 0) != 0; }

Status run_cpu_operator(int32_t op, const npu_cpu_param &p, std::span<const Tensor> in, std::span<Tensor> out) {
  for (Tensor &t : out) t = Tensor(t.dtype, t.shape);
  const Tensor &x = in[0];
  switch (op) {
    case NPU_CPU_CAST:
      cast(x, Overflow::Saturate, out[0]);
      return {};
    case NPU_CPU_COPY:
      out[0].data = x.data;
      return {};
    case NPU_CPU_ARGMAX:
      argmax({axis_of(p, x), (p.flags & NPU_CPU_LAST_INDEX) != 0, false}, x, out[0]);
      return {};
    case NPU_CPU_TOPK:
      topk({axis_of(p, x), p.count, (p.flags & NPU_CPU_SMALLEST) != 0}, x, out[1]);
      return gather_elements(axis_of(p, x), x, out[1], out[0]);
    case NPU_CPU_SOFTMAX:
      softmax({axis_of(p, x), false}, x, out[0]);
      return {};
    case NPU_CPU_NONZERO:
      nonzero(x, out[0], out[1]);
      return {};
    case NPU_CPU_NMS:
      nms({(p.flags & NPU_CPU_CENTER) != 0, p.count, p.iou, p.score}, x, in[1], out[0], out[1]);
      return {};
  }
  return Status::error("CPU operator " + std::to_string(op) + " has no function");
}

}  // namespace npu::cpu
