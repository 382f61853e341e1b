// SPDX-License-Identifier: MIT
// BMRUNTIME_ENABLE_PROFILE: the file is JSON, its slices nest, and they say what the launches did.
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using nlohmann::json;
using test_models::sample;
using namespace test_runtime;

constexpr double kRounding = 0.0021;  // times are written in whole nanoseconds
constexpr int64_t kByCycles = 2000;   // groups of tracks from there on have cycles, and tests of their own

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trace-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    dir_ = name;
    path_ = dir_ + "/trace.json";
    setenv("BMRUNTIME_ENABLE_PROFILE", "1", 1);
    setenv("BMRUNTIME_PROFILE_FILE", path_.c_str(), 1);
    ASSERT_EQ(bm_dev_request(&handle_, 0), BM_SUCCESS) << npu_last_error();
  }
  void TearDown() override {
    unsetenv("BMRUNTIME_ENABLE_PROFILE");
    unsetenv("BMRUNTIME_PROFILE_FILE");
    bm_dev_free(handle_);
    EXPECT_EQ(system(("rm -r " + dir_).c_str()), 0);
  }
  void *make_runtime() {
    void *runtime = bmrt_create(handle_);
    const auto bytes = sample();
    EXPECT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
    return runtime;
  }
  /// Launches "affine"; its modelled cycles.
  uint64_t launch(void *runtime) {
    const DeviceFloats x(handle_, Floats(16)), y(handle_, Floats(16));
    const bm_tensor_t in = tensor(x.mem(), {16});
    bm_tensor_t out = tensor(y.mem(), {16});
    EXPECT_TRUE(bmrt_launch_tensor_ex(runtime, "affine", &in, 1, &out, 1, true, false)) << bmrt_last_error();
    EXPECT_EQ(bm_thread_sync(handle_), BM_SUCCESS);
    uint64_t cycles = 0;
    EXPECT_TRUE(bmrt_last_launch_cycles(runtime, &cycles)) << bmrt_last_error();
    return cycles;
  }
  /// The only trace of the folder: the process may have written others before, they have numbers.
  json events() {
    for (const char *pattern : {"", ".1", ".2", ".3", ".4", ".5", ".6", ".7", ".8", ".9"})
      if (std::ifstream file(path_ + pattern); file) return json::parse(file);
    ADD_FAILURE() << "no trace in " << dir_;
    return json::array();
  }
  std::string dir_, path_;
  bm_handle_t handle_ = nullptr;
};

std::string track_name(const json &events, const json &slice) {
  for (const json &e : events)
    if (e["ph"] == "M" && e["name"] == "thread_name" && e["pid"] == slice["pid"] && e["tid"] == slice["tid"])
      return e["args"]["name"];
  return "nameless";
}

std::vector<json> slices(const json &events, const std::string &track) {
  std::vector<json> out;
  for (const json &e : events)
    if (e["ph"] == "X" && e["pid"] < kByCycles && contains(track_name(events, e), track)) out.push_back(e);
  return out;
}

std::vector<json> named(const std::vector<json> &list, const std::string &name) {
  std::vector<json> out;
  for (const json &e : list)
    if (e["name"] == name) out.push_back(e);
  return out;
}

double begin(const json &slice) { return slice["ts"]; }
double end(const json &slice) { return slice["ts"].get<double>() + slice["dur"].get<double>(); }

/// Two slices of one track are either apart or one inside the other.
void expect_nesting(const json &events) {
  std::map<std::pair<int64_t, int64_t>, std::vector<json>> tracks;
  for (const json &e : events)
    if (e["ph"] == "X") tracks[{e["pid"], e["tid"]}].push_back(e);
  EXPECT_GE(tracks.size(), 4u);
  for (const auto &[track, list] : tracks)
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const json &a = begin(list[i]) < begin(list[j]) ? list[i] : list[j];
        const json &b = &a == &list[i] ? list[j] : list[i];
        EXPECT_TRUE(begin(b) >= end(a) - kRounding || end(b) <= end(a) + kRounding || begin(b) - begin(a) < kRounding)
            << a << " and " << b;
      }
}

TEST_F(TraceTest, HasHostJobsAndEnginesInOneTimeline) {
  void *const runtime = make_runtime();
  const uint64_t cycles[] = {launch(runtime), launch(runtime)};
  bmrt_destroy(runtime);
  const json all = events();
  ASSERT_TRUE(all.is_array());
  expect_nesting(all);
  const auto host = slices(all, "thread "), jobs = slices(all, " jobs");
  EXPECT_EQ(named(host, "bmrt_load_bmodel_data").size(), 1u);
  const auto launches = named(host, "bmrt_launch_tensor_ex"), submissions = named(host, "submit");
  ASSERT_EQ(launches.size(), 2u);
  ASSERT_EQ(submissions.size(), 2u);
  EXPECT_EQ(named(host, "bm_thread_sync").size(), 2u);
  EXPECT_EQ(named(host, "copy to device").size(), 4u);
  ASSERT_EQ(jobs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(jobs[i]["name"], "affine");
    EXPECT_EQ(jobs[i]["args"]["cycles"], cycles[i]);
    EXPECT_GE(begin(submissions[i]), begin(launches[i]) - kRounding);
    EXPECT_LE(end(submissions[i]), end(launches[i]) + kRounding);
    EXPECT_GE(begin(jobs[i]), end(submissions[i]) - kRounding) << "a job follows its submission";
  }
  EXPECT_GE(begin(jobs[1]), end(jobs[0]) - kRounding);
}

