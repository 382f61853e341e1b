// SPDX-License-Identifier: MIT
#include "plan.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace bmrt_test {

namespace {

struct FreeArray {
  void operator()(const char **array) const { std::free(array); }
};

/// A stage as a case; `in` and `out` are the positions in the reference data and move behind its tensors.
Case make_case(const bm_net_info_t &info, int network, int stage, uint64_t &in, uint64_t &out) {
  Case c{network, stage, info.name, {}, {}};
  auto add = [](std::vector<TensorPlan> &list, const char *name, bm_data_type_t dtype, const bm_shape_t &shape,
                uint64_t &at) {
    const uint64_t bytes = bmrt_shape_count(&shape) * bmrt_data_type_size(dtype);
    list.push_back({name, dtype, shape, bytes, at});
    at += bytes;
  };
  for (int i = 0; i < info.input_num; ++i)
    add(c.inputs, info.input_names[i], info.input_dtypes[i], info.stages[stage].input_shapes[i], in);
  for (int i = 0; i < info.output_num; ++i)
    add(c.outputs, info.output_names[i], info.output_dtypes[i], info.stages[stage].output_shapes[i], out);
  return c;
}

bool wanted(const bm_net_info_t &info, int network, int stage, const Options &o) {
  if ((o.network >= 0 && network != o.network) || (o.stage >= 0 && stage != o.stage)) return false;
  if (o.shapes.empty() || o.stage >= 0 || info.stage_num == 1) return true;
  for (int i = 0; i < info.input_num && i < static_cast<int>(o.shapes.size()); ++i)
    if (!bmrt_shape_is_same(&o.shapes[static_cast<size_t>(i)], &info.stages[stage].input_shapes[i])) return false;
  return true;
}

std::string apply_shapes(const std::vector<bm_shape_t> &shapes, Case &c) {
  if (shapes.empty()) return {};
  if (shapes.size() != c.inputs.size())
    return "--shapes has " + std::to_string(shapes.size()) + " shapes, network '" + c.name + "' has " +
           std::to_string(c.inputs.size()) + " inputs";
  for (size_t i = 0; i < shapes.size(); ++i) c.inputs[i].shape = shapes[i];
  return {};
}

/// The file must have exactly the bytes that the model's tensors need.
std::string read_file(const std::string &path, uint64_t bytes, std::vector<uint8_t> &out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return path + ": cannot open: " + std::strerror(errno);
  out.assign(std::istreambuf_iterator<char>(file), {});
  if (out.size() == bytes) return {};
  return path + ": has " + std::to_string(out.size()) + " bytes, the tensors of the model need " +
         std::to_string(bytes);
}

}  // namespace

std::string make_plan(void *p_bmrt, const Options &o, Plan &plan) {
  const char **names = nullptr;
  bmrt_get_network_names(p_bmrt, &names);
  const std::unique_ptr<const char *[], FreeArray> own(names);
  if (!names) return bmrt_last_error();
  const int networks = bmrt_get_network_number(p_bmrt);
  uint64_t in = 0, out = 0;
  for (int n = 0; n < networks; ++n) {
    const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, names[n]);
    if (!info) return bmrt_last_error();
    for (int s = 0; s < info->stage_num; ++s) {
      Case c = make_case(*info, n, s, in, out);
      if (!wanted(*info, n, s, o)) continue;
      const std::string why = apply_shapes(o.shapes, c);
      if (!why.empty()) return why;
      plan.cases.push_back(std::move(c));
    }
  }
  if (plan.cases.empty())
    return "no network and stage is left to run: --net_idx, --stage_idx or --shapes match none of the " +
           std::to_string(networks) + " networks";
  if (o.context_dir.empty()) {
    plan.input_data.resize(in);
    return {};
  }
  const std::string why = read_file(o.context_dir + "/input_ref_data.dat", in, plan.input_data);
  if (!why.empty() || !o.compare) return why;
  return read_file(o.context_dir + "/output_ref_data.dat", out, plan.output_data);
}

}  // namespace bmrt_test
