// SPDX-License-Identifier: MIT
// Control flow. A branch that is known at compile time is taken; else both are computed and one is chosen. Loops are
// unrolled: their number of turns must be known, a condition that arrives at run time only stops changing the state.
#include <algorithm>

#include "compiler/import/op_context.h"

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

Status if_op(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(check_condition(c, c.in(0)));
  std::vector<ValueId> outputs[2];
  bool value = false;
  const bool is_known = known(c, c.in(0), value);
  const std::string names[] = {"else_branch", "then_branch"};
  for (const bool branch : {false, true}) {
    const std::string &name = names[branch];
    const RawGraph *body = c.attr_graph(name.c_str());
    if (!body) return Status::error("it has no " + name);
    if (is_known && value != branch) continue;
    NPU_TRY(c.bodies->convert_body(*body, {}, !is_known, outputs[branch]));
    if (outputs[branch].size() < c.results.size())
      return Status::error(name + " has " + std::to_string(outputs[branch].size()) + " outputs, expected " +
                           std::to_string(c.results.size()));
  }
  ValueId condition = kNoValue;
  if (!is_known) NPU_TRY(scalar_condition(c, c.in(0), condition));
  for (size_t k = 0; k < c.results.size(); ++k) {
    c.results[k] = outputs[value][k];
    if (is_known) continue;
    const Value &a = c.graph[outputs[1][k]], &b = c.graph[outputs[0][k]];
    if (static_cast<const TensorKind &>(a) != b)
      return Status::error("output " + std::to_string(k) + " is " + kind_text(a) + " or " + kind_text(b) +
                           ", and its condition is not known at compile time");
    NPU_TRY(c.where(condition, outputs[1][k], outputs[0][k], c.results[k]));
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
    return Status::error("the length of its scan outputs depends on a condition that is not known at compile time");
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
      return Status::error("it has no trip count, and its condition is not known at compile time");
    if (turn == kMaxTurns) return Status::error("it has more than " + std::to_string(kMaxTurns) + " turns");
    NPU_TRY(loop_turn(c, loop, turn, running));
  }
  for (size_t k = 0; k < loop.state.size(); ++k) c.results[k] = loop.state[k];
  for (size_t k = 0; k < loop.scans.size(); ++k) {
    if (loop.scans[k].empty()) return Status::error("it has no turn, and its scan outputs would be empty");
    NPU_TRY(stack(c, loop.scans[k], 0, false, c.results[loop.state.size() + k]));
  }
  return {};
}

int64_t entry(const std::vector<int64_t> &list, size_t k) { return k < list.size() ? list[k] : 0; }

/// Operator set 8 has a batch in front of everything; it is left out, with a reason.
Status scan_op(OpContext &c) {
  if (c.opset < 9) return Status::error("Scan of operator set 8 is not supported, later ones are");
  const RawGraph *body = c.attr_graph("body");
  const int64_t scanned = c.attr_i("num_scan_inputs", 0);
  if (!body || scanned < 1 || scanned > static_cast<int64_t>(c.input_count()))
    return Status::error("it has no body, or num_scan_inputs " + std::to_string(scanned) + " does not fit");
  NPU_TRY(c.need_inputs(c.input_count(), c.input_count()));
  const size_t states = c.input_count() - static_cast<size_t>(scanned);
  if (c.results.size() < states) return Status::error("it has fewer outputs than states");
  const std::vector<int64_t> axes = c.attr_ints("scan_input_axes"), backwards = c.attr_ints("scan_input_directions"),
                             out_axes = c.attr_ints("scan_output_axes"),
                             out_backwards = c.attr_ints("scan_output_directions");
  Loop loop{body, {}, std::vector<std::vector<ValueId>>(c.results.size() - states)};
  for (size_t k = 0; k < states; ++k) loop.state.push_back(c.in(k));
  std::vector<int> at(static_cast<size_t>(scanned));
  int64_t turns = -1;
  for (size_t k = 0; k < at.size(); ++k) {
    NPU_TRY(c.axis(entry(axes, k), c.rank(states + k), at[k]));
    const int64_t length = c.shape(states + k)[static_cast<size_t>(at[k])];
    if (turns >= 0 && length != turns)
      return Status::error("scan inputs of " + std::to_string(turns) + " and " + std::to_string(length) + " elements");
    turns = length;
  }
  if (turns > kMaxTurns) return Status::error("it has more than " + std::to_string(kMaxTurns) + " turns");
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<ValueId> inputs = loop.state, outputs;
    for (size_t k = 0; k < at.size(); ++k) {
      ValueId &part = inputs.emplace_back();
      NPU_TRY(c.slice(c.in(states + k), at[k], entry(backwards, k) ? turns - 1 - turn : turn, 1, part));
      Shape shape = c.graph[part].shape;
      shape.erase(shape.begin() + at[k]);
      NPU_TRY(c.reshape(part, shape, part));
    }
    NPU_TRY(c.bodies->convert_body(*body, inputs, false, outputs));
    if (outputs.size() != c.results.size())
      return Status::error("its body has " + std::to_string(outputs.size()) + " outputs, expected " +
                           std::to_string(c.results.size()));
    for (size_t k = 0; k < states; ++k) loop.state[k] = outputs[k];
    for (size_t k = states; k < outputs.size(); ++k) loop.scans[k - states].push_back(outputs[k]);
  }
  for (size_t k = 0; k < states; ++k) c.results[k] = loop.state[k];
  for (size_t k = states; k < c.results.size(); ++k)
    NPU_TRY(stack(c, loop.scans[k - states], entry(out_axes, k - states), entry(out_backwards, k - states) != 0,
                  c.results[k]));
  return {};
}

constexpr OpEntry kOps[] = {{"If", if_op}, {"Loop", loop_op}, {"Scan", scan_op}};

}  // namespace

std::span<const OpEntry> control_ops() { return kOps; }

}  // namespace npu::graph
