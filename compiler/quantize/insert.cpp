// SPDX-License-Identifier: MIT
#include "compiler/quantize/insert.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/quantized_constant.h"

namespace npu::quantize {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Op;
using graph::Quant;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;

constexpr float kMostWeight = 127;  // -128 is left out: weights are symmetric
/// Units of the sums that a bias has at most: sums of products have room beside it.
constexpr double kMostBias = 1 << 29;

Dtype dtype_of(Type type) { return type == Type::Uint8 ? Dtype::U8 : Dtype::I8; }

/// Puts a pair behind each value that has a scale.
class Inserter {
 public:
  Inserter(Graph &graph, const Plan &plan, const Quants &quants, Type type, std::map<ValueId, ValueId> &rounded)
      : g_(graph), plan_(plan), quants_(quants), type_(type), rounded_(rounded) {}

  void run() {
    find_integer_readers();
    const std::vector<Node> old = std::exchange(g_.nodes, {});
    for (ValueId v : g_.inputs) add_pair(v, first_reader(old, v), false);
    for (size_t i = 0; i < old.size(); ++i) {
      Node n = old[i];
      if (is_read_by_both_[i] && read(n.inputs[0], true) != read(n.inputs[0], false)) add_rounded_move(n);
      for (ValueId &v : n.inputs)
        if (v != kNoValue) v = read(v, reads_integers_[i] && !rounded_.count(old[i].output));
      g_.nodes.push_back(std::move(n));
      add_pair(old[i].output, old[i].source, plan_.integer[i] && !plan_.real[at(old[i].output)]);
    }
    for (size_t k = 0; k < g_.outputs.size(); ++k) g_.outputs[k] = read(g_.outputs[k], plan_.outputs[k]);
  }

 private:
  /// Nodes of the plan, and what only moves on the way to one, or to an output of integers.
  void find_integer_readers() {
    std::vector<std::vector<size_t>> readers(g_.values.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      for (ValueId v : g_.nodes[i].inputs)
        if (v != kNoValue) readers[at(v)].push_back(i);
    reads_integers_ = plan_.integer;
    is_read_by_both_.assign(g_.nodes.size(), false);
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node &n = g_.nodes[i];
      if (reads_integers_[i] || !passes_integers(n) || quants_.count(n.output)) continue;
      bool integers = false, floats = false;
      for (size_t r : readers[at(n.output)]) (reads_integers_[r] ? integers : floats) = true;
      for (size_t k = 0; k < g_.outputs.size(); ++k)
        if (g_.outputs[k] == n.output) (plan_.outputs[k] ? integers : floats) = true;
      reads_integers_[i] = integers;
      is_read_by_both_[i] = integers && floats;
    }
  }

  /// A move of what is rounded, beside the same move of what is not.
  void add_rounded_move(const Node &move) {
    Node n = move;
    n.inputs[0] = read(n.inputs[0], true);
    graph::Value made;
    static_cast<graph::TensorKind &>(made) = g_[move.output];
    n.output = rounded_[move.output] = g_.add_value(std::move(made));
    g_.nodes.push_back(std::move(n));
  }

  static int first_reader(const std::vector<Node> &nodes, ValueId v) {
    const auto reads = [v](const Node &n) { return std::count(n.inputs.begin(), n.inputs.end(), v) > 0; };
    const auto found = std::find_if(nodes.begin(), nodes.end(), reads);
    return found == nodes.end() ? 0 : found->source;
  }

  ValueId read(ValueId v, bool by_integers) const {
    const auto found = rounded_.find(v);
    return found != rounded_.end() && (by_integers || for_all_.count(v)) ? found->second : v;
  }

  ValueId add(ValueId x, const graph::RequantAttrs &attrs, int source) {
    graph::Value made;
    made.dtype = attrs.to;
    made.shape = g_[x].shape;
    Node n;
    n.op = Op::Requant;
    n.source = source;
    n.inputs = {x};
    n.attrs = attrs;
    n.output = g_.add_value(std::move(made));
    g_.nodes.push_back(std::move(n));
    return g_.nodes.back().output;
  }

  void add_pair(ValueId v, int source, bool for_all) {
    const auto found = quants_.find(v);
    if (found == quants_.end()) return;
    const ValueId q = add(v, {{}, found->second, {}, dtype_of(type_)}, source);
    g_[q].quant = found->second;
    rounded_[v] = add(q, {found->second, {}, {}, Dtype::F32}, source);
    if (for_all) for_all_.insert(v);
  }

