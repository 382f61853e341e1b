// SPDX-License-Identifier: MIT
#include "libnpu/src/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace npu {
namespace {

constexpr uint64_t kStep = 256;  // compared at once
constexpr size_t kWriters = 64;  // remembered

/// Calls use(i) for every byte of [offset, offset + size) in which a and b differ.
template <typename Use>
void each_difference(const uint8_t *a, const uint8_t *b, uint64_t offset, uint64_t size, Use use) {
  const uint64_t end = offset + size;
  for (uint64_t at = offset; at < end;) {
    const uint64_t piece = std::min(kStep, end - at);
    if (memcmp(a + at, b + at, piece) != 0)
      for (uint64_t i = at; i < at + piece; i++)
        if (a[i] != b[i]) use(i);
    at += piece;
  }
}

Difference compare(const uint8_t *a, const uint8_t *b, uint64_t offset, uint64_t size) {
  Difference d;
  each_difference(a, b, offset, size, [&](uint64_t i) {
    if (!d.count++) d.first = i;
  });
  return d;
}

}  // namespace

std::unique_ptr<Shadow> Shadow::create(uint8_t *memory, uint64_t bytes) {
  std::unique_ptr<uint8_t[]> base(new (std::nothrow) uint8_t[bytes]);
  if (!base) return nullptr;
  void *cpu = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cpu == MAP_FAILED) return nullptr;
  std::unique_ptr<Shadow> shadow(new Shadow(memory, static_cast<uint8_t *>(cpu), bytes, std::move(base)));
  memcpy(shadow->base_.get(), memory, bytes);
  memcpy(cpu, shadow->base_.get(), bytes);
  return shadow;
}

Shadow::~Shadow() {
  if (cpu_) munmap(cpu_, bytes_);
}

void Shadow::flush(uint64_t offset, uint64_t size) {
  each_difference(cpu_, base_.get(), offset, size, [this](uint64_t i) { memory_[i] = base_[i] = cpu_[i]; });
}

Difference Shadow::invalidate(uint64_t offset, uint64_t size) {
  const Difference lost = dirty(offset, size);
  memcpy(base_.get() + offset, memory_ + offset, size);
  memcpy(cpu_ + offset, base_.get() + offset, size);
  return lost;
}

Difference Shadow::dirty(uint64_t offset, uint64_t size) const { return compare(cpu_, base_.get(), offset, size); }

Difference Shadow::stale(uint64_t offset, uint64_t size) const { return compare(memory_, base_.get(), offset, size); }

void Shadow::wrote(const Writer &writer) {
  const auto same = std::find_if(writers_.begin(), writers_.end(),
                                 [&](const Writer &w) { return w.offset == writer.offset && w.size == writer.size; });
  if (same != writers_.end())
    writers_.erase(same);
  else if (writers_.size() == kWriters)
    writers_.erase(writers_.begin());
  writers_.push_back(writer);
}

const Writer *Shadow::writer_of(uint64_t offset) const {
  const auto it = std::find_if(writers_.rbegin(), writers_.rend(),
                               [&](const Writer &w) { return offset >= w.offset && offset - w.offset < w.size; });
  return it == writers_.rend() ? nullptr : &*it;
}

std::string text_of(const Difference &difference) {
  char text[80];
  snprintf(text, sizeof(text), "%llu byte%s from offset %#llx on", static_cast<unsigned long long>(difference.count),
           difference.count == 1 ? "" : "s", static_cast<unsigned long long>(difference.first));
  return text;
}

}  // namespace npu
