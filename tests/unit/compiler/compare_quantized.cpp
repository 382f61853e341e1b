// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/compare_quantized.h"

#include <cmath>
#include <map>

#include "runtime/cpu/element.h"

namespace npu::test {

using graph::Dtype;
using graph::Tensor;
using graph::ValueId;

Tensor random_tensor(const graph::TensorKind &kind, std::mt19937 &random) {
  Tensor t(kind.dtype, kind.shape);
  if (kind.dtype == Dtype::F32)
    for (int64_t i = 0; i < t.count(); ++i)
      t.as<float>()[i] = static_cast<float>(static_cast<int>(random() % 8001) - 4000) / 2000;
  else if (graph::dtype_bytes(kind.dtype) > 2)
    for (int64_t i = 0; i < t.count(); ++i) cpu::store(t, i, static_cast<double>(random() % 8));
  else
    for (uint8_t &byte : t.data) byte = static_cast<uint8_t>(kind.dtype == Dtype::Bool ? random() & 1 : random());
  return t;
}

std::vector<Tensor> random_inputs(const graph::Graph &graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> out;
  for (ValueId v : graph.inputs) out.push_back(random_tensor(graph[v], random));
  return out;
}

std::string difference(const Tensor &found, const Tensor &expected, const QuantizedNet::Output &allowed) {
  if (graph::kind_text(found) != graph::kind_text(expected))
    return graph::kind_text(found) + ", expected " + graph::kind_text(expected);
  const double most = allowed.error > 0 ? allowed.error : allowed.steps;
  for (int64_t i = 0; i < found.count(); ++i) {
    const double a = cpu::load(found, i), b = cpu::load(expected, i);
    if (a != b && !(std::fabs(a - b) <= most) && !(std::isnan(a) && std::isnan(b)))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return {};
}

namespace {

/// Elements of a result that were quantized of NaNs become those found.
void take_nans(const graph::Node &n, const Tensor &x, const Tensor &found, Tensor &out) {
  if (n.op != graph::Op::Requant || x.dtype != Dtype::F32 || found.dtype != out.dtype) return;
  for (int64_t i = 0; i < x.count() && i < found.count(); ++i)
    if (std::isnan(x.as<float>()[i])) cpu::store(out, i, cpu::load(found, i));
}

}  // namespace

std::string compare_steps(const graph::Graph &g, const std::vector<Tensor> &inputs, const std::vector<Tensor> &found,
                          const std::vector<QuantizedNet::Output> &allowed, Nan nan) {
  std::map<ValueId, Tensor> values;
  for (size_t k = 0; k < inputs.size(); ++k) values[g.inputs[k]] = inputs[k];
  for (const graph::Node &n : g.nodes) {
    std::vector<const Tensor *> operands;
    for (ValueId v : n.inputs)
      operands.push_back(v == graph::kNoValue ? nullptr : g.is_constant(v) ? g[v].constant.get() : &values.at(v));
    Tensor out(g[n.output].dtype, g[n.output].shape);
    const Status status = cpu::evaluate(n.op, n.attrs, operands, out);
    if (!status.ok()) return status.message();
    for (size_t k = 0; k < g.outputs.size(); ++k)
      if (g.outputs[k] == n.output) {
        if (nan == Nan::Any) take_nans(n, *operands[0], found[k], out);
        const std::string wrong = difference(found[k], out, allowed[k]);
        if (!wrong.empty()) return "output " + std::to_string(k) + " '" + g.output_names[k] + "': " + wrong;
        out = found[k];
      }
    values[n.output] = std::move(out);
  }
  return {};
}

}  // namespace npu::test
