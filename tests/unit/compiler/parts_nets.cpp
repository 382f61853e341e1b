// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/parts_nets.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "compiler/passes/passes.h"
#include "compiler/quantize/quantize.h"

namespace npu::test {
namespace {

using graph::Tensor;

constexpr int64_t kRows = 6, kWidth = 8;

/// Columns behind the diagonal, as in a decoder; `rows`: and the last ones of each row, as behind a short text.
std::vector<float> mask_of(float kept, float masked) {
  std::vector<float> out;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t k = 0; k < kRows; ++k) out.push_back(k > i || k == 2 ? masked : kept);
  out[2 * kRows + 2] = kept;
  return out;
}

class Attention {
 public:
  Attention(const std::string &kind, float far) : kind_(kind), far_(far), b_(net_.b) {}

  PartsNet run() {
    const std::string x = b_.input({1, kRows, kWidth}, "x");
    const std::string keys = b_.op("Transpose", {project(x, kWidth)});
    b_.attr("perm", std::vector<int64_t>{0, 2, 1});
    const std::string scores = b_.op("MatMul", {project(x, kWidth), keys});
    const std::string shares = softmax(masked(scores));
    if (kind_ == "output") {
      b_.output(shares);
      net_.outputs = {{2, {kRows}}};
      return std::move(net_);
    }
    b_.output(project(b_.op("MatMul", {shares, project(x, kWidth)}), 4));
    net_.outputs = {{2, {4}}};
    return std::move(net_);
  }

 private:
  std::string project(const std::string &x, int64_t width) { return b_.op("MatMul", {x, b_.weights({kWidth, width})}); }

  std::string mask_input(float kept, float masked) {
    const std::string m = b_.input({kRows, kRows}, "mask");
    net_.change = [kept, masked](size_t, std::vector<Tensor> &inputs) {
      const std::vector<float> values = mask_of(kept, masked);
      std::copy(values.begin(), values.end(), inputs[1].as<float>());
    };
    net_.no_mask = [kept](size_t, std::vector<Tensor> &inputs) {
      std::fill_n(inputs[1].as<float>(), inputs[1].count(), kept);
    };
    return m;
  }

  std::string masked(const std::string &scores) {
    if (kind_ == "input") return b_.op("Add", {scores, mask_input(0, far_)});
    if (kind_ == "times") {
      const std::string left = b_.op("Sub", {b_.scalar(1), mask_input(1, 0)});
      return b_.op("Add", {scores, b_.op("Mul", {left, b_.scalar(far_)})});
    }
    if (kind_ == "where")
      return b_.op("Where", {b_.op("Greater", {mask_input(1, 0), b_.scalar(0.5f)}), scores, b_.scalar(far_)});
    if (kind_ == "columns") {
      std::vector<float> last(kRows, 0);
      last[kRows - 1] = last[1] = far_;
      return b_.op("Add", {scores, b_.constant({kRows}, last)});
    }
    if (kind_ == "negative") {
      const std::string sum = b_.op("Sub", {scores, b_.constant({kRows, kRows}, mask_of(0, far_))});
      return b_.op("Mul", {sum, b_.scalar(-0.5f)});
    }
    const std::string mask = b_.constant({kRows, kRows}, mask_of(0, far_));
    const std::string sum = b_.op("Add", {scores, mask});
    if (kind_ == "twice") return b_.op("Add", {sum, mask});
    if (kind_ == "rows") {
      const std::string factors = b_.constant({kRows, 1}, {0.5f, 0.7f, 1, 0.4f, 1.5f, 0.6f});
      return b_.op("Mul", {b_.op("Mul", {sum, factors}), b_.scalar(0.8f)});
    }
    return kind_ == "scaled" ? b_.op("Mul", {sum, b_.scalar(0.35f)}) : sum;
  }

  std::string softmax(const std::string &x) {
    if (kind_ != "spelled") return b_.op("Softmax", {x});
    const std::string most = b_.op("ReduceMax", {x});
    b_.attr("axes", std::vector<int64_t>{-1});
    const std::string e = b_.op("Exp", {b_.op("Sub", {x, most})});
    return b_.op("Div", {e, b_.op("ReduceSum", {e, b_.ints({-1})})});
  }

  const std::string kind_;
  const float far_;
  PartsNet net_;
  OnnxBuilder &b_;
};

/// Outputs of two parts, of which one is far larger than the other.
class Heads {
 public:
  explicit Heads(const std::function<int64_t(int64_t)> &below) : below_(below), b_(net_.b) {}

