// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/plan.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "runtime/bmodel/types.h"
#include "runtime/cpu/tensor.h"
#include "tools/bmrt_test/inputs.h"

namespace bmrt_test {

using npu::Status;

namespace {

struct FreeArray {
  void operator()(const char **array) const { std::free(array); }
};

/// The tensors of reference data, of all networks and stages, in the order of the file.
struct Reference {
  struct Part {
    std::string name;
    bmrt_quant_t quant;
    bm_shape_t shape;

    uint64_t count() const { return bmrt_shape_count(&shape); }
    uint64_t bytes() const { return count() * bmrt_data_type_size(quant.dtype); }
    /// True for types that networks have in place of int64 and uint64.
    bool narrowed() const { return quant.dtype == BM_INT32 || quant.dtype == BM_UINT32; }
    std::string text() const;
  };
  std::vector<Part> tensors;
  uint64_t bytes = 0;  ///< in the tensors' own types

  uint64_t count() const;
  /// Size with 64 bits for each integer of 32.
  uint64_t wide_bytes() const;
};

/// "'ids' int32 [1, 64], 256 bytes"
std::string Reference::Part::text() const {
  return "'" + name + "' " + npu::bmodel::dtype_name(static_cast<uint32_t>(quant.dtype)) + " " +
         npu::cpu::shape_text({shape.dims, shape.dims + shape.num_dims}) + ", " + std::to_string(bytes()) + " bytes";
}

uint64_t Reference::count() const {
  uint64_t sum = 0;
  for (const Part &t : tensors) sum += t.count();
  return sum;
}

uint64_t Reference::wide_bytes() const {
  uint64_t sum = 0;
  for (const Part &t : tensors) sum += t.narrowed() ? 2 * t.bytes() : t.bytes();
  return sum;
}

/// A stage as a case, with these shapes; adds its tensors to the reference data.
Case make_case(void *p_bmrt, const bm_net_info_t &info, int network, int stage, const bm_shape_t *inputs,
               const bm_shape_t *outputs, Reference &in, Reference &out) {
  Case c{network, stage, info.name, {}, {}};
  const auto add = [](std::vector<TensorPlan> &list, const char *name, const bm_shape_t &shape,
                      const bmrt_quant_t &quant, Reference &reference) {
    const uint64_t bytes = bmrt_shape_count(&shape) * bmrt_data_type_size(quant.dtype);
    list.push_back({name, quant.dtype, shape, bytes, reference.bytes, quant.zero_point});
    reference.bytes += bytes;
    reference.tensors.push_back({name, quant, shape});
  };
  bmrt_quant_t quant{};
  for (int i = 0; i < info.input_num; ++i) {
    bmrt_get_input_quant(p_bmrt, info.name, i, &quant);
    add(c.inputs, info.input_names[i], inputs[i], quant, in);
  }
  for (int i = 0; i < info.output_num; ++i) {
    bmrt_get_output_quant(p_bmrt, info.name, i, &quant);
    add(c.outputs, info.output_names[i], outputs[i], quant, out);
  }
  return c;
}

Status check_count(const std::vector<bm_shape_t> &shapes, const bm_net_info_t &info) {
  if (shapes.empty() || shapes.size() == static_cast<size_t>(info.input_num)) return {};
  return Status::error("--shapes has " + std::to_string(shapes.size()) + " shapes, network '" + info.name + "' has " +
                       std::to_string(info.input_num) + " inputs");
}

/// The outputs' shapes of a dynamic network: those that a launch with these inputs, all zero, has.
Status launched_shapes(void *p_bmrt, const bm_net_info_t &info, const std::vector<bm_shape_t> &shapes,
                       std::vector<bm_shape_t> &outputs) {
  const auto handle = static_cast<bm_handle_t>(bmrt_get_bm_handle(p_bmrt));
  std::vector<bm_tensor_t> in, out(static_cast<size_t>(info.output_num));
  bool done = true;
  for (size_t i = 0; i < shapes.size() && done; ++i) {
    bm_tensor_t t;
    done = bmrt_tensor(&t, p_bmrt, info.input_dtypes[i], shapes[i]);
    if (done) in.push_back(t);
  }
  done = done && bmrt_launch_tensor(p_bmrt, info.name, in.data(), info.input_num, out.data(), info.output_num);
  const Status status = done ? Status() : Status::error(bmrt_last_error());
  if (done) bm_thread_sync(handle);  // what fails here fails in the test
  for (const bm_tensor_t &t : out) {
    if (!done) break;
    outputs.push_back(t.shape);
    bm_free_device(handle, t.device_mem);
  }
  for (const bm_tensor_t &t : in) bm_free_device(handle, t.device_mem);
  return status;
}

/// A dynamic network with --shapes: one case, whose tensors the reference data have in place of those of the stages.
Status make_dynamic_case(void *p_bmrt, const bm_net_info_t &info, int network, const Options &o, Reference &in,
                         Reference &out, Plan &plan) {
  std::vector<bm_shape_t> outputs;
  NPU_TRY(check_count(o.shapes, info));
  NPU_TRY(launched_shapes(p_bmrt, info, o.shapes, outputs));
  std::vector<bm_tensor_t> tensors(o.shapes.size());
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].shape = o.shapes[i];
  const int stage = bmrt_get_stage_index(p_bmrt, info.name, tensors.data());
  plan.cases.push_back(make_case(p_bmrt, info, network, stage, o.shapes.data(), outputs.data(), in, out));
  return {};
}

bool wanted(const bm_net_info_t &info, int network, int stage, const Options &o) {
  if ((o.network >= 0 && network != o.network) || (o.stage >= 0 && stage != o.stage)) return false;
  if (o.shapes.empty() || o.stage >= 0 || info.stage_num == 1) return true;
  for (int i = 0; i < info.input_num && i < static_cast<int>(o.shapes.size()); ++i)
    if (!bmrt_shape_is_same(&o.shapes[static_cast<size_t>(i)], &info.stages[stage].input_shapes[i])) return false;
  return true;
}

Status read_bytes(const std::string &path, std::vector<uint8_t> &out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::error(path + ": cannot open: " + std::strerror(errno));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::error(path + ": is a directory");
  out.assign(std::istreambuf_iterator<char>(file), {});
  return {};
}

/// The file's size fits none of the forms that it may have.
Status wrong_size(const std::string &path, uint64_t bytes, const Reference &reference, bool floats,
                  const char *option) {
  constexpr size_t kMost = 8;  // tensors that are named
  const uint64_t in_float32 = reference.count() * sizeof(float), wide = reference.wide_bytes();
  std::string text = path + ": has " + std::to_string(bytes) + " bytes, the tensors of the model need ";
  if (floats) {
    text += std::to_string(in_float32) + " in float32 (" + option + ")";
  } else {
    text += std::to_string(reference.bytes);
    if (wide != reference.bytes) text += ", or " + std::to_string(wide) + " with integers of 64 bits for those of 32";
    if (in_float32 != reference.bytes) text += ", or " + std::to_string(in_float32) + " with " + option;
  }
  for (size_t i = 0; i < std::min(reference.tensors.size(), kMost); ++i)
    text += (i ? "; " : ": ") + reference.tensors[i].text();
  if (reference.tensors.size() > kMost) text += "; and " + std::to_string(reference.tensors.size() - kMost) + " more";
  return Status::error(text);
}

/// Integers of 64 bits as those of 32 that the network has in their place; `from` has them at any address.
template <class Wide, class Narrow>
Status narrow(const Reference::Part &t, const uint8_t *from, uint8_t *to) {
  for (uint64_t i = 0; i < t.count(); ++i) {
    Wide value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const auto narrowed = static_cast<Narrow>(value);
    if (static_cast<Wide>(narrowed) != value)
      return Status::error("element " + std::to_string(i) + " of '" + t.name + "' is " + std::to_string(value) +
                           " in 64 bits, which " + npu::bmodel::dtype_name(static_cast<uint32_t>(t.quant.dtype)) +
                           ", the type in the network, cannot hold");
    std::memcpy(to + i * sizeof narrowed, &narrowed, sizeof narrowed);
  }
  return {};
}

/// Reference data of an ONNX file, in which integers of 32 bits of the network have 64.
Status read_wide(const std::vector<uint8_t> &bytes, const Reference &reference, std::vector<uint8_t> &out) {
  const uint8_t *from = bytes.data();
  uint8_t *to = out.data();
  for (const Reference::Part &t : reference.tensors) {
    if (t.quant.dtype == BM_INT32)
      NPU_TRY((narrow<int64_t, int32_t>(t, from, to)));
    else if (t.quant.dtype == BM_UINT32)
      NPU_TRY((narrow<uint64_t, uint32_t>(t, from, to)));
    else
      std::memcpy(to, from, t.bytes());
    from += t.narrowed() ? 2 * t.bytes() : t.bytes();
    to += t.bytes();
  }
  return {};
}

Status read_floats(const std::vector<uint8_t> &bytes, const Reference &reference, std::vector<uint8_t> &out) {
  std::vector<float> values(reference.count());
  std::memcpy(values.data(), bytes.data(), bytes.size());
  uint64_t from = 0, to = 0;
  for (const Reference::Part &t : reference.tensors) {
    if (!bmrt_quantize(&t.quant, values.data() + from, t.count(), out.data() + to))
      return Status::error(bmrt_last_error());
    from += t.count();
    to += t.bytes();
  }
  return {};
}

/// Reference data in the types of the tensors; `floats`: the file has float32 instead, `option` says so.
Status read_reference(const std::string &path, const Reference &reference, bool floats, const char *option,
                      std::vector<uint8_t> &out) {
  std::vector<uint8_t> bytes;
  NPU_TRY(read_bytes(path, bytes));
  out.resize(reference.bytes);
  if (floats && bytes.size() == reference.count() * sizeof(float))
    return read_floats(bytes, reference, out).within(path);
  if (!floats && bytes.size() == reference.bytes) {
    out = std::move(bytes);
    return {};
  }
  if (!floats && bytes.size() == reference.wide_bytes()) return read_wide(bytes, reference, out).within(path);
  return wrong_size(path, bytes.size(), reference, floats, option);
}

}  // namespace

