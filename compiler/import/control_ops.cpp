// SPDX-License-Identifier: MIT
// Control flow. A branch that is known at compile time is taken; else both are computed and one is chosen. Loops are
// unrolled: their number of turns must be known, a condition that arrives at run time only stops changing the state.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/graph/evaluate.h"
#include "compiler/import/node_order.h"
#include "compiler/import/op_context.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

constexpr int64_t kMaxTurns = 4096;

/// The value of a constant condition of one element.
bool known(const OpContext &c, ValueId v, bool &value) {
  const TensorPtr &t = c.graph[v].constant;
  if (!t || t->dtype != Dtype::Bool || t->count() != 1) return false;
  value = t->data[0] != 0;
  return true;
}

Status check_condition(const OpContext &c, ValueId v) {
  const Value &value = c.graph[v];
  if (value.dtype == Dtype::Bool && element_count(value.shape) == 1) return {};
  return Status::error("its condition is " + kind_text(value) + ", expected one bool");
}

/// A condition without dimensions, so that it spreads over any shape.
Status scalar_condition(OpContext &c, ValueId v, ValueId &out) {
  NPU_TRY(check_condition(c, v));
  return c.reshape(v, {}, out);
}

constexpr const char *kBranches[] = {"else_branch", "then_branch"};

/// Everything that a value follows from.
struct Origins {
  std::set<ValueId> inputs;   ///< inputs of the network
  std::set<size_t> nodes;     ///< by index
  std::set<int64_t> numbers;  ///< constants that are compared on the way
};

Origins find_origins(const Graph &g, ValueId v) {
  Origins out;
  const std::vector<int> made = g.producers();
  std::set<ValueId> seen;
  for (std::vector<ValueId> open{v}; !open.empty();) {
    const ValueId now = open.back();
    open.pop_back();
    if (now == kNoValue || g.is_constant(now) || !seen.insert(now).second) continue;
    if (made[at(now)] < 0) {
      out.inputs.insert(now);
      continue;
    }
    const auto i = static_cast<size_t>(made[at(now)]);
    out.nodes.insert(i);
    const Node &n = g.nodes[i];
    open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    std::vector<int64_t> known;
    for (ValueId k : n.inputs)
      if (k != kNoValue && n.op == Op::Binary && g.is_constant(k) && to_ints(*g[k].constant, known) &&
          known.size() == 1)
        out.numbers.insert(known[0]);
  }
  return out;
}

/// Finds a number for the only input that a condition follows from, with which the condition has the wanted value.
std::optional<int64_t> deciding_number(const Graph &g, ValueId condition, const Origins &origins, bool wanted) {
  const ValueId input = *origins.inputs.begin();
  Graph part;
  part.sources = g.sources;
  part.values = g.values;
  for (size_t i : origins.nodes) part.nodes.push_back(g.nodes[i]);
  part.inputs = {input};
  part.outputs = {condition};
  constexpr size_t kMostNumbers = 8;
  constexpr int64_t kLarge = int64_t{1} << 31;
  std::vector<int64_t> candidates(origins.numbers.rbegin(), origins.numbers.rend());
  if (candidates.size() > kMostNumbers) candidates.resize(kMostNumbers);
  for (size_t k = 0, count = candidates.size(); k < count; ++k)  // beside the number of a comparison
    if (const int64_t n = candidates[k]; n > -kLarge && n < kLarge) candidates.insert(candidates.end(), {n + 1, n - 1});
  candidates.insert(candidates.end(), {1, 0});
  for (int64_t n : candidates) {
    Tensor value(g[input].dtype, g[input].shape);
    cpu::store(value, 0, static_cast<double>(n));
    std::vector<Tensor> results;
    if (cpu::load(value, 0) == static_cast<double>(n) && evaluate_graph(part, {value}, results).ok() &&
        (cpu::load(results[0], 0) != 0) == wanted)
      return n;
  }
  return {};
}

/// ": " and the hint, where there is one.
std::string added_hint(const OpContext &c, bool branch) {
  const std::string hint = condition_hint(c.graph, c.in(0), branch);
  return hint.empty() ? "" : ": " + hint;
}

/// The bodies of an If, and what they become.
struct Branches {
  const RawGraph *bodies[2] = {};
  std::vector<ValueId> outputs[2];
};

Status check_outputs(const OpContext &c, const Branches &branches, bool branch) {
  const size_t count = branches.outputs[branch].size();
  return count >= c.results.size() ? Status()
                                   : Status::error(std::string(kBranches[branch]) + " has " + std::to_string(count) +
                                                   " outputs, expected " + std::to_string(c.results.size()));
}

