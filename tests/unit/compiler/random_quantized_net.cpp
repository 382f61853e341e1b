// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {
namespace {

/// A quantized tensor of the network.
struct Bytes {
  std::string name;
  Dims dims;
  Scaled q;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  /// Of numbers that stand for bytes of any value.
  double rms() const { return q.scale * std::hypot(74, (q.type == kInt8 ? -0.5 : 127.5) - q.zero); }
};

int64_t count_of(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

class Maker {
 public:
  Maker(const Chooser &choose, uint32_t seed) : choose_(choose), random_(seed) {}

  QuantizedNet run() {
    constexpr bool (Maker::*kSteps[])() = {
        &Maker::conv,   &Maker::conv,   &Maker::turned_conv, &Maker::matmul,     &Maker::matmul,     &Maker::square,
        &Maker::binary, &Maker::binary, &Maker::function,    &Maker::function,   &Maker::average,    &Maker::softmax,
        &Maker::move,   &Maker::move,   &Maker::concat,      &Maker::requantize, &Maker::left_alone, &Maker::table};
    add_input();
    for (bool added = false; choose_.more(added);) {
      whole_ = true;
      added = (this->*kSteps[from(0, std::ssize(kSteps) - 1)])();
    }
    if (net_.outputs.empty()) requantize();
    return std::move(net_);
  }

 private:
  // Choices.
  int64_t from(int64_t low, int64_t high) { return low + choose_.below(high - low + 1); }
  bool chance(int64_t percent) { return from(1, 100) > 100 - percent; }
  template <class T>
  const T &any(const std::vector<T> &list) {
    return list[static_cast<size_t>(from(0, std::ssize(list) - 1))];
  }
  // Numbers.
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  float positive() { return static_cast<float>(std::exp2(static_cast<double>(number(-1000, 1000)) / 500)); }
  std::vector<int> bytes(int type, int64_t n) {
    std::vector<int> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int>(type == kInt8 ? number(-128, 127) : number(0, 255)));
    return out;
  }
  std::vector<float> floats(int64_t n, double most) {
    std::vector<float> out;
    for (int64_t i = 0; i < n; ++i)
      out.push_back(static_cast<float>(static_cast<double>(number(-1000, 1000)) / 1000 * most));
    return out;
  }

  /// Integers for numbers of that size. Sometimes all are of one sign, sometimes the largest do not fit.
  Scaled scaled(double rms) {
    Scaled q = calibrated(rms);
    if (chance(2)) q.scale = extreme();
    return q;
  }
  /// The same with a scale that suits the numbers: sums are not exact in float32, and an error must not be many steps.
  Scaled calibrated(double rms) {
    Scaled q;
    q.type = chance(70) ? kInt8 : kUint8;
    const int low = q.type == kInt8 ? -128 : 0;
    q.zero = low + static_cast<int>(chance(20) ? (chance(80) ? 0 : 255) : number(64, 192));
    q.scale = static_cast<float>(std::clamp(rms, 1e-6, 1e10) * 3 / 128 * positive());
    return q;
  }

  /// A scale that no calibration makes, and that a file may have all the same. Larger ones lead to infinite numbers,
  /// of which sums are what the order of their summands makes of them.
  float extreme() {
    using Limits = std::numeric_limits<float>;
    net_.integers_only = false;
    return any(std::vector<float>{1e10f, 1e-30f, Limits::min(), 1e-40f, Limits::denorm_min()});
  }

  const Bytes *find(bool (*fits)(const Bytes &)) {
    std::vector<const Bytes *> found;
    for (const Bytes &t : tensors_)
      if (fits(t)) found.push_back(&t);
    return found.empty() ? nullptr : any(found);
  }

  // Pieces of networks.
  std::string real(const Bytes &t) { return dequantize(b_, t.name, t.q); }

  void add_input() {
    const Dims dims = chance(60)   ? Dims{1, from(1, 4), from(3, 7), from(3, 7)}
                      : chance(50) ? Dims{from(1, 3), from(1, 9)}
                                   : Dims{from(1, 2), from(1, 4), from(2, 8)};
    const Scaled q = scaled(1);
    if (chance(50)) return tensors_.push_back({b_.input(dims, "x", q.type), dims, q});
    const std::string x = b_.input(dims, "x");
    add(x, dims, q, 0);
  }

  /// The result of a step in its quantization.
  void add(const std::string &y, const Dims &dims, const Scaled &q, int steps) {
    const std::string name = quantize(b_, y, q);
    tensors_.push_back({name, dims, q});
    b_.output(name);
    auto &graph = *b_.model.mutable_graph();
    graph.mutable_output(graph.output_size() - 1)->mutable_type()->mutable_tensor_type()->set_elem_type(q.type);
    net_.outputs.push_back({name, steps, 0});
  }

  /// The result of a product. Some have functions or moves in front of what quantizes them, or nothing does.
  bool finish_product(std::string y, Dims dims, double rms) {
    if (chance(10)) {
      b_.output(y);
      net_.outputs.push_back({y, 0, std::max(rms * 1e-4, 1e-36)});
      net_.integers_only = net_.integers_only && whole_;  // else the bias is added in float32
      if (chance(50)) {
        net_.integers_only = false;  // somebody else reads what is quantized
        add(y, dims, calibrated(rms), 0);
      }
      return true;
    }
    if (chance(5)) {  // two readers: the product is float32
      net_.integers_only = net_.integers_only && whole_;
      add(y, dims, calibrated(rms), 1);
      add(y, dims, calibrated(rms / 2), 1);
      return true;
    }
    y = activation(y, rms);
    if (dims.size() == 4 && chance(10) && dims[2] > 1) {
      y = b_.op("MaxPool", {y});
      b_.attr("kernel_shape", std::vector<int64_t>{2, 1});
      dims[2] -= 1;
    }
    if (chance(15)) {
      dims = {dims[0], count_of(dims) / dims[0]};
      y = b_.op("Reshape", {y, b_.ints(dims)});
    }
    add(y, dims, calibrated(rms), 1);
    return true;
  }

  std::string activation(const std::string &x, double rms) {
    const int64_t kind = from(0, 6);
    if (kind > 2) return x;
    const std::string y =
        kind == 0 ? b_.op("Relu", {x})
        : kind == 1
            ? b_.op("Clip", {x, b_.scalar(static_cast<float>(-rms * from(0, 1))), b_.scalar(static_cast<float>(rms))})
            : b_.op("LeakyRelu", {x});
    if (kind == 2) b_.attr("alpha", static_cast<float>(from(0, 100)) / (chance(20) ? 10.f : 100.f));
    return y;
  }

  /// Weights with a scale for all, or one for each element of an axis.
  struct Weights {
    std::string name;
    std::vector<float> scales;
    double rms = 0;
  };
  Weights weights(const Dims &dims, int64_t axis) {
    Weights out;
    const int type = chance(80) ? kInt8 : kUint8;
    const int64_t n = chance(50) ? dims[static_cast<size_t>(axis)] : 1;
    const float scale = positive() / 128;
    const bool shifted = chance(30);
    std::vector<int> zeros;
    for (int64_t i = 0; i < n; ++i) {
      out.scales.push_back(scale * positive());
      zeros.push_back(static_cast<int>((type == kUint8 ? 128 : 0) + (shifted ? number(-6, 6) : 0)));
    }
    if (chance(2)) out.scales.back() = extreme();
    // Several zero points leave integers that int8 has.
    std::vector<int> values = bytes(type, count_of(dims));
    for (int &v : values) v = type == kUint8 ? std::clamp(v, 10, 245) : std::clamp(v, -120, 120);
    const Dims shape = n > 1 ? Dims{n} : Dims{};
    out.name = b_.op("DequantizeLinear", {integers(b_, type, dims, values), b_.constant(shape, out.scales),
                                          integers(b_, type, shape, zeros)});
    if (n > 1) b_.attr("axis", axis);
    out.rms = 70 * *std::max_element(out.scales.begin(), out.scales.end());
    return out;
  }

  /// A bias as integers of the size of the sums, or in floating point.
  std::string bias(int64_t n, const Weights &w, float x_scale, double rms) {
    std::vector<float> scales;
    std::vector<int> values;
    for (float s : w.scales) scales.push_back(x_scale * s);
    whole_ = chance(70) && std::all_of(scales.begin(), scales.end(), [](float s) { return s > 0 && std::isfinite(s); });
    if (!whole_) return b_.floats(floats(n, rms));
    for (int64_t i = 0; i < n; ++i)
      values.push_back(static_cast<int>(static_cast<double>(number(-1000, 1000)) / 1000 *
                                        std::min(rms / std::max(scales[0], 1e-30f), 1e6)));
    const std::string ints = integers(b_, onnx::TensorProto::INT32, {n}, values);
    const std::string out =
        b_.op("DequantizeLinear", {ints, b_.constant(scales.size() > 1 ? Dims{n} : Dims{}, scales)});
    if (scales.size() > 1) b_.attr("axis", int64_t{0});
    return out;
  }

  /// Scales and shifts channels, as batch normalization does.
  std::string normalized(const std::string &x, int64_t channels, double rms) {
    whole_ = false;
    std::vector<float> factor, variance;
    for (int64_t i = 0; i < channels; ++i) {
      factor.push_back(positive() * (number(1, 5) == 1 ? -1.f : 1.f));
      variance.push_back(positive());
    }
    return b_.op("BatchNormalization", {x, b_.floats(factor), b_.floats(floats(channels, rms)),
                                        b_.floats(floats(channels, rms)), b_.floats(variance)});
  }

  // Steps; each is false where it finds no operand.

  static bool is_picture(const Bytes &t) { return t.rank() == 4 || t.rank() == 3; }

  bool conv() {
    const Bytes *found = find(is_picture);
    if (!found) return false;
    const Bytes x = *found;
    const size_t spatial = x.dims.size() - 2;
    const int64_t groups = chance(30) ? x.dims[1] : 1, outer = groups * from(1, 3);
    Dims w{outer, x.dims[1] / groups}, y{x.dims[0], outer}, pads(2 * spatial, 0), strides, dilations;
    for (size_t d = 0; d < spatial; ++d) {
      const int64_t size = x.dims[d + 2], k = from(1, std::min<int64_t>(3, size)), stride = from(1, 2);
      const int64_t dilation = (k - 1) * 2 < size ? from(1, 2) : 1;
      pads[d] = from(0, 1);
      pads[d + spatial] = from(0, 1);
      w.push_back(k);
      strides.push_back(stride);
      dilations.push_back(dilation);
      y.push_back((size + pads[d] + pads[d + spatial] - (k - 1) * dilation - 1) / stride + 1);
    }
    const Weights weight = weights(w, 0);
    double rms = x.rms() * weight.rms * std::sqrt(static_cast<double>(count_of(w) / outer));
    std::vector<std::string> inputs{real(x), weight.name};
    if (chance(70)) inputs.push_back(bias(outer, weight, x.q.scale, rms));
    std::string out = b_.op("Conv", inputs);
    b_.attr("group", groups).attr("pads", pads).attr("strides", strides).attr("dilations", dilations);
    if (chance(20)) {
      out = normalized(out, outer, rms);
      rms *= 2;
    }
    return finish_product(out, y, rms);
  }

  /// A transposed convolution.
  bool turned_conv() {
    const Bytes *found = find([](const Bytes &t) { return t.rank() == 4; });
    if (!found) return false;
    const Bytes x = *found;
    const int64_t outer = from(1, 3), k = from(1, 3), stride = from(1, 2);
    const Weights w = weights({x.dims[1], outer, k, k}, 1);
    const std::string y = b_.op("ConvTranspose", {real(x), w.name});
    b_.attr("strides", std::vector<int64_t>{stride, stride});
    const auto length = [&](int64_t size) { return (size - 1) * stride + k; };
    return finish_product(y, {x.dims[0], outer, length(x.dims[2]), length(x.dims[3])},
                          x.rms() * w.rms * std::sqrt(static_cast<double>(x.dims[1] * k * k)));
  }

  bool matmul() {
    const Bytes *found = find([](const Bytes &t) { return t.rank() == 2 || t.rank() == 3; });
    if (!found) return false;
    const Bytes x = *found;
    const int64_t k = x.dims.back(), n = from(1, 6);
    const bool gemm = x.rank() == 2 && chance(60), turned = gemm && chance(50);
    const Weights w = turned ? weights({n, k}, 0) : weights({k, n}, 1);
    const double rms = x.rms() * w.rms * std::sqrt(static_cast<double>(k));
    std::vector<std::string> inputs{real(x), w.name};
    Dims dims = x.dims;
    dims.back() = n;
    if (gemm && chance(60)) inputs.push_back(bias(n, w, x.q.scale, rms));
    std::string y = b_.op(gemm ? "Gemm" : "MatMul", inputs);
    if (turned) b_.attr("transB", int64_t{1});
    if (!gemm && chance(60)) y = b_.op("Add", {y, bias(n, w, x.q.scale, rms)});
    return finish_product(y, dims, rms);
  }

  /// A matrix times its own transpose: both operands arrive at run time.
  bool square() {
    const Bytes *found = find([](const Bytes &t) { return t.rank() == 3; });
    if (!found) return false;
    const Bytes x = *found;
    const std::string turned = b_.op("Transpose", {real(x)});
    b_.attr("perm", std::vector<int64_t>{0, 2, 1});
    std::string y = b_.op("MatMul", {real(x), turned});
    double rms = x.rms() * x.rms() * std::sqrt(static_cast<double>(x.dims[2]));
    if (chance(50)) {
      y = b_.op("Div", {y, b_.scalar(8)});
      rms /= 8;
    }
    return finish_product(y, {x.dims[0], x.dims[1], x.dims[1]}, rms);
  }

  bool binary() {
    const Bytes a = any(tensors_);
    std::vector<Bytes> others;
    for (const Bytes &t : tensors_)
      if (t.dims == a.dims) others.push_back(t);
    const Bytes c = any(others);
    const std::string kind = any(std::vector<std::string>{"Add", "Sub", "Mul", "Div", "Max", "Min"});
    const bool constant = chance(30);
    Dims narrow = a.dims;
    if (chance(50)) std::fill(narrow.begin(), narrow.end() - 1, 1);
    const std::string second = constant ? b_.constant(narrow, floats(count_of(narrow), a.rms())) : real(c);
    std::vector<std::string> operands{real(a), second};
    if (chance(30)) std::swap(operands[0], operands[1]);
    const double rms = kind == "Mul" ? a.rms() * c.rms() : kind == "Div" ? 1 : std::hypot(a.rms(), c.rms());
    const std::string y = b_.op(kind, operands);
    add(activation(y, rms), a.dims, scaled(rms), 0);
    return true;
  }

  bool function() {
    const Bytes t = any(tensors_);
    const std::string x = real(t);
    std::string y;
    switch (from(0, 8)) {
      case 0:
        y = b_.op("Mul", {x, b_.op("Sigmoid", {x})});
        break;
      case 1:
        y = b_.op("Mul", {x, b_.op("Clip", {b_.op("Add", {x, b_.scalar(3)}), b_.scalar(0), b_.scalar(6)})});
        break;
      case 2:
        y = b_.op("Div", {b_.op("Erf", {x}), b_.scalar(1.5f)});
        break;
      case 3:
        y = b_.op("Mul", {real(t), b_.op("Tanh", {b_.op("Softplus", {x})})});  // through two nodes of one tensor
        break;
      case 4:
        y = b_.op("Relu", {b_.op("Sub", {x, b_.scalar(0.25f)})});
        break;
      default:
        y = b_.op(
            any(std::vector<std::string>{"Sigmoid", "Tanh", "HardSwish", "Elu", "Relu", "LeakyRelu", "Abs", "Sqrt"}),
            {x});
    }
    add(y, t.dims, scaled(std::min(t.rms(), 2.0)), 0);
    return true;
  }

  bool average() {
    const Bytes *found = find(is_picture);
    if (!found) return false;
    const Bytes x = *found;
    Dims dims = x.dims;
    std::string y;
    if (chance(40)) {
      y = b_.op("AveragePool", {real(x)});
      Dims kernel, pads(2 * (dims.size() - 2), 0);
      for (size_t d = 2; d < dims.size(); ++d) {
        kernel.push_back(from(1, std::min<int64_t>(3, dims[d])));
        if (kernel.back() > 1) pads[d - 2] = from(0, 1);
        dims[d] += pads[d - 2] - kernel.back() + 1;
      }
      b_.attr("kernel_shape", kernel).attr("pads", pads).attr("count_include_pad", from(0, 1));
    } else if (chance(50)) {
      y = b_.op("GlobalAveragePool", {real(x)});
      std::fill(dims.begin() + 2, dims.end(), 1);
    } else {
      y = b_.op("ReduceMean", {real(x), b_.ints({x.rank() - 1})});
      b_.attr("keepdims", int64_t{0});
      dims.pop_back();
    }
    add(y, dims, calibrated(x.rms() / 2), 1);
    return true;
  }

  bool softmax() {
    const Bytes x = any(tensors_);
    const std::string y = b_.op("Softmax", {real(x)});
    b_.attr("axis", from(0, x.rank() - 1));
    add(y, x.dims, chance(50) ? Scaled{1 / 256.f, -128, kInt8} : Scaled{1 / 256.f, 0, kUint8}, 0);
    return true;
  }

  /// Where integers stay what they are.
  bool move() {
    const Bytes x = any(tensors_);
    Dims dims = x.dims;
    std::string y;
    const int64_t kind = from(0, 6);
    if (kind == 0) {
      y = b_.op("Transpose", {real(x)});
      std::reverse(dims.begin(), dims.end());
    } else if (kind == 1) {
      y = b_.op("Flatten", {real(x)});
      dims = {dims[0], count_of(dims) / dims[0]};
    } else if (kind == 2) {
      y = b_.op("Slice", {real(x), b_.ints({dims.back() / 2}), b_.ints({dims.back()}), b_.ints({x.rank() - 1})});
      dims.back() -= dims.back() / 2;
    } else if (kind == 3 && is_picture(x)) {
      y = b_.op("MaxPool", {real(x)});
      Dims kernel(dims.size() - 2, 1);
      kernel[0] = from(1, std::min<int64_t>(2, dims[2]));
      dims[2] -= kernel[0] - 1;
      b_.attr("kernel_shape", kernel);
    } else if (kind == 4 && x.rank() == 4) {
      y = b_.op("Resize", {real(x), "", b_.floats({1, 1, 2, 2})});
      b_.attr("mode", "nearest").attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", "floor");
      dims[2] *= 2;
      dims[3] *= 2;
    } else if (kind == 5) {
      Dims pads(2 * dims.size(), 0);
      pads[dims.size() - 1] = 1;
      pads.back() = 2;
      const int64_t steps = from(-20, 20);
      const bool whole = chance(70);
      const float value = static_cast<float>(steps) * x.q.scale * (whole ? 1 : 1.3f);
      const int64_t low = x.q.type == kInt8 ? -128 : 0, q = steps + x.q.zero;
      const bool has_integer = steps == 0 || (whole && q >= low && q <= low + 255);
      net_.integers_only = net_.integers_only && has_integer;
      y = b_.op("Pad", {real(x), b_.ints(pads), b_.scalar(value)});
      dims.back() += 3;
    } else {
      y = b_.op("Gather", {real(x), b_.ints({dims.back() - 1, 0})});
      b_.attr("axis", x.rank() - 1);
      dims.back() = 2;
    }
    if (count_of(dims) > 4000) return add(real(x), x.dims, scaled(x.rms()), 0), true;
    add(y, dims, chance(60) ? x.q : scaled(x.rms()), 0);
    return true;
  }

  bool concat() {
    const Bytes a = any(tensors_);
    std::vector<Bytes> others;
    for (const Bytes &t : tensors_)
      if (t.dims == a.dims) others.push_back(t);
    const Bytes c = any(others);
    const int64_t axis = from(0, a.rank() - 1);
    std::vector<std::string> parts{real(a), real(c)};
    if (chance(20)) parts.push_back(b_.constant(a.dims, floats(count_of(a.dims), a.rms())));
    Dims dims = a.dims;
    dims[static_cast<size_t>(axis)] *= std::ssize(parts);
    if (count_of(dims) > 4000) return false;
    const std::string y = b_.op("Concat", parts);
    b_.attr("axis", axis);
    add(y, dims, chance(50) ? a.q : scaled(a.rms()), 0);
    return true;
  }

  bool requantize() {
    const Bytes x = any(tensors_);
    add(real(x), x.dims, chance(50) ? x.q : scaled(x.rms()), 0);
    return true;
  }

  /// An operator that has no integer form, and 16 bits, which only move.
  bool left_alone() {
    const Bytes x = any(tensors_);
    net_.integers_only = false;
    if (chance(50)) {
      const std::string shifted = b_.op("Add", {real(x), b_.constant(x.dims, floats(count_of(x.dims), 1))});
      const std::string y = b_.op("ReduceMax", {b_.op("Sin", {shifted}), b_.ints({0})});
      Dims dims = x.dims;
      dims[0] = 1;
      add(y, dims, scaled(1), 0);
      return true;
    }
    const Scaled wide{std::max(x.q.scale / 100, std::numeric_limits<float>::denorm_min()),
                      static_cast<int>(from(-1000, 1000)), onnx::TensorProto::INT16};
    add(rounded(b_, real(x), wide), x.dims, x.q, 0);
    return true;
  }

  /// Rows of a quantized table.
  bool table() {
    const Scaled q = scaled(1);
    const int64_t rows = from(2, 9), columns = from(1, 6), n = from(1, 4);
    const std::string all = dequantize(b_, integers(b_, q.type, {rows, columns}, bytes(q.type, rows * columns)), q);
    std::vector<int64_t> index;
    const Bytes any_tensor = any(tensors_);
    for (int64_t i = 0; i < n; ++i) index.push_back(number(0, rows - 1));
    // Indices that arrive at run time: a Gather of known ones is known itself.
    const std::string zero = b_.op("Cast", {b_.op("Mul", {b_.op("ReduceMax", {real(any_tensor)}), b_.scalar(0)})});
    b_.attr("to", int64_t{onnx::TensorProto::INT64});
    net_.integers_only = false;
    const std::string flat = b_.op("Reshape", {zero, b_.ints({1})});
    const std::string y = b_.op("Gather", {all, b_.op("Add", {flat, b_.ints(index)})});
    add(y, {n, columns}, chance(50) ? q : scaled(1), 0);
    return true;
  }

  QuantizedNet net_;
  OnnxBuilder &b_ = net_.b;
  std::vector<Bytes> tensors_;
  bool whole_ = true;  ///< what is added to a product is a whole number of its units
  const Chooser &choose_;
  std::mt19937 random_;
};

}  // namespace

QuantizedNet make_quantized_net(const Chooser &choose, uint32_t seed) { return Maker(choose, seed).run(); }

QuantizedNet random_quantized_net(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  int64_t left = 1 + below(5);
  return make_quantized_net({below, [&](bool added) { return (left -= added) > 0; }}, seed);
}

}  // namespace npu::test
