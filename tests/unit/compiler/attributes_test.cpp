// SPDX-License-Identifier: MIT
// Attributes that an operator does not have: a network with one is refused, whatever the operator would make of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/api/npuc.h"
#include "compiler/import/known_attributes.h"
#include "compiler/import/op_context.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

std::string refusal(const OnnxBuilder &b) {
  compiler::Compiled out;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
}

/// A pooling of an operator set with an attribute more.
OnnxBuilder pool(int64_t opset, const char *attribute) {
  OnnxBuilder b(opset);
  b.output(b.op("AveragePool", {b.input({1, 1, 4, 4})}));
  b.attr("kernel_shape", std::vector<int64_t>{2, 2}).attr(attribute, int64_t{0}).named("mean");
  return b;
}

TEST(Attributes, ThatNoOperatorHasAreNamedWithThoseThatItHas) {
  EXPECT_EQ(refusal(pool(18, "ceilmode")),
            "one node cannot be compiled:\n  AveragePool 'mean': attribute 'ceilmode' is not one of AveragePool in "
            "operator set 18; its attributes are: auto_pad, ceil_mode, count_include_pad, kernel_shape, pads, strides");
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({3})}));
  b.attr("alpha", 0.5f);
  EXPECT_EQ(refusal(b),
            "one node cannot be compiled:\n  Relu 'Relu_0': attribute 'alpha' is not one of Relu in operator set 13; "
            "its attributes are: none");
}

TEST(Attributes, OfAnotherOperatorSetAreNamedWithIt) {
  EXPECT_EQ(refusal(pool(10, "ceil_mode")), "");
  EXPECT_NE(refusal(pool(9, "ceil_mode")).find("in operator set 9, it comes with operator set 10; its"),
            std::string::npos)
      << refusal(pool(9, "ceil_mode"));
  for (const int64_t opset : {7, 9}) {
    OnnxBuilder b(opset);
    b.output(b.op("BatchNormalization",
                  {b.input({1, 2, 3}), b.weights({2}), b.weights({2}), b.floats({0, 0}), b.floats({1, 1})}));
    b.attr("spatial", int64_t{1});
    const std::string text = refusal(b);
    EXPECT_EQ(text.find("it ended before operator set 9; its attributes are: epsilon, momentum") != text.npos,
              opset == 9)
        << text;
    EXPECT_EQ(text.empty(), opset == 7) << text;
  }
}

TEST(Attributes, AreNamedAtOnceAndWithoutControlCharacters) {
  OnnxBuilder b;
  const std::string x = b.input({3});
  for (const char *type : {"Relu", "Relu", "Exp"}) {
    b.output(b.op(type, {x}));
    b.attr(type[0] == 'R' ? "x" : "a\x1b[31mb", int64_t{1});
  }
  const std::string text = refusal(b);
  EXPECT_NE(text.find("3 nodes cannot be compiled:\n  Relu (2 nodes: 'Relu_0', 'Relu_1'): attribute 'x' is"), text.npos)
      << text;
  EXPECT_NE(text.find("\n  Exp 'Exp_2': attribute 'a?[31mb' is not one of Exp in"), text.npos) << text;
}

TEST(Attributes, OfABodyAreLookedAt) {
  OnnxBuilder b, body;
  body.output(body.op("Relu", {"x"}));
  body.attr("slope", 1.0f);
  b.input({2}, "x");
  b.output(b.op("If", {b.input({1}, "flag", onnx::TensorProto::BOOL)}));
  b.attr("then_branch", body).attr("else_branch", body);
  EXPECT_NE(refusal(b).find("attribute 'slope' is not one of Relu"), std::string::npos) << refusal(b);
}

/// Tools leave notes, which operators do not read.
TEST(Attributes, ThatAreNotesAreLeftAlone) {
  EXPECT_EQ(refusal(pool(13, "_from_pytorch")), "");
  EXPECT_EQ(refusal(pool(13, "doc_string")), "");
}

/// An operator that comes later than the file says has the attributes of its first version.
TEST(Attributes, OfOperatorsThatTheOperatorSetDoesNotHaveYet) {
  OnnxBuilder b(13);
  b.output(b.op("Gelu", {b.input({3})}));
  b.attr("approximate", "tanh");
  EXPECT_EQ(refusal(b), "");
  b.attr("other", "tanh");
  EXPECT_NE(refusal(b).find("its attributes are: approximate"), std::string::npos) << refusal(b);
}

TEST(AttributeTable, IsSortedAndHasEveryOperatorThatIsImported) {
  const auto all = graph::attribute_names();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const auto &a, const auto &b) {
    return std::tie(a.op, a.since) < std::tie(b.op, b.since);
  }));
  for (const auto table :
       {graph::window_ops(), graph::matrix_ops(), graph::eltwise_ops(), graph::shape_ops(), graph::move_ops(),
        graph::resize_ops(), graph::activation_ops(), graph::norm_ops(), graph::control_ops(), graph::reduce_ops(),
        graph::logic_ops(), graph::index_ops(), graph::recurrent_ops(), graph::sample_ops(), graph::signal_ops(),
        graph::loss_ops(), graph::quantize_ops(), graph::quantized_product_ops()})
    for (const graph::OpEntry &op : table)
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto &row) { return row.op == op.type; })) << op.type;
}

}  // namespace
}  // namespace npu::test
