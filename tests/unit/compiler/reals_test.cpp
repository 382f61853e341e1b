// SPDX-License-Identifier: MIT
// Networks in 16 bits on the chip against the same in float32: masks, and operators at the limits of the types. An
// operator in front makes every operand one of 16 bits, and one behind reads its result so. All numbers that enter are
// numbers of both types: what differs is due to the operator between.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/graph/evaluate.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Shape;
using graph::Tensor;

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int kBool = onnx::TensorProto::BOOL, kInt32 = onnx::TensorProto::INT32;

/// The largest relative error of a rounding.
double unit_of(Dtype half) { return half == Dtype::F16 ? 0x1p-11 : 0x1p-8; }

Tensor tensor(const Shape &shape, const std::vector<float> &values, Dtype type = Dtype::F32) {
  Tensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i)
    cpu::store(t, i, static_cast<double>(values[static_cast<size_t>(i) % values.size()]));
  return t;
}

/// x times the unit matrix: in 16 bits the same numbers.
std::string same(OnnxBuilder &b, const std::string &x, int64_t n) {
  std::vector<float> unit(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) unit[static_cast<size_t>(i * n + i)] = 1;
  return b.op("MatMul", {x, b.constant({n, n}, unit)});
}

/// Computes on the chip with results of that type; an error fails the test.
std::vector<Tensor> on_chip(const OnnxBuilder &b, const std::vector<Tensor> &inputs, Dtype reals) {
  compiler::Options options;
  options.reals = reals;
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, compiled);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  StageResult result = run_stage(compiled.net.stages[0], inputs, options.lmem_bytes);
  EXPECT_EQ(result.error, "");
  return std::move(result.outputs);
}

/// `roundings` of each element, of its size or of `size`, and what float32 itself leaves open, may lie between.
void expect_like_single(const OnnxBuilder &b, const std::vector<Tensor> &inputs, double roundings, double size = 0) {
  std::vector<Tensor> wanted;
  ASSERT_EQ(graph::evaluate_graph(import_graph(b.bytes()), inputs, wanted).message(), "");
  for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
    SCOPED_TRACE(graph::dtype_name(half));
    const std::vector<Tensor> got = on_chip(b, inputs, half);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t k = 0; k < got.size(); ++k)
      for (int64_t i = 0; i < wanted[k].count(); ++i) {
        const double is = cpu::load(got[k], i), want = cpu::load(wanted[k], i);
        const double allowed = roundings * unit_of(half) * std::max(std::fabs(want), size) + 1e-6;
        EXPECT_TRUE(std::fabs(is - want) <= allowed || (std::isnan(is) && std::isnan(want)) || is == want)
            << "output " << k << " element " << i << " is " << is << ", expected " << want << " +- " << allowed;
      }
  }
}

// Masks.

/// Scores of four queries for four keys, and what of them is masked: nothing, the last keys, all keys but one, all.
const std::vector<float> kScores{1, 0.5f, -2, 3, 0, 4, -1, 2, 2, 2, -3, 1, 1.5f, -0.5f, 2.5f, 0.25f};
const std::vector<float> kCounts{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};

std::vector<float> masks(float masked) {
  std::vector<float> out;
  for (float c : kCounts) out.push_back(c > 0 ? 0 : masked);
  return out;
}

/// A network from scores [4, 4] and a mask to the masked scores, and the data of its inputs behind the first.
struct Masking {
  const char *name;
  std::function<std::string(OnnxBuilder &, const std::string &scores, float masked, std::vector<Tensor> &data)> make;
};

std::string mask_input(OnnxBuilder &b, const std::vector<float> &values, std::vector<Tensor> &data) {
  data.push_back(tensor({4, 4}, values));
  return b.input({4, 4}, "mask");
}

