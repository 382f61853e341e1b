// SPDX-License-Identifier: MIT
// Writing a .bmodel: plain descriptions in, container bytes out.
#ifndef NPU_BMODEL_BUILDER_H
#define NPU_BMODEL_BUILDER_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "runtime/bmodel/program.h"

namespace npu::bmodel {

/// Linear file addresses: coefficients first, then input and output tensors, then activation memory.
inline constexpr uint64_t kCoeffAddress = 0x100000000ull;

struct TensorDesc {
  std::string name;
  uint32_t dtype = 0;           ///< bm_data_type_t
  std::vector<uint64_t> shape;  ///< at most 8 dims; a scalar has none
  uint64_t address = 0;         ///< linear file address
  uint64_t bytes = 0;
  float scale = 1.0f;  ///< integers of an input: what numbers are multiplied by; of an output: what integers are
  int32_t zero_point = 0;
  float step = 0;  ///< what one step of integers stands for: `scale` of outputs, 1 / `scale` of inputs; 0: not said
  int32_t store_mode = 0;  ///< bm_store_mode_t; `bytes` are those of the filled-up batch
  int32_t hidden = 0;      ///< in a step: between steps
  int32_t index = -1;      ///< in a step: number among the inputs or outputs of the whole; -1: its place in the list
};

/// What one more core runs: TIU and GDMA commands, 128 bytes each.
struct CoreDesc {
  std::vector<uint8_t> tiu, gdma;
};

/// The commands of a stage or of a sub-network, with what their header says.
struct ProgramDesc {
  uint64_t lmem_bytes = 0, cycles = 0;
  uint32_t cost[9] = {}, rate_16 = 0, rate_8 = 0;
  std::vector<npu_program_region> regions;
  std::vector<npu_program_alias> aliases;
  std::vector<std::string> layers;
  std::vector<uint8_t> tiu, gdma;    ///< commands of the first core, 128 bytes each
  std::vector<CoreDesc> more_cores;  ///< of the second and so on
};

/// A sub-network of a stage that is more than one program; see flow.h. Regions of a program name its own tensors.
struct SubNetDesc : ProgramDesc {
  int32_t mode = 0;  ///< 0 NPU, 1 CPU, 2 merge, 3 switch
  int32_t id = -1;
  std::vector<int32_t> next;
  std::vector<TensorDesc> inputs, outputs;
  int32_t op = 0;              ///< CPU: NPU_CPU_
  std::vector<uint8_t> param;  ///< CPU: a struct npu_cpu_param
  std::vector<std::vector<int32_t>>
      from;                     ///< merge: for each output the inputs that it may come from; switch: one each
  std::vector<int32_t> branch;  ///< switch: for each output 1 if it is of the true branch
};

/// One stage (one set of static shapes) of a network: one program, or sub-networks.
struct StageDesc : ProgramDesc {
  std::vector<TensorDesc> inputs, outputs;
  std::vector<uint8_t> coeff;             ///< contents, at kCoeffAddress
  uint64_t io_address = 0, io_bytes = 0;  ///< range that holds all input and output tensors
  uint64_t ctx_address = 0, ctx_bytes = 0;
  int32_t is_dynamic = 0, n_dynamic = 0;
  std::vector<SubNetDesc> subs;  ///< if there are any, the stage has no program of its own
};

struct NetDesc {
  std::string name;
  int32_t addr_mode = 0;
  std::vector<StageDesc> stages;
  std::string part_of = {};  ///< the distributed network that it is a step of, if any
  uint32_t device = 0, step = 0;
  std::vector<uint8_t> source = {};  ///< the ONNX file, for shapes that no stage has: see source.h
};

struct ModelDesc {
  std::vector<NetDesc> nets;
  std::string time;  ///< creation time as text; empty for reproducible files
};

/// Names under which sub-networks write the outputs of a stage. Usually they are those of the outputs. An output with
/// the name of an input, or of an output in front of it, has another one here: "NAME (output 2)".
std::vector<std::string> written_names(const std::vector<std::string> &inputs, const std::vector<std::string> &outputs);

/// Serialises to container bytes. An error says what is wrong with the description.
Status build(const ModelDesc &model, std::vector<uint8_t> &out);
/// A file of one network, without a time.
Status build_one(const NetDesc &net, std::vector<uint8_t> &out);

}  // namespace npu::bmodel

#endif  // NPU_BMODEL_BUILDER_H
