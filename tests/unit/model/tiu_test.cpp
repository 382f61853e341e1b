// SPDX-License-Identifier: MIT
// The tensor unit's operands: where weights and bias come from, what may be kept of them, what happens when they fault.
// Arithmetic has its own tests.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint32_t kM = 4, kK = 300, kN = 70;
constexpr uint64_t kWeightBytes = uint64_t{kK} * kN * 4;

/// A job that multiplies a row block by weights in region 0 with a bias in region 1, from input region 2 to output
/// region 3.
class Product {
 public:
  Product(Machine &m, Place place, uint32_t asid = 0, uint64_t lead = 0, uint64_t flags = NPU_PTE_WRITE)
      : m_(m),
        weights(area(place, kWeightBytes, asid, lead, flags)),
        bias(area(place, kN * 4, asid, lead, flags)),
        in_(m.allocate(kM * kK * 4, Place::Card, asid)),
        out_(m.allocate(kM * kN * 4, Place::Card, asid)) {
    std::mt19937 rng(7);
    for (auto *v : {&a, &b, &c})
      for (float &x : *v)
        x = static_cast<float>(static_cast<int>(rng() % 17) - 8);  // sums of small integers are exact in any order
    m.put(in_, 0, a.data(), a.size() * 4);
    store();
  }

  void store() {
    m_.put(weights, 0, b.data(), b.size() * 4);
    m_.put(bias, 0, c.data(), c.size() * 4);
  }

  JobSpec job() const {
    JobSpec j;
    j.regions = {weights.region(NPU_ACCESS_READ), bias.region(NPU_ACCESS_READ), in_.region(), out_.region()};
    npu_cmd_copy load = with<npu_cmd_copy>([](npu_cmd_copy &x) {
      x.src_region = 2;
      x.dst_region = NPU_REGION_LOCAL;
      std::fill_n(x.dims, 6, 1u);
      x.dims[5] = kM * kK;
      x.src_stride[5] = x.dst_stride[5] = 1;
    });
    npu_cmd_copy save = load;
    save.src_region = NPU_REGION_LOCAL;
    save.src_offset = 65536;
    save.dst_region = 3;
    save.dims[5] = kM * kN;
    save.wait = 1;
    j.gdma(load).gdma(save);
    j.tiu(with<npu_cmd_matmul>([](npu_cmd_matmul &x) {
      x.flags = NPU_CONV_BIAS;
      x.wait = 1;
      x.batch = 1;
      x.m = kM;
      x.k = kK;
      x.n = kN;
      x.out_addr = 65536;
      x.param_region = 1;
    }));
    return j;
  }

  /// The same with weights that two copies bring into local memory, with `change` behind them.
  JobSpec job_by_local_memory(const std::optional<Cmd> &change = {}) const {
    JobSpec j = job();
    std::vector<Cmd> &gdma = j.stream[kGdma];
    constexpr uint32_t kFirst = 123;  // elements of the first copy
    for (const auto &[from, count] : {std::pair{0u, kFirst}, {kFirst, kK * kN - kFirst}})
      gdma.insert(gdma.end() - 1, copy_of_weights(from, from, count));
    if (change) gdma.insert(gdma.end() - 1, *change);
    const auto loaded = static_cast<uint32_t>(gdma.size() - 1);
    j.stream[kTiu][0] = with<npu_cmd_matmul>([&](npu_cmd_matmul &x) {
      std::memcpy(&x, &j.stream[kTiu][0], sizeof x);
      x.wait = loaded;
      x.wgt_region = NPU_REGION_LOCAL;
      x.wgt_offset = kLocalWeights;
    });
    return j;
  }
  /// Copies `count` weights from element `from` on to where they lie in local memory from element `to` on.
  static Cmd copy_of_weights(uint32_t from, uint32_t to, uint32_t count) {
    return with<npu_cmd_copy>([&](npu_cmd_copy &x) {
      x.dst_region = NPU_REGION_LOCAL;
      x.src_offset = from * 4;
      x.dst_offset = kLocalWeights + to * 4;
      std::fill_n(x.dims, 6, 1u);
      x.dims[5] = count;
      x.src_stride[5] = x.dst_stride[5] = 1;
    });
  }
  static constexpr uint32_t kLocalWeights = 131072;

