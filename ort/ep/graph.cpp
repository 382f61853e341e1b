// SPDX-License-Identifier: MIT
#include "ort/ep/graph.h"

#include <algorithm>

#include "ort/ep/newer_interface.h"
#include "ort/ep/onnx_writer.h"

namespace npu::ort {
namespace {

constexpr int64_t kIrVersion = 8;

/// The type and shape of a tensor; other kinds of values stay as they are.
void read_type(Ort::ConstValueInfo info, GraphValue &out) {
  const Ort::ConstTypeInfo type = info.TypeInfo();
  if (!type || type.GetONNXType() != ONNX_TYPE_TENSOR) return;
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  out.type = tensor.GetElementType();
  out.dims = tensor.GetShape();
  // Interface 23 does not tell a tensor without dimensions from one with an unknown number of them.
  out.has_shape = api24 ? api24->TensorTypeAndShape_HasShape(tensor) : !out.dims.empty();
  for (const char *symbol : tensor.GetSymbolicDimensions()) out.symbols.emplace_back(symbol ? symbol : "");
}

GraphValue read_value(Ort::ConstValueInfo info) {
  GraphValue v;
  v.info = info;
  v.name = info.GetName();
  read_type(info, v);
  v.constant = info.IsConstantInitializer() && v.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING &&
               v.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  return v;
}

/// Names of values that a node reads or makes; each is noted among the graph's.
std::vector<std::string> names_of(const std::vector<Ort::ConstValueInfo> &infos, GraphView &graph) {
  std::vector<std::string> out;
  for (const Ort::ConstValueInfo &info : infos) {
    out.push_back(info ? info.GetName() : "");
    if (!out.back().empty() && !graph.values.count(out.back())) graph.values[out.back()] = read_value(info);
  }
  return out;
}

Message type_message(const GraphValue &v) {
  Message shape, tensor, type;
  for (size_t i = 0; i < v.dims.size(); ++i) {
    Message dim;
    if (v.dims[i] >= 0)
      dim.number(onnx::Dim::value, v.dims[i]);
    else if (!v.symbols[i].empty())
      dim.text(onnx::Dim::param, v.symbols[i]);
    shape.message(onnx::Shape::dim, dim);
  }
  tensor.number(onnx::TensorType::elem_type, v.type);
  if (v.has_shape) tensor.message(onnx::TensorType::shape, shape);
  type.message(onnx::Type::tensor_type, tensor);
  return type;
}

Message value_message(const GraphValue &v) {
  Message m;
  m.text(onnx::ValueInfo::name, v.name);
  if (v.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) m.message(onnx::ValueInfo::type, type_message(v));
  return m;
}

Message tensor_message(const std::string &name, Ort::ConstValue value) {
  const Ort::TensorTypeAndShapeInfo info = value.GetTensorTypeAndShapeInfo();
  Message m;
  for (int64_t d : info.GetShape()) m.number(onnx::Tensor::dims, d);
  m.number(onnx::Tensor::data_type, info.GetElementType());
  m.text(onnx::Tensor::name, name);
  m.bytes(onnx::Tensor::raw_data, value.GetTensorRawData(), value.GetTensorSizeInBytes());
  return m;
}

template <class T>
T single(Ort::ConstOpAttr a) {
  T value;
  Ort::ThrowOnError(a.GetValue(value));
  return value;
}

template <class T>
std::vector<T> list(Ort::ConstOpAttr a) {
  std::vector<T> values;
  Ort::ThrowOnError(a.GetValueArray(values));
  return values;
}

/// False: an attribute of a kind that no operator here has.
bool write_attribute(Ort::ConstOpAttr a, Message &m) {
  using A = onnx::Attribute;
  m.text(A::name, a.GetName());
  switch (a.GetType()) {
    case ORT_OP_ATTR_INT:
      m.number(A::i, single<int64_t>(a));
      return m.number(A::type, A::kInt), true;
    case ORT_OP_ATTR_FLOAT:
      m.real(A::f, single<float>(a));
      return m.number(A::type, A::kFloat), true;
    case ORT_OP_ATTR_STRING:
      m.text(A::s, single<std::string>(a));
      return m.number(A::type, A::kString), true;
    case ORT_OP_ATTR_INTS:
      for (int64_t v : list<int64_t>(a)) m.number(A::ints, v);
      return m.number(A::type, A::kInts), true;
    case ORT_OP_ATTR_FLOATS:
      for (float v : list<float>(a)) m.real(A::floats, v);
      return m.number(A::type, A::kFloats), true;
    case ORT_OP_ATTR_STRINGS:
      for (const std::string &v : list<std::string>(a)) m.text(A::strings, v);
      return m.number(A::type, A::kStrings), true;
    case ORT_OP_ATTR_TENSOR: {
      Ort::Value value;
      Ort::ThrowOnError(a.GetTensorAttributeAsOrtValue(value));
      m.message(A::t, tensor_message("", value.GetConst()));
      return m.number(A::type, A::kTensor), true;
    }
    default:
      return false;
  }
}

Message graph_message(Ort::ConstGraph graph);

Message node_header(const GraphNode &n, const std::string &domain) {
  Message m;
  for (const std::string &name : n.inputs) m.text(onnx::Node::input, name);
  for (const std::string &name : n.outputs) m.text(onnx::Node::output, name);
  m.text(onnx::Node::name, n.name);
  m.text(onnx::Node::op_type, n.type);
  m.text(onnx::Node::domain, domain);
  return m;
}

Message node_message(const GraphNode &n) {
  Message m = node_header(n, n.domain);
  try {
    std::set<std::string> bodies;
    for (const Ort::AttrNameSubgraph &body : n.node.GetSubgraphs()) {
      Message a;
      bodies.insert(body.attr_name);
      a.text(onnx::Attribute::name, body.attr_name);
      a.message(onnx::Attribute::g, graph_message(body.sub_graph));
      a.number(onnx::Attribute::type, onnx::Attribute::kGraph);
      m.message(onnx::Node::attribute, a);
    }
    for (const Ort::ConstOpAttr &attribute : n.node.GetAttributes()) {
      Message a;
      if (bodies.count(attribute.GetName())) continue;
      if (!write_attribute(attribute, a)) return node_header(n, "unreadable");
      m.message(onnx::Node::attribute, a);
    }
  } catch (const Ort::Exception &) {
    return node_header(n, "unreadable");
  }
  return m;
}

Message initializer_message(const GraphValue &v) {
  Ort::ConstValue value{nullptr};
  Ort::ThrowOnError(v.info.GetInitializer(value));
  return tensor_message(v.name, value);
}

GraphNode read_node(Ort::ConstNode node, GraphView &graph) {
  GraphNode n;
  n.node = node;
  n.name = node.GetName();
  n.type = node.GetOperatorType();
  n.domain = node.GetDomain();
  n.inputs = names_of(node.GetInputs(), graph);
  n.outputs = names_of(node.GetOutputs(), graph);
  n.implicit = names_of(node.GetImplicitInputs(), graph);
  return n;
}

/// A body of a node.
Message graph_message(Ort::ConstGraph graph) {
  GraphView view;
  Message m;
  for (const Ort::ConstNode &node : graph.GetNodes()) m.message(onnx::Graph::node, node_message(read_node(node, view)));
  m.text(onnx::Graph::name, graph.GetName());
  for (const Ort::ConstValueInfo &v : graph.GetInitializers())
    m.message(onnx::Graph::initializer, initializer_message(read_value(v)));
  for (const Ort::ConstValueInfo &v : graph.GetInputs()) m.message(onnx::Graph::input, value_message(read_value(v)));
  for (const Ort::ConstValueInfo &v : graph.GetOutputs()) m.message(onnx::Graph::output, value_message(read_value(v)));
  return m;
}

}  // namespace

GraphView read_graph(Ort::ConstGraph graph) {
  GraphView out;
  out.name = graph.GetName();
  out.opsets = graph.GetOperatorSets();
  for (const Ort::ConstNode &node : graph.GetNodes()) out.nodes.push_back(read_node(node, out));
  for (const std::string &name : names_of(graph.GetOutputs(), out)) out.outputs.insert(name);
  return out;
}

Part make_part(const GraphView &graph, std::vector<size_t> nodes) {
  Part part;
  std::set<std::string> made, seen, read_outside = graph.outputs;
  const std::set<size_t> inside(nodes.begin(), nodes.end());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &n = graph.nodes[i];
    if (inside.count(i)) {
      made.insert(n.outputs.begin(), n.outputs.end());
      continue;
    }
    read_outside.insert(n.inputs.begin(), n.inputs.end());
    read_outside.insert(n.implicit.begin(), n.implicit.end());
  }
  for (size_t i : nodes)
    for (const auto *names : {&graph.nodes[i].inputs, &graph.nodes[i].implicit})
      for (const std::string &name : *names)
        if (!name.empty() && !made.count(name) && !graph.values.at(name).constant && seen.insert(name).second)
          part.inputs.push_back(name);
  for (size_t i : nodes)
    for (const std::string &name : graph.nodes[i].outputs)
      if (!name.empty() && read_outside.count(name)) part.outputs.push_back(name);
  part.nodes = std::move(nodes);
  return part;
}

