// SPDX-License-Identifier: MIT
// Operators of ONNX Runtime, domain com.microsoft, whose operands are floating point: what its optimizer makes of
// several operators of ONNX, and products with weights of few bits.
#include <array>

#include "compiler/import/microsoft.h"

namespace npu::graph {
namespace {

// Functions.

Status gelu(OpContext &c, bool by_tanh) {
  ValueId x = c.in(0);
  if (c.has_input(1)) NPU_TRY(c.binary(BinaryKind::Add, x, c.in(1), x));
  return c.unary(ActKind::Gelu, x, c.results[0], by_tanh ? 1.0f : 0.0f);
}

Status erf_gelu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  return gelu(c, false);
}
Status bias_gelu(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  return gelu(c, false);
}
Status fast_gelu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  return gelu(c, true);
}

/// x * sigmoid(alpha * x)
Status quick_gelu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId y;
  NPU_TRY(c.binary(BinaryKind::Mul, c.in(0), c.attr_f("alpha", 1.702f), y));
  NPU_TRY(c.unary(ActKind::Sigmoid, y, y));
  return c.binary(BinaryKind::Mul, c.in(0), y, c.results[0]);
}

/// The function that an operator computes behind its own result, with up to two parameters.
Status activate(OpContext &c, ValueId x, std::array<float, 2> parameters, bool given, ValueId &out) {
  const std::string name = c.attr_s("activation", "");
  const auto [a, b] = parameters;
  if (name.empty()) return out = x, Status();
  if (name == "Relu") return c.unary(ActKind::Relu, x, out);
  if (name == "Tanh") return c.unary(ActKind::Tanh, x, out);
  if (name == "Sigmoid") return c.unary(ActKind::Sigmoid, x, out);
  if (name == "LeakyRelu") return c.unary(ActKind::LeakyRelu, x, out, given ? a : 0.01f);
  if (name == "HardSigmoid") return c.unary(ActKind::HardSigmoid, x, out, given ? a : 0.2f, given ? b : 0.5f);
  if (name == "Clip" && given) return c.unary(ActKind::Clip, x, out, a, b);
  return Status::error("activation is '" + name +
                       "', Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid or Clip with its limits was expected");
}

// What the optimizer fuses.

/// Conv or Gemm of the first two operands and perhaps a bias.
Status product_and_bias(OpContext &c, const char *type, ValueId &out) {
  std::vector<ValueId> inputs{c.in(0), c.in(1)};
  if (c.has_input(2)) inputs.push_back(c.in(2));
  return standard(c, c.node, type, std::move(inputs), out);
}

Status fused_conv(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  ValueId y;
  NPU_TRY(product_and_bias(c, "Conv", y));
  if (c.has_input(3)) NPU_TRY(c.binary(BinaryKind::Add, y, c.in(3), y));
  const std::vector<float> given = c.attr_floats("activation_params");
  return activate(c, y, {given.empty() ? 0 : given[0], given.size() > 1 ? given[1] : 0}, !given.empty(), c.results[0]);
}

Status fused_gemm(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  ValueId y;
  NPU_TRY(product_and_bias(c, "Gemm", y));
  return activate(c, y, {c.attr_f("activation_alpha", 0), c.attr_f("activation_beta", 0)}, c.has("activation_alpha"),
                  c.results[0]);
}

/// alpha * a * b, with the last two dimensions of either exchanged.
Status fused_matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  for (const char *name : {"transBatchA", "transBatchB"})
    if (c.attr_i(name, 0)) return refuse(Obstacle::Form, std::string(name) + " is not supported");
  std::array<ValueId, 2> operands{c.in(0), c.in(1)};
  for (size_t k : {0, 1}) {
    const int64_t rank = c.rank(k);
    if (rank < 2 || !c.attr_i(k ? "transB" : "transA", 0)) continue;  // of a vector it changes nothing
    std::vector<int> perm(static_cast<size_t>(rank));
    for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int>(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    NPU_TRY(c.transpose(operands[k], perm, operands[k]));
  }
  ValueId y;
  NPU_TRY(standard(c, c.node, "MatMul", {operands[0], operands[1]}, y));
  const float alpha = c.attr_f("alpha", 1);
  c.results[0] = y;
  return alpha == 1 ? Status() : c.binary(BinaryKind::Mul, y, alpha, c.results[0]);
}

