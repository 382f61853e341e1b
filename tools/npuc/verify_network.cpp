// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/command_line.h"
#include "compiler/graph/evaluate.h"
#include "compiler/quantize/parallel.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/operators.h"
#include "tools/npuc/verify_inputs.h"
#include "tools/npuc/verify_onnxruntime.h"

namespace npu::npuc {
namespace {

using graph::Dtype;
using graph::Tensor;

/// Runs with errors of rounding: more find rarer decisions that depend on it.
constexpr size_t kRoundedRuns = 3;

std::string shapes_text(const graph::Graph &g) {
  std::string out;
  for (graph::ValueId v : g.inputs)
    out += (out.empty() ? "" : ", ") + printable(g[v].name) + " " + graph::shape_text(g[v].shape);
  return out;
}

/// Truth values that an output has as integers of 8 bits.
bool are_decisions(const graph::Graph &g, size_t output) {
  const int made = g.producers()[graph::at(g.outputs[output])];
  if (made < 0) return false;
  const graph::Node &n = g.nodes[static_cast<size_t>(made)];
  return n.op == graph::Op::Cast && g[n.inputs[0]].dtype == Dtype::Bool;
}

/// Elements that a type of the graph cannot hold: finite ones, and that are none of its integers.
int64_t count_beyond(const Tensor &t, Dtype type) {
  double low = -double{std::numeric_limits<float>::max()}, high = -low;
  if (type == Dtype::I32) low = -0x1p31, high = 0x1p31 - 1;
  if (type == Dtype::U32) low = 0, high = 0x1p32 - 1;
  if (type != Dtype::I32 && type != Dtype::U32 && type != Dtype::F32) return 0;
  if (t.dtype == type) return 0;
  int64_t count = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    const double v = cpu::load(t, i);
    count += std::isfinite(v) && (v < low || v > high);
  }
  return count;
}

/// ONNX Runtime's output in the type and shape of the evaluator's.
Status convert(const std::string &name, const Tensor &from, const graph::TensorKind &kind, Tensor &out) {
  if (from.shape != kind.shape)
    return Status::error("output '" + name + "' has the shape " + graph::shape_text(from.shape) + " there, and " +
                         graph::shape_text(kind.shape) + " as npuc reads the file");
  out = Tensor(kind.dtype, kind.shape);
  if (from.dtype == kind.dtype)
    out.data = from.data;
  else
    cpu::cast(from, cpu::Overflow::Saturate, out);
  return {};
}

}  // namespace

graph::Rounding ComparedNetwork::rounding() const {
  return {options_.quantize.type == quantize::Type::None ? options_.reals : Dtype::I8,
          rounds_as_file_ ? &reference_.types : nullptr};
}

/// Numbers of float64 that float32 cannot hold are what the evaluator has for them: the largest numbers, infinity, or
/// what follows from a constant that became one of the largest numbers.
void ComparedNetwork::clamp(const Tensor &theirs, const Tensor &own, Tensor &out) const {
  constexpr double kMost = std::numeric_limits<float>::max();
  for (int64_t i = 0; i < out.count(); ++i) {
    const double v = cpu::load(theirs, i), ours = cpu::load(own, i);
    if (!std::isfinite(v) || std::fabs(v) <= kMost) continue;
    const bool same = (v < 0) == (ours < 0) && (std::fabs(ours) >= kMost || reference_.graph.saturated);
    cpu::store(out, i, same ? ours : std::copysign(kMost, v));
  }
}

void ComparedNetwork::round_inputs() {
  const graph::Graph &g = reference_.graph;
  for (size_t i = 0; i < inputs_.size() && i < g.inputs.size(); ++i) {
    const Dtype type = graph::type_of(reference_.types, g.inputs[i]);
    if (!graph::is_half(type) || inputs_[i].dtype != Dtype::F32) continue;
    Tensor rounded(type, inputs_[i].shape);
    cpu::cast(inputs_[i], cpu::Overflow::Saturate, rounded);
    cpu::cast(rounded, cpu::Overflow::Saturate, inputs_[i]);
  }
}

