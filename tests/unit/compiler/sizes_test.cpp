// SPDX-License-Identifier: MIT
// Sizes and structures that strain tiling, in the smallest local memory and in the usual one. The expected values come
// from the evaluator, which oracle_test.cpp holds to numpy.
#include <gtest/gtest.h>

#include <functional>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

struct Net {
  const char *name;
  std::function<void(OnnxBuilder &)> build;
  int64_t opset = 13;
};

using B = OnnxBuilder;
using Ints = std::vector<int64_t>;

void conv(B &b, const Dims &x, const Dims &w, const Ints &pads) {
  const std::string y = b.op("Conv", {b.input(x), b.weights(w), b.weights({w[0]})});
  b.attr("pads", pads).output(y);
}

/// A convolution whose weights are an input.
void made_weights(B &b, const char *type, const Dims &x, const Dims &w, const Ints &strides, const Ints &dilations,
                  int64_t group = 1) {
  const std::string y = b.op(type, {b.input(x), b.input(w)});
  b.attr("strides", strides).attr("dilations", dilations).attr("group", group).output(y);
}

/// Weights that the network makes, and reads elsewhere, too; in both forms of them there are as many elements as in the
/// result.
void weights_of_the_network(B &b) {
  const std::string w = b.op("Reshape", {b.op("MatMul", {b.input({16, 5}), b.input({5, 36})}), b.ints({16, 4, 3, 3})});
  const std::string y = b.op("Conv", {b.input({1, 4, 6, 6}), w, b.weights({16})});
  b.attr("pads", Ints{1, 1, 1, 1});
  b.output(b.op("Relu", {b.op("Add", {y, b.input({1, 16, 6, 6})})})).output(b.op("Tanh", {w}));
}

void unary(B &b, const char *type, const Dims &x, int64_t axis) {
  const std::string y = b.op(type, {b.input(x)});
  b.attr("axis", axis).output(y);
}

void global(B &b, const char *type, const Dims &x) { b.output(b.op(type, {b.input(x)})); }

void matmul(B &b, const Dims &x, const Dims &y) { b.output(b.op("MatMul", {b.input(x), b.input(y)})); }

void transpose(B &b, const Dims &x, const Ints &perm) {
  const std::string y = b.op("Transpose", {b.input(x)});
  b.attr("perm", perm).output(y);
}

void pool(B &b, const char *type, const Dims &x, const Ints &kernel, const Ints &strides, const Ints &pads) {
  const std::string y = b.op(type, {b.input(x)});
  b.attr("kernel_shape", kernel).attr("strides", strides).attr("pads", pads).output(y);
}

/// A large input, whose first operators are computed in bands of rows.
void bands(B &b, const char *type, int64_t count_pad) {
  const std::string x = b.op("Relu", {b.op("Conv", {b.input({1, 3, 99, 250}), b.weights({8, 3, 3, 3})})});
  const std::string y = b.op(type, {x});
  b.attr("kernel_shape", Ints{5, 3}).attr("strides", Ints{3, 1}).attr("pads", Ints{2, 1, 1, 0});
  if (count_pad) b.attr("count_include_pad", count_pad);
  const std::string z = b.op("Conv", {y, b.weights({4, 8, 3, 3})});
  b.attr("pads", Ints{1, 2, 3, 0}).attr("dilations", Ints{2, 1});
  b.output(b.op("GlobalMaxPool", {z})).output(z);
}

void channel_shuffle(B &b) {
  const std::string x = b.op("Conv", {b.input({1, 3, 9, 9}), b.weights({8, 3, 3, 3})});
  const std::string split = b.op("Transpose", {b.op("Reshape", {x, b.ints({1, 4, 2, 7, 7})})});
  b.attr("perm", Ints{0, 2, 1, 3, 4});
  const std::string back = b.op("Reshape", {split, b.ints({1, 8, 7, 7})});
  b.output(b.op("Conv", {back, b.weights({5, 8, 1, 1})}));
}

void dense_block(B &b) {
  std::string x = b.input({1, 6, 11, 13});
  for (int i = 0; i < 3; ++i) {
    const std::string y = b.op("Relu", {b.op("Conv", {x, b.weights({4, 6 + 4 * i, 1, 1})})});
    x = b.op("Concat", {x, y});
    b.attr("axis", int64_t{1});
  }
  b.output(x).output(b.op("GlobalAveragePool", {x}));
}

