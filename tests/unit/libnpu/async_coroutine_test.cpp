// SPDX-License-Identifier: MIT
// npu_async.hpp: launches in coroutines. CMocka's asserts jump over destructors, so tests return a text instead:
// nullptr if all is well.
#include <npu_isa.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <npu_async.hpp>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "tests/unit/libnpu/groups.h"
}

namespace {

constexpr int64_t kLong = 120'000'000'000;
#define CHECK(condition)                                                                                         \
  do {                                                                                                           \
    if (!(condition)) throw std::runtime_error(std::string(#condition) + " does not hold: " + npu_last_error()); \
  } while (0)

/// A queue, a context, and a buffer of counters with a program that doubles nothing but fills one of them each.
class Bench {
 public:
  static constexpr unsigned kCommands = 64;
  Bench() {
    CHECK(!npu_device_open(0, &device));
    CHECK(!npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context));
    CHECK(!npu_async_create(device, NPU_ASYNC_AUTO, &queue));
    CHECK(!npu_bo_create(device, kCommands * NPU_CMD_BYTES, DRM_NPU_BO_SYSTEM, &program));
    CHECK(!npu_bo_create(device, 4096, DRM_NPU_BO_CARD, &data));
    for (unsigned i = 0; i < kCommands; i++) {
      npu_cmd_fill fill{};
      fill.opcode = NPU_OP_FILL;
      fill.value = i + 1;
      fill.dst_region = 1;
      fill.dst_offset = 8ull * i;
      fill.dst_dtype = NPU_DTYPE_S64;
      for (auto &dim : fill.dims) dim = 1;
      fill.dst_stride[5] = 1;
      if (i == kCommands - 1) fill.opcode = 0xfe;
      CHECK(!npu_write(program, uint64_t{i} * NPU_CMD_BYTES, &fill, sizeof(fill)));
    }
  }
  ~Bench() {
    npu_async_destroy(queue);
    npu_bo_unref(program);
    npu_bo_unref(data);
    npu_context_destroy(context);
    npu_device_close(device);
  }
  uint64_t counter(unsigned i) const {
    uint64_t value = ~0ull;
    CHECK(!npu_read(data, 8ull * i, &value, 8));
    return value;
  }

  npu_device *device = nullptr;
  npu_context *context = nullptr;
  npu_async *queue = nullptr;
  npu_bo *program = nullptr;
  npu_bo *data = nullptr;
};

npu::task<npu_completion> fill(const Bench &bench, unsigned i) {
  const npu_job_region regions[] = {{bench.program, 0, npu_bo_size(bench.program), DRM_NPU_REGION_READ, 0},
                                    {bench.data, 0, npu_bo_size(bench.data), DRM_NPU_REGION_WRITE, 0}};
  drm_npu_stream stream{};
  stream.gdma_count = 1;
  stream.gdma_offset = uint64_t{i} * NPU_CMD_BYTES;
  npu_job_desc job{};
  job.regions = regions;
  job.region_count = 2;
  job.streams = &stream;
  job.stream_count = 1;
  co_return co_await npu::launch(bench.queue, bench.context, job);
}

npu::task<unsigned> fill_one_after_the_other(const Bench &bench, unsigned from, unsigned count) {
  unsigned good = 0;
  for (unsigned i = from; i < from + count; i++)
    if (!(co_await fill(bench, i)).error) good++;
  co_return good;
}

void a_coroutine_awaits_launches() {
  Bench bench;
  CHECK(npu::run(bench.queue, fill_one_after_the_other(bench, 0, 20)) == 20);
  for (unsigned i = 0; i < 20; i++) CHECK(bench.counter(i) == i + 1);
  CHECK(bench.counter(20) == 0);
}

void errors_are_values() {
  Bench bench;
  const npu_completion done = npu::run(bench.queue, fill(bench, Bench::kCommands - 1));
  CHECK(done.error == -EIO && done.fault.status == NPU_STATUS_BAD_OPCODE && done.seqno == 1);
  const npu_completion refused = npu::run(bench.queue, fill(bench, Bench::kCommands));
  CHECK(refused.error == -EINVAL && refused.seqno == 0);
}

void hundreds_of_coroutines_in_one_thread() {
  Bench bench;
  std::vector<npu::task<unsigned>> tasks;
  // As in async_test.c.
  const char *const launches = std::getenv("NPU_ASYNC_LAUNCHES");
  const unsigned count = static_cast<unsigned>(launches ? std::atoi(launches) : 2000) / 4;
  for (unsigned i = 0; i < count; i++) tasks.push_back(fill_one_after_the_other(bench, i % 60, 3));
  for (auto &task : tasks) task.start();
  while (npu_async_unfinished(bench.queue)) CHECK(npu_async_process(bench.queue, 0, kLong) > 0);
  for (auto &task : tasks) CHECK(task.done() && task.result() == 3);
  for (unsigned i = 0; i < std::min(count, 60u) + 2; i++) CHECK(bench.counter(i) == i + 1);
}

npu::task<> start_all_then_await(const Bench &bench, unsigned *good) {
  std::vector<npu::task<npu_completion>> parts;
  for (unsigned i = 0; i < 10; i++) parts.push_back(fill(bench, i));
  for (auto &part : parts) part.start();
  for (auto &part : parts)
    if (!(co_await part).error) ++*good;
}

void parts_run_side_by_side() {
  Bench bench;
  unsigned good = 0;
  npu::run(bench.queue, start_all_then_await(bench, &good));
  CHECK(good == 10);
}

npu::task<int> throws_after_a_launch(const Bench &bench) {
  co_await fill(bench, 0);
  throw std::runtime_error("thrown on purpose");
}

npu::task<int> catches(const Bench &bench) {
  try {
    co_return co_await throws_after_a_launch(bench);
  } catch (const std::runtime_error &) {
    co_return 7;
  }
}

void exceptions_come_out_of_tasks() {
  Bench bench;
  CHECK(npu::run(bench.queue, catches(bench)) == 7);
  std::string text;
  try {
    npu::run(bench.queue, throws_after_a_launch(bench));
  } catch (const std::runtime_error &error) {
    text = error.what();
  }
  CHECK(text == "thrown on purpose");
}

npu::task<> waits_for_nothing() { co_await std::suspend_always{}; }

void run_does_not_wait_for_what_never_comes() {
  Bench bench;
  std::string text;
  try {
    npu::run(bench.queue, waits_for_nothing());
  } catch (const std::logic_error &error) {
    text = error.what();
  }
  CHECK(text.find("no launch of this queue") != text.npos);
}

/// Its frame goes while the launch is in flight; the callback comes later.
void a_coroutine_ends_while_it_waits() {
  Bench bench;
  {
    npu::task<npu_completion> task = fill(bench, 5);
    task.start();
    CHECK(npu_async_unfinished(bench.queue) == 1);
  }
  while (npu_async_unfinished(bench.queue)) CHECK(npu_async_process(bench.queue, 0, kLong) == 1);
  CHECK(bench.counter(5) == 6);
}

/// Those that wait go on with -ECANCELED, and find that nothing can be submitted any more.
void a_queue_ends_under_its_coroutines() {
  Bench bench;
  npu::task<unsigned> task = fill_one_after_the_other(bench, 0, 60);
  task.start();
  npu_async_destroy(bench.queue);
  CHECK(task.done() && task.result() <= 1);
  CHECK(!npu_async_create(bench.device, NPU_ASYNC_AUTO, &bench.queue));
}

/// Runs a test; a text instead of an exception.
template <void (*test)()>
void run(void **) {
  static char text[600];
  *text = 0;
  try {
    test();
  } catch (const std::exception &error) {
    std::snprintf(text, sizeof(text), "%s", error.what());
  }
  if (*text) fail_msg("%s", text);
}

}  // namespace

extern "C" int async_coroutine_tests(void) {
  const struct CMUnitTest tests[] = {
      {"a_coroutine_awaits_launches", run<a_coroutine_awaits_launches>, nullptr, nullptr, nullptr},
      {"errors_are_values", run<errors_are_values>, nullptr, nullptr, nullptr},
      {"hundreds_of_coroutines_in_one_thread", run<hundreds_of_coroutines_in_one_thread>, nullptr, nullptr, nullptr},
      {"parts_run_side_by_side", run<parts_run_side_by_side>, nullptr, nullptr, nullptr},
      {"exceptions_come_out_of_tasks", run<exceptions_come_out_of_tasks>, nullptr, nullptr, nullptr},
      {"run_does_not_wait_for_what_never_comes", run<run_does_not_wait_for_what_never_comes>, nullptr, nullptr,
       nullptr},
      {"a_coroutine_ends_while_it_waits", run<a_coroutine_ends_while_it_waits>, nullptr, nullptr, nullptr},
      {"a_queue_ends_under_its_coroutines", run<a_queue_ends_under_its_coroutines>, nullptr, nullptr, nullptr},
  };
  return cmocka_run_group_tests_name("async_coroutine", tests, nullptr, nullptr);
}
