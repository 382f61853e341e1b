// SPDX-License-Identifier: MIT
// Status codes and the log of BMLIB.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libnpu/bmlib/handle.h"
#include "libnpu/src/private.h"

namespace npu::bm {
namespace {

using Callback = void (*)(const char *tag, int level, const char *fmt, va_list args);

int level_from_environment() {
  const char *quiet = getenv("NPU_QUIET");
  return quiet && !strcmp(quiet, "1") ? BMLIB_LOG_QUIET : BMLIB_LOG_ERROR;
}

std::atomic<int> log_level{level_from_environment()};
std::atomic<Callback> log_callback{nullptr};

const char *level_name(int level) {
  if (level <= BMLIB_LOG_PANIC) return "panic";
  if (level <= BMLIB_LOG_FATAL) return "fatal";
  if (level <= BMLIB_LOG_ERROR) return "error";
  if (level <= BMLIB_LOG_WARNING) return "warning";
  if (level <= BMLIB_LOG_INFO) return "info";
  return level <= BMLIB_LOG_VERBOSE ? "verbose" : level <= BMLIB_LOG_DEBUG ? "debug" : "trace";
}

void to_stderr(const char *tag, int level, const char *fmt, va_list args) {
  char text[768];
  vsnprintf(text, sizeof(text), fmt, args);
  fprintf(stderr, "[%s][%s] %s", tag, level_name(level), text);
}

bm_status_t status_of(int error) {
  switch (error) {
    case 0:
      return BM_SUCCESS;
    case -EINVAL:
    case -ENOENT:
    case -EFAULT:
      return BM_ERR_PARAM;
    case -ENOMEM:
    case -ENOSPC:
      return BM_ERR_NOMEM;
    case -ETIME:
      return BM_ERR_TIMEOUT;
    case -EBUSY:
      return BM_ERR_BUSY;
    case -ENODEV:
      return BM_ERR_DEVNOTREADY;
    case -EOPNOTSUPP:
      return BM_NOT_SUPPORTED;
    default:
      return BM_ERR_FAILURE;
  }
}

}  // namespace

bm_status_t bad_handle(const char *where) { return npu_bm_status(-EINVAL, where); }

}  // namespace npu::bm

using namespace npu::bm;

bm_status_t npu_bm_status(int error, const char *where) {
  if (error) bmlib_log("bmlib", BMLIB_LOG_ERROR, "%s: %s\n", where, npu_last_error());
  return status_of(error);
}

void npu_bm_log(int level, const char *text) { npu_private_log(level, text); }

int bmlib_log_get_level(void) { return log_level; }

void bmlib_log_set_level(int level) { log_level = level; }

void bmlib_log_set_callback(void (*callback)(const char *, int, const char *, va_list)) { log_callback = callback; }

void bmlib_log(const char *tag, int level, const char *fmt, ...) {
  if (level > log_level.load(std::memory_order_relaxed)) return;
  const Callback callback = log_callback.load();
  va_list args;
  va_start(args, fmt);
  (callback ? callback : to_stderr)(tag, level, fmt, args);
  va_end(args);
}
