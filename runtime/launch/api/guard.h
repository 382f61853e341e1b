// SPDX-License-Identifier: MIT
// The border to C: nothing throws across it, and every failure has a message.
#ifndef NPURT_GUARD_H
#define NPURT_GUARD_H

#include <exception>
#include <new>

#include "runtime/launch/error.h"
#include "runtime/launch/exec/runtime.h"

namespace npurt {

/// Runs `body` (returns a Status); exceptions of the standard library (memory) become a failure, too.
template <class Body>
bool guarded(const char *function, Body body) {
  const TracedCall call(function);
  try {
    return report(function, body());
  } catch (const std::bad_alloc &) {
    return report(function, Status::error("out of system memory"));
  } catch (const std::exception &e) {
    return report(function, Status::error(std::string("internal error: ") + e.what()));
  }
}

inline Status no_runtime() {
  return Status::error(Runtime::forked() ? "this pointer is not a runtime's of this process: it was destroyed, or "
                                           "belongs to the process that this one was forked from"
                                         : "this pointer is not a runtime's, or the runtime was destroyed");
}

/// The same for functions on a runtime: `body` gets it.
template <class Body>
bool guarded(const char *function, void *p_bmrt, Body body) {
  return guarded(function, [&]() -> Status {
    if (!p_bmrt) return Status::error("null pointer instead of a runtime");
    const Runtime::Use use(p_bmrt);
    if (!use) return no_runtime();
    return body(*static_cast<Runtime *>(p_bmrt));
  });
}

}  // namespace npurt

#endif  // NPURT_GUARD_H
