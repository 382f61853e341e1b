// SPDX-License-Identifier: MIT
#include "compiler/graph/shard.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace npu::graph {
namespace {

Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }
Range hull(Range a, Range b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

Shape shape_of(const Box &box) {
  Shape shape;
  for (Range r : box) shape.push_back(r.size());
  return shape;
}

std::vector<int64_t> begin_of(const Box &box) {
  std::vector<int64_t> begin;
  for (Range r : box) begin.push_back(r.begin);
  return begin;
}

bool is_empty(const Box &box) {
  return std::any_of(box.begin(), box.end(), [](Range r) { return r.size() <= 0; });
}

/// The attributes of the Slice that takes a box out of another one.
SliceAttrs slice_attrs(const Box &from, const Box &box) {
  SliceAttrs a;
  for (size_t d = 0; d < box.size(); ++d) {
    a.start.push_back(box[d].begin - from[d].begin);
    a.step.push_back(1);
    a.count.push_back(box[d].size());
  }
  return a;
}

std::vector<int> row_major(size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// All of an input or output of the network.
Port network_port(int index, const Shape &shape) {
  return {false, index, shape, row_major(shape.size()), std::vector<int64_t>(shape.size()), false};
}

class Sharder {
 public:
  Sharder(const Graph &g, const Cuts &cuts, Sharded &out)
      : g_(g), cuts_(cuts), made_(g.producers()), uses_(g.use_counts()), exchange_(g.values.size(), -1), out_(out) {}

  Status run() {
    out_.cores.resize(static_cast<size_t>(cuts_.cores));
    for (CoreGraph &core : out_.cores) cores_.push_back({core, {}, {}, {}, {}, {}, {}});
    find_wants();
    for (Core &c : cores_) begin(c);
    for (size_t i = 0; i < g_.nodes.size(); ++i) add(i);
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (made_[index(g_.outputs[k])] < 0)
        add_output(cores_[0], k, fetch(cores_[0], g_.outputs[k], whole(g_.outputs[k]), 0));
    for (const CoreGraph &core : out_.cores) NPU_TRY(check(core.graph));
    return {};
  }

 private:
  struct Core {
    CoreGraph &to;
    std::vector<bool> live;                                 ///< nodes that it runs
    std::vector<std::vector<Box>> wants;                    ///< of each value that a node makes, what it needs
    std::vector<ValueId> own;                               ///< its part of each value
    std::vector<ValueId> inputs;                            ///< the network's inputs
    std::map<int, ValueId> exchanges;                       ///< those that it reads
    std::vector<std::vector<std::pair<Box, ValueId>>> got;  ///< parts of each value that are there
  };

  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  Box whole(ValueId v) const { return whole_box(g_[v].shape); }
  const Node &maker(ValueId v) const { return g_.nodes[static_cast<size_t>(made_[index(v)])]; }
  int axis_of(ValueId v) const { return cuts_.axis[static_cast<size_t>(made_[index(v)])]; }
  int number(const Core &c) const { return static_cast<int>(&c - cores_.data()); }
  Box own_box(const Core &c, ValueId v) const { return part_of(g_, maker(v), axis_of(v), cuts_.cores, number(c)); }

  /// Which nodes each core runs, and what they need. A part of a result that nobody wants is computed all the same.
  void find_wants() {
    for (Core &c : cores_) {
      c.live.assign(g_.nodes.size(), false);
      c.wants.resize(g_.values.size());
      for (ValueId v : g_.outputs)
        if (made_[index(v)] >= 0 && (axis_of(v) != kWhole || number(c) == 0))
          c.wants[index(v)].push_back(own_box(c, v));
    }
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const size_t v = index(g_.nodes[i].output);
      const bool any = std::any_of(cores_.begin(), cores_.end(), [&](const Core &c) { return !c.wants[v].empty(); });
      for (Core &c : cores_) {
        c.live[i] = cuts_.axis[i] == kWhole ? !c.wants[v].empty() : any;
        if (c.live[i]) want_operands(c, i);
      }
    }
  }

  void want_operands(Core &c, size_t i) {
    const Node &n = g_.nodes[i];
    const Box part = own_box(c, n.output);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v = n.inputs[k];
      if (v == kNoValue || made_[index(v)] < 0) continue;
      std::vector<Box> &wants = c.wants[index(v)];
      const Box box = needed(g_, n, k, cuts_.axis[i], part);
      if (std::find(wants.begin(), wants.end(), box) == wants.end()) wants.push_back(box);
    }
  }

  static bool inside(const Box &a, const Box &b) {
    for (size_t d = 0; d < a.size(); ++d)
      if (a[d].begin < b[d].begin || a[d].end > b[d].end) return false;
    return true;
  }

  /// The box that is put together for a box that is needed: all needs that differ along the cut alone get one, with the
  /// core's own part if that is one of them.
  Box assembled(const Core &c, ValueId v, const Box &box) const {
    const auto axis = static_cast<size_t>(axis_of(v));
    Box out = box;
    const auto join = [&](Box other) {
      const Range range = other[axis];
      other[axis] = box[axis];
      if (other == box) out[axis] = hull(out[axis], range);
    };
    for (const Box &b : c.wants[index(v)]) join(b);
    join(own_box(c, v));
    return out;
  }

  /// What the others need of a core's part.
  Box exported(const Core &from, ValueId v) const {
    const Box own = own_box(from, v);
    Box out;
    for (const Core &c : cores_) {
      if (&c == &from) continue;
      for (const Box &want : c.wants[index(v)]) {
        if (inside(want, own_box(c, v))) continue;
        Box box = assembled(c, v, want);
        for (size_t d = 0; d < box.size(); ++d) box[d] = common(box[d], own[d]);
        if (is_empty(box)) continue;
        for (size_t d = 0; d < box.size() && !out.empty(); ++d) box[d] = hull(box[d], out[d]);
        out = box;
      }
    }
    return out;
  }

  void begin(Core &c) {
    Graph &g = c.to.graph;
    g.name = g_.name;
    g.sources = g_.sources;
    c.own.assign(g_.values.size(), kNoValue);
    c.got.resize(g_.values.size());
    for (size_t k = 0; k < g_.inputs.size(); ++k) {
      const ValueId v = g_.inputs[k];
      c.own[index(v)] = g.add_value(g_[v]);
      g.inputs.push_back(c.own[index(v)]);
      c.to.inputs.push_back(network_port(static_cast<int>(k), g_[v].shape));
    }
  }

  /// The parts of a node, and what of them goes to others.
  void add(size_t i) {
    const ValueId v = g_.nodes[i].output;
    for (Core &c : cores_)
      if (c.live[i]) add_part(c, i);
    if (cuts_.axis[i] != kWhole)
      for (Core &c : cores_) add_export(c, i);
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (g_.outputs[k] == v)
        for (Core &c : cores_)
          if (cuts_.axis[i] != kWhole || number(c) == 0) add_output_of(c, i, k);
  }

  void add_part(Core &c, size_t i) {
    const Node &n = g_.nodes[i];
    const Box part = own_box(c, n.output);
    Node mine = n;
    mine.attrs = cut_attrs(g_, n, cuts_.axis[i], part);
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k] != kNoValue)
        mine.inputs[k] = fetch(c, n.inputs[k], needed(g_, n, k, cuts_.axis[i], part), n.source);
    c.own[index(n.output)] = push(c, std::move(mine), n.output, part);
  }

  /// Appends a node whose result is a box of a value of the network.
  ValueId push(Core &c, Node node, ValueId v, const Box &box) {
    Value value;
    value.name = g_[v].name;
    value.dtype = g_[v].dtype;
    value.shape = shape_of(box);
    node.output = c.to.graph.add_value(std::move(value));
    c.to.graph.nodes.push_back(std::move(node));
    return c.to.graph.nodes.back().output;
  }

  ValueId slice(Core &c, ValueId mine, const Box &from, ValueId v, const Box &box, int source) {
    return push(c, {Op::Slice, source, {mine}, kNoValue, slice_attrs(from, box)}, v, box);
  }
  ValueId slice_if_smaller(Core &c, ValueId mine, const Box &from, ValueId v, const Box &box, int source) {
    return from == box ? mine : slice(c, mine, from, v, box, source);
  }

  void add_export(Core &c, size_t i) {
    const Node &n = g_.nodes[i];
    const Box box = exported(c, n.output);
    if (box.empty()) return;
    int &exchange = exchange_[index(n.output)];
    if (exchange < 0) {
      exchange = static_cast<int>(out_.exchanges.size());
      out_.exchanges.push_back(element_count(g_[n.output].shape));
    }
    // A copy, also where it is the whole part: what the core itself reads stays where it is.
    const ValueId copy = slice(c, c.own[index(n.output)], own_box(c, n.output), n.output, box, n.source);
    c.to.graph.outputs.push_back(copy);
    c.to.graph.output_names.push_back(g_[n.output].name);
    c.to.outputs.push_back(exchange_port(n.output, begin_of(box)));
  }

  /// The cut dimension is the outermost, so that what a core writes is one run; the others as windows like them.
  Port exchange_port(ValueId v, std::vector<int64_t> begin) const {
    const size_t rank = g_[v].shape.size();
    const int axis = axis_of(v);
    std::vector<int> order{axis};
    for (int d = 0; d < static_cast<int>(rank); ++d)
      if (d != axis && (d != 1 || rank < 3)) order.push_back(d);
    if (rank >= 3 && axis != 1) order.push_back(1);
    return {true, exchange_[index(v)], g_[v].shape, std::move(order), std::move(begin), true};
  }

  void add_output_of(Core &c, size_t i, size_t k) {
    const Node &n = g_.nodes[i];
    ValueId mine = c.own[index(n.output)];
    const Box part = own_box(c, n.output);
    const bool is_part = cuts_.axis[i] != kWhole;
    // The part of an output is written to memory at once; what is read again is copied there.
    if (is_part && uses_[index(n.output)] > 1) mine = slice(c, mine, part, n.output, part, n.source);
    add_output(c, k, mine);
    c.to.outputs.back().begin = begin_of(part);
    c.to.outputs.back().part = is_part;
  }

  void add_output(Core &c, size_t k, ValueId mine) {
    c.to.graph.outputs.push_back(mine);
    c.to.graph.output_names.push_back(g_.output_names[k]);
    c.to.outputs.push_back(network_port(static_cast<int>(k), g_[g_.outputs[k]].shape));
  }

  /// A box of a value, in a core's graph.
  ValueId fetch(Core &c, ValueId v, const Box &box, int source) {
    for (const auto &[known, mine] : c.got[index(v)])
      if (known == box) return mine;
    ValueId mine;
    if (g_.is_constant(v)) {
      mine = c.to.graph.add_constant(constant(v, box), g_[v].name);
    } else if (made_[index(v)] < 0) {
      mine = slice_if_smaller(c, c.own[index(v)], whole(v), v, box, source);
    } else if (const Box own = own_box(c, v); inside(box, own)) {
      mine = slice_if_smaller(c, c.own[index(v)], own, v, box, maker(v).source);
    } else if (const Box more = assembled(c, v, box); more != box) {
      mine = slice(c, fetch(c, v, more, source), more, v, box, maker(v).source);
    } else {
      mine = assemble(c, v, box);
    }
    c.got[index(v)].emplace_back(box, mine);
    return mine;
  }

  TensorPtr constant(ValueId v, const Box &box) {
    const TensorPtr all = g_[v].constant;
    if (box == whole(v)) return all;
    for (const auto &[known, tensor] : constants_[v])
      if (known == box) return tensor;
    auto part = std::make_shared<Tensor>(g_[v].dtype, shape_of(box));
    const Tensor *operands[] = {all.get()};
    // A slice of what is there cannot fail.
    (void)cpu::evaluate(Op::Slice, slice_attrs(whole(v), box), operands, *part);
    constants_[v].emplace_back(box, part);
    return part;
  }

  /// Puts a box together from the core's own part and from what others write.
  ValueId assemble(Core &c, ValueId v, const Box &box) {
    const auto axis = static_cast<size_t>(axis_of(v));
    const int source = maker(v).source;
    const Box own = own_box(c, v);
    std::vector<ValueId> pieces;
    const auto take = [&](Range range, bool mine) {
      range = common(range, box[axis]);
      if (range.size() <= 0) return;
      Box piece = box;
      piece[axis] = range;
      pieces.push_back(mine ? slice_if_smaller(c, c.own[index(v)], own, v, piece, source)
                            : slice(c, exchange_value(c, v), whole(v), v, piece, source));
    };
    take({0, own[axis].begin}, false);
    take(own[axis], true);
    take({own[axis].end, g_[v].shape[axis]}, false);
    if (pieces.size() == 1) return pieces[0];
    return push(c, {Op::Concat, source, pieces, kNoValue, ConcatAttrs{static_cast<int>(axis)}}, v, box);
  }

  ValueId exchange_value(Core &c, ValueId v) {
    const auto known = c.exchanges.find(exchange_[index(v)]);
    if (known != c.exchanges.end()) return known->second;
    const ValueId mine = c.to.graph.add_value(g_[v]);
    c.to.graph.inputs.push_back(mine);
    c.to.inputs.push_back(exchange_port(v, {}));
    return c.exchanges[exchange_[index(v)]] = mine;
  }

  /// Every node fits its operands, or the rules of shard_rules.cpp are wrong.
  static Status check(const Graph &g) {
    for (const Node &n : g.nodes) {
      TensorKind kind;
      NPU_TRY(infer(g, n, kind));
      if (!(kind == static_cast<const TensorKind &>(g[n.output])))
        return Status::error(std::string("a part of ") + op_name(n.op) + " is " + kind_text(kind) + ", expected " +
                             kind_text(g[n.output]));
    }
    return {};
  }

  const Graph &g_;
  const Cuts &cuts_;
  const std::vector<int> made_, uses_;
  std::vector<int> exchange_;  ///< of each value, -1: none
  std::map<ValueId, std::vector<std::pair<Box, TensorPtr>>> constants_;
  Sharded &out_;
  std::vector<Core> cores_;
};

}  // namespace

CoreGraph alone(Graph graph) {
  CoreGraph core{std::move(graph), {}, {}};
  const Graph &g = core.graph;
  for (size_t k = 0; k < g.inputs.size(); ++k)
    core.inputs.push_back(network_port(static_cast<int>(k), g[g.inputs[k]].shape));
  for (size_t k = 0; k < g.outputs.size(); ++k)
    core.outputs.push_back(network_port(static_cast<int>(k), g[g.outputs[k]].shape));
  return core;
}

Status shard(const Graph &graph, const Cuts &cuts, Sharded &out) { return Sharder(graph, cuts, out).run(); }

}  // namespace npu::graph
