// SPDX-License-Identifier: MIT
// BMRUNTIME_ENABLE_PROFILE: a file that Perfetto and chrome://tracing open, with calls of the host, submissions, and
// what each engine of each core did, layer by layer, in one timeline.
//
// Slices have categories ("call", "copy", "wait", "submit", "launch", "compute", "transfer", "synchronize"), and there
// are counters of how much of the arithmetic and of memory's bandwidth is in use.
//
// Host events are in the host's time. Jobs are in modelled time, which begins where they were submitted, or where the
// job before them on their cores ends; so the engines' tracks show the chip at its nominal clock, not the host that
// plays it. A second group of tracks has the card's jobs in cycles, one behind the other: the same each time, and on
// any board.
#ifndef NPURT_TRACE_H
#define NPURT_TRACE_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/error.h"
#include "runtime/launch/memory/handles.h"
#include "runtime/launch/trace/traced_code.h"

namespace npurt {

/// What a traced job is called and computes; what it refers to outlives the trace.
struct Traced {
  const std::string &network;
  const std::vector<std::string> &layers;  ///< by the numbers that commands have
  const TracedCode &code;
  std::string inputs, outputs;  ///< "x float32 [1,8], ..."
};

/// A runtime's part in the process's trace. The file is whole when the last runtime is gone.
class Tracing {
 public:
  /// Opens the trace if the environment wants it.
  explicit Tracing(npu_device *device);
  /// Waits for what was launched, writes it.
  ~Tracing();
  Tracing(const Tracing &) = delete;
  Tracing &operator=(const Tracing &) = delete;

  bool on() const { return on_; }
  /// Gives a job of so many commands, whose regions are `regions`, a profile buffer. Call it before the submission;
  /// `profile` lives until launched().
  Status attach(uint64_t commands, std::vector<npu_job_region> &regions, npu_job_desc &job, Bo &profile) const;
  /// The job is submitted; the trace owns its profile now. `submit_ns` is when that began.
  void launched(const Traced &what, npu_context *context, uint64_t seqno, Bo profile, int64_t submit_ns);

 private:
  npu_device *const device_;
  bool on_ = false;
};

/// A call of the host, from construction to destruction.
class TracedCall {
 public:
  explicit TracedCall(const char *name);
  ~TracedCall();
  TracedCall(const TracedCall &) = delete;
  TracedCall &operator=(const TracedCall &) = delete;

 private:
  const char *const name_;
  const int64_t begin_ns_;  // 0: nobody traces
};

int64_t trace_now_ns();

/// Whether somebody traces: programs that are loaded meanwhile keep their commands.
bool is_traced();

}  // namespace npurt

#endif  // NPURT_TRACE_H
