// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/runner.h"

#include <algorithm>

#include "runtime/launch/exec/launch_check.h"

namespace npurt {

namespace {

/// Zeroed memory for a tensor.
Status make_place(npu_device *device, const TensorInfo &tensor, Place &out) {
  npu_bo *bo;
  if (npu_bo_create(device, tensor.bytes, DRM_NPU_BO_CARD, &bo) != 0)
    return npu_error().within("memory for the whole of '" + tensor.name + "'");
  out = {Bo(bo), 0, tensor.bytes};
  return {};
}

/// As many bytes as both have.
Status copy(const Place &from, const Place &to) {
  const uint64_t bytes = std::min(from.bytes, to.bytes);
  return npu_status(npu_copy(to.bo.get(), to.offset, from.bo.get(), from.offset, bytes));
}

}  // namespace

Runner::Runner(std::span<const Card> cards, const Prepared &what)
    : cards_(cards), what_(what), net_(*what.network), stage_(*what.stage), plan_(what.stage->plan) {}

Status Runner::run(std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs, Launched &launched) {
  launched_ = &launched;
  launched.network = &net_;
  NPU_TRY(locate_tensors(cards_, what_, inputs, outputs, places_));
  const Status status = run_plan();
  if (!status.ok()) {
    for (const LaunchedJob &job : launched.jobs) npu_wait(job.context, job.seqno, -1, nullptr);  // none may run on
    return status.within("network '" + net_.name() + "'");
  }
  for (size_t card = 0; card < scratch_.size(); ++card)
    for (size_t i = launched.jobs.size(); i-- > settled_;)
      if (launched.jobs[i].card == &cards_[card]) {
        scratch_[card].busy(launched.jobs[i].context, launched.jobs[i].seqno);
        break;
      }
  return {};
}

Status Runner::run_plan() {
  NPU_TRY(acquire_scratch());
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) NPU_TRY(fit_to_program(s));
  if (!plan_.only_program()) {  // a program knows which of its outputs may not be in an input
    NPU_TRY(keep_apart());
    written_.resize(plan_.slots.size());
  }
  NPU_TRY(submit_conversions(cards_, before_, what_.core_mask, *launched_));
  NPU_TRY(run_nodes());
  if (plan_.waits) NPU_TRY(settle());
  NPU_TRY(deliver());
  return waits() ? settle() : Status();
}

Status Runner::run_nodes() {
  for (int n = 0; n != Plan::kEnd;) {
    const Plan::Node &node = plan_.nodes[static_cast<size_t>(n)];
    n = node.next;
    ++step_;
    Status status;
    switch (node.kind) {
      case Plan::Kind::kNpu:
        for (const uint32_t s : node.outputs) written(s);
        status =
            submit_unit(cards_[node.device], node, places_, *scratch_[node.device].get(), what_.core_mask, *launched_);
        break;
      case Plan::Kind::kCpu:
        status = run_cpu(node);
        break;
      case Plan::Kind::kMerge:
        status = run_merge(node);
        break;
      case Plan::Kind::kSwitch:
        status = run_switch(node, n);
        break;
      case Plan::Kind::kTransfer:
        status = transfer(node.inputs[0], node.outputs[0]);
    }
    if (status.ok()) continue;
    if (plan_.only_program()) return status;
    return status.within((plan_.waits ? "step " : "sub-network ") + std::to_string(node.id));
  }
  return {};
}

// ---- memory of the slots

Status Runner::acquire_scratch() {
  scratch_.reserve(stage_.pools.size());
  for (const auto &pool : stage_.pools) {  // always in this order, so that two launches cannot wait for each other
    Scratch *scratch;
    NPU_TRY(stage_.with_needs(pool->acquire(&scratch)));
    scratch_.emplace_back(*pool, scratch);
  }
  return {};
}

/// Gives a tensor between programs its place in activation memory. An input or output that the launch has in another
/// store mode or in a smaller batch gets memory as the program takes it, which has the input's contents before it runs.
Status Runner::fit_to_program(uint32_t s) {
  const Plan::Slot &slot = plan_.slots[s];
  Scratch &own = scratch(slot);
  if (slot.between()) {
    places_[s] = {Bo(npu_bo_ref(own.ctx.get())), own.ctx_offset + slot.offset, slot.info.bytes};
    return {};
  }
  const Card &card = cards_[slot.device];
  const TensorInfo &launch = (slot.is_output() ? what_.outputs : what_.inputs)[slot.number()];
  const bool other_mode = slot.info.mode != launch.mode;
  if (!other_mode && !what_.rows) return {};
  Place inside;
  if (what_.rows)
    NPU_TRY(make_place(card.device, slot.info, inside));
  else
    NPU_TRY(converted_place(card.device, slot.is_output(), slot.number(), slot.info, own, inside));
  Place outside = std::exchange(places_[s], share(inside));
  if (slot.is_output()) {
    set_wanted(s, share(outside));
    if (other_mode)
      after_.push_back({&card, launch, slot.info.mode, launch.mode, std::move(inside), std::move(outside)});
  } else if (other_mode) {
    before_.push_back({&card, launch, launch.mode, slot.info.mode, std::move(outside), std::move(inside)});
  } else {
    NPU_TRY(copy(outside, inside));
  }
  return {};
}

void Runner::set_wanted(uint32_t slot, Place place) {
  if (wanted_.empty()) wanted_.resize(plan_.slots.size());
  wanted_[slot] = std::move(place);
}

