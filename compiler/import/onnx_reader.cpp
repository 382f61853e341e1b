// SPDX-License-Identifier: MIT
// The only file that knows protobuf.
#include <onnx/onnx_pb.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "compiler/import/raw_model.h"

namespace npu::graph {
namespace {

constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;  // protobuf's own limit

template <class Out, class Field>
void widen(const Field &field, Tensor &tensor) {
  Out *out = tensor.as<Out>();
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<Out>(field[i]);
}

/// Number of elements in the typed field that carries this element type, -1 if there is none.
int typed_size(const onnx::TensorProto &t, Dtype type) {
  switch (type) {
    case Dtype::F32:
      return t.float_data_size();
    case Dtype::F64:
      return t.double_data_size();
    case Dtype::I64:
      return t.int64_data_size();
    case Dtype::U32:
    case Dtype::U64:
      return t.uint64_data_size();
    case Dtype::String:
    case Dtype::Undefined:
      return -1;
    default:
      return t.int32_data_size();
  }
}

void copy_typed(const onnx::TensorProto &t, Tensor &out) {
  switch (out.dtype) {
    case Dtype::F32:
      widen<float>(t.float_data(), out);
      break;
    case Dtype::F64:
      widen<double>(t.double_data(), out);
      break;
    case Dtype::I64:
      widen<int64_t>(t.int64_data(), out);
      break;
    case Dtype::U32:
      widen<uint32_t>(t.uint64_data(), out);
      break;
    case Dtype::U64:
      widen<uint64_t>(t.uint64_data(), out);
      break;
    case Dtype::I32:
      widen<int32_t>(t.int32_data(), out);
      break;
    case Dtype::I16:
    case Dtype::U16:
    case Dtype::F16:
    case Dtype::BF16:
      widen<uint16_t>(t.int32_data(), out);
      break;
    default:
      widen<uint8_t>(t.int32_data(), out);
      break;
  }
}

Status read_tensor(const onnx::TensorProto &t, const std::string &what, TensorPtr &out) {
  if (t.data_location() == onnx::TensorProto::EXTERNAL || t.external_data_size())
    return Status::error(
        what + ": its data is in another file (external data), which is not supported: save the model as one file");
  if (t.has_segment()) return Status::error(what + ": tensors in segments are not supported");
  const auto type = static_cast<Dtype>(t.data_type());
  if (t.data_type() < 0 || t.data_type() > 16 || dtype_bytes(type) == 0) {
    // Kept without data: an error only for an operator that reads it.
    auto empty = std::make_shared<Tensor>();
    empty->dtype = t.data_type() == onnx::TensorProto::STRING ? Dtype::String : Dtype::Undefined;
    empty->shape = {0};
    out = std::move(empty);
    return {};
  }
  const Shape shape(t.dims().begin(), t.dims().end());
  const int64_t count = element_count(shape);
  if (count < 0) return Status::error(what + ": shape " + shape_text(shape) + " is negative or too large");
  const uint64_t bytes = static_cast<uint64_t>(count) * dtype_bytes(type);
  if (t.has_raw_data() ? t.raw_data().size() != bytes : typed_size(t, type) != count)
    return Status::error(what + ": " + shape_text(shape) + " of " + dtype_name(type) + " needs " +
                         std::to_string(count) + " elements, the file has " +
                         std::to_string(t.has_raw_data() ? static_cast<int64_t>(t.raw_data().size() / dtype_bytes(type))
                                                         : typed_size(t, type)));
  auto tensor = std::make_shared<Tensor>(type, shape);
  if (t.has_raw_data()) {
    if (bytes) std::memcpy(tensor->data.data(), t.raw_data().data(), bytes);
  } else {
    copy_typed(t, *tensor);
  }
  out = std::move(tensor);
  return {};
}

Status read_attribute(const onnx::AttributeProto &a, const std::string &node, RawAttribute &out) {
  switch (a.type()) {
    case onnx::AttributeProto::INT:
      out.i = a.i();
      break;
    case onnx::AttributeProto::FLOAT:
      out.f = a.f();
      break;
    case onnx::AttributeProto::STRING:
      out.s = a.s();
      break;
    case onnx::AttributeProto::INTS:
      out.ints.assign(a.ints().begin(), a.ints().end());
      break;
    case onnx::AttributeProto::FLOATS:
      out.floats.assign(a.floats().begin(), a.floats().end());
      break;
    case onnx::AttributeProto::TENSOR:
      return read_tensor(a.t(), "node '" + node + "', attribute '" + a.name() + "'", out.tensor);
    default:
      out.other = true;
  }
  return {};
}

Status read_node(const onnx::NodeProto &n, RawNode &out) {
  out.name = n.name();
  out.type = n.op_type();
  out.domain = n.domain() == "ai.onnx" ? "" : n.domain();
  out.inputs.assign(n.input().begin(), n.input().end());
  out.outputs.assign(n.output().begin(), n.output().end());
  for (const auto &a : n.attribute())
    NPU_TRY(read_attribute(a, n.name().empty() && n.output_size() ? n.output(0) : n.name(), out.attributes[a.name()]));
  return {};
}

RawValue read_value(const onnx::ValueInfoProto &v) {
  RawValue out;
  out.name = v.name();
  if (!v.type().has_tensor_type()) return out;
  const auto &t = v.type().tensor_type();
  if (t.elem_type() >= 0 && t.elem_type() <= 16) out.dtype = static_cast<Dtype>(t.elem_type());
  out.has_shape = t.has_shape();
  for (const auto &d : t.shape().dim()) {
    RawDim dim;
    // Exporters write an unknown dimension as a symbol, as nothing at all, and as 0 or -1.
    if (d.has_dim_value() && d.dim_value() > 0)
      dim.value = d.dim_value();
    else
      dim.symbol = d.dim_param();
    out.dims.push_back(std::move(dim));
  }
  return out;
}

/// Programs find networks, inputs and outputs by their names, as C strings.
Status check_c_string(const std::string &name, const std::string &what) {
  return name.find('\0') == name.npos ? Status() : Status::error("the name of " + what + " has a byte 0");
}

Status check_name(const std::string &name, const char *what, int index) {
  const std::string who = std::string(what) + " " + std::to_string(index) + " of the graph";
  return name.empty() ? Status::error(who + " has no name") : check_c_string(name, who);
}

Status read_graph(const onnx::GraphProto &g, RawModel &model) {
  NPU_TRY(check_c_string(g.name(), "the graph"));
  model.graph_name = g.name();
  if (g.sparse_initializer_size()) return Status::error("sparse initializers are not supported");
  for (const auto &t : g.initializer())
    NPU_TRY(read_tensor(t, "initializer '" + t.name() + "'", model.initializers[t.name()]));
  std::set<std::string> names;
  for (int i = 0; i < g.output_size(); ++i) NPU_TRY(check_name(g.output(i).name(), "output", i));
  for (int i = 0; i < g.input_size(); ++i) {
    const auto &v = g.input(i);
    if (model.initializers.count(v.name())) continue;
    NPU_TRY(check_name(v.name(), "input", i));
    if (!names.insert(v.name()).second) return Status::error("two inputs have the name '" + v.name() + "'");
    model.inputs.push_back(read_value(v));
  }
  for (const auto &v : g.output()) model.outputs.push_back(read_value(v));
  for (const auto &v : g.value_info()) model.values.push_back(read_value(v));
  for (const auto &n : g.node()) NPU_TRY(read_node(n, model.nodes.emplace_back()));
  return {};
}

}  // namespace

Status read_onnx(const void *bytes, size_t size, RawModel &model) {
  if (size > kMaxFileBytes)
    return Status::error("the file has " + std::to_string(size) + " bytes, an ONNX file has at most " +
                         std::to_string(kMaxFileBytes));
  google::protobuf::SetLogHandler(nullptr);
  onnx::ModelProto proto;
  if (size == 0) return Status::error("not an ONNX file: it is empty");
  if (!proto.ParseFromArray(bytes, static_cast<int>(size)))
    return Status::error("not an ONNX file, or a truncated one: it cannot be parsed as a protobuf message");
  if (!proto.has_graph() || !proto.has_ir_version() || proto.graph().output_size() == 0)
    return Status::error("not an ONNX file: it has no graph with outputs");
  for (const auto &o : proto.opset_import())
    if (o.domain().empty() || o.domain() == "ai.onnx") model.opset = std::max(model.opset, o.version());
  if (model.opset == 0) return Status::error("the file names no version of the standard operator set");
  model.producer = proto.producer_name();
  return read_graph(proto.graph(), model);
}

Status read_bytes(const std::string &path, std::vector<char> &bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Status::error("cannot open " + path + ": " + std::strerror(errno));
  const std::streamoff size = file.tellg();
  if (size < 0 || static_cast<uint64_t>(size) > kMaxFileBytes)
    return Status::error(path + ": not a regular file of at most 2 GiB");
  bytes.resize(static_cast<size_t>(size));
  file.seekg(0);
  return file.read(bytes.data(), size) ? Status() : Status::error("cannot read " + path);
}

Status read_onnx_file(const std::string &path, RawModel &model) {
  std::vector<char> bytes;
  NPU_TRY(read_bytes(path, bytes));
  const Status status = read_onnx(bytes.data(), bytes.size(), model);
  return status.ok() ? status : Status::error(path + ": " + status.message());
}

}  // namespace npu::graph
