// SPDX-License-Identifier: MIT
// Graphs for the CPU: their bytes, what is refused, and what goes wrong only with the data.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cpu/element.h"
#include "runtime/cpu/subnet_graph.h"

namespace npu::cpu {
namespace {

/// Values: 0 x [2, 3], 1 index [2], 2 a constant, 3 x + constant, 4 its rows by index, 5 sums of rows.
HostGraph sample() {
  HostGraph g;
  g.inputs = {{Dtype::F32, {2, 3}}, {Dtype::I64, {2}}};
  g.constants = {make_f32({3}, {10, 20, 30})};
  g.nodes.push_back({Op::Binary, BinaryAttrs{BinaryKind::Add, {ActKind::Relu}}, {0, 2}});
  g.nodes.push_back({Op::Gather, GatherAttrs{0}, {3, 1}});
  g.nodes.push_back({Op::Reduce, ReduceAttrs{ReduceKind::Sum, {1}}, {4}});
  g.outputs = {5, 0, 2};
  return g;
}

std::vector<Tensor> data(const std::vector<int64_t> &rows) {
  return {*make_f32({2, 3}, {1, 2, 3, -40, 5, 6}), *make_i64(rows)};
}

std::vector<float> floats(const Tensor &t) { return {t.as<float>(), t.as<float>() + t.count()}; }

TEST(HostGraph, ComputesWhatItsNodesSay) {
  HostGraph g = sample();
  ASSERT_EQ(infer_host_graph(g).message(), "");
  EXPECT_EQ(g.kinds[5], (TensorKind{Dtype::F32, {2, 1}}));
  std::vector<Tensor> out;
  ASSERT_EQ(run_host_graph(g, data({-1, 0}), out).message(), "");
  EXPECT_EQ(floats(out[0]), (std::vector<float>{0 + 25 + 36, 11 + 22 + 33}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{1, 2, 3, -40, 5, 6}));
  EXPECT_EQ(floats(out[2]), (std::vector<float>{10, 20, 30}));
}

TEST(HostGraph, ErrorsOfTheDataNameTheOperator) {
  HostGraph g = sample();
  ASSERT_EQ(infer_host_graph(g).message(), "");
  std::vector<Tensor> out;
  const std::string text = run_host_graph(g, data({0, 2}), out).message();
  EXPECT_NE(text.find("operator 1 (Gather)"), std::string::npos) << text;
  EXPECT_NE(text.find("2"), std::string::npos) << text;
  EXPECT_TRUE(run_host_graph(g, data({0, 1}), out).ok()) << "the next call works";
}

TEST(HostGraph, ErrorsCountOnlyWhereAnOutputDependsOnThem) {
  // Values: 0 condition, 1 index, 2 x, 3 x by index, 4 x or that.
  HostGraph g;
  g.inputs = {{Dtype::Bool, {1}}, {Dtype::I64, {2}}, {Dtype::F32, {2}}};
  g.nodes.push_back({Op::Gather, GatherAttrs{0}, {2, 1}, "pick"});
  g.nodes.push_back({Op::Where, std::monostate{}, {0, 2, 3}});
  g.outputs = {4};
  ASSERT_EQ(infer_host_graph(g).message(), "");
  Tensor yes(Dtype::Bool, {1}), no = yes;
  yes.data[0] = 1;
  const Tensor index = *make_i64({0, 5}), x = *make_f32({2}, {3, 4});
  std::vector<Tensor> out;
  ASSERT_EQ(run_host_graph(g, std::vector<Tensor>{yes, index, x}, out).message(), "");
  EXPECT_EQ(floats(out[0]), (std::vector<float>{3, 4}));
  const std::string text = run_host_graph(g, std::vector<Tensor>{no, index, x}, out).message();
  EXPECT_EQ(text.find("operator 0 (Gather 'pick'): "), 0u) << text;
  g.outputs = {4, 3};
  ASSERT_EQ(infer_host_graph(g).message(), "");
  EXPECT_FALSE(run_host_graph(g, std::vector<Tensor>{yes, index, x}, out).ok());
}

TEST(HostGraph, SurvivesTheWayThroughItsBytes) {
  const std::vector<uint8_t> bytes = encode_host_graph(sample());
  HostGraph back;
  ASSERT_EQ(decode_host_graph(bytes, back).message(), "");
  EXPECT_EQ(encode_host_graph(back), bytes);
  std::vector<Tensor> a, b;
  HostGraph g = sample();
  ASSERT_TRUE(infer_host_graph(g).ok());
  ASSERT_TRUE(run_host_graph(g, data({1, 0}), a).ok());
  ASSERT_TRUE(run_host_graph(back, data({1, 0}), b).ok());
  EXPECT_EQ(floats(a[0]), floats(b[0]));
}

/// Each kind of attributes with no field at its default.
std::vector<HostNode> all_attributes() {
  Window w;
  w.kernel = {3, 2};
  w.stride = {2, 1};
  w.dilation = {1, 2};
  w.begin = {1, 0};
  w.end = {0, 1};
  const Activation act{ActKind::Clip, -1.5f, 6.25f};
  const ProductQuant product{true, -3, 4, 5, Dtype::U8};
  const Quant a{0.5f, -7}, b{1.5f, 8}, c{2.5f, 9};
  const PluginAttribute attribute{"name", PluginValue::Tensor, {1, 2}, {0.5f}, {"a", ""}, *make_i64({3, 4})};
  const PluginAttrs plugin{"lib.so", "domain", "op", {attribute, attribute}, {{Dtype::I8, {5}}, {Dtype::F32, {}}}};
  return {{Op::Conv, ConvAttrs{w, 4, act, product}, {0}},
          {Op::Pool, PoolAttrs{w, false, true, {7, 8}, a, b, Dtype::I8}, {1}},
          {Op::MatMul, MatMulAttrs{act, product}, {0, 1, -1}},
          {Op::Binary, BinaryAttrs{BinaryKind::Fmod, act, a, b, c, Dtype::I8}, {}},
          {Op::Unary, UnaryAttrs{act}, {}},
          {Op::Softmax, SoftmaxAttrs{2, true, a, b, Dtype::U8}, {}},
          {Op::Transpose, TransposeAttrs{{2, 0, 1}}, {}},
          {Op::Concat, ConcatAttrs{3}, {}},
          {Op::Slice, SliceAttrs{{1, 2}, {-1, 3}, {4, 5}}, {}},
          {Op::Pad, PadAttrs{{1}, {2}, -0.1}, {}},
          {Op::Gather, GatherAttrs{5}, {}},
          {Op::Cast, CastAttrs{Dtype::I8, true}, {}},
          {Op::Reshape, ShapeAttrs{{-7, 1LL << 40}}, {}},
          {Op::Where, std::monostate{}, {}},
          {Op::Reduce, ReduceAttrs{ReduceKind::Prod, {0, 2}}, {}},
          {Op::ArgMax, ArgMaxAttrs{1, true, true}, {}},
          {Op::TopK, TopKAttrs{1, 77, true}, {}},
          {Op::CumSum, CumSumAttrs{1, true, true}, {}},
          {Op::GatherNd, GatherNdAttrs{2}, {}},
          {Op::ScatterNd, ScatterAttrs{1, Reduction::Max}, {}},
          {Op::PoolIndices, PoolIndicesAttrs{w, true}, {}},
          {Op::Requant, RequantAttrs{a, b, act, Dtype::I16}, {}},
          {Op::Plugin, plugin, {}},
          {Op::PluginOutput, PluginOutputAttrs{64, {Dtype::U8, {3}}}, {}}};
}

TEST(HostGraph, EveryFieldOfAttributesIsInTheBytes) {
  // A graph of a node whose attributes have been changed is other bytes; what is read back is the same bytes again.
  std::vector<std::vector<uint8_t>> seen;
  for (const HostNode &node : all_attributes()) {
    HostGraph plain, changed;
    HostNode fresh = node;
    std::visit([&fresh](auto attrs) { fresh.attrs = decltype(attrs){}; }, node.attrs);
    plain.nodes = {fresh};
    changed.nodes = {node};
    const std::vector<uint8_t> bytes = encode_host_graph(changed);
    const bool same = bytes == encode_host_graph(plain);
    EXPECT_EQ(same, node.op == Op::Where) << op_name(node.op);
    HostGraph back;
    (void)decode_host_graph(bytes, back);  // refused by infer(), but read
    ASSERT_EQ(back.nodes.size(), 1u) << op_name(node.op);
    EXPECT_EQ(encode_host_graph(back), bytes) << op_name(node.op);
  }
  EXPECT_EQ(all_attributes().size(), std::variant_size_v<Attrs>);
}

TEST(HostGraph, GraphsOfVersion1AreRead) {
  // Those have no quantization: behind the activation of its one Binary are no three scales, zero points, and type.
  constexpr std::ptrdiff_t kVersionAt = 4, kAdded = 3 * 8 + 1;
  const std::vector<uint8_t> bytes = encode_host_graph(sample());
  HostGraph other = sample();
  std::get<BinaryAttrs>(other.nodes[0].attrs).a.scale = 1;  // 0x3f800000 instead of 0
  const std::vector<uint8_t> marked = encode_host_graph(other);
  const auto begin = std::mismatch(bytes.begin(), bytes.end(), marked.begin()).first - bytes.begin() - 2;
  std::vector<uint8_t> old = bytes;
  old.erase(old.begin() + begin, old.begin() + begin + kAdded);
  old[kVersionAt] = 1;
  HostGraph back;
  ASSERT_EQ(decode_host_graph(old, back).message(), "");
  EXPECT_EQ(encode_host_graph(back), bytes);
  old[kVersionAt] = 3;
  EXPECT_EQ(decode_host_graph(old, back).message(), "a graph of version 3, expected 1 to 2");
}

TEST(HostGraph, NoTruncationIsReadBehindItsEnd) {
  const std::vector<uint8_t> bytes = encode_host_graph(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    HostGraph g;
    EXPECT_FALSE(decode_host_graph(part, g).ok()) << n;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  HostGraph g;
  EXPECT_EQ(decode_host_graph(longer, g).message(), "bytes behind the graph");
}

TEST(HostGraph, DamagedBytesAreRefusedOrASoundGraph) {
  const std::vector<uint8_t> whole = encode_host_graph(sample());
  uint32_t random = 7;
  size_t refused = 0, ran = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int k = 0; k <= i % 3; ++k) {
      random = random * 1664525u + 1013904223u;
      bytes[(random >> 8) % bytes.size()] = static_cast<uint8_t>(random >> 24);
    }
    HostGraph g;
    if (!decode_host_graph(bytes, g).ok()) {
      ++refused;
      continue;
    }
    std::vector<Tensor> in, out;
    uint64_t size = 0;
    for (const TensorKind &k : g.kinds) size += static_cast<uint64_t>(element_count(k.shape)) * dtype_bytes(k.dtype);
    if (size > 1 << 20) continue;
    for (const TensorKind &k : g.inputs) in.emplace_back(k.dtype, k.shape);
    (void)run_host_graph(g, in, out);
    ++ran;
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(ran, 100u);
}

TEST(HostGraph, OperandsLieInFrontOfTheirNode) {
  for (const int32_t operand : {3, 4, 1000, -2}) {
    HostGraph g = sample();
    g.nodes[0].operands[0] = operand;
    const std::string text = infer_host_graph(g).message();
    EXPECT_NE(text.find("operator 0: operand " + std::to_string(operand)), std::string::npos) << text;
  }
  HostGraph g = sample();
  g.outputs = {6};
  EXPECT_EQ(infer_host_graph(g).message(), "an output is value 6 of 6");
}

TEST(HostGraph, MoreMemoryThanItMayHaveIsRefused) {
  HostGraph g;
  g.inputs = {{Dtype::F32, {1}}};
  for (int i = 0; i < 3; ++i) g.nodes.push_back({Op::Expand, ShapeAttrs{{1 << 15, 1 << 15}}, {0}});
  g.outputs = {1, 2, 3};
  const std::string text = infer_host_graph(g).message();
  EXPECT_NE(text.find("operator 2"), std::string::npos) << text;
  EXPECT_NE(text.find("8 GiB"), std::string::npos) << text;
  g.outputs = {3};
  for (HostNode &n : g.nodes) n.attrs = ShapeAttrs{{1 << 15, 1 << 15}};
  EXPECT_EQ(infer_host_graph(g).message(), "") << "what nobody reads needs no memory";
}

TEST(SubNetGraph, TensorsWithoutATypeInTheFileAreBytes) {
  const StoredKind flags = stored_kind({Dtype::Bool, {3, 4}}), wide = stored_kind({Dtype::I64, {5}}),
                   plain = stored_kind({Dtype::I32, {5}});
  EXPECT_EQ(flags.bm_type, 3u);
  EXPECT_EQ(flags.shape, (Shape{12}));
  EXPECT_EQ(wide.shape, (Shape{40}));
  EXPECT_EQ(plain.bm_type, 6u);
  EXPECT_TRUE(holds({Dtype::U8, {40}}, {Dtype::I64, {5}}));
  EXPECT_FALSE(holds({Dtype::U8, {5}}, {Dtype::I64, {5}}));
  EXPECT_FALSE(holds({Dtype::U8, {20}}, {Dtype::I32, {5}}));
  EXPECT_FALSE(holds({Dtype::I32, {4}}, {Dtype::I32, {5}}));
  EXPECT_TRUE(holds({Dtype::I32, {5}}, {Dtype::I32, {1, 5}}));
}

TEST(SubNetGraph, TensorsThatDoNotFitAreNamed) {
  const std::vector<uint8_t> bytes = encode_host_graph(sample());
  const auto kind = [](Dtype type, Shape shape) {
    Tensor t;
    t.dtype = type;
    t.shape = std::move(shape);
    return t;
  };
  std::vector<Tensor> in{kind(Dtype::F32, {6}), kind(Dtype::U8, {16})},
      out{kind(Dtype::F32, {2}), kind(Dtype::F32, {6}), kind(Dtype::F32, {3})};
  HostGraph g;
  EXPECT_EQ(read_subnet_graph(bytes, in, out, g).message(), "");
  in[1].dtype = Dtype::I32;
  EXPECT_EQ(read_subnet_graph(bytes, in, out, g).message(), "input 1 is int32 [16], the graph has int64 [2]");
  in.pop_back();
  EXPECT_EQ(read_subnet_graph(bytes, in, out, g).message(), "1 inputs, the graph has 2");
}

}  // namespace
}  // namespace npu::cpu
