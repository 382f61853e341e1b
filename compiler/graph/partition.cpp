// SPDX-License-Identifier: MIT
#include "compiler/graph/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/graph/moves.h"

namespace npu::graph {
namespace {

/// Operations (multiply-accumulates or elements) below which a part is not worth two changes of sides. Measured with
/// the chip model in the process: a launch with a Relu of so many elements takes 30 us, the CPU adds as many in 46 us
/// and takes 150 us for as many arctangents.
constexpr int64_t kLittleWork = 16384;

/// Pieces of consecutive indices, each one copy, that a Gather on the chip may have.
constexpr int64_t kMaxGatherRuns = 4096;

/// Elements of a convolution's weights that are no constant, and of all that one output sees: both have to fit the
/// smallest local memory, the latter twice.
constexpr int64_t kMadeWeights = 4096;

bool fusible(const Activation &act) { return act.kind <= ActKind::Tanh; }

bool is_absent_or_constant(const Graph &g, const Node &n, size_t k) {
  return n.inputs.size() <= k || n.inputs[k] == kNoValue || g.is_constant(n.inputs[k]);
}

/// Whether indices are those of a few copies, and inside of their dimension.
bool few_runs(const Value &v, int64_t size) {
  if (!v.constant || v.dtype != Dtype::I64) return false;
  const int64_t *index = v.constant->as<int64_t>();
  const int64_t n = v.constant->count();
  int64_t runs = 1;
  for (int64_t i = 0; i < n; ++i) {
    if (index[i] < 0 || index[i] >= size) return false;
    if (i > 1 && index[i] - index[i - 1] != index[i - 1] - index[i - 2]) ++runs;
  }
  return runs <= kMaxGatherRuns;
}

bool has_weights_for_chip(const Graph &g, const Node &n) {
  if (g.is_constant(n.inputs[1])) return true;
  const Shape &w = g[n.inputs[1]].shape;
  const Window &window = std::get<ConvAttrs>(n.attrs).window;
  return element_count(w) <= kMadeWeights && w[1] * window.extent(0) * window.extent(1) <= kMadeWeights;
}

bool has_whole_rows(const Graph &g, const Node &n) {
  return g[n.output].shape[static_cast<size_t>(std::get<SoftmaxAttrs>(n.attrs).axis)] <= kWholeRow;
}

}  // namespace

bool has_command(const Graph &g, const Node &n) {
  switch (n.op) {
    case Op::Conv:
      return has_weights_for_chip(g, n) && is_absent_or_constant(g, n, 2) && fusible(std::get<ConvAttrs>(n.attrs).act);
    case Op::MatMul:
      return is_absent_or_constant(g, n, 2) && fusible(std::get<MatMulAttrs>(n.attrs).act);
    case Op::Binary: {
      const auto &attrs = std::get<BinaryAttrs>(n.attrs);
      return static_cast<int>(attrs.kind) < cpu::kFirstHostBinary && fusible(attrs.act);
    }
    case Op::Unary:
      return static_cast<int>(std::get<UnaryAttrs>(n.attrs).act.kind) < cpu::kFirstHostAct;
    case Op::Gather:
      return few_runs(g[n.inputs[1]], g[n.inputs[0]].shape[static_cast<size_t>(std::get<GatherAttrs>(n.attrs).axis)]);
    case Op::Softmax:
      return (g[n.inputs[0]].dtype == Dtype::F32 && g[n.output].dtype == Dtype::F32) || has_whole_rows(g, n);
    case Op::Pool:
    case Op::Transpose:
    case Op::Reshape:
    case Op::Concat:
    case Op::Slice:
    case Op::Pad:
    case Op::Expand:
    case Op::Cast:
      return true;
    default:
      return false;
  }
}

namespace {

/// Whether a command takes 8 bits without knowing what they stand for.
bool takes_bytes(const Node &n) { return moves(n) || is_max_pool(n); }

bool is_number(Dtype type) { return is_byte(type) || is_real(type); }
bool is_word(Dtype type) { return type == Dtype::I16 || type == Dtype::U16; }

bool has_integer_command(const Graph &g, const Node &n) {
  const Dtype x = g[n.inputs[0]].dtype, out = g[n.output].dtype;
  const auto is_short = [](Dtype type) { return is_number(type) || is_word(type); };
  switch (n.op) {
    case Op::Conv:
    case Op::MatMul:
      return has_command(g, n) && is_absent_or_constant(g, n, 3);
    case Op::Binary:
      return has_command(g, n) && is_number(x) && is_number(g[n.inputs[1]].dtype) && is_number(out);
    case Op::Softmax:
      return is_number(x) && is_number(out) && has_whole_rows(g, n);
    case Op::Pool:
      return is_number(x) && is_number(out);
    case Op::Requant:
      return is_short(x) && is_short(out) && fusible(std::get<RequantAttrs>(n.attrs).act);
    case Op::Lookup:
      return g.is_constant(n.inputs[1]);
    default:
      return false;
  }
}

/// Operations of a node: multiply-accumulates, or elements.
int64_t work_of(const Graph &g, const Node &n) {
  const int64_t elements = element_count(g[n.output].shape);
  if (n.op == Op::MatMul) return elements * g[n.inputs[0]].shape.back();
  if (n.op == Op::Conv) {
    const Shape &w = g[n.inputs[1]].shape;
    return elements * std::max<int64_t>(element_count(w) / std::max<int64_t>(w[0], 1), 1);
  }
  const int64_t read = n.op == Op::Pool ? element_count(g[n.inputs[0]].shape) : 0;
  return std::max(elements, read);
}

/// For each node the number of its part, and for each part which side it is on.
struct Cut {
  std::vector<size_t> part;
  std::vector<bool> on_chip;
};

/// Puts each Fail into the part with the Where that decides whether it counts.
void join_failures(const Graph &g, Cut &cut) {
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for (size_t k = 0; k < g.nodes.size() && g.nodes[i].op == Op::Fail; ++k)
      if (std::ranges::count(g.nodes[k].inputs, g.nodes[i].output)) {
        cut.part[i] = cut.part[k];
        break;
      }
}

Cut take_turns(const Graph &g, const std::vector<bool> &chip, bool first) {
  Cut cut{std::vector<size_t>(g.nodes.size()), {}};
  std::vector<bool> ready(g.values.size(), true), done(g.nodes.size());
  size_t left = 0;
  for (const Node &n : g.nodes) {
    left += n.op != Op::Fail;
    ready[at(n.output)] = n.op == Op::Fail;
  }
  for (bool side = first; left; side = !side) {
    bool any = false;
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      const Node &n = g.nodes[i];
      if (done[i] || chip[i] != side || n.op == Op::Fail) continue;
      if (!std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId v) { return v == kNoValue || ready[static_cast<size_t>(v)]; }))
        continue;
      ready[static_cast<size_t>(n.output)] = done[i] = any = true;
      cut.part[i] = cut.on_chip.size();
      --left;
    }
    if (any) cut.on_chip.push_back(side);
  }
  join_failures(g, cut);
  return cut;
}

