// SPDX-License-Identifier: MIT
// The C API: launches.
#include <algorithm>

#include "runtime/launch/api/guard.h"

using npurt::guarded;
using npurt::Runtime;
using npurt::Status;

namespace {

std::span<const int> cores(const int *list, int number) {
  return list && number > 0 ? std::span(list, static_cast<size_t>(number)) : std::span<const int>();
}

bool launch(const char *function, void *p_bmrt, const char *net_name, const bm_tensor_t *inputs, int input_num,
            bm_tensor_t *outputs, int output_num, const npurt::LaunchOptions &options) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    if (!inputs || !outputs) return Status::error("null pointer instead of tensors");
    if (input_num < 0 || output_num < 0) return Status::error("negative number of tensors");
    return r.launch(net_name, {inputs, static_cast<size_t>(input_num)}, {outputs, static_cast<size_t>(output_num)},
                    options);
  });
}

Status check_data(const void *input_datas, const bm_shape_t *input_shapes, int input_num, const void *output_datas,
                  const bm_shape_t *output_shapes, int output_num) {
  if (!input_datas || !input_shapes || !output_datas || !output_shapes)
    return Status::error("null pointer instead of tensors");
  if (input_num < 0 || output_num < 0) return Status::error("negative number of tensors");
  return {};
}

/// Before arrays of the caller are read as far as its numbers say.
Status check_counts(const bm_net_info_t &net, int input_num, int output_num) {
  const auto wrong = [&net](int got, const char *what, int expected) {
    return Status::error("network '" + std::string(net.name) + "': " + std::to_string(got) + " " + what +
                         ", expected " + std::to_string(expected));
  };
  if (input_num != net.input_num) return wrong(input_num, "inputs", net.input_num);
  return output_num == net.output_num ? Status() : wrong(output_num, "outputs", net.output_num);
}

bool launch_data(const char *function, void *p_bmrt, const char *net_name, void *const *input_datas,
                 const bm_shape_t *input_shapes, int input_num, void **output_datas, bm_shape_t *output_shapes,
                 int output_num, bool user_mem, std::span<const int> core_list) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    NPU_TRY(check_data(input_datas, input_shapes, input_num, output_datas, output_shapes, output_num));
    const auto in = static_cast<size_t>(input_num), out = static_cast<size_t>(output_num);
    return r.launch_data(net_name, {input_datas, in}, {input_shapes, in}, {output_datas, out}, {output_shapes, out},
                         user_mem, core_list);
  });
}

}  // namespace

bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                        bm_tensor_t output_tensors[], int output_num) {
  return launch(__func__, p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, {});
}

bool bmrt_launch_tensor_ex(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                           bm_tensor_t output_tensors[], int output_num, bool user_mem, bool user_stmode) {
  return launch(__func__, p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num,
                {user_mem, user_stmode, {}});
}

bool bmrt_launch_tensor_multi_cores(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                    int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                    bool user_stmode, const int *core_list, int core_num) {
  return launch(__func__, p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num,
                {user_mem, user_stmode, cores(core_list, core_num)});
}

bool bmrt_launch_tensor_multi_thread(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                     int input_num, bm_tensor_t output_tensors[], int output_num, uint64_t,
                                     bool user_mem, bool user_stmode, const int *core_list, int core_num) {
  return launch(__func__, p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num,
                {user_mem, user_stmode, cores(core_list, core_num)});
}

bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[], const bm_shape_t input_shapes[],
                      int input_num, void *output_datas[], bm_shape_t output_shapes[], int output_num, bool user_mem) {
  return launch_data(__func__, p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                     output_num, user_mem, {});
}

bool bmrt_launch_data_multi_cores(void *p_bmrt, const char *net_name, void *const input_datas[],
                                  const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                  bm_shape_t output_shapes[], int output_num, bool user_mem, const int *core_list,
                                  int core_num) {
  return launch_data(__func__, p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                     output_num, user_mem, cores(core_list, core_num));
}

bool bmrt_launch_data_multi_thread(void *p_bmrt, const char *net_name, void *const input_datas[],
                                   const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                   bm_shape_t output_shapes[], int output_num, uint64_t, bool user_mem,
                                   const int *core_list, int core_num) {
  return launch_data(__func__, p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                     output_num, user_mem, cores(core_list, core_num));
}

bool bmrt_launch_data_float32(void *p_bmrt, const char *net_name, const float *const input_datas[],
                              const bm_shape_t input_shapes[], int input_num, float *output_datas[],
                              bm_shape_t output_shapes[], int output_num, bool user_mem) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    NPU_TRY(check_data(input_datas, input_shapes, input_num, output_datas, output_shapes, output_num));
    const npurt::Network *net;
    NPU_TRY(r.find(net_name, net));
    NPU_TRY(check_counts(*net->info(), input_num, output_num));
    std::vector<void *> in, out(static_cast<size_t>(output_num));
    for (int i = 0; i < input_num; ++i) in.push_back(const_cast<float *>(input_datas[i]));
    if (user_mem) std::copy(output_datas, output_datas + output_num, out.begin());
    NPU_TRY(r.launch_data(net_name, in, {input_shapes, in.size()}, out, {output_shapes, out.size()}, user_mem, {},
                          npurt::DataForm::Float32));
    for (size_t i = 0; i < out.size(); ++i) output_datas[i] = static_cast<float *>(out[i]);
    return {};
  });
}

// ---- activation memory ----

bool bmrt_set_max_launches(void *p_bmrt, int count) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    if (count < 1) return Status::error(std::to_string(count) + " launches, at least 1 is needed");
    r.set_max_launches(count);
    return {};
  });
}

bool bmrt_pre_alloc_neuron_multi_cores(void *p_bmrt, const char *net_name, int stage_idx, const int *core_list,
                                       int core_num) {
  return guarded(__func__, p_bmrt,
                 [&](Runtime &r) { return r.reserve(net_name, stage_idx, cores(core_list, core_num)); });
}

bool bmrt_pre_alloc_mem(void *p_bmrt, const char *net_name) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) { return r.reserve(net_name, Runtime::kAllStages, {}); });
}

bool bmrt_free_pre_alloc_mem(void *p_bmrt, const char *net_name) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) -> Status {
    const npurt::Network *net;
    NPU_TRY(r.find(net_name, net));
    for (const auto &stage : net->stages())
      for (const auto &pool : stage->pools) pool->trim();
    return {};
  });
}

bool bmrt_pre_alloc_mem_multi_thread(void *p_bmrt, uint64_t, const mem_info_t *mem_info) {
  return guarded(__func__, p_bmrt, [&](Runtime &r) { return mem_info ? r.use_scratch(*mem_info) : Status(); });
}

namespace {

Status no_neuron_memory(Runtime &r, const char *net_name) {
  const npurt::Network *net;
  NPU_TRY(r.find(net_name, net));
  return Status::error("not supported: activation memory belongs to launches, not to networks");
}

}  // namespace

int bmrt_get_neuron_number(void *p_bmrt, const char *net_name) {
  guarded(__func__, p_bmrt, [&](Runtime &r) { return no_neuron_memory(r, net_name); });
  return 0;
}

bm_device_mem_t bmrt_get_neuron_memory(void *p_bmrt, const char *net_name, int, const int *, int) {
  guarded(__func__, p_bmrt, [&](Runtime &r) { return no_neuron_memory(r, net_name); });
  return bm_mem_null();
}
