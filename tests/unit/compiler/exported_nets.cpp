// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/exported_nets.h"

#include <cmath>

#include "tests/unit/compiler/exporter.h"

namespace npu::test {
namespace {

constexpr int kFloat = onnx::TensorProto::FLOAT, kHalf = onnx::TensorProto::FLOAT16, kInt16 = onnx::TensorProto::INT16,
              kInt32 = onnx::TensorProto::INT32;

std::string cast(OnnxBuilder &b, const std::string &x, int type) {
  const std::string y = b.op("Cast", {x});
  b.attr("to", int64_t{type});
  return y;
}

// PyTorch, torch.ao: scales and zero points are nodes, the latter int64 that are cast.

struct TorchNumbers {
  std::string scale, zero;
};

TorchNumbers torch_numbers(OnnxBuilder &b, const Scaled &q) {
  TorchNumbers out;
  out.scale = b.op("Constant", {});
  b.tensor_attr("value", {}, std::vector<float>{q.scale});
  out.zero = b.op("Constant", {});
  b.attr("value_int", int64_t{q.zero});
  out.zero = cast(b, out.zero, q.type);
  return out;
}

Real torch_rounded(Exporter &e, const Real &x, const Scaled &q, int steps) {
  const TorchNumbers n = torch_numbers(e.b, q);
  const std::string integers = e.b.op("QuantizeLinear", {x.name, n.scale, n.zero});
  e.record(integers, q, steps);
  return {e.b.op("DequantizeLinear", {integers, n.scale, n.zero}), x.dims, x.rms, q};
}
Real torch_rounded(Exporter &e, const Real &x, int steps, Range range = Range::Unsigned) {
  return torch_rounded(e, x, e.scaled(x.rms, range), steps);
}

/// The bias is divided, cast and scaled again by nodes.
std::string torch_bias(Exporter &e, const Weights &w, const Real &x, double most) {
  OnnxBuilder &b = e.b;
  const auto n = w.dims[0];
  const Dims shape = w.scales.size() > 1 ? Dims{n} : Dims{};
  const std::string scale = b.op("Mul", {b.constant(shape, w.scales), b.scalar(x.q.scale)});
  const std::string q = cast(b, b.op("Div", {e.bias(n, most), scale}), kInt32);
  const std::string zeros = b.op("ConstantOfShape", {b.op("Shape", {scale})});
  auto &value = *b.model.mutable_graph()->mutable_node(b.model.graph().node_size() - 1)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(kInt32);
  value.mutable_t()->add_dims(1);
  value.mutable_t()->add_int32_data(0);
  const std::string out = b.op("DequantizeLinear", {q, scale, zeros});
  if (w.scales.size() > 1) b.attr("axis", int64_t{0});
  return out;
}

Real torch_conv(Exporter &e, const Real &x, int64_t outer, int64_t kernel, int64_t groups) {
  const Weights w = e.weights({outer, x.dims[1] / groups, kernel, kernel}, 0);
  return e.conv(x, w, torch_bias(e, w, x, x.rms));
}

/// A picture classifier: convolutions with Relu, poolings, a residual, the mean, a fully connected layer.
QuantizedNet torch_static(uint32_t seed) {
  Exporter e(13, seed);
  Real x = torch_rounded(e, e.input({1, 3, 8, 8}), 0);
  x = torch_rounded(e, e.op("Relu", torch_conv(e, x, 8, 3, 1)), 1, Range::Positive);
  Real y = e.op("MaxPool", x, {1, 8, 4, 4});
  e.b.attr("kernel_shape", Dims{2, 2}).attr("strides", Dims{2, 2});
  x = torch_rounded(e, y, x.q, 0);
  y = torch_rounded(e, e.op("Relu", torch_conv(e, x, 8, 3, 8)), 1, Range::Positive);
  y = torch_rounded(e, torch_conv(e, y, 8, 1, 1), 1);
  x = torch_rounded(e, e.op("Relu", e.both("Add", x, y)), 0, Range::Positive);
  x = torch_rounded(e, e.op("GlobalAveragePool", x, {1, 8, 1, 1}), x.q, 1);
  x = torch_rounded(e, e.op("Flatten", x, {1, 8}), x.q, 0);
  const Weights w = e.weights({5, 8}, -1);
  e.record(torch_rounded(e, e.gemm(x, w, torch_bias(e, w, x, 1)), 1), 0);
  return std::move(e.net);
}

/// Functions and moves, each between integers of its own.
QuantizedNet torch_functions(uint32_t seed) {
  Exporter e(14, seed);
  const Real x = torch_rounded(e, e.input({1, 4, 5, 6}), 0);
  const Real sigmoid = torch_rounded(e, e.op("Sigmoid", x), {1 / 256.f, 0, kUint8}, 0);
  const Real swish = torch_rounded(e, e.op("HardSwish", x), 0);
  Real leaky = e.op("LeakyRelu", swish);
  e.b.attr("alpha", 0.1f);
  leaky = torch_rounded(e, leaky, 0);
  Real mean = e.op("ReduceMean", leaky, {1, 4, 1, 1});
  e.b.attr("axes", Dims{2, 3}).attr("keepdims", int64_t{1});
  mean = torch_rounded(e, mean, 1);
  Real gate = e.op("HardSigmoid", mean);
  e.b.attr("alpha", 1 / 6.f);
  gate = torch_rounded(e, gate, {1 / 255.f, 0, kUint8}, 0);
  const Real gated = torch_rounded(e, e.both("Mul", sigmoid, gate), 0);
  Real all = e.op("Concat", gated, {1, 8, 5, 6}, {leaky.name});
  e.b.attr("axis", int64_t{1});
  all = torch_rounded(e, all, 0);
  Real larger = e.op("Resize", all, {1, 8, 10, 12}, {"", e.b.floats({1, 1, 2, 2})});
  e.b.attr("mode", "nearest").attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", "floor");
  larger = torch_rounded(e, larger, all.q, 0);
  const Real clipped = e.op("Clip", larger, larger.dims, {e.b.scalar(0), e.b.scalar(6)});
  e.record(torch_rounded(e, clipped, 0), 0);
  return std::move(e.net);
}

/// Fake quantization of a network in training: 7 bits of activations, which a Clip of integers says, weights of
/// floating point that two nodes round, batch normalization by itself.
QuantizedNet torch_qat(uint32_t seed) {
  Exporter e(13, seed);
  const auto seven_bits = [&](const Real &x, int steps, int zero) {
    const Scaled q{static_cast<float>(x.rms * 3 / 127), zero, kUint8};
    const TorchNumbers n = torch_numbers(e.b, q);
    const std::string integers =
        e.b.op("Clip", {e.b.op("QuantizeLinear", {x.name, n.scale, n.zero}), "", zero_point(e.b, {0, 127, kUint8})});
    e.record(integers, q, steps);
    return Real{e.b.op("DequantizeLinear", {integers, n.scale, n.zero}), x.dims, x.rms, q};
  };
  Real x = seven_bits(e.input({1, 3, 8, 8}), 0, 64);
  x = e.normalized(e.conv(x, e.fake_weights({6, 3, 3, 3}, 0)));
  x = seven_bits(e.op("Relu", x), 1, 0);
  Real y = e.normalized(e.conv(x, e.fake_weights({6, 6, 1, 1}, 0), e.bias(6, 0.5)));
  x = seven_bits(e.both("Add", seven_bits(y, 1, 64), x), 0, 40);
  x = seven_bits(e.op("GlobalAveragePool", x, {1, 6, 1, 1}), 1, 40);
  x = e.gemm(e.op("Flatten", x, {1, 6}), e.fake_weights({4, 6}, 0), e.bias(4, 0.5));
  e.record(x, 1e-4);
  return std::move(e.net);
}

// NVIDIA: symmetric int8, only inputs of products and one operand of a sum are quantized.

QuantizedNet nvidia_qat(uint32_t seed) {
  Exporter e(13, seed);
  const auto q = [&](const Real &x) { return e.rounded(x, Range::Symmetric, 1); };
  Real x = e.op("Relu", e.normalized(e.conv(q(e.input({1, 3, 8, 8})), e.fake_weights({8, 3, 3, 3}, 0))));
  x = e.op("MaxPool", x, {1, 8, 4, 4});
  e.b.attr("kernel_shape", Dims{2, 2}).attr("strides", Dims{2, 2});
  const Real in = q(x);
  Real y = e.op("Relu", e.normalized(e.conv(in, e.fake_weights({8, 8, 3, 3}, 0))));
  y = e.normalized(e.conv(q(y), e.fake_weights({8, 8, 3, 3}, 0)));
  x = e.op("Relu", e.both("Add", y, in));
  x = e.op("GlobalAveragePool", q(x), {1, 8, 1, 1});
  x = q(e.op("Flatten", x, {1, 8}));
  // A linear layer: the weights are turned behind their nodes.
  const Weights w = e.fake_weights({5, 8}, 0);
  const std::string turned = e.b.op("Transpose", {w.name});
  e.b.attr("perm", Dims{1, 0});
  x = {e.b.op("Add", {e.b.op("MatMul", {x.name, turned}), e.bias(5, 0.5)}), {1, 5}, x.rms * w.rms * 3, {}};
  e.record(x, 1e-4);
  return std::move(e.net);
}

/// ModelOpt with --high_precision_dtype fp16: scales are fp16, and everything between the integers.
QuantizedNet nvidia_half(uint32_t seed) {
  Exporter e(19, seed);
  OnnxBuilder &b = e.b;
  const auto half = [&](const std::string &x) { return cast(b, x, kHalf); };
  const auto q = [&](const Real &x) {
    const Scaled s{static_cast<float>(1 << e.from(0, 3)) / 64, 0, kInt8};
    const std::string scale = half(b.scalar(s.scale)), zero = zero_point(b, s);
    const std::string integers = b.op("QuantizeLinear", {x.name, scale, zero});
    e.record(integers, s, 1);
    return Real{b.op("DequantizeLinear", {integers, scale, zero}), x.dims, x.rms, s};
  };
  const auto weights = [&](const Dims &dims) {
    const std::string scale = half(b.floats(e.floats(dims[0], 0.02, 0.005)));
    const std::string w = b.op("DequantizeLinear", {integers(b, kInt8, dims, e.bytes(elements(dims), -127, 127)), scale,
                                                    integers(b, kInt8, {dims[0]}, std::vector<int>(dims[0], 0))});
    b.attr("axis", int64_t{0});
    return Weights{w, dims, {}, 0.9};
  };
  Real x = e.input({1, 3, 6, 6});
  x.name = half(x.name);
  const Real in = q(e.op("Relu", e.conv(q(x), weights({4, 3, 3, 3}), half(e.bias(4, 0.5)))));
  x = e.op("Relu", e.both("Add", e.conv(in, weights({4, 4, 1, 1}), half(e.bias(4, 0.5))), in));
  x = q(x);
  b.output(cast(b, x.name, kFloat));
  e.net.outputs.push_back({"", 0, 1e-3});
  e.net.has_half = true;
  return std::move(e.net);
}

// Keras, tf2onnx: channels are last, and Transposes around what wants them first.

constexpr int64_t kBack[] = {0, 3, 1, 2}, kForth[] = {0, 2, 3, 1};
Dims order(const int64_t (&perm)[4]) { return {perm, perm + 4}; }

/// Weights as Keras has them, [rows, columns, inner, outer], turned behind their node.
Weights keras_weights(Exporter &e, int64_t kernel, int64_t inner, int64_t outer, bool each) {
  Weights w = e.weights({kernel, kernel, inner, outer}, each ? 3 : -1);
  w.name = e.b.op("Transpose", {w.name});
  e.b.attr("perm", Dims{3, 2, 0, 1});
  w.dims = {outer, inner, kernel, kernel};
  return w;
}

QuantizedNet keras_qat(uint32_t seed) {
  Exporter e(13, seed);
  Real x = e.rounded(e.input({1, 8, 8, 3}), Range::Signed);
  // The bias in front of the Transpose, Relu6 behind it.
  Weights w = keras_weights(e, 3, 3, 6, true);
  x = e.transposed(e.conv(e.transposed(x, order(kBack)), w, e.bias(6, 0.5)), order(kForth));
  x = e.rounded(e.op("Clip", x, x.dims, {e.b.scalar(0), e.b.scalar(6)}), Range::Signed, 1);
  // Depthwise, [rows, columns, inner, 1]: the bias as a sum behind the Transpose.
  Weights depthwise = e.weights({3, 3, 6, 1}, 2);
  depthwise.name = e.b.op("Transpose", {depthwise.name});
  e.b.attr("perm", Dims{2, 3, 0, 1});
  depthwise.dims = {6, 1, 3, 3};
  Real y = e.transposed(e.conv(e.transposed(x, order(kBack)), depthwise), order(kForth));
  y = e.op("Add", y, y.dims, {e.bias(6, 0.5)});
  y = e.rounded(e.op("Relu", y), Range::Signed, 1);
  x = e.rounded(e.both("Add", x, y), Range::Signed);
  x = e.op("ReduceMean", x, {1, 6});
  e.b.attr("axes", Dims{1, 2}).attr("keepdims", int64_t{0});
  x = e.rounded(x, Range::Signed, 1);
  const Weights dense = e.weights({6, 4}, -1);
  x = {e.b.op("Add", {e.b.op("MatMul", {x.name, dense.name}), e.bias(4, 0.5)}), {1, 4}, x.rms * 2, {}};
  x = e.rounded(x, Range::Signed, 1);
  const Real y2 = e.op("Softmax", x);
  e.b.attr("axis", int64_t{1});
  e.record(e.rounded(y2, {1 / 256.f, -128, kInt8}), 0);
  return std::move(e.net);
}

/// TFLite: biases are int32 with scales, padding and reshapes are operators of their own.
QuantizedNet tflite(uint32_t seed) {
  Exporter e(13, seed);
  Real x = e.rounded(e.input({1, 6, 6, 4}), Range::Signed);
  Real y = e.op("Pad", x, {1, 8, 8, 4}, {e.b.ints({0, 1, 1, 0, 0, 1, 1, 0})});
  y = e.rounded(y, x.q);
  Weights w = keras_weights(e, 3, 4, 8, true);
  Real z = e.transposed(e.conv(e.transposed(y, order(kBack)), w, e.integer_bias(8, w, y, 0.5)), order(kForth));
  z = e.rounded(e.op("Relu", z), Range::Signed, 1);
  Real logistic = e.rounded(e.op("Sigmoid", z), {1 / 256.f, -128, kInt8});
  z = e.rounded(e.both("Mul", z, logistic), Range::Signed);
  Real all = e.op("Concat", z, {1, 8, 8, 12}, {y.name});
  e.b.attr("axis", int64_t{3});
  all = e.rounded(all, Range::Signed);
  Real pooled = e.op("AveragePool", e.transposed(all, order(kBack)), {1, 12, 4, 4});
  e.b.attr("kernel_shape", Dims{2, 2}).attr("strides", Dims{2, 2});
  pooled = e.rounded(e.transposed(pooled, order(kForth)), all.q, 1);
  Real flat = e.op("Reshape", pooled, {1, 192}, {e.b.ints({1, 192})});
  flat = e.rounded(flat, pooled.q);
  const Weights dense = e.weights({3, 192}, -1);
  flat = e.gemm(flat, dense, e.integer_bias(3, dense, flat, 0.5));
  flat = e.rounded(flat, Range::Signed, 1);
  e.record(flat, 0);
  return std::move(e.net);
}

// ONNX Runtime.

/// Operands of a QLinear operator: the tensor, its scale and its zero point.
struct Triple {
  std::string name;
  Dims dims;
  Scaled q;
};

class Operators {
 public:
  explicit Operators(Exporter &e) : e_(e), b_(e.b) {}

