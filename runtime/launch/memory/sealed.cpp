// SPDX-License-Identifier: MIT
#include "runtime/launch/memory/sealed.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/launch/memory/fingerprint.h"
#include "runtime/launch/memory/upload.h"

namespace npurt {

namespace {

constexpr size_t kChunk = 1 << 20;

/// Buffers that might be equal; a fingerprint only finds candidates, all bytes are compared.
struct Slot {
  std::mutex mutex;  // held while a buffer is compared or made
  std::vector<std::weak_ptr<npu_bo>> buffers;
};
using Key = std::tuple<npu_device *, size_t, uint64_t>;

std::mutex slots_mutex;
std::map<Key, std::shared_ptr<Slot>> slots;  // guarded by slots_mutex

bool unused(Slot &slot) {
  std::lock_guard lock(slot.mutex);
  return std::all_of(slot.buffers.begin(), slot.buffers.end(), [](const auto &buffer) { return buffer.expired(); });
}

/// The slot of a key; slots that nobody uses go by the way.
std::shared_ptr<Slot> slot_of(const Key &key) {
  std::lock_guard lock(slots_mutex);
  // One that only the map has stays so while the map is locked; its mutex is free.
  std::erase_if(slots, [](const auto &entry) { return entry.second.use_count() == 1 && unused(*entry.second); });
  auto &slot = slots[key];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

bool same_contents(npu_bo *bo, std::span<const uint8_t> bytes) {
  std::vector<uint8_t> chunk(std::min(bytes.size(), kChunk));
  for (size_t at = 0; at < bytes.size(); at += chunk.size()) {
    const size_t n = std::min(chunk.size(), bytes.size() - at);
    if (npu_read(bo, at, chunk.data(), n) != 0 || std::memcmp(chunk.data(), bytes.data() + at, n) != 0) return false;
  }
  return true;
}

Status make(npu_device *device, const char *what, std::span<const uint8_t> bytes, const npu::bmodel::MappedFile &file,
            Sealed &out) {
  npu_bo *bo;
  if (npu_bo_create(device, bytes.size(), DRM_NPU_BO_CARD, &bo) != 0) return npu_error().within(what);
  Sealed made(bo, BoUnref());
  NPU_TRY(upload(bo, 0, bytes, file).within(what));
  if (npu_bo_seal(bo) != 0) return npu_error().within(what);
  out = std::move(made);
  return {};
}

}  // namespace

Status seal(npu_device *device, const char *what, std::span<const uint8_t> bytes, Sealed &out,
            const npu::bmodel::MappedFile &file) {
  const auto slot = slot_of({device, bytes.size(), fingerprint(bytes)});
  std::lock_guard lock(slot->mutex);
  std::erase_if(slot->buffers, [](const auto &buffer) { return buffer.expired(); });
  for (const auto &buffer : slot->buffers) {
    Sealed candidate = buffer.lock();
    if (!candidate || !same_contents(candidate.get(), bytes)) continue;
    out = std::move(candidate);
    return {};
  }
  NPU_TRY(make(device, what, bytes, file, out));
  slot->buffers.push_back(out);
  return {};
}

}  // namespace npurt
