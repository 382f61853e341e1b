// SPDX-License-Identifier: MIT
// What goes wrong, as an exception: qnpu.Error in Python.
#ifndef NPU_PYTHON_FAILURE_H
#define NPU_PYTHON_FAILURE_H

#include <Python.h>

#include <optional>
#include <stdexcept>

#include "bmruntime_interface.h"
#include "npu.h"

namespace npu::python {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text of the thread's last failure in BMLIB or libnpu; of the runtime.
[[noreturn]] inline void library_failed() { throw Failure(npu_last_error()); }
[[noreturn]] inline void runtime_failed() { throw Failure(bmrt_last_error()); }

inline void check(bm_status_t status) {
  if (status != BM_SUCCESS) library_failed();
}

/// Lets other Python threads run until the end of the scope; for destructors, which threads with and without the
/// interpreter's lock get to.
class WithoutLock {
 public:
  WithoutLock() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutLock() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutLock(const WithoutLock &) = delete;
  WithoutLock &operator=(const WithoutLock &) = delete;

 private:
  PyThreadState *state_;
};

}  // namespace npu::python

#endif  // NPU_PYTHON_FAILURE_H
