// SPDX-License-Identifier: MIT
#include "compiler/graph/shard.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace npu::graph {
namespace {

/// All of an input or output of the network.
Port network_port(int index, const Shape &shape) {
  return {false, index, shape, row_major(shape.size()), std::vector<int64_t>(shape.size()), false};
}

class Sharder {
 public:
  Sharder(const Graph &g, const Cuts &cuts, Sharded &out)
      : g_(g), cuts_(cuts), made_(g.producers()), uses_(g.use_counts()), exchanges_(g.values.size()), out_(out) {}

  Status run() {
    out_.cores.resize(static_cast<size_t>(cuts_.cores));
    for (CoreGraph &core : out_.cores) cores_.push_back({core, {}, {}, {}, {}, {}});
    find_wants();
    for (Core &c : cores_) join_wants(c);
    for (Core &c : cores_) begin(c);
    for (size_t i = 0; i < g_.nodes.size(); ++i) add(i);
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (made_[index(g_.outputs[k])] < 0)
        add_output(cores_[0], k, fetch(cores_[0], g_.outputs[k], whole(g_.outputs[k]), 0));
    for (const CoreGraph &core : out_.cores) NPU_TRY(check_parts(core.graph));
    return {};
  }

 private:
  struct Core {
    CoreGraph &to;
    std::vector<bool> live;               ///< nodes that it runs
    std::vector<std::vector<Box>> wants;  ///< of each value that a node makes, what it needs; then joined
    std::vector<ValueId> own;             ///< its part of each value
    std::map<int, ValueId> exchanges;     ///< those that it reads
    std::vector<std::vector<std::pair<Box, ValueId>>> got;  ///< parts of each value that are there
  };

  /// What goes through memory of a value.
  struct Exchange {
    int number = -1;
    Box box;  ///< an empty list: nothing
  };

  /// Pieces of an output that a core writes at most.
  static constexpr int64_t kMostPieces = 4096;

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
        if (made_[index(v)] >= 0 && writes_output(c, v))
          c.wants[index(v)].push_back(in_parts(v) ? own_box(c, v) : whole(v));
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

  /// Of what a core needs and does not compute, all boxes that differ along the cut alone become one, with the core's
  /// own part if that is one of them.
  void join_wants(Core &c) const {
    for (size_t v = 0; v < c.wants.size(); ++v) {
      if (c.wants[v].empty()) continue;
      const auto id = static_cast<ValueId>(v);
      const Box own = own_box(c, id);
      std::vector<Box> joined;
      for (const Box &want : c.wants[v]) {
        if (inside(want, own)) continue;
        const auto like = std::find_if(joined.begin(), joined.end(), [&](const Box &b) { return joins(id, b, want); });
        if (like != joined.end())
          *like = hull(*like, want);
        else
          joined.push_back(joins(id, want, own) ? hull(want, own) : want);
      }
      c.wants[v] = std::move(joined);
    }
  }

  /// Whether two boxes of a value differ along its cut alone.
  bool joins(ValueId v, const Box &a, Box b) const {
    const auto axis = static_cast<size_t>(axis_of(v));
    b[axis] = a[axis];
    return a == b;
  }

  /// The box that is put together for a box that is needed.
  const Box &assembled(const Core &c, ValueId v, const Box &box) const {
    const std::vector<Box> &joined = c.wants[index(v)];
    return *std::find_if(joined.begin(), joined.end(), [&](const Box &b) { return joins(v, b, box); });
  }

