// SPDX-License-Identifier: MIT
#include "libnpu/sim/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace npu::sim {
namespace {

constexpr uint64_t kPunch = 256 << 10;  // below, memset is cheaper than new page faults

}  // namespace

std::unique_ptr<Memory> Memory::create(const char *name, uint64_t bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (data != MAP_FAILED) return std::unique_ptr<Memory>(new Memory(fd, static_cast<uint8_t *>(data), bytes));
  }
  close(fd);
  return nullptr;
}

Memory::~Memory() {
  munmap(data_, bytes_);
  close(fd_);
}

void Memory::clear(uint64_t offset, uint64_t bytes) {
  if (bytes >= kPunch && fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                                   static_cast<off_t>(bytes)) == 0)
    return;
  memset(data_ + offset, 0, bytes);
}

void *Memory::map(uint64_t offset, uint64_t bytes, bool writable) const {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void *ptr = mmap(nullptr, bytes, protection, MAP_SHARED, fd_, static_cast<off_t>(offset));
  return ptr == MAP_FAILED ? nullptr : ptr;
}

}  // namespace npu::sim