void moves(B &b) {
  const std::string x = b.input({2, 6, 5, 7});
  const std::string s = b.op("Slice", {x, b.ints({5, 1}), b.ints({-7, 6}), b.ints({1, 3}), b.ints({-2, 2})});
  b.output(s);
  const std::string g = b.op("Gather", {x, b.ints({4, 0, 0, 3, -1})});
  b.attr("axis", int64_t{2}).output(g);
  b.output(b.op("Expand", {b.op("Unsqueeze", {x, b.ints({2})}), b.ints({2, 6, 3, 5, 7})}));
  const std::string p = b.op("Pad", {x, b.ints({0, 1, 2, -1, 0, 0, 3, 2}), b.scalar(0.75f)});
  b.output(p);
  b.output(b.op("Relu", {p}));
  const std::string r = b.op("Resize", {x, "", b.weights({0}), b.ints({2, 6, 10, 9})});
  b.attr("mode", "nearest").attr("coordinate_transformation_mode", "half_pixel").output(r);
  const std::string d = b.op("SpaceToDepth", {b.op("Slice", {x, b.ints({0, 0}), b.ints({4, 6}), b.ints({2, 3})})});
  b.attr("blocksize", int64_t{2}).output(d);
}

void same_everywhere(B &b) {
  const std::string x = b.input({3, 5});
  const std::string i = b.op("Identity", {x});
  const std::string y = b.op("Relu", {x}), z = b.op("Identity", {y});
  b.output(i)
      .output(y)
      .output(z)
      .output(b.op("Reshape", {y, b.ints({5, 3})}))
      .output(b.op("Add", {b.scalar(1), b.scalar(2)}));
}

void hard(B &b) {
  const std::string x = b.input({1, 4, 6, 5});
  b.output(b.op("HardSwish", {x})).output(b.op("HardSigmoid", {x})).output(b.op("Neg", {x}));
  b.output(b.op("Sum", {x, x, b.weights({5})}))
      .output(b.op("Max", {x, b.scalar(0.25f)}))
      .output(b.op("Min", {x, b.weights({6, 1})}));
}

/// Tensors of 50 KiB with lives that cross: in 64 KiB of local memory they go to memory and come back.
void crossing_lives(B &b) {
  const std::string x = b.input({1, 8, 40, 40});
  std::vector<std::string> all{x};
  for (int i = 0; i < 6; ++i) {
    std::string y = b.op("Conv", {all.back(), b.weights({8, 8, 3, 3})});
    b.attr("pads", Ints{1, 1, 1, 1});
    y = b.op("Tanh", {y});
    if (i >= 2) y = b.op("Add", {y, all[static_cast<size_t>(i) - 1]});
    all.push_back(y);
  }
  std::string sum = b.op("Mul", {all[1], all[6]});
  sum = b.op("Sub", {sum, all[3]});
  b.output(b.op("Add", {sum, all[5]}));
}

/// Operands that are read again after an operator that could have overwritten them.
void read_again(B &b, const Dims &dims) {
  const std::string y = b.op("Conv", {b.input(dims), b.weights({dims[1], dims[1], 1, 1})});
  const std::string s = b.op("Sigmoid", {y}), t = b.op("Tanh", {y}), soft = b.op("Softmax", {y});
  const std::string p = b.op("Mul", {s, t}), q = b.op("Sub", {p, y});
  b.output(q).output(b.op("Add", {b.op("Mul", {q, q}), soft}));
  b.output(b.op("Add", {b.op("Relu", {q}), p}));
}

/// Sums of which one operand or both come from a convolution: of its input, of another convolution, of a constant, of
/// what is read again, of what broadcasts.
void sums(B &b, const Dims &dims) {
  const int64_t c = dims[1];
  const std::string x = b.input(dims);
  const auto conv = [&](const std::string &from, int64_t kernel) {
    Dims w{c, c};
    w.insert(w.end(), dims.size() - 2, kernel);
    const std::string y = b.op("Conv", {from, b.weights(w), b.weights({c})});
    b.attr("pads", Ints(2 * (dims.size() - 2), kernel / 2));
    return y;
  };
  const std::string p = b.op("Relu", {b.op("Add", {conv(x, 3), x})});
  const std::string q = b.op("Add", {conv(p, 1), conv(p, 3)});
  const std::string r = b.op("LeakyRelu", {b.op("Add", {p, conv(q, 3)})});
  const std::string s = conv(r, 1), t = b.op("Add", {s, s}), u = b.op("Add", {b.op("Relu", {conv(r, 3)}), t});
  Dims all = dims;
  all[0] = 1;
  const std::string v = b.op("Add", {conv(u, 3), b.weights(all)});
  const std::string row = b.op("Softmax", {b.op("GlobalMaxPool", {v})});
  const std::string w = b.op("Add", {conv(v, 3), row});
  const std::string joined = b.op("Concat", {b.op("Add", {conv(w, 1), r}), w});
  b.attr("axis", int64_t{1}).output(q).output(w).output(joined);
}

