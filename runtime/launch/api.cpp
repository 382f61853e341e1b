// SPDX-License-Identifier: MIT
// The C API: argument checks, exceptions and reasons; the work is done by Runtime.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "error.h"
#include "print.h"
#include "runtime.h"

using npurt::Reason;
using npurt::report;
using npurt::Runtime;

namespace {

/// Runs `body` (returns a Reason); exceptions of the standard library (memory) become a reason, too.
template <class Body>
bool guarded(const char *function, Body body) {
  try {
    return report(function, body());
  } catch (const std::bad_alloc &) {
    return report(function, "out of system memory");
  } catch (const std::exception &e) {
    return report(function, std::string("internal error: ") + e.what());
  }
}

Runtime *runtime(void *p_bmrt) { return static_cast<Runtime *>(p_bmrt); }

}  // namespace

void *bmrt_create(bm_handle_t bm_handle) {
  std::unique_ptr<Runtime> out;
  guarded("bmrt_create", [&] { return Runtime::create(bm_handle, out); });
  return out.release();
}

void bmrt_destroy(void *p_bmrt) { delete runtime(p_bmrt); }

void *bmrt_get_bm_handle(void *p_bmrt) { return p_bmrt ? runtime(p_bmrt)->handle() : nullptr; }

bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape) {
  return guarded("bmrt_tensor", [&]() -> Reason {
    if (!tensor || !p_bmrt) return "null pointer";
    *tensor = {dtype, shape, bm_mem_null(), BM_STORE_1N};
    if (shape.num_dims < 0 || shape.num_dims > BM_MAX_DIMS_NUM)
      return std::to_string(shape.num_dims) + " dims, at most 8 are possible";
    const size_t bytes = bmrt_tensor_bytesize(tensor);
    if (bytes == 0 || bytes > 0xffffffffu)
      return "a tensor of " + std::to_string(bytes) + " bytes, 1 to 4294967295 are possible";
    if (bm_malloc_device_byte(runtime(p_bmrt)->handle(), &tensor->device_mem, static_cast<unsigned int>(bytes)) !=
        BM_SUCCESS)
      return npu_last_error();
    return {};
  });
}

bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path) {
  return guarded("bmrt_load_bmodel", [&]() -> Reason {
    if (!p_bmrt || !bmodel_path) return "null pointer";
    Reason why;
    const auto container = npu::bmodel::Container::open(bmodel_path, why);
    return container ? runtime(p_bmrt)->load(*container) : why;
  });
}

bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size) {
  return guarded("bmrt_load_bmodel_data", [&]() -> Reason {
    if (!p_bmrt || !bmodel_data) return "null pointer";
    Reason why;
    const auto container = npu::bmodel::Container::from_memory(bmodel_data, size, why);
    return container ? runtime(p_bmrt)->load(*container) : why;
  });
}

void bmrt_show_neuron_network(void *p_bmrt) {
  if (!p_bmrt) return;
  for (const npurt::Network *n : runtime(p_bmrt)->networks()) std::printf("%s\n", n->name().c_str());
}

int bmrt_get_network_number(void *p_bmrt) { return p_bmrt ? static_cast<int>(runtime(p_bmrt)->networks().size()) : 0; }

void bmrt_get_network_names(void *p_bmrt, const char ***network_names) {
  if (!network_names) return;
  *network_names = nullptr;
  guarded("bmrt_get_network_names", [&]() -> Reason {
    if (!p_bmrt) return "null pointer";
    const auto networks = runtime(p_bmrt)->networks();
    auto **names = static_cast<const char **>(std::calloc(networks.empty() ? 1 : networks.size(), sizeof(char *)));
    if (!names) return "out of system memory";
    for (size_t i = 0; i < networks.size(); ++i) names[i] = networks[i]->name().c_str();
    *network_names = names;
    return {};
  });
}

const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name) {
  const bm_net_info_t *info = nullptr;
  guarded("bmrt_get_network_info", [&]() -> Reason {
    if (!p_bmrt) return "null pointer";
    Reason why;
    const npurt::Network *n = runtime(p_bmrt)->find(net_name, why);
    if (n) info = n->info();
    return why;
  });
  return info;
}

void bmrt_print_network_info(const bm_net_info_t *net_info) {
  if (net_info) npurt::print_network_info(*net_info);
}

void bmrt_trace(void *p_bmrt) {
  if (p_bmrt) npurt::print_trace(*runtime(p_bmrt));
}

namespace {

bool launch(const char *function, void *p_bmrt, const char *net_name, const bm_tensor_t *inputs, int input_num,
            bm_tensor_t *outputs, int output_num, const npurt::LaunchOptions &options) {
  return guarded(function, [&]() -> Reason {
    if (!p_bmrt || !inputs || !outputs) return "null pointer";
    if (input_num < 0 || output_num < 0) return "negative number of tensors";
    return runtime(p_bmrt)->launch(net_name, {inputs, static_cast<size_t>(input_num)},
                                   {outputs, static_cast<size_t>(output_num)}, options);
  });
}

}  // namespace

bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                        bm_tensor_t output_tensors[], int output_num) {
  return launch("bmrt_launch_tensor", p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, {});
}

bool bmrt_launch_tensor_ex(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                           bm_tensor_t output_tensors[], int output_num, bool user_mem, bool user_stmode) {
  return launch("bmrt_launch_tensor_ex", p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num,
                {user_mem, user_stmode, {}});
}

bool bmrt_launch_tensor_multi_cores(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                    int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                    bool user_stmode, const int *core_list, int core_num) {
  std::span<const int> cores;
  if (core_list && core_num > 0) cores = {core_list, static_cast<size_t>(core_num)};
  return launch("bmrt_launch_tensor_multi_cores", p_bmrt, net_name, input_tensors, input_num, output_tensors,
                output_num, {user_mem, user_stmode, cores});
}

bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[], const bm_shape_t input_shapes[],
                      int input_num, void *output_datas[], bm_shape_t output_shapes[], int output_num, bool user_mem) {
  return guarded("bmrt_launch_data", [&]() -> Reason {
    if (!p_bmrt || !input_datas || !input_shapes || !output_datas || !output_shapes) return "null pointer";
    if (input_num < 0 || output_num < 0) return "negative number of tensors";
    const auto in = static_cast<size_t>(input_num), out = static_cast<size_t>(output_num);
    return runtime(p_bmrt)->launch_data(net_name, {input_datas, in}, {input_shapes, in}, {output_datas, out},
                                        {output_shapes, out}, user_mem);
  });
}

const char *bmrt_last_error(void) { return npurt::last_error(); }

bool bmrt_last_launch_cycles(void *p_bmrt, uint64_t *cycles) {
  return guarded("bmrt_last_launch_cycles",
                 [&]() -> Reason { return p_bmrt && cycles ? runtime(p_bmrt)->last_cycles(cycles) : "null pointer"; });
}

bool bmrt_set_max_launches(void *p_bmrt, int count) {
  return guarded("bmrt_set_max_launches", [&]() -> Reason {
    if (!p_bmrt) return "null pointer";
    if (count < 1) return std::to_string(count) + " launches, at least 1 is needed";
    runtime(p_bmrt)->set_max_launches(count);
    return {};
  });
}
