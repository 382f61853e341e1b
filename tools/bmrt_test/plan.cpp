// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/plan.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace bmrt_test {

using npu::Status;

namespace {

struct FreeArray {
  void operator()(const char **array) const { std::free(array); }
};

/// A stage as a case, with these shapes; `in` and `out` are the positions in the reference data and move behind its
/// tensors.
Case make_case(const bm_net_info_t &info, int network, int stage, const bm_shape_t *inputs, const bm_shape_t *outputs,
               uint64_t &in, uint64_t &out) {
  Case c{network, stage, info.name, {}, {}};
  auto add = [](std::vector<TensorPlan> &list, const char *name, bm_data_type_t dtype, const bm_shape_t &shape,
                uint64_t &at) {
    const uint64_t bytes = bmrt_shape_count(&shape) * bmrt_data_type_size(dtype);
    list.push_back({name, dtype, shape, bytes, at});
    at += bytes;
  };
  for (int i = 0; i < info.input_num; ++i) add(c.inputs, info.input_names[i], info.input_dtypes[i], inputs[i], in);
  for (int i = 0; i < info.output_num; ++i)
    add(c.outputs, info.output_names[i], info.output_dtypes[i], outputs[i], out);
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
Status make_dynamic_case(void *p_bmrt, const bm_net_info_t &info, int network, const Options &o, uint64_t &in,
                         uint64_t &out, Plan &plan) {
  std::vector<bm_shape_t> outputs;
  NPU_TRY(check_count(o.shapes, info));
  NPU_TRY(launched_shapes(p_bmrt, info, o.shapes, outputs));
  std::vector<bm_tensor_t> tensors(o.shapes.size());
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].shape = o.shapes[i];
  const int stage = bmrt_get_stage_index(p_bmrt, info.name, tensors.data());
  plan.cases.push_back(make_case(info, network, stage, o.shapes.data(), outputs.data(), in, out));
  return {};
}

bool wanted(const bm_net_info_t &info, int network, int stage, const Options &o) {
  if ((o.network >= 0 && network != o.network) || (o.stage >= 0 && stage != o.stage)) return false;
  if (o.shapes.empty() || o.stage >= 0 || info.stage_num == 1) return true;
  for (int i = 0; i < info.input_num && i < static_cast<int>(o.shapes.size()); ++i)
    if (!bmrt_shape_is_same(&o.shapes[static_cast<size_t>(i)], &info.stages[stage].input_shapes[i])) return false;
  return true;
}

/// The file must have exactly the bytes that the model's tensors need.
Status read_file(const std::string &path, uint64_t bytes, std::vector<uint8_t> &out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::error(path + ": cannot open: " + std::strerror(errno));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::error(path + ": is a directory");
  out.assign(std::istreambuf_iterator<char>(file), {});
  if (out.size() == bytes) return {};
  return Status::error(path + ": has " + std::to_string(out.size()) + " bytes, the tensors of the model need " +
                       std::to_string(bytes));
}

}  // namespace

Status make_plan(void *p_bmrt, const Options &o, Plan &plan) {
  const char **names = nullptr;
  bmrt_get_network_names(p_bmrt, &names);
  const std::unique_ptr<const char *[], FreeArray> own(names);
  if (!names) return Status::error(bmrt_last_error());
  const int networks = bmrt_get_network_number(p_bmrt);
  uint64_t in = 0, out = 0;
  for (int n = 0; n < networks; ++n) {
    const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, names[n]);
    if (!info) return Status::error(bmrt_last_error());
    if (info->is_dynamic && !o.shapes.empty() && (o.network < 0 || n == o.network)) {
      NPU_TRY(make_dynamic_case(p_bmrt, *info, n, o, in, out, plan));
      continue;
    }
    for (int s = 0; s < info->stage_num; ++s) {
      const bm_stage_info_t &stage = info->stages[s];
      Case c = make_case(*info, n, s, stage.input_shapes, stage.output_shapes, in, out);
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
    plan.input_data.resize(in);
    return {};
  }
  NPU_TRY(read_file(o.context_dir + "/input_ref_data.dat", in, plan.input_data));
  if (!o.compare) return {};
  return read_file(o.context_dir + "/output_ref_data.dat", out, plan.output_data);
}

}  // namespace bmrt_test
