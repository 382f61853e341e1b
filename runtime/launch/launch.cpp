// SPDX-License-Identifier: MIT
// Launching: check the tensors, bind them to the program's regions, submit.
#include <cstring>
#include <utility>

#include "bind.h"
#include "launch_check.h"
#include "runtime.h"

namespace npurt {

namespace {

/// Outputs that the runtime allocated and has to free again if the launch fails.
class OwnOutputs {
 public:
  OwnOutputs(bm_handle_t handle, std::span<bm_tensor_t> outputs) : handle_(handle), outputs_(outputs) {}
  ~OwnOutputs() {
    for (size_t i = 0; i < allocated_; ++i)
      bm_free_device(handle_, std::exchange(outputs_[i].device_mem, bm_mem_null()));
  }
  Reason allocate(const Network &net, const Stage &stage) {
    for (; allocated_ < outputs_.size(); ++allocated_) {
      const TensorInfo &t = stage.outputs[allocated_];
      if (bm_malloc_device_byte(handle_, &outputs_[allocated_].device_mem, static_cast<unsigned int>(t.bytes)) !=
          BM_SUCCESS)
        return at(net, "output", allocated_, t) + npu_last_error();
    }
    return {};
  }
  void keep() { allocated_ = 0; }

 private:
  bm_handle_t handle_;
  std::span<bm_tensor_t> outputs_;
  size_t allocated_ = 0;
};

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

Reason locate_all(npu_device *device, const Network &net, const char *what, const std::vector<TensorInfo> &infos,
                  std::span<const bm_tensor_t> tensors, std::vector<Place> &places) {
  places.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Reason why = locate(device, tensors[i].device_mem, infos[i].bytes, places[i]);
    if (!why.empty()) return at(net, what, i, infos[i]) + why;
  }
  return {};
}

}  // namespace

/// Binds and submits; the launch is the calling thread's from here on.
Reason Runtime::submit(const Network &net, const Stage &stage, std::span<const bm_tensor_t> inputs,
                       std::span<const bm_tensor_t> outputs, uint32_t core_mask, Launched &launched) {
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
  binder.bind(core_mask, jobs);
  const auto count = static_cast<unsigned int>(jobs.jobs.size());
  if (npu_bm_thread_context(handle_, &launched.context) != 0 ||
      npu_submit(launched.context, jobs.jobs.data(), count, &launched.seqno) != 0)
    return "network '" + net.name() + "': " + npu_last_error();
  launched.main_seqno = launched.seqno - (count - 1);
  launched.network = &net;
  launched.stage = &stage;
  guard.busy(launched.context, launched.seqno);
  last_launch() = launched;
  return {};
}

Reason Runtime::launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                       const LaunchOptions &options, Launched *waiter) {
  Reason why;
  const Network *net = find(name, why);
  if (!net) return why;
  why = check_counts(*net, inputs.size(), outputs.size());
  if (why.empty()) why = check_inputs(*net, inputs);
  if (why.empty() && options.user_stmode) why = check_store_modes(*net, outputs);
  uint32_t core_mask = 0;
  if (why.empty()) why = choose_cores(*net, options.cores, cores_, core_mask);
  if (!why.empty()) return why;
  std::vector<bm_shape_t> shapes;
  for (const bm_tensor_t &t : inputs) shapes.push_back(t.shape);
  const Stage *stage;
  why = choose_stage(*net, shapes, stage);
  if (!why.empty()) return why;

  OwnOutputs own(handle_, outputs);
  if (!options.user_mem) why = own.allocate(*net, *stage);
  Launched launched;
  if (why.empty()) why = submit(*net, *stage, inputs, outputs, core_mask, launched);
  if (!why.empty()) return why;
  if (waiter) {
    *waiter = launched;
  } else {
    for (uint64_t s = launched.main_seqno; s <= launched.seqno; ++s)
      if (npu_bm_record(handle_, launched.context, s) != 0) {
        const Reason cause = npu_last_error();
        npu_wait(launched.context, launched.seqno, -1, nullptr);  // nobody else would wait for it
        return "network '" + net->name() + "': " + cause;
      }
  }
  own.keep();
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].dtype = stage->outputs[i].dtype;
    outputs[i].shape = stage->outputs[i].shape;
    outputs[i].st_mode = BM_STORE_1N;
  }
  return {};
}

}  // namespace npurt