const Masking kMaskings[] = {
    {"a constant",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &) {
       return b.op("Add", {x, b.constant({4, 4}, masks(masked))});
     }},
    {"an input",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       return b.op("Add", {x, mask_input(b, masks(masked), data)});
     }},
    {"an input behind moves",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       std::string m = b.op("Unsqueeze", {mask_input(b, masks(masked), data), b.ints({0})});
       m = b.op("Concat", {m, m});
       b.attr("axis", int64_t{0});
       return b.op("Add", {b.op("Slice", {m, b.ints({1}), b.ints({2}), b.ints({0})}), x});
     }},
    {"(1 - m) * L",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       const std::string m = b.op("Sub", {b.scalar(1), mask_input(b, kCounts, data)});
       return b.op("Add", {x, b.op("Mul", {m, b.scalar(masked)})});
     }},
    {"(m - 1) / l",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       const std::string m = b.op("Sub", {mask_input(b, kCounts, data), b.scalar(1)});
       return b.op("Add", {b.op("Div", {m, b.scalar(-1 / masked)}), x});
     }},
    {"Where",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       data.push_back(tensor({4, 4}, kCounts, Dtype::U8));
       return b.op("Where", {b.input({4, 4}, "mask", kBool), x, b.scalar(masked)});
     }},
    {"a sum with Where",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       data.push_back(tensor({4, 4}, kCounts, Dtype::U8));
       return b.op("Add", {x, b.op("Where", {b.input({4, 4}, "mask", kBool), b.scalar(0), b.scalar(masked)})});
     }},
    {"scaled after the sum",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &) {
       return b.op("Mul", {b.op("Add", {x, b.constant({4, 4}, masks(masked))}), b.scalar(0.125f)});
     }},
    {"two masks",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       const std::string y = b.op("Add", {x, b.constant({4, 4}, masks(masked / 2))});
       return b.op("Add", {y, mask_input(b, masks(masked / 2), data)});
     }},
    {"integers",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       data.push_back(tensor({4, 4}, kCounts, Dtype::I32));
       const std::string m = b.op("Cast", {b.input({4, 4}, "mask", kInt32)});
       b.attr("to", int64_t{onnx::TensorProto::FLOAT});
       return b.op("Add", {x, b.op("Mul", {b.op("Sub", {b.scalar(1), m}), b.scalar(masked)})});
     }},
    {"a maximum behind the sum",
     [](OnnxBuilder &b, const std::string &x, float masked, std::vector<Tensor> &data) {
       return b.op("Max", {b.op("Add", {x, mask_input(b, masks(masked), data)}), b.scalar(masked)});
     }},
};

/// The scores are numbers of both types, so that a weight has the roundings of its own computation alone.
TEST(Reals, MasksInFrontOfASoftmax) {
  for (const Masking &masking : kMaskings)
    for (const float masked : {kLowest, -1e9f, -1e5f, -65504.0f, -1e4f, -300.0f, -100.0f})
      for (const char *type : {"Softmax", "LogSoftmax", "entropy", "spelled out"}) {
        if (std::string(type) != "Softmax" && masked != kLowest && masked != -1e4f) continue;
        SCOPED_TRACE(std::string(masking.name) + ", " + std::to_string(masked) + ", " + type);
        OnnxBuilder b;
        std::vector<Tensor> data{tensor({4, 4}, kScores)};
        std::string y = same(b, b.input({4, 4}, "x"), 4);
        y = masking.make(b, y, masked, data);
        if (std::string(type) == "spelled out") {
          const std::string top = b.op("ReduceMax", {y});
          b.attr("axes", std::vector<int64_t>{-1});
          y = b.op("Exp", {b.op("Sub", {y, top})});
          y = b.op("Div", {y, b.op("ReduceSum", {y, b.ints({-1})})});
        } else if (std::string(type) == "entropy") {
          y = b.op("Mul", {b.op("Softmax", {y}), b.op("LogSoftmax", {y})});
        } else {
          y = b.op(type, {y});
        }
        // Logarithms of masked weights are no numbers of 16 bits.
        b.output(type == std::string("LogSoftmax") ? y : same(b, y, 4));
        ASSERT_NO_FATAL_FAILURE(expect_like_single(b, data, 3, 1));
      }
}

/// A maximum of masked scores, alone and with a comparison that finds it.
TEST(Reals, MasksInFrontOfAMaximum) {
  for (const Masking &masking : kMaskings)
    for (const float masked : {kLowest, -1e9f, -1e4f})
      for (const bool compared : {true, false}) {
        if (!compared && masked != kLowest) continue;
        SCOPED_TRACE(std::string(masking.name) + ", " + std::to_string(masked) + (compared ? "" : ", alone"));
        OnnxBuilder b;
        std::vector<Tensor> data{tensor({4, 4}, kScores)};
        std::string y = same(b, b.input({4, 4}, "x"), 4);
        y = masking.make(b, y, masked, data);
        const std::string top = b.op("ReduceMax", {y});
        b.attr("axes", std::vector<int64_t>{-1});
        b.output(top);
        if (compared) {
          b.output(b.op("Cast", {b.op("Equal", {y, top})}));
          b.attr("to", int64_t{1});
        }
        ASSERT_NO_FATAL_FAILURE(expect_like_single(b, data, 1));
      }
}

