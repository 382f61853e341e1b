// SPDX-License-Identifier: MIT
// How many allocations a launch costs its thread, once everything has been used before. The numbers are exact, so they
// are held; a larger one wants a reason. The program counts in its own operator new: none of this runs under
// sanitizers.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "tests/unit/runtime/fixture.h"

namespace {

/// Of the thread that counts.
thread_local struct {
  bool on = false;
  int runtime = 0, library = 0, below = 0;  ///< by libnpurt, by libnpu, by all that libnpurt calls
} allocations;

void *allocate(size_t bytes, const void *caller) {
  if (allocations.on) {
    Dl_info library;
    const bool ours = dladdr(caller, &library) && std::strstr(library.dli_fname, "libnpurt");
    const bool libnpu = dladdr(caller, &library) && std::strstr(library.dli_fname, "libnpu.so");
    ++(ours ? allocations.runtime : allocations.below);
    allocations.library += libnpu;
  }
  if (void *p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: the compiler would see free() of what operator new gave, and warn.
void *operator new(size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
void *operator new[](size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void operator delete(void *p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void *p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void *p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void *p, size_t) noexcept { std::free(p); }

namespace {

using namespace test_runtime;

class LaunchCostTest : public RuntimeTest {
 protected:
  /// Of the fourth launch: by then pools, lists and the thread's context are there.
  void expect_at_most(int runtime, const char *net, const std::vector<bm_tensor_t> &in, std::vector<bm_tensor_t> out) {
    for (int i = 0; i < 4; ++i) {
      allocations = {i == 3, 0, 0, 0};
      const bool launched = bmrt_launch_tensor_ex(p_bmrt, net, in.data(), static_cast<int>(in.size()), out.data(),
                                                  static_cast<int>(out.size()), true, false);
      allocations.on = false;
      ASSERT_TRUE(launched) << bmrt_last_error();
      ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    }
    EXPECT_LE(allocations.runtime, runtime) << net;
    EXPECT_EQ(allocations.library, 0) << net << ": libnpu keeps what a submission needs";
    RecordProperty(std::string(net) + "_runtime", allocations.runtime);
    RecordProperty(std::string(net) + "_below", allocations.below);
    std::printf("%s: %d allocations by the runtime, %d by libnpu, %d below the runtime\n", net, allocations.runtime,
                allocations.library, allocations.below);
  }
};

TEST_F(LaunchCostTest, IsAHandfulOfAllocations) {
  ASSERT_TRUE(load(test_models::sample())) << bmrt_last_error();
  const DeviceFloats a(handle, Floats(16)), b(handle, Floats(16)), c(handle, Floats(16));
  expect_at_most(8, "plus", {tensor(a.mem(), {1, 8})}, {tensor(b.mem(), {1, 8})});
  expect_at_most(8, "affine", {tensor(a.mem(), {16})}, {tensor(b.mem(), {16})});
  expect_at_most(8, "sum", {tensor(a.mem(), {1, 4}), tensor(b.mem(), {2, 2})}, {tensor(c.mem(), {4})});
}

TEST_F(LaunchCostTest, DoesNotGrowWithTheLengthOfNames) {
  auto stage = test_models::affine(16);
  stage.inputs[0].name = std::string(200, 'x');
  stage.outputs[0].name = std::string(200, 'y');
  ASSERT_TRUE(load(test_models::file({test_models::net("long", {stage})}))) << bmrt_last_error();
  const DeviceFloats a(handle, Floats(16)), b(handle, Floats(16));
  expect_at_most(8, "long", {tensor(a.mem(), {16})}, {tensor(b.mem(), {16})});
}

}  // namespace
