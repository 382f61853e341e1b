// SPDX-License-Identifier: MIT
// Which tensors and parameters each operator takes.
#include <cmath>
#include <iterator>

#include "runtime/cpu/subnet.h"

namespace npu::cpu {
namespace {

struct SubnetOp {
  const npu_cpu_param &p;
  std::span<const Tensor> in, out;
};

Status expect(const Tensor &t, const char *what, Dtype type, const Shape &shape) {
  if (t.dtype != type)
    return Status::error(std::string(what) + " is " + dtype_name(t.dtype) + ", expected " + dtype_name(type));
  if (t.shape != shape)
    return Status::error(std::string(what) + " has the shape " + shape_text(t.shape) + ", expected " +
                         shape_text(shape));
  return {};
}

/// The axis counted from 0.
Status axis(const SubnetOp &op, size_t &at) {
  const auto rank = static_cast<int64_t>(op.in[0].shape.size());
  const int64_t a = op.p.axis < 0 ? op.p.axis + rank : op.p.axis;
  if (a < 0 || a >= rank)
    return Status::error("axis " + std::to_string(op.p.axis) + " of a tensor with " + std::to_string(rank) + " dims");
  at = static_cast<size_t>(a);
  return {};
}

Status check_cast(const SubnetOp &op) {
  if (op.in[0].count() == op.out[0].count()) return {};
  return Status::error(std::to_string(op.in[0].count()) + " elements become " + std::to_string(op.out[0].count()));
}

Status check_copy(const SubnetOp &op) {
  return op.in[0].dtype == op.out[0].dtype ? check_cast(op)
                                           : Status::error("its output has another type than its input");
}

Status check_argmax(const SubnetOp &op) {
  size_t at;
  NPU_TRY(axis(op, at));
  Shape kept = op.in[0].shape, dropped = kept;
  kept[at] = 1;
  dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(at));
  return expect(op.out[0], "its output", Dtype::I32, op.out[0].shape == kept ? kept : dropped);
}

Status check_topk(const SubnetOp &op) {
  size_t at;
  NPU_TRY(axis(op, at));
  Shape shape = op.in[0].shape;
  if (op.p.count == 0 || op.p.count > shape[at])
    return Status::error("the " + std::to_string(op.p.count) + " largest of " + std::to_string(shape[at]));
  shape[at] = op.p.count;
  NPU_TRY(expect(op.out[0], "its first output", op.in[0].dtype, shape));
  return expect(op.out[1], "its second output", Dtype::I32, shape);
}

Status check_softmax(const SubnetOp &op) {
  size_t at;
  NPU_TRY(axis(op, at));
  NPU_TRY(expect(op.in[0], "its input", Dtype::F32, op.in[0].shape));
  return expect(op.out[0], "its output", Dtype::F32, op.in[0].shape);
}

Status check_nonzero(const SubnetOp &op) {
  const auto rank = static_cast<int64_t>(op.in[0].shape.size());
  if (op.out[0].shape.size() != 2 || op.out[0].shape[1] < op.in[0].count())
    return Status::error("its first output has the shape " + shape_text(op.out[0].shape) + ", expected [" +
                         std::to_string(rank) + ", at least " + std::to_string(op.in[0].count()) + "]");
  NPU_TRY(expect(op.out[0], "its first output", Dtype::I32, {rank, op.out[0].shape[1]}));
  return expect(op.out[1], "its second output", Dtype::I32, {1});
}

Status check_nms(const SubnetOp &op) {
  const Shape &boxes = op.in[0].shape, &scores = op.in[1].shape;
  if (boxes.size() != 3 || boxes[2] != 4)
    return Status::error("its boxes have the shape " + shape_text(boxes) + ", expected [batch, boxes, 4]");
  if (scores.size() != 3)
    return Status::error("its scores have the shape " + shape_text(scores) + ", expected [batch, classes, boxes]");
  NPU_TRY(expect(op.in[0], "its first input", Dtype::F32, boxes));
  NPU_TRY(expect(op.in[1], "its second input", Dtype::F32, {boxes[0], scores[1], boxes[1]}));
  if (!(op.p.iou >= 0 && op.p.iou <= 1)) return Status::error("its iou is not 0 to 1");
  if (!std::isfinite(op.p.score)) return Status::error("its score is not a number");
  if (op.out[0].shape.size() != 2)
    return Status::error("its first output has the shape " + shape_text(op.out[0].shape) + ", expected [number, 3]");
  NPU_TRY(expect(op.out[0], "its first output", Dtype::I32, {op.out[0].shape[0], 3}));
  return expect(op.out[1], "its second output", Dtype::I32, {1});
}

struct SubnetRule {
  int32_t op;
  const char *name;
  size_t inputs, outputs;
  bool axis, count, iou_score;  ///< parameters that it has; others must be 0
  uint32_t flags;
  Status (*check)(const SubnetOp &);
};

constexpr SubnetRule kSubnetRules[] = {
    {NPU_CPU_CAST, "Cast", 1, 1, false, false, false, 0, check_cast},
    {NPU_CPU_COPY, "Copy", 1, 1, false, false, false, 0, check_copy},
    {NPU_CPU_ARGMAX, "ArgMax", 1, 1, true, false, false, NPU_CPU_LAST_INDEX, check_argmax},
    {NPU_CPU_TOPK, "TopK", 1, 2, true, true, false, NPU_CPU_SMALLEST, check_topk},
    {NPU_CPU_SOFTMAX, "Softmax", 1, 1, true, false, false, 0, check_softmax},
    {NPU_CPU_NONZERO, "NonZero", 1, 2, false, false, false, 0, check_nonzero},
    {NPU_CPU_NMS, "NonMaxSuppression", 2, 2, false, true, true, NPU_CPU_CENTER, check_nms},
};

const SubnetRule *find(int32_t op) {
  for (const SubnetRule &r : kSubnetRules)
    if (r.op == op) return &r;
  return nullptr;
}

}  // namespace

