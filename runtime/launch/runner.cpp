// SPDX-License-Identifier: MIT
#include "runner.h"

#include <algorithm>

#include "launch_check.h"

namespace npurt {

namespace {

bool overlap(const Place &a, const Place &b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

/// The scratches of a launch; they go back to their pools when the jobs that use them have finished.
class Scratches {
 public:
  explicit Scratches(const Stage &stage) : stage_(stage) {}
  Reason acquire(std::vector<Scratch *> &out) {
    for (const auto &pool : stage_.pools) {  // always in this order, so that two launches cannot wait for each other
      Scratch *scratch;
      const Reason why = pool->acquire(&scratch);
      if (!why.empty()) return why;
      guards_.push_back(std::make_unique<ScratchGuard>(*pool, scratch));
      out.push_back(scratch);
    }
    return {};
  }
  void busy(size_t card, npu_context *context, uint64_t seqno) { guards_[card]->busy(context, seqno); }

 private:
  const Stage &stage_;
  std::vector<std::unique_ptr<ScratchGuard>> guards_;
};

}  // namespace

Runner::Runner(std::span<const Card> cards, const Prepared &what)
    : cards_(cards),
      what_(what),
      net_(*what.network),
      stage_(*what.stage),
      plan_(*what.stage->plan),
      core_mask_(what.core_mask),
      after_(cards.size()) {}

Reason Runner::run(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs, Launched &launched) {
  launched_ = &launched;
  launched.network = &net_;
  Scratches scratches(stage_);
  Reason why = scratches.acquire(scratch_);
  if (why.empty()) why = find_memory(inputs, outputs);
  for (int n = 0; why.empty() && n != Plan::kEnd;) {
    const Plan::Node &node = plan_.nodes[static_cast<size_t>(n)];
    n = node.next;
    ++step_;
    why = run_node(node, n);
    if (!why.empty()) why = (plan_.waits ? "step " : "sub-network ") + std::to_string(node.id) + ": " + why;
  }
  if (why.empty() && plan_.waits) why = settle();
  if (why.empty()) why = deliver();
  if (why.empty() && plan_.waits) why = settle();
  if (!why.empty()) {
    for (const LaunchedJob &job : launched.jobs) npu_wait(job.context, job.seqno, -1, nullptr);  // none may run on
    return "network '" + net_.name() + "': " + why;
  }
  for (size_t card = 0; card < scratch_.size(); ++card)
    for (size_t i = launched.jobs.size(); i-- > settled_;)
      if (launched.jobs[i].card == &cards_[card]) {
        scratches.busy(card, launched.jobs[i].context, launched.jobs[i].seqno);
        break;
      }
  return {};
}

Reason Runner::find_memory(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs) {
  places_.resize(plan_.slots.size());
  wanted_.resize(plan_.slots.size());
  written_.resize(plan_.slots.size());
  std::vector<std::vector<Conversion>> before(cards_.size());
  Reason why;
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) {
    const Plan::Slot &slot = plan_.slots[s];
    if (slot.input >= 0) {
      why = find_tensor(s, inputs[static_cast<size_t>(slot.input)], before);
    } else if (slot.output >= 0) {
      why = find_tensor(s, outputs[static_cast<size_t>(slot.output)], after_);
    } else {
      npu_bo *bo = scratch_[slot.device]->ctx.get();
      const uint64_t at = scratch_[slot.device]->ctx_offset + slot.offset;
      places_[s] = {Bo(npu_bo_ref(bo)), at, npu_bo_address(bo) + at, slot.info.bytes};
    }
    if (!why.empty()) return why;
  }
  why = keep_apart();
  for (size_t card = 0; card < cards_.size() && why.empty(); ++card)
    why = submit_conversions(cards_[card], stage_, before[card], core_mask_, *launched_);
  return why;
}

/// An input or output. What the launch has in another store mode gets a place of its own, and an entry in
/// `conversions` of its card.
Reason Runner::find_tensor(uint32_t s, const bm_tensor_t &tensor, std::vector<std::vector<Conversion>> &conversions) {
  const Plan::Slot &slot = plan_.slots[s];
  const bool output = slot.input < 0;
  const auto number = static_cast<size_t>(output ? slot.output : slot.input);
  const TensorInfo &info = (output ? what_.outputs : what_.inputs)[number];
  npu_device *const device = cards_[slot.device].device;
  Place &place = places_[s];
  Reason why = locate(device, tensor.device_mem, info.bytes, place);
  if (why.empty() && slot.info.mode != info.mode) {
    if (output) wanted_[s] = share(place);
    why = convert(device, output, number, slot.info, info, *scratch_[slot.device], place, conversions[slot.device]);
  }
  return why.empty() ? why
                     : (output ? "output " : "input ") + std::to_string(number) + " ('" + info.name + "'): " + why;
}

/// Where the program has an input or output.
const Place &Runner::wanted(uint32_t slot) const { return wanted_[slot].bo ? wanted_[slot] : places_[slot]; }

/// An output in the memory of an input would be written while later sub-networks still read that; likewise two outputs.
/// It gets a place of its own first.
Reason Runner::keep_apart() {
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) {
    const Plan::Slot &slot = plan_.slots[s];
    if (slot.output < 0 || wanted_[s].bo) continue;
    bool shared = false;
    for (uint32_t other = 0; other < plan_.slots.size() && !shared; ++other)
      shared = other != s && (plan_.slots[other].input >= 0 || plan_.slots[other].output >= 0) &&
               plan_.slots[other].device == slot.device && overlap(wanted(s), wanted(other));
    if (!shared) continue;
    Bo &bo = scratch_[slot.device]->staging[static_cast<size_t>(slot.output)];
    npu_bo *made = nullptr;
    if (!bo && npu_bo_create(cards_[slot.device].device, slot.info.bytes, DRM_NPU_BO_CARD, &made) != 0)
      return std::string("memory for an output that shares memory with another tensor: ") + npu_last_error();
    if (made) bo.reset(made);
    wanted_[s] = std::move(places_[s]);
    places_[s] = {Bo(npu_bo_ref(bo.get())), 0, npu_bo_address(bo.get()), slot.info.bytes};
  }
  return {};
}

