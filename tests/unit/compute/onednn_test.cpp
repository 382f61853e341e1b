// SPDX-License-Identifier: MIT
// What only the oneDNN back end has: packed copies of constant operands, primitives kept by threads, and a module that
// may be missing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/unit/compute/oracle.h"

namespace npu::test {
namespace {

// A constant operand that counts how often it is read and may change its contents.
struct Sealed {
  Values values;
  std::atomic<int> fetches = 0;
  static const void *fetch(void *arg) {
    auto *self = static_cast<Sealed *>(arg);
    ++self->fetches;
    return self->values.data();
  }
  model::Streamed at(uint32_t asid, uint64_t va) { return {fetch, this, values.size() * 4, true, asid, va}; }
};

// A 1x1 convolution whose result is the sum of the weights of each output channel.
struct Sums {
  npu_cmd_conv c = hw::make<npu_cmd_conv>();
  Values in = Values(64, 1.0f), out = Values(32);
  Sums() {
    c.n = c.ih = c.iw = c.oh = c.ow = c.groups = 1;
    c.kh = c.kw = c.sh = c.sw = c.dh = c.dw = 1;
    c.ic = 64;
    c.oc = 32;
  }
  float first(model::Backend &b, const model::Streamed &w) {
    EXPECT_TRUE(b.run(c, in.data(), w, nullptr, nullptr, out.data()));
    for (const float x : out) EXPECT_EQ(x, out[0]);
    return out[0];
  }
};

class Onednn : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = make_backend("onednn");
    ASSERT_TRUE(backend_);
  }
  std::unique_ptr<model::Backend> backend_;
};

TEST_F(Onednn, PartialSumsMayOverlapTheResult) {
  Sums sums;
  Sealed w{Values(2048, 1.0f)};
  Values both(40);
  for (size_t i = 0; i < both.size(); ++i) both[i] = static_cast<float>(i);
  EXPECT_TRUE(backend_->run(sums.c, sums.in.data(), w.at(3, 0x1000), nullptr, both.data(), both.data() + 8));
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(both[8 + i], static_cast<float>(i) + 64);
  auto m = hw::make<npu_cmd_matmul>();
  m.batch = m.m = 1;
  m.k = 64;
  m.n = 32;
  for (size_t i = 0; i < both.size(); ++i) both[i] = static_cast<float>(i);
  EXPECT_TRUE(backend_->run(m, sums.in.data(), w.at(3, 0x1000), nullptr, both.data() + 8, both.data()));
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(both[i], static_cast<float>(i) + 72);
}

TEST_F(Onednn, NumberedOperandsArePackedOnceForTheThread) {
  Sums sums;
  Sealed w{Values(2048, 1.0f)};
  model::Streamed numbered = w.at(3, 0x1000);
  numbered.constant = false;
  numbered.serial = 77;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sums.first(*backend_, numbered), 64);
  EXPECT_EQ(w.fetches, 1);
  numbered.serial = 78;
  w.values.assign(2048, 2.0f);
  EXPECT_EQ(sums.first(*backend_, numbered), 128);
  EXPECT_EQ(w.fetches, 2);
}

TEST_F(Onednn, ConstantOperandsAreReadOnceUntilForgotten) {
  Sums sums;
  Sealed w{Values(2048, 1.0f)};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sums.first(*backend_, w.at(3, 0x1000)), 64);
  EXPECT_EQ(w.fetches, 1);
  backend_->forget(4);
  EXPECT_EQ(sums.first(*backend_, w.at(3, 0x1000)), 64);
  EXPECT_EQ(w.fetches, 1) << "another address space was forgotten";
  w.values.assign(2048, 2.0f);
  backend_->forget(3);
  EXPECT_EQ(sums.first(*backend_, w.at(3, 0x1000)), 128);
  EXPECT_EQ(w.fetches, 2);
}

TEST_F(Onednn, CopiesAreToldApartByAddressSpaceAddressAndSize) {
  Sums sums;
  Sealed a{Values(2048, 1.0f)}, b{Values(2048, 2.0f)}, c{Values(2048, 3.0f)};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sums.first(*backend_, a.at(1, 0x1000)), 64);
    EXPECT_EQ(sums.first(*backend_, b.at(2, 0x1000)), 128);
    EXPECT_EQ(sums.first(*backend_, c.at(1, 0x2000)), 192);
  }
}

// The same bytes as weights of two shapes, and as B in both orders: a copy made for one must not serve another.
TEST_F(Onednn, CopiesAreToldApartByShape) {
  Random r(51);
  ConvCase t;
  do t = random_conv(r);
  while (t.c.kh != 1 || t.c.kw != 1 || t.c.groups != 1 || t.c.ic < 2 || t.c.oc % t.c.ic || t.c.oc == t.c.ic);
  const Origin origin{true, 1, 0x1000};
  expect_near(expect(t), run(*backend_, t, origin), describe(t.c));
  ConvCase turned = t;
  turned.c.groups = turned.c.ic;
  turned.c.kh = turned.c.ic;  // as many weights, another meaning
  expect_near(expect(turned), run(*backend_, turned, origin), describe(turned.c));
  expect_near(expect(t), run(*backend_, t, origin), describe(t.c));

  MatmulCase m;
  m.c.batch = 1;
  m.c.m = 3;
  m.c.k = m.c.n = 40;
  m.a = r.values(120);
  m.b = r.values(1600);
  m.bias = r.values(40);
  m.psum = r.values(120);
  for (const uint16_t flags : {0u, NPU_CONV_TRANS_B, 0u}) {
    m.c.flags = flags;
    expect_near(expect(m), run(*backend_, m, {true, 1, 0x9000}), describe(m.c));
  }
}

