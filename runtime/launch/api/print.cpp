// SPDX-License-Identifier: MIT
#include "runtime/launch/api/print.h"

#include <algorithm>
#include <cstdio>

namespace npurt {

namespace {

void print_tensor(const char *what, int i, const char *name, bm_data_type_t dtype, const bm_shape_t &shape, float scale,
                  int zero_point) {
  std::printf("  %s %d '%s' %s [", what, i, name, npu::bmodel::dtype_name(static_cast<uint32_t>(dtype)));
  for (int d = 0; d < shape.num_dims; ++d) std::printf("%s%d", d ? ", " : "", shape.dims[d]);
  std::printf("] scale %g zero_point %d\n", static_cast<double>(scale), zero_point);
}

/// Of tensors whose batches share words.
void print_modes(const char *what, const std::vector<TensorInfo> &tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].mode != BM_STORE_1N)
      std::printf("  %s %zu '%s' is stored as %s\n", what, i, tensors[i].name.c_str(),
                  npu::bmodel::store_mode_name(tensors[i].mode).c_str());
}

void print_plan(const Plan &plan) {
  static constexpr const char *kModes[] = {"NPU", "CPU", "merge", "switch", "transfer"};
  const auto id = [&plan](int node) { return node == Plan::kEnd ? -1 : plan.nodes[static_cast<size_t>(node)].id; };
  for (const Plan::Node &node : plan.nodes) {
    const bool is_switch = node.kind == Plan::Kind::kSwitch;
    std::printf("  sub-network %d: %s%s%s, %zu inputs, %zu outputs, next %d", node.id,
                kModes[static_cast<size_t>(node.kind)], node.op ? " " : "",
                node.op ? npu::cpu::cpu_operator_name(node.op) : "", node.inputs.size(), node.outputs.size(),
                id(node.next));
    if (node.device) std::printf(", device %u", node.device);
    if (is_switch) std::printf(" or %d", id(node.if_true));
    std::printf("\n");
  }
}

}  // namespace

void print_network_info(const bm_net_info_t &info) {
  std::printf("network '%s': %s, %d stage%s, %d core%s, addr_mode %d\n", info.name,
              info.is_dynamic ? "dynamic" : "static", info.stage_num, info.stage_num == 1 ? "" : "s", info.core_num,
              info.core_num == 1 ? "" : "s", info.addr_mode);
  for (int s = 0; s < info.stage_num; ++s) {
    std::printf(" stage %d\n", s);
    for (int i = 0; i < info.input_num; ++i)
      print_tensor("input", i, info.input_names[i], info.input_dtypes[i], info.stages[s].input_shapes[i],
                   info.input_scales[i], info.input_zero_point[i]);
    for (int i = 0; i < info.output_num; ++i)
      print_tensor("output", i, info.output_names[i], info.output_dtypes[i], info.stages[s].output_shapes[i],
                   info.output_scales[i], info.output_zero_point[i]);
  }
}

void print_trace(const Runtime &runtime) {
  for (const Network *n : runtime.networks()) {
    print_network_info(*n->info());
    for (size_t s = 0; s < n->stages().size(); ++s) {
      const Stage &stage = *n->stages()[s];
      const Plan::Totals total = stage.plan.totals();
      std::printf(
          " stage %zu: %llu TIU and %llu GDMA commands, %llu bytes of local memory, %llu modelled cycles predicted\n",
          s, static_cast<unsigned long long>(total.tiu_count), static_cast<unsigned long long>(total.gdma_count),
          static_cast<unsigned long long>(total.lmem_bytes), static_cast<unsigned long long>(total.predicted_cycles));
      std::printf("  coefficients %llu bytes, code %llu bytes, input and output memory %llu bytes\n",
                  static_cast<unsigned long long>(total.coeff_bytes), static_cast<unsigned long long>(total.code_bytes),
                  static_cast<unsigned long long>(stage.io_bytes));
      print_modes("input", stage.inputs);
      print_modes("output", stage.outputs);
      if (!stage.plan.only_program()) print_plan(stage.plan);
    }
  }
}

}  // namespace npurt
