// SPDX-License-Identifier: MIT
// What the compiler says about files and options that it cannot use. Nothing here may crash, whatever the bytes.
#include <gtest/gtest.h>

#include "compiler/api/npuc.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

std::string message(const std::string &file, const compiler::Options &options = {}) {
  compiler::Compiled out;
  return compiler::compile_onnx(file.data(), file.size(), options, out).message();
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

OnnxBuilder small() {
  OnnxBuilder b;
  const std::string y =
      b.op("Relu", {b.op("Conv", {b.input({1, 2, 5, 5}, "picture"), b.weights({3, 2, 3, 3}), b.weights({3})})});
  b.output(b.op("Softmax", {b.op("Flatten", {y})}));
  return b;
}

TEST(Files, ThatAreNoOnnxFile) {
  EXPECT_SAYS(message(""), "empty");
  EXPECT_SAYS(message("#!/bin/sh\necho hello\n"), "not an ONNX file");
  EXPECT_SAYS(message(std::string(4096, '\xff')), "not an ONNX file");
  EXPECT_SAYS(message(std::string(4096, '\0')), "not an ONNX file");
  EXPECT_SAYS(message(std::string("\xee\xaa\x55\xff", 4) + std::string(60, '\0')),
              "a .bmodel, which is compiled already");
  compiler::Compiled out;
  EXPECT_SAYS(compiler::compile_onnx_file("/nonexistent/model.onnx", {}, out).message(),
              "cannot open /nonexistent/model.onnx: No such file");
  EXPECT_SAYS(compiler::compile_onnx_file("/", {}, out).message(), "/: ");
}

TEST(Files, EveryTruncationIsAnErrorOrTheWholeNetwork) {
  const std::string whole = small().bytes();
  ASSERT_EQ(message(whole), "");
  for (size_t n = 0; n < whole.size(); ++n) (void)message(whole.substr(0, n));
  EXPECT_NE(message(whole.substr(0, whole.size() / 2)), "");
}

TEST(Files, WithDamagedBytesNeverCrash) {
  const std::string whole = small().bytes();
  uint32_t random = 7;
  size_t refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int k = 0; k <= i % 3; ++k) {
      random = random * 1664525u + 1013904223u;
      damaged[(random >> 8) % damaged.size()] = static_cast<char>(random >> 24);
    }
    refused += !message(damaged).empty();
  }
  EXPECT_GT(refused, 100u);
}

TEST(Files, ExternalDataIsNamed) {
  OnnxBuilder b = small();
  auto &t = *b.model.mutable_graph()->mutable_initializer(0);
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  EXPECT_SAYS(message(b.bytes()), "external data");
  EXPECT_SAYS(message(b.bytes()), t.name());
}

TEST(Files, TensorsWhoseDataDoesNotFitTheirShape) {
  OnnxBuilder b = small();
  b.model.mutable_graph()->mutable_initializer(0)->set_dims(0, 4);
  EXPECT_SAYS(message(b.bytes()), "needs 72 elements, the file has 54");
  b.model.mutable_graph()->mutable_initializer(0)->set_dims(0, -3);
  EXPECT_SAYS(message(b.bytes()), "negative or too large");
  b.model.mutable_graph()->mutable_initializer(0)->set_dims(0, INT64_MAX);
  EXPECT_SAYS(message(b.bytes()), "negative or too large");
}

TEST(Files, NamesThatNobodyCouldSay) {
  OnnxBuilder in = small(), out = small(), zero = small(), graph = small();
  in.model.mutable_graph()->mutable_input(0)->set_name("");
  in.model.mutable_graph()->mutable_node(0)->set_input(0, "");
  EXPECT_SAYS(message(in.bytes()), "input 0 of the graph has no name");
  out.model.mutable_graph()->mutable_output(0)->set_name("");
  EXPECT_SAYS(message(out.bytes()), "output 0 of the graph has no name");
  zero.model.mutable_graph()->mutable_input(0)->set_name(std::string("pic\0ture", 8));
  EXPECT_SAYS(message(zero.bytes()), "the name of input 0 of the graph has a byte 0");
  graph.model.mutable_graph()->set_name(std::string("\0net", 4));
  EXPECT_SAYS(message(graph.bytes()), "the name of the graph has a byte 0");
}

