// SPDX-License-Identifier: MIT
#include "error.h"

#include "npu_bm_internal.h"

namespace npurt {

namespace {
thread_local std::string last;
}

bool report(const char *function, const Reason &reason) {
  if (reason.empty()) return true;
  last = std::string(function) + ": " + reason;
  npu_bm_log(NPU_LOG_ERROR, last.c_str());
  return false;
}

const char *last_error() { return last.c_str(); }

}  // namespace npurt