Reason Runner::run_node(const Plan::Node &node, int &next) {
  switch (node.kind) {
    case Plan::Kind::kNpu:
      return run_unit(node);
    case Plan::Kind::kCpu:
      return run_cpu(node);
    case Plan::Kind::kMerge:
      return run_merge(node);
    case Plan::Kind::kTransfer:
      return transfer(node.inputs[0], node.outputs[0]);
    default:
      return run_switch(node, next);
  }
}

std::vector<Place> Runner::places(const std::vector<uint32_t> &slots) const {
  std::vector<Place> out;
  for (const uint32_t s : slots) out.push_back(share(places_[s]));
  return out;
}

Reason Runner::run_unit(const Plan::Node &node) {
  for (const uint32_t s : node.outputs) written_[s] = step_;
  const Card &card = cards_[node.device];
  return submit_unit(card, node.unit, places(node.inputs), places(node.outputs), *scratch_[node.device], core_mask_,
                     *launched_);
}

Reason Runner::settle() {
  const Reason why = wait_for(*launched_, settled_);
  if (why.empty()) settled_ = launched_->jobs.size();
  return why;
}

Reason Runner::read(uint32_t slot, std::vector<uint8_t> &data) {
  const Place &p = places_[slot];
  data.resize(p.bytes);
  return npu_read(p.bo.get(), p.offset, data.data(), data.size()) == 0 ? "" : npu_last_error();
}