TEST(Files, NetworksWithoutInputs) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.weights({4})}));
  EXPECT_SAYS(message(b.bytes()), "the network has no input");
}

TEST(Files, HugeInputs) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({1 << 20, 1 << 20}, "big")}));
  EXPECT_SAYS(message(b.bytes()), "input 'big'");
  EXPECT_SAYS(message(b.bytes()), "more than");
}

TEST(Files, HugeResults) {
  OnnxBuilder b;
  b.output(b.op("Add", {b.input({1 << 18, 1}), b.input({1, 1 << 18})}));
  EXPECT_SAYS(message(b.bytes()), "Add_0");
}

TEST(Files, OperatorSetsOutsideTheRange) {
  EXPECT_SAYS(message(OnnxBuilder(5).bytes()), "not an ONNX file");  // no outputs
  for (int64_t opset : {26, 99}) {
    OnnxBuilder b(opset);
    b.output(b.op("Relu", {b.input({3})}));
    EXPECT_SAYS(message(b.bytes()), "operator set " + std::to_string(opset));
  }
}

TEST(Operators, ThatAreMissingAreAllNamedAtOnce) {
  OnnxBuilder b;
  std::string x = b.op("Bernoulli", {b.input({2, 3})});
  b.named("first");
  for (int i = 0; i < 3; ++i) x = b.op("Bernoulli", {x});
  x = b.op("Relu", {x});
  x = b.op("Whatever", {x});
  b.named("second").model.mutable_graph()->mutable_node(5)->set_domain("com.example");
  b.output(b.op("TfIdfVectorizer", {x}));
  b.named("third");
  b.op("Unique", {x});  // nobody needs it
  const std::string text = message(b.bytes());
  EXPECT_SAYS(text, "6 nodes");
  EXPECT_SAYS(text,
              "\n  Bernoulli (4 nodes: 'first', 'Bernoulli_1', 'Bernoulli_2', ...): the operator is not supported\n");
  EXPECT_SAYS(text, "com.example.Whatever 'second'");
  EXPECT_SAYS(text, "TfIdfVectorizer 'third'");
  EXPECT_EQ(text.find("Relu"), std::string::npos) << text;
  EXPECT_EQ(text.find("Unique"), std::string::npos) << text;
}

TEST(Operators, UnsupportedFormsAreAllNamedAtOnce) {
  OnnxBuilder b;
  const std::string x = b.input({1, 2, 4, 4});
  const std::string pooled = b.op("MaxPool", {x});
  b.attr("kernel_shape", std::vector<int64_t>{2, 70000}).named("wide").output(pooled);
  b.output(b.op("Reshape", {b.input({1, 2, 5, 5}), b.input({1}, "late", onnx::TensorProto::INT64)}));
  b.named("shape_late");
  b.output(b.op("Relu", {pooled}));
  const std::string text = message(b.bytes());
  EXPECT_SAYS(text, "2 nodes cannot be compiled");
  EXPECT_SAYS(text, "MaxPool 'wide'");
  EXPECT_SAYS(text, "Reshape 'shape_late'");
  EXPECT_SAYS(text, "'late'");
}

TEST(Operators, AttributesOfAnotherTypeAreNamed) {
  OnnxBuilder axis, perm;
  axis.output(axis.op("Softmax", {axis.input({2, 3})}));
  axis.attr("axis", "0");
  EXPECT_SAYS(message(axis.bytes()), "Softmax 'Softmax_0': attribute axis has another type than expected: an integer");
  perm.output(perm.op("Transpose", {perm.input({2})}));
  perm.attr("perm", int64_t{0});
  EXPECT_SAYS(message(perm.bytes()), "attribute perm has another type than expected: a list of integers");
}

TEST(Operators, NamesDoNotReachTheTerminalAsTheyAre) {
  OnnxBuilder b;
  b.output(b.op("Bernoulli", {b.input({2})}));
  b.named("a\x1b[31m\nnpuc: b" + std::string(1000, 'c'));
  const std::string text = message(b.bytes());
  EXPECT_SAYS(text, "Bernoulli 'a?[31m?npuc: bccc");
  EXPECT_LT(text.size(), 400u);
}

