// SPDX-License-Identifier: MIT
#include "runtime/launch/memory/upload.h"

#include <liburing.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace npurt {

namespace {

using npu::bmodel::MappedFile;
using Clock = std::chrono::steady_clock;

constexpr size_t kUploadChunk = 1 << 20, kInFlight = 8;
constexpr size_t kTrial = 4 * kUploadChunk;  // bytes that each way gets when both are tried

/// Reads pieces of a file, several at a time.
class Ring {
 public:
  Ring() : made_(io_uring_queue_init(kInFlight, &ring_, 0) == 0) {
    if (made_) chunks_.reset(new uint8_t[kInFlight * kUploadChunk]);
  }
  ~Ring() {
    if (made_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring &) = delete;
  Ring &operator=(const Ring &) = delete;

  explicit operator bool() const { return made_; }
  /// What cannot be read is written from the mapping: it may be there all the same.
  int write(npu_bo *to, uint64_t offset, std::span<const uint8_t> bytes, const MappedFile &file) {
    size_t next = 0;
    unsigned in_flight = 0;
    int error = 0;
    for (unsigned slot = 0; slot < kInFlight && next < bytes.size(); ++slot, ++in_flight)
      next += read(slot, next, bytes, file);
    while (in_flight) {
      io_uring_cqe *cqe;
      io_uring_submit(&ring_);
      if (io_uring_wait_cqe(&ring_, &cqe) != 0) continue;  // -EINTR
      const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(cqe));
      const size_t at = at_[slot], n = std::min(kUploadChunk, bytes.size() - at);
      const bool whole = cqe->res == static_cast<int>(n);
      io_uring_cqe_seen(&ring_, cqe);
      --in_flight;
      if (error == 0) error = npu_write(to, offset + at, whole ? chunk(slot) : bytes.data() + at, n);
      if (error != 0 || next == bytes.size()) continue;
      next += read(slot, next, bytes, file);
      ++in_flight;
    }
    return error;
  }

 private:
  uint8_t *chunk(unsigned slot) { return chunks_.get() + slot * kUploadChunk; }
  size_t read(unsigned slot, size_t at, std::span<const uint8_t> bytes, const MappedFile &file) {
    const size_t n = std::min(kUploadChunk, bytes.size() - at);
    io_uring_sqe *const sqe = io_uring_get_sqe(&ring_);  // there is one: at most kInFlight are used
    io_uring_prep_read(sqe, file.fd, chunk(slot), static_cast<unsigned>(n), file.offset_of(bytes.data() + at));
    io_uring_sqe_set_data64(sqe, slot);
    at_[slot] = at;
    return n;
  }

  io_uring ring_;
  const bool made_;
  std::unique_ptr<uint8_t[]> chunks_;
  size_t at_[kInFlight] = {};
};

/// Seconds of a call that returns 0 or an error.
template <class Call>
double timed(Call call, int &error) {
  const auto begin = Clock::now();
  error = call();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// 0 or npu_write()'s error.
int move(npu_bo *to, uint64_t offset, std::span<const uint8_t> bytes, const MappedFile &file, std::string_view wish) {
  const auto mapped = [&](size_t from, size_t n) { return npu_write(to, offset + from, bytes.data() + from, n); };
  if (!file.has(bytes) || wish == "mapping" || (wish != "uring" && bytes.size() < 4 * kTrial))
    return mapped(0, bytes.size());
  Ring ring;
  if (!ring) return mapped(0, bytes.size());
  const auto read = [&](size_t from, size_t n) { return ring.write(to, offset + from, bytes.subspan(from, n), file); };
  if (wish == "uring") return read(0, bytes.size());
  int error;
  const double by_mapping = timed([&] { return mapped(0, kTrial); }, error);
  if (error != 0) return error;
  const double by_reading = timed([&] { return read(kTrial, kTrial); }, error);
  if (error != 0) return error;
  const size_t left = bytes.size() - 2 * kTrial;
  return by_reading < by_mapping ? read(2 * kTrial, left) : mapped(2 * kTrial, left);
}

}  // namespace

Status upload(npu_bo *to, uint64_t offset, std::span<const uint8_t> bytes, const MappedFile &file) {
  const char *const value = std::getenv("NPU_LOAD");
  const std::string wish = value ? value : "";
  if (!wish.empty() && wish != "mapping" && wish != "uring")
    return Status::error("NPU_LOAD=" + wish + ": expected mapping or uring");
  return move(to, offset, bytes, file, wish) == 0 ? Status() : npu_error();
}

}  // namespace npurt