/// Two layers of attention with 2 of 8 tokens padded, and one token that attends to nothing.
TEST(Reals, PaddedTokensInTwoLayersOfAttention) {
  for (const char *form : {"operators", "Attention", "com.microsoft", "bool"})
    for (const float masked : {kLowest, -1e4f}) {
      if (std::string(form) == "bool" && masked != kLowest) continue;
      SCOPED_TRACE(std::string(form) + std::to_string(masked));
      OnnxBuilder b(23);
      std::vector<float> x(8 * 16), mask;
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 17) - 8) / 8;
      const bool integers = form == std::string("com.microsoft"), bools = form == std::string("bool");
      for (int i = 0; i < 64; ++i) {
        const bool counts = i % 8 < 6 && i / 8 != 5;
        mask.push_back(integers || bools ? counts : counts ? 0 : masked);
      }
      std::vector<Tensor> data{tensor({1, 8, 16}, x)};
      std::string y = b.input({1, 8, 16}, "x"), m;
      if (integers) {
        m = b.input({1, 8}, "mask", kInt32);
        data.push_back(tensor({1, 8}, {1, 1, 1, 1, 1, 1, 0, 0}, Dtype::I32));
      } else {
        m = b.input({8, 8}, "mask", bools ? kBool : int{onnx::TensorProto::FLOAT});
        data.push_back(tensor({8, 8}, mask, bools ? Dtype::U8 : Dtype::F32));
      }
      for (int layer = 0; layer < 2; ++layer) {
        if (integers) {
          y = microsoft(b, "Attention", {y, b.weights({16, 48}), b.weights({48}), m});
          b.attr("num_heads", int64_t{2});
          b.attr("mask_filter_value", masked);
          continue;
        }
        std::string q = b.op("MatMul", {y, b.weights({16, 16})}), k = b.op("MatMul", {y, b.weights({16, 16})}),
                    v = b.op("MatMul", {y, b.weights({16, 16})});
        if (form == std::string("operators")) {
          k = b.op("Transpose", {k});
          b.attr("perm", std::vector<int64_t>{0, 2, 1});
          q = b.op("Mul", {b.op("MatMul", {q, k}), b.scalar(0.25f)});
          y = b.op("MatMul", {b.op("Softmax", {b.op("Add", {q, m})}), v});
        } else {
          y = b.op("Attention", {q, k, v, m});
          b.attr("q_num_heads", int64_t{2});
          b.attr("kv_num_heads", int64_t{2});
        }
      }
      b.output(y);
      // Each of some ten results on the way has one rounding, of numbers up to 4.
      ASSERT_NO_FATAL_FAILURE(expect_like_single(b, data, 10, 4));
    }
}

// Operators at the limits of the types.

/// Numbers of both types, the largest of float16 among them.
const std::vector<float> kLimits{60928, -60928, 1, -1,      0.5f, -0.25f, 0,     100,
                                 -3,    65280,  7, -0.125f, 20,   -11,    40960, -65280};

/// One operator from [4, 4] to [4, 4] or [4, 1].
struct Limit {
  const char *name;
  std::function<std::string(OnnxBuilder &, const std::string &)> make;
  int64_t columns = 4;
  float factor = 1;  ///< multiplies kLimits
};

Limit function(const char *type, std::vector<std::pair<const char *, float>> attributes = {}) {
  return {type, [=](OnnxBuilder &b, const std::string &x) {
            const std::string y = b.op(type, {x});
            for (const auto &[name, value] : attributes) b.attr(name, value);
            return y;
          }};
}

Limit reduction(const char *type) {
  Limit out = function(type);
  out.make = [=](OnnxBuilder &b, const std::string &x) {
    const std::string y = b.op(type, {x});
    b.attr("axes", std::vector<int64_t>{1});
    return y;
  };
  out.columns = 1;
  return out;
}

Limit norm(const char *type, bool bias) {
  return {type, [=](OnnxBuilder &b, const std::string &x) {
            std::vector<std::string> inputs{x, b.floats({1, 0.5f, 2, 1})};
            if (bias) inputs.push_back(b.floats({0, 1, -1, 0.5f}));
            return b.op(type, inputs);
          }};
}

std::string reduced(OnnxBuilder &b, const char *type, const std::string &x) {
  if (type == std::string("ReduceSum")) return b.op(type, {x, b.ints({1})});
  const std::string y = b.op(type, {x});
  b.attr("axes", std::vector<int64_t>{1});
  return y;
}

