// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {

OnnxBuilder::OnnxBuilder(int64_t opset) {
  model.set_ir_version(7);
  model.add_opset_import()->set_version(opset);
  graph().set_name("built");
}

std::string OnnxBuilder::input(const Dims &dims, const std::string &name, int type) {
  auto &v = *graph().add_input();
  v.set_name(name.empty() ? fresh("in") : name);
  auto &t = *v.mutable_type()->mutable_tensor_type();
  t.set_elem_type(type);
  t.mutable_shape();
  for (int64_t d : dims) t.mutable_shape()->add_dim()->set_dim_value(d);
  return v.name();
}

std::string OnnxBuilder::weights(const Dims &dims) {
  auto &t = *graph().add_initializer();
  t.set_name(fresh("w"));
  t.set_data_type(onnx::TensorProto::FLOAT);
  int64_t n = 1;
  for (int64_t d : dims) {
    t.add_dims(d);
    n *= d;
  }
  for (int64_t i = 0; i < n; ++i) {
    random_ = random_ * 1664525u + 1013904223u;
    t.add_float_data(static_cast<float>(random_ >> 8) / 8388608.0f - 1.0f);
  }
  return t.name();
}

std::string OnnxBuilder::ints(const std::vector<int64_t> &values) {
  return indices({static_cast<int64_t>(values.size())}, values);
}

std::string OnnxBuilder::indices(const Dims &dims, const std::vector<int64_t> &values) {
  auto &t = *graph().add_initializer();
  t.set_name(fresh("i"));
  t.set_data_type(onnx::TensorProto::INT64);
  for (int64_t d : dims) t.add_dims(d);
  for (int64_t v : values) t.add_int64_data(v);
  return t.name();
}

std::string OnnxBuilder::ints32(const std::vector<int32_t> &values) {
  auto &t = *graph().add_initializer();
  t.set_name(fresh("i"));
  t.set_data_type(onnx::TensorProto::INT32);
  t.add_dims(static_cast<int64_t>(values.size()));
  for (int32_t v : values) t.add_int32_data(v);
  return t.name();
}

std::string OnnxBuilder::scalar(float value) {
  auto &t = *graph().add_initializer();
  t.set_name(fresh("s"));
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_float_data(value);
  return t.name();
}

namespace {

void fill(onnx::TensorProto &t, const Dims &dims, const std::vector<float> &values) {
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  for (float v : values) t.add_float_data(v);
}

}  // namespace

std::string OnnxBuilder::floats(const std::vector<float> &values) {
  return constant({static_cast<int64_t>(values.size())}, values);
}

std::string OnnxBuilder::constant(const Dims &dims, const std::vector<float> &values) {
  auto &t = *graph().add_initializer();
  t.set_name(fresh("c"));
  fill(t, dims, values);
  return t.name();
}

std::string OnnxBuilder::op(const std::string &type, const std::vector<std::string> &inputs) {
  auto &n = *graph().add_node();
  n.set_op_type(type);
  for (const std::string &i : inputs) n.add_input(i);
  n.add_output(fresh("t"));
  n.set_name(type + "_" + std::to_string(graph().node_size() - 1));
  return n.output(0);
}

std::string OnnxBuilder::more_output() {
  auto &n = *graph().mutable_node(graph().node_size() - 1);
  n.add_output(fresh("t"));
  return n.output(n.output_size() - 1);
}

OnnxBuilder &OnnxBuilder::output(const std::string &name) {
  auto &v = *graph().add_output();
  v.set_name(name);
  v.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return *this;
}

namespace {

void set_shape(onnx::ValueInfoProto &v, const Dims &dims) {
  auto &t = *v.mutable_type()->mutable_tensor_type();
  t.set_elem_type(onnx::TensorProto::FLOAT);
  t.mutable_shape()->clear_dim();
  for (int64_t d : dims) {
    auto &dim = *t.mutable_shape()->add_dim();
    if (d >= 0) dim.set_dim_value(d);
  }
}

}  // namespace

OnnxBuilder &OnnxBuilder::declare(const std::string &name, const Dims &dims) {
  auto &v = *graph().add_value_info();
  v.set_name(name);
  set_shape(v, dims);
  return *this;
}

OnnxBuilder &OnnxBuilder::declare_output(const Dims &dims) {
  set_shape(*graph().mutable_output(graph().output_size() - 1), dims);
  return *this;
}

onnx::AttributeProto &OnnxBuilder::new_attr(const std::string &name, onnx::AttributeProto::AttributeType type) {
  auto &a = *graph().mutable_node(graph().node_size() - 1)->add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, int64_t value) {
  new_attr(name, onnx::AttributeProto::INT).set_i(value);
  return *this;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, float value) {
  new_attr(name, onnx::AttributeProto::FLOAT).set_f(value);
  return *this;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, const std::vector<int64_t> &values) {
  auto &a = new_attr(name, onnx::AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
  return *this;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, const char *value) {
  new_attr(name, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, const std::vector<float> &values) {
  auto &a = new_attr(name, onnx::AttributeProto::FLOATS);
  for (float v : values) a.add_floats(v);
  return *this;
}

OnnxBuilder &OnnxBuilder::tensor_attr(const std::string &name, const std::vector<int64_t> &values) {
  auto &t = *new_attr(name, onnx::AttributeProto::TENSOR).mutable_t();
  t.set_data_type(onnx::TensorProto::INT64);
  t.add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) t.add_int64_data(v);
  return *this;
}

OnnxBuilder &OnnxBuilder::tensor_attr(const std::string &name, const Dims &dims, const std::vector<float> &values) {
  fill(*new_attr(name, onnx::AttributeProto::TENSOR).mutable_t(), dims, values);
  return *this;
}

OnnxBuilder &OnnxBuilder::attr(const std::string &name, const OnnxBuilder &body) {
  *new_attr(name, onnx::AttributeProto::GRAPH).mutable_g() = body.model.graph();
  return *this;
}

OnnxBuilder &OnnxBuilder::named(const std::string &name) {
  graph().mutable_node(graph().node_size() - 1)->set_name(name);
  return *this;
}

}  // namespace npu::test
