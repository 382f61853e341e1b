// SPDX-License-Identifier: MIT
// The border to C: nothing throws across it, and every failure has a message.
#ifndef NPURT_GUARD_H
#define NPURT_GUARD_H

#include <cxxabi.h>

#include <exception>
#include <new>

#include "runtime/launch/error.h"
#include "runtime/launch/exec/runtime.h"

namespace npurt {

/// The error for the exception that is being handled. The end of a thread is none.
inline Status thrown() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status::error("out of system memory");
  } catch (const std::exception &e) {
    return Status::error(std::string("internal error: ") + e.what());
  } catch (const abi::__forced_unwind &) {
    throw;
  } catch (...) {
    return Status::error("internal error: an exception of an unknown type");
  }
}

/// Runs `body` (returns a Status).
template <class Body>
bool guarded(const char *function, Body body) {
  const TracedCall call(function);
  try {
    return report(function, body());
  } catch (...) {
    return report(function, thrown());
  }
}

inline Status no_runtime(const void *p_bmrt) {
  if (!p_bmrt) return Status::error("null pointer instead of a runtime");
  return Status::error(Runtime::forked() ? "this pointer is not a runtime's of this process: it was destroyed, or "
                                           "belongs to the process that this one was forked from"
                                         : "this pointer is not a runtime's, or the runtime was destroyed");
}

/// The same for functions on a runtime: `body` gets it.
template <class Body>
bool guarded(const char *function, void *p_bmrt, Body body) {
  const TracedCall call(function);
  try {
    Status status;
    {
      const Runtime::Use use(p_bmrt);
      status = use ? body(*static_cast<Runtime *>(p_bmrt)) : no_runtime(p_bmrt);
    }
    return report(function, status);  // may call the program, which may destroy the runtime
  } catch (...) {
    return report(function, thrown());
  }
}

}  // namespace npurt

#endif  // NPURT_GUARD_H