/// exp(x) and exp(-x) on the way to numbers that both types have.
std::vector<Limit> exponentials() {
  constexpr float kFactor = 0x1p-11f;
  return {
      {"a Softmax without its maximum",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string e = b.op("Exp", {x});
         return b.op("Div", {e, reduced(b, "ReduceSum", e)});
       },
       4, kFactor},
      {"a logarithm of a sum of exponentials",
       [](OnnxBuilder &b, const std::string &x) { return b.op("Log", {reduced(b, "ReduceSum", b.op("Exp", {x}))}); }, 1,
       kFactor},
      {"Softplus spelled out",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op("Log", {b.op("Add", {b.scalar(1), b.op("Exp", {x})})});
       },
       4, kFactor},
      {"Tanh spelled out",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string e = b.op("Exp", {x}), f = b.op("Exp", {b.op("Mul", {x, b.scalar(-1)})});
         return b.op("Div", {b.op("Sub", {e, f}), b.op("Add", {e, f})});
       },
       4, kFactor},
  };
}

std::vector<Limit> limits() {
  std::vector<Limit> out{
      {"Celu and a quotient",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("Celu", {x});
         b.attr("alpha", 0.1f);
         return b.op("Div", {y, b.scalar(16)});
       }},
      function("Celu", {{"alpha", 0.1f}}),
      function("Celu", {{"alpha", 4096.0f}}),
      function("Selu"),
      function("Mish"),
      function("Softsign"),
      function("Swish", {{"alpha", 4.0f}}),
      function("ThresholdedRelu", {{"alpha", 1.0001f}}),
      function("Shrink", {{"lambd", 0.9999f}, {"bias", 0.3f}}),
      function("HardSwish"),
      function("Elu", {{"alpha", 3.0f}}),
      function("LpNormalization"),
      function("MeanVarianceNormalization"),
      reduction("ReduceMean"),
      reduction("ReduceMax"),
      reduction("ReduceMin"),
      reduction("ReduceL2"),
      reduction("ReduceLogSumExp"),
      norm("LayerNormalization", true),
      norm("LayerNormalization", false),
      norm("RMSNormalization", false),
      {"Mean",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op("Mean", {x, x, x});
       }},
      {"PRelu",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op("PRelu", {x, b.floats({0.5f, 1, 0.25f, 1})});
       }},
      {"ReduceL1",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("ReduceL1", {x});
         b.attr("axes", std::vector<int64_t>{1});
         return y;
       },
       1, 0.25f},
      {"LpNormalization of zeros",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("LpNormalization", {b.op("Mul", {x, b.scalar(0)})});
         b.attr("p", int64_t{1});
         return y;
       }},
      {"F.normalize",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("Mul", {x, b.scalar(0)}), n = b.op("ReduceL1", {y});
         b.attr("axes", std::vector<int64_t>{1});
         return b.op("Div", {y, b.op("Clip", {n, b.scalar(1e-12f)})});
       }},
      {"a divisor with 1e-8",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("Mul", {x, b.scalar(0)});
         return b.op("Div", {y, b.op("Add", {b.op("Abs", {y}), b.scalar(1e-8f)})});
       }},
      {"x - max(x)",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string top = b.op("ReduceMax", {x});
         b.attr("axes", std::vector<int64_t>{1});
         return b.op("Exp", {b.op("Sub", {x, top})});
       }},
      {"min(x) - x",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string top = b.op("ReduceMin", {x});
         b.attr("axes", std::vector<int64_t>{1});
         return b.op("Exp", {b.op("Sub", {top, x})});
       }},
      {"x - mean(x)",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string mean = b.op("ReduceMean", {x});
         b.attr("axes", std::vector<int64_t>{1});
         return b.op("Mul", {b.op("Sub", {x, mean}), b.scalar(0.5f)});
       },
       4, 0.5f},
      {"scores above the range",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op("Softmax", {b.op("Mul", {b.op("Mul", {x, b.scalar(16)}), b.scalar(0.0625f)})});
       }},
      {"a product above the range",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op(
             "Softmax",
             {b.op("Mul", {b.op("MatMul", {x, b.constant({4, 4}, {2, 1, 0, 0, 0, 2, 0, 1, 0, 0, 2, 0, 1, 0, 0, 2})}),
                           b.scalar(0x1p-12f)})});
       }},
      {"the sine of a large angle",
       [](OnnxBuilder &b, const std::string &x) {
         return b.op("Sin", {b.op("Add", {b.op("Mul", {x, b.scalar(0.1f)}), b.scalar(0.7f)})});
       },
       4, 0x1p-6f},
      {"a bound and a difference",
       [](OnnxBuilder &b, const std::string &x) {
         const std::string y = b.op("Sub", {b.op("Max", {x, b.scalar(0.1f)}), b.scalar(0.1f)});
         return b.op("Sign", {y});
       }},
  };
  for (Limit &l : exponentials()) out.push_back(std::move(l));
  return out;
}

