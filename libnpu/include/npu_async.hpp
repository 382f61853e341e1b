/* SPDX-License-Identifier: MIT */
#ifndef NPU_ASYNC_HPP
#define NPU_ASYNC_HPP

/*
 * Launches of npu.h in C++20 coroutines. Header only; npu::launch() works in coroutines of any type:
 *
 *   npu::task<int> twice(npu_async *queue, npu_context *context, const npu_job_desc &job) {
 *     for (int i = 0; i < 2; i++) {
 *       const npu_completion done = co_await npu::launch(queue, context, job);
 *       if (done.error) co_return done.error;
 *     }
 *     co_return 0;
 *   }
 *
 *   int error = npu::run(queue, twice(queue, context, job));
 *
 * Threads: a coroutine goes on in the thread that calls npu_async_process() (npu::run() does), in the callback of its
 * launch. Ownership: a coroutine may be destroyed while it waits, by that thread; its launch goes on. One that waits
 * when the queue is destroyed goes on with -ECANCELED. Errors: a launch does not throw. What a task throws comes out of
 * whoever awaits it, result() or npu::run(). Coroutines of other types must not throw out of resume().
 */

#include <npu.h>

#include <cerrno>
#include <coroutine>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace npu {

/* What a coroutine and the callback of its launch share; belongs to both, since either may be the last. */
struct launch_state {
  std::coroutine_handle<> waiting; /* null: destroyed */
  npu_completion completion{};
};

/* ---- one launch ---- */

/* co_await gives the completion; its error is also that of a submission which was refused (npu_last_error() has the
 * text then). Move it nowhere: await it where it was made. */
class launch {
 public:
  /* Copies nothing: the jobs must exist until co_await has begun. */
  launch(npu_async *queue, npu_context *context, const npu_job_desc *jobs, unsigned int count) noexcept
      : queue_(queue), context_(context), jobs_(jobs), count_(count) {}
  launch(npu_async *queue, npu_context *context, const npu_job_desc &job) noexcept : launch(queue, context, &job, 1) {}
  launch(const launch &) = delete;
  launch &operator=(const launch &) = delete;
  ~launch() {
    if (state_) state_->waiting = nullptr;
  }

  bool await_ready() const noexcept { return false; }

  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    auto *const state = new (std::nothrow) launch_state{waiting};
    completion_.context = context_;
    completion_.count = count_;
    /* Once it is submitted another thread may resume, and end, the coroutine: nothing of it is touched any more. */
    state_ = state;
    const int error = state ? npu_async_submit(queue_, context_, jobs_, count_, finished, state) : -ENOMEM;
    if (!error) return true;
    state_ = nullptr;
    delete state;
    completion_.error = error;
    return false;
  }

  npu_completion await_resume() noexcept {
    if (!state_) return completion_;
    const npu_completion completion = state_->completion;
    state_ = nullptr;
    return completion;
  }

 private:
  static void finished(void *arg, const npu_completion *completion) {
    auto *const state = static_cast<launch_state *>(arg);
    state->completion = *completion;
    if (state->waiting) state->waiting.resume();
    delete state;
  }

  npu_async *queue_;
  npu_context *context_;
  const npu_job_desc *jobs_;
  unsigned int count_;
  launch_state *state_ = nullptr;
  npu_completion completion_{};
};

/* ---- coroutines for those who have none of their own ---- */

template <typename T>
struct task_result {
  std::optional<T> value;
  template <typename U>
  void return_value(U &&given) {
    value.emplace(std::forward<U>(given));
  }
  T take() { return std::move(*value); }
};

template <>
struct task_result<void> {
  void return_void() noexcept {}
  void take() noexcept {}
};

/* A coroutine that gives a T. It begins when it is awaited, or by start(); many may be started at once, and be awaited
 * or asked for their result later. Belongs to whoever has the object; destroying it ends the coroutine, wherever it
 * waits. */
template <typename T = void>
class [[nodiscard]] task {
 public:
  struct promise_type : task_result<T> {
    std::coroutine_handle<> after = std::noop_coroutine();
    std::exception_ptr thrown;
    bool started = false;

    task get_return_object() noexcept { return task(handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct continue_with {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().after;
        }
        void await_resume() noexcept {}
      };
      return continue_with{};
    }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
  };

  task(task &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  task &operator=(task &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~task() {
    if (handle_) handle_.destroy();
  }

  /* Runs it until it waits for the first time. */
  void start() {
    if (!std::exchange(handle_.promise().started, true)) handle_.resume();
  }
  bool done() const noexcept { return handle_.done(); }
  /* Of one that is done, once. */
  T result() {
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    return handle_.promise().take();
  }

  bool await_ready() const noexcept { return handle_.done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    handle_.promise().after = waiting;
    if (std::exchange(handle_.promise().started, true)) return std::noop_coroutine();
    return handle_;
  }
  T await_resume() { return result(); }

 private:
  using handle = std::coroutine_handle<promise_type>;
  explicit task(handle of) noexcept : handle_(of) {}
  handle handle_;
};

/* Starts a task and processes the queue until it is done. std::logic_error: it waits for something else than launches
 * of this queue. */
template <typename T>
T run(npu_async *queue, task<T> whole) {
  whole.start();
  while (!whole.done()) {
    const int called = npu_async_process(queue, 0, -1);
    if (called < 0) throw std::logic_error(npu_last_error());
    if (!called && !whole.done() && !npu_async_unfinished(queue))
      throw std::logic_error("npu::run: the task waits for something that is no launch of this queue");
  }
  return whole.result();
}

} /* namespace npu */

#endif /* NPU_ASYNC_HPP */