Cut best_turns(const Graph &g, const std::vector<bool> &chip) {
  Cut a = take_turns(g, chip, true), b = take_turns(g, chip, false);
  return a.on_chip.size() <= b.on_chip.size() ? a : b;
}

/// Cuts the nodes of one part into runs that have at most kMaxPartTensors inputs and outputs each.
class Pieces {
 public:
  Pieces(const Graph &g, const Cut &cut)
      : g_(g), uses_(g.use_counts()), inside_(g.values.size()), state_(g.values.size()) {
    // Reads by the part that makes a value.
    const std::vector<int> made = g.producers();
    for (size_t i = 0; i < g.nodes.size(); ++i)
      for (ValueId v : g.nodes[i].inputs)
        if (v != kNoValue && made[at(v)] >= 0 && cut.part[static_cast<size_t>(made[at(v)])] == cut.part[i])
          ++inside_[at(v)];
  }

  /// Returns the end of the longest run from nodes[first] on that fits, or of one node.
  size_t end_of_run(const std::vector<size_t> &nodes, size_t first) {
    ++run_;
    size_t end = first + 1;
    // Neither number falls when a run grows; `open` results may still get their last reader.
    size_t inputs = 0, outputs = 0, open = 0;
    for (size_t i = first; i < nodes.size() && inputs + outputs <= kMaxPartTensors; ++i) {
      const Node &n = g_.nodes[nodes[i]];
      for (ValueId v : n.inputs) {
        if (v == kNoValue || g_.is_constant(v)) continue;
        State &s = state_of(v);
        if (s.made)
          open -= s.left > 0 && --s.left == 0;
        else if (!s.read)
          s.read = true, ++inputs;
      }
      const ValueId v = n.output;
      State &s = state_of(v);
      s.made = true;
      if (uses_[at(v)] > inside_[at(v)])
        ++outputs;
      else if (inside_[at(v)])
        s.left = inside_[at(v)], ++open;
      if (std::max<size_t>(inputs, 1) + outputs + open <= kMaxPartTensors) end = i + 1;
    }
    return end;
  }