const Place &Runner::wanted(uint32_t slot) const {
  return !wanted_.empty() && wanted_[slot].bo ? wanted_[slot] : places_[slot];
}

/// An output in the memory of an input would be written while later sub-networks still read that; likewise two outputs.
/// It gets a place of its own first.
Status Runner::keep_apart() {
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) {
    const Plan::Slot &slot = plan_.slots[s];
    if (!slot.is_output() || &wanted(s) != &places_[s]) continue;
    bool shared = false;
    for (uint32_t other = 0; other < plan_.slots.size() && !shared; ++other)
      shared = other != s && !plan_.slots[other].between() && overlap(wanted(s), wanted(other));
    if (!shared) continue;
    Bo &bo = scratch(slot).staging[slot.number()];
    npu_bo *made = nullptr;
    if (!bo && npu_bo_create(cards_[slot.device].device, slot.info.bytes, DRM_NPU_BO_CARD, &made) != 0)
      return npu_error().within("memory for an output that shares memory with another tensor");
    if (made) bo.reset(made);
    set_wanted(s, std::move(places_[s]));
    places_[s] = {Bo(npu_bo_ref(bo.get())), 0, slot.info.bytes};
  }
  return {};
}

// ---- nodes

Status Runner::settle() {
  NPU_TRY(wait_for(*launched_, settled_));
  settled_ = launched_->jobs.size();
  return {};
}

Status Runner::read(uint32_t slot, std::vector<uint8_t> &data) {
  const Place &p = places_[slot];
  data.resize(p.bytes);
  return npu_status(npu_read(p.bo.get(), p.offset, data.data(), data.size()));
}

Status Runner::run_cpu(const Plan::Node &node) {
  NPU_TRY(settle());
  std::vector<npu::cpu::Tensor> in, out;
  for (const uint32_t s : node.inputs) {
    in.push_back(cpu_tensor(plan_.slots[s].info));
    NPU_TRY(read(s, in.back().data));
  }
  for (const uint32_t s : node.outputs) out.push_back(cpu_tensor(plan_.slots[s].info));
  const TracedCall traced(npu::cpu::cpu_operator_name(node.op));
  const npu::Status done = node.graph ? npu::cpu::run_subnet_graph(*node.graph, in, out)
                                      : npu::cpu::run_cpu_operator(node.op, node.param, in, out);
  NPU_TRY(done);
  for (size_t k = 0; k < out.size(); ++k) {
    const Place &p = places_[node.outputs[k]];
    written(node.outputs[k]);
    if (npu_write(p.bo.get(), p.offset, out[k].data.data(), out[k].data.size()) != 0) return npu_error();
  }
  return {};
}

Status Runner::forward(uint32_t from, uint32_t to) {
  written(to);
  if (!plan_.slots[to].is_output()) {  // written once, read only from here on: the same memory will do
    places_[to] = share(places_[from]);
    return {};
  }
  return copy(places_[from], places_[to]);
}

/// From one card to another, by way of the process's memory.
Status Runner::transfer(uint32_t from, uint32_t to) {
  constexpr uint64_t kChunk = 4 << 20;
  NPU_TRY(settle());
  const Place &src = places_[from], &dst = places_[to];
  std::vector<uint8_t> chunk(std::min(src.bytes, kChunk));
  for (uint64_t at = 0; at < src.bytes; at += chunk.size()) {
    const uint64_t n = std::min<uint64_t>(chunk.size(), src.bytes - at);
    if (npu_read(src.bo.get(), src.offset + at, chunk.data(), n) != 0 ||
        npu_write(dst.bo.get(), dst.offset + at, chunk.data(), n) != 0)
      return npu_error();
  }
  written(to);
  return {};
}

/// Of the tensors that an output may come from, the one that was written last.
Status Runner::run_merge(const Plan::Node &node) {
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const uint32_t latest = *std::max_element(node.from[k].begin(), node.from[k].end(), [this](uint32_t a, uint32_t b) {
      const auto when = [this](uint32_t s) { return plan_.slots[s].input >= 0 ? 1 : 2 * written_[s]; };
      return when(a) < when(b);
    });
    NPU_TRY(forward(latest, node.outputs[k]));
  }
  return {};
}

Status Runner::run_switch(const Plan::Node &node, int &next) {
  const uint32_t slot = node.inputs.back();
  npu::cpu::Tensor condition = cpu_tensor(plan_.slots[slot].info);
  NPU_TRY(settle());
  NPU_TRY(read(slot, condition.data));
  const bool is_true = npu::cpu::is_true(condition);
  next = is_true ? node.if_true : node.next;
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (node.branch[k] == is_true) NPU_TRY(forward(node.from[k][0], node.outputs[k]));
  return {};
}

/// Outputs that were put elsewhere come to their memory.
Status Runner::deliver() {
  NPU_TRY(submit_conversions(cards_, after_, what_.core_mask, *launched_));
  for (uint32_t s = 0; s < wanted_.size(); ++s) {
    const Plan::Slot &slot = plan_.slots[s];
    if (!wanted_[s].bo || slot.info.mode != what_.outputs[slot.number()].mode) continue;
    NPU_TRY(settle());
    NPU_TRY(copy(places_[s], wanted_[s]));
  }
  return {};
}

}  // namespace npurt
