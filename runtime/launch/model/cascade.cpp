// SPDX-License-Identifier: MIT
#include "runtime/launch/model/cascade.h"

#include <algorithm>
#include <map>

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;
using npu::bmodel::Program;

namespace {

class Builder {
 public:
  Builder(std::span<const Card> cards, const std::string &who, const Container &container, unsigned index, Stage &stage)
      : cards_(cards), who_(who), container_(container), index_(index), stage_(stage), context_(cards.size()) {}

  Status build(Nets steps) {
    std::stable_sort(steps.begin(), steps.end(),
                     [](const fb::Net *a, const fb::Net *b) { return step(*a) < step(*b); });
    no_user_memory_.file = container_.file();
    for (size_t first = 0; first < steps.size();) {
      size_t end = first;
      while (end < steps.size() && step(*steps[end]) == step(*steps[first])) ++end;
      NPU_TRY(add_step({steps.begin() + static_cast<std::ptrdiff_t>(first), end - first}));
      first = end;
    }
    NPU_TRY(number_tensors());
    finish();
    return {};
  }

 private:
  static constexpr uint32_t kNone = ~0u;

  /// A tensor of the whole, by its name.
  struct Tensor {
    std::vector<uint32_t> slots;  // on each card, or kNone
    uint32_t home = kNone;        // slot where it is written, or given by the program
    int64_t written = -1;         // step; -1: an input
    bool hidden = false;
    int32_t index = 0;  // among inputs or outputs
  };

  static uint32_t step(const fb::Net &net) { return net.cascade()->step(); }
  unsigned device(const fb::Net &net) const { return net.cascade()->device_id(); }

  std::string step_name(const fb::Net &net) const {
    return who_ + ", step " + std::to_string(step(net)) + " ('" + net.name()->str() + "')";
  }

  /// Networks of one step: first what they need from other cards, then all of them, which run side by side.
  Status add_step(std::span<const fb::Net *const> nets) {
    std::vector<Plan::Node> nodes;
    for (const fb::Net *net : nets) NPU_TRY(add_net(*net, nodes.emplace_back()).within(step_name(*net)));
    for (size_t i = 0; i < nets.size(); ++i) NPU_TRY(add_outputs(*nets[i], nodes[i]).within(step_name(*nets[i])));
    for (Plan::Node &node : nodes) plan().nodes.push_back(std::move(node));
    return {};
  }

