// SPDX-License-Identifier: MIT
// Launching: check the tensors, bind them to the program's regions, submit.
#include <utility>

#include "bind.h"
#include "launch_check.h"
#include "outputs.h"
#include "runtime.h"

namespace npurt {

namespace {

/// Returns a scratch to its pool however the launch ends.
class ScratchGuard {
 public:
  ScratchGuard(Pool &pool, Scratch *scratch) : pool_(pool), scratch_(scratch) {}
  ~ScratchGuard() {
    if (scratch_) pool_.release(scratch_, nullptr, 0);
  }
  void busy(npu_context *context, uint64_t seqno) { pool_.release(std::exchange(scratch_, nullptr), context, seqno); }

 private:
  Pool &pool_;
  Scratch *scratch_;
};

}  // namespace

/// Binds and submits; the launch is the calling thread's from here on.
Reason Runtime::submit(const Prepared &what, std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs,
                       Launched &launched) {
  const Network &net = *what.network;
  const Stage &stage = *what.stage;
  std::vector<Place> in, out;
  Reason why = locate_all(device_, net, "input", stage.inputs, inputs, in);
  if (why.empty()) why = locate_all(device_, net, "output", stage.outputs, outputs, out);
  if (!why.empty()) return why;
  Scratch *scratch;
  why = stage.pool->acquire(&scratch);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  ScratchGuard guard(*stage.pool, scratch);
  Binder binder(stage, in, out, *scratch);
  why = binder.stage_outputs(device_);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  Jobs jobs;
  binder.bind(what.core_mask, jobs);
  Bo profile;
  if (tracing_->on()) why = tracing_->attach(stage, jobs, profile);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  const auto count = static_cast<unsigned int>(jobs.jobs.size());
  const int64_t begin_ns = tracing_->on() ? trace_now_ns() : 0;
  if (npu_bm_thread_context(handle(), &launched.context) != 0 ||
      npu_submit(launched.context, jobs.jobs.data(), count, &launched.seqno) != 0)
    return "network '" + net.name() + "': " + npu_last_error();
  launched.main_seqno = launched.seqno - (count - 1);
  launched.network = &net;
  launched.stage = &stage;
  guard.busy(launched.context, launched.seqno);
  if (tracing_->on())
    tracing_->launched(net, stage, launched.context, launched.main_seqno, std::move(profile), begin_ns);
  last_launch() = launched;
  return {};
}

/// Everything about a launch that can be checked before memory is touched.
Reason Runtime::prepare(const char *name, std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs,
                        const LaunchOptions &options, Prepared &out) const {
  Reason why;
  const Network *net = find(name, why);
  if (!net) return why;
  why = check_counts(*net, inputs.size(), outputs.size());
  if (why.empty()) why = check_inputs(*net, inputs);
  if (why.empty() && options.user_stmode) why = check_store_modes(*net, outputs);
  if (why.empty()) why = choose_cores(*net, options.cores, cores_, out.core_mask);
  if (!why.empty()) return why;
  std::vector<bm_shape_t> shapes;
  for (const bm_tensor_t &t : inputs) shapes.push_back(t.shape);
  out.network = net;
  return choose_stage(*net, shapes, out.stage);
}

Reason Runtime::launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                       const LaunchOptions &options, Launched *waiter) {
  Prepared what;
  Reason why = prepare(name, inputs, outputs, options, what);
  if (!why.empty()) return why;
  OwnOutputs own(handle(), outputs);
  if (!options.user_mem) why = own.allocate(*what.network, *what.stage);
  Launched launched;
  if (why.empty()) why = submit(what, inputs, outputs, launched);
  if (!why.empty()) return why;
  if (waiter) {
    *waiter = launched;
  } else {
    for (uint64_t s = launched.main_seqno; s <= launched.seqno; ++s)
      if (npu_bm_record(handle(), launched.context, s) != 0) {
        const Reason cause = npu_last_error();
        npu_wait(launched.context, launched.seqno, -1, nullptr);  // nobody else would wait for it
        return "network '" + what.network->name() + "': " + cause;
      }
  }
  own.keep();
  describe_outputs(*what.stage, outputs);
  return {};
}

}  // namespace npurt