Status ComparedNetwork::evaluate() {
  const graph::Graph &g = reference_.graph;
  Status &plugins = plugins_ = {};
  saturated_.assign(g.outputs.size(), 0);
  const auto look = [&](const graph::Node &n, std::span<const Tensor *const> operands, Tensor &made) {
    for (size_t k = 0; k < g.outputs.size() && n.op == graph::Op::Cast; ++k)
      if (g.outputs[k] == n.output) saturated_[k] = count_beyond(*operands[0], made.dtype);
    if (n.op != graph::Op::Plugin || !plugins.ok()) return;
    Tensor again(made.dtype, made.shape);
    const auto &attrs = std::get<cpu::PluginAttrs>(n.attrs);
    plugins = cpu::evaluate(n.op, n.attrs, operands, again);
    if (plugins.ok() && again.data != made.data)
      plugins = Status::error("operator " + printable(attrs.domain + "." + attrs.op) + " of a plug-in ('" +
                              printable(g.sources[static_cast<size_t>(n.source)].name) +
                              "') gives other results when it is called again with the same inputs: it keeps state, "
                              "and the network cannot be verified");
  };
  return graph::evaluate_changed(g, inputs_, look, exact_);
}

Status ComparedNetwork::compute_rounded() {
  rounded_.resize(kRoundedRuns);
  return quantize::for_each(kRoundedRuns, "", {}, [&](size_t r, size_t) {
    return graph::evaluate_rounded(reference_.graph, inputs_, rounding(), args_.seed + r, rounded_[r]);
  });
}

Status ComparedNetwork::compare(const Chip &chip, const std::vector<Tensor> *values, VerifiedRun &out) {
  const graph::Graph &g = reference_.graph;
  const auto compute = [&](const std::vector<Tensor> &inputs) -> Status {
    inputs_ = inputs;
    round_inputs();
    NPU_TRY(chip.settle(inputs_));
    return evaluate();
  };
  out.shapes = shapes_text(g);
  for (const std::string &warning : g.warnings) result_.add_note(warning);
  Calibrated calibrated{options_.quantize.samples.get(), {}};
  if (!what_.compiled.empty()) calibrated.inputs = what_.compiled[0].quantized.inputs;
  ChosenInputs chosen;
  NPU_TRY(values ? compute(*values) : make_inputs(reference_, args_, calibrated, compute, chosen));
  for (const std::string &note : chosen.notes) result_.add_note(note);
  out.inputs = chosen.origin;
  NPU_TRY(plugins_);
  out.values = inputs_;
  std::vector<Tensor> got;
  for (graph::ValueId v : g.outputs) got.emplace_back(g[v].dtype, g[v].shape);
  const std::string where = args_.bmodel.empty() ? "" : "--verify-bmodel " + printable(args_.bmodel) + ": ";
  NPU_TRY(chip.run(inputs_, got).within(where + out.shapes));
  std::vector<Tensor> wanted = exact_;
  NPU_TRY(compute_wanted(wanted));
  out.reference = used_;
  add_notes();
  for (size_t k = 0; k < got.size(); ++k) {
    Expected e = expected(k, wanted[k]);
    chip.stored(k, e.stored, e.step);
    out.outputs.push_back(compare_output(g.output_names[k], got[k], e, graph::output_parts(g, k)));
  }
  return {};
}

Status ComparedNetwork::understand(const std::vector<Tensor> &values) {
  inputs_ = values;
  NPU_TRY(evaluate());
  std::vector<Tensor> wanted = exact_;
  NPU_TRY(try_onnxruntime(wanted));
  NPU_TRY(compute_rounded());
  compare_evaluator(wanted);
  return {};
}

Expected ComparedNetwork::expected(size_t k, const Tensor &wanted) const {
  Expected e;
  e.wanted = &wanted;
  e.exact = &exact_[k];
  for (const auto &run : rounded_) e.rounded.push_back(&run[k]);
  e.rounding = rounding();
  e.in_file = graph::type_in_file(e.rounding, reference_.graph.outputs[k]);
  e.decisions = are_decisions(reference_.graph, k);
  return e;
}

