// SPDX-License-Identifier: MIT
// Copies by the card: GDMA commands of contexts of the library's own, each with a pinned staging buffer of two halves,
// one being filled (or emptied) by the CPU while the card works on the other.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libnpu/src/internal.h"

namespace npu {
namespace {

constexpr uint64_t kHalf = 1 << 20;
constexpr unsigned int kHalves = 2;
constexpr uint64_t kLargestCommand = 1ull << 30;  // bytes or elements of one command

enum Region : uint8_t { kCommands, kFirst, kSecond };

}  // namespace

std::unique_ptr<CopyLane> CopyLane::create(npu_device *device) {
  std::unique_ptr<CopyLane> lane(new CopyLane);
  void *commands = nullptr, *staging = nullptr;
  if (context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, false, &lane->context_) ||
      bo_create(device, kHalves * kCommandBytes, DRM_NPU_BO_SYSTEM, false, &lane->commands_) ||
      bo_create(device, kHalves * kHalf, DRM_NPU_BO_SYSTEM, false, &lane->staging_) ||
      npu_bo_map(lane->commands_, &commands) || npu_bo_map(lane->staging_, &staging))
    return nullptr;
  lane->commands_ptr_ = static_cast<uint8_t *>(commands);
  lane->staging_ptr_ = static_cast<uint8_t *>(staging);
  return lane;
}

CopyLane::~CopyLane() {
  npu_context_destroy(context_);
  npu_bo_unref(commands_);
  npu_bo_unref(staging_);
}

uint8_t *CopyLane::command(unsigned int half) const { return commands_ptr_ + half * kCommandBytes; }

/// Submits the command of a half with regions kFirst (written) and kSecond (read; may be null).
int CopyLane::run(unsigned int half, npu_bo *dst, npu_bo *src, uint64_t *seqno) {
  const uint64_t at = half * kCommandBytes;
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
  // Whoever copies has waited already: the lane is not held up by jobs that were submitted meanwhile.
  job.flags = DRM_NPU_JOB_EXPLICIT;
  return npu_submit(context_, &job, 1, seqno);
}

/// Waits for a job of the lane; its fault becomes the error.
int CopyLane::finish(uint64_t seqno) {
  npu_result result{};
  if (int err = npu_wait(context_, seqno, -1, &result)) return err;
  if (!result.error) return 0;
  char text[256];
  npu_describe_fault(&result.fault, text, sizeof(text));
  return fail(result.error, "copy by the card's DMA failed: %s", result.fault.status ? text : strerror(-result.error));
}

/// One half of the staging buffer to or from [offset, offset + size) of bo.
int CopyLane::submit_piece(unsigned int half, npu_bo *bo, uint64_t offset, uint64_t size, bool to_card,
                           uint64_t *seqno) {
  const uint64_t staged = half * kHalf;
  if (to_card) {
    if (int err = npu_bo_sync(staging_, staged, size, DRM_NPU_SYNC_TO_DEVICE)) return err;
    encode_copy(command(half), kFirst, offset, kSecond, staged, size);
    return run(half, bo, staging_, seqno);
  }
  encode_copy(command(half), kFirst, staged, kSecond, offset, size);
  return run(half, staging_, bo, seqno);
}

/// The staging buffer is not reused while the card works on it, whatever happened before.
void CopyLane::drain(const uint64_t *seqnos, unsigned int count, int *error) {
  for (unsigned int i = 0; i < count; i++) {
    const int err = seqnos[i] ? finish(seqnos[i]) : 0;
    if (!*error) *error = err;
  }
}

int CopyLane::write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size) {
  uint64_t seqnos[kHalves] = {};
  int error = 0;
  unsigned int half = 0;
  for (uint64_t done = 0; done < size && !error; half ^= 1) {
    const uint64_t piece = std::min(kHalf, size - done);
    if (seqnos[half]) error = finish(std::exchange(seqnos[half], 0));
    if (error) break;
    memcpy(staging_ptr_ + half * kHalf, static_cast<const uint8_t *>(data) + done, piece);
    error = submit_piece(half, bo, offset + done, piece, true, &seqnos[half]);
    done += piece;
  }
  drain(seqnos, kHalves, &error);
  return error;
}

