// SPDX-License-Identifier: MIT
#include "network.h"

#include <algorithm>
#include <cstring>

#include "npu_isa.hpp"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;
using npu::bmodel::Program;

namespace {

constexpr uint64_t kIoAlign = 4096;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

std::vector<TensorInfo> read_tensors(const flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>> &list) {
  std::vector<TensorInfo> out;
  for (const fb::Tensor *t : list) {
    TensorInfo info{t->name()->str(), static_cast<bm_data_type_t>(t->data_type()), {}, 0, t->scale(), t->zero_point()};
    const auto &dims = *t->shape()->Get(0)->dim();
    info.shape.num_dims = static_cast<int>(dims.size());
    for (unsigned i = 0; i < dims.size(); ++i) info.shape.dims[i] = static_cast<int>(dims.Get(i));
    info.bytes = bmrt_shape_count(&info.shape) * bmrt_data_type_size(info.dtype);
    out.push_back(std::move(info));
  }
  return out;
}

/// A COPY of a whole tensor from region 1 to region 2: brings a staged output to its memory.
npu_cmd_copy staging_copy(uint64_t bytes) {
  auto c = npu::hw::make<npu_cmd_copy>();
  c.src_region = 1;
  c.dst_region = 2;
  c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[5] = static_cast<uint32_t>(bytes);
  c.src_stride[5] = c.dst_stride[5] = 1;
  return c;
}

/// Appends a core's commands to the code.
void add_stream(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma, std::vector<uint8_t> &code, Stage &stage) {
  drm_npu_stream s{};
  s.tiu_count = static_cast<uint32_t>(tiu.size() / NPU_CMD_BYTES);
  s.gdma_count = static_cast<uint32_t>(gdma.size() / NPU_CMD_BYTES);
  if (s.tiu_count) s.tiu_offset = code.size();
  code.insert(code.end(), tiu.begin(), tiu.end());
  if (s.gdma_count) s.gdma_offset = code.size();
  code.insert(code.end(), gdma.begin(), gdma.end());
  stage.tiu_count += s.tiu_count;
  stage.gdma_count += s.gdma_count;
  stage.streams.push_back(s);
}

/// TIU and GDMA commands of each core, one staging copy an output: one sealed buffer.
Reason upload_code(npu_device *device, const Program &program, Stage &stage) {
  std::vector<uint8_t> code;
  add_stream(program.tiu, program.gdma, code, stage);
  for (const auto &core : program.more_cores) add_stream(core.tiu, core.gdma, code, stage);
  stage.copy_offset = code.size();
  for (const TensorInfo &t : stage.outputs) {
    const npu_cmd_copy c = staging_copy(t.bytes);
    const auto *p = reinterpret_cast<const uint8_t *>(&c);
    code.insert(code.end(), p, p + sizeof c);
  }
  return seal(device, "commands", code, stage.code);
}

/// Memory for stages[].input_mems and output_mems.
Reason allocate_io(npu_device *device, Stage &stage) {
  uint64_t bytes = 0;
  for (const TensorInfo &t : stage.inputs)
    stage.input_address.push_back(std::exchange(bytes, bytes + round_up(t.bytes, kIoAlign)));
  for (const TensorInfo &t : stage.outputs)
    stage.output_address.push_back(std::exchange(bytes, bytes + round_up(t.bytes, kIoAlign)));
  npu_bo *bo;
  if (npu_bo_create(device, bytes, DRM_NPU_BO_CARD, &bo) != 0)
    return std::string("input and output memory: ") + npu_last_error();
  stage.io.reset(bo);
  for (auto *list : {&stage.input_address, &stage.output_address})
    for (uint64_t &a : *list) a += npu_bo_address(bo);
  return {};
}

Reason load_stage(npu_device *device, const Container &container, const fb::Net &net, const fb::NetParameter &p,
                  Stage &stage) {
  Program program;
  Reason why = npu::bmodel::read_program(container, net, p, program);
  if (!why.empty()) return why;
  drm_npu_dev_info dev;
  if (npu_device_info(device, &dev) != 0) return npu_last_error();
  if (program.header.lmem_bytes > dev.lmem_bytes)
    return container.name() + ": network '" + net.name()->str() + "' was compiled for " +
           std::to_string(program.header.lmem_bytes) + " bytes of local memory, this card has " +
           std::to_string(dev.lmem_bytes);
  if (program.more_cores.size() >= dev.cores)
    return container.name() + ": network '" + net.name()->str() + "' was compiled for " +
           std::to_string(1 + program.more_cores.size()) + " cores, this card has " + std::to_string(dev.cores);
  stage.inputs = read_tensors(*p.input_tensor());
  stage.outputs = read_tensors(*p.output_tensor());
  stage.regions = program.regions;
  stage.aliases = program.aliases;
  for (std::string_view name : program.layers) stage.layers.emplace_back(name);
  stage.lmem_bytes = program.header.lmem_bytes;
  stage.predicted_cycles = program.header.cycles;
  why = upload_code(device, program, stage);
  if (!why.empty()) return why;
  if (p.coeff_mem() && p.coeff_mem()->binary_coeff() && p.coeff_mem()->binary_coeff()->size()) {
    const auto coeff = container.binary(p.coeff_mem()->binary_coeff());
    why = seal(device, "coefficients", coeff, stage.coeff);
    if (!why.empty()) return why;
  }
  why = allocate_io(device, stage);
  if (!why.empty()) return why;
  stage.pool = std::make_unique<Pool>(device, p.ctx_size(), stage.outputs.size());
  return {};
}

bool same_tensors(const std::vector<TensorInfo> &a, const std::vector<TensorInfo> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorInfo &x, const TensorInfo &y) { return x.name == y.name && x.dtype == y.dtype; });
}

}  // namespace

