// SPDX-License-Identifier: MIT
// A loaded network: its stages with code and coefficients on the card, and the facts that programs ask for.
#ifndef NPURT_NETWORK_H
#define NPURT_NETWORK_H

#include <memory>
#include <string>
#include <vector>

#include "bmruntime_interface.h"
#include "container.h"
#include "error.h"
#include "handles.h"
#include "pool.h"
#include "sealed.h"

namespace npurt {

/// "float32" and so on; "unknown" for other numbers.
const char *dtype_name(bm_data_type_t dtype);

struct TensorInfo {
  std::string name;
  bm_data_type_t dtype;
  bm_shape_t shape;
  uint64_t bytes;
  float scale;
  int zero_point;
};

/// One set of shapes. Constant after loading, except the pool.
struct Stage {
  std::vector<TensorInfo> inputs, outputs;
  std::vector<npu_program_region> regions;
  std::vector<npu_program_alias> aliases;
  std::vector<std::string> layers;
  uint64_t lmem_bytes = 0;
  uint64_t predicted_cycles = 0;
  uint32_t tiu_count = 0, gdma_count = 0;  ///< of all cores
  std::vector<drm_npu_stream> streams;     ///< one a core, with places in `code`; the regions are not filled in
  uint64_t copy_offset = 0;                ///< of one COPY command an output in `code`: staged output to its memory
  Sealed code, coeff;                      ///< shared with whoever has the same
  Bo io;                                   ///< the memory behind stages[].input_mems and output_mems
  std::vector<uint64_t> input_address, output_address;  ///< device addresses inside `io`
  std::unique_ptr<Pool> pool;
};

class Network {
 public:
  /// Reads, checks and uploads one network of a container.
  static Reason load(npu_device *device, const npu::bmodel::Container &container, const npu::bmodel::fb::Net &net,
                     std::unique_ptr<Network> &out);

  const std::string &name() const { return name_; }
  const bm_net_info_t *info() const { return &info_; }
  const std::vector<std::unique_ptr<Stage>> &stages() const { return stages_; }
  /// Index of the stage for these shapes, or -1.
  int find_stage(const bm_shape_t *shapes, int count) const;

 private:
  void fill_info();

  std::string name_;
  int32_t addr_mode_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
  bm_net_info_t info_{};
  // storage behind info_
  std::vector<const char *> names_[2];
  std::vector<bm_data_type_t> dtypes_[2];
  std::vector<float> scales_[2];
  std::vector<int> zero_points_[2], loc_devices_[2];
  std::vector<size_t> max_bytes_[2];
  std::vector<bm_stage_info_t> stage_infos_;
  struct StageArrays {
    std::vector<bm_shape_t> shapes[2];
    std::vector<bm_device_mem_t> mems[2];
  };
  std::vector<StageArrays> stage_arrays_;
};

}  // namespace npurt

#endif  // NPURT_NETWORK_H
