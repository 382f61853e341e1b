// SPDX-License-Identifier: MIT
// A hash that finds candidates for equal contents.
#ifndef NPURT_FINGERPRINT_H
#define NPURT_FINGERPRINT_H

#include <algorithm>
#include <cstdint>
#include <span>

namespace npurt {

/// Samples a few hundred bytes from everywhere: a hash of all would cost more than it saves.
inline uint64_t fingerprint(std::span<const uint8_t> bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  const size_t step = std::max<size_t>(bytes.size() / 512, 1);
  for (size_t i = 0; i < bytes.size(); i += step) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h;
}

}  // namespace npurt

#endif  // NPURT_FINGERPRINT_H
