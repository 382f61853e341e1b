// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/runner.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "bmruntime_log.h"
#include "npu.h"
#include "tools/bmrt_test/worker.h"

namespace bmrt_test {

using npu::Status;

namespace {

struct FreeHandle {
  void operator()(bm_context *handle) const { bm_dev_free(handle); }
};
struct DestroyRuntime {
  void operator()(void *p_bmrt) const { bmrt_destroy(p_bmrt); }
};

int fail(int code, const std::string &why) {
  std::fprintf(stderr, "bmrt_test: %s\n", why.c_str());
  return code;
}

/// The clock that modelled cycles count in.
uint32_t clock_khz(int device) {
  npu_device *d;
  drm_npu_dev_info info{};
  if (npu_device_open(static_cast<unsigned int>(device), &d) != 0) return 0;
  npu_device_info(d, &info);
  npu_device_close(d);
  return info.clock_khz;
}

/// Runs the workers; the first failure decides.
int run_workers(const Session &session, std::vector<std::unique_ptr<Worker>> &workers) {
  for (unsigned i = 0; i < session.options.threads; ++i) workers.push_back(std::make_unique<Worker>(session));
  std::vector<int> codes(workers.size(), kSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) threads.emplace_back([&, i] { codes[i] = workers[i]->run(); });
  codes[0] = workers[0]->run();
  for (std::thread &t : threads) t.join();
  for (const int code : codes)
    if (code != kSuccess) return code;
  return kSuccess;
}

Status export_outputs(const Options &o, const std::vector<uint8_t> &bytes) {
  const std::string path =
      (o.context_dir.empty() ? std::string() : o.context_dir + "/") + "output_ref_data.dat.bmrt_test";
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? Status() : Status::error(path + ": cannot write");
}

void print_times(double load, const std::vector<std::unique_ptr<Worker>> &workers) {
  Times sum;
  for (const auto &w : workers) {
    sum.load_input += w->times().load_input;
    sum.calculate += w->times().calculate;
    sum.get_output += w->times().get_output;
    sum.compare += w->times().compare;
  }
  std::printf("load bmodel time(s): %.6f\nload input time(s): %.6f\ncalculate time(s): %.6f\n", load, sum.load_input,
              sum.calculate);
  std::printf("get output time(s): %.6f\ncompare time(s): %.6f\n", sum.get_output, sum.compare);
}

/// The runtime reads these when it is made. What the environment says already stays.
void ask_for_profile(const Options &o) {
  const std::string path = (o.context_dir.empty() ? std::string() : o.context_dir + "/") + "bmrt_test_profile.json";
  setenv("BMRUNTIME_ENABLE_PROFILE", "1", 1);
  setenv("BMRUNTIME_PROFILE_FILE", path.c_str(), 0);
}

}  // namespace

int run(const Options &options) {
  if (!std::getenv("BMRT_LOG_VERSION")) bmrt_set_current_log_level(BMRT_LogLevel::FATAL);  // fail() prints them
  bm_handle_t raw;
  if (bm_dev_request(&raw, options.device) != BM_SUCCESS)
    return fail(kLoad, "device " + std::to_string(options.device) + ": " + npu_last_error());
  const std::unique_ptr<bm_context, FreeHandle> handle(raw);
  if (options.profile) ask_for_profile(options);
  const std::unique_ptr<void, DestroyRuntime> p_bmrt(bmrt_create(raw));
  if (!p_bmrt) return fail(kLoad, bmrt_last_error());
  const auto start = std::chrono::steady_clock::now();
  if (!bmrt_load_bmodel(p_bmrt.get(), options.bmodel.c_str())) return fail(kLoad, bmrt_last_error());
  const double load = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Plan plan;
  if (const Status made = make_plan(p_bmrt.get(), options, plan); !made.ok()) return fail(kLoad, made.message());
  const Session session{options, plan, raw, p_bmrt.get(), clock_khz(options.device)};
  std::vector<std::unique_ptr<Worker>> workers;
  const int code = run_workers(session, workers);
  if (code == kSuccess || code == kMismatch) print_times(load, workers);
  if (!options.export_output || code == kLaunch) return code;
  const Status written = export_outputs(options, workers[0]->outputs());
  return written.ok() ? code : fail(kLoad, written.message());
}

}  // namespace bmrt_test