int CopyLane::read(npu_bo *bo, uint64_t offset, void *data, uint64_t size) {
  const uint64_t pieces = (size + kHalf - 1) / kHalf;
  const auto piece_size = [&](uint64_t i) { return std::min(kHalf, size - i * kHalf); };
  uint64_t seqnos[kHalves] = {};
  uint64_t started = 0;
  int error = 0;
  for (uint64_t i = 0; i < pieces && !error; i++) {
    for (; !error && started < std::min(pieces, i + kHalves); started++)
      error = submit_piece(started % kHalves, bo, offset + started * kHalf, piece_size(started), false,
                           &seqnos[started % kHalves]);
    if (!error) error = finish(std::exchange(seqnos[i % kHalves], 0));
    if (!error) error = npu_bo_sync(staging_, i % kHalves * kHalf, piece_size(i), DRM_NPU_SYNC_FROM_DEVICE);
    if (!error) memcpy(static_cast<uint8_t *>(data) + i * kHalf, staging_ptr_ + i % kHalves * kHalf, piece_size(i));
  }
  drain(seqnos, kHalves, &error);
  return error;
}

int CopyLane::copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size) {
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

int CopyLane::fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes) {
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

// ---- CopyEngine ----

std::unique_ptr<CopyEngine> CopyEngine::create(npu_device *device) {
  std::unique_ptr<CopyEngine> engine(new CopyEngine(device));
  auto lane = CopyLane::create(device);
  if (!lane) return nullptr;
  engine->free_.push_back(lane.get());
  engine->lanes_.push_back(std::move(lane));
  return engine;
}

CopyLane *CopyEngine::take() {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return serving_ == ticket && (!free_.empty() || (lanes_.size() < kLanes && !full_)); });
  if (free_.empty()) {
    if (auto lane = CopyLane::create(device_)) {
      free_.push_back(lane.get());
      lanes_.push_back(std::move(lane));
    } else {
      full_ = true;
      changed_.wait(lock, [&] { return !free_.empty(); });
    }
  }
  CopyLane *lane = free_.back();
  free_.pop_back();
  serving_++;
  changed_.notify_all();
  return lane;
}

void CopyEngine::give_back(CopyLane *lane) {
  std::lock_guard lock(mutex_);
  free_.push_back(lane);
  changed_.notify_all();
}

/// A lane until the end of the scope.
class CopyEngine::Lease {
 public:
  explicit Lease(CopyEngine &engine) : engine_(engine), lane_(engine.take()) {}
  ~Lease() { engine_.give_back(lane_); }
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;
  CopyLane *operator->() const { return lane_; }

 private:
  CopyEngine &engine_;
  CopyLane *const lane_;
};

int CopyEngine::write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size) {
  if (int err = bo_wait(bo, 0, -1)) return err;
  return Lease(*this)->write(bo, offset, data, size);
}

int CopyEngine::read(npu_bo *bo, uint64_t offset, void *data, uint64_t size) {
  if (int err = bo_wait(bo, DRM_NPU_BO_WAIT_WRITERS, -1)) return err;
  return Lease(*this)->read(bo, offset, data, size);
}

int CopyEngine::copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size) {
  if (int err = bo_wait(dst, 0, -1)) return err;
  if (int err = bo_wait(src, DRM_NPU_BO_WAIT_WRITERS, -1)) return err;
  return Lease(*this)->copy(dst, dst_offset, src, src_offset, size);
}

int CopyEngine::fill(npu_bo *bo, uint64_t offset, uint64_t count, uint64_t value, unsigned int value_bytes) {
  if (int err = bo_wait(bo, 0, -1)) return err;
  return Lease(*this)->fill(bo, offset, count, value, value_bytes);
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
