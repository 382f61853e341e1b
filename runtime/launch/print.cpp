// SPDX-License-Identifier: MIT
#include "print.h"

#include <cstdio>

namespace npurt {

namespace {

void print_tensor(const char *what, int i, const char *name, bm_data_type_t dtype, const bm_shape_t &shape, float scale,
                  int zero_point) {
  std::printf("  %s %d '%s' %s [", what, i, name, dtype_name(dtype));
  for (int d = 0; d < shape.num_dims; ++d) std::printf("%s%d", d ? ", " : "", shape.dims[d]);
  std::printf("] scale %g zero_point %d\n", static_cast<double>(scale), zero_point);
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
      std::printf(
          " stage %zu: %u TIU and %u GDMA commands, %llu bytes of local memory, %llu modelled cycles predicted\n", s,
          stage.tiu_count, stage.gdma_count, static_cast<unsigned long long>(stage.lmem_bytes),
          static_cast<unsigned long long>(stage.predicted_cycles));
      std::printf("  coefficients %llu bytes, code %llu bytes, input and output memory %llu bytes\n",
                  static_cast<unsigned long long>(stage.coeff ? npu_bo_size(stage.coeff.get()) : 0),
                  static_cast<unsigned long long>(npu_bo_size(stage.code.get())),
                  static_cast<unsigned long long>(npu_bo_size(stage.io.get())));
    }
  }
}

}  // namespace npurt
