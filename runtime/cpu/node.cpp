// SPDX-License-Identifier: MIT
#include "runtime/cpu/node.h"

#include <algorithm>
#include <iterator>

#include "runtime/cpu/operators.h"

namespace npu::cpu {
namespace {

constexpr const char *kNames[] = {
    "Conv",      "MatMul",         "Pool",     "Binary",          "Unary",     "Softmax",
    "Transpose", "Reshape",        "Concat",   "Slice",           "Pad",       "Expand",
    "Gather",    "Cast",           "Where",    "Reduce",          "ArgMax",    "TopK",
    "CumSum",    "GatherElements", "GatherNd", "ScatterElements", "ScatterNd", "PoolIndices",
    "Requant",   "Lookup",         "Fail",
};
static_assert(std::size(kNames) == kOps);

/// Operators whose result may fail on account of their data.
Status evaluate_checked(Op op, const Attrs &attrs, std::span<const Tensor *const> in, Tensor &out) {
  switch (op) {
    case Op::Binary:
      if (const auto &a = std::get<BinaryAttrs>(attrs); is_quantized(a))
        return quantized_binary(a, *in[0], *in[1], out);
      else
        return binary(a, *in[0], *in[1], out);
    case Op::Gather:
      return gather(std::get<GatherAttrs>(attrs).axis, *in[0], *in[1], out);
    case Op::GatherElements:
      return gather_elements(std::get<GatherAttrs>(attrs).axis, *in[0], *in[1], out);
    case Op::GatherNd:
      return gather_nd(std::get<GatherNdAttrs>(attrs).batch_dims, *in[0], *in[1], out);
    case Op::ScatterElements:
      return scatter_elements(std::get<ScatterAttrs>(attrs), *in[0], *in[1], *in[2], out);
    case Op::ScatterNd:
      return scatter_nd(std::get<ScatterAttrs>(attrs).reduction, *in[0], *in[1], *in[2], out);
    case Op::Fail:
      return Status::error("the network was compiled without this branch");
    default:
      return Status::error("operator " + std::to_string(static_cast<int>(op)) + " is unknown");
  }
}

/// Computes with numbers; the others move them as they are, or take no reals of 16 bits.
bool computes(Op op) {
  return op == Op::Conv || op == Op::MatMul || op == Op::Pool || op == Op::Binary || op == Op::Unary ||
         op == Op::Softmax || op == Op::Requant;
}

/// Computes in float32 what has reals of 16 bits.
Status evaluate_wide(Op op, const Attrs &attrs, std::span<const Tensor *const> operands, Tensor &out) {
  std::vector<Tensor> wide;
  wide.reserve(operands.size());
  std::vector<const Tensor *> used(operands.begin(), operands.end());
  for (const Tensor *&x : used)
    if (x && is_half(x->dtype)) {
      wide.emplace_back(Dtype::F32, x->shape);
      cast(*x, Overflow::Wrap, wide.back());
      x = &wide.back();
    }
  if (!is_half(out.dtype)) return evaluate(op, attrs, used, out);
  Tensor result(Dtype::F32, out.shape);
  NPU_TRY(evaluate(op, attrs, used, result));
  cast(result, Overflow::Wrap, out);
  return {};
}

}  // namespace

const char *op_name(Op op) {
  const auto number = static_cast<size_t>(op);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

Status evaluate(Op op, const Attrs &attrs, std::span<const Tensor *const> operands, Tensor &out) {
  const Tensor &x = *operands[0];
  const Tensor *third = operands.size() > 2 ? operands[2] : nullptr;
  const Tensor *fourth = operands.size() > 3 ? operands[3] : nullptr;
  const auto half = [](const Tensor *t) { return t && is_half(t->dtype); };
  if (computes(op) && (half(&out) || std::ranges::any_of(operands, half)))
    return evaluate_wide(op, attrs, operands, out);
  switch (op) {
    case Op::Conv:
      if (const auto &a = std::get<ConvAttrs>(attrs); a.quant.on)
        quantized_conv(a, x, *operands[1], third, fourth, out);
      else
        conv(a, x, *operands[1], third, out);
      return {};
    case Op::MatMul:
      if (const auto &a = std::get<MatMulAttrs>(attrs); a.quant.on)
        quantized_matmul(a, x, *operands[1], third, fourth, out);
      else
        matmul(a, x, *operands[1], third, out);
      return {};
    case Op::Pool:
      if (const auto &a = std::get<PoolAttrs>(attrs); is_quantized(a))
        quantized_average(a, x, out);
      else
        pool(a, x, out);
      return {};
    case Op::Unary:
      unary(std::get<UnaryAttrs>(attrs), x, out);
      return {};
    case Op::Softmax:
      if (const auto &a = std::get<SoftmaxAttrs>(attrs); is_quantized(a))
        quantized_softmax(a, x, out);
      else
        softmax(a, x, out);
      return {};
    case Op::Transpose:
      transpose(std::get<TransposeAttrs>(attrs), x, out);
      return {};
    case Op::Reshape:
      out.data = x.data;
      return {};
    case Op::Concat:
      concat(std::get<ConcatAttrs>(attrs).axis, operands, out);
      return {};
    case Op::Slice:
      slice(std::get<SliceAttrs>(attrs), x, out);
      return {};
    case Op::Pad:
      pad(std::get<PadAttrs>(attrs), x, out);
      return {};
    case Op::Expand:
      expand(x, out);
      return {};
    case Op::Cast: {
      const auto &to = std::get<CastAttrs>(attrs);
      cast(x, to.saturate ? Overflow::Saturate : Overflow::Wrap, out);
      return {};
    }
    case Op::Where:
      where(x, *operands[1], *third, out);
      return {};
    case Op::Reduce:
      reduce(std::get<ReduceAttrs>(attrs), x, out);
      return {};
    case Op::ArgMax:
      argmax(std::get<ArgMaxAttrs>(attrs), x, out);
      return {};
    case Op::TopK:
      topk(std::get<TopKAttrs>(attrs), x, out);
      return {};
    case Op::CumSum:
      cumsum(std::get<CumSumAttrs>(attrs), x, out);
      return {};
    case Op::PoolIndices:
      pool_indices(std::get<PoolIndicesAttrs>(attrs), x, out);
      return {};
    case Op::Requant:
      requant(std::get<RequantAttrs>(attrs), x, out);
      return {};
    case Op::Lookup:
      lookup(x, *operands[1], out);
      return {};
    default:
      return evaluate_checked(op, attrs, operands, out);
  }
}

}  // namespace npu::cpu
