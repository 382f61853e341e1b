// SPDX-License-Identifier: MIT
#include "error.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "npu_bm_internal.h"

namespace npurt {

namespace {
thread_local std::string last;

struct Callback {
  void (*fn)(void *arg, const char *text) = nullptr;
  void *arg = nullptr;
};
std::mutex callback_mutex;
Callback callback;  // guarded by callback_mutex

Callback current_callback() {
  std::lock_guard lock(callback_mutex);
  return callback;
}

/// BMRT_LOG_VERSION is the level from which on a program wants to see the runtime's news; 2 is that of errors.
bool wants_errors() {
  const char *level = std::getenv("BMRT_LOG_VERSION");
  return level && *level && std::atoi(level) <= 2;
}
}  // namespace

bool report(const char *function, const Reason &reason) {
  if (reason.empty()) return true;
  last = std::string(function) + ": " + reason;
  npu_bm_log(NPU_LOG_ERROR, last.c_str());
  if (wants_errors()) std::fprintf(stderr, "[BMRT] %s\n", last.c_str());
  if (const Callback c = current_callback(); c.fn) c.fn(c.arg, last.c_str());
  return false;
}

const char *last_error() { return last.c_str(); }

void set_error_callback(void (*fn)(void *arg, const char *text), void *arg) {
  std::lock_guard lock(callback_mutex);
  callback = {fn, arg};
}

}  // namespace npurt
