// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/results.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/bmodel/types.h"

namespace bmrt_test {

namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

/// What all threads have seen of a case.
struct Sum {
  Latencies latencies;
  double throughput = 0;  ///< launches a second of all threads together
  uint64_t cycles = 0;
};

Sum sum_of(const Run &run, size_t index) {
  Sum sum;
  for (const auto &worker : run.workers) {
    const CaseResult &r = worker->results()[index];
    sum.latencies.add(r.latencies);
    sum.throughput += r.throughput();
    if (r.cycles) sum.cycles = r.cycles;
  }
  return sum;
}

Times times_of(const Run &run) {
  Times sum;
  for (const auto &worker : run.workers) sum.add(worker->times());
  return sum;
}

const char *result_name(ExitCode code) {
  switch (code) {
    case kSuccess:
      return "success";
    case kMismatch:
      return "mismatch";
    case kLaunch:
      return "launch failed";
    default:
      return "not run";
  }
}

double us(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

/// JSON has neither infinities nor NaN.
ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

ordered_json tensor_json(const TensorPlan &t) {
  return {{"name", t.name},
          {"dtype", npu::bmodel::dtype_name(static_cast<uint32_t>(t.dtype))},
          {"shape", std::vector<int>(t.shape.dims, t.shape.dims + t.shape.num_dims)}};
}

/// Those of the first thread: all threads compute the same.
ordered_json comparisons_json(const Case &c, const CaseResult &seen) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < seen.outputs.size(); ++i) {
    const Comparison &cmp = seen.outputs[i];
    out.push_back({{"output", c.outputs[i].name},
                   {"equal", cmp.equal},
                   {"elements", bmrt_shape_count(&c.outputs[i].shape)},
                   {"differing", cmp.differing},
                   {"mismatches", cmp.mismatches},
                   {"largest_difference", number(cmp.largest.difference)},
                   {"limit", cmp.limit},
                   {"cosine", number(cmp.cosine)}});
  }
  return out;
}

ordered_json case_json(const Run &run, size_t index) {
  const Case &c = run.plan.cases[index];
  const Sum sum = sum_of(run, index);
  const Latencies &l = sum.latencies;
  ordered_json inputs = ordered_json::array(), outputs = ordered_json::array();
  for (const TensorPlan &t : c.inputs) {
    inputs.push_back(tensor_json(t));
    inputs.back()["from"] = t.source.empty() ? ordered_json(nullptr) : ordered_json(t.source);
  }
  for (const TensorPlan &t : c.outputs) outputs.push_back(tensor_json(t));
  ordered_json out = {{"network", c.name}, {"net_idx", c.network}, {"stage_idx", c.stage},
                      {"inputs", inputs},  {"outputs", outputs},   {"launches", l.count()}};
  out["latency_us"] = l.count() ? ordered_json{{"min", us(l.min())},          {"mean", l.mean() / 1e3},
                                               {"p50", us(l.percentile(50))}, {"p90", us(l.percentile(90))},
                                               {"p99", us(l.percentile(99))}, {"max", us(l.max())}}
                                : ordered_json(nullptr);
  out["launches_per_second"] = sum.throughput;
  const bool known = sum.cycles && run.clock_khz;
  out["modelled_cycles"] = known ? ordered_json(sum.cycles) : ordered_json(nullptr);
  out["modelled_us"] =
      known ? ordered_json(static_cast<double>(sum.cycles) * 1e3 / run.clock_khz) : ordered_json(nullptr);
  out["comparisons"] = comparisons_json(c, run.workers[0]->results()[index]);
  return out;
}

}  // namespace

void print_times(const Run &run) {
  for (size_t i = 0; i < run.plan.cases.size(); ++i) {
    const Sum sum = sum_of(run, i);
    std::printf("net[%d] stage[%d], %s\n", run.plan.cases[i].network, run.plan.cases[i].stage,
                latency_text(sum.latencies, sum.throughput).c_str());
  }
  const Times sum = times_of(run);
  std::printf("load bmodel time(s): %.6f\nload input time(s): %.6f\ncalculate time(s): %.6f\n", run.load,
              sum.load_input, sum.calculate);
  std::printf("get output time(s): %.6f\ncompare time(s): %.6f\n", sum.get_output, sum.compare);
}

std::string results_json(const Options &options, const Run &run) {
  const Times times = times_of(run);
  ordered_json out = {{"format", "bmrt_test"},
                      {"version", kVersion},
                      {"program", "bmrt_test " BMRT_TEST_VERSION},
                      {"model", options.bmodel},
                      {"device", options.device},
                      {"clock_khz", run.clock_khz},
                      {"loops", options.loops},
                      {"threads", options.threads},
                      {"launches_in_flight", options.calculate_times},
                      {"status", static_cast<int>(run.code)},
                      {"result", result_name(run.code)}};
  out["error"] = run.error.empty() ? ordered_json(nullptr) : ordered_json(run.error);
  out["seconds"] = {{"load_model", run.load},
                    {"load_input", times.load_input},
                    {"calculate", times.calculate},
                    {"get_output", times.get_output},
                    {"compare", times.compare}};
  out["cases"] = ordered_json::array();
  for (size_t i = 0; i < run.plan.cases.size() && !run.workers.empty(); ++i) out["cases"].push_back(case_json(run, i));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace bmrt_test