  std::vector<float> expected() const {
    std::vector<float> r(kM * kN);
    for (uint32_t i = 0; i < kM; ++i)
      for (uint32_t j = 0; j < kN; ++j) {
        double sum = c[j];
        for (uint32_t k = 0; k < kK; ++k) sum += double{a[i * kK + k]} * b[k * kN + j];
        r[i * kN + j] = static_cast<float>(sum);
      }
    return r;
  }

  std::vector<float> result() {
    std::vector<float> r(kM * kN);
    m_.get(out_, 0, r.data(), r.size() * 4);
    return r;
  }

  std::vector<float> a = std::vector<float>(kM * kK), b = std::vector<float>(kK * kN), c = std::vector<float>(kN);

 private:
  Area area(Place place, uint64_t bytes, uint32_t asid, uint64_t lead, uint64_t flags) {
    Area x = m_.allocate(lead + bytes, place, asid, flags);
    x.va += lead;
    x.bytes = bytes;
    return x;
  }

  Machine &m_;

 public:
  const Area weights, bias;

 private:
  const Area in_, out_;
};

class Weights : public testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    setenv("NPU_MODEL_LIBDIR", NPU_TEST_LIBDIR, 0);
  }  // the module lies beside the libraries, not beside this program
};

TEST_P(Weights, ComeFromAnywhereAtAnyAlignment) {
  Machine m({.backend = GetParam()});
  for (Place place : kPlaces)
    for (uint64_t lead : {0, 4, 2, 4093}) {
      Product p(m, place, 0, lead);
      ASSERT_STATUS(m.run(p.job()), NPU_STATUS_OK);
      ASSERT_EQ(p.result(), p.expected()) << static_cast<int>(place) << " " << lead;
    }
}

TEST_P(Weights, ChangedOnesAreSeenAtOnce) {
  // Not const: no copy may be kept.
  Machine m({.backend = GetParam()});
  for (Place place : kPlaces) {
    Product p(m, place);
    for (unsigned i = 0; i < 4; ++i) {
      for (float &x : p.b) x += 1;
      p.store();
      ASSERT_STATUS(m.run(p.job()), NPU_STATUS_OK);
      ASSERT_EQ(p.result(), p.expected());
    }
  }
}

TEST_P(Weights, ConstOnesAreSeenAfterInvalidation) {
  Machine m({.backend = GetParam()});
  for (Place place : kPlaces)
    for (unsigned round = 0; round < 3; ++round) {
      Product p(m, place, 0, round * 4, NPU_PTE_CONST);
      for (unsigned i = 0; i < 4; ++i) {
        for (unsigned again = 0; again < 3; ++again) {
          ASSERT_STATUS(m.run(p.job()), NPU_STATUS_OK);
          ASSERT_EQ(p.result(), p.expected());
        }
        for (float &x : p.b) x += 1;
        p.store();
        // Other ranges and other address spaces in between; then the one that matters, by range or as a whole.
        m.wait_invalidated(m.invalidate(1));
        m.wait_invalidated(m.invalidate(0, 0x1000, kPage));
        m.wait_invalidated(i % 2 ? m.invalidate(0) : m.invalidate(0, p.weights.va + kWeightBytes / 2, 1));
      }
    }
}