TEST(Operators, ShapesThatDoNotFitNameTheNode) {
  OnnxBuilder b;
  b.output(b.op("MatMul", {b.input({2, 3}), b.input({4, 5})}));
  b.named("product");
  EXPECT_SAYS(message(b.bytes()), "MatMul 'product': operands [2, 3] and [4, 5]");
}

OnnxBuilder with_batch() {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({1, 3}, "x")}));
  b.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("N");
  return b;
}

TEST(Shapes, OpenDimensionsAreNamedWithTheOptionThatSetsThem) {
  const std::string text = message(with_batch().bytes());
  EXPECT_SAYS(text, "input 'x' has shape [N, 3]");
  EXPECT_SAYS(text, "--shape x=1,3");
}

/// All inputs are named at once, with sizes that work.
TEST(Shapes, AllOpenDimensionsAreNamedWithSizesThatWork) {
  const auto open = [](OnnxBuilder &b, int input, int dim, const char *symbol) {
    auto &shape =
        *b.model.mutable_graph()->mutable_input(input)->mutable_type()->mutable_tensor_type()->mutable_shape();
    symbol ? shape.mutable_dim(dim)->set_dim_param(symbol) : shape.mutable_dim(dim)->clear_value();
  };
  OnnxBuilder text, image;
  const std::string sum = text.op("Add", {text.input({1, 9}, "ids"), text.input({1, 9}, "mask")});
  text.output(text.op("Concat", {sum, text.input({1, 9}, "past")}));
  text.attr("axis", int64_t{1});
  text.output(text.op("Mul", {text.input({1, 9}, "all"), "Concat_1"}));
  text.model.mutable_graph()->mutable_node(2)->set_input(1, text.model.graph().node(1).output(0));
  for (int i = 0; i < 4; ++i) open(text, i, 0, "batch");
  const char *const names[] = {"sequence", "sequence", "past", "past + sequence"};
  for (int i = 0; i < 4; ++i) open(text, i, 1, names[i]);
  EXPECT_SAYS(message(text.bytes()),
              "inputs 'ids' [batch, sequence], 'mask' [batch, sequence], 'past' [batch, past] and 'all' [batch, past + "
              "sequence] have open dimensions, and a program needs fixed sizes: give them, for example with --shape "
              "ids=1,128 --shape mask=1,128 --shape past=1,128 --shape all=1,256");
  image.output(image.op("Conv", {image.input({1, 3, 9, 9}, "x"), image.weights({2, 3, 65, 65})}));
  for (int d : {0, 2, 3}) open(image, 0, d, nullptr);
  EXPECT_SAYS(message(image.bytes()), "for example with --shape x=1,3,224,224");
  // None of the sizes that are tried is right.
  OnnxBuilder odd;
  odd.output(odd.op("Reshape", {odd.input({1, 9}, "x"), odd.ints({-1, 10007})}));
  open(odd, 0, 1, "length");
  EXPECT_SAYS(message(odd.bytes()), "give them with --shape x=1,length, with numbers for the names");
  OnnxBuilder unknown;
  unknown.output(unknown.op("Relu", {unknown.input({1}, "x")}));
  unknown.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_SAYS(message(unknown.bytes()),
              "input 'x' has no shape in the file, and a program needs fixed sizes: give "
              "them with --shape x=D0,D1,...");
}

/// Which operator sets a file imports; com.microsoft has Gelu.
TEST(Files, MayImportOtherDomainsAlone) {
  const auto with = [](const char *domain, const char *op_domain, compiler::Compiled &out) {
    OnnxBuilder b;
    b.output(b.op("Gelu", {b.input({3})}));
    b.model.mutable_graph()->mutable_node(0)->set_domain(op_domain);
    b.model.clear_opset_import();
    if (*domain) b.model.add_opset_import()->set_domain(domain);
    if (*domain) b.model.mutable_opset_import(0)->set_version(1);
    const std::string file = b.bytes();
    return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
  };
  compiler::Compiled microsoft, standard, none;
  EXPECT_EQ(with("com.microsoft", "com.microsoft", microsoft), "");
  EXPECT_TRUE(microsoft.report.notes.empty());
  EXPECT_EQ(with("ai.onnx.ml", "", standard), "");
  ASSERT_EQ(standard.report.notes.size(), 1u);
  EXPECT_EQ(standard.report.notes[0], "the file imports no version of ONNX's operator set: version 25 is taken");
  EXPECT_SAYS(with("", "", none), "the file names no operator set");
}