TEST_F(Onednn, OperandsThatAreNotConstantAreReadEveryTime) {
  Sums sums;
  Sealed w{Values(2048, 1.0f)};
  model::Streamed plain = w.at(1, 0x1000);
  plain.constant = false;
  EXPECT_EQ(sums.first(*backend_, plain), 64);
  w.values.assign(2048, 2.0f);
  EXPECT_EQ(sums.first(*backend_, plain), 128);
}

// A copy that was being made while its address space was forgotten may be of the old contents and must not stay.
TEST_F(Onednn, ForgettingDuringACommandLeavesNoStaleCopy) {
  struct Racing {
    Sealed sealed{Values(2048, 1.0f)};
    model::Backend *backend;
    static const void *fetch(void *arg) {
      auto *self = static_cast<Racing *>(arg);
      self->backend->forget(1);
      return Sealed::fetch(&self->sealed);
    }
  } racing;
  racing.backend = backend_.get();
  Sums sums;
  EXPECT_EQ(sums.first(*backend_, {Racing::fetch, &racing, 8192, true, 1, 0x1000}), 64);
  racing.sealed.values.assign(2048, 2.0f);
  EXPECT_EQ(sums.first(*backend_, racing.sealed.at(1, 0x1000)), 128);
}

TEST_F(Onednn, CoresComputeAtTheSameTimeWhileCopiesAreForgotten) {
  Random r(52);
  std::vector<ConvCase> cases;
  std::vector<Values> want;
  for (int i = 0; i < 20; ++i) {
    cases.push_back(random_conv(r));
    want.push_back(run(*backend_, cases.back(), {true, 1, uint64_t(i) << 20}));
  }
  std::atomic<int> wrong = 0;
  std::atomic<bool> stop = false;
  const auto core = [&] {
    for (int round = 0; round < 30; ++round)
      for (size_t i = 0; i < cases.size(); ++i) {
        const Values got = run(*backend_, cases[i], {true, 1, uint64_t(i) << 20});
        if (std::memcmp(got.data(), want[i].data(), got.size() * 4) != 0) ++wrong;
      }
  };
  std::thread forgetter([&] {
    while (!stop) {
      backend_->forget(1);
      std::this_thread::yield();
    }
  });
  std::thread a(core), b(core);
  a.join();
  b.join();
  stop = true;
  forgetter.join();
  EXPECT_EQ(wrong, 0);
}

// More shapes than a thread keeps primitives for: dropped ones are made again.
TEST_F(Onednn, ManyShapesAfterEachOtherStayRight) {
  Random r(53);
  MatmulCase m;
  m.c.batch = 1;
  m.c.k = 7;
  m.c.n = 5;
  m.b = r.values(35);
  m.bias = r.values(5);
  for (int round = 0; round < 2; ++round)
    for (uint32_t rows = 1; rows <= 700; ++rows) {
      m.c.m = rows;
      m.a = r.values(rows * 7);
      m.psum = r.values(rows * 5);
      expect_near(expect(m), run(*backend_, m, {true, 1, 0x1000}), describe(m.c));
      if (HasFatalFailure()) return;
    }
}

TEST_F(Onednn, CommandsLeaveTheCallersThreadCountAlone) {
  // A thread that runs commands starts no others: the process has as many threads after as before.
  const auto threads = [] {
    int count = 0;
    if (FILE *status = std::fopen("/proc/self/status", "r")) {
      char line[128];
      while (std::fgets(line, sizeof line, status)) std::sscanf(line, "Threads: %d", &count);
      std::fclose(status);
    }
    return count;
  };
  const int before = threads();
  ASSERT_GT(before, 0);
  Random r(54);
  for (int i = 0; i < 40; ++i) {
    run(*backend_, random_conv(r));
    run(*backend_, random_matmul(r));
  }
  EXPECT_EQ(threads(), before);
}

TEST(OnednnModule, AMissingModuleIsAnErrorThatNamesIt) {
  const std::string before = std::getenv("NPU_MODEL_LIBDIR") ? std::getenv("NPU_MODEL_LIBDIR") : "";
  setenv("NPU_MODEL_LIBDIR", "/nonexistent", 1);
  std::string why;
  EXPECT_FALSE(model::make_onednn_backend(why));
  EXPECT_NE(why.find("libnpu-onednn.so"), std::string::npos) << why;
  EXPECT_NE(why.find("/nonexistent"), std::string::npos) << why;
  before.empty() ? unsetenv("NPU_MODEL_LIBDIR") : setenv("NPU_MODEL_LIBDIR", before.c_str(), 1);
}

}  // namespace
}  // namespace npu::test