Reason Runner::run_cpu(const Plan::Node &node) {
  Reason why = settle();
  std::vector<npu::cpuop::Tensor> in, out;
  for (const uint32_t s : node.inputs) {
    in.push_back(cpu_tensor(plan_.slots[s].info));
    if (why.empty()) why = read(s, in.back().data);
  }
  if (!why.empty()) return why;
  for (const uint32_t s : node.outputs) out.push_back(cpu_tensor(plan_.slots[s].info));
  const TracedCall traced(npu::cpuop::op_name(node.op));
  npu::cpuop::run(node.op, node.param, in, out);
  for (size_t k = 0; k < out.size(); ++k) {
    const Place &p = places_[node.outputs[k]];
    written_[node.outputs[k]] = step_;
    if (npu_write(p.bo.get(), p.offset, out[k].data.data(), out[k].data.size()) != 0) return npu_last_error();
  }
  return {};
}

Reason Runner::forward(uint32_t from, uint32_t to) {
  written_[to] = step_;
  if (plan_.slots[to].output < 0) {  // written once, read only from here on: the same memory will do
    places_[to] = share(places_[from]);
    return {};
  }
  const Place &src = places_[from], &dst = places_[to];
  return npu_copy(dst.bo.get(), dst.offset, src.bo.get(), src.offset, dst.bytes) == 0 ? "" : npu_last_error();
}

/// From one card to another, by way of the process's memory.
Reason Runner::transfer(uint32_t from, uint32_t to) {
  constexpr uint64_t kChunk = 4 << 20;
  const Reason why = settle();
  if (!why.empty()) return why;
  const Place &src = places_[from], &dst = places_[to];
  std::vector<uint8_t> chunk(std::min(src.bytes, kChunk));
  for (uint64_t at = 0; at < src.bytes; at += chunk.size()) {
    const uint64_t n = std::min<uint64_t>(chunk.size(), src.bytes - at);
    if (npu_read(src.bo.get(), src.offset + at, chunk.data(), n) != 0 ||
        npu_write(dst.bo.get(), dst.offset + at, chunk.data(), n) != 0)
      return npu_last_error();
  }
  written_[to] = step_;
  return {};
}

/// Of the tensors that an output may come from, the one that was written last.
Reason Runner::run_merge(const Plan::Node &node) {
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const uint32_t latest = *std::max_element(node.from[k].begin(), node.from[k].end(), [this](uint32_t a, uint32_t b) {
      const auto when = [this](uint32_t s) { return plan_.slots[s].input >= 0 ? 1 : 2 * written_[s]; };
      return when(a) < when(b);
    });
    const Reason why = forward(latest, node.outputs[k]);
    if (!why.empty()) return why;
  }
  return {};
}

Reason Runner::run_switch(const Plan::Node &node, int &next) {
  const uint32_t slot = node.inputs.back();
  npu::cpuop::Tensor condition = cpu_tensor(plan_.slots[slot].info);
  Reason why = settle();
  if (why.empty()) why = read(slot, condition.data);
  if (!why.empty()) return why;
  const bool is_true = npu::cpuop::is_true(condition);
  next = is_true ? node.if_true : node.next;
  for (size_t k = 0; k < node.outputs.size() && why.empty(); ++k)
    if (node.branch[k] == is_true) why = forward(node.from[k][0], node.outputs[k]);
  return why;
}

/// Outputs that were put elsewhere come to their memory.
Reason Runner::deliver() {
  for (size_t card = 0; card < cards_.size(); ++card) {
    const Reason why = submit_conversions(cards_[card], stage_, after_[card], core_mask_, *launched_);
    if (!why.empty()) return why;
  }
  for (uint32_t s = 0; s < wanted_.size(); ++s) {
    const Plan::Slot &slot = plan_.slots[s];
    if (!wanted_[s].bo || slot.info.mode != what_.outputs[static_cast<size_t>(slot.output)].mode) continue;
    const Place &to = wanted_[s], &from = places_[s];
    const Reason why = settle();
    if (!why.empty()) return why;
    if (npu_copy(to.bo.get(), to.offset, from.bo.get(), from.offset, to.bytes) != 0) return npu_last_error();
  }
  return {};
}

}  // namespace npurt
