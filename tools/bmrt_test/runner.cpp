// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/runner.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>

#include "bmruntime_log.h"
#include "npu.h"
#include "tools/bmrt_test/results.h"

namespace bmrt_test {

using npu::Status;

namespace {

struct FreeHandle {
  void operator()(bm_context *handle) const { bm_dev_free(handle); }
};
struct DestroyRuntime {
  void operator()(void *p_bmrt) const { bmrt_destroy(p_bmrt); }
};

/// Keeps and prints why a run does not go on.
void fail(Run &run, ExitCode code, const std::string &why) {
  run.code = code;
  run.error = why;
  std::fprintf(stderr, "bmrt_test: %s\n", why.c_str());
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
void run_workers(const Session &session, Run &run) {
  auto &workers = run.workers;
  for (unsigned i = 0; i < session.options.threads; ++i) workers.push_back(std::make_unique<Worker>(session));
  std::vector<int> codes(workers.size(), kSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) threads.emplace_back([&, i] { codes[i] = workers[i]->run(); });
  codes[0] = workers[0]->run();
  for (std::thread &t : threads) t.join();
  for (size_t i = 0; i < codes.size() && run.code == kSuccess; ++i) {
    run.code = static_cast<ExitCode>(codes[i]);
    run.error = workers[i]->error();
  }
}

Status write_file(const std::string &path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? Status() : Status::error(path + ": cannot write");
}

Status export_outputs(const Options &o, const std::vector<uint8_t> &bytes) {
  const std::string folder = o.context_dir.empty() ? "" : o.context_dir + "/";
  return write_file(folder + "output_ref_data.dat.bmrt_test",
                    {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

/// The runtime reads these when it is made. What the environment says already stays.
void ask_for_profile(const Options &o) {
  const std::string path = (o.context_dir.empty() ? std::string() : o.context_dir + "/") + "bmrt_test_profile.json";
  setenv("BMRUNTIME_ENABLE_PROFILE", "1", 1);
  setenv("BMRUNTIME_PROFILE_FILE", path.c_str(), 0);
}

void run_all(const Options &options, Run &run) {
  if (!std::getenv("BMRT_LOG_VERSION")) bmrt_set_current_log_level(BMRT_LogLevel::FATAL);  // fail() prints them
  bm_handle_t raw;
  if (bm_dev_request(&raw, options.device) != BM_SUCCESS)
    return fail(run, kLoad, "device " + std::to_string(options.device) + ": " + npu_last_error());
  const std::unique_ptr<bm_context, FreeHandle> handle(raw);
  run.clock_khz = clock_khz(options.device);
  if (options.profile) ask_for_profile(options);
  const std::unique_ptr<void, DestroyRuntime> p_bmrt(bmrt_create(raw));
  if (!p_bmrt) return fail(run, kLoad, bmrt_last_error());
  for (const std::string &path : options.plugins)
    if (!bmrt_load_plugin(path.c_str())) return fail(run, kLoad, std::string("--plugin: ") + bmrt_last_error());
  const auto start = std::chrono::steady_clock::now();
  if (!bmrt_load_bmodel(p_bmrt.get(), options.bmodel.c_str())) return fail(run, kLoad, bmrt_last_error());
  run.load = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const Status made = make_plan(p_bmrt.get(), options, run.plan); !made.ok())
    return fail(run, kLoad, made.message());
  const Session session{options, run.plan, raw, p_bmrt.get(), run.clock_khz};
  run_workers(session, run);
  if (run.code == kSuccess || run.code == kMismatch) print_times(run);
  if (!options.export_output || run.code == kLaunch) return;
  const Status written = export_outputs(options, run.workers[0]->outputs());
  if (!written.ok()) fail(run, kLoad, written.message());
}

}  // namespace

int run(const Options &options) {
  Run run;
  run_all(options, run);
  if (options.json.empty()) return run.code;
  const Status written = write_file(options.json, results_json(options, run));
  if (!written.ok()) fail(run, kLoad, written.message());
  return run.code;
}

}  // namespace bmrt_test
