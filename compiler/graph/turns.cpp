// SPDX-License-Identifier: MIT
#include "compiler/graph/turns.h"

#include <algorithm>
#include <map>

#include "compiler/graph/moves.h"

namespace npu::graph {
namespace {

/// The dimension in which a box is a part of the whole; kWhole if it is the whole.
int cut_axis(const Box &box, const Shape &shape) {
  for (size_t d = 0; d < box.size(); ++d)
    if (box[d].size() != shape[d]) return static_cast<int>(d);
  return kWhole;
}

/// The least part of a result that is cut along a dimension.
Box first_of(const Shape &shape, int axis) {
  Box box = whole_box(shape);
  box[static_cast<size_t>(axis)] = {0, 1};
  return box;
}

class TurnTaker {
 public:
  TurnTaker(const Graph &g, Graph &out)
      : g_(g), out_(out), made_(g.producers()), readers_(readers_of(g)), map_(g.values.size(), kNoValue) {}

  Status run(const std::vector<Turns> &runs) {
    out_.name = g_.name;
    out_.sources = g_.sources;
    out_.notes = g_.notes;
    out_.warnings = g_.warnings;
    out_.folded_bytes = g_.folded_bytes;
    for (ValueId v : g_.inputs) {
      map_[index(v)] = out_.add_value(g_[v]);
      out_.inputs.push_back(map_[index(v)]);
    }
    size_t at = 0;
    for (const Turns &t : runs) {
      for (; at < t.begin; ++at) copy_node(at);
      NPU_TRY(add_run(t));
      at = t.end;
    }
    for (; at < g_.nodes.size(); ++at) copy_node(at);
    out_.output_names = g_.output_names;
    for (ValueId v : g_.outputs) out_.outputs.push_back(mapped(v));
    return {};
  }

 private:
  /// The results of a run's nodes in one piece, and boxes of them and of what the run reads.
  struct Made {
    const Turns &turns;
    const Piece &piece;
    std::vector<ValueId> own;
    std::map<ValueId, std::vector<std::pair<Box, ValueId>>> got;
  };

  /// A value of the network as a whole.
  ValueId mapped(ValueId v) {
    if (v == kNoValue) return v;
    if (map_[index(v)] == kNoValue) map_[index(v)] = out_.add_value(g_[v]);
    return map_[index(v)];
  }

  void copy_node(size_t i) {
    Node n = g_.nodes[i];
    for (ValueId &v : n.inputs) v = mapped(v);
    n.output = mapped(n.output);
    out_.nodes.push_back(std::move(n));
  }

  Status add_run(const Turns &t) {
    std::vector<std::vector<ValueId>> kept(t.end - t.begin);  // of each node, the pieces
    for (int64_t number = 0; number < t.count; ++number) {
      Piece piece(g_, readers_, t, number);
      while (piece.begin() > t.begin)
        if (!piece.extend())
          return Status::error("node " + std::to_string(piece.begin() - 1) + " cannot be computed in turns");
      Made made{t, piece, std::vector<ValueId>(t.end - t.begin), {}};
      for (size_t i = t.begin; i < t.end; ++i) {
        if (is_empty(piece.part(i).made)) continue;
        add_part(made, i);
        if (!piece.part(i).kept.empty()) kept[i - t.begin].push_back(keep(made, i));
      }
    }
    for (size_t i = t.begin; i < t.end; ++i)
      if (!kept[i - t.begin].empty()) join(i, t, std::move(kept[i - t.begin]));
    return {};
  }

  void add_part(Made &made, size_t i) {
    const Node &n = g_.nodes[i];
    const Piece::Part &part = made.piece.part(i);
    Node mine = n;
    mine.attrs = cut_attrs(g_, n, part.axis, part.made);
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k] != kNoValue)
        mine.inputs[k] = fetch(made, n.inputs[k], needed(g_, n, k, part.axis, part.made), n.source);
    made.own[i - made.turns.begin] = push(std::move(mine), n.output, part.made);
  }

  /// Appends a node whose result is a box of a value.
  ValueId push(Node node, ValueId v, const Box &box) {
    Value value;
    value.name = g_[v].name;
    value.dtype = g_[v].dtype;
    value.shape = shape_of(box);
    node.output = out_.add_value(std::move(value));
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().output;
  }
  ValueId slice(ValueId from, const Box &whole, ValueId v, const Box &box, int source) {
    return push({Op::Slice, source, {from}, kNoValue, slice_attrs(whole, box)}, v, box);
  }

  /// A box of a value that the piece makes, or that is there as a whole.
  ValueId fetch(Made &made, ValueId v, const Box &box, int source) {
    auto &got = g_.is_constant(v) ? constants_[v] : made.got[v];
    for (const auto &[known, mine] : got)
      if (known == box) return mine;
    ValueId from;
    Box whole = whole_box(g_[v].shape);
    const int maker = made_[index(v)];
    if (maker >= 0 && static_cast<size_t>(maker) >= made.turns.begin && static_cast<size_t>(maker) < made.turns.end) {
      from = made.own[static_cast<size_t>(maker) - made.turns.begin];
      whole = made.piece.part(static_cast<size_t>(maker)).made;
      source = g_.nodes[static_cast<size_t>(maker)].source;
    } else {
      from = mapped(v);
    }
    const bool is_outside = from == map_[index(v)] && !g_.is_constant(v) && out_[from].in_memory;
    if (box != whole)
      from = g_.is_constant(v) ? out_.add_constant(slice_constant(*g_[v].constant, box), g_[v].name)
                               : slice(from, whole, v, box, source);
    // What lies in memory comes once, if it is read more than once.
    if (is_outside && reads(made.turns, v) > 1)
      from = push({Op::Concat, source, {from}, kNoValue, ConcatAttrs{0}}, v, box);
    got.emplace_back(box, from);
    return from;
  }

