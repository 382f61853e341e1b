// SPDX-License-Identifier: MIT
// bmrt_test: runs the networks of a .bmodel and compares their outputs with reference data.
#include <cstdio>
#include <exception>

#include "common/standard_output.h"
#include "tools/bmrt_test/runner.h"

int main(int argc, char **argv) try {
  bmrt_test::Options options;
  const auto code = bmrt_test::parse_options(argc, argv, options);
  return npu::written(code ? *code : bmrt_test::run(options), "bmrt_test");
} catch (const std::exception &e) {
  std::fprintf(stderr, "bmrt_test: %s\n", e.what());
  return bmrt_test::kLoad;
}
