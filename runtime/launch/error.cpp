// SPDX-License-Identifier: MIT
#include "runtime/launch/error.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "bmruntime_log.h"
#include "npu.h"
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

constexpr int kUnset = -2;
std::atomic<int> set_level{kUnset};

/// Messages below this level are not printed.
int log_level() {
  if (const int level = set_level; level != kUnset) return level;
  const char *level = std::getenv("BMRT_LOG_VERSION");
  return level && *level ? std::atoi(level) : static_cast<int>(BMRT_LogLevel::WRONG);
}
}  // namespace

bool report(const char *function, const Status &status) {
  if (status.ok()) return true;
  last = std::string(function) + ": " + status.message();
  npu_bm_log(NPU_LOG_ERROR, last.c_str());
  if (const Callback c = current_callback(); c.fn)
    c.fn(c.arg, last.c_str());
  else if (log_level() <= static_cast<int>(BMRT_LogLevel::WRONG))
    bmlib_log("BMRT", BMLIB_LOG_ERROR, "%s\n", last.c_str());
  return false;
}

const char *last_error() { return last.c_str(); }

void set_error_callback(void (*fn)(void *arg, const char *text), void *arg) {
  std::lock_guard lock(callback_mutex);
  callback = {fn, arg};
}

}  // namespace npurt

BMRT_LogLevel bmrt_get_current_log_level(void) { return static_cast<BMRT_LogLevel>(npurt::log_level()); }

void bmrt_set_current_log_level(BMRT_LogLevel level) {
  npurt::set_level = std::clamp(static_cast<int>(level), -1, static_cast<int>(BMRT_LogLevel::FATAL));
}