const Net kNets[] = {
    {"crossing_lives", crossing_lives},
    {"sums",
     [](B &b) {
       sums(b, {1, 6, 9, 11});
     }},
    {"sums_large",
     [](B &b) {
       sums(b, {1, 8, 50, 41});
     }},
    {"sums_many_channels",
     [](B &b) {
       sums(b, {2, 150, 5, 3});
     }},
    {"sums_lines",
     [](B &b) {
       sums(b, {3, 5, 700});
     }},
    {"read_again",
     [](B &b) {
       read_again(b, {1, 3, 7, 6});
     }},
    {"read_again_large",
     [](B &b) {
       read_again(b, {1, 4, 50, 41});
     }},
    {"conv_wide_rows",
     [](B &b) {
       conv(b, {1, 2, 3, 20000}, {3, 2, 3, 3}, {1, 1, 1, 1});
     }},
    {"conv_kernel_beyond_local_memory",
     [](B &b) {
       conv(b, {1, 1, 205, 203}, {2, 1, 200, 200}, {0, 0, 3, 2});
     }},
    {"conv_pads_beyond_the_picture",
     [](B &b) {
       conv(b, {1, 2, 3, 3}, {3, 2, 2, 2}, {9, 7, 8, 6});
     }},
    {"conv_tiles_behind_the_picture",
     [](B &b) {
       conv(b, {1, 8, 30, 30}, {16, 8, 3, 3}, {0, 0, 60, 60});
     }},
    {"conv_negative_pads",
     [](B &b) {
       conv(b, {1, 3, 9, 9}, {4, 3, 3, 3}, {-1, 1, 2, -2});
     }},
    {"conv_many_channels",
     [](B &b) {
       conv(b, {1, 3000, 3, 3}, {70, 3000, 3, 3}, {1, 1, 1, 1});
     }},
    {"conv_batches",
     [](B &b) {
       conv(b, {7, 5, 6, 6}, {3, 5, 3, 3}, {1, 1, 1, 1});
     }},
    {"average_of_a_large_picture",
     [](B &b) {
       global(b, "GlobalAveragePool", {1, 2, 301, 293});
     }},
    {"maximum_of_a_large_picture",
     [](B &b) {
       global(b, "GlobalMaxPool", {2, 3, 201, 209});
     }},
    {"average_in_three_dimensions",
     [](B &b) {
       global(b, "GlobalAveragePool", {2, 3, 4, 5, 6});
     }},
    // 40009 is a prime number: no piece of it is as long as the others.
    {"average_of_a_long_line",
     [](B &b) {
       global(b, "GlobalAveragePool", {1, 2, 40009});
     }},
    {"maximum_of_a_long_line",
     [](B &b) {
       global(b, "GlobalMaxPool", {1, 2, 40009});
     }},
    {"average_of_a_long_line_in_equal_pieces",
     [](B &b) {
       global(b, "GlobalAveragePool", {1, 1, 1, 129, 128});
     }},
    {"maximum_in_four_dimensions",
     [](B &b) {
       global(b, "GlobalMaxPool", {1, 1, 1, 23, 30, 24});
     }},
    {"pool_window_beyond_local_memory",
     [](B &b) {
       pool(b, "AveragePool", {1, 1, 260, 250}, {150, 140}, {50, 60}, {7, 8, 9, 10});
     }},
    {"pool_long",
     [](B &b) {
       pool(b, "MaxPool", {2, 40, 3000}, {5}, {3}, {2, 1});
     }},
    {"softmax_long_rows",
     [](B &b) {
       unary(b, "Softmax", {2, 40000}, -1);
     }},
    {"log_softmax_long_rows",
     [](B &b) {
       unary(b, "LogSoftmax", {2, 40000}, 1);
     }},
    {"softmax_outer_axis",
     [](B &b) {
       unary(b, "Softmax", {20000, 3}, 0);
     }},
    {"matmul_long_sums",
     [](B &b) {
       matmul(b, {2, 50000}, {50000, 3});
     }},
    {"matmul_batches_broadcast",
     [](B &b) {
       matmul(b, {2, 1, 5, 7}, {3, 7, 4});
     }},
    {"matmul_batches_crossed",
     [](B &b) {
       matmul(b, {2, 1, 2, 3, 4}, {1, 3, 2, 4, 5});
     }},
    {"matmul_vectors", [](B &b) { matmul(b, {9}, {9}); }},
    {"matmul_many_batches",
     [](B &b) {
       matmul(b, {300, 9, 11}, {300, 11, 8});
     }},
    {"transpose_large",
     [](B &b) {
       transpose(b, {700, 300}, {1, 0});
     }},
    {"transpose_six",
     [](B &b) {
       transpose(b, {2, 3, 4, 5, 6, 7}, {5, 1, 3, 0, 4, 2});
     }},
    {"transpose_eight",
     [](B &b) {
       transpose(b, {2, 3, 2, 3, 2, 3, 2, 3}, {7, 5, 3, 1, 6, 4, 2, 0});
     }},
    {"binary_seven_dims",
     [](B &b) {
       b.output(b.op("Mul", {b.input({2, 1, 3, 1, 4, 1, 5}), b.input({1, 3, 1, 2, 1, 3, 1})}));
     }},
    {"binary_large_outer_product",
     [](B &b) {
       b.output(b.op("Sub", {b.input({300, 1}), b.input({1, 900})}));
     }},
    {"bands", [](B &b) { bands(b, "MaxPool", 0); }},
    {"bands_average", [](B &b) { bands(b, "AveragePool", 0); }},
    {"bands_average_pad", [](B &b) { bands(b, "AveragePool", 1); }},
    {"made_weights_groups",
     [](B &b) {
       made_weights(b, "Conv", {2, 6, 19, 17}, {8, 3, 3, 2}, {2, 1}, {1, 3}, 2);
     }},
    {"made_weights_line",
     [](B &b) {
       made_weights(b, "Conv", {1, 4, 5000}, {5, 4, 3}, {1}, {2});
     }},
    {"made_weights_tiles",
     [](B &b) {
       made_weights(b, "Conv", {1, 16, 120, 120}, {28, 16, 3, 3}, {1, 1}, {1, 1});
     }},
    {"made_weights_depthwise",
     [](B &b) {
       made_weights(b, "Conv", {1, 70, 40, 40}, {70, 1, 3, 3}, {1, 1}, {1, 1}, 70);
     }},
    {"made_weights_most",
     [](B &b) {
       made_weights(b, "Conv", {1, 64, 20, 20}, {1, 64, 8, 8}, {1, 1}, {1, 1});
     }},
    {"made_weights_wide",
     [](B &b) {
       made_weights(b, "Conv", {1, 4, 60, 60}, {9, 4, 2, 2}, {1, 1}, {31, 31});
     }},
    {"made_weights_transposed",
     [](B &b) {
       made_weights(b, "ConvTranspose", {1, 6, 9, 11}, {6, 4, 3, 3}, {2, 3}, {1, 2});
     }},
    {"weights_of_the_network", weights_of_the_network},
    {"channel_shuffle", channel_shuffle},
    {"dense_block", dense_block},
    {"moves", moves},
    {"same_everywhere", same_everywhere},
    {"hard", hard, 14},
};

