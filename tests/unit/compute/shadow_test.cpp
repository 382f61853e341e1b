// SPDX-License-Identifier: MIT
// Shadow execution: silent for right results, one report for each command with a wrong one, and the reference's result
// in any case.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/compute/oracle.h"

namespace npu::test {
namespace {

// The reference with one result spoiled by `change`.
class Faulty final : public model::Backend {
 public:
  explicit Faulty(float change) : change_(change) {}
  const char *name() const override { return "faulty"; }
  bool run(const npu_cmd_conv &c, const void *in, const model::Streamed &w, const void *b, const void *p,
           void *out) override {
    const bool ok = right_->run(c, in, w, b, p, out);
    spoil(out, size_t{c.n} * c.oh * c.ow * c.oc);
    return ok;
  }
  bool run(const npu_cmd_matmul &c, const void *in, const model::Streamed &w, const void *b, const void *p,
           void *out) override {
    const bool ok = right_->run(c, in, w, b, p, out);
    spoil(out, size_t{c.batch} * c.m * c.n);
    return ok;
  }
  void run(const npu_cmd_pool &c, const void *in, void *out) override {
    right_->run(c, in, out);
    spoil(out, size_t{c.n} * c.oh * c.ow * c.c);
  }
  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    right_->run(c, a, b, out);
    spoil(out, size_t{c.dims[0]} * c.dims[1] * c.dims[2] * c.dims[3] * c.dims[4]);
  }
  void run(const npu_cmd_unary &c, const void *in, void *out) override {
    right_->run(c, in, out);
    spoil(out, c.count);
  }
  void run(const npu_cmd_softmax &c, const void *in, void *out) override {
    right_->run(c, in, out);
    spoil(out, size_t{c.rows} * c.cols);
  }
  void forget(uint32_t asid) override { forgotten = asid; }
  uint32_t forgotten = 0;

 private:
  void spoil(void *out, size_t count) const {
    float &last = static_cast<float *>(out)[count - 1];
    if (change_ != 0) last = std::isnan(change_) ? change_ : last + change_;
  }
  const std::unique_ptr<model::Backend> right_ = std::make_unique<model::Reference>();
  const float change_;
};

using Reports = std::vector<std::string>;

void collect(void *arg, const char *text) { static_cast<Reports *>(arg)->push_back(text); }

// Runs one command of each kind on the shadow and checks that the reference's results come out.
void run_all(model::Backend &shadow, Random &r) {
  const auto reference = std::make_unique<model::Reference>();
  const auto same = [](const Values &a, const Values &b) { return std::memcmp(a.data(), b.data(), a.size() * 4) == 0; };
  const ConvCase conv = random_conv(r);
  const MatmulCase matmul = random_matmul(r);
  const PoolCase pool = random_pool(r);
  const EltwiseCase eltwise = random_eltwise(r);
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE(same(run(shadow, conv, {}, in_place), run(*reference, conv))) << describe(conv.c);
    EXPECT_TRUE(same(run(shadow, matmul, {}, in_place), run(*reference, matmul))) << describe(matmul.c);
  }
  EXPECT_TRUE(same(run(shadow, pool), run(*reference, pool))) << describe(pool.c);
  EXPECT_TRUE(same(run(shadow, eltwise), run(*reference, eltwise))) << describe(eltwise.c);
  const Values in = r.values(40, 5);
  Values out(40), want(40), place = in;
  npu_cmd_unary unary = hw::make<npu_cmd_unary>();
  unary.subop = NPU_ACT_TANH;
  unary.count = 40;
  shadow.run(unary, in.data(), out.data());
  reference->run(unary, in.data(), want.data());
  shadow.run(unary, place.data(), place.data());
  EXPECT_TRUE(same(out, want));
  EXPECT_TRUE(same(place, want));
  npu_cmd_softmax softmax = hw::make<npu_cmd_softmax>();
  softmax.rows = 4;
  softmax.cols = 10;
  place = in;
  shadow.run(softmax, in.data(), out.data());
  reference->run(softmax, in.data(), want.data());
  shadow.run(softmax, place.data(), place.data());
  EXPECT_TRUE(same(out, want));
  EXPECT_TRUE(same(place, want));
}

constexpr size_t kCommandsOfRunAll = 10;

class ShadowOver : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Backends, ShadowOver, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(ShadowOver, RightResultsAreNotReported) {
  Reports reports;
  const auto shadow = model::make_shadow_backend(make_backend(GetParam()), collect, &reports);
  Random r(41);
  for (int i = 0; i < 300; ++i) run_all(*shadow, r);
  EXPECT_TRUE(reports.empty()) << reports.size() << " reports, the first: " << reports[0];
}

TEST(Shadow, EveryCommandWithAWrongResultIsReportedOnce) {
  for (const float change : {0.01f, -3.0f, std::numeric_limits<float>::quiet_NaN()}) {
    Reports reports;
    const auto shadow = model::make_shadow_backend(std::make_unique<Faulty>(change), collect, &reports);
    Random r(42);
    for (int i = 0; i < 20; ++i) {
      reports.clear();
      run_all(*shadow, r);
      ASSERT_EQ(reports.size(), kCommandsOfRunAll) << change;
    }
    EXPECT_NE(reports[0].find("CONV: element"), std::string::npos) << reports[0];
    EXPECT_NE(reports[0].find("on faulty"), std::string::npos) << reports[0];
  }
}

TEST(Shadow, ForgetReachesTheFastBackend) {
  auto fast = std::make_unique<Faulty>(0.0f);
  const Faulty &inside = *fast;
  Reports reports;
  const auto shadow = model::make_shadow_backend(std::move(fast), collect, &reports);
  shadow->forget(17);
  EXPECT_EQ(inside.forgotten, 17u);
}

}  // namespace
}  // namespace npu::test