Status convert_branch(OpContext &c, bool branch, Branches &branches) {
  NPU_TRY(c.bodies->convert_body(*branches.bodies[branch], {}, true, branches.outputs[branch]));
  return check_outputs(c, branches, branch);
}

Status try_branch(OpContext &c, bool branch, Branches &branches) {
  NPU_TRY(c.bodies->try_branch(*branches.bodies[branch], branches.outputs[branch]));
  return check_outputs(c, branches, branch);
}

/// Results of a branch that cannot be converted: of the kinds of the other one, and errors at run time.
void fail_later(OpContext &c, bool branch, Branches &branches) {
  const std::string name = std::string(kBranches[branch]) + " of " + node_name(c.node);
  const auto source = static_cast<int>(c.graph.sources.size());
  c.graph.sources.push_back({name, "Fail", {}});
  branches.outputs[branch].clear();
  for (size_t k = 0; k < c.results.size(); ++k) {
    const TensorKind kind = c.graph[branches.outputs[!branch][k]];
    Value result;
    static_cast<TensorKind &>(result) = kind;
    Node n;
    n.op = Op::Fail;
    n.source = source;
    n.attrs = ShapeAttrs{kind.shape};
    n.inputs = {c.scalar(0, kind.dtype)};
    n.output = c.graph.add_value(std::move(result));
    branches.outputs[branch].push_back(n.output);
    c.graph.nodes.push_back(std::move(n));
  }
}

/// Both branches where the condition arrives at run time. One that cannot be converted is an error then.
Status convert_both(OpContext &c, Branches &branches) {
  if (!c.bodies->may_fail_later()) {
    // Also in a branch of another If: with attempts, the work would double from level to level.
    for (const bool branch : {false, true}) NPU_TRY(convert_branch(c, branch, branches));
    return {};
  }
  Status wrong[2];
  for (const bool branch : {false, true}) wrong[branch] = try_branch(c, branch, branches);
  if (wrong[0].ok() && wrong[1].ok()) return {};
  if (!wrong[0].ok() && !wrong[1].ok())
    return refuse(obstacle_of(wrong[0]), "neither of its branches can be compiled: " + std::string(kBranches[0]) +
                                             ": " + wrong[0].message() + "; " + kBranches[1] + ": " +
                                             wrong[1].message());
  const bool failed = !wrong[1].ok();
  const std::string text = node_title(c.node) + ": its " + kBranches[failed] + " cannot be compiled (";
  // Each turn of a Loop has the same one, of tensors with other names.
  if (std::ranges::none_of(c.graph.warnings, [&](const std::string &w) { return w.starts_with(text); }))
    c.graph.warnings.push_back(text + wrong[failed].message() + "), so launches that choose it fail" +
                               added_hint(c, !failed));
  fail_later(c, failed, branches);
  return {};
}

Status if_op(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(check_condition(c, c.in(0)));
  Branches branches;
  for (const bool branch : {false, true})
    if (!(branches.bodies[branch] = c.attr_graph(kBranches[branch])))
      return Status::error(std::string("it has no ") + kBranches[branch]);
  bool value = false;
  if (known(c, c.in(0), value)) {
    NPU_TRY(c.bodies->convert_chosen(*branches.bodies[value], c.node.inputs[0], value, branches.outputs[value]));
    NPU_TRY(check_outputs(c, branches, value));
    for (size_t k = 0; k < c.results.size(); ++k) c.results[k] = branches.outputs[value][k];
    return {};
  }
  NPU_TRY(convert_both(c, branches));
  ValueId condition = kNoValue;
  NPU_TRY(scalar_condition(c, c.in(0), condition));
  for (size_t k = 0; k < c.results.size(); ++k) {
    const ValueId yes = branches.outputs[1][k], no = branches.outputs[0][k];
    const Value &a = c.graph[yes], &b = c.graph[no];
    if (static_cast<const TensorKind &>(a) != b)
      return refuse(Obstacle::Value, "output " + std::to_string(k) + " is " + kind_text(a) + " or " + kind_text(b) +
                                         ", and its condition is not known at compile time" + added_hint(c, true));
    NPU_TRY(c.where(condition, yes, no, c.results[k]));
  }
  return {};
}

/// The state of a loop, and what it lays one behind another.
struct Loop {
  const RawGraph *body = nullptr;
  std::vector<ValueId> state;
  std::vector<std::vector<ValueId>> scans;
};