// "affine": five GDMA commands before the arithmetic and after it, two of the TIU.
TEST_F(TraceTest, EnginesShowEveryCommandInsideItsJob) {
  void *const runtime = make_runtime();
  const uint64_t cycles = launch(runtime);
  bmrt_destroy(runtime);
  const json all = events();
  const auto jobs = slices(all, " jobs"), tiu = slices(all, " TIU"), gdma = slices(all, " GDMA");
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(tiu.size(), 2u);
  ASSERT_EQ(gdma.size(), 5u);
  EXPECT_EQ(tiu[0]["args"]["command"], "ELTWISE");
  EXPECT_EQ(tiu[0]["name"], "first") << "the layer's name";
  EXPECT_EQ(gdma[0]["args"]["command"], "COPY");
  uint64_t last = 0;
  for (const auto *list : {&tiu, &gdma})
    for (size_t i = 0; i < list->size(); ++i) {
      const json &slice = (*list)[i];
      EXPECT_EQ(slice["args"]["index"], i);
      EXPECT_GE(begin(slice), begin(jobs[0]) - kRounding);
      EXPECT_LE(end(slice), end(jobs[0]) + kRounding);
      EXPECT_GE(begin(slice), i ? end((*list)[i - 1]) - kRounding : 0) << "an engine does one thing at a time";
      last += slice["args"]["cycles"].get<uint64_t>();
    }
  EXPECT_GE(begin(tiu[0]), end(gdma[2]) - kRounding) << "it waits for three copies";
  EXPECT_GE(begin(gdma[3]), end(tiu[1]) - kRounding);
  EXPECT_EQ(last, cycles) << "nothing overlaps in this network";
}

TEST_F(TraceTest, ArrowsLeadFromSubmissionsToJobs) {
  void *const runtime = make_runtime();
  launch(runtime);
  bmrt_destroy(runtime);
  const json all = events();
  const auto jobs = slices(all, " jobs"), submissions = named(slices(all, "thread "), "submit");
  int starts = 0, ends = 0;
  for (const json &e : all) {
    if (e["ph"] == "s") {
      ++starts;
      EXPECT_GE(e["ts"].get<double>(), begin(submissions[0]) - kRounding);
      EXPECT_LE(e["ts"].get<double>(), end(submissions[0]) + kRounding);
      EXPECT_EQ(e["tid"], submissions[0]["tid"]);
    } else if (e["ph"] == "f") {
      ++ends;
      EXPECT_NEAR(e["ts"].get<double>(), begin(jobs[0]), kRounding);
      EXPECT_EQ(e["tid"], jobs[0]["tid"]);
    }
  }
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(ends, 1);
}

TEST_F(TraceTest, ThreadsAndRuntimesShareIt) {
  void *const runtimes[] = {make_runtime(), make_runtime()};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) launch(runtimes[t % 2]);
    });
  for (std::thread &t : threads) t.join();
  for (void *runtime : runtimes) bmrt_destroy(runtime);
  const json all = events();
  const auto jobs = slices(all, " jobs");
  EXPECT_EQ(jobs.size(), 80u);
  std::map<int64_t, double> free_at;
  for (const json &job : jobs) {
    double &free = free_at[job["tid"].get<int64_t>()];
    EXPECT_GE(begin(job), free - kRounding) << "a core runs one job at a time";
    free = end(job);
  }
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsNoReasonToStop) {
  setenv("BMRUNTIME_PROFILE_FILE", "/nonexistent/trace.json", 1);
  void *const runtime = make_runtime();
  ASSERT_TRUE(runtime);
  EXPECT_GT(launch(runtime), 0u);
  bmrt_destroy(runtime);
}

TEST_F(TraceTest, NothingIsWrittenUnlessAskedFor) {
  setenv("BMRUNTIME_ENABLE_PROFILE", "0", 1);
  void *const runtime = make_runtime();
  launch(runtime);
  bmrt_destroy(runtime);
  for (const char *number : {"", ".1", ".2", ".3", ".4", ".5"}) EXPECT_NE(access((path_ + number).c_str(), F_OK), 0);
}

}  // namespace
