// SPDX-License-Identifier: MIT
#include "runtime/bmodel/flow.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/bmodel/builder.h"
#include "runtime/bmodel/text.h"

namespace npu::bmodel {

namespace {

uint64_t elements(const fb::Tensor &t) {
  uint64_t n = 1;
  for (const uint64_t d : *t.shape()->Get(0)->dim()) n *= d;
  return n;
}

bool same_kind(const fb::Tensor &a, const fb::Tensor &b) {
  return a.data_type() == b.data_type() && elements(a) == elements(b);
}

bool same_shape(const fb::Tensor &a, const fb::Tensor &b) {
  const auto &x = *a.shape()->Get(0)->dim(), &y = *b.shape()->Get(0)->dim();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

std::vector<std::string> names_of(const TensorList *list) {
  std::vector<std::string> out;
  for (const fb::Tensor *t : *list) out.push_back(t->name()->str());
  return out;
}

/// float32, int8, uint8, int32, uint32: what a condition may be.
bool is_condition(const fb::Tensor &t) {
  const uint32_t type = t.data_type();
  return (type == 0 || type == 2 || type == 3 || type == 6 || type == 7) && elements(t) == 1;
}

class Reader {
 public:
  Reader(const Container &container, const fb::NetParameter &stage, Flow &flow)
      : container_(container), stage_(stage), flow_(flow) {}

  Status read() {
    const unsigned subs = count(stage_.sub_net());
    if (subs > kMaxSubNets)
      return Status::error(number(subs) + " sub-networks, at most " + number(kMaxSubNets) + " are possible");
    if (stage_.ctx_size() > kMaxContext)
      return Status::error("it needs " + number(stage_.ctx_size()) + " bytes of activation memory");
    NPU_TRY(read_stage_tensors());
    NPU_TRY(read_ids());
    for (unsigned i = 0; i < subs; ++i) NPU_TRY(read_node(i).within(node_name(i)));
    NPU_TRY(check_outputs());
    return follow();
  }

 private:
  using Set = std::vector<bool>;                              // of tensors
  static constexpr uint64_t kMaxContext = uint64_t{1} << 48;  // an address space
  static constexpr uint32_t kNobody = ~0u;

  const fb::SubNet &sub(size_t i) const { return *stage_.sub_net()->Get(static_cast<unsigned>(i)); }
  std::string name(uint32_t tensor) const { return "'" + flow_.tensors[tensor].tensor->name()->str() + "'"; }

  std::string node_name(size_t node) const { return "sub-network " + std::to_string(flow_.nodes[node].id); }

  /// The tensor that sub-networks name so, made if it is new.
  Status find(const fb::Tensor &t, uint32_t &index) { return find(t, t.name()->str(), index); }
  Status find(const fb::Tensor &t, const std::string &name_in_subs, uint32_t &index) {
    const auto [at, is_new] = by_name_.try_emplace(name_in_subs, static_cast<uint32_t>(flow_.tensors.size()));
    index = at->second;
    if (is_new) {
      if (flow_.tensors.size() == kMaxFlowTensors)
        return Status::error("more than " + number(kMaxFlowTensors) + " tensors");
      flow_.tensors.push_back({&t});
      writer_.push_back(kNobody);
      return {};
    }
    const fb::Tensor &known = *flow_.tensors[index].tensor;
    if (!same_kind(known, t) || !same_shape(known, t))
      return Status::error("tensor " + name(index) + " has another type or shape than elsewhere");
    return known.gmem_stmode() == t.gmem_stmode()
               ? Status()
               : Status::error("tensor " + name(index) + " has another store mode than elsewhere");
  }

  Status read_stage_tensors() {
    NPU_TRY(check_tensors(stage_.input_tensor(), "input"));
    NPU_TRY(check_tensors(stage_.output_tensor(), "output"));
    uint32_t index;
    const std::vector<std::string> names =
        written_names(names_of(stage_.input_tensor()), names_of(stage_.output_tensor()));
    for (unsigned i = 0; i < count(stage_.input_tensor()); ++i) {
      NPU_TRY(find(*stage_.input_tensor()->Get(i), index));
      FlowTensor &t = flow_.tensors[index];
      if (t.input >= 0) return Status::error("two inputs are named " + name(index));
      t.input = static_cast<int>(i);
    }
    for (unsigned i = 0; i < count(stage_.output_tensor()); ++i) {
      NPU_TRY(find(*stage_.output_tensor()->Get(i), names[i], index));
      flow_.tensors[index].output = static_cast<int>(i);
    }
    return {};
  }

  /// A sub-network without an id has its place as id.
  Status read_ids() {
    flow_.nodes.resize(count(stage_.sub_net()));
    for (unsigned i = 0; i < flow_.nodes.size(); ++i) {
      const int32_t id = sub(i).id() == -1 ? static_cast<int32_t>(i) : sub(i).id();
      flow_.nodes[i].id = id;
      if (!by_id_.emplace(id, static_cast<int>(i)).second)
        return Status::error("two sub-networks have the id " + std::to_string(id));
    }
    return {};
  }

  Status read_node(unsigned i) {
    FlowNode &node = flow_.nodes[i];
    const fb::SubNet &s = sub(i);
    if (s.subnet_mode() < 0 || s.subnet_mode() > 3)
      return Status::error("mode " + std::to_string(s.subnet_mode()) +
                           ", expected 0 (NPU), 1 (CPU), 2 (merge) or 3 (switch)");
    node.mode = static_cast<SubNetMode>(s.subnet_mode());
    if (s.is_dynamic())
      return Status::error("compiled for any shape (dynamic): not supported in a network of several sub-networks");
    NPU_TRY(read_tensors(i));
    NPU_TRY(read_next(s, node));
    if (node.mode == SubNetMode::kCpu || node.mode == SubNetMode::kSwitch) NPU_TRY(check_plain(node));
    switch (node.mode) {
      case SubNetMode::kNpu:
        return read_sub_program(container_, stage_, s, node.program);
      case SubNetMode::kCpu:
        return read_cpu(s, node);
      case SubNetMode::kMerge:
        return read_merge(s, node);
      default:
        return read_switch(s, node);
    }
  }

  Status read_tensors(unsigned i) {
    FlowNode &node = flow_.nodes[i];
    const fb::SubNet &s = sub(i);
    NPU_TRY(check_tensors(s.input_tensor(), "input"));
    // A switch may only choose.
    const bool writes = node.mode != SubNetMode::kSwitch || count(s.output_tensor());
    if (writes) NPU_TRY(check_tensors(s.output_tensor(), "output"));
    for (unsigned k = 0; k < count(s.input_tensor()); ++k)
      NPU_TRY(find(*s.input_tensor()->Get(k), node.inputs.emplace_back()));
    for (unsigned k = 0; k < count(s.output_tensor()); ++k) {
      uint32_t &t = node.outputs.emplace_back();
      NPU_TRY(find(*s.output_tensor()->Get(k), t));
      if (flow_.tensors[t].input >= 0) return Status::error("it writes " + name(t) + ", an input of the network");
      if (writer_[t] != kNobody)
        return Status::error("it writes " + name(t) + ", which sub-network " +
                             std::to_string(flow_.nodes[writer_[t]].id) + " writes, too");
      writer_[t] = i;
    }
    return {};
  }

  /// What the CPU looks at is row-major.
  Status check_plain(const FlowNode &node) const {
    std::vector<uint32_t> seen = node.inputs;
    if (node.mode == SubNetMode::kSwitch) seen = {node.inputs.back()};
    if (node.mode == SubNetMode::kCpu) seen.insert(seen.end(), node.outputs.begin(), node.outputs.end());
    for (const uint32_t t : seen)
      if (const int32_t mode = flow_.tensors[t].tensor->gmem_stmode(); mode != kStore1N)
        return Status::error(name(t) + " has the store mode " + store_mode_name(mode) + ", the CPU takes " +
                             store_mode_name(kStore1N) + " only");
    return {};
  }

  Status read_next(const fb::SubNet &s, FlowNode &node) {
    const auto *ids = s.next_subnet_ids();
    const bool is_switch = node.mode == SubNetMode::kSwitch;
    if (is_switch ? count(ids) != 2 : count(ids) > 1)
      return Status::error(number(count(ids)) + " next sub-networks, expected " + (is_switch ? "2" : "at most 1"));
    for (unsigned k = 0; k < count(ids); ++k) {
      const int32_t id = ids->Get(k);
      const auto found = by_id_.find(id);
      if (found == by_id_.end() && (is_switch || id != -1))
        return Status::error("the next sub-network is " + std::to_string(id) + ", which does not exist");
      (k ? node.if_true : node.next) = found == by_id_.end() ? FlowNode::kEnd : found->second;
    }
    return {};
  }

  Status read_cpu(const fb::SubNet &s, FlowNode &node) {
    if (count(s.cpu_param()) != 1) return Status::error(number(count(s.cpu_param())) + " CPU operators, expected 1");
    const fb::CpuParam &p = *s.cpu_param()->Get(0);
    const auto bytes = container_.binary(p.binary_param());
    npu_cpu_param &param = node.param;
    node.op = p.op_type();
    const bool has_graph = node.op == NPU_CPU_GRAPH && bytes.size() > sizeof param;
    if (!has_graph && bytes.size() != sizeof param)
      return Status::error("the parameters of its CPU operator have " + number(bytes.size()) + " bytes, expected 64");
    std::memcpy(&param, bytes.data(), sizeof param);
    if (param.magic != NPU_CPU_PARAM_MAGIC)
      return Status::error("the parameters of its CPU operator are not for QNPU1");
    if (param.version != NPU_CPU_PARAM_VERSION || param.bytes != sizeof param)
      return Status::error("the parameters of its CPU operator have version " + number(param.version) + ", expected 1");
    for (const uint32_t r : param.reserved)
      if (r) return Status::error("reserved words of the parameters of its CPU operator are not zero");
    if (has_graph) node.graph = bytes.subspan(sizeof param);
    if (has_graph && param.count != node.graph.size())
      return Status::error("its graph has " + number(node.graph.size()) + " bytes, expected " + number(param.count));
    return {};
  }

  Status read_merge(const fb::SubNet &s, FlowNode &node) {
    const auto *from = s.merge_param() ? s.merge_param()->output_from() : nullptr;
    if (count(from) != node.outputs.size())
      return Status::error("a merge of " + number(node.outputs.size()) + " outputs has sources for " +
                           number(count(from)));
    for (unsigned k = 0; k < node.outputs.size(); ++k) {
      const auto *list = from->Get(k)->indice();
      if (!count(list)) return Status::error("its output " + name(node.outputs[k]) + " comes from nowhere");
      auto &sources = node.from.emplace_back();
      for (const int32_t index : *list) {
        NPU_TRY(add_source(node, k, index, node.inputs.size(), sources));
      }
    }
    return {};
  }

  Status read_switch(const fb::SubNet &s, FlowNode &node) {
    if (!is_condition(*flow_.tensors[node.inputs.back()].tensor))
      return Status::error("its condition " + name(node.inputs.back()) +
                           " (the last input) is not one element of float32, int8, uint8, int32 or uint32");
    const fb::SwitchParam *p = s.switch_param();
    const auto *from = p ? p->output_from() : nullptr, *branch = p ? p->output_branch() : nullptr;
    if (count(from) != node.outputs.size() || count(branch) != node.outputs.size())
      return Status::error("a switch of " + number(node.outputs.size()) + " outputs has sources for " +
                           number(count(from)) + " and branches for " + number(count(branch)));
    for (unsigned k = 0; k < node.outputs.size(); ++k) {
      NPU_TRY(add_source(node, k, from->Get(k), node.inputs.size(), node.from.emplace_back()));
      node.branch.push_back(branch->Get(k) != 0);
    }
    return {};
  }

  /// Output k may be a copy of input `index`.
  Status add_source(const FlowNode &node, unsigned k, int32_t index, size_t inputs, std::vector<uint32_t> &sources) {
    if (index < 0 || static_cast<size_t>(index) >= inputs)
      return Status::error("its output " + name(node.outputs[k]) + " comes from input " + std::to_string(index) +
                           " of " + number(inputs));
    const uint32_t source = node.inputs[static_cast<size_t>(index)];
    const fb::Tensor &from = *flow_.tensors[source].tensor, &to = *flow_.tensors[node.outputs[k]].tensor;
    const bool plain = from.gmem_stmode() == kStore1N && to.gmem_stmode() == kStore1N;
    std::string other;  // what makes copying the bytes wrong
    if (!same_kind(from, to))
      other = "type or size";
    else if (from.gmem_stmode() != to.gmem_stmode())
      other = "store mode";
    else if (!plain && !same_shape(from, to))
      other = "shape";
    if (!other.empty())
      return Status::error("its output " + name(node.outputs[k]) + " has another " + other + " than " + name(source));
    sources.push_back(source);
    return {};
  }

  Status check_outputs() {
    for (uint32_t t = 0; t < flow_.tensors.size(); ++t)
      if (flow_.tensors[t].output >= 0 && writer_[t] == kNobody)
        return Status::error("no sub-network writes the output " + name(t));
    return {};
  }

  /// Nodes so that each comes after all that lead to it. Empty: there is a loop.
  std::vector<size_t> sort() const {
    enum State : uint8_t { kNew, kOpen, kDone };
    std::vector<State> state(flow_.nodes.size(), kNew);
    std::vector<size_t> order, stack{0};
    while (!stack.empty()) {
      const size_t n = stack.back();
      if (state[n] != kNew) {
        stack.pop_back();
        if (state[n] == kOpen) order.push_back(n);
        state[n] = kDone;
        continue;
      }
      state[n] = kOpen;
      for (const int next : {flow_.nodes[n].next, flow_.nodes[n].if_true}) {
        if (next == FlowNode::kEnd) continue;
        if (state[static_cast<size_t>(next)] == kOpen) return {};
        if (state[static_cast<size_t>(next)] == kNew) stack.push_back(static_cast<size_t>(next));
      }
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  /// What every path has written so far decides what may be read.
  Status follow() {
    const std::vector<size_t> order = sort();
    if (order.empty()) return Status::error("its sub-networks form a loop");
    if (order.size() < flow_.nodes.size()) {
      for (size_t n = 0; n < flow_.nodes.size(); ++n)
        if (std::find(order.begin(), order.end(), n) == order.end())
          return Status::error(node_name(n) + ": nothing leads to it");
    }
    std::vector<std::vector<Set>> arriving(flow_.nodes.size());  // one for each way in
    Set inputs(flow_.tensors.size());
    for (size_t t = 0; t < flow_.tensors.size(); ++t) inputs[t] = flow_.tensors[t].input >= 0;
    arriving[0].push_back(inputs);
    for (const size_t n : order) {
      NPU_TRY(pass(flow_.nodes[n], arriving[n], arriving).within(node_name(n)));
      arriving[n].clear();
    }
    return {};
  }

  Status pass(const FlowNode &node, const std::vector<Set> &ways, std::vector<std::vector<Set>> &arriving) {
    const auto everywhere = [&ways](uint32_t t) {
      return std::all_of(ways.begin(), ways.end(), [t](const Set &s) { return s[t]; });
    };
    if (node.mode == SubNetMode::kMerge) {
      for (size_t k = 0; k < node.from.size(); ++k)
        for (const Set &way : ways)
          if (std::none_of(node.from[k].begin(), node.from[k].end(), [&way](uint32_t t) { return way[t]; }))
            return Status::error("there is a way to it on which nothing is written for its output " +
                                 name(node.outputs[k]));
    } else {
      for (const uint32_t t : node.inputs)
        if (!everywhere(t))
          return Status::error("it reads " + name(t) + ", which is not written before on every way to it");
    }
    for (const bool branch : {false, true}) {
      if (branch && node.mode != SubNetMode::kSwitch) continue;
      Set after(flow_.tensors.size());
      for (uint32_t t = 0; t < after.size(); ++t) after[t] = everywhere(t);
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (node.mode != SubNetMode::kSwitch || node.branch[k] == branch) after[node.outputs[k]] = true;
      const int next = branch ? node.if_true : node.next;
      if (next != FlowNode::kEnd) {
        arriving[static_cast<size_t>(next)].push_back(std::move(after));
        continue;
      }
      for (uint32_t t = 0; t < after.size(); ++t)
        if (flow_.tensors[t].output >= 0 && !after[t])
          return Status::error("the network may end here without its output " + name(t));
    }
    return {};
  }

  const Container &container_;
  const fb::NetParameter &stage_;
  Flow &flow_;
  std::map<std::string, uint32_t> by_name_;
  std::map<int32_t, int> by_id_;
  std::vector<uint32_t> writer_;  // node that writes a tensor
};

}  // namespace

bool is_step(const fb::Net &net) {
  return net.cascade() && net.cascade()->main_name() && net.cascade()->main_name()->size() > 0;
}

bool has_flow(const fb::NetParameter &stage) {
  return stage.sub_net() &&
         (stage.sub_net()->size() > 1 || (stage.sub_net()->size() == 1 && stage.sub_net()->Get(0)->subnet_mode() != 0));
}

Status read_flow(const Container &container, const fb::NetParameter &stage, Flow &flow) {
  return Reader(container, stage, flow).read();
}

}  // namespace npu::bmodel
