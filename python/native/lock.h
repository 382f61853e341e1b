// SPDX-License-Identifier: MIT
// The interpreter's lock, and threads that are on their way without it.
#ifndef NPU_PYTHON_LOCK_H
#define NPU_PYTHON_LOCK_H

#include <Python.h>

#include <atomic>

namespace npu::python {

/// Lets other Python threads run until the end of the scope. For threads with and without the lock: destructors are
/// called by both.
class WithoutLock {
 public:
  WithoutLock() {
    if (!Py_IsInitialized() || !PyGILState_Check()) return;
    ++outside_;
    if (ending_)
      leave();
    else
      state_ = PyEval_SaveThread();
  }
  ~WithoutLock() {
    if (!state_) return;
    PyEval_RestoreThread(state_);
    leave();
  }
  WithoutLock(const WithoutLock &) = delete;
  WithoutLock &operator=(const WithoutLock &) = delete;

  /// The interpreter is about to end, which is the end of a thread that wants the lock back, wherever that is. Waits
  /// for those that are without it; from now on they keep it.
  static void end() {
    ending_ = true;
    PyThreadState *const state = PyEval_SaveThread();
    for (int count; (count = outside_) != 0;) outside_.wait(count);
    PyEval_RestoreThread(state);
  }
  /// In a forked process the other threads are not there.
  static void forked() { outside_ = 0; }

 private:
  static void leave() {
    if (--outside_ == 0) outside_.notify_all();
  }

  inline static std::atomic<int> outside_{0};
  inline static std::atomic<bool> ending_{false};
  PyThreadState *state_ = nullptr;
};

}  // namespace npu::python

#endif  // NPU_PYTHON_LOCK_H
