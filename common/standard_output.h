// SPDX-License-Identifier: MIT
// Whether what a program has printed was written. Needs nothing but the standard library.
#ifndef NPU_COMMON_STANDARD_OUTPUT_H
#define NPU_COMMON_STANDARD_OUTPUT_H

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace npu {

/// For the end of main(): `status`, or 1 where it is 0 and standard output could not be written, which is said then.
inline int written(int status, const char *program) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;  // before std::cout's flush, which would lose the reason
  const bool streamed = static_cast<bool>(std::cout.flush());
  if (streamed && flushed && !std::ferror(stdout)) return status;
  // What failed in an earlier call has left no reason; one more byte fails for the same.
  if (!errno && std::fputc('\n', stdout) != EOF) (void)std::fflush(stdout);
  std::fprintf(stderr, "%s: standard output: %s\n", program, errno ? std::strerror(errno) : "it cannot be written");
  return status ? status : 1;
}

}  // namespace npu

#endif  // NPU_COMMON_STANDARD_OUTPUT_H
