// SPDX-License-Identifier: MIT
// The C API: runtimes, networks, errors. The work is done by Runtime.
#include <cstdio>
#include <cstdlib>

#include "runtime/launch/api/guard.h"
#include "runtime/launch/api/print.h"
#include "runtime/launch/exec/launch_check.h"

using npurt::guarded;
using npurt::Network;
using npurt::Runtime;
using npurt::Status;

void *bmrt_create(bm_handle_t bm_handle) {
  std::unique_ptr<Runtime> out;
  guarded("bmrt_create", [&] { return Runtime::create({&bm_handle, 1}, out); });
  return out.release();
}

void *bmrt_create_ex(bm_handle_t *bm_handles, int num_handles) {
  std::unique_ptr<Runtime> out;
  guarded("bmrt_create_ex", [&]() -> Status {
    if (!bm_handles) return Status::error("null pointer instead of handles");
    if (num_handles < 1 || num_handles > Runtime::kMaxDevices)
      return Status::error(std::to_string(num_handles) + " handles, 1 to " + std::to_string(Runtime::kMaxDevices) +
                           " are possible");
    return Runtime::create({bm_handles, static_cast<size_t>(num_handles)}, out);
  });
  return out.release();
}

void bmrt_destroy(void *p_bmrt) {
  // In a child process the end of its parent's runtimes is the parent's.
  if (p_bmrt && !Runtime::destroy(p_bmrt) && !Runtime::forked())
    (void)npurt::report(__func__, npurt::no_runtime(p_bmrt));
}

void bmrt_destroy_without_coeff(void *p_bmrt) { bmrt_destroy(p_bmrt); }

void *bmrt_get_bm_handle(void *p_bmrt) {
  bm_handle_t handle = nullptr;
  guarded("bmrt_get_bm_handle", p_bmrt, [&](Runtime &r) -> Status {
    handle = r.handle();
    return {};
  });
  return handle;
}

void bmrt_set_flags(void *p_bmrt, uint32_t flags) {
  guarded("bmrt_set_flags", p_bmrt, [&](Runtime &r) -> Status {
    r.flags = flags;
    return {};
  });
}

uint32_t bmrt_get_flags(void *p_bmrt) {
  uint32_t flags = 0;
  guarded("bmrt_get_flags", p_bmrt, [&](Runtime &r) -> Status {
    flags = r.flags;
    return {};
  });
  return flags;
}

// ---- networks ----

void bmrt_show_neuron_network(void *p_bmrt) {
  guarded("bmrt_show_neuron_network", p_bmrt, [](Runtime &r) -> Status {
    for (const Network *n : r.networks()) std::printf("%s\n", n->name().c_str());
    return {};
  });
}

int bmrt_get_network_number(void *p_bmrt) {
  int number = 0;
  guarded("bmrt_get_network_number", p_bmrt, [&](Runtime &r) -> Status {
    number = static_cast<int>(r.networks().size());
    return {};
  });
  return number;
}

void bmrt_get_network_names(void *p_bmrt, const char ***network_names) {
  if (network_names) *network_names = nullptr;
  guarded("bmrt_get_network_names", p_bmrt, [&](Runtime &r) -> Status {
    if (!network_names) return Status::error("null pointer instead of a place for the names");
    const auto networks = r.networks();
    auto **names = static_cast<const char **>(std::calloc(networks.empty() ? 1 : networks.size(), sizeof(char *)));
    if (!names) return Status::error("out of system memory");
    for (size_t i = 0; i < networks.size(); ++i) names[i] = networks[i]->name().c_str();
    *network_names = names;
    return {};
  });
}

int bmrt_get_network_index(void *p_bmrt, const char *net_name) {
  int index = -1;
  guarded("bmrt_get_network_index", p_bmrt, [&](Runtime &r) -> Status {
    const Network *net;
    NPU_TRY(r.find(net_name, net));
    const auto networks = r.networks();
    for (size_t i = 0; i < networks.size(); ++i)
      if (networks[i] == net) index = static_cast<int>(i);
    return {};
  });
  return index;
}

const char *bmrt_get_network_name(void *p_bmrt, int index) {
  const char *name = nullptr;
  guarded("bmrt_get_network_name", p_bmrt, [&](Runtime &r) -> Status {
    const auto networks = r.networks();
    if (index < 0 || static_cast<size_t>(index) >= networks.size())
      return Status::error("network number " + std::to_string(index) + " of " + std::to_string(networks.size()));
    name = networks[static_cast<size_t>(index)]->name().c_str();
    return {};
  });
  return name;
}

const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name) {
  const bm_net_info_t *info = nullptr;
  guarded("bmrt_get_network_info", p_bmrt, [&](Runtime &r) -> Status {
    const Network *net;
    NPU_TRY(r.find(net_name, net));
    info = net->info();
    return {};
  });
  return info;
}

int bmrt_get_stage_size(void *p_bmrt, const char *net_name) {
  int number = -1;
  guarded("bmrt_get_stage_size", p_bmrt, [&](Runtime &r) -> Status {
    const Network *net;
    NPU_TRY(r.find(net_name, net));
    number = net->info()->stage_num;
    return {};
  });
  return number;
}

int bmrt_get_stage_index(void *p_bmrt, const char *net_name, bm_tensor_t *input_tensors) {
  int index = -1;
  guarded("bmrt_get_stage_index", p_bmrt, [&](Runtime &r) -> Status {
    if (!input_tensors) return Status::error("null pointer instead of tensors");
    const Network *net;
    NPU_TRY(r.find(net_name, net));
    std::vector<bm_shape_t> shapes;
    for (int i = 0; i < net->info()->input_num; ++i) shapes.push_back(input_tensors[i].shape);
    index = net->find_stage(shapes.data());
    return index >= 0 ? Status() : npurt::no_stage(*net, shapes);
  });
  return index;
}

void bmrt_print_network_info(const bm_net_info_t *net_info) {
  guarded("bmrt_print_network_info", [&]() -> Status {
    if (!net_info) return Status::error("null pointer instead of a network's information");
    npurt::print_network_info(*net_info);
    return {};
  });
}

void bmrt_trace(void *p_bmrt) {
  guarded("bmrt_trace", p_bmrt, [](Runtime &r) -> Status {
    npurt::print_trace(r);
    return {};
  });
}

// ---- errors and facts ----

const char *bmrt_last_error(void) { return npurt::last_error(); }

void bmrt_set_error_callback(bmrt_error_fn fn, void *arg) { npurt::set_error_callback(fn, arg); }

bool bmrt_last_launch_cycles(void *p_bmrt, uint64_t *cycles) {
  return guarded("bmrt_last_launch_cycles", p_bmrt, [&](Runtime &r) -> Status {
    return cycles ? r.last_cycles(cycles) : Status::error("null pointer instead of a place for the cycles");
  });
}
