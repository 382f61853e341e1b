// SPDX-License-Identifier: MIT
// Small hand-assembled models: what the container and launch tests (and the fuzzer's seeds) are made of.
#ifndef TEST_RUNTIME_MODELS_H
#define TEST_RUNTIME_MODELS_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/bmodel/builder.h"
#include "runtime/bmodel/cpu_param.h"
#include "runtime/cpu/host_graph.h"

namespace test_models {

/// Assembles a stage command by command. Declare all tensors first: the region numbers follow from them.
class Stage {
 public:
  Stage &input(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype = 0);
  Stage &output(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype = 0);
  Stage &ctx(uint64_t bytes);
  Stage &coeff(const std::vector<float> &values);
  /// Output may be written before input is dead.
  Stage &alias(uint16_t output, uint16_t input);

  // Regions; local memory is NPU_REGION_LOCAL.
  uint8_t in(size_t i) const { return static_cast<uint8_t>(i); }
  uint8_t out(size_t i) const { return static_cast<uint8_t>(desc.inputs.size() + i); }
  uint8_t ctx() const { return static_cast<uint8_t>(desc.inputs.size() + desc.outputs.size()); }
  uint8_t coeff() const { return static_cast<uint8_t>(ctx() + (desc.ctx_bytes ? 1 : 0)); }

  /// GDMA: `count` floats. Byte offsets. `wait`: TIU commands that must have retired.
  Stage &copy(uint8_t from, uint64_t from_offset, uint8_t to, uint64_t to_offset, uint32_t count, uint32_t wait = 0);
  /// GDMA: `count` elements of `bytes` bytes, so many elements apart.
  Stage &move(uint8_t from, uint64_t from_offset, int32_t from_stride, uint8_t to, uint64_t to_offset,
              int32_t to_stride, uint32_t count, uint32_t bytes);
  /// TIU: local floats at `a` OP constant, to `to`. `wait`: GDMA commands that must have retired.
  Stage &apply(uint8_t subop, uint32_t a, float constant, uint32_t to, uint32_t count, uint32_t wait);
  /// TIU: local floats at `a` + those at `b`, to `to`.
  Stage &add(uint32_t a, uint32_t b, uint32_t to, uint32_t count, uint32_t wait);
  /// Fills in addresses, regions and the header's facts.
  npu::bmodel::StageDesc finish();

  npu::bmodel::StageDesc desc;
};

/// y = x + constant, elementwise, through local memory; no alias facts. Network names are the caller's choice.
npu::bmodel::StageDesc plus(const std::vector<uint64_t> &shape, float constant);
/// y = 2 * x + w, w = 1, 2, 3 ... from the coefficients, by way of activation memory.
npu::bmodel::StageDesc affine(uint32_t count);
/// Two outputs: inc = a + 1 is written before a is read again for keep = a. alias_facts: as a compiler states them.
npu::bmodel::StageDesc keep(uint32_t count, bool alias_facts);
/// Two inputs [1,4] float32 `a` and [2,2] float32 `b`, one output: a + b.
npu::bmodel::StageDesc sum();
/// Reads 4 bytes beyond its input.
npu::bmodel::StageDesc overrun(uint32_t count);
/// GDMA waits for a TIU command that does not exist.
npu::bmodel::StageDesc deadlock();

/// For two cores, x and y [1,8]: core 0 puts x + 1 into activation memory and signals; core 1 waits, and writes twice
/// that to y.
npu::bmodel::StageDesc relay(bool signal = true);

/// "name" of a type and shape; the address is nobody's business.
npu::bmodel::TensorDesc tensor(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype = 0,
                               int32_t store_mode = 0);

/// Where element `i` of batch `b` stands in a tensor with `inner` elements a batch, of which `lanes` batches share a
/// word; counted in elements.
uint64_t stored_at(uint64_t lanes, uint64_t inner, uint64_t b, uint64_t i);
/// Of 8- or 16-bit tensors [batch, ...]: y has the elements of each batch of x in reverse order. The program works on
/// the tensors as these store modes have them; it leaves alone what fills a batch up.
npu::bmodel::StageDesc mirror(const std::vector<uint64_t> &shape, uint32_t dtype, int32_t x_mode, int32_t y_mode);

// Sub-networks. `next` are ids.
using Ids = std::vector<int32_t>;
/// A stage's program as a sub-network that reads `inputs` and writes `outputs` instead of its own names.
npu::bmodel::SubNetDesc on_npu(int32_t id, const npu::bmodel::StageDesc &program, std::vector<std::string> inputs,
                               std::vector<std::string> outputs, Ids next);
npu::bmodel::SubNetDesc on_cpu(int32_t id, int32_t op, std::vector<npu::bmodel::TensorDesc> inputs,
                               std::vector<npu::bmodel::TensorDesc> outputs, Ids next, npu_cpu_param param = {});
/// A graph for the CPU, as npuc writes it.
npu::bmodel::SubNetDesc on_cpu(int32_t id, const npu::cpu::HostGraph &graph,
                               std::vector<npu::bmodel::TensorDesc> inputs,
                               std::vector<npu::bmodel::TensorDesc> outputs, Ids next);
npu::bmodel::SubNetDesc merge(int32_t id, std::vector<npu::bmodel::TensorDesc> inputs,
                              std::vector<npu::bmodel::TensorDesc> outputs, std::vector<Ids> from, Ids next);
/// `inputs` end with the condition; next: if it is zero, if it is not. Output k is input from[k], for branch[k].
npu::bmodel::SubNetDesc branch(int32_t id, std::vector<npu::bmodel::TensorDesc> inputs,
                               std::vector<npu::bmodel::TensorDesc> outputs, Ids from, Ids branches, Ids next);
npu::bmodel::StageDesc flow(std::vector<npu::bmodel::TensorDesc> inputs, std::vector<npu::bmodel::TensorDesc> outputs,
                            std::vector<npu::bmodel::SubNetDesc> subs);
/// x [1,8], flag int32 [1] -> y = x + (flag ? 20 : 10) + 1, index int32 [1] of the largest element of y.
/// By a switch, a sub-network for the NPU in each branch, a merge, one for the NPU and one for the CPU.
npu::bmodel::StageDesc choose();
/// x [1,8] -> x + 1, by the CPU to int32, by the CPU to float32, + 2.
npu::bmodel::StageDesc there_and_back();

/// The rows of x [8] by index [3] int32, as a graph.
npu::cpu::HostGraph rows_by_index();
/// x [8], index int32 [3] -> y [3], rows of x + 1: x by the NPU, the rows by the CPU.
npu::bmodel::StageDesc pick(const npu::cpu::HostGraph &graph);

npu::bmodel::NetDesc net(const std::string &name, std::vector<npu::bmodel::StageDesc> stages);
/// Container bytes; a description that cannot be built ends the test program.
std::vector<uint8_t> file(std::vector<npu::bmodel::NetDesc> nets);
/// "plus" [1,8], "affine" [16], "keep" [4], "sum".
std::vector<uint8_t> sample();

}  // namespace test_models

#endif  // TEST_RUNTIME_MODELS_H