  PartsNet run() {
    const float large = std::vector<float>{640, 60, 3e4f, 7}[static_cast<size_t>(below_(4))];
    x_ = b_.input({1, 4, 4, 4}, "x");
    net_.bytes = below_(4) == 0;
    switch (below_(3)) {
      case 0:
        concatenated(large);
        break;
      case 1:
        added(large);
        break;
      default:
        sliced(large);
    }
    return std::move(net_);
  }

 private:
  std::string conv(int64_t channels) { return b_.op("Conv", {x_, b_.weights({channels, 4, 1, 1})}); }

  void concatenated(float large) {
    const std::string boxes = b_.op("Mul", {b_.op("Relu", {conv(4)}), b_.scalar(large)});
    const std::string scores = b_.op("Sigmoid", {conv(3)});
    const bool first = below_(2) == 0;
    std::string y = b_.op("Concat", first ? std::vector{boxes, scores} : std::vector{scores, boxes});
    b_.attr("axis", int64_t{1});
    PartsNet::Output out{1, first ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4}};
    for (int64_t left = below_(3); left > 0; --left) y = behind(y, out);
    b_.output(y);
    net_.outputs = {out};
  }

  /// Something that keeps parts what they are.
  std::string behind(const std::string &y, PartsNet::Output &out) {
    switch (below_(3)) {
      case 0: {
        if (turned_) return y;
        turned_ = true;
        const std::string t = b_.op("Transpose", {y});
        b_.attr("perm", std::vector<int64_t>{0, 2, 3, 1});
        out.axis = 3;
        return t;
      }
      case 1:
        return b_.op("Mul", {y, b_.scalar(0.5f)});
      default: {
        std::vector<float> factors;
        for (const int64_t length : out.lengths)
          for (int64_t i = 0; i < length; ++i) factors.push_back(i % 2 ? -0.75f : 1.5f);
        const auto channels = static_cast<int64_t>(factors.size());
        return b_.op("Mul", {y, b_.constant(turned_ ? Dims{channels} : Dims{1, channels, 1, 1}, factors)});
      }
    }
  }

  /// Weights of some channels are larger than those of others, and nothing was concatenated.
  std::string uneven(float large) {
    std::vector<float> w;
    for (int64_t c = 0; c < 6; ++c)
      for (int64_t k = 0; k < 4; ++k)
        w.push_back((c < 2 ? large : 1) * (0.2f + static_cast<float>((c * 5 + k * 3) % 7) / 7));
    return b_.op("Conv", {x_, b_.constant({6, 4, 1, 1}, w)});
  }

  void added(float large) {
    std::string y = b_.op("Add", {uneven(large), uneven(large)});
    PartsNet::Output out{1, {2, 4}};
    for (int64_t left = below_(4); left > 0; --left) y = behind(y, out);
    b_.output(y);
    net_.outputs = {out};
  }

  void sliced(float large) {
    net_.bytes = false;
    const std::string y = uneven(large);
    const std::string big = b_.op("Slice", {y, b_.ints({0}), b_.ints({2}), b_.ints({1})});
    const std::string small = b_.op("Slice", {y, b_.ints({2}), b_.ints({6}), b_.ints({1})});
    b_.output(b_.op("Conv", {b_.op("Relu", {big}), b_.weights({3, 2, 1, 1})}));
    b_.output(b_.op("Conv", {b_.op("Tanh", {small}), b_.weights({3, 4, 1, 1})}));
    net_.outputs = {{1, {3}}, {1, {3}}};
  }

  const std::function<int64_t(int64_t)> &below_;
  PartsNet net_;
  OnnxBuilder &b_;
  std::string x_;
  bool turned_ = false;
};

double cosine(const std::vector<double> &a, const std::vector<double> &b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  if (aa == 0 && bb == 0) return 1;
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

/// The numbers of each part, one after another.
void collect(const Tensor &t, const PartsNet::Output &output, std::vector<std::vector<double>> &parts) {
  parts.resize(output.lengths.size());
  int64_t inner = 1;
  for (size_t d = output.axis + 1; d < t.shape.size(); ++d) inner *= t.shape[d];
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t index = i / inner % t.shape[output.axis];
    size_t part = 0;
    while (index >= output.lengths[part]) index -= output.lengths[part++];
    parts[part].push_back(t.as<float>()[i]);
  }
}

}  // namespace