  Status add_net(const fb::Net &net, Plan::Node &node) {
    const fb::NetParameter &p = *net.parameter()->Get(index_);
    if (device(net) >= cards_.size())
      return Status::error("it is for device " + std::to_string(device(net)) + ", the runtime has " +
                           std::to_string(cards_.size()) + " (bmrt_create_ex)");
    NPU_TRY(npu::bmodel::check_supported(container_, net, p));
    if (npu::bmodel::has_flow(p)) return Status::error("a step of several sub-networks: not supported");
    Program program;
    NPU_TRY(npu::bmodel::read_program(container_, net, p, program));
    node.kind = Plan::Kind::kNpu;
    node.id = static_cast<int32_t>(step(net));
    node.device = device(net);
    node.unit.inputs = read_tensors(*p.input_tensor());
    node.unit.outputs = read_tensors(*p.output_tensor());
    const auto coeff = p.coeff_mem() ? container_.binary(p.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
    NPU_TRY(upload_unit(cards_[node.device].device, "it", program, coeff, no_user_memory_, node.unit));
    context_[node.device] = std::max(context_[node.device], p.ctx_size());
    for (unsigned i = 0; i < p.input_tensor()->size(); ++i)
      NPU_TRY(add_input(*p.input_tensor()->Get(i), node.unit.inputs[i], node));
    return {};
  }

  Status add_input(const fb::Tensor &t, const TensorInfo &info, Plan::Node &node) {
    const auto [at, is_new] = tensors_.try_emplace(info.name);
    Tensor &tensor = at->second;
    if (is_new) {
      if (t.hidden()) return Status::error("it reads '" + info.name + "', which no step before it writes");
      tensor.slots.assign(cards_.size(), kNone);
      tensor.index = t.index();
      tensor.home = add_slot(tensor, info, node.device);
      order_.push_back(&tensor);
    }
    const TensorInfo &known = plan().slots[tensor.home].info;
    if (known.dtype != info.dtype || !bmrt_shape_is_same(&known.shape, &info.shape))
      return Status::error("tensor '" + info.name + "' has another type or shape than elsewhere");
    if (known.mode != info.mode)
      return Status::error("tensor '" + info.name + "' has another store mode than elsewhere");
    if (tensor.slots[node.device] == kNone) add_transfer(tensor, node.device);
    node.inputs.push_back(tensor.slots[node.device]);
    return {};
  }

  Status add_outputs(const fb::Net &net, Plan::Node &node) {
    const auto &list = *net.parameter()->Get(index_)->output_tensor();
    for (unsigned i = 0; i < list.size(); ++i) {
      const TensorInfo &info = node.unit.outputs[i];
      const auto [at, is_new] = tensors_.try_emplace(info.name);
      if (!is_new)
        return Status::error(
            "it writes '" + info.name +
            (at->second.written < 0 ? "', an input of the network" : "', which another step writes, too"));
      Tensor &tensor = at->second;
      tensor.slots.assign(cards_.size(), kNone);
      tensor.written = step(net);
      tensor.hidden = list.Get(i)->hidden() != 0;
      tensor.index = list.Get(i)->index();
      tensor.home = add_slot(tensor, info, node.device);
      node.outputs.push_back(tensor.home);
      order_.push_back(&tensor);
    }
    return {};
  }

  uint32_t add_slot(Tensor &tensor, const TensorInfo &info, unsigned device) {
    const auto slot = static_cast<uint32_t>(plan().slots.size());
    plan().slots.push_back({info, -1, -1, 0, device});
    return tensor.slots[device] = slot;
  }

  void add_transfer(Tensor &tensor, unsigned device) {
    Plan::Node node;
    node.kind = Plan::Kind::kTransfer;
    node.device = device;
    node.inputs = {tensor.home};
    node.outputs = {add_slot(tensor, TensorInfo(plan().slots[tensor.home].info), device)};
    plan().nodes.push_back(std::move(node));
  }

  /// Inputs and outputs of the whole, in the order of their index.
  Status number_tensors() {
    std::stable_sort(order_.begin(), order_.end(),
                     [](const Tensor *a, const Tensor *b) { return a->index < b->index; });
    for (const Tensor *t : order_) {
      if (t->hidden) continue;
      Plan::Slot &slot = plan().slots[t->home];
      const bool input = t->written < 0;
      auto &infos = input ? stage_.inputs : stage_.outputs;
      (input ? slot.input : slot.output) = static_cast<int>(infos.size());
      infos.push_back(slot.info);
      (input ? stage_.input_device : stage_.output_device).push_back(slot.device);
    }
    return stage_.outputs.empty() ? Status::error(who_ + ": it has no output, all tensors are hidden") : Status();
  }

  void finish() {
    for (size_t n = 0; n + 1 < plan().nodes.size(); ++n) plan().nodes[n].next = static_cast<int>(n + 1);
    plan().scratch_bytes = context_;
    for (uint64_t &bytes : plan().scratch_bytes) bytes = npu::bmodel::tensor_room(bytes);
    for (Plan::Slot &slot : plan().slots) {
      if (slot.input >= 0 || slot.output >= 0) continue;
      uint64_t &end = plan().scratch_bytes[slot.device];
      slot.offset = end;
      end += npu::bmodel::tensor_room(slot.info.bytes);
    }
    plan().waits = true;
  }

  Plan &plan() { return stage_.plan; }

  std::span<const Card> cards_;
  const std::string &who_;
  const Container &container_;
  const unsigned index_;
  Stage &stage_;
  UserMemory no_user_memory_;      // but the model's file
  std::vector<uint64_t> context_;  // activation memory on each card
  std::map<std::string, Tensor> tensors_;
  std::vector<Tensor *> order_;  // as they come
};

}  // namespace

Status load_cascade(std::span<const Card> cards, const std::string &who, const Container &container, const Nets &steps,
                    unsigned index, Stage &stage) {
  return Builder(cards, who, container, index, stage).build(steps);
}

}  // namespace npurt