/// From results of 16 bits, and from an input of float32 itself. The result is rounded, and what bfloat16 stores inside
/// a normalization: centred, divided, multiplied.
TEST(Reals, OperatorsAtTheLimits) {
  for (const Limit &limit : limits())
    for (const bool input : {false, true}) {
      SCOPED_TRACE(std::string(limit.name) + (input ? " of an input" : ""));
      std::vector<float> numbers = kLimits;
      for (float &n : numbers) n *= limit.factor;
      OnnxBuilder b(limit.name == std::string("Swish") || limit.name == std::string("RMSNormalization") ? 24 : 17);
      const std::string name = limit.name;
      const bool picture = name == "MeanVarianceNormalization";
      std::string y = b.input({4, 4}, "x");
      if (!input) y = same(b, y, 4);
      if (picture) y = b.op("Reshape", {y, b.ints({1, 1, 4, 4})});
      y = limit.make(b, y);
      if (picture) y = b.op("Reshape", {y, b.ints({4, 4})});
      b.output(same(b, y, limit.columns));
      ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, numbers)}, 4, 1));
    }
}

/// Operators whose intermediate results alone leave the range of float16.
TEST(Reals, IntermediateResultsAboveTheRange) {
  OnnxBuilder sum(17);
  sum.output(sum.op("Sum", {sum.input({4}, "x"), sum.input({4}, "L"), sum.floats({0.625f}), sum.floats({-0.125f})}));
  ASSERT_NO_FATAL_FAILURE(
      expect_like_single(sum, {tensor({4}, {0, 60000, -7, 100}), tensor({4}, {kLowest, 60000, 0, -1e9f})}, 1));

  // Only one of the summands is an input.
  OnnxBuilder mixed(17);
  const std::string x = mixed.op("Softmax", {mixed.input({4}, "x")});
  mixed.output(mixed.op("Sum", {x, mixed.input({4}, "L"), mixed.floats({0.625f}), mixed.floats({-0.125f})}));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(mixed, {tensor({4}, {0}), tensor({4}, {kLowest, 4, 0, -1e9f})}, 1));

  // A factor and a summand, of which the first does not make a mask small enough.
  OnnxBuilder norm(17);
  const std::string one = norm.floats({1}), scale = norm.floats({0.375f}), shift = norm.floats({0.75f});
  norm.output(norm.op("BatchNormalization", {norm.input({1, 1, 4}, "L"), scale, shift, norm.floats({0}), one}));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(norm, {tensor({1, 1, 4}, {kLowest, 1, 3e38f, -7e5f})}, 1));

  // The same of scores, which are float32 and may be as large.
  OnnxBuilder scores(17);
  const std::string score = scores.op("Mul", {same(scores, scores.input({1, 4}, "x"), 4), scores.scalar(16)});
  const std::string factor = scores.floats({0.75f}), summand = scores.floats({-0.5f});
  const std::string flat = scores.op("Reshape", {score, scores.ints({4, 1})});
  scores.output(scores.op("BatchNormalization", {flat, factor, summand, scores.floats({0}), scores.floats({1})}));
  scores.output(scores.op("Softmax", {score}));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(scores, {tensor({1, 4}, {-20480, 1, 20480, 3})}, 1));

  // 2^15 * 2^15 * 1 * 2, with others beside the diagonal.
  OnnxBuilder det(17);
  det.output(det.op("Det", {det.input({4, 4}, "x")}));
  ASSERT_NO_FATAL_FAILURE(
      expect_like_single(det, {tensor({4, 4}, {0x1p15f, 1, 3, 0, 0, 0x1p15f, 0, 8, 0, 2, 1, 0, 4, 0, 0, 2})}, 1));

  OnnxBuilder einsum(17);
  einsum.output(einsum.op("Einsum", {einsum.input({2, 4}, "x"), einsum.input({4, 4}, "y"), einsum.input({4, 2}, "z")}));
  einsum.attr("equation", "ij,jk,kl->il");
  ASSERT_NO_FATAL_FAILURE(expect_like_single(
      einsum, {tensor({2, 4}, {256, 1024, 3}), tensor({4, 4}, {512, 96, 7}), tensor({4, 2}, {0x1p-10f, 0x1p-7f})}, 1));
}

