// SPDX-License-Identifier: MIT
// Attention as ONNX Runtime's optimizer for transformers writes it, domain com.microsoft: one projection to queries,
// keys and values, heads, and a mask of integers.
#include <array>
#include <numeric>

#include "compiler/import/microsoft.h"
#include "compiler/import/quantize.h"

namespace npu::graph {
namespace {

constexpr float kMaskFilter = -10000;  ///< mask_filter_value, unless the node says so

/// What a mask adds to the scores [batch, heads, queries, keys]: 0 for keys that count, else mask_filter_value. It is
/// [batch, keys] with numbers above 0 for keys that count, or [batch], how many of them do. Computed as float32, which
/// the chip does but for the conversion of the integers.
Status mask_bias(OpContext &c, size_t mask, int64_t batch, int64_t keys, ValueId &out) {
  const Shape shape = c.shape(mask);
  const float filter = c.attr_f("mask_filter_value", kMaskFilter);
  NPU_TRY(c.cast(c.in(mask), Dtype::F32, out));
  if (shape == Shape{batch}) {
    std::vector<float> places(static_cast<size_t>(keys));
    std::iota(places.begin(), places.end(), 0.0f);
    NPU_TRY(c.reshape(out, {batch, 1}, out));
    NPU_TRY(c.binary(BinaryKind::Sub, out, c.constant(make_f32({1, keys}, places)), out));
  } else if (shape != Shape{batch, keys}) {
    return Status::error("mask '" + c.value(mask).name + "' is " + shape_text(shape) + ", " +
                         shape_text({batch, keys}) + " or " + shape_text({batch}) + " was expected");
  }
  NPU_TRY(c.unary(ActKind::Clip, out, out, 0, 1));
  NPU_TRY(c.binary(BinaryKind::Sub, c.scalar(1), out, out));
  NPU_TRY(c.binary(BinaryKind::Mul, out, static_cast<double>(filter), out));
  return c.reshape(out, {batch, 1, 1, keys}, out);
}

/// A bias of scores: its dimensions are those of the scores, or 1.
Status check_bias(const OpContext &c, size_t k, const Shape &scores) {
  const Shape &shape = c.shape(k);
  bool fits = shape.size() == scores.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d] == 1 || shape[d] == scores[d];
  return fits ? Status()
              : Status::error("bias of scores '" + c.value(k).name + "' is " + shape_text(shape) + ", " +
                              shape_text(scores) + " was expected, or 1 in its place");
}

/// Attention of ONNX with this node's heads. Queries, keys and values are [batch, length, size].
Status attend(OpContext &c, const std::array<ValueId, 3> &qkv, size_t mask, size_t bias) {
  const Shape q = c.graph[qkv[0]].shape, k = c.graph[qkv[1]].shape;
  const int64_t heads = c.attr_i("num_heads", 0);
  if (heads < 1) return Status::error("num_heads is " + std::to_string(heads) + ", a number above 0 was expected");
  if (k[0] != q[0])
    return Status::error("queries " + shape_text(q) + " and keys " + shape_text(k) + " differ in batch");
  for (const char *name : {"do_rotary", "past_present_share_buffer"})
    if (c.attr_i(name, 0)) return refuse(Obstacle::Form, std::string(name) + " is not supported");
  if (c.wants_output(1) || c.wants_output(2))
    return refuse(Obstacle::Form, "results behind the first are not supported");
  const bool biased = bias != kNoOperand && c.has_input(bias);
  std::vector<ValueId> inputs(qkv.begin(), qkv.end());
  ValueId added = kNoValue;
  if (c.has_input(mask)) NPU_TRY(mask_bias(c, mask, q[0], k[1], added));
  if (biased) {
    NPU_TRY(check_bias(c, bias, {q[0], heads, q[1], k[1]}));
    NPU_TRY(added == kNoValue ? c.reshape(c.in(bias), c.shape(bias), added)
                              : c.binary(BinaryKind::Add, c.in(bias), added, added));
  }
  if (added != kNoValue) inputs.push_back(added);
  RawNode node = c.node;
  node.outputs.resize(1);
  node.attributes["q_num_heads"].i = node.attributes["kv_num_heads"].i = heads;
  node.attributes["is_causal"].i = c.attr_i("unidirectional", 0);
  if (c.attr_f("scale", 0) == 0) node.attributes.erase("scale");  // 0 is the same as none
  OpContext inner(c.graph, node, 23, c.source(), std::move(inputs));
  inner.finite_mask = !biased;
  NPU_TRY(find_op("", "Attention")(inner));
  if (!inner.wrong_attribute().empty()) return Status::error(inner.wrong_attribute());
  c.results[0] = inner.results[0];
  return {};
}

/// Splits [batch, length, sizes together] in three.
Status split_projection(OpContext &c, ValueId x, const std::vector<int64_t> &given, std::array<ValueId, 3> &out) {
  const int64_t size = c.graph[x].shape.back();
  const std::vector<int64_t> sizes = given.empty() ? std::vector<int64_t>(3, size / 3) : given;
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != size)
    return Status::error("weights have " + std::to_string(size) +
                         " columns, which are not the sizes of queries, keys and values");
  int64_t from = 0;
  for (size_t i = 0; i < 3; from += sizes[i++]) NPU_TRY(c.slice(x, 2, from, sizes[i], out[i]));
  return {};
}

