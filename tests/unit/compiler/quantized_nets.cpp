// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {

std::string integers(OnnxBuilder &b, int type, const Dims &dims, const std::vector<int> &values) {
  auto &graph = *b.model.mutable_graph();
  auto &t = *graph.add_initializer();
  t.set_name("q" + std::to_string(graph.initializer_size()));
  t.set_data_type(type);
  for (int64_t d : dims) t.add_dims(d);
  for (int v : values) t.add_int32_data(v);
  return t.name();
}

std::string zero_point(OnnxBuilder &b, const Scaled &q) { return integers(b, q.type, {}, {q.zero}); }

std::string quantize(OnnxBuilder &b, const std::string &x, const Scaled &q) {
  return b.op("QuantizeLinear", {x, b.scalar(q.scale), zero_point(b, q)});
}

std::string dequantize(OnnxBuilder &b, const std::string &x, const Scaled &q) {
  return b.op("DequantizeLinear", {x, b.scalar(q.scale), zero_point(b, q)});
}

std::string microsoft(OnnxBuilder &b, const std::string &type, const std::vector<std::string> &inputs) {
  if (b.model.opset_import_size() == 1) {
    auto &domain = *b.model.add_opset_import();
    domain.set_domain("com.microsoft");
    domain.set_version(1);
  }
  const std::string y = b.op(type, inputs);
  auto &graph = *b.model.mutable_graph();
  graph.mutable_node(graph.node_size() - 1)->set_domain("com.microsoft");
  return y;
}

}  // namespace npu::test