Status check_state(const OpContext &c, ValueId before, ValueId after, size_t k) {
  if (static_cast<const TensorKind &>(c.graph[before]) == c.graph[after]) return {};
  return Status::error("its state " + std::to_string(k) + " is " + kind_text(c.graph[before]) + ", and " +
                       kind_text(c.graph[after]) + " after a turn: it must stay the same");
}

Status stack(OpContext &c, const std::vector<ValueId> &parts, int64_t axis, bool reverse, ValueId &out) {
  std::vector<ValueId> wide;
  if (parts.empty()) return Status::error("it has no turn, and its scan outputs would be empty");
  for (ValueId v : parts) {
    Shape shape = c.graph[v].shape;
    int at;
    NPU_TRY(c.axis(axis, static_cast<int64_t>(shape.size()) + 1, at));
    shape.insert(shape.begin() + at, 1);
    NPU_TRY(c.reshape(v, shape, wide.emplace_back()));
  }
  if (reverse) std::reverse(wide.begin(), wide.end());
  int at;
  NPU_TRY(c.axis(axis, static_cast<int64_t>(c.graph[wide[0]].shape.size()), at));
  return c.concat(at, wide, out);
}

Status loop_turns(OpContext &c, int64_t &turns) {
  turns = INT64_MAX;
  if (!c.has_input(0)) return {};  // its condition ends it
  std::vector<int64_t> count;
  NPU_TRY(c.const_ints(0, "its trip count", count));
  if (count.size() != 1) return Status::error("its trip count is not one number");
  turns = std::max<int64_t>(count[0], 0);
  return {};
}

/// One turn. `running`: the condition, which may stop the loop at compile time or freeze its state at run time.
Status loop_turn(OpContext &c, Loop &loop, int64_t turn, ValueId &running) {
  std::vector<ValueId> inputs{c.scalar(static_cast<double>(turn), Dtype::I64), running}, outputs;
  inputs.insert(inputs.end(), loop.state.begin(), loop.state.end());
  bool value;
  const bool is_known = known(c, running, value);
  NPU_TRY(c.bodies->convert_body(*loop.body, inputs, !is_known, outputs));
  if (outputs.size() != 1 + loop.state.size() + loop.scans.size())
    return Status::error("its body has " + std::to_string(outputs.size()) + " outputs, expected " +
                         std::to_string(1 + loop.state.size() + loop.scans.size()));
  if (!is_known && !loop.scans.empty())
    return refuse(Obstacle::Value,
                  "the length of its scan outputs depends on a condition that is not known at compile time");
  for (size_t k = 0; k < loop.state.size(); ++k) {
    ValueId next = outputs[1 + k];
    if (!is_known) {
      NPU_TRY(check_state(c, loop.state[k], next, k));
      NPU_TRY(c.where(running, next, loop.state[k], next));
    }
    loop.state[k] = next;
  }
  for (size_t k = 0; k < loop.scans.size(); ++k) loop.scans[k].push_back(outputs[1 + loop.state.size() + k]);
  ValueId next;
  NPU_TRY(scalar_condition(c, outputs[0], next));
  return is_known ? (running = next, Status()) : c.binary(BinaryKind::And, running, next, running);
}

Status loop_op(OpContext &c) {
  Loop loop;
  loop.body = c.attr_graph("body");
  if (!loop.body || c.input_count() < 2) return Status::error("it has no body, or fewer than two inputs");
  for (size_t k = 2; k < c.input_count(); ++k) loop.state.push_back(c.in(k));
  if (c.results.size() < loop.state.size())
    return Status::error(std::to_string(c.results.size()) + " outputs for " + std::to_string(loop.state.size()) +
                         " states");
  loop.scans.resize(c.results.size() - loop.state.size());
  int64_t turns;
  NPU_TRY(loop_turns(c, turns));
  ValueId running = c.scalar(1, Dtype::Bool);
  if (c.has_input(1)) NPU_TRY(scalar_condition(c, c.in(1), running));
  bool value = true;
  for (int64_t turn = 0; turn < turns && !(known(c, running, value) && !value); ++turn) {
    if (!c.has_input(0) && !known(c, running, value))
      return refuse(Obstacle::Value, "it has no trip count, and its condition is not known at compile time");
    if (turn == kMaxTurns) return refuse(Obstacle::Size, "it has more than " + std::to_string(kMaxTurns) + " turns");
    NPU_TRY(loop_turn(c, loop, turn, running));
  }
  for (size_t k = 0; k < loop.state.size(); ++k) c.results[k] = loop.state[k];
  for (size_t k = 0; k < loop.scans.size(); ++k) {
    NPU_TRY(stack(c, loop.scans[k], 0, false, c.results[loop.state.size() + k]));
  }
  return {};
}

