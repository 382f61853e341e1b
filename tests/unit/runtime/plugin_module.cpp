// SPDX-License-Identifier: MIT
// A plug-in for tests. The environment's NPU_TEST_PLUGIN says what is wrong with it.
#include <npu_plugin.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

int infer_same(const npu_plugin_call *call) {
  call->outputs[0] = call->inputs[0];
  return 0;
}

/// Eight threads read attributes, one of them as another type than it has, and fail.
int compute_crowd(const npu_plugin_call *call) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([=] {
      for (int k = 0; k < 100; ++k) {
        uint64_t count;
        call->get_ints(call, "axis", &count);
        call->get_floats(call, "axis", &count);
        call->fail(call, ("thread " + std::to_string(i) + " has a reason that is longer than a short string").c_str());
      }
    });
  for (std::thread &t : threads) t.join();
  return 1;
}

int compute_user(const npu_plugin_call *call) {
  for (uint64_t i = 0; i < call->outputs[0].count; ++i)
    static_cast<float *>(call->outputs[0].data)[i] = *static_cast<const float *>(call->op->user);
  return 0;
}

npu_plugin_op op(const char *name, int (*compute)(const npu_plugin_call *), void *user = nullptr) {
  npu_plugin_op op{};
  op.domain = "test";
  op.name = name;
  op.least_inputs = op.most_inputs = op.least_outputs = op.most_outputs = 1;
  op.infer = infer_same;
  op.compute = compute;
  op.user = user;
  return op;
}

}  // namespace

const npu_plugin *npu_plugin_entry() {
  static float seven = 7;
  static npu_plugin_op ops[] = {op("Crowd", compute_crowd), op("User", compute_user, &seven)};
  static npu_plugin plugin{};
  const char *const mode = std::getenv("NPU_TEST_PLUGIN");
  const std::string wrong = mode ? mode : "";
  if (wrong == "standard exception") throw std::runtime_error("no licence");
  if (wrong == "other exception") throw 42;
  plugin.version = wrong == "newer" ? NPU_PLUGIN_VERSION + 1 : wrong == "version 0" ? 0 : NPU_PLUGIN_VERSION;
  plugin.op_count = 2;
  plugin.ops = ops;
  if (wrong == "reserved") plugin.reserved[3] = &plugin;
  if (wrong == "reserved of operator") ops[1].reserved[0] = &plugin;
  return &plugin;
}
