// SPDX-License-Identifier: MIT
// The same for each sample, on several threads.
#ifndef NPU_QUANTIZE_PARALLEL_H
#define NPU_QUANTIZE_PARALLEL_H

#include <functional>

#include "compiler/quantize/options.h"

namespace npu::quantize {

/// Threads that for_each() starts at most, with the caller's.
unsigned thread_count(const Options &options, size_t count);

/// Calls f(index, thread) for 0 to count - 1, in any order, with threads numbered from 0, and tells how far that is. Of
/// several errors the one of the smallest index is returned.
Status for_each(size_t count, const char *what, const Options &options,
                const std::function<Status(size_t index, size_t thread)> &f);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_PARALLEL_H