TEST_P(Weights, CopiesOfConstOnesInLocalMemoryMayChange) {
  Machine m({.backend = GetParam()});
  for (Place place : kPlaces) {
    Product p(m, place, 0, 0, NPU_PTE_CONST);
    const Cmd fill = with<npu_cmd_fill>([](npu_cmd_fill &x) {
      x.dst_region = NPU_REGION_LOCAL;
      x.dst_offset = Product::kLocalWeights + kN * 4;
      std::fill_n(x.dims, 6, 1u);
      x.dims[5] = kN;
      x.dst_stride[5] = 1;
    });
    // The second row of the weights becomes what the change makes of it: nothing, 0, the first row, itself.
    const std::optional<Cmd> changes[] = {std::nullopt, fill, Product::copy_of_weights(0, kN, kN),
                                          Product::copy_of_weights(kN, kN, kN)};
    for (unsigned round = 0; round < 3; ++round) {
      for (unsigned i = 0; i < std::size(changes); ++i) {
        const std::vector<float> before = p.b;
        ASSERT_STATUS(m.run(p.job_by_local_memory(changes[i])), NPU_STATUS_OK);
        for (uint32_t n = 0; n < kN; ++n)
          if (i == 1 || i == 2) p.b[kN + n] = i == 1 ? 0.0f : p.b[n];
        ASSERT_EQ(p.result(), p.expected()) << round << " " << i;
        p.b = before;
        ASSERT_STATUS(m.run(p.job()), NPU_STATUS_OK);
        ASSERT_EQ(p.result(), p.expected()) << "by the copy that the other job has left";
      }
      for (float &x : p.b) x += 1;
      p.store();
      m.wait_invalidated(m.invalidate(0));
    }
  }
}

TEST_P(Weights, EqualAddressesOfTwoSpacesAreTwoThings) {
  Machine m({.backend = GetParam()});
  Product one(m, Place::Card, 1, 0, NPU_PTE_CONST), two(m, Place::Card, 2, 0, NPU_PTE_CONST);
  for (float &x : two.b) x *= 2;
  two.store();
  // Space 2 sees its weights at the address of space 1's.
  for (uint64_t at = 0; at < kWeightBytes; at += kPage)
    m.map(2, one.weights.va + at, m.physical(2, two.weights.va + at), NPU_PTE_CONST);
  JobSpec other = two.job();
  other.regions[0] = one.weights.region(NPU_ACCESS_READ);
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_STATUS(m.queue(1, {.asid = 1}).run(one.job()), NPU_STATUS_OK);
    ASSERT_EQ(one.result(), one.expected());
    ASSERT_STATUS(m.queue(2, {.asid = 2}).run(other), NPU_STATUS_OK);
    ASSERT_EQ(two.result(), two.expected());
  }
}

TEST_P(Weights, FaultsArePrecise) {
  Machine m({.backend = GetParam()});
  for (Place place : {Place::Card, Place::CardScattered, Place::System, Place::SystemScattered}) {
    Product p(m, place, 0, 100);
    const uint64_t page = (p.weights.va + 3 * kPage) & ~(kPage - 1), good = m.load(m.entry_of(0, page));
    m.unmap(0, page);
    m.wait_invalidated(m.invalidate(0));
    npu_cqe c = m.run(p.job());
    EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
    EXPECT_EQ(c.fault_addr, page);
    EXPECT_EQ(c.region, 0u);
    EXPECT_EQ(c.offset, 0u);
    EXPECT_EQ(c.bytes, kWeightBytes);
    EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
    EXPECT_EQ(c.command, 0u);
    m.store(m.entry_of(0, page), good);
    const uint64_t bias = p.bias.va & ~(kPage - 1), good_bias = m.load(m.entry_of(0, bias));
    m.unmap(0, bias);
    m.wait_invalidated(m.invalidate(0));
    c = m.run(p.job());
    EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
    EXPECT_EQ(c.fault_addr, p.bias.va);
    EXPECT_EQ(c.region, 1u);
    m.store(m.entry_of(0, bias), good_bias);
    m.wait_invalidated(m.invalidate(0));
    EXPECT_STATUS(m.run(p.job()), NPU_STATUS_OK);
    EXPECT_EQ(p.result(), p.expected());
  }
}

