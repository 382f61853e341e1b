// SPDX-License-Identifier: MIT
#include "runtime/launch/model/unit.h"

#include <algorithm>

#include "npu_isa.hpp"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Program;

namespace {

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
void add_stream(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma, std::vector<uint8_t> &code, Unit &unit) {
  drm_npu_stream s{};
  s.tiu_count = static_cast<uint32_t>(tiu.size() / NPU_CMD_BYTES);
  s.gdma_count = static_cast<uint32_t>(gdma.size() / NPU_CMD_BYTES);
  if (s.tiu_count) s.tiu_offset = code.size();
  code.insert(code.end(), tiu.begin(), tiu.end());
  if (s.gdma_count) s.gdma_offset = code.size();
  code.insert(code.end(), gdma.begin(), gdma.end());
  unit.tiu_count += s.tiu_count;
  unit.gdma_count += s.gdma_count;
  unit.streams.push_back(s);
}

/// TIU and GDMA commands of each core, one staging copy an output.
Status upload_code(npu_device *device, const Program &program, UserPart &part, Unit &unit) {
  std::vector<uint8_t> code;
  add_stream(program.tiu, program.gdma, code, unit);
  for (const auto &core : program.more_cores) add_stream(core.tiu, core.gdma, code, unit);
  unit.copy_offset = code.size();
  if (is_traced()) unit.traced = {code, unit.streams};
  for (const TensorInfo &t : unit.outputs) {
    const npu_cmd_copy c = staging_copy(t.bytes);
    const auto *p = reinterpret_cast<const uint8_t *>(&c);
    code.insert(code.end(), p, p + sizeof c);
  }
  return store(device, "commands", code, {}, part, false, unit.code);
}

/// What the card must have for a program.
Status check_card(npu_device *device, const std::string &who, const Program &program) {
  drm_npu_dev_info dev;
  if (npu_device_info(device, &dev) != 0) return npu_error();
  if (program.header.lmem_bytes > dev.lmem_bytes)
    return Status::error(who + " was compiled for " + std::to_string(program.header.lmem_bytes) +
                         " bytes of local memory, this card has " + std::to_string(dev.lmem_bytes));
  if (program.more_cores.size() >= dev.cores)
    return Status::error(who + " was compiled for " + std::to_string(1 + program.more_cores.size()) +
                         " cores, this card has " + std::to_string(dev.cores));
  return {};
}

}  // namespace

std::string shape_text(const bm_shape_t &s) {
  std::string out = "[";
  for (int i = 0; i < s.num_dims && i < BM_MAX_DIMS_NUM; ++i) out += (i ? "," : "") + std::to_string(s.dims[i]);
  return out + "]";
}

uint64_t batch_of(const bm_shape_t &shape) { return shape.num_dims ? static_cast<uint64_t>(shape.dims[0]) : 1; }

uint64_t stored_bytes(bm_data_type_t dtype, const bm_shape_t &shape, bm_store_mode_t mode) {
  const uint64_t elements = bmrt_shape_count(&shape), lanes = npu::bmodel::store_lanes(mode, dtype);
  if (lanes == 1 || elements == 0) return elements * bmrt_data_type_size(dtype);
  const uint64_t batch = batch_of(shape);
  return (batch + lanes - 1) / lanes * (elements / batch) * 4;
}

void store_as(bm_store_mode_t mode, TensorInfo &tensor) {
  if (tensor.mode == mode) return;
  tensor.mode = mode;
  tensor.bytes = stored_bytes(tensor.dtype, tensor.shape, mode);
}

TensorInfo read_tensor(const fb::Tensor &t) {
  TensorInfo info{.name = t.name()->str(),
                  .dtype = static_cast<bm_data_type_t>(t.data_type()),
                  .shape = {},
                  .mode = static_cast<bm_store_mode_t>(t.gmem_stmode()),
                  .bytes = npu::bmodel::tensor_bytes(t),
                  .scale = t.scale(),
                  .zero_point = t.zero_point(),
                  .step = t.quant_step()};
  const auto &dims = *t.shape()->Get(0)->dim();
  info.shape.num_dims = static_cast<int>(dims.size());
  for (unsigned i = 0; i < dims.size(); ++i) info.shape.dims[i] = static_cast<int>(dims.Get(i));
  return info;
}

std::vector<TensorInfo> read_tensors(const npu::bmodel::TensorList &list) {
  std::vector<TensorInfo> out;
  for (const fb::Tensor *t : list) out.push_back(read_tensor(*t));
  return out;
}

bool same_tensors(const std::vector<TensorInfo> &a, const std::vector<TensorInfo> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorInfo &x, const TensorInfo &y) { return x.name == y.name && x.dtype == y.dtype; });
}

std::vector<TensorInfo> with_rows(const std::vector<TensorInfo> &tensors, int rows) {
  std::vector<TensorInfo> out = tensors;
  for (TensorInfo &t : out) {
    if (rows == 0) continue;
    t.shape.dims[0] = rows;
    t.bytes = stored_bytes(t.dtype, t.shape, t.mode);
  }
  return out;
}

uint64_t code_bytes(const Program &program, size_t outputs) {
  uint64_t bytes = program.tiu.size() + program.gdma.size() + outputs * NPU_CMD_BYTES;
  for (const auto &core : program.more_cores) bytes += core.tiu.size() + core.gdma.size();
  return bytes;
}

Status upload_unit(npu_device *device, const std::string &who, const Program &program, std::span<const uint8_t> coeff,
                   UserMemory &user, Unit &unit) {
  NPU_TRY(check_card(device, who, program));
  unit.regions = program.regions;
  unit.aliases = program.aliases;
  for (std::string_view name : program.layers) unit.layers.emplace_back(name);
  unit.lmem_bytes = program.header.lmem_bytes;
  unit.predicted_cycles = program.header.cycles;
  NPU_TRY(upload_code(device, program, user.instructions, unit).within(who));
  if (coeff.empty()) return {};
  return store(device, "coefficients", coeff, user.file, user.coefficients, true, unit.coeff).within(who);
}

}  // namespace npurt
