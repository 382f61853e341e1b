// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/chip.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/graph/print.h"
#include "compiler/import/importer.h"
#include "runtime/bmodel/cpu_param.h"
#include "runtime/cpu/subnet.h"
#include "runtime/cpu/subnet_graph.h"

namespace npu::test {
namespace {

std::vector<Cmd> commands_of(const std::vector<uint8_t> &stream) {
  std::vector<Cmd> out(stream.size() / NPU_CMD_BYTES);
  for (size_t i = 0; i < out.size(); ++i)
    std::memcpy(out[i].bytes.data(), stream.data() + i * NPU_CMD_BYTES, NPU_CMD_BYTES);
  return out;
}

using Bytes = std::vector<uint8_t>;

/// A program and what is around it.
struct Program {
  const bmodel::ProgramDesc &code;
  const std::vector<uint8_t> &coeff;
  const std::vector<bmodel::TensorDesc> &outputs;
};

struct ProgramResult {
  std::string error;
  std::vector<Bytes> outputs;
  uint64_t cycles = 0;
};

uint64_t total_bytes(const bmodel::ProgramDesc &program) {
  uint64_t sum = program.tiu.size() + program.gdma.size();
  for (const bmodel::CoreDesc &core : program.more_cores) sum += core.tiu.size() + core.gdma.size();
  for (const npu_program_region &r : program.regions) sum += r.bytes;
  return sum;
}

std::string error_of(const npu_cqe &done, Machine &machine) {
  if (done.status == NPU_STATUS_OK) return {};
  std::string error = std::string(status_name(done.status)) + ", engine " + std::to_string(done.engine) + ", command " +
                      std::to_string(done.command) + ", region " + std::to_string(done.region) + ", offset " +
                      std::to_string(done.offset);
  if (done.status == NPU_STATUS_INTERNAL)
    for (const std::string &line : machine.board.take_trace())
      if (line.starts_with("race")) error += "\n" + line;
  return error;
}

ProgramResult run_program(const Program &program, const std::vector<const void *> &inputs, int64_t lmem) {
  Machine::Options options;
  options.lmem = static_cast<uint32_t>(lmem);
  options.cores = std::max(options.cores, 1 + static_cast<uint32_t>(program.code.more_cores.size()));
  options.ddr = (2 * total_bytes(program.code) + (64 << 20)) / kPage * kPage;
  Machine machine(options);
  npu_model_check_races(machine.model(), true);
  JobSpec job;
  std::vector<Area> areas, outputs(program.outputs.size());
  for (const npu_program_region &r : program.code.regions) {
    const bool writable = r.access & NPU_ACCESS_WRITE;
    const Area area = machine.allocate(r.bytes, Place::Card, 0, writable ? NPU_PTE_WRITE : NPU_PTE_CONST);
    const std::vector<float> nothing(r.bytes / sizeof(float) + 1, std::nanf(""));
    const void *content = r.kind == NPU_PROGRAM_COEFF   ? program.coeff.data()
                          : r.kind == NPU_PROGRAM_INPUT ? inputs.at(r.index)
                                                        : nothing.data();
    machine.put(area, 0, content, r.bytes);
    if (r.kind == NPU_PROGRAM_OUTPUT) outputs[r.index] = area;
    job.regions.push_back(area.region(r.access));
  }
  job.stream[kTiu] = commands_of(program.code.tiu);
  job.stream[kGdma] = commands_of(program.code.gdma);
  for (const bmodel::CoreDesc &core : program.code.more_cores)
    job.more.push_back({commands_of(core.tiu), commands_of(core.gdma)});
  const npu_cqe done = machine.run(job);
  ProgramResult result;
  result.error = error_of(done, machine);
  result.cycles = done.end_cycle - done.start_cycle;
  for (size_t k = 0; k < outputs.size(); ++k) {
    result.outputs.emplace_back(program.outputs[k].bytes);
    machine.get(outputs[k], 0, result.outputs.back().data(), program.outputs[k].bytes);
  }
  return result;
}

graph::Tensor tensor_of(const bmodel::TensorDesc &desc) {
  return cpu::make_kind(desc.dtype, graph::Shape(desc.shape.begin(), desc.shape.end()));
}

/// A sub-network for the CPU; empty, or what is wrong.
std::string run_on_cpu(const bmodel::SubNetDesc &sub, std::map<std::string, graph::Tensor> &tensors) {
  std::vector<graph::Tensor> in, out;
  for (const auto &t : sub.inputs) in.push_back(tensors.at(t.name));
  for (const auto &t : sub.outputs) out.push_back(tensor_of(t));
  cpu::HostGraph graph;
  Status status = cpu::read_subnet_graph(std::span(sub.param).subspan(sizeof(npu_cpu_param)), in, out, graph);
  if (status.ok()) status = cpu::run_subnet_graph(graph, in, out);
  for (size_t k = 0; k < out.size(); ++k) tensors[sub.outputs[k].name] = std::move(out[k]);
  return status.message();
}

std::string run_on_npu(const bmodel::SubNetDesc &sub, const bmodel::StageDesc &stage, int64_t lmem,
                       std::map<std::string, graph::Tensor> &tensors, uint64_t &cycles) {
  std::vector<const void *> in;
  for (const auto &t : sub.inputs) in.push_back(tensors.at(t.name).data.data());
  ProgramResult done = run_program({sub, stage.coeff, sub.outputs}, in, lmem);
  if (done.error.empty() && done.cycles != sub.cycles)
    done.error = std::to_string(done.cycles) + " cycles, predicted are " + std::to_string(sub.cycles);
  cycles += done.cycles;
  for (size_t k = 0; k < done.outputs.size(); ++k) {
    graph::Tensor &t = tensors[sub.outputs[k].name] = tensor_of(sub.outputs[k]);
    t.data = std::move(done.outputs[k]);
  }
  return done.error;
}

}  // namespace

ChipResult try_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem) {
  std::vector<const void *> in;
  for (const auto &values : inputs) in.push_back(values.data());
  ProgramResult done = run_program({stage, stage.coeff, stage.outputs}, in, lmem);
  ChipResult result{std::move(done.error), {}, done.cycles};
  for (const Bytes &bytes : done.outputs) {
    result.outputs.emplace_back(bytes.size() / sizeof(float));
    std::memcpy(result.outputs.back().data(), bytes.data(), bytes.size());
  }
  return result;
}