Dtype dtype_of_bm(uint32_t number) {
  constexpr Dtype kTypes[] = {Dtype::F32, Dtype::F16, Dtype::I8,  Dtype::U8,  Dtype::I16,
                              Dtype::U16, Dtype::I32, Dtype::U32, Dtype::BF16};
  return number < std::size(kTypes) ? kTypes[number] : Dtype::Undefined;
}

uint32_t bm_type_of(Dtype type) {
  uint32_t number = 0;
  while (dtype_of_bm(number) != type) ++number;
  return number;
}

Tensor make_kind(uint32_t bm_type, Shape shape) {
  Tensor t;
  t.dtype = dtype_of_bm(bm_type);
  t.shape = std::move(shape);
  return t;
}

const char *cpu_operator_name(int32_t op) {
  const SubnetRule *row = find(op);
  if (op == NPU_CPU_GRAPH) return "Graph";
  return row ? row->name : "unknown";
}

Status check_cpu_operator(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs) {
  const SubnetRule *row = find(op);
  if (!row) return Status::error("CPU operator " + std::to_string(op) + " is unknown, there are 1 to 8");
  const auto wrong = [&](const std::string &what) {
    return Status::error(what).within(std::string("CPU operator ") + row->name);
  };
  if (inputs.size() != row->inputs || outputs.size() != row->outputs)
    return wrong(std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs.size()) +
                 " outputs, expected " + std::to_string(row->inputs) + " and " + std::to_string(row->outputs));
  for (const auto &list : {inputs, outputs})
    for (const Tensor &t : list) {
      if (t.dtype == Dtype::Undefined) return wrong("a tensor has a type that is unknown");
      if (t.count() < 0) return wrong("a tensor of " + shape_text(t.shape) + " is too large");
    }
  if (param.flags & ~row->flags) return wrong("unknown flags " + std::to_string(param.flags & ~row->flags));
  if ((!row->axis && param.axis) || (!row->count && param.count) ||
      (!row->iou_score && (param.iou != 0 || param.score != 0)))
    return wrong("a parameter that it does not have is not 0");
  return row->check({param, inputs, outputs}).within(std::string("CPU operator ") + row->name);
}

}  // namespace npu::cpu