Status need_sequence(const OpContext &c, size_t k) {
  return c.rank(k) == 3 ? Status()
                        : Status::error("operand " + std::to_string(k) + " is " + shape_text(c.shape(k)) +
                                        ", [batch, length, size] was expected");
}

/// Operands: input, weights, bias, mask, past, bias of scores, length of the past.
Status microsoft_attention(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 7));
  NPU_TRY(need_sequence(c, 0));
  for (size_t k : {4, 6})
    if (c.has_input(k)) return refuse(Obstacle::Form, "past keys and values are not supported");
  if (c.rank(1) != 2) return Status::error("weights are " + shape_text(c.shape(1)) + ", a matrix was expected");
  RawNode node = c.node;
  node.outputs.resize(1);
  // A layer of its own: attention with a mask stays in float32, its projection does not have to.
  c.graph.sources.push_back({c.graph.sources[static_cast<size_t>(c.source())].name + ".qkv", "MatMul", {}});
  OpContext product(c.graph, node, kOpset, static_cast<int>(c.graph.sources.size()) - 1, {c.in(0), c.in(1)});
  NPU_TRY(find_op("", "MatMul")(product));
  ValueId y = product.results[0];
  std::array<ValueId, 3> qkv{};
  if (c.has_input(2)) NPU_TRY(product.binary(BinaryKind::Add, y, c.in(2), y));
  NPU_TRY(split_projection(c, y, c.attr_ints("qkv_hidden_sizes"), qkv));
  return attend(c, qkv, 3, 5);
}

/// Operands: input, weights, bias, their scales, mask, zero points, past.
Status qattention(OpContext &c) {
  NPU_TRY(c.need_inputs(5, 9));
  NPU_TRY(need_sequence(c, 0));
  if (c.has_input(8)) return refuse(Obstacle::Form, "past keys and values are not supported");
  std::vector<ValueId> inputs{c.in(0), c.in(1), c.in(3), c.in(4), optional_input(c, 6), optional_input(c, 7)};
  if (c.has_input(2)) inputs.push_back(c.in(2));
  RawNode node = c.node;
  node.outputs.resize(1);
  OpContext product(c.graph, node, c.opset, c.source(), std::move(inputs));
  NPU_TRY(find_op(kMicrosoft, "MatMulIntegerToFloat")(product));
  std::array<ValueId, 3> qkv{};
  NPU_TRY(split_projection(c, product.results[0], {}, qkv));
  return attend(c, qkv, 5, kNoOperand);
}

