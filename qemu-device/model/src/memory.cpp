// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace npu::model {

namespace {

constexpr uint64_t kBounceBytes = 256 * 1024;
constexpr uint64_t kKeepBytes = uint64_t{4} << 20;
constexpr uint64_t kLookPages = 4096;  // translated between two looks at the job's stop
constexpr uint64_t kAlign = 64;

/// Bytes from addr to the end of its page, at most limit.
uint64_t page_rest(uint64_t addr, uint64_t limit) { return std::min(limit, kPageBytes - addr % kPageBytes); }

/// Copies memory that others write: word by word, each read once.
void copy_shared(uint8_t *to, const uint8_t *from, uint64_t bytes) {
  if (reinterpret_cast<uintptr_t>(from) % 8 || reinterpret_cast<uintptr_t>(to) % 8 || bytes % 8) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes; i += 8)
    *reinterpret_cast<uint64_t *>(to + i) =
        __atomic_load_n(reinterpret_cast<const uint64_t *>(from + i), __ATOMIC_RELAXED);
}

}  // namespace

uint8_t *Buffer::reserve(uint64_t bytes) {
  if (bytes <= bytes_) return data_.get();
  if (bytes > SIZE_MAX - kAlign) return nullptr;
  data_.reset();
  bytes_ = (bytes + kAlign - 1) / kAlign * kAlign;
  data_.reset(static_cast<uint8_t *>(std::aligned_alloc(kAlign, bytes_)));
  if (!data_) bytes_ = 0;
  return data_.get();
}

void Buffer::trim() {
  if (bytes_ <= kKeepBytes) return;
  data_.reset();
  bytes_ = 0;
}

// ---- virtual memory ----

Fault Memory::run(uint64_t va, uint64_t limit, bool write, Run &out) {
  Translation first;
  if (Fault fault = mmu_.translate(tlb_, asid_, va, write, first)) return fault;
  out.bytes = std::min(first.bytes, limit);
  while (out.bytes < limit) {
    Translation next;
    if (mmu_.translate(tlb_, asid_, va + out.bytes, write, next)) break;
    if (next.system != first.system || next.addr != first.addr + out.bytes) break;
    out.bytes = std::min(out.bytes + next.bytes, limit);
  }
  out.data = first.system ? nullptr : ddr_ + first.addr;
  out.bus = first.addr;
  return {};
}

Fault Memory::bus_read(uint64_t va, const Run &run, void *buf, uint64_t &done) {
  if (board_.read(access(va), run.bus, buf, run.bytes)) {
    done += run.bytes;
    return {};
  }
  // Somewhere in the run: find the page.
  for (uint64_t at = 0; at < run.bytes;) {
    const uint64_t n = page_rest(run.bus + at, run.bytes - at);
    if (!board_.read(access(va + at), run.bus + at, static_cast<uint8_t *>(buf) + at, n))
      return {NPU_STATUS_DMA_ERROR, false, va + at};
    at += n;
    done += n;
  }
  return {};
}

Fault Memory::bus_write(uint64_t va, const Run &run, const void *buf) {
  if (board_.write(access(va), run.bus, buf, run.bytes)) return {};
  for (uint64_t at = 0; at < run.bytes;) {
    const uint64_t n = page_rest(run.bus + at, run.bytes - at);
    if (!board_.write(access(va + at), run.bus + at, static_cast<const uint8_t *>(buf) + at, n))
      return {NPU_STATUS_DMA_ERROR, true, va + at};
    at += n;
  }
  return {};
}

template <class Copy>
Fault Memory::read_with(uint64_t va, void *buf, uint64_t bytes, uint64_t &done, Copy copy) {
  done = 0;
  while (done < bytes) {
    Run r;
    if (Fault fault = run(va + done, bytes - done, false, r)) return fault;
    uint8_t *to = static_cast<uint8_t *>(buf) + done;
    if (!r.data) {
      if (Fault fault = bus_read(va + done, r, to, done)) return fault;
      continue;
    }
    copy(to, r.data, r.bytes);
    done += r.bytes;
  }
  return {};
}

Fault Memory::read(uint64_t va, void *buf, uint64_t bytes) {
  uint64_t done;
  return read_with(va, buf, bytes, done, std::memmove);
}

