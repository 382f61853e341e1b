// SPDX-License-Identifier: MIT
// The lifetime of what oneDNN refers to.
#include "qemu-device/model/src/compute/onednn/dnnl_api.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

namespace npu::test {
namespace {

using dnnl::memory;

// Overwrites what functions that have returned left on the stack.
[[gnu::noinline]] void overwrite_stack() {
  std::array<char, 32768> bytes;
  std::memset(bytes.data(), 0x7f, bytes.size());
  asm volatile("" : : "r"(bytes.data()) : "memory");
}

// The last of the library's implementations. It ends early for an operation descriptor that is not there any more.
template <class PrimitiveDesc>
std::string last_implementation(PrimitiveDesc &pd) {
  overwrite_stack();
  while (pd.next_impl()) {
  }
  return pd.impl_info_str();
}

memory::desc f32(const memory::dims &dims, memory::format_tag tag) { return {dims, memory::data_type::f32, tag}; }

TEST(DnnlApi, DescriptorsCanBeAskedForOtherImplementations) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::dims step{1, 1}, dilation{0, 0}, pad{1, 1};
  const auto image = f32({1, 8, 16, 16}, memory::format_tag::nhwc),
             weights = f32({8, 8, 3, 3}, memory::format_tag::any);
  std::string last;
  model::dnnl_api::describe(model::dnnl_api::Conv{image, weights, nullptr, image, step, dilation, pad, pad}, {}, engine,
                            [&](auto &&pd) { last = last_implementation(pd); });
  EXPECT_NE(last.find("ref"), std::string::npos) << last;

  const auto matrix = f32({64, 64}, memory::format_tag::ab);
  model::dnnl_api::describe(model::dnnl_api::Matmul{matrix, matrix, nullptr, matrix}, {}, engine,
                            [&](auto &&pd) { last = last_implementation(pd); });
  EXPECT_NE(last.find("ref"), std::string::npos) << last;
}

}  // namespace
}  // namespace npu::test