TEST_P(Weights, BusErrorIsPrecise) {
  Machine m({.backend = GetParam()});
  Product p(m, Place::System);
  const uint64_t page = p.weights.va + 5 * kPage;
  m.board.poison(m.physical(0, page));
  const npu_cqe c = m.run(p.job());
  EXPECT_STATUS(c, NPU_STATUS_DMA_ERROR);
  EXPECT_EQ(c.fault_addr, page);
  m.board.cure(m.physical(0, page));
  EXPECT_STATUS(m.run(p.job()), NPU_STATUS_OK);
  EXPECT_EQ(p.result(), p.expected());
}

TEST_P(Weights, InvalidationWaitsForTheCommandThatStreams) {
  Machine m({.backend = GetParam()});
  Product p(m, Place::System);
  m.board.block(m.physical(0, p.weights.va + kPage));
  TestQueue &q = m.queue(0);
  q.submit(p.job());
  m.board.wait_blocked();
  const uint32_t ticket = m.invalidate(0);
  EXPECT_NE(m.r32(NPU_REG_INV_DONE), ticket);
  m.board.release();
  m.wait_invalidated(ticket);
  EXPECT_STATUS(q.wait(), NPU_STATUS_OK);
  EXPECT_EQ(p.result(), p.expected());
}

INSTANTIATE_TEST_SUITE_P(Backend, Weights,
                         testing::ValuesIn(std::initializer_list<const char *>{
#ifdef NPU_TEST_ONEDNN
                             "reference", "onednn", "shadow"
#else
                                               "reference"
#endif
                         }),
                         [](const auto &info) { return std::string(info.param); });

/// 32 MiB of weights that are one page of system memory, mapped again and again: every page is a bus access.
struct ManyPages {
  static constexpr uint64_t kPages = 8192, kVa = uint64_t{5} << 40;

  explicit ManyPages(Machine &m) : page(m.allocate(kPage, Place::System)) {
    for (uint64_t i = 0; i < kPages; ++i) m.map(0, kVa + i * kPage, m.physical(0, page.va), NPU_PTE_SYSTEM);
    job.regions = {Area{0, kVa, kPages * kPage}.region(NPU_ACCESS_READ)};
    job.tiu(with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
      c.out_addr = 65536;
      c.batch = c.m = 1;
      c.k = 1024;
      c.n = 8192;
    }));
  }

  const Area page;
  JobSpec job;
};

TEST(LargeFetch, CanBeStopped) {
  Machine m;
  ManyPages weights(m);
  TestQueue &q = m.queue(0);
  for (const bool core_reset : {false, true}) {
    m.board.block(m.physical(0, weights.page.va));
    const uint64_t id = q.submit(weights.job);
    m.board.wait_blocked();
    const uint64_t before = m.board.transfers();
    if (core_reset)
      m.w32(NPU_REG_CORE_RESET, 3);
    else
      q.abort(id);
    m.board.release();
    EXPECT_STATUS(q.wait(), core_reset ? NPU_STATUS_CORE_RESET : NPU_STATUS_ABORTED);
    EXPECT_LT(m.board.transfers() - before, ManyPages::kPages / 2) << "long before the last page";
  }
  EXPECT_STATUS(q.run(weights.job), NPU_STATUS_OK);
}

TEST(LargeFetch, ReadsNothingOfAnOperandWithAHole) {
  Machine m;
  ManyPages weights(m);
  m.unmap(0, ManyPages::kVa + (ManyPages::kPages - 1) * kPage);
  m.board.poison(m.physical(0, weights.page.va));
  const npu_cqe c = m.run(weights.job);
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c.fault_addr, ManyPages::kVa + (ManyPages::kPages - 1) * kPage);
}

}  // namespace
}  // namespace npu::test
