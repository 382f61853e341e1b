// SPDX-License-Identifier: MIT
// The border to C: nothing throws across it, and every failure has a reason.
#ifndef NPURT_GUARD_H
#define NPURT_GUARD_H

#include <exception>
#include <new>

#include "error.h"
#include "runtime.h"

namespace npurt {

/// Runs `body` (returns a Reason); exceptions of the standard library (memory) become a reason, too.
template <class Body>
bool guarded(const char *function, Body body) {
  const TracedCall call(function);
  try {
    return report(function, body());
  } catch (const std::bad_alloc &) {
    return report(function, "out of system memory");
  } catch (const std::exception &e) {
    return report(function, std::string("internal error: ") + e.what());
  }
}

inline constexpr const char *kNoRuntime = "this pointer is not a runtime's, or the runtime was destroyed";

/// The same for functions on a runtime: `body` gets it.
template <class Body>
bool guarded(const char *function, void *p_bmrt, Body body) {
  return guarded(function, [&]() -> Reason {
    if (!p_bmrt) return "null pointer instead of a runtime";
    if (!Runtime::exists(p_bmrt)) return kNoRuntime;
    return body(*static_cast<Runtime *>(p_bmrt));
  });
}

}  // namespace npurt

#endif  // NPURT_GUARD_H
