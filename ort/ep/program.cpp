// SPDX-License-Identifier: MIT
#include "ort/ep/program.h"

#include <algorithm>

namespace npu::ort {
namespace {

struct TypeRow {
  ONNXTensorElementDataType type;
  bm_data_type_t stored;
  size_t bytes;  ///< of an element of `type`
};

/// Integers of 64 bits have 32 on the chip, bool is a byte.
constexpr TypeRow kTypes[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, BM_FLOAT32, 4},     {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, BM_FLOAT16, 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, BM_BFLOAT16, 2}, {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, BM_INT8, 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, BM_UINT8, 1},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, BM_UINT8, 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, BM_INT16, 2},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, BM_UINT16, 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, BM_INT32, 4},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, BM_UINT32, 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, BM_INT32, 8},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, BM_UINT32, 8},
};

const TypeRow *row_of(ONNXTensorElementDataType type) {
  for (const TypeRow &row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

Status runtime_error_about(const std::string &what) { return Status::error(what + ": " + bmrt_last_error()); }

}  // namespace

bool stored_type(ONNXTensorElementDataType type, bm_data_type_t &out) {
  const TypeRow *const row = row_of(type);
  if (row) out = row->stored;
  return row != nullptr;
}

bool is_wide(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64;
}

size_t element_size(ONNXTensorElementDataType type) {
  const TypeRow *const row = row_of(type);
  return row ? row->bytes : 0;
}

Status Program::load(std::shared_ptr<Card> card, const std::vector<uint8_t> &bmodel, const Group &group,
                     std::unique_ptr<Program> &out) {
  void *const runtime = bmrt_create(card->handle());
  if (!runtime) return runtime_error_about("a runtime cannot be made");
  std::unique_ptr<Program> program(new Program(std::move(card), runtime));
  if (!bmrt_load_bmodel_data(runtime, bmodel.data(), bmodel.size()))
    return runtime_error_about("network '" + group.name + "'");
  const char *const name = bmrt_get_network_name(runtime, 0);
  if (!name) return runtime_error_about("network '" + group.name + "'");
  program->network_ = name;
  NPU_TRY(program->find_ports(group).within("network '" + group.name + "'"));
  out = std::move(program);
  return {};
}

Program::~Program() { bmrt_destroy(runtime_); }

Status Program::find_ports(const Group &group) {
  const bm_net_info_t *const info = bmrt_get_network_info(runtime_, network_.c_str());
  if (!info || info->stage_num != 1) return Status::error("it has not one stage");
  const auto find = [](const std::vector<Port> &ports, int count, const char **names, const bm_data_type_t *types,
                       const bm_shape_t *shapes, std::vector<Slot> &slots) -> Status {
    if (static_cast<size_t>(count) != ports.size())
      return Status::error("it has " + std::to_string(count) + " tensors where " + std::to_string(ports.size()) +
                           " are expected");
    for (const Port &port : ports) {
      Slot slot;
      const auto same = [&](const char *name) { return port.name == name; };
      slot.tensor = static_cast<size_t>(std::find_if(names, names + count, same) - names);
      bm_data_type_t type;
      if (slot.tensor == ports.size() || !stored_type(port.type, type) || types[slot.tensor] != type)
        return Status::error("it has no tensor '" + port.name + "' of the type that is expected");
      const bm_shape_t &shape = shapes[slot.tensor];
      slot.shape.assign(shape.dims, shape.dims + shape.num_dims);
      slot.like.dtype = type;
      slot.like.shape = shape;
      slot.like.st_mode = BM_STORE_1N;
      slots.push_back(std::move(slot));
    }
    return {};
  };
  const bm_stage_info_t &stage = info->stages[0];
  NPU_TRY(find(group.inputs, info->input_num, info->input_names, info->input_dtypes, stage.input_shapes, inputs_));
  return find(group.outputs, info->output_num, info->output_names, info->output_dtypes, stage.output_shapes, outputs_);
}

Status Program::launch(const std::vector<uint64_t> &inputs, const std::vector<uint64_t> &outputs) const {
  std::vector<bm_tensor_t> in(inputs_.size()), out(outputs_.size());
  const auto fill = [](const std::vector<Slot> &slots, const std::vector<uint64_t> &memory,
                       std::vector<bm_tensor_t> &tensors) {
    for (size_t i = 0; i < slots.size(); ++i) {
      bm_tensor_t &t = tensors[slots[i].tensor] = slots[i].like;
      t.device_mem = bm_mem_from_device(memory[i], static_cast<unsigned>(bmrt_tensor_bytesize(&t)));
    }
  };
  fill(inputs_, inputs, in);
  fill(outputs_, outputs, out);
  if (!bmrt_launch_tensor_ex(runtime_, network_.c_str(), in.data(), static_cast<int>(in.size()), out.data(),
                             static_cast<int>(out.size()), true, false))
    return runtime_error_about("network '" + network_ + "'");
  std::vector<Range> written;
  for (const bm_tensor_t &t : out) {
    const uint64_t address = bm_mem_get_device_addr(t.device_mem);
    written.push_back({address, address + bmrt_tensor_bytesize(&t)});
  }
  note_launch(card_, written);
  return {};
}

Status Program::last_cycles(uint64_t &cycles) const {
  return bmrt_last_launch_cycles(runtime_, &cycles) ? Status() : runtime_error_about("network '" + network_ + "'");
}

}  // namespace npu::ort