class Sizes : public testing::TestWithParam<std::tuple<Net, int64_t>> {};

TEST_P(Sizes, ChipAgreesWithEvaluator) {
  const auto &[net, lmem] = GetParam();
  OnnxBuilder builder(net.opset);
  net.build(builder);
  const std::string file = builder.bytes();
  compiler::Options options;
  options.lmem_bytes = lmem;
  compiler::Compiled compiled;
  Status status = compiler::compile_onnx(file.data(), file.size(), options, compiled);
  ASSERT_TRUE(status.ok()) << status.message();
  const graph::Graph g = import_graph(file);
  std::vector<graph::Tensor> inputs, outputs;
  std::vector<std::vector<float>> values;
  uint32_t random = 99;
  for (graph::ValueId v : g.inputs) {
    auto &x = values.emplace_back(static_cast<size_t>(graph::element_count(g[v].shape)));
    for (float &f : x) f = static_cast<float>((random = random * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
    inputs.push_back(*graph::make_f32(g[v].shape, x));
  }
  ASSERT_TRUE(graph::evaluate_graph(g, inputs, outputs).ok());
  const bmodel::StageDesc &stage = compiled.net.stages[0];
  EXPECT_LE(stage.lmem_bytes, static_cast<uint64_t>(lmem));
  const ChipResult result = run_on_chip(stage, values, lmem);
  EXPECT_EQ(result.cycles, stage.cycles);
  ASSERT_EQ(result.outputs.size(), outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::vector<float> want(outputs[k].as<float>(), outputs[k].as<float>() + outputs[k].count());
    EXPECT_EQ(compare(result.outputs[k], want, 1e-4), "") << "output " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nets, Sizes, testing::Combine(testing::ValuesIn(kNets), testing::Values(int64_t{64} << 10, int64_t{8} << 20)),
    [](const auto &p) {
      return std::string(std::get<0>(p.param).name) + "_" + std::to_string(std::get<1>(p.param) >> 10) + "KiB";
    });

}  // namespace
}  // namespace npu::test
