// SPDX-License-Identifier: MIT
#include "python/native/runtime.h"

#include <algorithm>

#include "python/native/lock.h"

namespace npu::python {

Runtime::Runtime(std::vector<DevicePtr> devices) : devices_(std::move(devices)) {
  std::vector<bm_handle_t> handles;
  for (const DevicePtr &device : devices_) {
    if (!device) throw Failure("devices: None is among them; Device objects are expected");
    handles.push_back(device->handle());
  }
  runtime_ = bmrt_create_ex(handles.data(), static_cast<int>(handles.size()));
  if (!runtime_) runtime_failed();
}

Runtime::~Runtime() {
  const WithoutLock free;
  bmrt_destroy(runtime_);
}

void Runtime::load(const std::string &path) {
  if (!bmrt_load_bmodel(runtime_, path.c_str())) runtime_failed();
}

void Runtime::load(const void *model, size_t bytes) {
  if (bmrt_load_bmodel_data(runtime_, model, bytes)) return;
  std::string why = without_functions(bmrt_last_error());
  if (const std::string_view from = "(memory)"; why.starts_with(from))
    why.replace(0, from.size(), "the .bmodel's bytes");
  throw Failure(why);
}

std::vector<std::string> Runtime::names() const {
  std::vector<std::string> names;
  for (int i = 0; i < bmrt_get_network_number(runtime_); ++i) names.push_back(bmrt_get_network_name(runtime_, i));
  return names;
}

const bm_net_info_t &Runtime::info(const std::string &network) const {
  const bm_net_info_t *const info = bmrt_get_network_info(runtime_, network.c_str());
  if (!info) runtime_failed();
  return *info;
}

void Runtime::set_max_launches(int count) {
  if (!bmrt_set_max_launches(runtime_, count)) runtime_failed();
}

void Runtime::enter() {
  ++in_flight_;
  if (!closed_) return;
  leave();
  throw Failure("the session is closed");
}

void Runtime::leave() {
  if (--in_flight_ == 0) in_flight_.notify_all();
}

void Runtime::close() {
  closed_ = true;
  if (getpid() != pid_) return;
  for (int count; (count = in_flight_) != 0;) in_flight_.wait(count);
}

std::string input_name(const bm_net_info_t &net, size_t i) {
  return "network '" + std::string(net.name) + "' input '" + net.input_names[i] + "'";
}

std::string output_name(const bm_net_info_t &net, size_t i) {
  return "network '" + std::string(net.name) + "' output '" + net.output_names[i] + "'";
}

/// A tensor of another card is refused with the name of the input or output. Any Device object of the same card will
/// do: a process has one address space on each card.
void Launch::check_device(const std::string &where, const TensorPtr &tensor, int device) const {
  const int have = tensor->memory()->device()->index(), want = runtime->device(device)->index();
  if (have != want)
    throw Failure(where + ": the tensor is on device " + std::to_string(have) + ", expected device " +
                  std::to_string(want));
}

void Launch::check() const {
  const bm_net_info_t &net = runtime->info(network);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool converted = numbers && !inputs[i].tensor;
    check_type(input_name(net, i), inputs[i].type, converted ? BM_FLOAT32 : net.input_dtypes[i]);
    (void)bytes_of(inputs[i].type, inputs[i].shape, input_name(net, i));
    if (inputs[i].tensor) check_device(input_name(net, i), inputs[i].tensor, net.input_loc_devices[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (to_caller(i)) {
      const bool converted = numbers && !outputs[i].tensor;
      check_type(output_name(net, i), outputs[i].type, converted ? BM_FLOAT32 : net.output_dtypes[i]);
      if (outputs[i].tensor) check_device(output_name(net, i), outputs[i].tensor, net.output_loc_devices[i]);
    }
}

void Launch::upload(size_t i, bm_tensor_t &tensor, std::vector<MemoryPtr> &memory) const {
  const bm_net_info_t &net = runtime->info(network);
  const Input &in = inputs[i];
  const bm_data_type_t type = net.input_dtypes[i];
  const uint64_t bytes = bytes_of(type, in.shape, input_name(net, i));
  tensor = {type, runtime_shape(in.shape, input_name(net, i)), bm_mem_null(), BM_STORE_1N};
  if (in.tensor) {
    in.tensor->flush();
    tensor.device_mem = in.tensor->device_mem();
    return;
  }
  memory.push_back(std::make_shared<Memory>(runtime->device(net.input_loc_devices[i]), bytes));
  tensor.device_mem = memory.back()->part(0, bytes);
  if (numbers && type != BM_FLOAT32) {
    bmrt_quant_t quant;
    std::vector<uint8_t> elements(bytes);
    if (!bmrt_get_input_quant(runtime->get(), net.name, static_cast<int>(i), &quant) ||
        !bmrt_quantize(&quant, static_cast<const float *>(in.data), bytes / type_bytes(type), elements.data()))
      runtime_failed();
    memory.back()->write(0, elements.data(), bytes);
  } else {
    memory.back()->write(0, in.data, bytes);
  }
}

void Launch::check_shape(size_t i, const bm_shape_t &shape) const {
  if (to_caller(i) && outputs[i].shape != shape_of(shape))
    throw Failure(output_name(runtime->info(network), i) + ": shape " + shape_text(outputs[i].shape) + ", expected " +
                  shape_text(shape_of(shape)));
}

/// What the caller has a place for is looked at before anything is written, where the shape is known by then. Memory
/// for all outputs, if one of them is a tensor of the caller's.
void Launch::place_outputs(const bm_tensor_t *in, std::vector<bm_tensor_t> &tensors,
                           std::vector<MemoryPtr> &memory) const {
  const bm_net_info_t &net = runtime->info(network);
  const int stage = bmrt_get_stage_index(runtime->get(), net.name, const_cast<bm_tensor_t *>(in));
  for (size_t i = 0; i < outputs.size() && stage >= 0 && !net.is_dynamic; ++i)
    check_shape(i, net.stages[stage].output_shapes[i]);
  if (std::none_of(outputs.begin(), outputs.end(), [](const Output &out) { return out.tensor != nullptr; })) return;
  memory.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].tensor) {
      outputs[i].tensor->flush();
      tensors[i].device_mem = outputs[i].tensor->device_mem();
    } else {
      memory[i] = std::make_shared<Memory>(runtime->device(net.output_loc_devices[i]), net.max_output_bytes[i]);
      tensors[i].device_mem = memory[i]->part(0, net.max_output_bytes[i]);
    }
  }
}

