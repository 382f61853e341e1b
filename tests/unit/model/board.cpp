// SPDX-License-Identifier: MIT
#include "tests/unit/model/board.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace npu::test {

namespace {

constexpr uint64_t kPage = 4096;

uint8_t *map(size_t bytes) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return static_cast<uint8_t *>(p);
}

/// Aligned words are one access each, as on a real bus: software polls them.
template <class T>
bool store_word(uint8_t *to, const void *from, size_t bytes) {
  if (bytes != sizeof(T) || reinterpret_cast<uintptr_t>(to) % sizeof(T)) return false;
  T value;
  std::memcpy(&value, from, sizeof value);
  __atomic_store_n(reinterpret_cast<T *>(to), value, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

TestBoard::TestBoard(size_t bytes) : bytes_(bytes), memory_(map(bytes)) {
  calls_.dma_read = dma_read;
  calls_.dma_write = dma_write;
  calls_.interrupt = interrupt;
  calls_.trace = trace;
}

void TestBoard::lend_clock() {
  calls_.now = clock;
  calls_.wake_at = wake_at;
}

uint64_t TestBoard::clock(void *self) { return static_cast<TestBoard *>(self)->now_; }

void TestBoard::wake_at(void *self, uint64_t ns) { static_cast<TestBoard *>(self)->wanted_ = ns; }

void TestBoard::set_clock(npu_model *model, uint64_t ns) {
  while (wanted_ <= ns) next(model);
  now_ = ns;
}

bool TestBoard::next(npu_model *model) {
  if (wanted_ == UINT64_MAX) return false;
  if (wanted_ > now_) now_ = wanted_;
  wanted_ = UINT64_MAX;
  npu_model_advance(model);
  return true;
}

TestBoard::~TestBoard() { munmap(memory_, bytes_); }

uint64_t TestBoard::allocate(size_t bytes) {
  const uint64_t align = bytes >= kPage ? kPage : 64;
  uint64_t at = next_.load(), start;
  do {
    start = (at + align - 1) / align * align;
    if (start + bytes > kBase + bytes_) std::abort();
  } while (!next_.compare_exchange_weak(at, start + bytes));
  return start;
}

void TestBoard::poison(uint64_t bus) {
  std::lock_guard lock(mutex_);
  poisoned_.insert(bus / kPage);
}

void TestBoard::cure(uint64_t bus) {
  std::lock_guard lock(mutex_);
  poisoned_.erase(bus / kPage);
}

void TestBoard::block(uint64_t bus) {
  std::lock_guard lock(mutex_);
  blocked_page_ = bus / kPage;
  changed_.notify_all();
}

void TestBoard::wait_blocked(unsigned accesses) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ >= accesses; });
}

void TestBoard::release() {
  std::lock_guard lock(mutex_);
  blocked_page_ = 0;
  changed_.notify_all();
}

void TestBoard::on_interrupt(std::function<void(unsigned)> f) {
  std::lock_guard lock(mutex_);
  on_interrupt_ = std::move(f);
}

std::vector<std::pair<uint64_t, size_t>> TestBoard::take_writes() {
  std::lock_guard lock(mutex_);
  return std::exchange(writes_, {});
}

std::vector<std::string> TestBoard::take_trace() {
  std::lock_guard lock(mutex_);
  return std::exchange(trace_, {});
}

int TestBoard::enter(uint64_t addr, size_t bytes) {
  transfers_.fetch_add(1);
  if (addr < kBase || addr + bytes > kBase + bytes_) return -1;
  const uint64_t first = addr / kPage, last = (addr + bytes - 1) / kPage;
  std::unique_lock lock(mutex_);
  const auto blocked = [&] { return blocked_page_ >= first && blocked_page_ <= last; };
  if (blocked()) {
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !blocked(); });
    --waiting_;
  }
  const auto bad = poisoned_.lower_bound(first);
  return bad != poisoned_.end() && *bad <= last ? -1 : 0;
}

int TestBoard::dma_read(void *opaque, uint64_t addr, void *buf, size_t bytes) {
  auto *self = static_cast<TestBoard *>(opaque);
  if (self->enter(addr, bytes)) return -5;
  std::memcpy(buf, self->host(addr), bytes);
  return 0;
}

int TestBoard::dma_write(void *opaque, uint64_t addr, const void *buf, size_t bytes) {
  auto *self = static_cast<TestBoard *>(opaque);
  if (self->enter(addr, bytes)) return -5;
  if (self->recording_) {
    std::lock_guard lock(self->mutex_);
    self->writes_.emplace_back(addr, bytes);
  }
  uint8_t *to = self->host(addr);
  if (!store_word<uint32_t>(to, buf, bytes) && !store_word<uint64_t>(to, buf, bytes)) std::memcpy(to, buf, bytes);
  return 0;
}

void TestBoard::interrupt(void *opaque, unsigned vector) {
  auto *self = static_cast<TestBoard *>(opaque);
  std::function<void(unsigned)> f;
  {
    std::lock_guard lock(self->mutex_);
    f = self->on_interrupt_;
  }
  if (f) f(vector);
  self->interrupts_.at(vector).fetch_add(1);  // last: who counts them may look at what f did
}

void TestBoard::trace(void *opaque, const char *kind, const char *text) {
  auto *self = static_cast<TestBoard *>(opaque);
  std::lock_guard lock(self->mutex_);
  self->trace_.push_back(std::string(kind) + ": " + text);
}

}  // namespace npu::test
