// SPDX-License-Identifier: MIT
#include "libnpu/src/shadow.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace npu {
namespace {

constexpr uint64_t kStep = 256;  // compared at once
constexpr size_t kWriters = 64;  // remembered

}  // namespace

std::unique_ptr<Shadow> Shadow::create(const uint8_t *mapping, uint64_t bytes) {
  Bytes seen(new (std::nothrow) uint8_t[bytes]), states(new (std::nothrow) uint8_t[bytes]());
  if (!seen || !states) return nullptr;
  memcpy(seen.get(), mapping, bytes);
  return std::unique_ptr<Shadow>(new Shadow(mapping, std::move(seen), std::move(states)));
}

void Shadow::look(const Extent &extent, const std::vector<Extent> &chip) {
  const auto by_chip = [&](uint64_t at) {
    return std::any_of(chip.begin(), chip.end(), [at](const Extent &e) { return e.contains(at); });
  };
  const uint64_t end = extent.offset + extent.size;
  for (uint64_t at = extent.offset; at < end;) {
    const uint64_t stop = std::min(end, at + kStep);
    if (memcmp(memory_ + at, seen_.get() + at, stop - at) != 0)
      for (uint64_t i = at; i < stop; i++) {
        // Read once: the program may be writing it.
        const uint8_t now = __atomic_load_n(memory_ + i, __ATOMIC_RELAXED);
        if (now == seen_[i]) continue;
        seen_[i] = now;
        if (states_[i] != kDirty) states_[i] = by_chip(i) ? kStale : kDirty;
      }
    at = stop;
  }
}

void Shadow::synchronize(const Extent &extent) {
  memcpy(seen_.get() + extent.offset, memory_ + extent.offset, extent.size);
  memset(states_.get() + extent.offset, kClean, extent.size);
}

Difference Shadow::find(const Extent &extent, State state) const {
  const uint8_t *const begin = states_.get() + extent.offset, *const end = begin + extent.size;
  const void *const first = memchr(begin, state, extent.size);
  if (!first) return {};
  const auto *const from = static_cast<const uint8_t *>(first);
  return {static_cast<uint64_t>(from - states_.get()), static_cast<uint64_t>(std::count(from, end, state))};
}

void Shadow::wrote(const Writer &writer) {
  const auto same = std::find_if(writers_.begin(), writers_.end(), [&](const Writer &w) {
    return w.extent.offset == writer.extent.offset && w.extent.size == writer.extent.size;
  });
  if (same != writers_.end())
    writers_.erase(same);
  else if (writers_.size() == kWriters)
    writers_.erase(writers_.begin());
  writers_.push_back(writer);
}

const Writer *Shadow::writer_of(uint64_t offset) const {
  const auto it =
      std::find_if(writers_.rbegin(), writers_.rend(), [&](const Writer &w) { return w.extent.contains(offset); });
  return it == writers_.rend() ? nullptr : &*it;
}

std::string text_of(const Difference &difference) {
  char text[80];
  snprintf(text, sizeof(text), "%llu byte%s from offset %#llx on", static_cast<unsigned long long>(difference.count),
           difference.count == 1 ? "" : "s", static_cast<unsigned long long>(difference.first));
  return text;
}

}  // namespace npu