 private:
  struct State {
    size_t run = 0;  ///< the run to which the other fields belong
    bool made = false, read = false;
    int left = 0;  ///< readers that are not in the run yet, where all are in its part
  };

  State &state_of(ValueId v) {
    State &s = state_[at(v)];
    if (s.run != run_) {
      s = {};
      s.run = run_;
    }
    return s;
  }

  const Graph &g_;
  const std::vector<int> uses_;
  std::vector<int> inside_;
  std::vector<State> state_;
  size_t run_ = 0;
};

/// The same cut, in which the parts of the chip fit.
Cut in_pieces(const Graph &g, const Cut &cut) {
  std::vector<std::vector<size_t>> nodes(cut.on_chip.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) nodes[cut.part[i]].push_back(i);
  Pieces pieces(g, cut);
  Cut out{cut.part, {}};
  for (size_t p = 0; p < nodes.size(); ++p)
    for (size_t first = 0; first < nodes[p].size();) {
      const size_t end = cut.on_chip[p] ? pieces.end_of_run(nodes[p], first) : nodes[p].size();
      for (; first < end; ++first) out.part[nodes[p][first]] = out.on_chip.size();
      out.on_chip.push_back(cut.on_chip[p]);
    }
  return out;
}

/// Gives the parts of the chip that have least work to the CPU, as long as one has too little or there are too many.
Cut cut_by_cost(const Graph &g) {
  std::vector<bool> chip;
  for (const Node &n : g.nodes) chip.push_back(runs_on_chip(g, n));
  for (;;) {
    const Cut cut = best_turns(g, chip);
    Cut pieces = in_pieces(g, cut);
    std::vector<int64_t> work(cut.on_chip.size());
    for (size_t i = 0; i < g.nodes.size(); ++i) work[cut.part[i]] += work_of(g, g.nodes[i]);
    std::vector<int64_t> of_chip;
    for (size_t p = 0; p < work.size(); ++p)
      if (cut.on_chip[p]) of_chip.push_back(work[p]);
    if (of_chip.empty()) return pieces;
    const int64_t least = *std::min_element(of_chip.begin(), of_chip.end());
    const bool enough = least >= kLittleWork || cut.on_chip.size() == 1;
    if (enough && pieces.on_chip.size() <= kMaxParts) return pieces;
    const int64_t limit = std::max(least, kLittleWork - 1);
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (cut.on_chip[cut.part[i]] && work[cut.part[i]] <= limit) chip[i] = false;
  }
}