  /// How many nodes of a run read a value.
  int64_t reads(const Turns &t, ValueId v) const {
    const std::vector<Reader> &readers = readers_[index(v)];
    return std::count_if(readers.begin(), readers.end(),
                         [&](const Reader &r) { return r.node >= t.begin && r.node < t.end; });
  }

  /// What others get of a piece. What the piece reads itself stays where it is, and is copied.
  ValueId keep(const Made &made, size_t i) {
    const Node &n = g_.nodes[i];
    const Piece::Part &part = made.piece.part(i);
    const ValueId own = made.own[i - made.turns.begin];
    if (part.made == part.kept && !part.read && !is_view(n)) return own;
    return slice(own, part.made, n.output, part.kept, n.source);
  }

  void join(size_t i, const Turns &t, std::vector<ValueId> pieces) {
    const Node &n = g_.nodes[i];
    Piece piece(g_, readers_, t, 0);
    while (piece.begin() > i) piece.extend();
    out_[mapped(n.output)].in_memory = std::find(t.to_memory.begin(), t.to_memory.end(), i) != t.to_memory.end();
    out_.nodes.push_back({Op::Concat, n.source, std::move(pieces), mapped(n.output), ConcatAttrs{piece.part(i).axis}});
  }

  const Graph &g_;
  Graph &out_;
  const std::vector<int> made_;
  const Readers readers_;
  std::vector<ValueId> map_;  ///< of each value that is there as a whole
  std::map<ValueId, std::vector<std::pair<Box, ValueId>>> constants_;
};

}  // namespace

bool is_view(const Node &n) { return rearranges(n) || n.op == Op::Concat || n.op == Op::Gather; }

Readers readers_of(const Graph &g) {
  Readers readers(g.values.size());
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for (size_t k = 0; k < g.nodes[i].inputs.size(); ++k)
      if (const ValueId v = g.nodes[i].inputs[k]; v != kNoValue) readers[index(v)].push_back({i, k});
  for (ValueId v : g.outputs) readers[index(v)].push_back({g.nodes.size(), 0});
  return readers;
}

Piece::Piece(const Graph &graph, const Readers &readers, const Turns &turns, int64_t number)
    : g_(graph), readers_(readers), turns_(turns), number_(number), begin_(turns.end) {
  const Shape &shape = g_[g_.nodes[turns.end - 1].output].shape;
  size_ = static_cast<size_t>(turns.axis) < shape.size() ? shape[static_cast<size_t>(turns.axis)] : 0;
  step_ = (size_ + turns.count - 1) / turns.count;
}

bool Piece::extend() {
  if (size_ < turns_.count) return false;
  const Node &n = g_.nodes[begin_ - 1];
  Part part;
  if (!add_needs(n, part) || !add_kept(n, part)) return false;
  if (part.made.empty()) part.made.assign(g_[n.output].shape.size(), {0, 0});
  if (!is_empty(part.made) && !(can_cut(g_, n, part.axis) && can_compute(g_, n, part.axis, part.made))) return false;
  parts_.push_back(std::move(part));
  --begin_;
  return true;
}

/// What the nodes behind it in the run need.
bool Piece::add_needs(const Node &node, Part &part) const {
  const Shape &shape = g_[node.output].shape;
  for (const Reader &r : readers_[index(node.output)]) {
    if (r.node >= turns_.end) continue;
    const Part &its = this->part(r.node);
    // A piece that needs nothing is cut along the same dimension as the others.
    if (its.axis == kWhole) continue;
    const bool nothing = is_empty(its.made);
    const Box theirs = nothing ? first_of(g_[g_.nodes[r.node].output].shape, its.axis) : its.made;
    const Box box = needed(g_, g_.nodes[r.node], r.operand, its.axis, theirs);
    const int axis = cut_axis(box, shape);
    if (axis == kWhole || (part.axis != kWhole && part.axis != axis)) return false;
    part.axis = axis;
    if (nothing) continue;
    part.made = hull(part.made, box);
    part.read = true;
  }
  return true;
}

/// What those need that are not in the run.
bool Piece::add_kept(const Node &node, Part &part) const {
  const std::vector<Reader> &readers = readers_[index(node.output)];
  if (std::none_of(readers.begin(), readers.end(), [&](const Reader &r) { return r.node >= turns_.end; })) return true;
  const Shape &shape = g_[node.output].shape;
  if (part.axis == kWhole) part.axis = turns_.axis;
  const auto axis = static_cast<size_t>(part.axis);
  if (axis >= shape.size()) return false;
  part.kept = whole_box(shape);
  part.kept[axis] = {cut(shape[axis], number_), cut(shape[axis], number_ + 1)};
  if (is_empty(part.kept))
    part.kept.clear();
  else
    part.made = hull(part.made, part.kept);
  return true;
}

/// Where a piece begins in a dimension: what differs in size from the last node's result is cut in proportion.
int64_t Piece::cut(int64_t size, int64_t number) const {
  return std::min(size, (number * step_ * size + size_ - 1) / size_);
}

Status take_turns(const Graph &graph, const std::vector<Turns> &runs, Graph &out) {
  NPU_TRY(TurnTaker(graph, out).run(runs));
  return check_parts(out);
}

}  // namespace npu::graph