Fault Memory::fetch(uint64_t va, void *buf, uint64_t bytes, uint64_t &done) {
  return read_with(va, buf, bytes, done, copy_shared);
}

Fault Memory::write(uint64_t va, const void *buf, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    Run r;
    if (Fault fault = run(va + done, bytes - done, true, r)) return fault;
    const uint8_t *from = static_cast<const uint8_t *>(buf) + done;
    if (r.data)
      std::memmove(r.data, from, r.bytes);
    else if (Fault fault = bus_write(va + done, r, from))
      return fault;
    done += r.bytes;
  }
  return {};
}

Fault Memory::copy(uint64_t dst, uint64_t src, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    Run from, to;
    if (Fault fault = run(src + done, bytes - done, false, from)) return fault;
    if (Fault fault = run(dst + done, from.bytes, true, to)) return fault;
    from.bytes = to.bytes;
    if (!from.data && !to.data) from.bytes = to.bytes = std::min(to.bytes, kBounceBytes);
    if (Fault fault = transfer(dst + done, to, src + done, from)) return fault;
    done += to.bytes;
  }
  return {};
}

/// Between two runs of equal size.
Fault Memory::transfer(uint64_t dst, const Run &to, uint64_t src, const Run &from) {
  uint64_t unused = 0;
  if (from.data && to.data) {
    std::memmove(to.data, from.data, to.bytes);
    return {};
  }
  if (from.data) return bus_write(dst, to, from.data);
  if (to.data) return bus_read(src, from, to.data, unused);
  uint8_t *bounce = bounce_.reserve(kBounceBytes);
  if (!bounce) return {NPU_STATUS_INTERNAL, true, dst};
  if (Fault fault = bus_read(src, from, bounce, unused)) return fault;
  return bus_write(dst, to, bounce);
}

uint8_t *Memory::contiguous(uint64_t va, uint64_t bytes, bool write, Fault &fault) {
  Run r;
  fault = run(va, bytes, write, r);
  if (fault || !r.data) return nullptr;
  if (r.bytes == bytes) return r.data;
  Translation beyond;
  fault = mmu_.translate(tlb_, asid_, va + r.bytes, write, beyond);
  return nullptr;
}

/// Calls each(translation, fault) for the pages and blocks of a range until it returns false. False: the job has to
/// stop.
template <class Each>
bool Memory::for_pages(uint64_t va, uint64_t bytes, const Pace &pace, Each each) {
  uint64_t pages = 0;
  for (uint64_t done = 0; done < bytes;) {
    Translation t;
    const Fault fault = mmu_.translate(tlb_, asid_, va + done, false, t);
    if (!each(t, fault)) return true;
    done += t.bytes;
    if (++pages % kLookPages == 0 && !pace.look()) return false;
  }
  return true;
}

bool Memory::probe(uint64_t va, uint64_t bytes, const Pace &pace, Fault &fault) {
  return for_pages(va, bytes, pace, [&](const Translation &, const Fault &f) {
    fault = f;
    return !fault;
  });
}

bool Memory::constant(uint64_t va, uint64_t bytes, const Pace &pace, uint32_t &identity) {
  if (ddr_bytes_ && bytes > ddr_bytes_) return false;
  if (mmu_.find_constant(slot_, va, bytes, identity)) return true;
  bool all = true;
  // A hole is not reported here but where the data is used.
  const bool done = for_pages(va, bytes, pace, [&](const Translation &t, const Fault &fault) {
    all = !fault && t.constant && t.system == !ddr_bytes_;
    return all;
  });
  return done && all && mmu_.note_constant(slot_, va, bytes, identity);
}

// ---- local memory ----

LocalMemory::LocalMemory(uint32_t bytes)
    : bytes_(bytes),
      mapping_(mmap(nullptr, bytes + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<uint8_t *>(mapping_) + kGuard;
  if (mprotect(data_, bytes_, PROT_READ | PROT_WRITE) == 0) return;
  munmap(mapping_, bytes_ + 2 * kGuard);
  throw std::bad_alloc();
}

LocalMemory::~LocalMemory() { munmap(mapping_, bytes_ + 2 * kGuard); }

void LocalMemory::clear() {
  std::memset(data_, 0, dirty_);
  dirty_ = 0;
  origins_.clear();
}

}  // namespace npu::model