/// Formulas of several operators of the file, from x and y of [4, 4]: float16 holds the result and not what it is
/// computed from.
struct Formula {
  const char *name;
  std::function<std::string(OnnxBuilder &, const std::string &x, const std::string &y)> make;
  float x_factor = 1, y_factor = 1;  ///< multiply kSides
  bool both_signs = false;           ///< every other number is negative
  bool of_inputs_only = false;       ///< else the factor would be part of weights, in 16 bits
};

/// Numbers of both types, without 0.
const std::vector<float> kSides{640, 320, 3, 250, 1, 16, 480, 0.5f, 600, 12, 7, 100, 400, 2, 512, 90};

std::string total(OnnxBuilder &b, const std::string &x) { return b.op("ReduceSum", {x, b.ints({1})}); }
std::string clipped(OnnxBuilder &b, const std::string &x, float low) { return b.op("Clip", {x, b.scalar(low)}); }
std::string rows_by_rows(OnnxBuilder &b, const std::string &x, const std::string &y) {
  return b.op("MatMul", {x, b.op("Transpose", {y})});
}
std::string length(OnnxBuilder &b, const std::string &x) { return b.op("Sqrt", {total(b, b.op("Mul", {x, x}))}); }

std::vector<Formula> formulas() {
  using Name = const std::string &;
  return {
      {"a quotient of areas",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string both = b.op("Mul", {b.op("Min", {x, y}), b.op("Max", {x, y})});
         const std::string all = b.op("Sub", {b.op("Add", {both, b.op("Mul", {x, x})}), b.op("Mul", {y, x})});
         return b.op("Div", {both, b.op("Add", {all, b.op("Mul", {y, y})})});
       }},
      {"the logarithm of a quotient",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Log", {b.op("Div", {clipped(b, x, 1e-5f), clipped(b, b.op("Sub", {b.scalar(1), x}), 1e-5f)})});
       },
       0x1p-9f},
      {"the root of an average of powers",
       [](OnnxBuilder &b, Name x, Name) {
         const std::string cubes = b.op("Pow", {clipped(b, x, 1e-6f), b.scalar(3)});
         return b.op("Pow", {b.op("Mul", {total(b, cubes), b.scalar(0.25f)}), b.scalar(1.0f / 3)});
       }},
      {"cosines",
       [](OnnxBuilder &b, Name x, Name y) {
         return b.op("Div", {total(b, b.op("Mul", {x, y})), b.op("Mul", {length(b, x), length(b, y)})});
       }},
      {"cosines of all pairs",
       [](OnnxBuilder &b, Name x, Name y) {
         return b.op("Div", {rows_by_rows(b, x, y), rows_by_rows(b, length(b, x), length(b, y))});
       }},
      {"distances of all pairs",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string squares =
             b.op("Add", {total(b, b.op("Mul", {x, x})), b.op("Transpose", {total(b, b.op("Mul", {y, y}))})});
         return b.op("Sqrt", {b.op("Sub", {squares, b.op("Mul", {b.scalar(2), rows_by_rows(b, x, y)})})});
       }},
      {"a square of absolute values",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string a = b.op("Sub", {x, y});
         return b.op("Sqrt", {b.op("Mul", {b.op("Abs", {a}), b.op("Abs", {a})})});
       }},
      {"a square with a factor",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Sqrt", {b.op("Mul", {x, b.op("Mul", {x, b.scalar(0.5f)})})});
       }},
      {"a third power of small numbers",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Div", {x, b.op("Sqrt", {b.op("Mul", {b.op("Mul", {x, x}), x})})});
       },
       0x1p-14f},
      {"binomials",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string twice = b.op("Mul", {b.op("Mul", {x, y}), b.scalar(2)});
         return b.op("Sqrt", {b.op("Sub", {b.op("Add", {b.op("Mul", {x, x}), b.op("Mul", {y, y})}), twice})});
       }},
      {"a range",
       [](OnnxBuilder &b, Name x, Name) {
         const std::string low = reduced(b, "ReduceMin", x), high = reduced(b, "ReduceMax", x);
         return b.op("Div", {b.op("Sub", {x, low}), b.op("Sub", {high, low})});
       },
       64, 1, true},
      {"an average by a product",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Mul", {b.op("MatMul", {x, b.constant({4, 1}, {1, 1, 1, 1})}), b.scalar(0.25f)});
       },
       64},
      {"a reciprocal and a factor",
       [](OnnxBuilder &b, Name x, Name y) {
         return b.op("Mul", {b.op("Reciprocal", {y}), x});
       },
       0x1p-20f, 0x1p-20f},
      {"products with statistics",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string most = b.op("Mul", {b.op("Mul", {x, reduced(b, "ReduceMax", y)}), b.scalar(1e-3f)});
         return b.op("Add", {b.op("Sqrt", {b.op("Mul", {x, total(b, y)})}), most});
       }},
      {"the logarithm of a sum divided by its terms",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Log", {b.op("Div", {total(b, x), x})});
       },
       0x1p-10f},
      {"a mean of exponentials and ordinary numbers",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string e = b.op("Exp", {b.op("Mul", {x, b.scalar(0.025f)})});
         return b.op("Div", {b.op("Mul", {e, y}), b.op("Add", {e, y})});
       }},
      {"a product and an ordinary number",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string sum = b.op("Add", {b.op("Mul", {x, x}), y});
         return b.op("Mul", {sum, b.scalar(1e-3f)});
       }},
      {"exponentials with a small factor",
       [](OnnxBuilder &b, Name x, Name) {
         return b.op("Mul", {b.op("Exp", {b.op("Mul", {x, b.scalar(0.025f)})}), b.scalar(1e-3f)});
       },
       1, 1, false, true},
      {"cosines of all pairs, divided twice",
       [](OnnxBuilder &b, Name x, Name y) {
         const std::string once = b.op("Div", {rows_by_rows(b, x, y), length(b, x)});
         return b.op("Div", {once, b.op("Transpose", {length(b, y)})});
       }},
      {"products of all pairs, scaled",
       [](OnnxBuilder &b, Name x, Name y) {
         return b.op("Mul", {rows_by_rows(b, x, y), b.scalar(1.0f / 2048)});
       }},
      {"an average by a product from the left",
       [](OnnxBuilder &b, Name x, Name) {
         const std::string sum = b.op("MatMul", {b.constant({1, 4}, {1, 1, 1, 1}), x});
         return b.op("Max", {b.op("Mul", {sum, b.scalar(0.25f)}), x});
       },
       64},
      {"a mean of two inputs",
       [](OnnxBuilder &b, Name x, Name y) {
         return b.op("Mul", {b.op("Add", {x, y}), b.scalar(0.5f)});
       },
       96, 96, false, true},
      {"a fraction, with its product twice",
       [](OnnxBuilder &b, Name x, Name) {
         const std::string a = b.op("Mul", {x, b.scalar(3.3f)}), c = b.op("Mul", {x, b.scalar(3.3f)});
         return b.op("Sub", {a, b.op("Floor", {c})});
       },
       1, 1, false, true},
  };
}