PartsNet masked_attention(const std::string &kind, float far) { return Attention(kind, far).run(); }

PartsNet masked_maximum(float far, bool negated) {
  PartsNet net;
  OnnxBuilder &b = net.b;
  const std::string x = b.input({1, 4, kRows, kWidth}, "x"), m = b.input({1, 1, kRows, kWidth}, "mask");
  net.change = [](size_t, std::vector<Tensor> &inputs) {
    for (int64_t i = 0; i < inputs[1].count(); ++i) inputs[1].as<float>()[i] = i % 3 == 0;
  };
  const std::string y = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
  const std::string kept = b.op("Where", {b.op("Greater", {m, b.scalar(0.5f)}), y, b.scalar(far)});
  const std::string most = negated ? b.op("ReduceMin", {b.op("Neg", {kept})}) : b.op("ReduceMax", {kept});
  b.attr("axes", std::vector<int64_t>{2, 3}).attr("keepdims", int64_t{0});
  b.output(b.op("MatMul", {most, b.weights({4, 5})}));
  net.outputs = {{1, {5}}};
  return net;
}

PartsNet make_parts_net(const std::function<int64_t(int64_t n)> &below) {
  static const float kFar[] = {-100, -300, -3000, -9000, -1e4f, -1e9f, -3.4028235e38f, -INFINITY};
  const int64_t what = below(4);
  if (what >= 2) return Heads(below).run();
  const float far = kFar[below(std::size(kFar))];
  if (what == 1) return masked_maximum(far, below(2) == 1);
  const std::string kind = kMaskKinds[below(std::size(kMaskKinds))];
  return masked_attention(kind, kind == "times" && std::isinf(far) ? -1e5f : far);  // 0 times infinity is NaN
}

PartsNet random_parts_net(uint32_t seed) {
  std::mt19937 random(seed);
  return make_parts_net([&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); });
}

std::string check_parts(const PartsNet &net, double least, quantize::Result *told) {
  const std::string file = net.b.bytes();
  graph::RawModel raw;
  graph::Graph real;
  Status status = graph::read_onnx(file.data(), file.size(), raw);
  if (status.ok()) status = graph::import_model(raw, {}, real);
  if (!status.ok()) return status.message();
  graph::merge_equal(real);
  graph::merge_pad(real);
  graph::fold_affine(real);
  graph::join_affine(real);
  graph::expand_reduce(real);
  graph::Graph integer = real;
  bool calibrates = true;
  const auto change = [&](size_t sample, std::vector<Tensor> &inputs) {
    const RandomSamples::Change &wanted = net.unseen && calibrates ? net.no_mask : net.change;
    if (wanted) wanted(sample, inputs);
  };
  quantize::Options options = int8_options(3, change);
  options.threads = 1;
  if (net.bytes) options.outputs.insert(real.output_names.begin(), real.output_names.end());
  quantize::Result result;
  status = quantize::quantize(integer, options, result);
  if (told) *told = result;
  if (!status.ok()) return status.message();
  graph::fuse_quantized(integer);
  calibrates = false;
  std::vector<std::vector<std::vector<double>>> wanted(net.outputs.size()), got(net.outputs.size());
  for (size_t s = 0; s < options.samples->count(); ++s) {
    std::vector<Tensor> inputs, a, b;
    status = options.samples->load(s, inputs);
    if (status.ok()) status = graph::evaluate_graph(real, inputs, a);
    if (status.ok()) status = graph::evaluate_graph(integer, inputs, b);
    if (!status.ok()) return status.message();
    for (size_t o = 0; o < net.outputs.size(); ++o) {
      collect(a[o], net.outputs[o], wanted[o]);
      collect(b[o], net.outputs[o], got[o]);
    }
  }
  for (size_t o = 0; o < net.outputs.size(); ++o)
    for (size_t p = 0; p < wanted[o].size(); ++p) {
      const double c = cosine(wanted[o][p], got[o][p]);
      const bool warned = std::any_of(result.warnings.begin(), result.warnings.end(), [&](const std::string &w) {
        return w.find("output '" + real.output_names[o] + "'") != std::string::npos;
      });
      if (!(c >= least) && !(net.bytes && warned))
        return "part " + std::to_string(p) + " of output " + std::to_string(o) + " has a cosine of " +
               std::to_string(c) + "\n" + result.text();
    }
  return "";
}

}  // namespace npu::test