/// A normalization of the sum of two tensors and perhaps a bias. Results: it, (mean, deviation), the sum.
Status skip_norm(OpContext &c, const char *type, size_t beta, size_t bias) {
  NPU_TRY(c.need_inputs(3, bias + 1));
  for (size_t k : {1, 2})
    if (c.wants_output(k)) return refuse(Obstacle::Form, "output " + std::to_string(k) + " is not supported");
  ValueId sum;
  NPU_TRY(c.binary(BinaryKind::Add, c.in(0), c.in(1), sum));
  if (c.has_input(bias)) NPU_TRY(c.binary(BinaryKind::Add, sum, c.in(bias), sum));
  if (c.graph[sum].shape != c.shape(0))
    return Status::error("operands " + shape_text(c.shape(1)) + " and bias do not broadcast to input " +
                         shape_text(c.shape(0)));
  RawNode node = c.node;
  node.attributes["epsilon"].f = c.attr_f("epsilon", 1e-12f);
  std::vector<ValueId> inputs{sum, c.in(2)};
  if (beta != bias && c.has_input(beta)) inputs.push_back(c.in(beta));
  NPU_TRY(standard(c, std::move(node), type, std::move(inputs), c.results[0], 23));
  if (c.wants_output(3)) c.results[3] = sum;
  return {};
}

Status skip_layer_normalization(OpContext &c) { return skip_norm(c, "LayerNormalization", 3, 4); }
Status skip_simplified_layer_normalization(OpContext &c) { return skip_norm(c, "RMSNormalization", 3, 3); }

// Weights of few bits.

/// How the weights of a MatMulNBits lie: `rows` rows of `columns` numbers in blocks, each with a scale and a zero
/// point. Blocks are padded to whole bytes, and zero points of a row as well.
struct WeightBlocks {
  int64_t columns = 0, rows = 0, size = 0, bits = 0;
  int64_t count() const { return (columns + size - 1) / size; }  ///< in a row
  int64_t bytes() const { return (size * bits + 7) / 8; }        ///< of one
  int64_t zero_bytes() const { return (count() * bits + 7) / 8; }
};

/// Number k of those that lie in a row of bytes, the first one in the lowest bits.
int packed(const uint8_t *bytes, int64_t k, int64_t bits) {
  const int64_t at = k * bits;
  return bytes[at / 8] >> at % 8 & ((1 << bits) - 1);
}

Status read_blocks(const OpContext &c, WeightBlocks &out) {
  out = {c.attr_i("K", 0), c.attr_i("N", 0), c.attr_i("block_size", 0), c.attr_i("bits", 4)};
  constexpr int64_t kMost = int64_t{1} << 30;  // each; of a product below, no overflow
  if (out.columns < 1 || out.rows < 1 || out.columns > kMost || out.rows > kMost)
    return Status::error("K is " + std::to_string(out.columns) + " and N " + std::to_string(out.rows) +
                         ", numbers from 1 to " + std::to_string(kMost) + " were expected");
  if (out.bits != 2 && out.bits != 4 && out.bits != 8)
    return Status::error("bits is " + std::to_string(out.bits) + ", 2, 4 or 8 was expected");
  if (out.size < 16 || out.size > kMost || (out.size & (out.size - 1)))
    return Status::error("block_size is " + std::to_string(out.size) + ", a power of 2 of at least 16 was expected");
  return {};
}

/// A constant operand with so many elements.
Status known(const OpContext &c, size_t k, const char *what, int64_t count) {
  const Value &v = c.value(k);
  if (!v.constant) return refuse(Obstacle::Value, std::string(what) + " '" + v.name + "' is not known at compile time");
  if (v.constant->count() != count)
    return Status::error(std::string(what) + " '" + v.name + "' is " + shape_text(v.shape) + ", " +
                         std::to_string(count) + " elements were expected");
  return {};
}

