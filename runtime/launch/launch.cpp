// SPDX-License-Identifier: MIT
// Launching: check the tensors, bind them to the program's regions, submit.
#include "launch_check.h"
#include "outputs.h"
#include "runner.h"
#include "runtime.h"
#include "save_io.h"

namespace npurt {

/// Finds the memory of a stage that is one program, and submits it.
Reason Runtime::submit(const Prepared &what, std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs,
                       Launched &launched) {
  const Network &net = *what.network;
  const Stage &stage = *what.stage;
  const Card &card = cards_[0];
  std::vector<Place> in, out;
  Reason why = locate_all(card.device, net, "input", what.inputs, inputs, in);
  if (why.empty()) why = locate_all(card.device, net, "output", what.outputs, outputs, out);
  if (!why.empty()) return why;
  Scratch *scratch;
  why = stage.pools[0]->acquire(&scratch);
  if (!why.empty()) return "network '" + net.name() + "': " + why;
  ScratchGuard guard(*stage.pools[0], scratch);
  launched.network = &net;
  std::vector<Conversion> before, after;
  why = convert(card.device, false, stage.inputs, what.inputs, *scratch, in, before);
  if (why.empty()) why = convert(card.device, true, stage.outputs, what.outputs, *scratch, out, after);
  if (why.empty()) why = submit_conversions(card, stage, before, what.core_mask, launched);
  if (why.empty()) why = submit_unit(card, stage, in, out, *scratch, what.core_mask, launched);
  if (why.empty()) why = submit_conversions(card, stage, after, what.core_mask, launched);
  if (!why.empty()) {
    wait_for(launched);  // what has been submitted may not run on
    return "network '" + net.name() + "': " + why;
  }
  guard.busy(launched.jobs.back().context, launched.jobs.back().seqno);
  return {};
}

/// bm_thread_sync() waits for the jobs from `first` on.
Reason Runtime::record(const Launched &launched, size_t first) const {
  for (size_t i = first; i < launched.jobs.size(); ++i) {
    const LaunchedJob &job = launched.jobs[i];
    if (npu_bm_record(job.card->handle, job.context, job.seqno) == 0) continue;
    const Reason cause = npu_last_error();
    for (const LaunchedJob &j : launched.jobs) npu_wait(j.context, j.seqno, -1, nullptr);  // nobody else would wait
    return "network '" + launched.network->name() + "': " + cause;
  }
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
  if (why.empty()) why = choose_cores(*net, options.cores, cards_[0].cores, out.core_mask);
  if (!why.empty()) return why;
  std::vector<bm_shape_t> shapes;
  for (const bm_tensor_t &t : inputs) shapes.push_back(t.shape);
  out.network = net;
  why = choose_stage(*net, shapes, out.stage);
  if (!why.empty()) return why;
  out.rows = out.stage->rows(shapes.data());
  if (out.rows == out.stage->inputs[0].shape.dims[0]) out.rows = 0;
  out.inputs = with_rows(out.stage->inputs, out.rows);
  out.outputs = with_rows(out.stage->outputs, out.rows);
  for (size_t i = 0; i < inputs.size(); ++i) store_as(inputs[i].st_mode, out.inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    store_as(options.user_stmode ? outputs[i].st_mode : BM_STORE_1N, out.outputs[i]);
  return check_batches(*net, out.inputs, inputs);
}

Reason Runtime::launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                       const LaunchOptions &options, Launched *waiter) {
  Prepared what;
  Reason why = prepare(name, inputs, outputs, options, what);
  if (!why.empty()) return why;
  OwnOutputs own(cards_, *what.stage, what.outputs, outputs);
  if (!options.user_mem) why = own.allocate(*what.network);
  const bool saves = saves_io();
  if (why.empty() && saves) why = save_io(kSavedInputs, cards_, what.stage->input_device, what.inputs, inputs);
  if (!why.empty()) return why;
  Launched launched{what.network, what.stage, {}};
  size_t unfinished = 0;
  if (what.stage->plan) {
    Runner runner(cards_, what);
    why = runner.run(inputs, outputs, launched);
    unfinished = runner.unfinished();
  } else if (what.rows) {
    why = submit_rows(what, inputs, outputs, launched);
    unfinished = launched.jobs.size();
  } else {
    why = submit(what, inputs, outputs, launched);
  }
  if (!why.empty()) return why;
  last_launch() = launched;
  if (!waiter) why = record(launched, unfinished);
  if (!why.empty()) return why;
  // What becomes of a job that fails is told where its launch is waited for.
  if (saves && wait_for(launched).empty())
    why = save_io(kSavedOutputs, cards_, what.stage->output_device, what.outputs, outputs);
  if (!why.empty()) return why;
  if (waiter) *waiter = std::move(launched);
  own.keep();
  describe_outputs(what.outputs, outputs);
  return {};
}

}  // namespace npurt
