// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_chip.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>

#include "common/command_line.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/plugin.h"
#include "runtime/cpu/subnet.h"

namespace npu::npuc {
namespace {

using graph::Dtype;
using graph::Tensor;

/// The runtime's message, without its word for a file that it got as bytes.
Status failed(const Runtime &r) {
  constexpr std::string_view kBytes = "(memory): ";
  std::string text = r.bmrt_last_error();
  if (const size_t at = text.find(kBytes); at != text.npos) text.erase(at, kBytes.size());
  return Status::error(text);
}

uint64_t count_of(const bm_shape_t &shape) {
  uint64_t count = 1;
  for (int d = 0; d < shape.num_dims; ++d) count *= static_cast<uint64_t>(shape.dims[d]);
  return count;
}

Status shape_for(const Tensor &tensor, bm_shape_t &out) {
  out.num_dims = static_cast<int>(tensor.shape.size());
  if (tensor.shape.size() > BM_MAX_DIMS_NUM)
    return Status::error("a shape of " + std::to_string(tensor.shape.size()) + " dimensions, at most " +
                         std::to_string(BM_MAX_DIMS_NUM) + " are possible");
  for (size_t i = 0; i < tensor.shape.size(); ++i) out.dims[i] = static_cast<int>(tensor.shape[i]);
  return {};
}

/// Elements of an input of the .bmodel.
Status to_elements(const Runtime &r, const bmrt_quant_t &quant, const Tensor &tensor, std::vector<uint8_t> &out) {
  const auto type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  if (type == tensor.dtype) {
    out = tensor.data;
    return {};
  }
  if (tensor.dtype != Dtype::F32)
    return Status::error(std::string("it is ") + cpu::dtype_name(type) + ", and " + cpu::dtype_name(tensor.dtype) +
                         " in the file: such inputs cannot be compared");
  const auto count = static_cast<uint64_t>(tensor.count());
  out.resize(count * cpu::dtype_bytes(type));
  return r.bmrt_quantize(&quant, tensor.as<float>(), count, out.data()) ? Status() : failed(r);
}

Status from_elements(const Runtime &r, const bmrt_quant_t &quant, const void *elements, Tensor &out) {
  const auto type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  if (type == out.dtype) {
    std::memcpy(out.data.data(), elements, out.data.size());
    return {};
  }
  if (out.dtype != Dtype::F32)
    return Status::error(std::string("it is ") + cpu::dtype_name(type) + ", and " + cpu::dtype_name(out.dtype) +
                         " in the file: such outputs cannot be compared");
  return r.bmrt_dequantize(&quant, elements, static_cast<uint64_t>(out.count()), out.as<float>()) ? Status()
                                                                                                  : failed(r);
}

/// Sets a property of the simulated card, unless the environment does.
void set_property(const std::string &name, int64_t value) {
  const char *const given = getenv("NPU_SIM");
  std::string all = given ? given : "";
  if (all.find(name + "=") != std::string::npos) return;
  all += (all.empty() ? "" : ",") + name + "=" + std::to_string(value);
  setenv("NPU_SIM", all.c_str(), 1);
}

/// Memory of outputs, which the runtime allocates with malloc().
struct Outputs {
  explicit Outputs(int count) : data(static_cast<size_t>(count)), shapes(static_cast<size_t>(count)) {}
  ~Outputs() {
    for (void *p : data) std::free(p);
  }
  Outputs(const Outputs &) = delete;
  Outputs &operator=(const Outputs &) = delete;
  std::vector<void *> data;
  std::vector<bm_shape_t> shapes;
};

}  // namespace

Chip::~Chip() {
  if (runtime_) r_->bmrt_destroy(runtime_);
  if (handle_) r_->bm_dev_free(handle_);
}

Status Chip::load(std::span<const uint8_t> bmodel, int cores, int64_t lmem_bytes, const bmodel::NetDesc *like) {
  NPU_TRY(Runtime::load(r_));
  setenv("NPU_DEVICE", "sim", 0);
  set_property("cores", cores);
  set_property("lmem", lmem_bytes);
  r_->bmlib_log_set_level(BMLIB_LOG_QUIET);
  r_->bmrt_set_current_log_level(BMRT_LogLevel::FATAL);
  if (r_->bm_dev_request(&handle_, 0) != BM_SUCCESS) return Status::error(r_->npu_last_error());
  // The runtime has its own list of plug-ins.
  for (const std::string &path : cpu::loaded_plugins())
    if (!r_->bmrt_load_plugin(path.c_str())) return failed(*r_);
  runtime_ = r_->bmrt_create(handle_);
  if (!runtime_ || !r_->bmrt_load_bmodel_data(runtime_, bmodel.data(), bmodel.size())) return failed(*r_);
  NPU_TRY(find_network(like));
  if (like) return find_tensors(*like);
  inputs_.resize(static_cast<size_t>(net_->input_num));
  outputs_.resize(static_cast<size_t>(net_->output_num));
  std::iota(inputs_.begin(), inputs_.end(), 0);
  std::iota(outputs_.begin(), outputs_.end(), 0);
  return {};
}

/// The only network, or the one of the same name.
Status Chip::find_network(const bmodel::NetDesc *like) {
  const int count = r_->bmrt_get_network_number(runtime_);
  std::string names;
  for (int i = 0; i < count; ++i) {
    const char *const name = r_->bmrt_get_network_name(runtime_, i);
    if (count == 1 || (name && like && name == like->name)) net_ = r_->bmrt_get_network_info(runtime_, name);
    names += std::string(i ? ", '" : "'") + (name ? name : "") + "'";
  }
  if (net_) return {};
  return Status::error("it has the networks " + names + ", and none is '" + (like ? like->name : "") +
                       "': npuc --name chooses one");
}

Status Chip::find_tensors(const bmodel::NetDesc &like) {
  const auto find = [](const char *what, const std::vector<bmodel::TensorDesc> &wanted, const char *const *names,
                       int count, std::vector<int> &out) -> Status {
    const std::vector<std::string> given(names, names + count);
    std::string expected, got;
    bool same = wanted.size() == given.size();
    std::vector<bool> taken(given.size());
    for (const bmodel::TensorDesc &t : wanted) {
      size_t at = 0;
      while (at < given.size() && (taken[at] || given[at] != t.name)) ++at;
      same = same && at < given.size();
      if (at < given.size()) taken[at] = true;
      out.push_back(static_cast<int>(at));
      expected += (expected.empty() ? "'" : ", '") + t.name + "'";
    }
    for (const std::string &name : given) got += (got.empty() ? "'" : ", '") + name + "'";
    return same ? Status()
                : Status::error(std::string("its ") + what + " are " + got + ", those of the file " + expected);
  };
  NPU_TRY(find("inputs", like.stages[0].inputs, net_->input_names, net_->input_num, inputs_));
  NPU_TRY(find("outputs", like.stages[0].outputs, net_->output_names, net_->output_num, outputs_));
  return net_->is_dynamic ? Status() : check_shapes(like);
}

/// Each stage of the file must be one of the .bmodel.
Status Chip::check_shapes(const bmodel::NetDesc &like) const {
  const auto text = [&](const auto &shape_of) {
    std::string out;
    for (size_t i = 0; i < inputs_.size(); ++i)
      out += (i ? ", " : "") + printable(like.stages[0].inputs[i].name) + " " + graph::shape_text(shape_of(i));
    return out;
  };
  std::set<std::string> compiled;
  for (int s = 0; s < net_->stage_num; ++s)
    compiled.insert(text([&](size_t i) {
      const bm_shape_t &shape = net_->stages[s].input_shapes[inputs_[i]];
      return graph::Shape(shape.dims, shape.dims + shape.num_dims);
    }));
  for (const bmodel::StageDesc &stage : like.stages) {
    const std::string wanted = text([&](size_t i) {
      const auto &shape = stage.inputs[i].shape;
      return graph::Shape(shape.begin(), shape.end());
    });
    if (compiled.count(wanted)) continue;
    std::string list;
    for (const std::string &shapes : compiled) list += (list.empty() ? "" : "; ") + shapes;
    return Status::error("it was compiled for other input shapes: " + list + ". Expected: " + wanted);
  }
  return {};
}

std::string Chip::device() const {
  const char *const device = getenv("NPU_DEVICE");
  return device ? device : "sim";
}

Status Chip::settle(std::vector<Tensor> &inputs) const {
  for (size_t i = 0; i < inputs.size() && i < inputs_.size(); ++i) {
    bmrt_quant_t quant;
    std::vector<uint8_t> elements;
    if (!r_->bmrt_get_input_quant(runtime_, net_->name, inputs_[i], &quant)) return failed(*r_);
    NPU_TRY(to_elements(*r_, quant, inputs[i], elements)
                .within(std::string("input '") + net_->input_names[inputs_[i]] + "'"));
    NPU_TRY(from_elements(*r_, quant, elements.data(), inputs[i]));
  }
  return {};
}

Status Chip::run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) const {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size())
    return Status::error("the .bmodel has " + std::to_string(net_->input_num) + " inputs and " +
                         std::to_string(net_->output_num) + " outputs, the file has " + std::to_string(inputs.size()) +
                         " and " + std::to_string(outputs.size()));
  std::vector<std::vector<uint8_t>> elements(inputs.size());
  std::vector<void *> data(inputs.size());
  std::vector<bm_shape_t> shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bmrt_quant_t quant;
    const int at = inputs_[i];
    if (!r_->bmrt_get_input_quant(runtime_, net_->name, at, &quant)) return failed(*r_);
    NPU_TRY(to_elements(*r_, quant, inputs[i], elements[i]));
    NPU_TRY(shape_for(inputs[i], shapes[static_cast<size_t>(at)]));
    data[static_cast<size_t>(at)] = elements[i].data();
  }
  Outputs out(net_->output_num);
  if (!r_->bmrt_launch_data(runtime_, net_->name, data.data(), shapes.data(), net_->input_num, out.data.data(),
                            out.shapes.data(), net_->output_num, false))
    return failed(*r_);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto at = static_cast<size_t>(outputs_[k]);
    const std::string name = std::string("output '") + net_->output_names[at] + "'";
    if (count_of(out.shapes[at]) != static_cast<uint64_t>(outputs[k].count()))
      return Status::error(name + " has " + std::to_string(count_of(out.shapes[at])) + " elements, the file's " +
                           std::to_string(outputs[k].count()));
    bmrt_quant_t quant;
    if (!r_->bmrt_get_output_quant(runtime_, net_->name, outputs_[k], &quant)) return failed(*r_);
    NPU_TRY(from_elements(*r_, quant, out.data[at], outputs[k]).within(name));
  }
  return {};
}

void Chip::stored(size_t index, Dtype &type, double &step) const {
  bmrt_quant_t quant{};
  if (!r_->bmrt_get_output_quant(runtime_, net_->name, outputs_[index], &quant)) return;
  type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  step = graph::is_byte(type) ? quant.step : 0;
}

}  // namespace npu::npuc