TEST(Reals, FormulasWithLargeIntermediateResults) {
  for (const Formula &f : formulas())
    for (int form = 0; form < 4; ++form) {
      const bool input = form & 1, read = form & 2;
      if (f.of_inputs_only && !input) continue;
      SCOPED_TRACE(std::string(f.name) + (input ? " of inputs" : "") + (read ? " in front of a product" : ""));
      std::vector<float> xs, ys;
      for (size_t i = 0; i < kSides.size(); ++i) {
        xs.push_back(kSides[i] * (f.both_signs && i % 2 ? -f.x_factor : f.x_factor));
        ys.push_back(kSides[(i * 5 + 3) % kSides.size()] * f.y_factor);
      }
      OnnxBuilder b(13);
      std::string x = b.input({4, 4}, "x"), y = b.input({4, 4}, "y");
      if (!input) {
        x = same(b, x, 4);
        y = same(b, y, 4);
      }
      std::string z = f.make(b, x, y);
      // Outputs are float32 in any case; what a product reads is not.
      if (read) z = b.op("MatMul", {b.constant({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}), z});
      b.output(z);
      ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, xs), tensor({4, 4}, ys)}, 4, read ? 0.5 : 1e-3));
    }
}

/// Single numbers are not rounded, also where the result is one.
TEST(Reals, SingleNumbersStaySingle) {
  OnnxBuilder b(17);
  const std::string top = b.op("ReduceMax", {b.input({4}, "x")});
  b.attr("keepdims", int64_t{0});
  b.output(b.op("Mul", {top, b.scalar(3.1f)}));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4}, {7, 9, -3, 0})}, 0));
}

