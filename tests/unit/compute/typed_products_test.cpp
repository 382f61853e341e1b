// SPDX-License-Identifier: MIT
// CONV and MATMUL of all types on the fast back end against the reference: products of 8 bits bit for bit, with all
// that lies between the elements of a result.
#include <gtest/gtest.h>

#include "tests/unit/compute/typed.h"

namespace npu::test {
namespace {

class TypedProducts : public testing::Test {
 protected:
  void SetUp() override {
    auto fast = make_backend("onednn");
    ASSERT_TRUE(fast);
    shadow_ = model::make_shadow_backend(std::move(fast), collect, &reports_);
  }

  /// Runs a command with streamed and with constant weights, these twice: the second time a packed copy is there.
  template <class Cmd>
  void expect_equal(const Typed<Cmd> &t, uint32_t number) {
    run(*shadow_, t);
    for (int i = 0; i < 2; ++i) run(*shadow_, t, {true, 1, uint64_t{number} << 32});
    shadow_->forget(1);
    ASSERT_TRUE(reports_.empty()) << reports_[0] << "\n" << text_of(t.c);
  }

  static void collect(void *arg, const char *text) { static_cast<std::vector<std::string> *>(arg)->push_back(text); }

  std::vector<std::string> reports_;
  std::unique_ptr<model::Backend> shadow_;
};

TEST_F(TypedProducts, ConvolutionsOf8BitsAreExact) {
  Random r(101);
  for (uint32_t i = 0; i < 3000 && !HasFatalFailure(); ++i) expect_equal(random_typed_conv(r, false), i);
}

TEST_F(TypedProducts, MatrixProductsOf8BitsAreExact) {
  Random r(102);
  for (uint32_t i = 0; i < 3000 && !HasFatalFailure(); ++i) expect_equal(random_typed_matmul(r, false), i);
}

TEST_F(TypedProducts, ConvolutionsOfFloatsAreWithinTheBound) {
  Random r(103);
  for (uint32_t i = 0; i < 1500 && !HasFatalFailure(); ++i) expect_equal(random_typed_conv(r, true), i);
}

TEST_F(TypedProducts, MatrixProductsOfFloatsAreWithinTheBound) {
  Random r(104);
  for (uint32_t i = 0; i < 1500 && !HasFatalFailure(); ++i) expect_equal(random_typed_matmul(r, true), i);
}

}  // namespace
}  // namespace npu::test
