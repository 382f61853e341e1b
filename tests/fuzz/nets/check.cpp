// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/check.h"

#include <algorithm>
#include <cmath>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "compiler/passes/passes.h"
#include "runtime/cpu/element.h"
#include "tests/fuzz/nets/external.h"
#include "tests/fuzz/nets/ranges.h"
#include "tests/fuzz/nets/tolerance.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/compare_quantized.h"
#include "tests/unit/compiler/parts_nets.h"

namespace npu::fuzz {
namespace {

/// The least, some that tiles less, and the card's.
constexpr int64_t kLocalMemory[] = {64 << 10, 256 << 10, 8 << 20};
/// ONNX Runtime rounds at other places than the evaluator, as the chip does, and has exponential functions of its own.
constexpr double kRuntimeFactor = 2;
/// The cosine with float32 that each part has at least, where npuc makes integers by samples.
constexpr double kLeastCosine = 0.97;
/// One in so many networks is read with external data as well.
constexpr uint64_t kExternal = 8;

struct Reference {
  graph::Graph graph;
  std::shared_ptr<const test::QuantizedNet> quantized;  ///< null: tolerances say what may differ
  std::vector<graph::Dtype> input_types;                ///< in the file; the graph's are those of a .bmodel
  std::vector<graph::Tensor> inputs, outputs;
  std::vector<Tolerance> tolerances;
};

/// An element of an input: Net::input() relies on the bounds.
double make_element(Random &random, graph::Dtype type) {
  const auto bits = static_cast<double>(random.next() >> 40);
  switch (type) {
    case graph::Dtype::F32:
      return bits / 8388608 - 1;
    case graph::Dtype::Bool:
      return bits < 8388608;
    case graph::Dtype::U8:
      return std::floor(bits / (1 << 20));
    default:
      return std::floor(bits / (1 << 20)) - 8;
  }
}

/// An element of an input whose numbers the network names.
double make_number(Random &random, const InputNumbers &numbers) {
  const auto bits = static_cast<double>(random.next() >> 40);
  if (numbers.mask) return bits < 8388608 ? 0 : numbers.most;
  return (bits / 8388608 - 1) * numbers.most;
}

std::vector<graph::Tensor> make_inputs(const Reference &r, uint64_t seed, const std::vector<InputNumbers> &numbers) {
  Random random(seed ^ 0x1234567);
  std::vector<graph::Tensor> out;
  for (size_t k = 0; k < r.input_types.size(); ++k) {
    const graph::Value &v = r.graph[r.graph.inputs[k]];
    graph::Tensor t(v.dtype, v.shape);
    for (int64_t i = 0; i < t.count(); ++i)
      cpu::store(t, i, numbers.empty() ? make_element(random, r.input_types[k]) : make_number(random, numbers[k]));
    out.push_back(std::move(t));
  }
  return out;
}

/// The graph and its inputs.
Status read_network(const Made &made, Reference &r) {
  graph::RawModel raw;
  NPU_TRY(graph::read_onnx(made.model.data(), made.model.size(), raw));
  NPU_TRY(graph::import_model(raw, {}, r.graph));
  for (const graph::RawValue &v : raw.inputs) r.input_types.push_back(v.dtype);
  r.quantized = made.quantized;
  r.inputs = made.quantized ? test::random_inputs(r.graph, static_cast<uint32_t>(made.data))
                            : make_inputs(r, made.data, made.inputs);
  return {};
}

/// The outputs are those of the graph in which integers have been fused, and nothing else.
Status evaluate_quantized(Reference &r) {
  graph::Graph fused = r.graph;
  graph::fuse_quantized(fused);
  return graph::evaluate_graph(fused, r.inputs, r.outputs);
}

Status make_reference(const Made &made, Reference &r) {
  NPU_TRY(read_network(made, r));
  if (made.quantized) return evaluate_quantized(r);
  if (made.reals) return {};
  return evaluate_with_tolerance(r.graph, r.inputs, made.data, r.outputs, r.tolerances);
}

bool same_program(const bmodel::ProgramDesc &a, const bmodel::ProgramDesc &b) {
  return a.tiu == b.tiu && a.gdma == b.gdma && a.more_cores.size() == b.more_cores.size();
}

bool same_stage(const bmodel::StageDesc &a, const bmodel::StageDesc &b) {
  if (a.inputs.empty() || a.subs.size() != b.subs.size() || a.coeff != b.coeff || !same_program(a, b)) return false;
  for (size_t i = 0; i < a.subs.size(); ++i)
    if (!same_program(a.subs[i], b.subs[i]) || a.subs[i].param != b.subs[i].param) return false;
  return true;
}

/// Each operator may differ from the file's by `steps` of its result and more where it may anyway.
std::string step_difference(const Reference &r, const std::vector<graph::Tensor> &outputs, int steps,
                            test::Nan nan = test::Nan::Zero) {
  std::vector<test::QuantizedNet::Output> allowed = r.quantized->outputs;
  for (test::QuantizedNet::Output &out : allowed) out.steps = std::max(out.steps, steps);
  return test::compare_steps(r.graph, r.inputs, outputs, allowed, nan);
}

/// Integers are the same to the bit, unless other passes round what is between them at other places.
std::string quantized_difference(const Reference &r, const std::vector<graph::Tensor> &outputs) {
  if (!r.quantized->integers_only) return step_difference(r, outputs, 1);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string text = test::difference(outputs[k], r.outputs[k], {{}, 0, r.quantized->outputs[k].error});
    if (!text.empty()) return "output " + std::to_string(k) + " '" + r.graph.output_names[k] + "': " + text;
  }
  return {};
}

Finding run_stage(const Reference &r, const bmodel::StageDesc &stage, int64_t lmem) {
  const std::string where = ", local memory " + std::to_string(lmem >> 10) + " KiB";
  if (test::lmem_of(stage) > lmem)
    return {"memory", "the stage wants " + std::to_string(test::lmem_of(stage)) + " bytes" + where};
  const test::StageResult result = test::run_stage(stage, r.inputs, lmem);
  if (result.error.find("cycles, predicted are") != std::string::npos) return {"cycles", result.error + where};
  if (!result.error.empty()) return {"chip", "the stage fails: " + result.error + where};
  if (r.quantized) {
    const std::string text = quantized_difference(r, result.outputs);
    return text.empty() ? Finding() : Finding{"result", "the stage computes something else" + where + ": " + text};
  }
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    const std::string text = difference(result.outputs.at(k), r.outputs[k], r.tolerances[k], 1);
    if (!text.empty())
      return {"result", "stage and evaluator differ in '" + r.graph.output_names[k] + "'" + where + ": " + text};
  }
  return {};
}