  void append(std::vector<std::string> &inputs, const Triple &t) {
    inputs.insert(inputs.end(), {t.name, b_.scalar(t.q.scale), zero_point(b_, t.q)});
  }
  Triple made(const std::string &name, const Dims &dims, const Scaled &q, int steps) {
    e_.record(name, q, steps);
    return {name, dims, q};
  }
  Triple quantized(const Real &x, const Scaled &q) { return made(quantize(b_, x.name, q), x.dims, q, 0); }
  Triple conv(const Triple &x, const Dims &w, const Scaled &q) {
    std::vector<std::string> inputs;
    append(inputs, x);
    inputs.insert(inputs.end(),
                  {integers(b_, kInt8, w, e_.bytes(elements(w), -64, 64)), b_.floats(e_.floats(w[0], 0.02, 0.01)),
                   integers(b_, kInt8, {w[0]}, std::vector<int>(static_cast<size_t>(w[0]), 0)), b_.scalar(q.scale),
                   zero_point(b_, q), integers(b_, kInt32, {w[0]}, e_.bytes(w[0], -500, 500))});
    const std::string y = b_.op("QLinearConv", inputs);
    b_.attr("pads", Dims{w[2] / 2, w[3] / 2, w[2] / 2, w[3] / 2});
    Dims dims = x.dims;
    dims[1] = w[0];
    return made(y, dims, q, 0);
  }
  Triple microsoft(const std::string &type, const std::vector<Triple> &operands, const Dims &dims, const Scaled &q,
                   int steps = 0) {
    std::vector<std::string> inputs;
    for (const Triple &t : operands) append(inputs, t);
    inputs.insert(inputs.end(), {b_.scalar(q.scale), zero_point(b_, q)});
    return made(test::microsoft(b_, type, inputs), dims, q, steps);
  }
  Triple same(const std::string &type, const Triple &x, const Dims &dims) { return {b_.op(type, {x.name}), dims, x.q}; }