StageResult run_stage(const bmodel::StageDesc &stage, const std::vector<graph::Tensor> &inputs, int64_t lmem) {
  StageResult result;
  std::map<std::string, graph::Tensor> tensors;
  for (size_t k = 0; k < stage.inputs.size(); ++k) tensors[stage.inputs[k].name] = inputs.at(k);
  std::vector<bmodel::SubNetDesc> subs = stage.subs;
  if (subs.empty()) {
    bmodel::SubNetDesc &whole = subs.emplace_back();
    static_cast<bmodel::ProgramDesc &>(whole) = stage;
    whole.inputs = stage.inputs;
    whole.outputs = stage.outputs;
  }
  for (const bmodel::SubNetDesc &sub : subs) {
    result.error = sub.mode ? run_on_cpu(sub, tensors) : run_on_npu(sub, stage, lmem, tensors, result.cycles);
    if (!result.error.empty()) return result;
  }
  std::vector<std::string> in, out;
  for (const auto &t : stage.inputs) in.push_back(t.name);
  for (const auto &t : stage.outputs) out.push_back(t.name);
  if (!stage.subs.empty()) out = bmodel::written_names(in, out);
  for (const std::string &name : out) result.outputs.push_back(tensors.at(name));
  return result;
}

graph::Graph import_graph(const std::string &file) {
  graph::RawModel raw;
  graph::Graph g;
  EXPECT_EQ(graph::read_onnx(file.data(), file.size(), raw).message(), "");
  EXPECT_EQ(graph::import_model(raw, {}, g).message(), "");
  return g;
}

std::string node_lines(const graph::Graph &graph) {
  const std::string text = graph::to_text(graph);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    if (text.compare(at, 5, "input") != 0 && text.compare(at, 8, "constant") != 0) out += text.substr(at, end - at);
    at = end;
  }
  return out;
}

int64_t lmem_of(const bmodel::StageDesc &stage) {
  uint64_t bytes = std::max<uint64_t>(stage.lmem_bytes, compiler::kMinLmemBytes);
  for (const bmodel::SubNetDesc &sub : stage.subs) bytes = std::max(bytes, sub.lmem_bytes);
  return static_cast<int64_t>(bytes + 4095) / 4096 * 4096;
}

ChipResult run_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem) {
  ChipResult result = try_on_chip(stage, inputs, lmem);
  EXPECT_EQ(result.error, "");
  return result;
}

}  // namespace npu::test
