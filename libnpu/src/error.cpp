// SPDX-License-Identifier: MIT
#include <time.h>

#include <cstdarg>
#include <cstdio>

#include "libnpu/src/internal.h"

namespace npu {
namespace {

// Plain storage: usable at any time of a thread's and the process' life.
thread_local char last_error[512];

}  // namespace

int fail(int error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(last_error, sizeof(last_error), format, args);
  va_end(args);
  log(NPU_LOG_DEBUG, "%s (%d)", last_error, error);
  return error;
}

std::string bytes_text(uint64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, unit++;
  char text[32];
  snprintf(text, sizeof(text), "%.*f %s", value == static_cast<double>(static_cast<uint64_t>(value)) ? 0 : 1, value,
           units[unit]);
  return text;
}

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

int64_t deadline_of(int64_t timeout_ns) {
  const int64_t now = now_ns();
  return timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

}  // namespace npu

const char *npu_last_error(void) { return npu::last_error; }
