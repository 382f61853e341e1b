// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libnpu/src/internal.h"

namespace npu {
namespace {

struct Sink {
  std::mutex mutex;
  std::atomic<int> level{NPU_LOG_OFF};
  npu_log_fn fn = nullptr;  // under mutex
  void *arg = nullptr;      // under mutex
};

int level_from_environment() {
  static const char *const names[] = {"debug", "info", "warning", "error"};
  const char *text = getenv("NPU_LOG");
  if (!text || !*text) return NPU_LOG_OFF;
  for (int level = NPU_LOG_DEBUG; level <= NPU_LOG_ERROR; level++)
    if (!strcmp(text, names[level])) return level;
  fprintf(stderr, "npu: NPU_LOG=%s: expected debug, info, warning or error\n", text);
  return NPU_LOG_OFF;
}

// Never destroyed: threads may log while the process exits.
Sink &sink() {
  static Sink *const s = [] {
    auto *created = new Sink;
    created->level = level_from_environment();
    return created;
  }();
  return *s;
}

}  // namespace

void tell(int level, const char *text) {
  Sink &s = sink();
  npu_log_fn fn;
  void *arg;
  {
    std::lock_guard lock(s.mutex);
    fn = s.fn;
    arg = s.arg;
  }
  if (fn)
    fn(arg, level, text);
  else
    fprintf(stderr, "npu: %s\n", text);
}

void log(int level, const char *format, ...) {
  if (level < sink().level.load(std::memory_order_relaxed)) return;
  char text[640];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  tell(level, text);
}

}  // namespace npu

void npu_set_log(int level, npu_log_fn fn, void *arg) {
  npu::Sink &s = npu::sink();
  std::lock_guard lock(s.mutex);
  s.level = level;
  s.fn = fn;
  s.arg = arg;
}
