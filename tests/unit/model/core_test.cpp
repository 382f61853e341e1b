// SPDX-License-Identifier: MIT
// A core with arithmetic of the test's own: what it is given, and what becomes of jobs whose arithmetic fails.
#include "qemu-device/model/src/core.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "npu_isa.hpp"
#include "qemu-device/model/src/backend.h"

namespace npu::test {
namespace {

using namespace model;  // NOLINT: this file is about its parts

/// Calls a function of the test for each product.
class FakeBackend final : public Reference {
 public:
  const char *name() const override { return "fake"; }
  bool run(const npu_cmd_conv &, const void *, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override {
    return on_product(wgt, params.bias, psum, out);
  }
  bool run(const npu_cmd_matmul &, const void *, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override {
    return on_product(wgt, params.bias, psum, out);
  }

  std::function<bool(const Streamed &, const void *, const void *, void *)> on_product;
};

/// One core whose address space 0 has a block of 2 MiB at address 0: the job's only region.
class CoreTest : public testing::Test {
 protected:
  static constexpr uint64_t kBlock = 2 << 20;

  CoreTest()
      : ddr_(static_cast<uint8_t *>(std::aligned_alloc(kBlock, 2 * kBlock))),
        config_(make()),
        board_(calls(), this, faults_),
        mmu_(config_, board_, Core::kSlots, [](Mmu::Moved) {}),
        core_(0, config_, mmu_, board_, backend_) {
    std::memset(ddr_, 0, 2 * kBlock);
    store(0, 0x1000 | NPU_ASID_VALID);
    store(0x1000, 0x2000 | NPU_PTE_VALID);
    store(0x2000, 0x3000 | NPU_PTE_VALID);
    store(0x3000, kBlock | NPU_PTE_VALID | NPU_PTE_LARGE | NPU_PTE_CONST);
    job_.id = 1;
    job_.header.region_count = 1;
    job_.regions[0].bytes = kBlock;
    job_.regions[0].access = NPU_ACCESS_READ;
    job_.header.stream_count = 1;
    job_.streams[0].tiu_count = 2;
    npu_cmd_matmul c = hw::make<npu_cmd_matmul>();
    c.flags = NPU_CONV_BIAS;
    c.batch = c.m = 1;
    c.k = 3;
    c.n = 5;
    c.wgt_offset = 0x1000;
    c.param_offset = 0x2002;
    c.out_addr = 64;
    for (unsigned i = 0; i < 2; ++i) std::memcpy(memory(i * sizeof c), &c, sizeof c);
  }
  ~CoreTest() override { std::free(ddr_); }

  void store(uint64_t at, uint64_t v) { std::memcpy(ddr_ + at, &v, sizeof v); }
  uint8_t *memory(uint64_t at) { return ddr_ + kBlock + at; }
  JobResult run() {
    Core *const cores[] = {&core_};
    return run_job(cores, job_, 0, stop_);
  }

  uint8_t *const ddr_;
  const Config config_;
  Faults faults_;
  const Board board_;
  Mmu mmu_;
  FakeBackend backend_;
  Core core_;
  Job job_;
  std::atomic<Stop> stop_{Stop::None};

  std::string news_;

 private:
  static npu_model_board calls() {
    npu_model_board b{};
    b.dma_read = [](void *self, uint64_t addr, void *buf, size_t bytes) {
      std::memcpy(buf, static_cast<CoreTest *>(self)->ddr_ + addr, bytes);  // the bus shows the card's memory
      return 0;
    };
    b.trace = [](void *self, const char *kind, const char *text) {
      static_cast<CoreTest *>(self)->news_ += std::string(kind) + ": " + text;
    };
    return b;
  }
  Config make() {
    Config c;
    c.ddr = ddr_;
    c.ddr_bytes = 2 * kBlock;
    c.asids = 1;
    c.lmem_bytes = 4096;
    return c;
  }
};

TEST_F(CoreTest, HandsOverStreamedOperands) {
  unsigned calls = 0;
  backend_.on_product = [&](const Streamed &w, const void *bias, const void *psum, void *out) {
    EXPECT_EQ(w.bytes, 3u * 5 * 4);
    EXPECT_EQ(w.va, 0x1000u);
    EXPECT_TRUE(w.constant);
    EXPECT_EQ(w.fetch(w.arg), memory(0x1000)) << "in place";
    EXPECT_EQ(w.fetch(w.arg), memory(0x1000)) << "again";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bias) % 4, 0u) << "a copy, since it lies on an odd address";
    EXPECT_EQ(psum, nullptr);
    EXPECT_NE(out, nullptr);
    ++calls;
    return true;
  };
  const JobResult r = run();
  EXPECT_EQ(r.error.status, NPU_STATUS_OK);
  EXPECT_EQ(calls, 2u);
  // Not const, or not DDR: not constant.
  for (uint64_t flags : {NPU_PTE_WRITE, NPU_PTE_CONST | NPU_PTE_SYSTEM}) {
    store(0x3000, kBlock | NPU_PTE_VALID | NPU_PTE_LARGE | flags);
    mmu_.invalidate(0, 0, kBlock);
    backend_.on_product = [&](const Streamed &w, const void *, const void *, void *) {
      EXPECT_FALSE(w.constant);
      EXPECT_EQ(w.fetch(w.arg) == memory(0x1000), flags == NPU_PTE_WRITE);
      ++calls;
      return true;
    };
    EXPECT_EQ(run().error.status, NPU_STATUS_OK);
  }
  EXPECT_EQ(calls, 6u);
}

TEST_F(CoreTest, DisagreementOfBackEndsIsInternal) {
  unsigned calls = 0;
  backend_.on_product = [&](const Streamed &, const void *, const void *, void *) {
    if (++calls == 2) report_mismatch("MATMUL: element 0 is 1 and 2");
    return true;
  };
  JobResult r = run();
  EXPECT_EQ(r.error.status, NPU_STATUS_INTERNAL);
  EXPECT_EQ(r.error.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(r.error.command, 1u);
  EXPECT_EQ(news_, "mismatch: MATMUL: element 0 is 1 and 2");
  r = run();
  EXPECT_EQ(r.error.status, NPU_STATUS_OK) << "the next job is another";
}

TEST_F(CoreTest, RefusalWithoutAFaultIsInternal) {
  backend_.on_product = [](const Streamed &, const void *, const void *, void *) { return false; };
  const JobResult r = run();
  EXPECT_EQ(r.error.status, NPU_STATUS_INTERNAL);
  EXPECT_EQ(r.error.command, 0u);
}

TEST_F(CoreTest, ExceptionEndsTheJobOnly) {
  backend_.on_product = [](const Streamed &, const void *, const void *, void *) -> bool {
    throw std::runtime_error("no");
  };
  const JobResult r = run();
  EXPECT_EQ(r.error.status, NPU_STATUS_INTERNAL);
  EXPECT_EQ(r.core, 0);
  mmu_.invalidate(0, 0, 0);
  EXPECT_EQ(mmu_.done(), 1u) << "no access is left open";
  backend_.on_product = [](const Streamed &, const void *, const void *, void *) { return true; };
  EXPECT_EQ(run().error.status, NPU_STATUS_OK);
}

}  // namespace
}  // namespace npu::test
