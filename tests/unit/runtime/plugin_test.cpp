// SPDX-License-Identifier: MIT
// Plug-ins (npu_plugin.h) that do what none should, and that use threads of their own.
#include "runtime/cpu/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/cpu/tensor.h"

namespace {

using namespace npu::cpu;

const char *file() { return std::getenv("NPU_TEST_PLUGIN_FILE"); }

npu::Status load(const char *wrong) {
  setenv("NPU_TEST_PLUGIN", wrong, 1);
  const npu::Status status = load_plugin(file());
  unsetenv("NPU_TEST_PLUGIN");
  return status;
}

bool is_open() {
  void *const handle = dlopen(file(), RTLD_NOW | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle;
}

/// Computes an operator of float32 [4] with the attribute axis = 1.
npu::Status compute(const char *op, Tensor &result) {
  PluginAttrs attrs;
  attrs.domain = "test";
  attrs.op = op;
  attrs.attributes.resize(1);
  attrs.attributes[0].name = "axis";
  attrs.attributes[0].ints = {1};
  attrs.outputs.resize(1);
  const Tensor x(Dtype::F32, {4});
  const std::vector<const TensorKind *> kinds{&x};
  NPU_TRY(infer_plugin(attrs, kinds));
  TensorKind packed;
  NPU_TRY(check_plugin(attrs, kinds, packed));
  result = Tensor(packed.dtype, packed.shape);
  const std::vector<const Tensor *> operands{&x};
  return run_plugin(attrs, operands, result);
}

/// First, since a library that is loaded stays so.
TEST(Plugin, OneThatIsRefusedIsClosedAndCanBeLoadedLater) {
  const std::pair<const char *, std::string> all[] = {
      {"standard exception", "a C++ exception left npu_plugin_entry(): no licence"},
      {"other exception", "a C++ exception left npu_plugin_entry()"},
      {"newer", "it is of version 2, expected version 1"},
      {"version 0", "it is of version 0, expected version 1"},
      {"reserved", "a reserved field is not null"},
      {"reserved of operator", "operator test.User: a reserved field is not null"}};
  for (const auto &[wrong, says] : all) {
    const npu::Status status = load(wrong);
    EXPECT_EQ(status.message().rfind("plug-in " + std::string(file()) + ": " + says, 0), 0u) << status.message();
    EXPECT_FALSE(is_open()) << wrong;
  }
  EXPECT_TRUE(plugin_libraries().empty());
  EXPECT_TRUE(load("").ok());
  EXPECT_TRUE(load("").ok()) << "again";
  EXPECT_EQ(loaded_plugins().size(), 1u);
}

TEST(Plugin, OneOfTheProcessIsAdoptedByItsHandle) {
  ASSERT_TRUE(load("").ok());
  EXPECT_TRUE(adopt_plugin(plugin_libraries()[0].handle, "gone.so").ok());
  EXPECT_EQ(loaded_plugins().size(), 1u);
  void *const other = dlopen(nullptr, RTLD_NOW);
  const npu::Status status = adopt_plugin(other, "other.so");
  EXPECT_EQ(status.message().rfind("plug-in other.so: it has no function npu_plugin_entry()", 0), 0u)
      << status.message();
  dlclose(other);
}

TEST(Plugin, ThreadsOfACallbackMayReadAndFail) {
  ASSERT_TRUE(load("").ok());
  for (int i = 0; i < 20; ++i) {
    Tensor result;
    const npu::Status status = compute("Crowd", result);
    const std::string text = status.message();
    const std::string where = "operator test.Crowd of plug-in " + std::filesystem::path(file()).filename().string();
    std::vector<std::string> expected{where + ": attribute 'axis' has integers, expected floats"};
    for (int k = 0; k < 8; ++k)
      expected.push_back(where + ": thread " + std::to_string(k) + " has a reason that is longer than a short string");
    EXPECT_TRUE(std::ranges::count(expected, text)) << text;
  }
}

TEST(Plugin, AnOperatorHasAPointerOfItsOwn) {
  ASSERT_TRUE(load("").ok());
  Tensor result;
  const npu::Status status = compute("User", result);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto *values = reinterpret_cast<const float *>(result.data.data());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values[i], 7);
}

}  // namespace