/// A factor that becomes part of a product's weights brings numbers beyond the types' range back into it.
TEST(Reals, ScaledInputsOfProducts) {
  for (const bool each : {false, true}) {
    OnnxBuilder b(17);
    const std::string factor = each ? b.floats({0x1p-16f, 0x1p-18f, 0x1p-10f, 1}) : b.scalar(0x1p-16f);
    b.output(same(b, b.op("Mul", {b.input({4, 4}, "x"), factor}), 4));
    std::vector<float> x;
    for (float v : kLimits) x.push_back(v * (x.size() % 4 == 3 ? 1.0f : 16.0f));
    SCOPED_TRACE(each ? "a factor for each column" : "one factor");
    ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, x)}, 2));
    x[2] = -kLowest;
    ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, x)}, 2));
  }
}

/// An output of the network is float32, as is what a Softmax reads. A scaled product reads them so as well.
TEST(Reals, ScaledSinglesInFrontOfProducts) {
  OnnxBuilder b(17);
  const std::string y =
      b.op("MatMul", {b.input({4, 4}, "x"), b.constant({4, 4}, {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2})});
  const std::string scores = b.op("Mul", {y, b.scalar(3)});
  b.output(y);
  b.output(same(b, b.op("Mul", {y, b.scalar(0x1p-4f)}), 4));
  b.output(b.op("Softmax", {scores}));
  b.output(same(b, b.op("Mul", {scores, b.scalar(0x1p-4f)}), 4));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, {60000, -50000, 40000, 1})}, 2));
}

/// What one operator computes inside from an output of the network may be as large as that.
TEST(Reals, SumsOfOutputsStaySingle) {
  OnnxBuilder b(17);
  const std::string y =
      b.op("MatMul", {b.input({1, 1, 4}, "x"), b.constant({4, 4}, {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2})});
  b.output(y);
  b.output(b.op("LpPool", {y}));
  b.attr("kernel_shape", std::vector<int64_t>{1});
  b.attr("p", int64_t{1});
  ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({1, 1, 4}, {60000, -50000, 40000, 1})}, 2));
}

/// An intermediate result of an operator stays float32 where the file has the same expression.
TEST(Reals, MergedIntermediateResultsStaySingle) {
  OnnxBuilder b(17);
  const std::string x = b.input({4}, "x"), sum = b.op("Add", {b.op("Abs", {x}), b.scalar(1)});
  b.output(b.op("Softsign", {x}));
  b.output(b.op("Div", {b.op("Min", {sum, b.scalar(8)}), b.scalar(16)}));
  ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4}, {1e6f, kLowest, 2, -0.5f})}, 2));
}

/// A logarithm of a softmax is as low as the mask that it reads, and a mask itself: where another one masks the rest,
/// all are equal.
TEST(Reals, LogarithmsOfMasksAreMasks) {
  OnnxBuilder b(17);
  const std::string logarithm = b.op("LogSoftmax", {b.input({4, 4}, "mask")});
  b.output(b.op("Softmax", {b.op("Add", {logarithm, b.input({4, 4}, "rest")})}));
  std::vector<float> rest;
  for (float c : kCounts) rest.push_back(c > 0 ? kLowest : 0);
  ASSERT_NO_FATAL_FAILURE(expect_like_single(b, {tensor({4, 4}, masks(kLowest)), tensor({4, 4}, rest)}, 3, 1));
}

/// The difference to a maximum or minimum is never on the wrong side, of whatever numbers.
TEST(Reals, NothingIsAboveItsMaximum) {
  OnnxBuilder b(17);
  const std::string x = b.input({4, 16}, "x");
  for (const char *type : {"ReduceMax", "ReduceMin"}) {
    const std::string top = b.op(type, {x});
    b.attr("axes", std::vector<int64_t>{1});
    b.output(b.op("Sub", {x, top}));
  }
  const std::string top = b.op("Max", {x, b.scalar(0.1f)});
  b.output(b.op("Sub", {x, top}));
  Tensor in(Dtype::F32, {4, 16});
  for (int64_t i = 0; i < in.count(); ++i) in.as<float>()[i] = 59999.9f + static_cast<float>(i * 37 % 64) * 1.7f;
  for (const Dtype half : {Dtype::F16, Dtype::BF16}) {
    const std::vector<Tensor> out = on_chip(b, {in}, half);
    ASSERT_EQ(out.size(), 3u);
    for (int64_t i = 0; i < in.count(); ++i) {
      EXPECT_LE(out[0].as<float>()[i], 0);
      EXPECT_GE(out[1].as<float>()[i], 0);
      EXPECT_EQ(out[2].as<float>()[i], 0);
    }
  }
}

}  // namespace
}  // namespace npu::test
