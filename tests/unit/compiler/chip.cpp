// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/chip.h"

#include <cmath>

namespace npu::test {
namespace {

std::vector<Cmd> commands_of(const std::vector<uint8_t> &stream) {
  std::vector<Cmd> out(stream.size() / NPU_CMD_BYTES);
  for (size_t i = 0; i < out.size(); ++i)
    std::memcpy(out[i].bytes.data(), stream.data() + i * NPU_CMD_BYTES, NPU_CMD_BYTES);
  return out;
}

uint64_t total_bytes(const bmodel::StageDesc &stage) {
  uint64_t sum = stage.tiu.size() + stage.gdma.size();
  for (const npu_program_region &r : stage.regions) sum += r.bytes;
  return sum;
}

}  // namespace

ChipResult try_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem) {
  Machine::Options options;
  options.lmem = static_cast<uint32_t>(lmem);
  options.ddr = (2 * total_bytes(stage) + (64 << 20)) / kPage * kPage;
  Machine machine(options);
  npu_model_check_races(machine.model(), true);
  JobSpec job;
  std::vector<Area> areas, outputs(stage.outputs.size());
  for (const npu_program_region &r : stage.regions) {
    const bool writable = r.access & NPU_ACCESS_WRITE;
    const Area area = machine.allocate(r.bytes, Place::Card, 0, writable ? NPU_PTE_WRITE : NPU_PTE_CONST);
    const std::vector<float> nothing(r.bytes / sizeof(float), std::nanf(""));
    const void *content = r.kind == NPU_PROGRAM_COEFF   ? stage.coeff.data()
                          : r.kind == NPU_PROGRAM_INPUT ? static_cast<const void *>(inputs.at(r.index).data())
                                                        : nothing.data();
    machine.put(area, 0, content, r.bytes);
    if (r.kind == NPU_PROGRAM_OUTPUT) outputs[r.index] = area;
    job.regions.push_back(area.region(r.access));
  }
  job.stream[kTiu] = commands_of(stage.tiu);
  job.stream[kGdma] = commands_of(stage.gdma);
  const npu_cqe done = machine.run(job);
  ChipResult result;
  if (done.status != NPU_STATUS_OK)
    result.error = std::string(status_name(done.status)) + ", engine " + std::to_string(done.engine) + ", command " +
                   std::to_string(done.command) + ", region " + std::to_string(done.region) + ", offset " +
                   std::to_string(done.offset);
  if (done.status == NPU_STATUS_INTERNAL)
    for (const std::string &line : machine.board.take_trace())
      if (line.starts_with("race")) result.error += "\n" + line;
  result.cycles = done.end_cycle - done.start_cycle;
  for (size_t k = 0; k < outputs.size(); ++k) {
    result.outputs.emplace_back(stage.outputs[k].bytes / sizeof(float));
    machine.get(outputs[k], 0, result.outputs.back().data(), stage.outputs[k].bytes);
  }
  return result;
}

ChipResult run_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem) {
  ChipResult result = try_on_chip(stage, inputs, lmem);
  EXPECT_EQ(result.error, "");
  return result;
}

}  // namespace npu::test