/// Help that would have helped.
TEST(Help, FitsTheProblem) {
  const auto help = [](OnnxBuilder b, const char *domain = "") {
    for (auto &n : *b.model.mutable_graph()->mutable_node()) n.set_domain(domain);
    compiler::Compiled out;
    const std::string file = b.bytes();
    EXPECT_FALSE(compiler::compile_onnx(file.data(), file.size(), {}, out).ok());
    return out.refusal.findings.empty() ? out.refusal.help : out.refusal.findings.list[0].help;
  };
  const auto one = [](const char *type) {
    OnnxBuilder b;
    b.output(b.op(type, {b.input({2, 3})}));
    return b;
  };
  EXPECT_SAYS(help(one("Crop")), "export with Slice");
  EXPECT_EQ(help(one("Crop")).find("Clip"), std::string::npos);
  EXPECT_SAYS(help(one("LayerNorm")), "export with LayerNormalization");
  EXPECT_SAYS(help(one("Rely")), "is 'Relu' meant?");
  EXPECT_SAYS(help(one("Cast2")), "is 'Cast' meant?");
  EXPECT_SAYS(help(one("Grid")), "define it in the file as a function");
  EXPECT_SAYS(help(one("Whatever"), "com.microsoft"), "define it in the file as a function");
  OnnxBuilder type, size;
  type.output(type.op("MatMul", {type.input({2, 2}, "", onnx::TensorProto::UINT8), type.input({2, 2})}));
  EXPECT_SAYS(help(type), "put a Cast");
  size.output(size.op("Expand", {size.input({1}), size.ints({1 << 20, 1 << 20})}));
  EXPECT_SAYS(help(size), "sizes");
}

TEST(Shapes, GivenOnesAreUsed) {
  compiler::Options options;
  ASSERT_TRUE(compiler::parse_shape("x=4,3", options.shapes).ok());
  compiler::Compiled out;
  const std::string file = with_batch().bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, out);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out.net.stages[0].inputs[0].shape, (std::vector<uint64_t>{4, 3}));
  EXPECT_EQ(out.net.stages[0].outputs[0].shape, (std::vector<uint64_t>{4, 3}));
}

TEST(Shapes, GivenOnesThatContradictTheFile) {
  const auto with = [](const char *text) {
    compiler::Options options;
    EXPECT_TRUE(compiler::parse_shape(text, options.shapes).ok());
    return message(with_batch().bytes(), options);
  };
  EXPECT_SAYS(with("x=4,5"), "the model has [N, 3]");
  EXPECT_SAYS(with("x=4"), "1 dimensions");
  EXPECT_SAYS(with("y=4,3"), "the inputs are 'x'");
}

TEST(Options, LocalMemoryOutsideTheRange) {
  for (int64_t bytes : {int64_t{0}, int64_t{4096}, int64_t{65536 + 1}, int64_t{1} << 40}) {
    compiler::Options options;
    options.lmem_bytes = bytes;
    EXPECT_SAYS(message(small().bytes(), options), "local memory of " + std::to_string(bytes));
  }
}

TEST(Options, SizesAndShapesAsPeopleTypeThem) {
  int64_t n = 0;
  EXPECT_TRUE(compiler::parse_size("64K", n) && n == 65536);
  EXPECT_TRUE(compiler::parse_size("8MiB", n) && n == 8 << 20);
  EXPECT_TRUE(compiler::parse_size("65536", n) && n == 65536);
  for (const char *bad : {"", "K", "-1", "8X", "9999999999999M", "8 M"})
    EXPECT_FALSE(compiler::parse_size(bad, n)) << bad;
  std::map<std::string, graph::Shape> shapes;
  EXPECT_TRUE(compiler::parse_shape("a=b=1,2", shapes).ok());
  EXPECT_EQ(shapes.at("a=b"), (graph::Shape{1, 2}));
  for (const char *bad : {"", "x", "=1", "x=", "x=1,", "x=0", "x=-1", "x=1,,2", "x=a", "a=b=3"})
    EXPECT_FALSE(compiler::parse_shape(bad, shapes).ok()) << bad;
}

}  // namespace
}  // namespace npu::test