  /// What the others need of a core's part; an empty list if they need nothing.
  Box exported(const Core &from, ValueId v) const {
    const Box own = own_box(from, v);
    Box out;
    for (const Core &c : cores_) {
      if (&c == &from) continue;
      for (const Box &want : c.wants[index(v)])
        if (const Box box = common(want, own); !is_empty(box)) out = hull(out, box);
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
    if (cuts_.axis[i] != kWhole) add_exports(i);
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (g_.outputs[k] == v)
        for (Core &c : cores_)
          if (writes_output(c, v)) add_output_of(c, i, k);
  }

  /// Whether each core writes its part of an output, and not the first core all of it: where that would be many pieces.
  bool in_parts(ValueId v) const {
    int64_t pieces = 1;
    for (int d = 0; d < axis_of(v); ++d) pieces *= g_[v].shape[static_cast<size_t>(d)];
    return axis_of(v) != kWhole && pieces <= kMostPieces;
  }
  bool writes_output(const Core &c, ValueId v) const { return number(c) == 0 || in_parts(v); }

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

  void add_exports(size_t i) {
    const Node &n = g_.nodes[i];
    Exchange &e = exchanges_[index(n.output)];
    std::vector<Box> boxes;
    for (const Core &c : cores_) {
      boxes.push_back(exported(c, n.output));
      e.box = hull(e.box, boxes.back());
    }
    if (e.box.empty()) return;
    e.number = static_cast<int>(out_.exchanges.size());
    out_.exchanges.push_back(element_count(shape_of(e.box)) * dtype_bytes(g_[n.output].dtype));
    for (Core &c : cores_) {
      const Box &box = boxes[static_cast<size_t>(number(c))];
      if (box.empty()) continue;
      // A copy, also where it is the whole part: what the core itself reads stays where it is.
      const ValueId copy = slice(c, c.own[index(n.output)], own_box(c, n.output), n.output, box, n.source);
      c.to.graph.outputs.push_back(copy);
      c.to.graph.output_names.push_back(g_[n.output].name);
      c.to.outputs.push_back(exchange_port(n.output, begin_in(e.box, box)));
    }
  }

  /// The cut dimension is the outermost, so that the cores' parts lie one behind the other; the others as windows like
  /// them.
  Port exchange_port(ValueId v, std::vector<int64_t> begin) const {
    const size_t rank = g_[v].shape.size();
    const int axis = axis_of(v);
    std::vector<int> order{axis};
    for (int d = 0; d < static_cast<int>(rank); ++d)
      if (d != axis && (d != 1 || rank < 3)) order.push_back(d);
    if (rank >= 3 && axis != 1) order.push_back(1);
    const Exchange &e = exchanges_[index(v)];
    return {true, e.number, shape_of(e.box), std::move(order), std::move(begin), true};
  }

  void add_output_of(Core &c, size_t i, size_t k) {
    const Node &n = g_.nodes[i];
    const Box part = in_parts(n.output) ? own_box(c, n.output) : whole(n.output);
    ValueId mine = fetch(c, n.output, part, n.source);
    // The part of an output is written to memory at once; what is read again is copied there.
    if (in_parts(n.output) && uses_[index(n.output)] > 1) mine = slice(c, mine, part, n.output, part, n.source);
    add_output(c, k, mine);
    c.to.outputs.back().begin = begin_in(whole(n.output), part);
    c.to.outputs.back().shared = in_parts(n.output);
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
    } else if (const Box &more = assembled(c, v, box); more != box) {
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
    TensorPtr part = slice_constant(*all, box);
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
      Box piece = box;
      piece[axis] = {std::max(range.begin, box[axis].begin), std::min(range.end, box[axis].end)};
      if (is_empty(piece)) return;
      pieces.push_back(mine ? slice_if_smaller(c, c.own[index(v)], own, v, piece, source)
                            : slice_if_smaller(c, exchange_value(c, v), exchanges_[index(v)].box, v, piece, source));
    };
    take({0, own[axis].begin}, false);
    take(own[axis], true);
    take({own[axis].end, g_[v].shape[axis]}, false);
    if (pieces.size() == 1) return pieces[0];
    return push(c, {Op::Concat, source, pieces, kNoValue, ConcatAttrs{static_cast<int>(axis)}}, v, box);
  }

  ValueId exchange_value(Core &c, ValueId v) {
    const Exchange &e = exchanges_[index(v)];
    const auto known = c.exchanges.find(e.number);
    if (known != c.exchanges.end()) return known->second;
    Value value = g_[v];
    value.shape = shape_of(e.box);
    const ValueId mine = c.to.graph.add_value(std::move(value));
    c.to.graph.inputs.push_back(mine);
    c.to.inputs.push_back(exchange_port(v, {}));
    return c.exchanges[e.number] = mine;
  }

  const Graph &g_;
  const Cuts &cuts_;
  const std::vector<int> made_, uses_;
  std::vector<Exchange> exchanges_;  ///< of each value
  std::map<ValueId, std::vector<std::pair<Box, TensorPtr>>> constants_;
  Sharded &out_;
  std::vector<Core> cores_;
};

}  // namespace

std::vector<int> row_major(size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

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