const char *dtype_name(bm_data_type_t dtype) {
  static constexpr const char *kNames[] = {"float32", "float16", "int8",     "uint8", "int16", "uint16",
                                           "int32",   "uint32",  "bfloat16", "int4",  "uint4"};
  return static_cast<unsigned>(dtype) < std::size(kNames) ? kNames[dtype] : "unknown";
}

Reason Network::load(npu_device *device, const Container &container, const fb::Net &net,
                     std::unique_ptr<Network> &out) {
  auto n = std::make_unique<Network>();
  n->name_ = net.name()->str();
  n->addr_mode_ = net.addr_mode();
  if (!net.parameter() || net.parameter()->size() == 0)
    return container.name() + ": network '" + n->name_ + "' has no stage";
  for (const fb::NetParameter *p : *net.parameter()) {
    auto stage = std::make_unique<Stage>();
    Reason why = load_stage(device, container, net, *p, *stage);
    if (!why.empty()) return why;
    if (!n->stages_.empty() &&
        (!same_tensors(stage->inputs, n->stages_[0]->inputs) || !same_tensors(stage->outputs, n->stages_[0]->outputs)))
      return container.name() + ": network '" + n->name_ +
             "': its stages differ in the names or types of their tensors";
    n->stages_.push_back(std::move(stage));
  }
  n->fill_info();
  out = std::move(n);
  return {};
}

void Network::fill_info() {
  stage_arrays_.resize(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage &stage = *stages_[s];
    for (int dir = 0; dir < 2; ++dir) {
      const auto &tensors = dir ? stage.outputs : stage.inputs;
      const auto &addresses = dir ? stage.output_address : stage.input_address;
      StageArrays &arrays = stage_arrays_[s];
      max_bytes_[dir].resize(tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i) {
        arrays.shapes[dir].push_back(tensors[i].shape);
        arrays.mems[dir].push_back(bm_mem_from_device(addresses[i], static_cast<unsigned int>(tensors[i].bytes)));
        max_bytes_[dir][i] = std::max<size_t>(max_bytes_[dir][i], tensors[i].bytes);
        if (s != 0) continue;
        names_[dir].push_back(tensors[i].name.c_str());
        dtypes_[dir].push_back(tensors[i].dtype);
        scales_[dir].push_back(tensors[i].scale);
        zero_points_[dir].push_back(tensors[i].zero_point);
        loc_devices_[dir].push_back(0);
      }
    }
  }
  for (StageArrays &a : stage_arrays_)
    stage_infos_.push_back({a.shapes[0].data(), a.shapes[1].data(), a.mems[0].data(), a.mems[1].data()});
  info_.name = name_.c_str();
  info_.is_dynamic = false;
  info_.input_num = static_cast<int>(names_[0].size());
  info_.input_names = names_[0].data();
  info_.input_dtypes = dtypes_[0].data();
  info_.input_scales = scales_[0].data();
  info_.output_num = static_cast<int>(names_[1].size());
  info_.output_names = names_[1].data();
  info_.output_dtypes = dtypes_[1].data();
  info_.output_scales = scales_[1].data();
  info_.stage_num = static_cast<int>(stages_.size());
  info_.stages = stage_infos_.data();
  info_.max_input_bytes = max_bytes_[0].data();
  info_.max_output_bytes = max_bytes_[1].data();
  info_.input_zero_point = zero_points_[0].data();
  info_.output_zero_point = zero_points_[1].data();
  info_.input_loc_devices = loc_devices_[0].data();
  info_.output_loc_devices = loc_devices_[1].data();
  info_.core_num = 1;
  for (const auto &stage : stages_) info_.core_num = std::max(info_.core_num, static_cast<int>(stage->streams.size()));
  info_.addr_mode = addr_mode_;
}

int Network::find_stage(const bm_shape_t *shapes, int count) const {
  for (size_t s = 0; s < stages_.size(); ++s) {
    bool same = true, same_count = true;
    for (int i = 0; i < count; ++i) {
      const bm_shape_t &want = stages_[s]->inputs[static_cast<size_t>(i)].shape;
      same = same && bmrt_shape_is_same(&want, &shapes[i]);
      same_count = same_count && bmrt_shape_count(&want) == bmrt_shape_count(&shapes[i]);
    }
    if (same || (same_count && stages_.size() == 1)) return static_cast<int>(s);
  }
  return -1;
}

}  // namespace npurt