/// Outputs that are inputs, constants or other outputs as well get a copy of their own, which some part makes.
void make_outputs_own(Graph &g) {
  std::vector<bool> taken(g.values.size());
  for (ValueId v : g.inputs) taken[static_cast<size_t>(v)] = true;
  for (ValueId &v : g.outputs) {
    if (!taken[static_cast<size_t>(v)] && !g.is_constant(v)) {
      taken[static_cast<size_t>(v)] = true;
      continue;
    }
    Node copy;
    copy.op = Op::Reshape;
    copy.source = static_cast<int>(g.sources.size());
    g.sources.push_back({g[v].name.empty() ? "copy" : g[v].name, "Copy", {}, {g[v]}});
    copy.attrs = ShapeAttrs{g[v].shape};
    copy.inputs = {v};
    Value result;
    static_cast<TensorKind &>(result) = g[v];
    result.quant = g[v].quant;
    copy.output = v = g.add_value(std::move(result));
    g.nodes.push_back(std::move(copy));
    taken.resize(g.values.size(), true);
  }
}

/// Operands of an inner node of a tree of concatenations.
constexpr size_t kConcatGroup = 16;

/// Groups of neighbours with so many different tensors each, constants left out.
std::vector<std::vector<ValueId>> concat_groups(const Graph &g, const std::vector<ValueId> &operands) {
  std::vector<std::vector<ValueId>> groups(1);
  std::set<ValueId> tensors;
  for (ValueId v : operands) {
    const bool counts = !g.is_constant(v) && !tensors.count(v);
    if (counts && tensors.size() == kConcatGroup) {
      groups.emplace_back();
      tensors.clear();
    }
    if (counts) tensors.insert(v);
    groups.back().push_back(v);
  }
  return groups;
}

bool is_wide_concat(const Graph &g, const Node &n) {
  if (n.op != Op::Concat || n.inputs.size() < kMaxPartTensors || !runs_on_chip(g, n)) return false;
  std::set<ValueId> tensors;
  for (ValueId v : n.inputs)
    if (!g.is_constant(v)) tensors.insert(v);
  return tensors.size() >= kMaxPartTensors;
}

/// Makes a tree of each concatenation of more tensors than a part can have. Inner nodes stand where their operands are
/// ready, so that few tensors are alive at any place where the network may be cut.
void split_wide_concats(Graph &g) {
  std::vector<size_t> ready(g.values.size());  // nodes that come before a value
  for (size_t i = 0; i < g.nodes.size(); ++i) ready[at(g.nodes[i].output)] = i + 1;
  std::vector<std::vector<Node>> inner(g.nodes.size() + 1);  // in front of a node
  bool any = false;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    while (is_wide_concat(g, g.nodes[i])) {
      std::vector<ValueId> joined;
      for (std::vector<ValueId> &group : concat_groups(g, g.nodes[i].inputs)) {
        Node n = g.nodes[i];
        size_t from = 0;
        for (ValueId v : group) from = std::max(from, ready[at(v)]);
        n.inputs = std::move(group);
        Value result;
        result.quant = g[n.output].quant;
        result.dtype = g[n.output].dtype;
        result.shape = g[n.inputs[0]].shape;
        int64_t &length = result.shape[static_cast<size_t>(std::get<ConcatAttrs>(n.attrs).axis)] = 0;
        for (ValueId v : n.inputs) length += g[v].shape[static_cast<size_t>(std::get<ConcatAttrs>(n.attrs).axis)];
        joined.push_back(n.output = g.add_value(std::move(result)));
        ready.push_back(from);
        inner[from].push_back(std::move(n));
      }
      g.nodes[i].inputs = std::move(joined);
      any = true;
    }
  }
  if (!any) return;
  std::vector<Node> nodes;
  for (size_t i = 0; i < inner.size(); ++i) {
    std::move(inner[i].begin(), inner[i].end(), std::back_inserter(nodes));
    if (i < g.nodes.size()) nodes.push_back(std::move(g.nodes[i]));
  }
  g.nodes = std::move(nodes);
}

/// Copies the nodes of a part into a graph of its own.
class Extraction {
 public:
  Extraction(const Graph &whole, Part &part) : whole_(whole), part_(part) {
    part_.graph.name = whole.name;
    part_.graph.sources = whole.sources;
  }