Status make_plan(void *p_bmrt, const Options &o, Plan &plan) {
  const char **names = nullptr;
  bmrt_get_network_names(p_bmrt, &names);
  const std::unique_ptr<const char *[], FreeArray> own(names);
  if (!names) return Status::error(bmrt_last_error());
  const int networks = bmrt_get_network_number(p_bmrt);
  if (!o.shapes.empty() && o.network < 0 && networks > 1)
    return Status::error("--shapes are the input shapes of one network, and the model has " + std::to_string(networks) +
                         ": say which with --net_idx");
  Reference in, out;
  for (int n = 0; n < networks; ++n) {
    const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, names[n]);
    if (!info) return Status::error(bmrt_last_error());
    if (info->is_dynamic && !o.shapes.empty() && (o.network < 0 || n == o.network)) {
      NPU_TRY(make_dynamic_case(p_bmrt, *info, n, o, in, out, plan));
      continue;
    }
    for (int s = 0; s < info->stage_num; ++s) {
      const bm_stage_info_t &stage = info->stages[s];
      Case c = make_case(p_bmrt, *info, n, s, stage.input_shapes, stage.output_shapes, in, out);
      if (!wanted(*info, n, s, o)) continue;
      NPU_TRY(check_count(o.shapes, *info));
      for (size_t i = 0; i < o.shapes.size(); ++i) c.inputs[i].shape = o.shapes[i];
      plan.cases.push_back(std::move(c));
    }
  }
  if (plan.cases.empty())
    return Status::error("no network and stage is left to run: --net_idx, --stage_idx or --shapes match none of the " +
                         std::to_string(networks) + " networks");
  if (o.context_dir.empty()) {
    plan.input_data.resize(in.bytes);
    return read_inputs(p_bmrt, o, plan);
  }
  const std::string path = o.context_dir + "/input_ref_data.dat";
  for (Case &c : plan.cases)
    for (TensorPlan &t : c.inputs) t.source = path;
  NPU_TRY(read_reference(path, in, o.float_inputs, "--float_inputs", plan.input_data));
  if (!o.compare) return {};
  return read_reference(o.context_dir + "/output_ref_data.dat", out, o.float_outputs, "--float_outputs",
                        plan.output_data);
}

}  // namespace bmrt_test
