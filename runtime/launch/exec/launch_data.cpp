// SPDX-License-Identifier: MIT
// The synchronous launch with data in system memory.
#include <cstdlib>

#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/exec/runtime.h"
#include "runtime/launch/model/quant.h"

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
  Status add(const TensorInfo &info) {
    bm_tensor_t t{info.dtype, info.shape, bm_mem_null(), BM_STORE_1N};
    if (bm_malloc_device_byte(handle(tensors.size()), &t.device_mem, static_cast<unsigned int>(info.bytes)) !=
        BM_SUCCESS)
      return npu_error();
    tensors.push_back(t);
    return {};
  }
  std::vector<bm_tensor_t> tensors;

 private:
  std::span<const Card> cards_;
  const std::vector<unsigned> &devices_;  // of each tensor
};

uint64_t elements_of(const TensorInfo &t) { return bmrt_shape_count(&t.shape); }

/// What is copied is what the program gives, unless that are numbers and the tensor has other elements.
bool is_converted(const TensorInfo &t, DataForm form) { return form == DataForm::Float32 && t.dtype != BM_FLOAT32; }

Status upload_input(const TensorInfo &t, DataForm form, const void *data, bm_handle_t handle, bm_device_mem_t mem) {
  std::vector<uint8_t> elements;
  if (is_converted(t, form)) {
    elements.resize(t.bytes);
    NPU_TRY(quantize(quant_of(t, Side::Input), static_cast<const float *>(data), elements_of(t), elements.data()));
    data = elements.data();
  }
  return bm_memcpy_s2d(handle, mem, const_cast<void *>(data)) == BM_SUCCESS ? Status() : npu_error();
}

Status upload_inputs(const Network &net, const std::vector<TensorInfo> &infos, std::span<void *const> datas,
                     DataForm form, DeviceTensors &in) {
  for (size_t i = 0; i < datas.size(); ++i) {
    const TensorInfo &t = infos[i];
    if (!datas[i]) return tensor_error(net, "input", i, t, "null pointer");
    NPU_TRY(in.add(t).within(tensor_name(net, "input", i, t)));
    NPU_TRY(upload_input(t, form, datas[i], in.handle(i), in.tensors.back().device_mem)
                .within(tensor_name(net, "input", i, t)));
  }
  return {};
}

Status read_output(const TensorInfo &t, DataForm form, bm_handle_t handle, bm_device_mem_t mem, void *data) {
  std::vector<uint8_t> elements;
  if (is_converted(t, form)) elements.resize(t.bytes);
  void *const to = elements.empty() ? data : elements.data();
  if (bm_memcpy_d2s_partial(handle, to, mem, static_cast<unsigned int>(t.bytes)) != BM_SUCCESS) return npu_error();
  if (elements.empty()) return {};
  return dequantize(quant_of(t, Side::Output), elements.data(), elements_of(t), static_cast<float *>(data));
}

Status read_outputs(const Network &net, const std::vector<TensorInfo> &infos, const DeviceTensors &out, DataForm form,
                    std::span<void *> datas, bool user_mem) {
  std::vector<std::unique_ptr<void, decltype(&std::free)>> own;
  for (size_t i = 0; i < datas.size(); ++i) {
    const TensorInfo &t = infos[i];
    const size_t bytes = is_converted(t, form) ? elements_of(t) * sizeof(float) : t.bytes;
    void *dst = user_mem ? datas[i] : std::malloc(bytes);
    if (!user_mem) own.emplace_back(dst, std::free);
    if (!dst) return tensor_error(net, "output", i, t, (user_mem ? "null pointer" : "out of system memory"));
    NPU_TRY(
        read_output(t, form, out.handle(i), out.tensors[i].device_mem, dst).within(tensor_name(net, "output", i, t)));
  }
  for (size_t i = 0; i < own.size(); ++i) datas[i] = own[i].release();
  return {};
}

}  // namespace

Status Runtime::launch_data(const char *name, std::span<void *const> input_datas,
                            std::span<const bm_shape_t> input_shapes, std::span<void *> output_datas,
                            std::span<bm_shape_t> output_shapes, bool user_mem, std::span<const int> cores,
                            DataForm form) {
  const Network *net;
  NPU_TRY(find(name, net));
  NPU_TRY(check_counts(*net, input_datas.size(), output_datas.size()));
  std::shared_ptr<const Stage> stage;
  NPU_TRY(choose_stage(*net, {input_shapes.begin(), input_shapes.end()}, stage));
  const int rows = stage->rows(input_shapes.data());
  auto input_infos = with_rows(stage->inputs, rows), output_infos = with_rows(stage->outputs, rows);
  for (auto *infos : {&input_infos, &output_infos})
    for (TensorInfo &t : *infos) store_as(BM_STORE_1N, t);
  DeviceTensors in(cards_, stage->input_device), out(cards_, stage->output_device);
  NPU_TRY(upload_inputs(*net, input_infos, input_datas, form, in));
  for (size_t i = 0; i < output_datas.size(); ++i)
    NPU_TRY(out.add(output_infos[i]).within(tensor_name(*net, "output", i, output_infos[i])));
  Launched launched;
  NPU_TRY(launch(name, in.tensors, out.tensors, {true, false, cores}, &launched));
  NPU_TRY(wait_for(launched).within("network '" + net->name() + "'"));
  NPU_TRY(read_outputs(*net, output_infos, out, form, output_datas, user_mem));
  for (size_t i = 0; i < output_shapes.size(); ++i) output_shapes[i] = output_infos[i].shape;
  return {};
}

}  // namespace npurt
