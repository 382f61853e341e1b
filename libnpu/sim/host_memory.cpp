// SPDX-License-Identifier: MIT
#include "libnpu/sim/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <string>

namespace npu::sim {
namespace {

constexpr uint64_t kLeast = uint64_t{512} << 20, kMost = uint64_t{64} << 30;

/// The number in a file; UINT64_MAX: there is none, which is "max" of a control group.
uint64_t number_in(const std::filesystem::path &path) {
  uint64_t number = 0;
  std::ifstream file(path);
  return file >> number ? number : UINT64_MAX;
}

/// The least limit of the process's control groups, of version 2 and, in containers, of version 1.
uint64_t group_limit() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  uint64_t limit = number_in(root / "memory/memory.limit_in_bytes");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4); !group.empty(); group = group.parent_path())
      limit = std::min(limit, number_in(root / group / "memory.max"));
  }
  return std::min(limit, number_in(root / "memory.max"));
}

}  // namespace

uint64_t host_memory() {
  // Without overcommitment a mapping takes all of its memory at once.
  if (number_in("/proc/sys/vm/overcommit_memory") == 2) return 0;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    bytes = std::min<uint64_t>(bytes, addresses.rlim_cur);
  return std::min(bytes, group_limit());
}

uint64_t default_ddr_bytes(uint64_t host_bytes, uint32_t cards) {
  return std::clamp(std::bit_floor(host_bytes / 2 / std::max(cards, 1u)), kLeast, kMost);
}

}  // namespace npu::sim
