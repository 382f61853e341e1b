// SPDX-License-Identifier: MIT
// The synchronous launch with data in system memory.
#include <cstdlib>

#include "launch_check.h"
#include "runtime.h"

namespace npurt {

namespace {

/// Device memory for the length of a call.
class DeviceTensors {
 public:
  DeviceTensors(std::span<const Card> cards, const std::vector<unsigned> &devices) : cards_(cards), devices_(devices) {}
  ~DeviceTensors() {
    for (size_t i = 0; i < tensors.size(); ++i) bm_free_device(handle(i), tensors[i].device_mem);
  }
  bm_handle_t handle(size_t i) const { return cards_[devices_[i]].handle; }
  Reason add(const TensorInfo &info) {
    bm_tensor_t t{info.dtype, info.shape, bm_mem_null(), BM_STORE_1N};
    if (bm_malloc_device_byte(handle(tensors.size()), &t.device_mem, static_cast<unsigned int>(info.bytes)) !=
        BM_SUCCESS)
      return npu_last_error();
    tensors.push_back(t);
    return {};
  }
  std::vector<bm_tensor_t> tensors;

 private:
  std::span<const Card> cards_;
  const std::vector<unsigned> &devices_;  // of each tensor
};

Reason upload_inputs(const Network &net, const std::vector<TensorInfo> &infos, std::span<void *const> datas,
                     DeviceTensors &in) {
  for (size_t i = 0; i < datas.size(); ++i) {
    const TensorInfo &t = infos[i];
    if (!datas[i]) return at(net, "input", i, t) + "null pointer";
    const Reason why = in.add(t);
    if (!why.empty()) return at(net, "input", i, t) + why;
    if (bm_memcpy_s2d(in.handle(i), in.tensors.back().device_mem, datas[i]) != BM_SUCCESS)
      return at(net, "input", i, t) + npu_last_error();
  }
  return {};
}

Reason read_outputs(const Network &net, const std::vector<TensorInfo> &infos, const DeviceTensors &out,
                    std::span<void *> datas, bool user_mem) {
  std::vector<std::unique_ptr<void, decltype(&std::free)>> own;
  for (size_t i = 0; i < datas.size(); ++i) {
    const TensorInfo &t = infos[i];
    void *dst = user_mem ? datas[i] : std::malloc(t.bytes);
    if (!user_mem) own.emplace_back(dst, std::free);
    if (!dst) return at(net, "output", i, t) + (user_mem ? "null pointer" : "out of system memory");
    if (bm_memcpy_d2s_partial(out.handle(i), dst, out.tensors[i].device_mem, static_cast<unsigned int>(t.bytes)) !=
        BM_SUCCESS)
      return at(net, "output", i, t) + npu_last_error();
  }
  for (size_t i = 0; i < own.size(); ++i) datas[i] = own[i].release();
  return {};
}

}  // namespace

Reason Runtime::launch_data(const char *name, std::span<void *const> input_datas,
                            std::span<const bm_shape_t> input_shapes, std::span<void *> output_datas,
                            std::span<bm_shape_t> output_shapes, bool user_mem, std::span<const int> cores) {
  Reason why;
  const Network *net = find(name, why);
  if (!net) return why;
  why = check_counts(*net, input_datas.size(), output_datas.size());
  if (!why.empty()) return why;
  std::shared_ptr<const Stage> stage;
  why = choose_stage(*net, {input_shapes.begin(), input_shapes.end()}, stage);
  if (!why.empty()) return why;
  const int rows = stage->rows(input_shapes.data());
  auto input_infos = with_rows(stage->inputs, rows), output_infos = with_rows(stage->outputs, rows);
  for (auto *infos : {&input_infos, &output_infos})
    for (TensorInfo &t : *infos) store_as(BM_STORE_1N, t);
  DeviceTensors in(cards_, stage->input_device), out(cards_, stage->output_device);
  why = upload_inputs(*net, input_infos, input_datas, in);
  for (size_t i = 0; why.empty() && i < output_datas.size(); ++i) {
    why = out.add(output_infos[i]);
    if (!why.empty()) why = at(*net, "output", i, output_infos[i]) + why;
  }
  if (!why.empty()) return why;
  Launched launched;
  why = launch(name, in.tensors, out.tensors, {true, false, cores}, &launched);
  if (why.empty()) why = wait_for(launched);
  if (why.empty()) why = read_outputs(*net, output_infos, out, output_datas, user_mem);
  for (size_t i = 0; why.empty() && i < output_shapes.size(); ++i) output_shapes[i] = output_infos[i].shape;
  return why;
}

}  // namespace npurt
