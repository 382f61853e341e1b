// SPDX-License-Identifier: MIT
// Reasons of failure: internal functions return an empty string on success, else the reason; the C API keeps it for
// bmrt_last_error().
#ifndef NPURT_ERROR_H
#define NPURT_ERROR_H

#include <string>

namespace npurt {

/// Text of a failure, empty for success.
using Reason = std::string;

/// Keeps the reason for the calling thread and logs it. Returns reason.empty().
bool report(const char *function, const Reason &reason);
const char *last_error();
/// fn(arg, text) for every failure from now on; null: none.
void set_error_callback(void (*fn)(void *arg, const char *text), void *arg);

}  // namespace npurt

#endif  // NPURT_ERROR_H
