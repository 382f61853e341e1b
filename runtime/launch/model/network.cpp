// SPDX-License-Identifier: MIT
#include "runtime/launch/model/network.h"

#include <algorithm>
#include <cerrno>

#include "runtime/launch/model/cascade.h"
#include "runtime/launch/model/io_memory.h"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;
using npu::bmodel::Program;

namespace {

std::span<const uint8_t> coefficients(const Container &container, const fb::NetParameter &p) {
  return p.coeff_mem() ? container.binary(p.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
}

/// A stage of one program.
Status load_program(npu_device *device, const Container &container, const fb::Net &net, const fb::NetParameter &p,
                    UserMemory &user, Stage &stage) {
  const std::string who = container.name() + ": network '" + net.name()->str() + "'";
  Program program;
  NPU_TRY(npu::bmodel::read_program(container, net, p, program));
  Unit unit;
  unit.inputs = read_tensors(*p.input_tensor());
  unit.outputs = read_tensors(*p.output_tensor());
  NPU_TRY(upload_unit(device, who, program, coefficients(container, p), user, unit));
  stage.plan = Plan::of_program(std::move(unit), p.ctx_size());
  return {};
}

/// A stage of one program, or of sub-networks. The container can be one of this chip's runtime.
Status load_tensors_and_plan(const Card &card, const std::string &who, const Container &container, const fb::Net &net,
                             const fb::NetParameter &p, UserMemory &user, Stage &stage) {
  NPU_TRY(npu::bmodel::has_flow(p) ? Plan::load(card.device, who, container, p, user, stage.plan)
                                   : load_program(card.device, container, net, p, user, stage));
  stage.inputs = read_tensors(*p.input_tensor());
  stage.outputs = read_tensors(*p.output_tensor());
  return {};
}

/// Memory of the launches of a stage with a plan.
void make_pools(std::span<const Card> cards, Stage &stage) {
  for (size_t c = 0; c < stage.plan.scratch_bytes.size(); ++c)
    stage.pools.push_back(std::make_unique<Pool>(cards[c].device, stage.plan.scratch_bytes[c], stage.outputs.size()));
}

Status load_stage(std::span<const Card> cards, const Container &container, const std::string &name, const Nets &nets,
                  unsigned index, UserMemory &user, Stage &stage) {
  const fb::Net &net = *nets[0];
  const fb::NetParameter &p = *net.parameter()->Get(index);
  const std::string who = container.name() + ": network '" + name + "' stage " + std::to_string(index);
  if (npu::bmodel::is_step(net)) {
    NPU_TRY(load_cascade(cards, who, container, nets, index, stage));
  } else {
    NPU_TRY(npu::bmodel::check_supported(container, net, p));
    NPU_TRY(load_tensors_and_plan(cards[0], who, container, net, p, user, stage));
  }
  make_pools(cards, stage);
  NPU_TRY(allocate_io(cards, net.addr_mode() == ADDR_MODE_BASIC, user.io, stage));
  stage.pools[0]->use_shared(user.activations);
  return {};
}

/// What varies is the batch, which all tensors of a dynamic stage have.
Status check_batch(const Stage &stage) {
  for (const auto *list : {&stage.inputs, &stage.outputs})
    for (const TensorInfo &t : *list)
      if (t.shape.num_dims == 0 || t.shape.dims[0] != stage.inputs[0].shape.dims[0])
        return Status::error("dynamic, but tensor '" + t.name + "' has another dimension 0 than input '" +
                             stage.inputs[0].name + "'");
  return {};
}

}  // namespace

Status load_stage_alone(const Card &card, const Container &container, Stage &stage) {
  const auto *nets = container.model().net();
  if (!nets || nets->size() != 1 || !nets->Get(0)->parameter() || nets->Get(0)->parameter()->size() != 1)
    return Status::error(container.name() + ": not one network of one stage");
  const fb::Net &net = *nets->Get(0);
  UserMemory nothing;
  const fb::NetParameter &p = *net.parameter()->Get(0);
  const std::string who = container.name() + ": network '" + net.name()->str() + "'";
  NPU_TRY(npu::bmodel::check_supported(container, net, p));
  NPU_TRY(load_tensors_and_plan(card, who, container, net, p, nothing, stage));
  make_pools({&card, 1}, stage);
  stage.input_device.resize(stage.inputs.size());
  stage.output_device.resize(stage.outputs.size());
  return {};
}

int Stage::rows(const bm_shape_t *shapes) const { return dynamic ? shapes[0].dims[0] : 0; }

/// Of a dynamic stage: as the tensors are, but for a batch that is not larger.
bool Stage::fits(const bm_shape_t *shapes) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    bm_shape_t most = inputs[i].shape;
    const int batch = shapes[i].num_dims == most.num_dims ? shapes[i].dims[0] : 0;
    if (batch < 1 || batch > most.dims[0] || batch != shapes[0].dims[0]) return false;
    most.dims[0] = batch;
    if (!bmrt_shape_is_same(&most, &shapes[i])) return false;
  }
  return true;
}

bool Stage::has_shapes(const bm_shape_t *shapes) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!bmrt_shape_is_same(&inputs[i].shape, &shapes[i])) return false;
  return true;
}