/// On one core with each size of local memory, then in turns, then on two or three with one of the sizes.
Finding compile_and_run(const Made &made, const Reference &r, Counts &counts) {
  bmodel::StageDesc last;
  struct Way {
    int64_t lmem;
    int cores;
    compiler::TakeTurns turns;
  };
  std::vector<Way> ways;
  for (int64_t lmem : kLocalMemory) ways.push_back({lmem, 1, compiler::TakeTurns::Faster});
  const size_t other = made.data % std::size(kLocalMemory);
  ways.push_back({kLocalMemory[other], 1, compiler::TakeTurns::Always});
  ways.push_back({kLocalMemory[other], 2 + static_cast<int>(made.data / 3 % 2), compiler::TakeTurns::Faster});
  for (const auto &[lmem, cores, turns] : ways) {
    compiler::Options options;
    options.lmem_bytes = lmem;
    options.cores = cores;
    options.all_cores = true;
    options.turns = turns;
    compiler::Compiled compiled;
    const Status status = compiler::compile_onnx(made.model.data(), made.model.size(), options, compiled);
    if (!status.ok())
      return {"refused", "refused for local memory of " + std::to_string(lmem >> 10) + " KiB, cores " +
                             std::to_string(cores) + ": " + status.message()};
    ++counts.programs;
    bmodel::StageDesc &stage = compiled.net.stages[0];
    // Small networks have the same program for all sizes.
    if (same_stage(stage, last)) continue;
    ++counts.runs;
    Finding finding = run_stage(r, stage, lmem);
    if (!finding.kind.empty()) {
      finding.text += ", cores " + std::to_string(cores);
      if (turns == compiler::TakeTurns::Always) finding.text += ", in turns";
      return finding;
    }
    last = std::move(stage);
  }
  return {};
}

