// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/exporter.h"

#include <algorithm>
#include <cmath>

namespace npu::test {

int64_t elements(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Real Exporter::input(const Dims &dims, int type) {
  const std::string name = "x" + std::to_string(b.model.graph().input_size());
  return {b.input(dims, name, type), dims, 1.2, {}};
}

Scaled Exporter::scaled(double rms, Range range) {
  const bool is_signed = range == Range::Signed || range == Range::Symmetric;
  Scaled q{0, 0, is_signed ? kInt8 : kUint8};
  if (range == Range::Unsigned) q.zero = static_cast<int>(from(90, 160));
  if (range == Range::Signed) q.zero = static_cast<int>(from(-30, 30));
  // Now and then the largest numbers do not fit.
  const double most = rms * static_cast<double>(from(20, 40)) / 10;
  q.scale = static_cast<float>(most / (range == Range::Positive ? 255 : 128));
  return q;
}

void Exporter::record(const std::string &integers, const Scaled &q, int steps) {
  b.output(integers);
  auto &graph = *b.model.mutable_graph();
  graph.mutable_output(graph.output_size() - 1)->mutable_type()->mutable_tensor_type()->set_elem_type(q.type);
  net.outputs.push_back({integers, steps, 0});
}

Real Exporter::rounded(const Real &x, const Scaled &q, int steps) {
  const std::string integers = quantize(b, x.name, q);
  record(integers, q, steps);
  return {dequantize(b, integers, q), x.dims, x.rms, q};
}

Real Exporter::op(const std::string &type, const Real &x, const Dims &dims, std::vector<std::string> more) {
  more.insert(more.begin(), x.name);
  return {b.op(type, more), dims, x.rms, {}};
}

Real Exporter::both(const std::string &type, const Real &x, const Real &y) {
  const double rms = type == "Mul" ? x.rms * y.rms : std::hypot(x.rms, y.rms);
  return {b.op(type, {x.name, y.name}), x.dims, rms, {}};
}

Real Exporter::transposed(const Real &x, const std::vector<int64_t> &perm) {
  Dims dims;
  for (int64_t d : perm) dims.push_back(x.dims[static_cast<size_t>(d)]);
  const Real y = op("Transpose", x, dims);
  b.attr("perm", perm);
  return y;
}

std::vector<float> Exporter::floats(int64_t count, double most, double least) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(from(-1000, 1000)) / 1000;
    out.push_back(static_cast<float>(least > 0 ? least + (most - least) * std::fabs(x) : most * x));
  }
  return out;
}

std::vector<int> Exporter::bytes(int64_t count, int low, int high) {
  std::vector<int> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int>(from(low, high)));
  return out;
}

Weights Exporter::weights(const Dims &dims, int64_t axis, int type) {
  const int64_t n = axis < 0 ? 1 : dims[static_cast<size_t>(axis)];
  Weights out{{}, dims, floats(n, 0.02, 0.005), 0};
  const Dims shape = axis < 0 ? Dims{} : Dims{n};
  const bool is_signed = type == kInt8;
  const std::string zeros = integers(b, type, shape, std::vector<int>(static_cast<size_t>(n), is_signed ? 0 : 128));
  const std::vector<int> values = is_signed ? bytes(elements(dims), -127, 127) : bytes(elements(dims), 0, 255);
  out.name = b.op("DequantizeLinear", {integers(b, type, dims, values), b.constant(shape, out.scales), zeros});
  if (axis >= 0) b.attr("axis", axis);
  out.rms = 74 * 0.0125;
  return out;
}

Weights Exporter::fake_weights(const Dims &dims, int64_t axis) {
  const int64_t n = axis < 0 ? 1 : dims[static_cast<size_t>(axis)];
  Weights out{{}, dims, floats(n, 0.02, 0.005), 0};
  const Dims shape = axis < 0 ? Dims{} : Dims{n};
  const std::string scale = b.constant(shape, out.scales);
  const std::string zero = integers(b, kInt8, shape, std::vector<int>(static_cast<size_t>(n), 0));
  const std::string q = b.op("QuantizeLinear", {b.constant(dims, floats(elements(dims), 1.5)), scale, zero});
  if (axis >= 0) b.attr("axis", axis);
  out.name = b.op("DequantizeLinear", {q, scale, zero});
  if (axis >= 0) b.attr("axis", axis);
  out.rms = 0.87;
  return out;
}

std::string Exporter::integer_bias(int64_t count, const Weights &w, const Real &x, double most) {
  std::vector<float> scales;
  for (float s : w.scales) scales.push_back(s * x.q.scale);
  const auto reach = static_cast<int>(most / static_cast<double>(scales[0]));
  const Dims shape = scales.size() > 1 ? Dims{count} : Dims{};
  const std::string q = integers(b, onnx::TensorProto::INT32, {count}, bytes(count, -reach, reach));
  const std::string out = b.op("DequantizeLinear", {q, b.constant(shape, scales)});
  if (scales.size() > 1) b.attr("axis", int64_t{0});
  return out;
}

Real Exporter::conv(const Real &x, const Weights &w, const std::string &bias) {
  Dims dims = x.dims, pads;
  dims[1] = w.dims[0];
  for (size_t d = 2; d < w.dims.size(); ++d) pads.push_back(w.dims[d] / 2);
  pads.insert(pads.end(), pads.begin(), pads.end());
  std::vector<std::string> inputs{x.name, w.name};
  if (!bias.empty()) inputs.push_back(bias);
  const double rms = x.rms * w.rms * std::sqrt(static_cast<double>(elements(w.dims) / w.dims[0]));
  const Real y{b.op("Conv", inputs), dims, rms, {}};
  b.attr("pads", pads).attr("group", x.dims[1] / w.dims[1]);
  return y;
}

Real Exporter::gemm(const Real &x, const Weights &w, const std::string &bias) {
  const double rms = x.rms * w.rms * std::sqrt(static_cast<double>(w.dims[1]));
  const Real y{b.op("Gemm", {x.name, w.name, bias}), {x.dims[0], w.dims[0]}, rms, {}};
  b.attr("transB", int64_t{1});
  return y;
}

Real Exporter::normalized(const Real &x) {
  const int64_t n = x.dims[1];
  return op("BatchNormalization", x, x.dims,
            {b.floats(floats(n, 1.5, 0.5)), b.floats(floats(n, x.rms)), b.floats(floats(n, x.rms / 2)),
             b.floats(floats(n, 1.5, 0.5))});
}

}  // namespace npu::test
