// SPDX-License-Identifier: MIT
// Copies by the card: GDMA commands of a context of the library's own, with a pinned staging buffer of two halves, one
// being filled (or emptied) by the CPU while the card works on the other.
#include <cerrno>
#include <cstring>
#include <utility>

#include "internal.h"

namespace npu {
namespace {

constexpr uint64_t kHalf = 1 << 20;
constexpr unsigned int kSlots = 2;
constexpr uint64_t kLargestCommand = 1ull << 30;  // bytes or elements of one command

enum Region : uint8_t { kCommands, kFirst, kSecond };

}  // namespace

std::unique_ptr<CopyEngine> CopyEngine::create(npu_device *device) {
  std::unique_ptr<CopyEngine> engine(new CopyEngine);
  void *commands = nullptr, *staging = nullptr;
  if (context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, false, &engine->context_) ||
      bo_create(device, kSlots * kCommandBytes, DRM_NPU_BO_SYSTEM, false, &engine->commands_) ||
      bo_create(device, kSlots * kHalf, DRM_NPU_BO_SYSTEM, false, &engine->staging_) ||
      npu_bo_map(engine->commands_, &commands) || npu_bo_map(engine->staging_, &staging))
    return nullptr;
  engine->commands_ptr_ = static_cast<uint8_t *>(commands);
  engine->staging_ptr_ = static_cast<uint8_t *>(staging);
  return engine;
}

CopyEngine::~CopyEngine() {
  npu_context_destroy(context_);
  npu_bo_unref(commands_);
  npu_bo_unref(staging_);
}

uint8_t *CopyEngine::command(unsigned int slot) const { return commands_ptr_ + slot * kCommandBytes; }

/// Submits the command of a slot with regions kFirst (written) and kSecond (read; may be null).
int CopyEngine::run(unsigned int slot, npu_bo *dst, npu_bo *src, uint64_t *seqno) {
  const uint64_t at = slot * kCommandBytes;
  if (int err = npu_bo_sync(commands_, at, kCommandBytes, DRM_NPU_SYNC_TO_DEVICE)) return err;
  npu_job_region regions[3] = {
      {commands_, at, kCommandBytes, DRM_NPU_REGION_READ, 0},
      {dst, 0, dst->size, DRM_NPU_REGION_WRITE, 0},
      {src, 0, src ? src->size : 0, DRM_NPU_REGION_READ, 0},
  };
  drm_npu_stream stream{};
  stream.gdma_region = kCommands;
  stream.gdma_count = 1;
  npu_job_desc job{};
  job.regions = regions;
  job.region_count = src ? 3 : 2;
  job.streams = &stream;
  job.stream_count = 1;
  return npu_submit(context_, &job, 1, seqno);
}

/// Waits for a job of the engine; its fault becomes the error.
int CopyEngine::finish(uint64_t seqno) {
  npu_result result{};
  if (int err = npu_wait(context_, seqno, -1, &result)) return err;
  if (!result.error) return 0;
  char text[256];
  npu_describe_fault(&result.fault, text, sizeof(text));
  return fail(result.error, "copy by the card's DMA failed: %s", result.fault.status ? text : strerror(-result.error));
}

/// One half of the staging buffer to or from [offset, offset + size) of bo.
int CopyEngine::submit_piece(unsigned int slot, npu_bo *bo, uint64_t offset, uint64_t size, bool to_card,
                             uint64_t *seqno) {
  const uint64_t staged = slot * kHalf;
  if (to_card) {
    if (int err = npu_bo_sync(staging_, staged, size, DRM_NPU_SYNC_TO_DEVICE)) return err;
    encode_copy(command(slot), kFirst, offset, kSecond, staged, size);
    return run(slot, bo, staging_, seqno);
  }
  encode_copy(command(slot), kFirst, staged, kSecond, offset, size);
  return run(slot, staging_, bo, seqno);
}

/// The staging buffer is not reused while the card works on it, whatever happened before.
void CopyEngine::drain(const uint64_t *seqnos, unsigned int count, int *error) {
  for (unsigned int i = 0; i < count; i++) {
    const int err = seqnos[i] ? finish(seqnos[i]) : 0;
    if (!*error) *error = err;
  }
}

int CopyEngine::write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size) {
  std::lock_guard lock(mutex_);
  uint64_t seqnos[kSlots] = {};
  int error = 0;
  unsigned int slot = 0;
  for (uint64_t done = 0; done < size && !error; slot ^= 1) {
    const uint64_t piece = std::min(kHalf, size - done);
    if (seqnos[slot]) error = finish(std::exchange(seqnos[slot], 0));
    if (error) break;
    memcpy(staging_ptr_ + slot * kHalf, static_cast<const uint8_t *>(data) + done, piece);
    error = submit_piece(slot, bo, offset + done, piece, true, &seqnos[slot]);
    done += piece;
  }
  drain(seqnos, kSlots, &error);
  return error;
}

int CopyEngine::read(npu_bo *bo, uint64_t offset, void *data, uint64_t size) {
  std::lock_guard lock(mutex_);
  const uint64_t pieces = (size + kHalf - 1) / kHalf;
  const auto piece_size = [&](uint64_t i) { return std::min(kHalf, size - i * kHalf); };
  uint64_t seqnos[kSlots] = {};
  uint64_t started = 0;
  int error = 0;
  for (uint64_t i = 0; i < pieces && !error; i++) {
    for (; !error && started < std::min(pieces, i + kSlots); started++)
      error = submit_piece(started % kSlots, bo, offset + started * kHalf, piece_size(started), false,
                           &seqnos[started % kSlots]);
    if (!error) error = finish(std::exchange(seqnos[i % kSlots], 0));
    if (!error) error = npu_bo_sync(staging_, i % kSlots * kHalf, piece_size(i), DRM_NPU_SYNC_FROM_DEVICE);
    if (!error) memcpy(static_cast<uint8_t *>(data) + i * kHalf, staging_ptr_ + i % kSlots * kHalf, piece_size(i));
  }
  drain(seqnos, kSlots, &error);
  return error;
}

int CopyEngine::copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size) {
  std::lock_guard lock(mutex_);
  for (uint64_t done = 0; done < size;) {
    const uint64_t piece = std::min(kLargestCommand, size - done);
    uint64_t seqno = 0;
    encode_copy(command(0), kFirst, dst_offset + done, kSecond, src_offset + done, piece);
    if (int err = run(0, dst, src, &seqno)) return err;
    if (int err = finish(seqno)) return err;
    done += piece;
  }
  return 0;
}

int CopyEngine::fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes) {
  std::lock_guard lock(mutex_);
  for (uint64_t done = 0; done < count;) {
    const uint64_t piece = std::min(kLargestCommand, count - done);
    uint64_t seqno = 0;
    encode_fill(command(0), kFirst, offset + done * value_bytes, value, value_bytes, piece);
    if (int err = run(0, bo, nullptr, &seqno)) return err;
    if (int err = finish(seqno)) return err;
    done += piece;
  }
  return 0;
}

CopyEngine *copy_engine(npu_device *device) {
  std::lock_guard lock(device->engine_mutex);
  if (!device->engine) {
    device->engine = CopyEngine::create(device);
    if (!device->engine) log(NPU_LOG_WARNING, "copies go by the CPU: %s", npu_last_error());
  }
  return device->engine.get();
}

}  // namespace npu
