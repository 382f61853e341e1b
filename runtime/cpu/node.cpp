// SPDX-License-Identifier: MIT
#include "runtime/cpu/node.h"

#include <algorithm>

#include "npu_isa.hpp"
#include "runtime/cpu/names.h"
#include "runtime/cpu/operators.h"
#include "runtime/cpu/plugin.h"

namespace npu::cpu {
namespace {

void evaluate_conv(const ConvAttrs &a, std::span<const Tensor *const> in, const Tensor *bias, const Tensor *factor,
                   Tensor &out) {
  a.quant.on ? quantized_conv(a, *in[0], *in[1], bias, factor, out) : conv(a, *in[0], *in[1], bias, out);
}

void evaluate_matmul(const MatMulAttrs &a, std::span<const Tensor *const> in, const Tensor *bias, const Tensor *factor,
                     Tensor &out) {
  a.quant.on ? quantized_matmul(a, *in[0], *in[1], bias, factor, out) : matmul(a, *in[0], *in[1], bias, out);
}

Status evaluate_binary(const BinaryAttrs &a, std::span<const Tensor *const> in, Tensor &out) {
  return is_quantized(a) ? quantized_binary(a, *in[0], *in[1], out) : binary(a, *in[0], *in[1], out);
}

void evaluate_pool(const PoolAttrs &a, const Tensor &x, Tensor &out) {
  is_quantized(a) ? quantized_average(a, x, out) : pool(a, x, out);
}

void evaluate_softmax(const SoftmaxAttrs &a, const Tensor &x, Tensor &out) {
  is_quantized(a) ? quantized_softmax(a, x, out) : softmax(a, x, out);
}

void take_output(const PluginOutputAttrs &a, const Tensor &packed, Tensor &out) {
  const auto from = packed.data.begin() + static_cast<std::ptrdiff_t>(a.offset);
  std::copy(from, from + static_cast<std::ptrdiff_t>(out.data.size()), out.data.begin());
}

/// Computes with numbers; the others move them as they are, or take no reals of 16 bits.
bool computes(Op op) {
  return op == Op::Conv || op == Op::MatMul || op == Op::Pool || op == Op::Binary || op == Op::Unary ||
         op == Op::Softmax || op == Op::Requant;
}

/// Moves elements as the attributes say.
void evaluate_move(Op op, const Attrs &attrs, std::span<const Tensor *const> in, Tensor &out) {
  switch (op) {
    case Op::Transpose:
      transpose(std::get<TransposeAttrs>(attrs), *in[0], out);
      break;
    case Op::Reshape:
      out.data = in[0]->data;
      break;
    case Op::Concat:
      concat(std::get<ConcatAttrs>(attrs).axis, in, out);
      break;
    case Op::Slice:
      slice(std::get<SliceAttrs>(attrs), *in[0], out);
      break;
    case Op::Pad:
      pad(std::get<PadAttrs>(attrs), *in[0], out);
      break;
    default:  // Expand
      expand(*in[0], out);
      break;
  }
}

/// Moves elements by the indices of the second operand, which are checked.
Status evaluate_indexed(Op op, const Attrs &attrs, std::span<const Tensor *const> in, Tensor &out) {
  switch (op) {
    case Op::Gather:
      return gather(std::get<GatherAttrs>(attrs).axis, *in[0], *in[1], out);
    case Op::GatherElements:
      return gather_elements(std::get<GatherAttrs>(attrs).axis, *in[0], *in[1], out);
    case Op::GatherNd:
      return gather_nd(std::get<GatherNdAttrs>(attrs).batch_dims, *in[0], *in[1], out);
    case Op::ScatterElements:
      return scatter_elements(std::get<ScatterAttrs>(attrs), *in[0], *in[1], *in[2], out);
    default:  // ScatterNd
      return scatter_nd(std::get<ScatterAttrs>(attrs).reduction, *in[0], *in[1], *in[2], out);
  }
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

// The chip's functions that ActKind lacks would be unknown to importer and evaluator.
static_assert(std::ranges::all_of(hw::k_npu_act, [](const hw::EnumValue &v) {
  return name_of(static_cast<ActKind>(v.value)) != nullptr;
}));

const char *op_name(Op op) {
  const char *const name = name_of(op);
  return name ? name : "unknown";
}

Status evaluate(Op op, const Attrs &attrs, std::span<const Tensor *const> in, Tensor &out) {
  const auto half = [](const Tensor *t) { return t && is_half(t->dtype); };
  if (computes(op) && (half(&out) || std::ranges::any_of(in, half))) return evaluate_wide(op, attrs, in, out);
  const auto operand = [&](size_t k) { return in.size() > k ? in[k] : nullptr; };
  switch (op) {
    case Op::Conv:
      evaluate_conv(std::get<ConvAttrs>(attrs), in, operand(2), operand(3), out);
      break;
    case Op::MatMul:
      evaluate_matmul(std::get<MatMulAttrs>(attrs), in, operand(2), operand(3), out);
      break;
    case Op::Pool:
      evaluate_pool(std::get<PoolAttrs>(attrs), *in[0], out);
      break;
    case Op::Binary:
      return evaluate_binary(std::get<BinaryAttrs>(attrs), in, out);
    case Op::Unary:
      unary(std::get<UnaryAttrs>(attrs), *in[0], out);
      break;
    case Op::Softmax:
      evaluate_softmax(std::get<SoftmaxAttrs>(attrs), *in[0], out);
      break;
    case Op::Transpose:
    case Op::Reshape:
    case Op::Concat:
    case Op::Slice:
    case Op::Pad:
    case Op::Expand:
      evaluate_move(op, attrs, in, out);
      break;
    case Op::Cast:
      cast(*in[0], std::get<CastAttrs>(attrs).saturate ? Overflow::Saturate : Overflow::Wrap, out);
      break;
    case Op::Where:
      where(*in[0], *in[1], *in[2], out);
      break;
    case Op::Reduce:
      reduce(std::get<ReduceAttrs>(attrs), *in[0], out);
      break;
    case Op::ArgMax:
      argmax(std::get<ArgMaxAttrs>(attrs), *in[0], out);
      break;
    case Op::TopK:
      topk(std::get<TopKAttrs>(attrs), *in[0], out);
      break;
    case Op::CumSum:
      cumsum(std::get<CumSumAttrs>(attrs), *in[0], out);
      break;
    case Op::Gather:
    case Op::GatherElements:
    case Op::GatherNd:
    case Op::ScatterElements:
    case Op::ScatterNd:
      return evaluate_indexed(op, attrs, in, out);
    case Op::PoolIndices:
      pool_indices(std::get<PoolIndicesAttrs>(attrs), *in[0], out);
      break;
    case Op::Requant:
      requant(std::get<RequantAttrs>(attrs), *in[0], out);
      break;
    case Op::Lookup:
      lookup(*in[0], *in[1], out);
      break;
    case Op::Plugin:
      return run_plugin(std::get<PluginAttrs>(attrs), in, out);
    case Op::PluginOutput:
      take_output(std::get<PluginOutputAttrs>(attrs), *in[0], out);
      break;
    case Op::Fail:
      return Status::error("the network was compiled without this branch");
  }
  return {};
}

}  // namespace npu::cpu
