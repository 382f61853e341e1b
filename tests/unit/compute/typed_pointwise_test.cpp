// SPDX-License-Identifier: MIT
// All other commands on elements of all types, on the fast back end against the reference: what is exact bit for bit,
// with all that lies between the elements of a result.
#include <gtest/gtest.h>

#include "tests/unit/compute/typed.h"

namespace npu::test {
namespace {

class TypedPointwise : public testing::Test {
 protected:
  void SetUp() override {
    auto fast = make_backend("onednn");
    ASSERT_TRUE(fast);
    shadow_ = model::make_shadow_backend(std::move(fast), collect, &reports_);
  }

  template <class Case>
  void expect_equal(uint32_t seed, int count, Case random_case) {
    Random r(seed);
    for (int i = 0; i < count; ++i) {
      const auto t = random_case(r);
      run(*shadow_, t);
      ASSERT_TRUE(reports_.empty()) << reports_[0] << "\n" << text_of(t.c);
    }
  }

  static void collect(void *arg, const char *text) { static_cast<std::vector<std::string> *>(arg)->push_back(text); }

  std::vector<std::string> reports_;
  std::unique_ptr<model::Backend> shadow_;
};

TEST_F(TypedPointwise, Pool) { expect_equal(201, 3000, random_typed_pool); }
TEST_F(TypedPointwise, Eltwise) { expect_equal(202, 5000, random_typed_eltwise); }
TEST_F(TypedPointwise, Unary) { expect_equal(203, 3000, random_typed_unary); }
TEST_F(TypedPointwise, Softmax) { expect_equal(204, 1500, random_typed_softmax); }
TEST_F(TypedPointwise, Reduce) { expect_equal(205, 3000, random_typed_reduce); }
TEST_F(TypedPointwise, Norm) { expect_equal(206, 1500, random_typed_norm); }
TEST_F(TypedPointwise, Lut) { expect_equal(207, 1500, random_typed_lut); }
TEST_F(TypedPointwise, Requant) { expect_equal(208, 5000, random_typed_requant); }
TEST_F(TypedPointwise, Select) { expect_equal(209, 3000, random_typed_select); }

}  // namespace
}  // namespace npu::test