/// Operands: queries, keys, values, their biases one behind the other, mask, bias of scores, past keys and values.
Status multi_head_attention(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 8));
  for (size_t k : {6, 7})
    if (c.has_input(k)) return refuse(Obstacle::Form, "past keys and values are not supported");
  std::array<ValueId, 3> qkv{};
  int64_t from = 0;
  for (size_t k = 0; k < 3; ++k) {
    if (!c.has_input(k)) return refuse(Obstacle::Form, "packed queries, keys and values are not supported");
    NPU_TRY(need_sequence(c, k));
    qkv[k] = c.in(k);
    if (!c.has_input(3)) continue;
    const int64_t size = c.shape(k).back();
    ValueId bias;
    if (c.rank(3) != 1 || c.shape(3)[0] < from + size)
      return Status::error("bias '" + c.value(3).name + "' is " + shape_text(c.shape(3)) +
                           ", as many elements as queries, keys and values were expected");
    NPU_TRY(c.slice(c.in(3), 0, from, size, bias));
    NPU_TRY(c.binary(BinaryKind::Add, qkv[k], bias, qkv[k]));
    from += size;
  }
  return attend(c, qkv, 4, 5);
}

/// The sum of words, places and segments, normalized. Results: it, how many elements of the mask are 1, the sum.
Status embed_layer_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 9));
  for (size_t k : {2, 3, 5, 6})
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
  if (c.rank(0) != 2) return Status::error("ids are " + shape_text(c.shape(0)) + ", [batch, length] was expected");
  const Shape ids = c.shape(0);
  for (size_t k : {1, 7, 8})
    if (c.has_input(k) && c.shape(k) != ids && !(k == 8 && c.shape(k) == Shape{1, ids[1]}))
      return Status::error("operand '" + c.value(k).name + "' is " + shape_text(c.shape(k)) + ", ids are " +
                           shape_text(ids));
  if (c.rank(3) != 2 || (!c.has_input(8) && c.shape(3)[0] < ids[1]))
    return Status::error("the table of places is " + shape_text(c.shape(3)) + ", " + std::to_string(ids[1]) +
                         " rows were expected");
  ValueId sum, part;
  NPU_TRY(c.gather(0, c.in(2), c.in(0), sum));
  if (c.has_input(8))
    NPU_TRY(c.gather(0, c.in(3), c.in(8), part));
  else
    NPU_TRY(c.slice(c.in(3), 0, 0, ids[1], part));
  NPU_TRY(c.binary(BinaryKind::Add, sum, part, sum));
  if (c.has_input(1) && c.has_input(4)) {
    NPU_TRY(c.gather(0, c.in(4), c.in(1), part));
    NPU_TRY(c.binary(BinaryKind::Add, sum, part, sum));
  }
  RawNode node = c.node;
  node.attributes["epsilon"].f = c.attr_f("epsilon", 1e-12f);
  NPU_TRY(standard(c, std::move(node), "LayerNormalization", {sum, c.in(5), c.in(6)}, c.results[0], 23));
  if (c.wants_output(2)) c.results[2] = sum;
  if (!c.wants_output(1)) return {};
  if (!c.has_input(7)) {
    c.results[1] = c.constant(std::make_shared<Tensor>(Dtype::I32, Shape{ids[0]}));
    return {};
  }
  NPU_TRY(c.binary(BinaryKind::Equal, c.in(7), c.scalar_like(c.in(7), 1), part));
  NPU_TRY(c.cast(part, Dtype::I32, part));
  return c.reduce(ReduceKind::Sum, part, {1}, false, c.results[1]);
}

constexpr MicrosoftEntry kMicrosoftAttentionOps[] = {
    {"Attention", microsoft_attention,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
     "unidirectional"},
    {"EmbedLayerNormalization", embed_layer_normalization, "epsilon mask_index_type"},
    {"MultiHeadAttention", multi_head_attention, "mask_filter_value num_heads scale unidirectional"},
    {"QAttention", qattention, "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional"},
};

}  // namespace

std::span<const MicrosoftEntry> microsoft_attention_ops() { return kMicrosoftAttentionOps; }

}  // namespace npu::graph
