// SPDX-License-Identifier: MIT
// Which tensors and parameters each operator takes.
#include <cmath>

#include "container.h"
#include "cpuop.h"

namespace npu::cpuop {

namespace {

std::string text(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

struct Op {
  const npu_cpu_param &p;
  std::span<const Tensor> in, out;
};

std::string expect(const Tensor &t, const char *what, uint32_t type, const std::vector<int64_t> &shape) {
  if (t.type != type)
    return std::string(what) + " has type number " + std::to_string(t.type) + ", expected " + std::to_string(type);
  if (t.shape != shape) return std::string(what) + " has the shape " + text(t.shape) + ", expected " + text(shape);
  return {};
}

/// The axis counted from 0.
std::string axis(const Op &op, size_t &at) {
  const auto rank = static_cast<int64_t>(op.in[0].shape.size());
  const int64_t a = op.p.axis < 0 ? op.p.axis + rank : op.p.axis;
  if (a < 0 || a >= rank)
    return "axis " + std::to_string(op.p.axis) + " of a tensor with " + std::to_string(rank) + " dims";
  at = static_cast<size_t>(a);
  return {};
}

std::string check_cast(const Op &op) {
  if (elements(op.in[0]) == elements(op.out[0])) return {};
  return std::to_string(elements(op.in[0])) + " elements become " + std::to_string(elements(op.out[0]));
}

std::string check_copy(const Op &op) {
  return op.in[0].type == op.out[0].type ? check_cast(op) : "its output has another type than its input";
}

std::string check_argmax(const Op &op) {
  size_t at;
  if (const std::string why = axis(op, at); !why.empty()) return why;
  std::vector<int64_t> kept = op.in[0].shape, dropped = kept;
  kept[at] = 1;
  dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(at));
  return expect(op.out[0], "its output", kS32, op.out[0].shape == kept ? kept : dropped);
}

std::string check_topk(const Op &op) {
  size_t at;
  std::string why = axis(op, at);
  if (!why.empty()) return why;
  std::vector<int64_t> shape = op.in[0].shape;
  if (op.p.count == 0 || op.p.count > shape[at])
    return "the " + std::to_string(op.p.count) + " largest of " + std::to_string(shape[at]);
  shape[at] = op.p.count;
  why = expect(op.out[0], "its first output", op.in[0].type, shape);
  return why.empty() ? expect(op.out[1], "its second output", kS32, shape) : why;
}

std::string check_softmax(const Op &op) {
  size_t at;
  std::string why = axis(op, at);
  if (why.empty()) why = expect(op.in[0], "its input", kF32, op.in[0].shape);
  return why.empty() ? expect(op.out[0], "its output", kF32, op.in[0].shape) : why;
}

std::string check_nonzero(const Op &op) {
  const auto rank = static_cast<int64_t>(op.in[0].shape.size());
  if (op.out[0].shape.size() != 2 || op.out[0].shape[1] < elements(op.in[0]))
    return "its first output has the shape " + text(op.out[0].shape) + ", expected [" + std::to_string(rank) +
           ",at least " + std::to_string(elements(op.in[0])) + "]";
  const std::string why = expect(op.out[0], "its first output", kS32, {rank, op.out[0].shape[1]});
  return why.empty() ? expect(op.out[1], "its second output", kS32, {1}) : why;
}

std::string check_nms(const Op &op) {
  const auto &boxes = op.in[0].shape, &scores = op.in[1].shape;
  if (boxes.size() != 3 || boxes[2] != 4)
    return "its boxes have the shape " + text(boxes) + ", expected [batch,boxes,4]";
  if (scores.size() != 3) return "its scores have the shape " + text(scores) + ", expected [batch,classes,boxes]";
  std::string why = expect(op.in[0], "its first input", kF32, boxes);
  if (why.empty()) why = expect(op.in[1], "its second input", kF32, {boxes[0], scores[1], boxes[1]});
  if (!why.empty()) return why;
  if (!(op.p.iou >= 0 && op.p.iou <= 1)) return "its iou is not 0 to 1";
  if (!std::isfinite(op.p.score)) return "its score is not a number";
  if (op.out[0].shape.size() != 2)
    return "its first output has the shape " + text(op.out[0].shape) + ", expected [number,3]";
  why = expect(op.out[0], "its first output", kS32, {op.out[0].shape[0], 3});
  return why.empty() ? expect(op.out[1], "its second output", kS32, {1}) : why;
}

struct Row {
  int32_t op;
  const char *name;
  size_t inputs, outputs;
  bool axis, count, iou_score;  ///< parameters that it has; others must be 0
  uint32_t flags;
  std::string (*check)(const Op &);
};

constexpr Row kRows[] = {
    {NPU_CPU_CAST, "Cast", 1, 1, false, false, false, 0, check_cast},
    {NPU_CPU_COPY, "Copy", 1, 1, false, false, false, 0, check_copy},
    {NPU_CPU_ARGMAX, "ArgMax", 1, 1, true, false, false, NPU_CPU_LAST_INDEX, check_argmax},
    {NPU_CPU_TOPK, "TopK", 1, 2, true, true, false, NPU_CPU_SMALLEST, check_topk},
    {NPU_CPU_SOFTMAX, "Softmax", 1, 1, true, false, false, 0, check_softmax},
    {NPU_CPU_NONZERO, "NonZero", 1, 2, false, false, false, 0, check_nonzero},
    {NPU_CPU_NMS, "NonMaxSuppression", 2, 2, false, true, true, NPU_CPU_CENTER, check_nms},
};

const Row *find(int32_t op) {
  for (const Row &r : kRows)
    if (r.op == op) return &r;
  return nullptr;
}

}  // namespace

int64_t elements(const Tensor &t) {
  int64_t n = 1;
  for (const int64_t d : t.shape) n *= d;
  return n;
}

const char *op_name(int32_t op) {
  const Row *row = find(op);
  return row ? row->name : "unknown";
}

std::string check(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs) {
  const Row *row = find(op);
  if (!row) return "CPU operator " + std::to_string(op) + " is unknown, there are 1 to 7";
  const std::string name = std::string("CPU operator ") + row->name + ": ";
  if (inputs.size() != row->inputs || outputs.size() != row->outputs)
    return name + std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs.size()) +
           " outputs, expected " + std::to_string(row->inputs) + " and " + std::to_string(row->outputs);
  for (const auto &list : {inputs, outputs})
    for (const Tensor &t : list)
      if (bmodel::dtype_bytes(t.type) == 0) return name + "type number " + std::to_string(t.type) + " is unknown";
  if (param.flags & ~row->flags) return name + "unknown flags " + std::to_string(param.flags & ~row->flags);
  if ((!row->axis && param.axis) || (!row->count && param.count) ||
      (!row->iou_score && (param.iou != 0 || param.score != 0)))
    return name + "a parameter that it does not have is not 0";
  const std::string why = row->check({param, inputs, outputs});
  return why.empty() ? why : name + why;
}

}  // namespace npu::cpuop