/// Compiles and runs it with either type, with one of the sizes of local memory.
Finding check_reals(const Made &made, const Reference &r, Counts &counts) {
  for (const graph::Dtype half : {graph::Dtype::F16, graph::Dtype::BF16}) {
    const std::string where = std::string(", --reals ") + graph::dtype_name(half);
    std::vector<Range> ranges;
    const Status derived = evaluate_ranges(r.graph, r.inputs, half, ranges);
    if (!derived.ok()) return {"refused", "refused: " + derived.message() + where};
    compiler::Options options;
    options.reals = half;
    options.lmem_bytes = kLocalMemory[made.data % std::size(kLocalMemory)];
    compiler::Compiled compiled;
    const Status status = compiler::compile_onnx(made.model.data(), made.model.size(), options, compiled);
    if (!status.ok()) return {"refused", "refused: " + status.message() + where};
    ++counts.programs;
    ++counts.runs;
    const test::StageResult result = test::run_stage(compiled.net.stages[0], r.inputs, options.lmem_bytes);
    if (!result.error.empty()) return {"chip", "the stage fails: " + result.error + where};
    for (size_t k = 0; k < ranges.size(); ++k) {
      const std::string text = outside(result.outputs.at(k), ranges[k]);
      if (!text.empty()) return {"result", "'" + r.graph.output_names[k] + "'" + where + ": " + text};
    }
  }
  return {};
}

graph::Tensor converted(const graph::Tensor &t, graph::Dtype type) {
  graph::Tensor out(type, t.shape);
  cpu::cast(t, cpu::Overflow::Saturate, out);
  return out;
}

Finding compare_with_runtime(const Made &made, const Reference &r, const OnnxRuntime &runtime) {
  std::vector<std::string> names;
  std::vector<graph::Tensor> inputs, outputs;
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    names.push_back(r.graph[r.graph.inputs[k]].name);
    inputs.push_back(converted(r.inputs[k], r.input_types[k]));
  }
  const Status status = runtime.run(made.model, names, inputs, r.graph.output_names, outputs);
  // It does not have every operator for every type.
  if (status.message().find("Could not find an implementation") != std::string::npos) return {};
  if (!status.ok()) return {"onnxruntime-refuses", "ONNX Runtime refuses: " + status.message()};
  if (r.quantized) {
    for (size_t k = 0; k < outputs.size(); ++k) outputs[k] = converted(outputs[k], r.outputs[k].dtype);
    const std::string text = step_difference(r, outputs, 1, test::Nan::Any);
    return text.empty() ? Finding() : Finding{"onnxruntime", "ONNX Runtime and evaluator differ: " + text};
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const graph::Tensor &ours = r.outputs[k];
    const std::string who = "ONNX Runtime and evaluator differ in '" + r.graph.output_names[k] + "': ";
    if (outputs[k].shape != ours.shape)
      return {"onnxruntime",
              who + "shapes " + graph::shape_text(outputs[k].shape) + ", " + graph::shape_text(ours.shape)};
    const std::string text = difference(converted(outputs[k], ours.dtype), ours, r.tolerances[k], kRuntimeFactor);
    if (!text.empty()) return {"onnxruntime", who + text};
  }
  return {};
}

}  // namespace

Finding check_network(const Made &made, const OnnxRuntime *runtime, Counts &counts) {
  if (made.parts) {
    ++counts.networks;
    ++counts.runs;
    const std::string text = test::check_parts(*made.parts, kLeastCosine);
    return text.empty() ? Finding() : Finding{"integers", text};
  }
  Reference r;
  const Status status = make_reference(made, r);
  if (!status.ok()) return {"refused", "refused: " + status.message()};
  ++counts.networks;
  counts.nodes += static_cast<int64_t>(r.graph.sources.size());
  if (r.graph.inputs.empty()) return {};
  if (made.data % kExternal == 0) {
    const std::string text = check_external(made, r.graph);
    if (!text.empty()) return {"external", "with external data " + text};
  }
  if (r.quantized) {
    const std::string text = step_difference(r, r.outputs, 0);
    if (!text.empty()) return {"fused", "what fuse_quantized() makes is something else: " + text};
  }
  if (made.reals) return check_reals(made, r, counts);
  Finding finding = compile_and_run(made, r, counts);
  if (!finding.kind.empty() || !runtime || !made.onnxruntime) return finding;
  ++counts.compared;
  return compare_with_runtime(made, r, *runtime);
}

Status make_declared_inputs(const Made &made, std::vector<cpu::Tensor> &out) {
  Reference r;
  NPU_TRY(read_network(made, r));
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    cpu::Tensor &t = out.emplace_back(r.input_types[k], r.inputs[k].shape);
    for (int64_t i = 0; i < t.count(); ++i) cpu::store(t, i, cpu::load(r.inputs[k], i));
  }
  return {};
}

}  // namespace npu::fuzz
