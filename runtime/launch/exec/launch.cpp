// SPDX-License-Identifier: MIT
// Launching: check the tensors against the network, then run the stage's plan.
#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/exec/outputs.h"
#include "runtime/launch/exec/runner.h"
#include "runtime/launch/exec/runtime.h"
#include "runtime/launch/exec/save_io.h"

namespace npurt {

/// bm_thread_sync() waits for the jobs from `first` on.
Status Runtime::record(const Launched &launched, size_t first) const {
  for (size_t i = first; i < launched.jobs.size(); ++i) {
    const LaunchedJob &job = launched.jobs[i];
    if (npu_bm_record(job.card->handle, job.context, job.seqno) == 0) continue;
    const Status cause = npu_error();
    for (const LaunchedJob &j : launched.jobs) npu_wait(j.context, j.seqno, -1, nullptr);  // nobody else would wait
    return cause.within("network '" + launched.network->name() + "'");
  }
  return {};
}

/// Everything about a launch that can be checked before memory is touched.
Status Runtime::prepare(const char *name, std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs,
                        const LaunchOptions &options, Prepared &out) const {
  const Network *net;
  NPU_TRY(find(name, net));
  NPU_TRY(check_counts(*net, inputs.size(), outputs.size()));
  NPU_TRY(check_inputs(*net, inputs));
  if (options.user_stmode) NPU_TRY(check_store_modes(*net, outputs));
  NPU_TRY(choose_cores(*net, options.cores, cards_[0].cores, out.core_mask));
  std::vector<bm_shape_t> shapes;
  shapes.reserve(inputs.size());
  for (const bm_tensor_t &t : inputs) shapes.push_back(t.shape);
  out.network = net;
  NPU_TRY(choose_stage(*net, shapes, out.stage));
  out.rows = out.stage->rows(shapes.data());
  if (out.rows == out.stage->inputs[0].shape.dims[0]) out.rows = 0;
  out.inputs.set(out.stage->inputs, out.rows, inputs, true);
  out.outputs.set(out.stage->outputs, out.rows, outputs, options.user_stmode);
  return check_batches(*net, out.inputs, inputs);
}

Status Runtime::launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                       const LaunchOptions &options, Launched *waiter) {
  Prepared what;
  NPU_TRY(prepare(name, inputs, outputs, options, what));
  OwnOutputs own(cards_, *what.stage, what.outputs, outputs);
  if (!options.user_mem) NPU_TRY(own.allocate(*what.network));
  const bool saves = saves_io();
  if (saves) NPU_TRY(save_io(kSavedInputs, cards_, what.stage->input_device, what.inputs, inputs));
  Launched launched{what.network, what.stage, {}};
  Runner runner(cards_, what);
  NPU_TRY(runner.run(inputs, outputs, launched));
  last_launch() = launched;
  if (!waiter) NPU_TRY(record(launched, runner.unfinished()));
  // What becomes of a job that fails is told where its launch is waited for.
  if (saves && wait_for(launched).ok())
    NPU_TRY(save_io(kSavedOutputs, cards_, what.stage->output_device, what.outputs, outputs));
  if (waiter) *waiter = std::move(launched);
  own.keep();
  describe_outputs(what.outputs, outputs);
  return {};
}

}  // namespace npurt
