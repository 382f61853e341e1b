// SPDX-License-Identifier: MIT
// Launches of a dynamic network with a smaller batch than its stage's: on copies of the tensors that are filled up.
#include "runtime.h"

namespace npurt {

namespace {

/// Zeroed memory for each tensor of a stage.
Reason make_places(npu_device *device, const std::vector<TensorInfo> &tensors, std::vector<Place> &out) {
  for (const TensorInfo &t : tensors) {
    npu_bo *bo;
    if (npu_bo_create(device, t.bytes, DRM_NPU_BO_CARD, &bo) != 0)
      return "memory for the whole of '" + t.name + "': " + npu_last_error();
    out.push_back({Bo(bo), 0, npu_bo_address(bo), t.bytes});
  }
  return {};
}

/// The first `from.bytes` bytes.
Reason copy(const Place &from, const Place &to) {
  const uint64_t bytes = std::min(from.bytes, to.bytes);
  return npu_copy(to.bo.get(), to.offset, from.bo.get(), from.offset, bytes) == 0 ? "" : npu_last_error();
}

}  // namespace

/// Waits until it is finished.
Reason Runtime::submit_rows(const Prepared &what, std::span<const bm_tensor_t> inputs,
                            std::span<const bm_tensor_t> outputs, Launched &launched) {
  const Network &net = *what.network;
  const Stage &stage = *what.stage;
  const Card &card = cards_[0];
  std::vector<Place> in, out, whole_in, whole_out;
  Reason why = locate_all(card.device, net, "input", what.inputs, inputs, in);
  if (why.empty()) why = locate_all(card.device, net, "output", what.outputs, outputs, out);
  if (!why.empty()) return why;
  Scratch *scratch;
  why = stage.pools[0]->acquire(&scratch);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  const ScratchGuard guard(*stage.pools[0], scratch);
  why = make_places(card.device, stage.inputs, whole_in);
  if (why.empty()) why = make_places(card.device, stage.outputs, whole_out);
  std::vector<Conversion> before, after;
  for (size_t i = 0; i < in.size() && why.empty(); ++i) {
    const bm_store_mode_t from = what.inputs[i].mode, to = stage.inputs[i].mode;
    if (from == to)
      why = copy(in[i], whole_in[i]);
    else
      before.push_back({what.inputs[i], from, to, share(in[i]), share(whole_in[i])});
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (const bm_store_mode_t from = stage.outputs[i].mode, to = what.outputs[i].mode; from != to)
      after.push_back({what.outputs[i], from, to, share(whole_out[i]), share(out[i])});
  launched.network = &net;
  if (why.empty()) why = submit_conversions(card, stage, before, what.core_mask, launched);
  if (why.empty()) why = submit_unit(card, stage, whole_in, whole_out, *scratch, what.core_mask, launched);
  if (why.empty()) why = submit_conversions(card, stage, after, what.core_mask, launched);
  const Reason failed = wait_for(launched);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  why = failed;
  for (size_t i = 0; i < out.size() && why.empty(); ++i)
    if (stage.outputs[i].mode == what.outputs[i].mode) why = copy(whole_out[i], out[i]);
  return why;
}

}  // namespace npurt