int64_t entry(const std::vector<int64_t> &list, size_t k) { return k < list.size() ? list[k] : 0; }

/// A Scan: its states, then its sequences; `at`, `backwards` of each sequence, `out_*` of each scan output.
struct Scan {
  const RawGraph *body = nullptr;
  size_t first = 0;  ///< operand with the first state
  size_t states = 0, sequences = 0;
  std::vector<int> at;
  std::vector<int64_t> backwards, out_axes, out_backwards;
};

Status read_scan(const OpContext &c, Scan &scan) {
  scan.body = c.attr_graph("body");
  scan.first = c.opset < 9 ? 1 : 0;
  const int64_t scanned = c.attr_i("num_scan_inputs", 0);
  const int64_t operands = static_cast<int64_t>(c.input_count()) - static_cast<int64_t>(scan.first);
  if (!scan.body || scanned < 1 || scanned > operands)
    return Status::error("it has no body, or num_scan_inputs " + std::to_string(scanned) + " does not fit");
  for (size_t k = scan.first; k < c.input_count(); ++k)
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
  scan.sequences = static_cast<size_t>(scanned);
  scan.states = static_cast<size_t>(operands - scanned);
  if (c.results.size() < scan.states) return Status::error("it has fewer outputs than states");
  scan.backwards = c.attr_ints(c.opset < 9 ? "directions" : "scan_input_directions");
  scan.out_axes = c.attr_ints("scan_output_axes");
  scan.out_backwards = c.attr_ints("scan_output_directions");
  return {};
}

/// One element of a sequence, without the axis.
Status pick(OpContext &c, ValueId x, int axis, int64_t place, ValueId &out) {
  NPU_TRY(c.slice(x, axis, place, 1, out));
  Shape shape = c.graph[out].shape;
  shape.erase(shape.begin() + axis);
  return c.reshape(out, std::move(shape), out);
}

/// All turns over sequences of that length; `results`: the last states, then the scan outputs.
Status scan_turns(OpContext &c, const Scan &scan, std::vector<ValueId> state, const std::vector<ValueId> &sequences,
                  int64_t turns, std::vector<ValueId> &results) {
  const size_t states = scan.states;
  std::vector<std::vector<ValueId>> scans(c.results.size() - states);
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<ValueId> inputs = state, outputs;
    for (size_t k = 0; k < sequences.size(); ++k)
      NPU_TRY(
          pick(c, sequences[k], scan.at[k], entry(scan.backwards, k) ? turns - 1 - turn : turn, inputs.emplace_back()));
    NPU_TRY(c.bodies->convert_body(*scan.body, inputs, false, outputs));
    if (outputs.size() != c.results.size())
      return Status::error("its body has " + std::to_string(outputs.size()) + " outputs, expected " +
                           std::to_string(c.results.size()));
    state.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(states));
    for (size_t k = states; k < outputs.size(); ++k) scans[k - states].push_back(outputs[k]);
  }
  results = std::move(state);
  for (size_t k = 0; k < scans.size(); ++k)
    NPU_TRY(stack(c, scans[k], entry(scan.out_axes, k), entry(scan.out_backwards, k) != 0, results.emplace_back()));
  return {};
}

Status check_turns(int64_t turns) {
  return turns > kMaxTurns ? refuse(Obstacle::Size, "it has more than " + std::to_string(kMaxTurns) + " turns")
                           : Status();
}

/// The axes of the sequences from that operand on, and their common length.
Status scan_axes(const OpContext &c, Scan &scan, const std::vector<int64_t> &axes, int64_t &turns) {
  turns = -1;
  scan.at.resize(scan.sequences);
  for (size_t k = 0; k < scan.sequences; ++k) {
    const size_t operand = scan.first + scan.states + k;
    NPU_TRY(c.axis(entry(axes, k), c.rank(operand), scan.at[k]));
    const int64_t length = c.shape(operand)[static_cast<size_t>(scan.at[k])];
    if (turns >= 0 && length != turns)
      return Status::error("scan inputs of " + std::to_string(turns) + " and " + std::to_string(length) + " elements");
    turns = length;
  }
  return {};
}

