// SPDX-License-Identifier: MIT
// A function that can be left in the middle and gone on with later, on a stack of its own and the caller's thread: how
// a long command waits for its time in virtual time.
#ifndef NPU_MODEL_FIBER_H
#define NPU_MODEL_FIBER_H

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace npu::model {

/// Not synchronised; start() and resume() of one fiber may be called on different threads one after another.
class Fiber {
 public:
  Fiber() = default;
  /// Ends what is in progress: its next park() returns false.
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Runs `body`, which throws nothing, until it parks or ends; true: it has ended. Precondition: !parked(). Throws
  /// std::bad_alloc where the host has no room for a stack.
  bool start(std::function<void()> body);
  /// Goes on where it parked; `go` is what park() returns. True: the body has ended. Precondition: parked().
  bool resume(bool go = true);
  /// Lets what is in progress come to its end.
  void cancel() {
    while (parked_) resume(false);
  }
  bool parked() const { return parked_; }

  /// Inside the body: back to who started or resumed it. False: the body has to end soon.
  bool park();

 private:
  static constexpr size_t kStackBytes = size_t{1} << 20;

  static void enter(unsigned high, unsigned low);
  void run();

  std::function<void()> body_;
  void *mapping_ = nullptr;  // a guard page, then the stack
  ucontext_t inside_{}, outside_{};
  bool parked_ = false;
  bool go_ = true;
  // What AddressSanitizer knows the stacks by.
  void *fake_inside_ = nullptr, *fake_outside_ = nullptr;
  const void *outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
};

}  // namespace npu::model

#endif  // NPU_MODEL_FIBER_H
