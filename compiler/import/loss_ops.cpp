// SPDX-License-Identifier: MIT
// Loss functions of classifiers.
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// Shapes: scores [n, classes, d...], targets [n, d...], operand 2, if there is one, a weight for each class.
Status check_shapes(const OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  Shape expected = c.shape(0);
  if (expected.size() < 2) return Status::error("input " + shape_text(expected) + " has no classes");
  const int64_t classes = expected[1];
  expected.erase(expected.begin() + 1);
  if (c.shape(1) != expected || (c.value(1).dtype != Dtype::I32 && c.value(1).dtype != Dtype::I64))
    return Status::error("targets are " + kind_text(c.value(1)) + ", int32 or int64 " + shape_text(expected) +
                         " was expected");
  if (c.has_input(2) && c.shape(2) != Shape{classes})
    return Status::error("weights are " + shape_text(c.shape(2)) + ", " + shape_text({classes}) + " was expected");
  return {};
}

/// 0 where elements are left out; `ignored` may be kNoValue.
Status without_ignored(OpContext &c, ValueId ignored, ValueId x, ValueId &out) {
  out = x;
  return ignored == kNoValue ? Status() : c.where(ignored, c.scalar_like(x, 0), x, out);
}

/// Joins losses [n, d...] as the attribute `reduction` says. The mean is over `weights`, or plain without them.
Status join(OpContext &c, ValueId loss, ValueId weights) {
  const std::string how = c.attr_s("reduction", "mean");
  c.results[0] = loss;
  if (how == "none") return {};
  if (how != "sum" && how != "mean")
    return Status::error("reduction is '" + how + "', 'none', 'sum' or 'mean' was expected");
  std::vector<int> axes;
  for (size_t i = 0; i < c.graph[loss].shape.size(); ++i) axes.push_back(static_cast<int>(i));
  if (how == "mean" && weights == kNoValue) return c.reduce(ReduceKind::Mean, loss, axes, false, c.results[0]);
  NPU_TRY(c.reduce(ReduceKind::Sum, loss, axes, false, loss));
  c.results[0] = loss;
  if (how == "sum") return {};
  NPU_TRY(c.reduce(ReduceKind::Sum, weights, axes, false, weights));
  return c.binary(BinaryKind::Div, loss, weights, c.results[0]);
}

/// -weight[t] * log_prob[n, t, d...] with t = target[n, d...], and 0 where t is ignore_index, which may be no class.
Status likelihood_loss(OpContext &c, ValueId log_prob) {
  const Shape shape = c.shape(1);
  ValueId target = c.in(1), ignored = kNoValue, weights = kNoValue, place, loss;
  if (c.has("ignore_index")) {
    const ValueId ignore = c.constant(make_i64({c.attr_i("ignore_index", 0)}));
    NPU_TRY(c.cast(target, Dtype::I64, target));
    NPU_TRY(c.binary(BinaryKind::Equal, target, ignore, ignored));
    NPU_TRY(without_ignored(c, ignored, target, target));
    NPU_TRY(without_ignored(c, ignored, c.scalar(1), weights));
  }
  Shape wide = shape;
  wide.insert(wide.begin() + 1, 1);
  NPU_TRY(c.reshape(target, wide, place));
  NPU_TRY(c.emit(Op::GatherElements, {log_prob, place}, GatherAttrs{1}, loss));
  NPU_TRY(c.reshape(loss, shape, loss));
  NPU_TRY(c.unary(ActKind::Neg, loss, loss));
  if (c.has_input(2)) {
    NPU_TRY(c.gather(0, c.in(2), target, weights));
    NPU_TRY(c.binary(BinaryKind::Mul, loss, weights, loss));
    NPU_TRY(without_ignored(c, ignored, weights, weights));
  }
  NPU_TRY(without_ignored(c, ignored, loss, loss));
  return join(c, loss, weights);
}

Status negative_log_likelihood_loss(OpContext &c) {
  NPU_TRY(check_shapes(c));
  return likelihood_loss(c, c.in(0));
}

Status softmax_cross_entropy_loss(OpContext &c) {
  NPU_TRY(check_shapes(c));
  ValueId log_prob;
  NPU_TRY(c.emit(Op::Softmax, {c.in(0)}, SoftmaxAttrs{1, true}, log_prob));
  if (c.wants_output(1)) c.results[1] = log_prob;
  return likelihood_loss(c, log_prob);
}

constexpr OpEntry kLossOps[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood_loss},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss},
};

}  // namespace

std::span<const OpEntry> loss_ops() { return kLossOps; }

}  // namespace npu::graph
