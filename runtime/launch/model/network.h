// SPDX-License-Identifier: MIT
// A loaded network: its stages with code and coefficients on the card, and the facts that programs ask for.
#ifndef NPURT_NETWORK_H
#define NPURT_NETWORK_H

#include "runtime/launch/memory/handles.h"
#include "runtime/launch/memory/pool.h"
#include "runtime/launch/model/plan.h"
#include "runtime/launch/model/variants.h"

namespace npurt {

struct Card;

/// One set of shapes. Constant after loading, except the pools.
struct Stage {
  std::vector<TensorInfo> inputs, outputs;
  bool dynamic = false;  ///< the batch, dimension 0 of each tensor, may be less than the tensors say
  Plan plan;             ///< what it computes
  std::vector<unsigned> input_device, output_device;  ///< numbers of their cards
  std::vector<SharedBo> io;                           ///< behind stages[].input_mems and output_mems, on each card
  uint64_t io_bytes = 0;
  std::vector<uint64_t> input_address, output_address;  ///< device addresses inside `io`
  std::vector<std::unique_ptr<Pool>> pools;             ///< one a card

  /// The batch of a launch with these shapes, which fit.
  int rows(const bm_shape_t *shapes) const;
  bool fits(const bm_shape_t *shapes) const;
  /// Whether these are the shapes of its inputs.
  bool has_shapes(const bm_shape_t *shapes) const;
  /// Whether no dimension is larger.
  bool holds(const bm_shape_t *shapes) const;

  /// An error of memory that ran out also says what a launch needs on a card in all.
  Status with_needs(const Status &status) const;
};

/// Makes the only stage of a container's only network, on one card and without memory for its tensors.
Status load_stage_alone(const Card &card, const npu::bmodel::Container &container, Stage &stage);

class Network {
 public:
  /// Reads, checks and uploads one network of a container: a net, or the steps of a distributed one.
  static Status load(std::span<const Card> cards, const npu::bmodel::Container &container, const std::string &name,
                     const std::vector<const npu::bmodel::fb::Net *> &nets, UserMemory &user,
                     std::unique_ptr<Network> &out);

  const std::string &name() const { return name_; }
  const bm_net_info_t *info() const { return &info_; }
  const std::vector<std::shared_ptr<Stage>> &stages() const { return stages_; }
  /// Null unless launches may have other shapes than the stages'.
  Variants *variants() const { return variants_.get(); }
  /// How many launches of a stage may be in flight.
  void set_max_launches(int count);
  /// Index of the stage for these shapes, of a dynamic network of the smallest that they do not exceed, or -1.
  int find_stage(const bm_shape_t *shapes) const;

 private:
  Status load_source(const Card &card, const npu::bmodel::Container &container, const npu::bmodel::fb::Net &net);
  void fill_info();

  std::string name_;
  int32_t addr_mode_ = 0;
  std::vector<std::shared_ptr<Stage>> stages_;  // never null; shared with launches, as those of variants_ are
  std::unique_ptr<Variants> variants_;
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