 private:
  Exporter &e_;
  OnnxBuilder &b_;
};

/// quantize_static with QuantFormat.QOperator.
QuantizedNet operators(uint32_t seed) {
  Exporter e(13, seed);
  Operators o(e);
  const Scaled q{0.03f, 120, kUint8}, positive{0.02f, 0, kUint8};
  const Triple x = o.quantized(e.input({1, 3, 8, 8}), {0.02f, 128, kUint8});
  Triple y = o.conv(x, {8, 3, 3, 3}, positive);
  y = o.same("MaxPool", y, {1, 8, 4, 4});
  e.b.attr("kernel_shape", Dims{2, 2}).attr("strides", Dims{2, 2});
  const Triple z = o.conv(y, {8, 8, 1, 1}, q);
  y = o.microsoft("QLinearAdd", {y, z}, y.dims, q);
  y = o.microsoft("QLinearLeakyRelu", {y}, y.dims, q);
  const Triple gate = o.microsoft("QLinearSigmoid", {y}, y.dims, {1 / 256.f, 0, kUint8});
  y = o.microsoft("QLinearMul", {y, gate}, y.dims, q);
  y = o.microsoft("QLinearAveragePool", {y}, {1, 8, 3, 3}, q, 1);
  e.b.attr("kernel_shape", Dims{2, 2});
  std::vector<std::string> parts{e.b.scalar(q.scale), zero_point(e.b, q)};
  o.append(parts, y);
  o.append(parts, {y.name, y.dims, {0.01f, 7, kUint8}});
  y = o.made(microsoft(e.b, "QLinearConcat", parts), {1, 16, 3, 3}, q, 0);
  e.b.attr("axis", int64_t{1});
  y = o.microsoft("QLinearGlobalAveragePool", {y}, {1, 16, 1, 1}, q, 1);
  y = o.same("Flatten", y, {1, 16});
  const Dims w{5, 16};
  std::vector<std::string> inputs;
  o.append(inputs, y);
  o.append(inputs, {integers(e.b, kInt8, w, e.bytes(80, -127, 127)), w, {0.01f, 0, kInt8}});
  inputs.insert(inputs.end(),
                {integers(e.b, kInt32, {5}, e.bytes(5, -900, 900)), e.b.scalar(q.scale), zero_point(e.b, q)});
  y = o.made(microsoft(e.b, "QGemm", inputs), {1, 5}, q, 1);
  e.b.attr("alpha", 1.f).attr("transA", int64_t{0}).attr("transB", int64_t{1});
  y = o.microsoft("QLinearSoftmax", {y}, {1, 5}, {1 / 255.f, 0, kUint8});
  e.b.attr("axis", int64_t{1}).attr("opset", int64_t{13});
  e.record(Real{dequantize(e.b, y.name, y.q), y.dims}, 0);
  return std::move(e.net);
}

/// QLinearMatMul and operators that take integers as they are; QLinearWhere.
QuantizedNet operators_of_matrices(uint32_t seed) {
  Exporter e(13, seed);
  Operators o(e);
  const Scaled q{0.03f, 3, kInt8};
  Triple x = o.quantized(e.input({1, 4, 6}), {0.02f, -5, kInt8});
  std::vector<std::string> inputs;
  o.append(inputs, x);
  inputs.insert(inputs.end(),
                {integers(e.b, kInt8, {6, 8}, e.bytes(48, -127, 127)), e.b.floats(e.floats(8, 0.02, 0.01)),
                 integers(e.b, kInt8, {8}, std::vector<int>(8, 0)), e.b.scalar(q.scale), zero_point(e.b, q)});
  x = o.made(e.b.op("QLinearMatMul", inputs), {1, 4, 8}, q, 0);
  Triple turned = o.same("Transpose", x, {1, 8, 4});
  e.b.attr("perm", Dims{0, 2, 1});
  inputs.clear();
  o.append(inputs, x);
  o.append(inputs, turned);
  inputs.insert(inputs.end(), {e.b.scalar(0.1f), zero_point(e.b, {1, 9, kInt8})});
  x = o.made(e.b.op("QLinearMatMul", inputs), {1, 4, 4}, {0.1f, 9, kInt8}, 0);
  std::vector<std::string> choice{e.b.input({1, 4, 4}, "mask", onnx::TensorProto::BOOL)};
  o.append(choice, x);
  o.append(choice, {integers(e.b, kInt8, {}, {-128}), {}, {0.5f, 0, kInt8}});
  choice.insert(choice.end(), {e.b.scalar(0.25f), zero_point(e.b, {1, 2, kInt8})});
  x = o.made(microsoft(e.b, "QLinearWhere", choice), {1, 4, 4}, {0.25f, 2, kInt8}, 0);
  x = o.microsoft("QLinearSoftmax", {x}, {1, 4, 4}, {1 / 255.f, -128, kInt8});
  e.b.attr("axis", int64_t{-1}).attr("opset", int64_t{13});
  e.record(Real{dequantize(e.b, x.name, x.q), x.dims}, 0);
  return std::move(e.net);
}

/// quantize_static with QuantFormat.QDQ of a transformer: rows of a table, attention, a function of five nodes,
/// layer normalization in float32.
QuantizedNet transformer(uint32_t seed) {
  Exporter e(17, seed);
  OnnxBuilder &b = e.b;
  const auto q = [&](const Real &x, int steps = 0) { return e.rounded(x, Range::Unsigned, steps); };
  const auto norm = [&](const Real &x) {
    const Real y = e.op("LayerNormalization", x, x.dims, {b.floats(e.floats(8, 1.5, 0.5)), b.floats(e.floats(8, 0.5))});
    return Real{y.name, y.dims, 1, {}};
  };
  const auto linear = [&](const Real &x, int64_t outer) {
    const Weights w = e.weights({x.dims.back(), outer}, 1);
    const double rms = x.rms * w.rms * std::sqrt(static_cast<double>(x.dims.back()));
    const Real y = q({b.op("MatMul", {x.name, w.name}), {1, 4, outer}, rms, {}}, 1);
    return q(e.op("Add", y, y.dims, {e.rounded({e.bias(outer, 0.5), {outer}, 0.3, {}}, Range::Unsigned).name}));
  };
  const auto heads = [&](const Real &x, const Dims &perm) {
    const Real y = q(e.op("Reshape", x, {1, 4, 2, 4}, {b.ints({1, 4, 2, 4})}));
    return q(e.transposed(y, perm));
  };
  const Weights words = e.weights({10, 8}, -1);
  Real x{b.op("Gather", {words.name, b.input({1, 4}, "ids", kInt32)}), {1, 4, 8}, words.rms, {}};
  x = q(x);
  Real y = q(norm(x));
  const Real query = heads(linear(y, 8), {0, 2, 1, 3}), key = heads(linear(y, 8), {0, 2, 3, 1}),
             value = heads(linear(y, 8), {0, 2, 1, 3});
  Real scores{b.op("MatMul", {query.name, key.name}), {1, 2, 4, 4}, query.rms * key.rms * 2, {}};
  scores = q(e.op("Div", q(scores, 1), scores.dims, {b.scalar(2)}));
  scores = e.op("Softmax", scores);
  b.attr("axis", int64_t{3});
  scores = e.rounded(scores, {1 / 255.f, 0, kUint8});
  y = q({b.op("MatMul", {scores.name, value.name}), {1, 2, 4, 4}, value.rms, {}}, 1);
  y = q(e.op("Reshape", q(e.transposed(y, {0, 2, 1, 3})), {1, 4, 8}, {b.ints({1, 4, 8})}));
  x = q(e.both("Add", x, linear(y, 8)));
  y = linear(q(norm(x)), 16);
  const std::string erf = b.op("Erf", {b.op("Div", {y.name, b.scalar(1.41421354f)})});
  const std::string gate = b.op("Mul", {y.name, b.op("Add", {erf, b.scalar(1)})});
  y = q({b.op("Mul", {gate, b.scalar(0.5f)}), y.dims, y.rms, {}});
  x = q(e.both("Add", x, linear(y, 8)));
  e.record(x, 0);
  return std::move(e.net);
}

/// quantize_dynamic: scales and zero points of activations arrive at run time.
QuantizedNet dynamic(uint32_t seed) {
  Exporter e(13, seed);
  OnnxBuilder &b = e.b;
  const auto product = [&](const std::string &type, const Real &x, const Dims &w, const Dims &dims, int64_t outer) {
    const std::string q = b.op("DynamicQuantizeLinear", {x.name}), scale = b.more_output(), zero = b.more_output();
    const std::string y =
        b.op(type, {q, integers(b, kInt8, w, e.bytes(elements(w), -127, 127)), zero, zero_point(b, {0, 0, kInt8})});
    if (type == "ConvInteger") b.attr("pads", Dims{1, 1, 1, 1});
    const std::string factor = b.op("Mul", {scale, b.scalar(0.01f)});
    const std::string scaled = b.op("Mul", {cast(b, y, kFloat), factor});
    Dims wide(dims.size() == 4 ? 3 : 1, 1);
    wide[0] = outer;
    return e.op("Relu", {b.op("Add", {scaled, b.constant(wide, e.floats(outer, 0.5))}), dims, x.rms * 3, {}});
  };
  Real x = product("ConvInteger", e.input({1, 3, 6, 6}), {4, 3, 3, 3}, {1, 4, 6, 6}, 4);
  x = e.op("Reshape", x, {4, 36}, {b.ints({4, 36})});
  x = product("MatMulInteger", x, {36, 5}, {4, 5}, 5);
  e.record(x, 1e-4);
  return std::move(e.net);
}

/// Activations of 16 bits, weights of 8: the chip has no such products. `ours`: of ONNX Runtime's domain.
template <bool ours>
QuantizedNet sixteen_bits(uint32_t seed) {
  Exporter e(ours ? 13 : 21, seed);
  const auto q = [&](const Real &x) {
    const Scaled s{static_cast<float>(x.rms / 8000), static_cast<int>(e.from(-900, 900)), kInt16};
    if (!ours) return e.rounded(x, s, 1);
    const std::string scale = e.b.scalar(s.scale), zero = zero_point(e.b, s);
    const std::string integers = microsoft(e.b, "QuantizeLinear", {x.name, scale, zero});
    e.record(integers, s, 1);
    return Real{microsoft(e.b, "DequantizeLinear", {integers, scale, zero}), x.dims, x.rms, s};
  };
  Real x = q(e.input({1, 3, 6, 6}));
  x = q(e.op("Relu", e.conv(x, e.weights({4, 3, 3, 3}, 0), e.bias(4, 0.5))));
  x = q(e.transposed(x, order(kForth)));
  e.record(x, 1e-3);
  return std::move(e.net);
}

/// Weights of 4 bits: with a scale a channel they are those of an integer product, with one a block they are not.
template <bool blocks>
QuantizedNet four_bits(uint32_t seed) {
  Exporter e(21, seed);
  OnnxBuilder &b = e.b;
  onnx::TensorProto &w = *b.model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(22);  // int4
  w.add_dims(32);
  w.add_dims(4);
  for (int byte : e.bytes(64, 0, 255)) w.mutable_raw_data()->push_back(static_cast<char>(byte));
  const Real x = e.rounded(e.input({3, 32}), Range::Unsigned);
  const std::string scales = b.constant(blocks ? Dims{2, 4} : Dims{4}, e.floats(blocks ? 8 : 4, 0.2, 0.05));
  const std::string real = b.op("DequantizeLinear", {"w", scales});
  b.attr("axis", int64_t{blocks ? 0 : 1});
  if (blocks) b.attr("block_size", int64_t{16});
  const Real y{b.op("MatMul", {x.name, real}), {3, 4}, x.rms * 3, {}};
  e.record(e.rounded(e.op("Relu", y), Range::Positive, 1), 0);
  return std::move(e.net);
}

/// What all operator sets have, with the forms that each of them brought.
template <int64_t opset>
QuantizedNet of_opset(uint32_t seed) {
  Exporter e(opset, seed);
  const Real x = e.rounded(e.input({1, 3, 6, 6}), Range::Unsigned);
  Weights w = e.weights({4, 3, 3, 3}, opset < 13 ? -1 : 0);
  Real y = e.conv(x, w, e.integer_bias(4, w, x, 0.5));
  const Scaled q = e.scaled(y.rms, Range::Positive);
  std::vector<std::string> numbers{e.b.scalar(q.scale)};
  if (opset < 21) numbers.push_back(zero_point(e.b, q));
  const Real relu = e.op("Relu", y);
  const std::string integers = e.b.op("QuantizeLinear", {relu.name, numbers[0]});
  if (opset >= 21) e.b.attr("output_dtype", int64_t{kUint8});
  e.record(integers, q, 1);
  const std::string real = e.b.op("DequantizeLinear", {integers, numbers[0]});
  if (opset >= 23) e.b.attr("output_dtype", int64_t{kFloat});
  e.record(Real{real, y.dims}, 0);
  return std::move(e.net);
}

const ExportedForm kForms[] = {
    {"torch_static", torch_static, {}},
    {"torch_functions", torch_functions, {}},
    {"torch_qat", torch_qat, {"Gemm"}},   // a bias that nothing behind it rounds
    {"nvidia_qat", nvidia_qat, {"Add"}},  // the same
    {"nvidia_half", nvidia_half, {}},
    {"keras_qat", keras_qat, {}},
    {"tflite", tflite, {}},
    {"operators", operators, {}},
    {"operators_of_matrices", operators_of_matrices, {}, {"Cast", "QLinearWhere"}},
    {"transformer", transformer, {"LayerNormalization", "LayerNormalization"}, {"Gather"}},
    {"dynamic",
     dynamic,
     {"DynamicQuantizeLinear", "ConvInteger", "Mul", "Mul", "Add", "Relu", "Reshape", "DynamicQuantizeLinear",
      "MatMulInteger", "Mul", "Mul", "Add", "Relu"},
     {}},
    {"sixteen_bits", sixteen_bits<false>, {"Conv", "Relu"}},
    {"sixteen_bits_ours", sixteen_bits<true>, {"Conv", "Relu"}},
    {"four_bits", four_bits<false>, {}},
    {"four_bits_blocks", four_bits<true>, {"MatMul", "Relu"}},
    {"opset_10", of_opset<10>, {}},
    {"opset_13", of_opset<13>, {}},
    {"opset_19", of_opset<19>, {}},
    {"opset_21", of_opset<21>, {}},
    {"opset_23", of_opset<23>, {}},
};

}  // namespace

std::span<const ExportedForm> exported_forms() { return kForms; }

}  // namespace npu::test