bool Stage::holds(const bm_shape_t *shapes) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bm_shape_t &most = inputs[i].shape;
    if (shapes[i].num_dims != most.num_dims) return false;
    for (int d = 0; d < most.num_dims; ++d)
      if (shapes[i].dims[d] < 1 || shapes[i].dims[d] > most.dims[d]) return false;
  }
  return true;
}

Status Stage::with_needs(const Status &status) const {
  if (status.code() != -ENOSPC && status.code() != -ENOMEM) return status;
  const Plan::Totals totals = plan.totals();
  const uint64_t most = *std::max_element(plan.scratch_bytes.begin(), plan.scratch_bytes.end());
  uint64_t tensors = 0;
  for (const auto *list : {&inputs, &outputs})
    for (const TensorInfo &t : *list) tensors += t.bytes;
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
  return Status::error(status.code(), status.message() + "; a launch needs " +
                                          mib(totals.code_bytes + totals.coeff_bytes + most + tensors) +
                                          " (activations " + mib(most) + ", coefficients " + mib(totals.coeff_bytes) +
                                          ", commands " + mib(totals.code_bytes) + ", inputs and outputs " +
                                          mib(tensors) + ")");
}

Status Network::load(std::span<const Card> cards, const Container &container, const std::string &name, const Nets &nets,
                     UserMemory &user, std::unique_ptr<Network> &out) {
  auto n = std::make_unique<Network>();
  n->name_ = name;
  n->addr_mode_ = nets[0]->addr_mode();
  const unsigned stages = nets[0]->parameter() ? nets[0]->parameter()->size() : 0;
  if (stages == 0) return Status::error(container.name() + ": network '" + n->name_ + "' has no stage");
  for (const fb::Net *net : nets)
    if (!net->parameter() || net->parameter()->size() != stages)
      return Status::error(container.name() + ": network '" + n->name_ +
                           "': its steps have different numbers of stages");
  for (unsigned i = 0; i < stages; ++i) {
    auto stage = std::make_shared<Stage>();
    NPU_TRY(load_stage(cards, container, name, nets, i, user, *stage));
    stage->dynamic = nets[0]->parameter()->Get(i)->is_dynamic() != 0 && !npu::bmodel::has_source(*nets[0]);
    const std::string where = container.name() + ": network '" + n->name_ + "'";
    if (stage->dynamic) NPU_TRY(check_batch(*stage).within(where));
    if (!n->stages_.empty() && stage->dynamic != n->stages_[0]->dynamic)
      return Status::error(where + ": some of its stages are dynamic and others are not");
    if (!n->stages_.empty() &&
        (!same_tensors(stage->inputs, n->stages_[0]->inputs) || !same_tensors(stage->outputs, n->stages_[0]->outputs)))
      return Status::error(container.name() + ": network '" + n->name_ +
                           "': its stages differ in the names or types of their tensors");
    n->stages_.push_back(std::move(stage));
  }
  if (npu::bmodel::has_source(*nets[0]))
    NPU_TRY(n->load_source(cards[0], container, *nets[0]).within(container.name() + ": network '" + n->name_ + "'"));
  n->fill_info();
  out = std::move(n);
  return {};
}

Status Network::load_source(const Card &card, const Container &container, const fb::Net &net) {
  std::span<const uint8_t> source;
  NPU_TRY(npu::bmodel::read_source(container, net, source));
  variants_ = std::make_unique<Variants>(card, name_, source, stages_[0]->inputs, stages_[0]->outputs);
  return {};
}

void Network::set_max_launches(int count) {
  if (variants_) variants_->set_max_launches(count);
  for (const auto &stage : stages_)
    for (const auto &pool : stage->pools) pool->set_limit(count);
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
        loc_devices_[dir].push_back(static_cast<int>((dir ? stage.output_device : stage.input_device)[i]));
      }
    }
  }
  for (StageArrays &a : stage_arrays_)
    stage_infos_.push_back({a.shapes[0].data(), a.shapes[1].data(), a.mems[0].data(), a.mems[1].data()});
  info_.name = name_.c_str();
  info_.is_dynamic = stages_[0]->dynamic || variants_;
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
  for (const auto &stage : stages_)
    info_.core_num = std::max(info_.core_num, static_cast<int>(stage->plan.totals().cores));
  info_.addr_mode = addr_mode_;
}

int Network::find_stage(const bm_shape_t *shapes) const {
  const auto size = [this](int i) { return bmrt_shape_count(&stages_[static_cast<size_t>(i)]->inputs[0].shape); };
  const bool fixed = !variants_ && !stages_[0]->dynamic;
  int smallest = -1;
  for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
    const Stage &stage = *stages_[static_cast<size_t>(s)];
    if (stage.has_shapes(shapes)) return s;
    if (fixed) continue;
    if ((variants_ ? stage.holds(shapes) : stage.fits(shapes)) && (smallest < 0 || size(s) < size(smallest)))
      smallest = s;
  }
  if (!fixed || stages_.size() > 1) return smallest;
  bool same_counts = true;
  for (size_t i = 0; i < stages_[0]->inputs.size(); ++i)
    same_counts = same_counts && bmrt_shape_count(&stages_[0]->inputs[i].shape) == bmrt_shape_count(&shapes[i]);
  return same_counts ? 0 : -1;
}

}  // namespace npurt
