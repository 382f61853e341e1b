// SPDX-License-Identifier: MIT
#include "runtime/launch/model/io_memory.h"

#include <utility>

#include "runtime/launch/model/card.h"
#include "runtime/launch/model/network.h"
#include "runtime/launch/model/user_memory.h"

namespace npurt {

namespace {

Status create(npu_device *device, uint64_t bytes, SharedBo &out) {
  npu_bo *bo = nullptr;
  if (npu_bo_create(device, bytes, DRM_NPU_BO_CARD, &bo) != 0) return npu_error().within("input and output memory");
  out.reset(bo, BoUnref());
  return {};
}

/// Offsets on their cards, one after another; adds to `bytes` of each card and to the stage's `sizes`.
void lay_out(const std::vector<TensorInfo> &tensors, const std::vector<unsigned> &devices, std::vector<uint64_t> &bytes,
             std::vector<uint64_t> &sizes, std::vector<uint64_t> &offsets) {
  sizes.push_back(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    sizes.insert(sizes.end(), {devices[i], tensors[i].bytes});
    uint64_t &end = bytes[devices[i]];
    offsets.push_back(std::exchange(end, end + npu::bmodel::tensor_room(tensors[i].bytes)));
  }
}

}  // namespace

Status SharedIo::get(npu_device *device, const std::vector<uint64_t> &sizes, uint64_t bytes, SharedBo &out) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<npu_bo> &known = known_[sizes];
  out = known.lock();
  if (out) return {};
  NPU_TRY(create(device, bytes, out));
  known = out;
  return {};
}

Status allocate_io(std::span<const Card> cards, bool shared, UserPart &user, Stage &stage) {
  stage.input_device.resize(stage.inputs.size());
  stage.output_device.resize(stage.outputs.size());
  std::vector<uint64_t> bytes(cards.size()), sizes;
  lay_out(stage.inputs, stage.input_device, bytes, sizes, stage.input_address);
  lay_out(stage.outputs, stage.output_device, bytes, sizes, stage.output_address);
  std::vector<uint64_t> start(cards.size());
  for (size_t c = 0; c < cards.size(); ++c) {
    SharedBo &bo = stage.io.emplace_back();
    if (!bytes[c]) continue;
    if (c == 0 && user) {
      bo.reset(user.ref(), BoUnref());
      start[c] = user.offset + user.used.add_io(bytes[c], shared ? &sizes : nullptr);
    } else {
      NPU_TRY(shared ? cards[c].shared_io->get(cards[c].device, sizes, bytes[c], bo)
                     : create(cards[c].device, bytes[c], bo));
    }
    stage.io_bytes += bytes[c];
    start[c] += npu_bo_address(bo.get());
  }
  for (size_t i = 0; i < stage.inputs.size(); ++i) stage.input_address[i] += start[stage.input_device[i]];
  for (size_t i = 0; i < stage.outputs.size(); ++i) stage.output_address[i] += start[stage.output_device[i]];
  return {};
}

}  // namespace npurt
