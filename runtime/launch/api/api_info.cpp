// SPDX-License-Identifier: MIT
// A launch as data: what bm_send_api() sends later, as often as the program likes.
#include <cstring>

#include "runtime/launch/api/guard.h"
#include "runtime/launch/exec/bind.h"
#include "runtime/launch/exec/outputs.h"

namespace npurt {

namespace {

/// What a program gets is `c`, its first member.
struct ApiInfo {
  api_info_c c{};
  uint32_t id = NPU_BM_API_LAUNCH;
  std::vector<uint8_t> data;
  uint8_t *data_pointer = nullptr;
  size_t data_bytes = 0;
  std::vector<uint32_t> offsets[2];
  Scratch scratch;
  std::shared_ptr<const Stage> stage;  ///< whose buffers the record names
};

/// Offset of the address of tensor `index` in the record; the number of regions is that of its table.
uint32_t address_offset(const Unit &unit, uint8_t kind, size_t index) {
  for (size_t r = 0; r < unit.regions.size(); ++r)
    if (unit.regions[r].kind == kind && unit.regions[r].index == index)
      return static_cast<uint32_t>(sizeof(npu_bm_api) + unit.streams.size() * sizeof(drm_npu_stream) +
                                   r * sizeof(npu_bm_api_region) + offsetof(npu_bm_api_region, address));
  return ~0u;  // a tensor that no command touches
}

void write_record(const Unit &unit, const Jobs &jobs, uint32_t core_mask, ApiInfo &info) {
  const auto append = [&info](const auto &value) {
    const auto *p = reinterpret_cast<const uint8_t *>(&value);
    info.data.insert(info.data.end(), p, p + sizeof value);
  };
  append(npu_bm_api{NPU_BM_API_MAGIC, static_cast<uint32_t>(jobs.streams.size()),
                    static_cast<uint32_t>(jobs.regions.size()), core_mask});
  for (const drm_npu_stream &s : jobs.streams) append(s);
  for (const npu_job_region &r : jobs.regions)
    append(npu_bm_api_region{npu_bo_address(r.bo) + r.offset, r.size, r.access, 0});
  for (size_t i = 0; i < unit.inputs.size(); ++i) info.offsets[0].push_back(address_offset(unit, NPU_PROGRAM_INPUT, i));
  for (size_t i = 0; i < unit.outputs.size(); ++i)
    info.offsets[1].push_back(address_offset(unit, NPU_PROGRAM_OUTPUT, i));
}

/// A record is one job; another one would have to bring a tensor into the program's store mode.
Status check_same_modes(const Network &net, const char *what, const std::vector<TensorInfo> &stage,
                        const std::vector<TensorInfo> &launch) {
  for (size_t i = 0; i < stage.size(); ++i)
    if (stage[i].mode != launch[i].mode)
      return tensor_error(net, what, i, launch[i],
                          "store mode " + npu::bmodel::store_mode_name(launch[i].mode) +
                              ", a record takes the network's own, " + npu::bmodel::store_mode_name(stage[i].mode));
  return {};
}

void fill_in(ApiInfo &info) {
  info.data_pointer = info.data.data();
  info.data_bytes = info.data.size();
  info.c.api_id = &info.id;
  info.c.api_data = &info.data_pointer;
  info.c.api_id_size = info.c.api_data_size = 1;
  info.c.api_data_subsize = &info.data_bytes;
  info.c.input_addr_offset = info.offsets[0].data();
  info.c.input_addr_offset_number = info.offsets[0].size();
  info.c.output_addr_offset = info.offsets[1].data();
  info.c.output_addr_offset_number = info.offsets[1].size();
}

}  // namespace

Status Runtime::describe_launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                                const LaunchOptions &options, api_info_c *&out) {
  Prepared what;
  NPU_TRY(prepare(name, inputs, outputs, options, what));
  const Network &net = *what.network;
  const Plan &plan = what.stage->plan;
  if (!plan.only_program())
    return Status::error("network '" + net.name() + "' has several sub-networks: no single record launches it");
  if (what.rows)
    return Status::error("network '" + net.name() + "': a batch that is smaller than its stage's cannot be a record");
  NPU_TRY(check_same_modes(net, "input", what.stage->inputs, what.inputs));
  NPU_TRY(check_same_modes(net, "output", what.stage->outputs, what.outputs));
  OwnOutputs own(cards_, *what.stage, what.outputs, outputs);
  if (!options.user_mem) NPU_TRY(own.allocate(net));
  std::vector<Place> places;
  NPU_TRY(locate_tensors(cards_, what, inputs, outputs, places));
  auto info = std::make_unique<ApiInfo>();
  const std::string where = "network '" + net.name() + "'";
  NPU_TRY(what.stage->pools[0]->make(info->scratch).within(where));
  Jobs jobs;
  NPU_TRY(bind_program(cards_[0].device, plan.nodes[0], places, info->scratch, what.core_mask, jobs).within(where));
  if (jobs.jobs.size() > 1)
    return Status::error("network '" + net.name() +
                         "': an output shares memory with an input that is needed after it is written");
  write_record(plan.nodes[0].unit, jobs, what.core_mask, *info);
  fill_in(*info);
  info->stage = what.stage;
  own.keep();
  describe_outputs(what.outputs, outputs);
  out = &info.release()->c;
  return {};
}

}  // namespace npurt

// The function got its last parameter later. Programs that were linked before pass eight, and the ninth would be
// whatever their stack has: they get the function of their version.
extern "C" {
BMRT_API api_info_c *get_bmodel_api_info_c_8(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors,
                                             int input_num, bm_tensor_t *output_tensors, int output_num, bool user_mem,
                                             bool user_stmode);
BMRT_API api_info_c *get_bmodel_api_info_c_9(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors,
                                             int input_num, bm_tensor_t *output_tensors, int output_num, bool user_mem,
                                             bool user_stmode, uint32_t *core_ids);
}
__asm__(".symver get_bmodel_api_info_c_8, get_bmodel_api_info_c@NPURT_1.0");
__asm__(".symver get_bmodel_api_info_c_9, get_bmodel_api_info_c@@NPURT_1.2");

api_info_c *get_bmodel_api_info_c_9(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors, int input_num,
                                    bm_tensor_t *output_tensors, int output_num, bool user_mem, bool user_stmode,
                                    uint32_t *core_ids) {
  api_info_c *info = nullptr;
  npurt::guarded("get_bmodel_api_info_c", p_bmrt, [&](npurt::Runtime &r) -> npurt::Status {
    if (!input_tensors || !output_tensors) return npurt::Status::error("null pointer instead of tensors");
    if (input_num < 0 || output_num < 0) return npurt::Status::error("negative number of tensors");
    const npurt::Network *net;
    NPU_TRY(r.find(net_name, net));
    std::vector<int> cores;
    if (core_ids) cores.assign(core_ids, core_ids + net->info()->core_num);
    return r.describe_launch(net_name, {input_tensors, static_cast<size_t>(input_num)},
                             {output_tensors, static_cast<size_t>(output_num)}, {user_mem, user_stmode, cores}, info);
  });
  return info;
}

api_info_c *get_bmodel_api_info_c_8(void *p_bmrt, const char *net_name, const bm_tensor_t *input_tensors, int input_num,
                                    bm_tensor_t *output_tensors, int output_num, bool user_mem, bool user_stmode) {
  return get_bmodel_api_info_c_9(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, user_mem,
                                 user_stmode, nullptr);
}

void bmrt_free_api_info(api_info_c *api_info) { delete reinterpret_cast<npurt::ApiInfo *>(api_info); }
