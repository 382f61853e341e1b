// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/launch_check.h"

#include <bit>

namespace npurt {

namespace {

const char *dtype_name(bm_data_type_t dtype) { return npu::bmodel::dtype_name(static_cast<uint32_t>(dtype)); }

}  // namespace

std::string tensor_name(const Network &net, const char *what, size_t i, const TensorInfo &t) {
  return "network '" + net.name() + "' " + what + " " + std::to_string(i) + " ('" + t.name + "')";
}

Status tensor_error(const Network &net, const char *what, size_t i, const TensorInfo &t, const std::string &text) {
  return Status::error(tensor_name(net, what, i, t) + ": " + text);
}

void LaunchTensors::set(const std::vector<TensorInfo> &stage, int rows, std::span<const bm_tensor_t> tensors,
                        bool modes) {
  stage_ = &stage;
  changed_ = rows ? with_rows(stage, rows) : std::vector<TensorInfo>();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bm_store_mode_t mode = modes ? tensors[i].st_mode : BM_STORE_1N;
    if ((*this)[i].mode == mode) continue;
    if (changed_.empty()) changed_ = stage;
    store_as(mode, changed_[i]);
  }
}

Status check_counts(const Network &net, size_t inputs, size_t outputs) {
  const bm_net_info_t &info = *net.info();
  if (inputs == static_cast<size_t>(info.input_num) && outputs == static_cast<size_t>(info.output_num)) return {};
  return Status::error("network '" + net.name() + "' has " + std::to_string(info.input_num) + " inputs and " +
                       std::to_string(info.output_num) + " outputs, the launch has " + std::to_string(inputs) +
                       " and " + std::to_string(outputs));
}

Status check_inputs(const Network &net, std::span<const bm_tensor_t> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo &t = net.stages()[0]->inputs[i];
    if (inputs[i].dtype != t.dtype)
      return tensor_error(net, "input", i, t,
                          std::string("type ") + dtype_name(inputs[i].dtype) + ", expected " + dtype_name(t.dtype));
    if (!npu::bmodel::store_lanes(inputs[i].st_mode, t.dtype))
      return tensor_error(net, "input", i, t, npu::bmodel::store_mode_error(inputs[i].st_mode, t.dtype));
    if (inputs[i].shape.num_dims < 0 || inputs[i].shape.num_dims > BM_MAX_DIMS_NUM)
      return tensor_error(net, "input", i, t,
                          std::to_string(inputs[i].shape.num_dims) + " dims, at most 8 are possible");
  }
  return {};
}

Status check_store_modes(const Network &net, std::span<const bm_tensor_t> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo &t = net.stages()[0]->outputs[i];
    if (!npu::bmodel::store_lanes(outputs[i].st_mode, t.dtype))
      return tensor_error(net, "output", i, t, npu::bmodel::store_mode_error(outputs[i].st_mode, t.dtype));
  }
  return {};
}

Status check_batches(const Network &net, const std::vector<TensorInfo> &infos, std::span<const bm_tensor_t> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t batch = batch_of(inputs[i].shape), expected = batch_of(infos[i].shape);
    if (inputs[i].st_mode != BM_STORE_1N && batch != expected)
      return tensor_error(net, "input", i, infos[i],
                          "a batch of " + std::to_string(batch) + " in " +
                              npu::bmodel::store_mode_name(inputs[i].st_mode) + ", expected " +
                              std::to_string(expected));
  }
  return {};
}

Status choose_stage(const Network &net, const std::vector<bm_shape_t> &shapes, std::shared_ptr<const Stage> &stage) {
  const int index = net.find_stage(shapes.data());
  if (index >= 0) {
    stage = net.stages()[static_cast<size_t>(index)];
    if (!net.variants() || stage->has_shapes(shapes.data())) return {};
    return net.variants()->find(shapes, stage);
  }
  return no_stage(net, shapes);
}

Status no_stage(const Network &net, const std::vector<bm_shape_t> &shapes) {
  std::string text = "network '" + net.name() + "': no stage has the input shapes";
  for (const bm_shape_t &s : shapes) text += " " + shape_text(s);
  text += "; expected";
  for (size_t s = 0; s < net.stages().size(); ++s) {
    if (s) text += " or";
    for (const TensorInfo &t : net.stages()[s]->inputs) text += " " + shape_text(t.shape);
  }
  if (net.variants()) return Status::error(text + " or smaller ones");
  return Status::error(net.stages()[0]->dynamic ? text + " or a smaller batch (dimension 0)" : text);
}

Status choose_cores(const Network &net, std::span<const int> list, uint32_t cores_of_card, uint32_t &mask) {
  mask = 0;
  for (const int core : list) {
    if (core < 0 || static_cast<uint32_t>(core) >= cores_of_card)
      return Status::error("core " + std::to_string(core) + " does not exist: the card has cores 0 to " +
                           std::to_string(cores_of_card - 1));
    if (std::popcount(mask) < net.info()->core_num) mask |= 1u << core;
  }
  // A list that is too short is filled up from below.
  for (uint32_t core = 0; mask && core < cores_of_card && std::popcount(mask) < net.info()->core_num; ++core)
    mask |= 1u << core;
  return {};
}

}  // namespace npurt