/// Zero points of all blocks: packed, or floating point; without them the middle of the numbers.
Status block_zeros(const OpContext &c, const WeightBlocks &b, std::vector<float> &out) {
  out.assign(static_cast<size_t>(b.rows * b.count()), static_cast<float>(1 << (b.bits - 1)));
  if (!c.has_input(3)) return {};
  if (c.value(3).dtype == Dtype::F32) {
    NPU_TRY(known(c, 3, "zero_points", std::ssize(out)));
    const float *from = c.value(3).constant->as<float>();
    out.assign(from, from + out.size());
    return {};
  }
  if (c.value(3).dtype != Dtype::U8)
    return Status::error(std::string("zero_points are ") + dtype_name(c.value(3).dtype) +
                         ", uint8 or floating point was expected");
  NPU_TRY(known(c, 3, "zero_points", b.rows * b.zero_bytes()));
  const auto *from = c.value(3).constant->as<uint8_t>();
  for (int64_t i = 0; i < std::ssize(out); ++i)
    out[static_cast<size_t>(i)] =
        static_cast<float>(packed(from + i / b.count() * b.zero_bytes(), i % b.count(), b.bits));
  return {};
}

/// a * w + bias, where row n of the weights makes column n of the result. They become float32.
Status matmul_nbits(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 6));
  WeightBlocks b;
  NPU_TRY(read_blocks(c, b));
  if (c.has_input(4)) return refuse(Obstacle::Form, "g_idx, an order of the blocks, is not supported");
  if (c.value(1).dtype != Dtype::U8 || c.value(2).dtype != Dtype::F32)
    return Status::error(std::string("weights are ") + dtype_name(c.value(1).dtype) + " and scales " +
                         dtype_name(c.value(2).dtype) + ", uint8 and floating point were expected");
  NPU_TRY(known(c, 1, "weights", b.rows * b.count() * b.bytes()));
  NPU_TRY(known(c, 2, "scales", b.rows * b.count()));
  std::vector<float> zeros;
  NPU_TRY(block_zeros(c, b, zeros));
  if (c.rank(0) < 2 || c.shape(0).back() != b.columns)
    return Status::error("operand A is " + shape_text(c.shape(0)) + ", a matrix of K = " + std::to_string(b.columns) +
                         " columns was expected");
  NPU_TRY(c.count_constant({Dtype::F32, {b.columns, b.rows}}));
  Tensor w(Dtype::F32, {b.columns, b.rows});
  const auto *from = c.value(1).constant->as<uint8_t>();
  const auto *scales = c.value(2).constant->as<float>();
  for (int64_t n = 0; n < b.rows; ++n)
    for (int64_t k = 0; k < b.columns; ++k) {
      const int64_t block = n * b.count() + k / b.size;
      const auto q = static_cast<float>(packed(from + block * b.bytes(), k % b.size, b.bits));
      w.as<float>()[k * b.rows + n] = (q - zeros[static_cast<size_t>(block)]) * scales[block];
    }
  ValueId y;
  NPU_TRY(c.matmul(c.in(0), c.constant(std::make_shared<Tensor>(std::move(w))), y));
  c.results[0] = y;
  return c.has_input(5) ? c.binary(BinaryKind::Add, y, c.in(5), c.results[0]) : Status();
}

constexpr MicrosoftEntry kMicrosoftFloatOps[] = {
    {"BiasGelu", bias_gelu, ""},
    {"FastGelu", fast_gelu, ""},
    {"FusedConv", fused_conv, "activation activation_params auto_pad dilations group kernel_shape pads strides"},
    {"FusedGemm", fused_gemm, "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"},
    {"FusedMatMul", fused_matmul, "alpha transA transB transBatchA transBatchB"},
    {"Gelu", erf_gelu, ""},
    {"MatMulNBits", matmul_nbits, "K N accuracy_level bits block_size"},
    {"QuickGelu", quick_gelu, "alpha"},
    {"SkipLayerNormalization", skip_layer_normalization, "epsilon"},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization, "epsilon"},
};

}  // namespace

std::span<const MicrosoftEntry> microsoft_float_ops() { return kMicrosoftFloatOps; }

}  // namespace npu::graph