/// Notes of limits of the comparison.
void ComparedNetwork::add_notes() {
  const graph::Graph &g = reference_.graph;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const Dtype type = g[g.outputs[k]].dtype;
    if (saturated_[k] && cpu::is_integer(type))
      result_.add_note(std::to_string(saturated_[k]) + " elements of output '" + printable(g.output_names[k]) +
                       "' exceed " + cpu::dtype_name(type) + ": the chip saturates them, and so is the reference");
    else if (saturated_[k])
      result_.add_note(std::to_string(saturated_[k]) + " elements of output '" + printable(g.output_names[k]) +
                       "' exceed float32 in the file's float64: they are compared with " + kEvaluator);
  }
  std::string operators;
  for (const std::string &name : reference_.plugins) operators += (operators.empty() ? "" : ", ") + printable(name);
  if (!operators.empty() && used_ == kEvaluator)
    result_.add_note("operators of plug-ins (" + operators +
                     ") are computed by the plug-in in the reference as well: their results are not checked");
}

/// Replaces the evaluator's outputs by ONNX Runtime's, if that is wished and there; then computes how far rounding
/// moves them.
Status ComparedNetwork::compute_wanted(std::vector<Tensor> &wanted) {
  used_ = kEvaluator;
  rounds_as_file_ = false;
  if (args_.reference == "npuc") return compute_rounded();
  const Status status = try_onnxruntime(wanted);
  if (!status.ok() && args_.reference == "onnxruntime") return status.within("--verify-reference onnxruntime");
  if (!status.ok()) result_.add_note("not compared with ONNX Runtime: " + status.message());
  NPU_TRY(compute_rounded());
  if (status.ok()) compare_evaluator(wanted);
  return {};
}

/// Replaces the evaluator's outputs by ONNX Runtime's.
Status ComparedNetwork::try_onnxruntime(std::vector<Tensor> &wanted) {
  const std::string program = onnxruntime_program();
  if (program.empty()) return Status::error("npuc was built without it (make onnxruntime, then make build)");
  std::string version;
  NPU_TRY(run_onnxruntime(program, version, wanted));
  used_ = "ONNX Runtime " + version;
  rounds_as_file_ = true;
  return {};
}

Status ComparedNetwork::run_onnxruntime(const std::string &program, std::string &version, std::vector<Tensor> &wanted) {
  const graph::Graph &g = reference_.graph;
  std::vector<NamedTensor> inputs, found;
  for (size_t i = 0; i < inputs_.size(); ++i) inputs.push_back({g[g.inputs[i]].name, inputs_[i]});
  for (const auto &[name, value] : reference_.values) inputs.push_back({name, *value});
  NPU_TRY(npuc::run_onnxruntime(program, what_.model, inputs, options_.outputs, found, version));
  std::vector<Tensor> theirs;
  std::vector<int64_t> beyond;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const auto it =
        std::find_if(found.begin(), found.end(), [&](const NamedTensor &t) { return t.name == g.output_names[k]; });
    if (it == found.end()) return Status::error("it gives no output '" + g.output_names[k] + "'");
    NPU_TRY(convert(g.output_names[k], it->tensor, g[g.outputs[k]], theirs.emplace_back()));
    beyond.push_back(count_beyond(it->tensor, theirs.back().dtype));
    if (theirs.back().dtype == Dtype::F32 && beyond.back()) clamp(it->tensor, exact_[k], theirs.back());
  }
  saturated_ = std::move(beyond);
  wanted = std::move(theirs);
  return {};
}

void ComparedNetwork::compare_evaluator(const std::vector<Tensor> &wanted) {
  const graph::Graph &g = reference_.graph;
  for (size_t k = 0; k < wanted.size(); ++k) {
    OutputResult own = compare_output(g.output_names[k], exact_[k], expected(k, wanted[k]), graph::output_parts(g, k));
    if (own.verdict() == Verdict::Wrong) result_.understood.push_back(std::move(own));
  }
}

}  // namespace npu::npuc