  void add(const Node &node) {
    Node n = node;
    for (ValueId &v : n.inputs)
      if (v != kNoValue) v = operand(v);
    n.output = new_value(node.output);
    part_.graph.nodes.push_back(std::move(n));
  }

  /// A sub-network has at least one input, also where it only copies constants.
  void add_input_if_none(ValueId v) {
    if (part_.inputs.empty()) (void)operand(v);
  }

  void add_output(ValueId v) {
    part_.outputs.push_back(v);
    part_.graph.outputs.push_back(mine_.at(v));
    part_.graph.output_names.push_back(whole_[v].name);
  }

 private:
  ValueId new_value(ValueId v) { return mine_[v] = part_.graph.add_value(whole_[v]); }

  ValueId operand(ValueId v) {
    const auto known = mine_.find(v);
    if (known != mine_.end()) return known->second;
    const ValueId mine = new_value(v);
    if (!whole_.is_constant(v)) {
      part_.graph.inputs.push_back(mine);
      part_.inputs.push_back(v);
    }
    return mine;
  }

  const Graph &whole_;
  Part &part_;
  std::map<ValueId, ValueId> mine_;
};

}  // namespace

ValueId unsuitable_tensor(const Graph &g, const Node &n) {
  const auto fits = [&](Dtype type) {
    return is_real(type) || (is_byte(type) && takes_bytes(n)) ||
           (is_word(type) && (rearranges(n) || n.op == Op::Concat));
  };
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    const bool index = n.op == Op::Gather && k == 1;
    if (n.inputs[k] != kNoValue && !index && !fits(g[n.inputs[k]].dtype)) return n.inputs[k];
  }
  return fits(g[n.output].dtype) ? kNoValue : n.output;
}

bool runs_on_chip(const Graph &g, const Node &n) {
  if (is_quantized(n)) return has_integer_command(g, n);
  return unsuitable_tensor(g, n) == kNoValue && has_command(g, n);
}

namespace {

/// The network as the only part.
Part whole_part(const Graph &graph) { return {true, graph, graph.inputs, graph.outputs}; }

/// True if the chip computes a network in one part.
bool is_one_program(const Graph &graph) {
  const std::vector<int> made = graph.producers();  // an output that no node makes is copied
  const std::vector<int> uses = graph.use_counts();
  const auto on_chip = [&](const Node &n) { return runs_on_chip(graph, n); };
  const auto stored = [&](ValueId v) { return made[at(v)] >= 0 || is_number(graph[v].dtype); };
  const auto read =
      static_cast<size_t>(std::ranges::count_if(graph.inputs, [&](ValueId v) { return uses[at(v)] > 0; }));
  return std::ranges::all_of(graph.nodes, on_chip) && std::ranges::all_of(graph.outputs, stored) &&
         read + graph.outputs.size() <= kMaxPartTensors;
}

}  // namespace

std::vector<Part> partition(Graph &graph) {
  if (is_one_program(graph)) return {whole_part(graph)};
  make_outputs_own(graph);
  split_wide_concats(graph);
  const Cut cut = cut_by_cost(graph);
  if (cut.on_chip == std::vector<bool>{true}) return {whole_part(graph)};
  std::vector<Part> parts(cut.on_chip.size());
  std::vector<Extraction> extractions;
  for (size_t p = 0; p < parts.size(); ++p) {
    parts[p].on_chip = cut.on_chip[p];
    extractions.emplace_back(graph, parts[p]);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) extractions[cut.part[i]].add(graph.nodes[i]);
  for (Extraction &e : extractions) e.add_input_if_none(graph.inputs[0]);
  // What another part or the caller reads goes out.
  std::vector<bool> wanted(graph.values.size());
  for (ValueId v : graph.outputs) wanted[static_cast<size_t>(v)] = true;
  for (const Part &p : parts)
    for (ValueId v : p.inputs) wanted[static_cast<size_t>(v)] = true;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (wanted[static_cast<size_t>(graph.nodes[i].output)]) extractions[cut.part[i]].add_output(graph.nodes[i].output);
  return parts;
}

}  // namespace npu::graph