/// How many elements of each sequence count: all, or as many as operand 0 says.
Status scan_lengths(const OpContext &c, int64_t batch, int64_t most, std::vector<int64_t> &out) {
  out.assign(static_cast<size_t>(batch), most);
  if (c.has_input(0)) NPU_TRY(c.const_ints(0, "sequence_lens", out));
  if (std::ssize(out) != batch)
    return Status::error("sequence_lens has " + std::to_string(out.size()) + " numbers, expected " +
                         std::to_string(batch));
  int64_t turns = 0;
  for (const int64_t length : out) {
    if (length < 1 || length > most)
      return Status::error("sequence_lens has " + std::to_string(length) + ", 1 to " + std::to_string(most) +
                           " was expected");
    NPU_TRY(check_turns(turns += length));
  }
  return {};
}

/// Operands of one member of the batch: states, then sequences as far as they count.
Status scan_member(OpContext &c, const Scan &scan, int64_t member, int64_t length, std::vector<ValueId> &states,
                   std::vector<ValueId> &sequences) {
  for (size_t k = 0; k < scan.states + scan.sequences; ++k) {
    ValueId part;
    NPU_TRY(pick(c, c.in(scan.first + k), 0, member, part));
    if (k >= scan.states) NPU_TRY(c.slice(part, 0, 0, length, part));
    (k < scan.states ? states : sequences).push_back(part);
  }
  return {};
}

/// Behind the elements that count, a scan output of that length has zeros; ONNX leaves open what is there.
Status fill_up(OpContext &c, int64_t length, ValueId &x) {
  std::vector<int64_t> begin(c.graph[x].shape.size(), 0), end = begin;
  end[0] = length - c.graph[x].shape[0];
  return c.pad(x, begin, end, 0, x);
}

/// Operator set 8: each member of the batch, axis 0, is scanned for itself along axis 1.
Status scan_batch(OpContext &c, Scan &scan) {
  int64_t most;
  NPU_TRY(scan_axes(c, scan, std::vector<int64_t>(scan.sequences, 1), most));
  const int64_t batch = c.shape(scan.first)[0];
  for (size_t k = scan.first; k < c.input_count(); ++k)
    if (c.rank(k) < 1 || c.shape(k)[0] != batch)
      return Status::error("input " + std::to_string(k) + " " + shape_text(c.shape(k)) + " has not the batch " +
                           std::to_string(batch));
  std::vector<int64_t> lengths;
  NPU_TRY(scan_lengths(c, batch, most, lengths));
  std::fill(scan.at.begin(), scan.at.end(), 0);
  std::vector<std::vector<ValueId>> parts(c.results.size());
  for (int64_t member = 0; member < batch; ++member) {
    const int64_t length = lengths[static_cast<size_t>(member)];
    std::vector<ValueId> states, sequences, results;
    NPU_TRY(scan_member(c, scan, member, length, states, sequences));
    NPU_TRY(scan_turns(c, scan, std::move(states), sequences, length, results));
    for (size_t k = 0; k < results.size(); ++k) {
      if (k >= scan.states) NPU_TRY(fill_up(c, most, results[k]));
      parts[k].push_back(results[k]);
    }
  }
  for (size_t k = 0; k < parts.size(); ++k) NPU_TRY(stack(c, parts[k], 0, false, c.results[k]));
  return {};
}

Status scan_op(OpContext &c) {
  Scan scan;
  NPU_TRY(read_scan(c, scan));
  if (c.opset < 9) return scan_batch(c, scan);
  int64_t turns;
  NPU_TRY(scan_axes(c, scan, c.attr_ints("scan_input_axes"), turns));
  NPU_TRY(check_turns(turns));
  std::vector<ValueId> states, sequences;
  for (size_t k = 0; k < c.input_count(); ++k) (k < scan.states ? states : sequences).push_back(c.in(k));
  return scan_turns(c, scan, std::move(states), sequences, turns, c.results);
}

constexpr OpEntry kControlOps[] = {{"If", if_op}, {"Loop", loop_op}, {"Scan", scan_op}};

}  // namespace

std::span<const OpEntry> control_ops() { return kControlOps; }

ValueId only_origin(const Graph &g, ValueId v) {
  const Origins origins = find_origins(g, v);
  return origins.inputs.size() == 1 ? *origins.inputs.begin() : kNoValue;
}

std::string condition_hint(const Graph &g, ValueId condition, bool branch) {
  const Origins origins = find_origins(g, condition);
  if (origins.inputs.size() != 1) return {};
  const Value &input = g[*origins.inputs.begin()];
  if (element_count(input.shape) != 1) return {};
  const std::optional<int64_t> number = deciding_number(g, condition, origins, branch);
  return "--input " + printable(input.name) + "=" +
         (number ? std::to_string(*number) + " chooses the " + kBranches[branch] : "VALUE chooses a branch") +
         " when the network is compiled";
}

}  // namespace npu::graph