std::vector<uint8_t> write_onnx(const GraphView &graph, const Part &part) {
  Message g, model;
  std::set<std::string> constants, inner;
  for (size_t i : part.nodes) {
    const GraphNode &n = graph.nodes[i];
    g.message(onnx::Graph::node, node_message(n));
    for (const auto *names : {&n.inputs, &n.implicit, &n.outputs})
      for (const std::string &name : *names)
        if (!name.empty()) (graph.values.at(name).constant ? constants : inner).insert(name);
  }
  g.text(onnx::Graph::name, graph.name.empty() ? "network" : graph.name);
  for (const std::string &name : constants)
    g.message(onnx::Graph::initializer, initializer_message(graph.values.at(name)));
  for (const std::string &name : part.inputs) {
    g.message(onnx::Graph::input, value_message(graph.values.at(name)));
    inner.erase(name);
  }
  for (const std::string &name : part.outputs) {
    g.message(onnx::Graph::output, value_message(graph.values.at(name)));
    inner.erase(name);
  }
  for (const std::string &name : inner) g.message(onnx::Graph::value_info, value_message(graph.values.at(name)));
  model.number(onnx::Model::ir_version, kIrVersion);
  for (const Ort::OperatorSet &set : graph.opsets) {
    Message m;
    m.text(onnx::OperatorSet::domain, set.domain);
    m.number(onnx::OperatorSet::version, set.version);
    model.message(onnx::Model::opset_import, m);
  }
  model.message(onnx::Model::graph, g);
  return model.take();
}

}  // namespace npu::ort