void Launch::wait() {
  const bool finished = bm_thread_sync(runtime->device(0)->handle()) == BM_SUCCESS;
  const std::string why = finished ? "" : without_functions(npu_last_error());
  const bool known = bmrt_last_launch_cycles(runtime->get(), &cycles);
  if (finished) return;
  if (!known) runtime_failed();  // this text names the tensor as well
  throw Failure(why);
}

void Launch::fetch(size_t i, const bm_tensor_t &tensor, MemoryPtr memory) {
  const bm_net_info_t &net = runtime->info(network);
  Output &out = outputs[i];
  check_shape(i, tensor.shape);
  out.shape = shape_of(tensor.shape);
  const bool converted = numbers && tensor.dtype != BM_FLOAT32 && !out.tensor && !(on_device && !out.data);
  out.type = converted ? BM_FLOAT32 : tensor.dtype;
  if (out.tensor) return out.tensor->invalidate();
  if (on_device && !out.data) {
    out.tensor = std::make_shared<Tensor>(std::move(memory), 0, out.shape, out.type);
    return;
  }
  const uint64_t bytes = bytes_of(tensor.dtype, out.shape, output_name(net, i));
  const uint64_t count = bytes / type_bytes(tensor.dtype);
  if (!out.data) out.own.reset(std::malloc(converted ? count * sizeof(float) : bytes));
  void *const to = out.data ? out.data : out.own.get();
  if (!to) throw Failure(output_name(net, i) + ": out of system memory");
  if (!converted) return memory->read(0, to, bytes);
  bmrt_quant_t quant;
  std::vector<uint8_t> elements(bytes);
  memory->read(0, elements.data(), bytes);
  if (!bmrt_get_output_quant(runtime->get(), net.name, static_cast<int>(i), &quant) ||
      !bmrt_dequantize(&quant, elements.data(), count, static_cast<float *>(to)))
    runtime_failed();
}

void Launch::run(const std::function<bool()> &read) {
  struct Inside {
    explicit Inside(Runtime &of) : runtime(of) { runtime.enter(); }
    ~Inside() { runtime.leave(); }
    Runtime &runtime;
  } const inside(*runtime);
  const bm_net_info_t &net = runtime->info(network);
  std::vector<MemoryPtr> input_memory, output_memory;
  std::vector<bm_tensor_t> in(inputs.size()), out(outputs.size());
  for (size_t i = 0; i < in.size(); ++i) upload(i, in[i], input_memory);
  place_outputs(in.data(), out, output_memory);
  const bool user_mem = !output_memory.empty();
  if (!bmrt_launch_tensor_multi_cores(runtime->get(), net.name, in.data(), static_cast<int>(in.size()), out.data(),
                                      static_cast<int>(out.size()), user_mem, false, cores.data(),
                                      static_cast<int>(cores.size())))
    runtime_failed();
  output_memory.resize(out.size());
  for (size_t i = 0; i < out.size() && !user_mem; ++i)
    output_memory[i] = std::make_shared<Memory>(runtime->device(net.output_loc_devices[i]), out[i].device_mem);
  wait();
  if (read && !read()) return;
  for (size_t i = 0; i < out.size(); ++i) fetch(i, out[i], std::move(output_memory[i]));
}

}  // namespace npu::python
