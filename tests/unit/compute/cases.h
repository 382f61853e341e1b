// SPDX-License-Identifier: MIT
// Random legal products with their operands, their execution on a back end, and what random commands are made of.
#ifndef NPU_TESTS_COMPUTE_CASES_H
#define NPU_TESTS_COMPUTE_CASES_H

#include <random>
#include <string>
#include <vector>

#include "npu_isa.hpp"
#include "qemu-device/model/src/backend.h"

namespace npu::test {

using Values = std::vector<float>;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  /// A whole number in [low, high].
  int range(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool chance(int one_in) { return range(1, one_in) == 1; }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  Values values(size_t count, float size = 1.0f);
  uint32_t bits() { return engine_(); }

 private:
  std::mt19937 engine_;
};

/// Where the streamed operand of a case comes from, as the control would tell the back end.
struct Origin {
  bool constant = false;
  uint32_t asid = 0;
  uint64_t va = 0;
};

struct ConvCase {
  npu_cmd_conv c = hw::make<npu_cmd_conv>();
  Values in, wgt, bias, psum;
  size_t outputs() const { return size_t{c.n} * c.oh * c.ow * c.oc; }
};

struct MatmulCase {
  npu_cmd_matmul c = hw::make<npu_cmd_matmul>();
  Values a, b, bias, psum;
  size_t outputs() const { return size_t{c.batch} * c.m * c.n; }
};

ConvCase random_conv(Random &r);
MatmulCase random_matmul(Random &r);
/// Sets an activation that may be fused, with parameters.
void random_activation(Random &r, uint8_t &act, float &a, float &b);

/// `in_place`: the result takes the place of the partial sums. Results start as NaN, so that an element left out shows.
Values run(model::Backend &backend, const ConvCase &t, const Origin &origin = {}, bool in_place = false);
Values run(model::Backend &backend, const MatmulCase &t, const Origin &origin = {}, bool in_place = false);

/// The fields that matter, for messages.
std::string describe(const npu_cmd_conv &c);
std::string describe(const npu_cmd_matmul &c);

/// The back ends that every behaviour is tested on, by name; the test fails where one cannot be made.
std::vector<std::string> backend_names();
std::unique_ptr<model::Backend> make_backend(const std::string &name);

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_CASES_H
