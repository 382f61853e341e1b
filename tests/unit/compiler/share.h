// SPDX-License-Identifier: MIT
// How many random networks a test makes: with sanitizers, where each takes ten times as long, there are fewer.
#ifndef NPU_TEST_COMPILER_SHARE_H
#define NPU_TEST_COMPILER_SHARE_H

namespace npu::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr unsigned kShare = 8;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr unsigned kShare = 8;
#else
inline constexpr unsigned kShare = 1;
#endif
#else
inline constexpr unsigned kShare = 1;
#endif

/// A part of a number that is meant for a build without sanitizers.
constexpr unsigned share_of(unsigned count) { return count / kShare; }

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_SHARE_H
