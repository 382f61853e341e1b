// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace npu::model {

namespace {

constexpr size_t kGuardBytes = 4096;

/// AddressSanitizer has to know before a switch where the next stack is, and after it that the switch has happened.
/// `keep` nullptr: the stack that is left is never used again.
void before_switch([[maybe_unused]] void **keep, [[maybe_unused]] const void *stack, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(keep, stack, bytes);
#endif
}

void after_switch([[maybe_unused]] void *kept, [[maybe_unused]] const void **stack, [[maybe_unused]] size_t *bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(kept, stack, bytes);
#endif
}

}  // namespace

Fiber::~Fiber() {
  cancel();
  if (mapping_) munmap(mapping_, kGuardBytes + kStackBytes);
}

bool Fiber::start(std::function<void()> body) {
  if (!mapping_) {
    void *p = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    mprotect(p, kGuardBytes, PROT_NONE);
    mapping_ = p;
  }
  body_ = std::move(body);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = static_cast<char *>(mapping_) + kGuardBytes;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  const uint64_t self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  parked_ = true;
  fake_inside_ = nullptr;
  return resume();
}

bool Fiber::resume(bool go) {
  go_ = go;
  before_switch(&fake_outside_, inside_.uc_stack.ss_sp, kStackBytes);
  swapcontext(&outside_, &inside_);
  after_switch(fake_outside_, nullptr, nullptr);
  return !parked_;
}

bool Fiber::park() {
  before_switch(&fake_inside_, outside_stack_, outside_bytes_);
  swapcontext(&inside_, &outside_);
  after_switch(fake_inside_, &outside_stack_, &outside_bytes_);
  return go_;
}

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber *>(static_cast<uintptr_t>(uint64_t{high} << 32 | low))->run();
}

void Fiber::run() {
  after_switch(nullptr, &outside_stack_, &outside_bytes_);
  body_();
  body_ = nullptr;
  parked_ = false;
  before_switch(nullptr, outside_stack_, outside_bytes_);
  setcontext(&outside_);
}

}  // namespace npu::model
