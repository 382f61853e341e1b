// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/inputs.h"

#include <cstring>
#include <optional>

#include "runtime/arrays/inputs.h"
#include "runtime/arrays/npy.h"
#include "runtime/cpu/element.h"

namespace bmrt_test {

using npu::Status;
namespace arrays = npu::arrays;
namespace cpu = npu::cpu;

namespace {

/// An --input: a file, and for which input it is; without a name it is for the only one, or an archive for all.
struct Given {
  std::string name, path;
  bool used = false;
};

cpu::Dtype dtype_of(bm_data_type_t type) {
  switch (type) {
    case BM_INT8:
      return cpu::Dtype::I8;
    case BM_UINT8:
      return cpu::Dtype::U8;
    case BM_INT16:
      return cpu::Dtype::I16;
    case BM_UINT16:
      return cpu::Dtype::U16;
    case BM_INT32:
      return cpu::Dtype::I32;
    case BM_UINT32:
      return cpu::Dtype::U32;
    default:
      return cpu::Dtype::F32;
  }
}

std::string names_of(const Case &c) {
  std::string out;
  for (const TensorPlan &t : c.inputs) out += (out.empty() ? "'" : ", '") + t.name + "'";
  return out;
}

bool is_input(const Plan &plan, const std::string &name) {
  for (const Case &c : plan.cases)
    for (const TensorPlan &t : c.inputs)
      if (t.name == name) return true;
  return false;
}

/// NAME=FILE, where NAME is that of an input, else a file.
Status parse(const std::string &text, const Plan &plan, Given &out) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const bool named = equals != std::string::npos;
  if (named && is_input(plan, name)) {
    out = {name, text.substr(equals + 1)};
  } else if (named && arrays::kind_of(name) == arrays::FileKind::None && name.find('/') == std::string::npos) {
    return Status::error("there is no input '" + name + "', the inputs are " + names_of(plan.cases[0]));
  } else {
    out = {"", text};
  }
  if (arrays::kind_of(out.path) != arrays::FileKind::None) return {};
  return Status::error("'" + out.path +
                       "': a file that ends in .npy, .npz, .png, .jpg, .jpeg, .bmp, .ppm or .pgm is expected");
}

/// What a picture becomes where nothing is said about it: as large as the input, with as many channels, 0 to 255.
Status picture_for(const TensorPlan &input, arrays::Preprocess &out) {
  const bm_shape_t &s = input.shape;
  const auto channels = [](int n) { return n == 1 || n == 3; };
  out.channels_last = s.num_dims == 4 && !channels(s.dims[1]) && channels(s.dims[3]);
  if (s.num_dims != 4 || !(channels(s.dims[1]) || out.channels_last))
    return Status::error("it has the shape " + cpu::shape_text({s.dims, s.dims + s.num_dims}) +
                         ", and a picture is for [batch, 1 or 3, height, width] or [batch, height, width, 1 or 3]; "
                         "--preprocess says what it becomes otherwise");
  const int first = out.channels_last ? 1 : 2;
  out.resize = {s.dims[first + 1], s.dims[first]};
  if (s.dims[out.channels_last ? 3 : 1] == 1) out.order = arrays::Preprocess::Order::Gray;
  return {};
}

/// The tensor in a file, as that has it.
Status read_tensor(const Given &given, const Options &o, const TensorPlan &input, cpu::TensorPtr &out) {
  switch (arrays::kind_of(given.path)) {
    case arrays::FileKind::Array:
      return arrays::read_npy(given.path, out);
    case arrays::FileKind::Archive: {
      std::map<std::string, cpu::TensorPtr> found;
      NPU_TRY(arrays::read_archive(given.path, {input.name}, found));
      if (found.empty()) return Status::error(given.path + ": it has no array '" + input.name + "'");
      out = found.begin()->second;
      return {};
    }
    default:
      break;
  }
  arrays::Preprocess preprocess;
  if (o.preprocess.empty())
    NPU_TRY(picture_for(input, preprocess));
  else
    NPU_TRY(arrays::parse_preprocess(o.preprocess, preprocess));
  auto tensor = std::make_shared<cpu::Tensor>();
  NPU_TRY(arrays::read_picture(given.path, preprocess, *tensor));
  out = std::move(tensor);
  return {};
}

/// Integers stay integers; other numbers become the input's type by its scale and zero point.
Status read_input(const Given &given, const Options &o, const TensorPlan &input, const bmrt_quant_t &quant,
                  uint8_t *to) {
  cpu::TensorPtr raw;
  NPU_TRY(read_tensor(given, o, input, raw));
  arrays::Input wanted;
  wanted.name = input.name;
  wanted.shape.assign(input.shape.dims, input.shape.dims + input.shape.num_dims);
  // --shapes may name any; there is room for the network's.
  if (cpu::element_count(wanted.shape) != static_cast<int64_t>(input.bytes / bmrt_data_type_size(input.dtype)))
    return Status::error("input '" + input.name + "' has " +
                         std::to_string(input.bytes / bmrt_data_type_size(input.dtype)) +
                         " elements, and not those of the shape " + cpu::shape_text(wanted.shape) + " (--shapes)");
  wanted.dtype = cpu::is_integer(raw->dtype) ? dtype_of(input.dtype) : cpu::Dtype::F32;
  cpu::Tensor tensor;
  NPU_TRY(arrays::fit(*raw, wanted, tensor).within(given.path));
  if (wanted.dtype == cpu::Dtype::F32) {
    if (!bmrt_quantize(&quant, tensor.as<float>(), static_cast<uint64_t>(tensor.count()), to))
      return Status::error(given.path + ": " + bmrt_last_error());
  } else {
    std::memcpy(to, tensor.data.data(), tensor.data.size());
  }
  return {};
}

/// The file for an input of a case; null: none.
Given *find(std::vector<Given> &list, const Case &c, const TensorPlan &input) {
  for (Given &g : list) {
    const bool whole = g.name.empty() && (c.inputs.size() == 1 || arrays::kind_of(g.path) == arrays::FileKind::Archive);
    if (whole || g.name == input.name) return &g;
  }
  return nullptr;
}

}  // namespace

Status read_inputs(void *p_bmrt, const Options &o, Plan &plan) {
  std::vector<Given> list;
  for (const std::string &text : o.inputs) {
    Given given;
    NPU_TRY(parse(text, plan, given).within("--input"));
    for (const Given &other : list)
      if (other.name == given.name)
        return Status::error(
            "--input: " +
            (given.name.empty() ? "two files without a name" : "input '" + given.name + "' has two files") + ", " +
            other.path + " and " + given.path);
    list.push_back(std::move(given));
  }
  for (Case &c : plan.cases)
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      Given *const given = find(list, c, c.inputs[i]);
      if (!given) continue;
      given->used = true;
      bmrt_quant_t quant{};
      bmrt_get_input_quant(p_bmrt, c.name.c_str(), static_cast<int>(i), &quant);
      NPU_TRY(read_input(*given, o, c.inputs[i], quant, plan.input_data.data() + c.inputs[i].offset)
                  .within("--input: net[" + std::to_string(c.network) + "] '" + c.name + "' stage[" +
                          std::to_string(c.stage) + "] input '" + c.inputs[i].name + "'"));
      c.inputs[i].source = given->path;
    }
  for (const Given &g : list)
    if (!g.used)
      return Status::error("--input " + g.path + ": say for which input, NAME=FILE; the inputs are " +
                           names_of(plan.cases[0]));
  return {};
}

}  // namespace bmrt_test
