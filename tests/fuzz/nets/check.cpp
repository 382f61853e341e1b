// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/check.h"

#include "compiler/import/importer.h"
#include "tests/fuzz/nets/tolerance.h"
#include "tests/unit/compiler/chip.h"

namespace npu::fuzz {
namespace {

/// The least, some that tiles less, and the card's.
constexpr int64_t kLocalMemory[] = {64 << 10, 256 << 10, 8 << 20};
/// ONNX Runtime rounds at other places than the evaluator, as the chip does, and has exponential functions of its own.
constexpr double kRuntimeFactor = 2;

struct Reference {
  graph::Graph graph;
  std::vector<graph::Tensor> inputs, outputs;
  std::vector<Tolerance> tolerances;
};

std::vector<graph::Tensor> make_inputs(const graph::Graph &g, uint64_t seed) {
  Random random(seed ^ 0x1234567);
  std::vector<graph::Tensor> out;
  for (graph::ValueId v : g.inputs) {
    graph::Tensor t(graph::Dtype::F32, g[v].shape);
    for (int64_t i = 0; i < t.count(); ++i)
      t.as<float>()[i] = static_cast<float>(random.next() >> 40) / 8388608.0f - 1.0f;
    out.push_back(std::move(t));
  }
  return out;
}

Status make_reference(const Made &made, Reference &r) {
  graph::RawModel raw;
  NPU_TRY(graph::read_onnx(made.model.data(), made.model.size(), raw));
  NPU_TRY(graph::import_model(raw, {}, r.graph));
  r.inputs = make_inputs(r.graph, made.data);
  return evaluate_with_tolerance(r.graph, r.inputs, made.data, r.outputs, r.tolerances);
}

bool same_program(const bmodel::StageDesc &a, const bmodel::StageDesc &b) {
  return a.tiu == b.tiu && a.gdma == b.gdma && a.coeff == b.coeff;
}

Finding run_program(const Reference &r, const bmodel::StageDesc &stage, int64_t lmem) {
  const std::string where = ", local memory " + std::to_string(lmem >> 10) + " KiB";
  if (stage.lmem_bytes > static_cast<uint64_t>(lmem))
    return {"memory", "the program wants " + std::to_string(stage.lmem_bytes) + " bytes" + where};
  std::vector<std::vector<float>> inputs;
  for (const graph::Tensor &t : r.inputs) inputs.emplace_back(t.as<float>(), t.as<float>() + t.count());
  const test::ChipResult result = test::try_on_chip(stage, inputs, lmem);
  if (!result.error.empty()) return {"chip", "the chip fails: " + result.error + where};
  if (result.cycles != stage.cycles)
    return {"cycles", std::to_string(result.cycles) + " cycles, predicted are " + std::to_string(stage.cycles) + where};
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    const graph::Tensor &want = r.outputs[k];
    if (result.outputs.at(k).size() != static_cast<size_t>(want.count()))
      return {"result", "output '" + r.graph.output_names[k] + "' has another size" + where};
    const std::string text = difference(result.outputs[k].data(), want.as<float>(), want.count(), r.tolerances[k], 1);
    if (!text.empty())
      return {"result", "chip and evaluator differ in '" + r.graph.output_names[k] + "'" + where + ": " + text};
  }
  return {};
}

Finding compile_and_run(const Made &made, const Reference &r, Counts &counts) {
  bmodel::StageDesc last;
  for (int64_t lmem : kLocalMemory) {
    compiler::Options options;
    options.lmem_bytes = lmem;
    compiler::Compiled compiled;
    const Status status = compiler::compile_onnx(made.model.data(), made.model.size(), options, compiled);
    if (!status.ok())
      return {"refused", "refused for local memory of " + std::to_string(lmem >> 10) + " KiB: " + status.message()};
    ++counts.programs;
    bmodel::StageDesc &stage = compiled.net.stages[0];
    // Small networks have the same program for all sizes.
    if (same_program(stage, last)) continue;
    ++counts.runs;
    Finding finding = run_program(r, stage, lmem);
    if (!finding.kind.empty()) return finding;
    last = std::move(stage);
  }
  return {};
}

Finding compare_with_runtime(const Made &made, const Reference &r, const OnnxRuntime &runtime) {
  std::vector<std::string> names;
  for (graph::ValueId v : r.graph.inputs) names.push_back(r.graph[v].name);
  std::vector<graph::Tensor> outputs;
  const Status status = runtime.run(made.model, names, r.inputs, r.graph.output_names, outputs);
  if (!status.ok()) return {"onnxruntime-refuses", "ONNX Runtime refuses: " + status.message()};
  for (size_t k = 0; k < outputs.size(); ++k) {
    const graph::Tensor &ours = r.outputs[k];
    const std::string who = "ONNX Runtime and evaluator differ in '" + r.graph.output_names[k] + "': ";
    if (outputs[k].shape != ours.shape)
      return {"onnxruntime",
              who + "shapes " + graph::shape_text(outputs[k].shape) + ", " + graph::shape_text(ours.shape)};
    const std::string text =
        difference(outputs[k].as<float>(), ours.as<float>(), ours.count(), r.tolerances[k], kRuntimeFactor);
    if (!text.empty()) return {"onnxruntime", who + text};
  }
  return {};
}

}  // namespace

Finding check_network(const Made &made, const OnnxRuntime *runtime, Counts &counts) {
  Reference r;
  const Status status = make_reference(made, r);
  if (!status.ok()) return {"refused", "refused: " + status.message()};
  ++counts.networks;
  counts.nodes += static_cast<int64_t>(r.graph.sources.size());
  if (r.graph.inputs.empty()) return {};
  Finding finding = compile_and_run(made, r, counts);
  if (!finding.kind.empty() || !runtime || !made.onnxruntime) return finding;
  ++counts.compared;
  return compare_with_runtime(made, r, *runtime);
}

}  // namespace npu::fuzz