  Graph &g_;
  const Plan &plan_;
  const Quants &quants_;
  Type type_;
  std::map<ValueId, ValueId> &rounded_;
  std::set<ValueId> for_all_;  // what integers are computed for: nobody reads anything else
  std::vector<bool> reads_integers_, is_read_by_both_;
};

/// Channels of weights: `axis`, and for each element its place there.
struct Channels {
  size_t axis = 0;
  int64_t count = 1, inner = 1;
  Channels(const Shape &shape, size_t a) : axis(a) {
    count = shape[a];
    for (size_t d = a + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  size_t of(int64_t i) const { return static_cast<size_t>(i / inner % count); }
};

/// Scales by which the largest weight of each channel is 127, and a bias has room.
std::vector<float> weight_scales(const Tensor &w, const Channels &channels, const Tensor *bias, float x_scale) {
  std::vector<float> most(static_cast<size_t>(channels.count)), out;
  const int64_t elements = w.count();
  for (int64_t i = 0; i < elements; ++i) {
    float &m = most[channels.of(i)];
    m = std::max(m, std::fabs(w.as<float>()[i]));
  }
  float largest = *std::max_element(most.begin(), most.end());
  if (largest == 0) largest = 1;
  for (size_t c = 0; c < most.size(); ++c) {
    // A channel of zeros takes part in the smallest way that its multiplier has as a normal number.
    double scale = std::max(most[c] / kMostWeight, largest * 1e-6f);
    if (bias) scale = std::max(scale, std::fabs(bias->as<float>()[c]) / (x_scale * kMostBias));
    scale =
        std::max(scale, double{std::numeric_limits<float>::min()} / x_scale);  // the scale of a sum is a normal number
    out.push_back(static_cast<float>(scale));
  }
  return out;
}

std::shared_ptr<graph::QuantizedConstant> rounded_weights(const Tensor &w, const Channels &channels,
                                                          std::vector<float> scales, graph::TensorPtr &values) {
  auto integers = std::make_shared<Tensor>(Dtype::I8, w.shape);
  auto floats = std::make_shared<Tensor>(Dtype::F32, w.shape);
  for (int64_t i = 0; i < w.count(); ++i) {
    const float scale = scales[scales.size() > 1 ? channels.of(i) : 0];
    const float q = std::clamp(std::nearbyint(w.as<float>()[i] / scale), -kMostWeight, kMostWeight);
    integers->as<int8_t>()[i] = static_cast<int8_t>(q);
    floats->as<float>()[i] = q * scale;
  }
  values = floats;
  auto out = std::make_shared<graph::QuantizedConstant>();
  out->integers = std::move(integers);
  out->scales = std::move(scales);
  out->zeros = {0};
  out->axis = channels.axis;
  return out;
}

/// The quantization of an operand, also behind moves.
const Quant *quant_behind(const Graph &g, const std::vector<int> &made, const Quants &quants, ValueId v) {
  for (;;) {
    if (const auto found = quants.find(v); found != quants.end()) return &found->second;
    const int i = made[at(v)];
    if (i < 0 || !passes_integers(g.nodes[static_cast<size_t>(i)])) return nullptr;
    v = g.nodes[static_cast<size_t>(i)].inputs[0];
  }
}

/// What rounded weights lack, times the mean of what they are multiplied with: for each channel of the result.
std::vector<double> lost_means(const Node &n, const Tensor &w, const Tensor &rounded, const Channels &channels,
                               const std::vector<double> &means) {
  std::vector<double> out(static_cast<size_t>(channels.count));
  const bool conv = n.op == Op::Conv;
  const int64_t per = conv ? w.shape[1] : 1, cells = conv ? channels.inner / per : 1;
  const int64_t groups = conv ? std::get<graph::ConvAttrs>(n.attrs).groups : 1;
  for (int64_t i = 0; i < w.count(); ++i) {
    const size_t c = channels.of(i);
    const int64_t group = static_cast<int64_t>(c) / (channels.count / groups);
    const int64_t from = conv ? group * per + i / cells % per : i / channels.count;
    const double lost = static_cast<double>(w.as<float>()[i]) - rounded.as<float>()[i];
    out[c] += lost * means[static_cast<size_t>(from)];
  }
  return out;
}

/// Products of one graph.
class Products {
 public:
  Products(Graph &graph, const Quants &quants, const InputMeans &means)
      : g_(graph), quants_(quants), means_(means), made_(graph.producers()) {}

  void run(size_t i) {
    Node &n = g_.nodes[i];
    const size_t constant = g_.is_constant(n.inputs[1]) ? 1 : 0;
    if (!g_.is_constant(n.inputs[constant])) return;
    const graph::TensorPtr w = g_[n.inputs[constant]].constant;
    const Channels channels(w->shape, n.op == Op::Conv || constant == 0 ? 0 : w->shape.size() - 1);
    const Quant *x = quant_behind(g_, made_, quants_, n.inputs[1 - constant]);
    const graph::TensorPtr bias = n.inputs.size() > 2 && n.inputs[2] != kNoValue ? g_[n.inputs[2]].constant : nullptr;
    std::vector<float> scales = weight_scales(*w, channels, constant ? bias.get() : nullptr, x ? x->scale : 1);
    // A constant that stands first has rows, not channels of the result.
    if (!constant) scales = {*std::max_element(scales.begin(), scales.end())};
    graph::TensorPtr values;
    auto integers = rounded_weights(*w, channels, scales, values);
    if (constant) {
      std::vector<double> lost(scales.size());
      if (const auto known = means_.find(i); known != means_.end())
        lost = lost_means(n, *w, *values, channels, known->second);
      set_bias(n, bias.get(), lost, x ? x->scale : 1, scales);
    }
    n.inputs[constant] = g_.add_constant(std::move(values), g_[n.inputs[constant]].name);
    g_[n.inputs[constant]].quantized = std::move(integers);
  }

 private:
  /// The bias with a summand, in whole units of the sums.
  void set_bias(Node &n, const Tensor *bias, const std::vector<double> &more, float x_scale,
                const std::vector<float> &scales) {
    std::vector<float> whole;
    for (size_t c = 0; c < scales.size(); ++c) {
      const double unit = static_cast<double>(x_scale * scales[c]);
      const double sum = more[c] + (bias ? bias->as<float>()[c] : 0);
      whole.push_back(static_cast<float>(std::nearbyint(sum / unit) * unit));
    }
    const auto is_zero = [](float v) { return v == 0; };
    if (!bias && std::all_of(whole.begin(), whole.end(), is_zero)) return;
    n.inputs.resize(3, kNoValue);
    n.inputs[2] = g_.add_constant(graph::make_f32({std::ssize(whole)}, whole), bias ? g_[n.inputs[2]].name : "");
  }

  Graph &g_;
  const Quants &quants_;
  const InputMeans &means_;
  const std::vector<int> made_;
};

}  // namespace

Quant quant_of(Range range, Type type, bool symmetric) {
  const double low = std::min(range.low, 0.f), high = std::max(range.high, 0.f);
  const int32_t first = type == Type::Uint8 ? 0 : -128;
  constexpr float kLeast = std::numeric_limits<float>::min() * (1 << 24);  // quotients of scales are normal numbers
  constexpr float kUnknown = 1e-4f;                                        // of what has never been anything but 0
  if (low == 0 && high == 0) return {kUnknown, symmetric ? first + 128 : first};
  if (symmetric && low < 0) return {std::max(static_cast<float>(std::max(-low, high) / 127), kLeast), first + 128};
  const float scale = std::max(static_cast<float>((high - low) / 255), kLeast);
  const double zero = std::clamp(std::nearbyint(-low / static_cast<double>(scale)), 0., 255.);
  return {scale, first + static_cast<int32_t>(zero)};
}

void insert_pairs(Graph &graph, const Plan &plan, const Quants &quants, Type type,
                  std::map<ValueId, ValueId> &rounded) {
  Inserter(graph, plan, quants, type, rounded).run();
}

void quantize_weights(Graph &graph, const Plan &plan, const Quants &quants, const InputMeans &means) {
  Products products(graph, quants, means);
  for (const Layer &layer : plan.layers) {
    const Op op = graph.nodes[layer.nodes[0]].op;
    if (op == Op::Conv || op == Op::MatMul) products.run(layer.nodes[0]);
  }
}

}  // namespace npu::quantize
