// SPDX-License-Identifier: MIT
// Failures: internal functions return a Status, whose message the C API keeps for bmrt_last_error().
#ifndef NPURT_ERROR_H
#define NPURT_ERROR_H

#include "common/status.h"
#include "npu.h"

namespace npurt {

using npu::Status;

/// The failure of the calling thread's last call of libnpu or BMLIB.
inline Status npu_error() { return Status::error(npu_last_error()); }
/// What a call of libnpu has returned: 0, or a negative errno.
inline Status npu_status(int result) { return result == 0 ? Status() : npu_error(); }

/// Keeps the message of a failure for the calling thread and logs it. Returns status.ok().
bool report(const char *function, const Status &status);
const char *last_error();
/// fn(arg, text) for every failure from now on; null: none.
void set_error_callback(void (*fn)(void *arg, const char *text), void *arg);

}  // namespace npurt

#endif  // NPURT_ERROR_H
