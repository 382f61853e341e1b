// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/worker.h"

#include <chrono>
#include <cstdio>

#include "npu.h"

namespace bmrt_test {

using npu::Status;

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

uint64_t nanoseconds(Clock::time_point from, Clock::time_point to) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

}  // namespace

int Worker::fail(int code, const Case &c, const std::string &why) {
  const std::string where =
      "net[" + std::to_string(c.network) + "] '" + c.name + "' stage[" + std::to_string(c.stage) + "]: ";
  error_ = where + why;
  std::fprintf(stderr, "bmrt_test: %s\n", error_.c_str());
  return code;
}

/// A case's tensors in device memory.
class Worker::Tensors {
 public:
  explicit Tensors(const Session &session) : session_(session) {}
  ~Tensors() {
    for (auto *list : {&inputs, &outputs})
      for (const bm_tensor_t &t : *list) bm_free_device(session_.handle, t.device_mem);
  }
  Status allocate(const Case &c) {
    NPU_TRY(add(c.inputs, "input", inputs));
    return add(c.outputs, "output", outputs);
  }
  /// Copies the inputs; outputs become all ones (NaN), so that one that is not written cannot pass for right.
  Status upload(const Case &c) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      void *data = const_cast<uint8_t *>(session_.plan.input_data.data() + c.inputs[i].offset);
      const auto bytes = static_cast<unsigned int>(c.inputs[i].bytes);
      if (bm_memcpy_s2d_partial(session_.handle, inputs[i].device_mem, data, bytes) != BM_SUCCESS)
        return Status::error(npu_last_error());
    }
    uint8_t ones = 0xff;
    for (const bm_tensor_t &t : outputs)
      if (bm_memset_device_ext(session_.handle, &ones, 1, t.device_mem) != BM_SUCCESS)
        return Status::error(npu_last_error());
    return {};
  }
  Status download(const Case &c, std::vector<uint8_t> &out) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t at = out.size();
      out.resize(at + c.outputs[i].bytes);
      const auto bytes = static_cast<unsigned int>(c.outputs[i].bytes);
      if (bm_memcpy_d2s_partial(session_.handle, out.data() + at, outputs[i].device_mem, bytes) != BM_SUCCESS)
        return Status::error(npu_last_error());
    }
    return {};
  }
  std::vector<bm_tensor_t> inputs, outputs;

 private:
  Status add(const std::vector<TensorPlan> &plans, const char *what, std::vector<bm_tensor_t> &list) {
    for (const TensorPlan &p : plans) {
      bm_device_mem_t mem;
      if (bm_malloc_device_byte(session_.handle, &mem, static_cast<unsigned int>(p.bytes)) != BM_SUCCESS)
        return Status::error(std::string(what) + " '" + p.name + "': " + npu_last_error());
      bm_tensor_t t;
      bmrt_tensor_with_device(&t, mem, p.dtype, p.shape);
      list.push_back(t);
    }
    return {};
  }
  const Session &session_;
};

int Worker::run() {
  for (unsigned loop = 0; loop < session_.options.loops; ++loop) {
    outputs_.clear();
    for (size_t i = 0; i < results_.size(); ++i) {
      const int code = run_case(session_.plan.cases[i], results_[i]);
      if (code != kSuccess) return code;
    }
  }
  return kSuccess;
}

int Worker::run_case(const Case &c, CaseResult &seen) {
  Tensors tensors(session_);
  const auto start = Clock::now();
  Status status = tensors.allocate(c);
  if (status.ok()) status = tensors.upload(c);
  if (!status.ok()) return fail(kLaunch, c, status.message());
  const auto loaded = Clock::now();
  const int code = launch(c, tensors, seen);
  if (code != kSuccess) return code;
  const auto calculated = Clock::now();
  const size_t first_byte = outputs_.size();
  status = tensors.download(c, outputs_);
  if (!status.ok()) return fail(kLaunch, c, status.message());
  const auto read = Clock::now();
  const int result =
      session_.plan.output_data.empty() ? static_cast<int>(kSuccess) : check_outputs(c, first_byte, seen);
  const auto end = Clock::now();
  times_.load_input += seconds(start, loaded);
  times_.calculate += seconds(loaded, calculated);
  times_.get_output += seconds(calculated, read);
  times_.compare += seconds(read, end);
  return result;
}

int Worker::launch(const Case &c, Tensors &t, CaseResult &seen) {
  const Options &o = session_.options;
  const auto start = Clock::now();
  bool launched = true;
  std::vector<Clock::time_point> starts;
  for (unsigned i = 0; launched && i < o.calculate_times; ++i) {
    starts.push_back(Clock::now());
    launched = bmrt_launch_tensor_multi_cores(
        session_.p_bmrt, c.name.c_str(), t.inputs.data(), static_cast<int>(t.inputs.size()), t.outputs.data(),
        static_cast<int>(t.outputs.size()), true, false, o.cores.data(), static_cast<int>(o.cores.size()));
  }
  const std::string refused = launched ? "" : bmrt_last_error();
  const auto submitted = Clock::now();
  const bm_status_t status = bm_thread_sync(session_.handle);
  const std::string sync_error = status == BM_SUCCESS ? "" : npu_last_error();
  const auto end = Clock::now();
  if (!launched) return fail(kLaunch, c, refused);
  uint64_t cycles = 0;
  const bool known = bmrt_last_launch_cycles(session_.p_bmrt, &cycles);
  if (status != BM_SUCCESS) return fail(kLaunch, c, known ? sync_error : bmrt_last_error());
  for (const Clock::time_point from : starts) seen.latencies.add(nanoseconds(from, end));
  seen.launching += seconds(start, end);
  std::printf("net[%d] stage[%d], launch total time is %.0f us (npu %.0f us, cpu %.0f us)\n", c.network, c.stage,
              seconds(start, end) * 1e6, seconds(submitted, end) * 1e6, seconds(start, submitted) * 1e6);
  if (known) seen.cycles = cycles;
  if (known)
    std::printf("net[%d] stage[%d], modelled cycles %llu (%.1f us at %.0f MHz)\n", c.network, c.stage,
                static_cast<unsigned long long>(cycles), static_cast<double>(cycles) * 1e3 / session_.clock_khz,
                session_.clock_khz / 1e3);
  return kSuccess;
}

int Worker::check_outputs(const Case &c, size_t first_byte, CaseResult &seen) {
  const Options &o = session_.options;
  const Tolerance tolerance{o.accuracy_f, o.accuracy_i, o.ulp, o.accuracy_abs};
  int result = kSuccess;
  seen.outputs.clear();
  for (size_t i = 0, at = first_byte; i < c.outputs.size(); at += c.outputs[i++].bytes) {
    const TensorPlan &t = c.outputs[i];
    const Comparison cmp = compare(t.dtype, outputs_.data() + at, session_.plan.output_data.data() + t.offset,
                                   bmrt_shape_count(&t.shape), tolerance, t.zero_point);
    std::printf("net[%d] stage[%d], output %zu '%s': %s\n", c.network, c.stage, i, t.name.c_str(),
                summary(cmp, t.shape).c_str());
    seen.outputs.push_back(cmp);
    if (cmp.equal) continue;
    fail(kMismatch, c, "output " + std::to_string(i) + " '" + t.name + "': " + describe(cmp, t.shape));
    result = kMismatch;
  }
  std::printf("+++ The network[%d] stage[%d] cmp %s +++\n", c.network, c.stage,
              result == kSuccess ? "success" : "failed");
  return result;
}

}  // namespace bmrt_test
