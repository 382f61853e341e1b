// SPDX-License-Identifier: MIT
// Shadow execution of products: silent for right results, one report for each command with a wrong one, and the
// reference's result in any case.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/compute/oracle.h"

namespace npu::test {
namespace {

// The reference with one result spoiled by `change`.
class Faulty final : public model::Reference {
 public:
  explicit Faulty(float change) : change_(change) {}
  const char *name() const override { return "faulty"; }
  bool run(const npu_cmd_conv &c, const void *in, const model::Streamed &w, const model::ProductParams &v,
           const void *p, void *out) override {
    const bool ok = Reference::run(c, in, w, v, p, out);
    spoil(out, size_t{c.n} * c.oh * c.ow * c.oc);
    return ok;
  }
  bool run(const npu_cmd_matmul &c, const void *in, const model::Streamed &w, const model::ProductParams &v,
           const void *p, void *out) override {
    const bool ok = Reference::run(c, in, w, v, p, out);
    spoil(out, size_t{c.batch} * c.m * c.n);
    return ok;
  }
  void forget(uint32_t asid) override { forgotten = asid; }
  uint32_t forgotten = 0;

 private:
  void spoil(void *out, size_t count) const {
    float &last = static_cast<float *>(out)[count - 1];
    if (change_ != 0) last = std::isnan(change_) ? change_ : last + change_;
  }
  const float change_;
};

using Reports = std::vector<std::string>;

void collect(void *arg, const char *text) { static_cast<Reports *>(arg)->push_back(text); }

// Runs one product of each kind on the shadow and checks that the reference's results come out.
void run_all(model::Backend &shadow, Random &r) {
  const auto reference = std::make_unique<model::Reference>();
  const auto same = [](const Values &a, const Values &b) { return std::memcmp(a.data(), b.data(), a.size() * 4) == 0; };
  const ConvCase conv = random_conv(r);
  const MatmulCase matmul = random_matmul(r);
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE(same(run(shadow, conv, {}, in_place), run(*reference, conv))) << describe(conv.c);
    EXPECT_TRUE(same(run(shadow, matmul, {}, in_place), run(*reference, matmul))) << describe(matmul.c);
  }
}

constexpr size_t kCommandsOfRunAll = 4;

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
