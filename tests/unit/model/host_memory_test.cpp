// SPDX-License-Identifier: MIT
// Host memory that a hostile program makes the chip take: page tables that map the same few pages over and over make
// operands larger than the card. A program of its own, since what is looked at is the process.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCard = 64 * kMiB;
constexpr uint64_t kVa = uint64_t{1} << 40, kAliased = 1024 * kMiB;

/// A figure of /proc/self/status in bytes: VmRSS, now; VmHWM, at its peak.
uint64_t memory(const std::string &name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  ADD_FAILURE() << "/proc/self/status has no " << name;
  return 0;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

class HostMemory : public testing::TestWithParam<const char *> {
 protected:
  static Machine::Options options() {
    setenv("NPU_MODEL_LIBDIR", NPU_TEST_LIBDIR, 0);
    Machine::Options o;
    o.lmem = 8 << 20;
    o.ddr = kCard;
    o.backend = GetParam();
    return o;
  }
  HostMemory() {
    // One leaf table of 512 constant pages, in pairs of the same, behind every 2 MiB of the range.
    const uint64_t pages = m.card_pages(512);
    for (unsigned i = 0; i < 512; ++i) m.map(0, kVa + i * kPage, pages + i / 2 * kPage, NPU_PTE_CONST);
    const uint64_t leaf = m.load(m.entry_of(0, kVa, 1));
    for (uint64_t at = kBlock; at < kAliased; at += kBlock) m.store(m.entry_of(0, kVa + at, 1), leaf);
  }
  /// 512 MiB of weights, from another address each time.
  JobSpec job(unsigned number) const {
    JobSpec j;
    j.regions = {Area{0, kVa + number * kPage, 512 * kMiB}.region(NPU_ACCESS_READ)};
    // Rows: enough for oneDNN's packed copy. The reference has none, and takes its time on an emulated processor.
    const uint32_t m = std::string_view(GetParam()) == "reference" ? 1 : 8;
    return j.tiu(with<npu_cmd_matmul>([m](npu_cmd_matmul &c) {
      c.out_addr = 4 << 20;
      c.wgt_region = 0;
      c.batch = 1;
      c.m = m;
      c.k = 1 << 16;
      c.n = 1 << 11;
    }));
  }
  Machine m{options()};
};

TEST_P(HostMemory, AliasedPagesDoNotMultiply) {
  constexpr uint64_t kCores = 2, kSmall = 32 * kMiB;
  for (unsigned core = 0; core < kCores; ++core) m.queue(core, {.core_mask = 1u << core});
  const uint64_t before = memory("VmRSS");
  forget_peak();
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned core = 0; core < kCores; ++core) m.queue(core).submit(job(kCores * i + core));
    for (unsigned core = 0; core < kCores; ++core) EXPECT_STATUS(m.queue(core).wait(), NPU_STATUS_OK);
  }
  // The weights of a step, which are no more than the card has, and the back end's form of them; and what is kept.
  const uint64_t peak = memory("VmHWM") - before;
  EXPECT_LT(peak / kMiB, (kCard + kCores * 2 * kCard + kSmall) / kMiB);
  const uint64_t kept = memory("VmRSS") - before;
  EXPECT_LT(kept / kMiB, (kCard + kSmall) / kMiB);
  m.reset();
  eventually([&] { return memory("VmRSS") < before + kSmall; }, "memory that a reset gives back");
  std::printf("MiB: %lu at the peak, %lu after the jobs, less than %lu after a reset\n", peak / kMiB, kept / kMiB,
              kSmall / kMiB);
}

TEST_P(HostMemory, CoresOfAJobGiveBackWhatTheirThreadsHeld) {
  // Weights that are not constant: each thread has a packed copy of its own.
  const Area weights = m.allocate(16 * kMiB);
  const std::vector<uint8_t> zeros(weights.bytes);
  m.put(weights, 0, zeros.data(), zeros.size());
  JobSpec j;
  j.regions = {weights.region()};
  for (unsigned core = 0; core < 2; ++core)
    j.at(core, kTiu).push_back(with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
      c.out_addr = 4 << 20;
      c.wgt_region = 0;
      c.batch = 1;
      c.m = 64;
      c.k = 1 << 12;
      c.n = 1 << 10;
    }));
  JobSpec small;
  for (unsigned core = 0; core < 2; ++core) small.at(core, kTiu).push_back(nop());
  EXPECT_STATUS(m.run(small), NPU_STATUS_OK);
  const uint64_t before = memory("VmRSS");
  EXPECT_STATUS(m.run(j), NPU_STATUS_OK);
  EXPECT_LT((memory("VmRSS") - before) / kMiB, 12u);
}

INSTANTIATE_TEST_SUITE_P(, HostMemory, testing::ValuesIn(backends()),
                         [](const auto &info) { return std::string(info.param); });

}  // namespace
}  // namespace npu::test
