// SPDX-License-Identifier: MIT
#include "compiler/graph/output_parts.h"

#include <algorithm>
#include <map>

namespace npu::graph {
namespace {

constexpr size_t kMostParts = 64;
constexpr size_t kMostNodes = 256;  // behind an output that are looked at

class Finder {
 public:
  explicit Finder(const Graph &g) : g_(g), made_(g.producers()) {}

  /// Numbers of parts as a tensor of the value's shape.
  const Tensor &parts(ValueId v) {
    const auto known = parts_.find(v);
    if (known != parts_.end()) return known->second;
    Tensor found(Dtype::I32, g_[v].shape);
    const int node = made_[at(v)];
    const bool looked = node >= 0 && visited_++ < kMostNodes && follow(g_.nodes[static_cast<size_t>(node)], found);
    if (!looked) fill(v, found);
    return parts_[v] = std::move(found);
  }

  const std::vector<std::string> &names() const { return names_; }

 private:
  void fill(ValueId v, Tensor &out) {
    const auto number = static_cast<int32_t>(names_.size());
    names_.push_back(g_[v].name);
    for (int64_t i = 0; i < out.count(); ++i) out.as<int32_t>()[i] = number;
  }

  /// A part has the name of the operand, not of the tensor in front of its functions of single elements. Where that has
  /// none, or another one has it too, its indices are named: "[2:3] of axis 0".
  void visit_operands(const Node &n) {
    const auto axis = static_cast<size_t>(std::get<ConcatAttrs>(n.attrs).axis);
    int64_t from = 0;
    std::map<std::string, size_t> count;
    for (ValueId v : n.inputs) ++count[g_[v].name];
    for (ValueId v : n.inputs) {
      const size_t before = names_.size();
      (void)parts(v);
      const std::string &name = g_[v].name;
      if (names_.size() == before + 1 && !name.empty()) names_[before] = name;
      const int64_t end = from + g_[v].shape[axis];
      const bool shared = count[name] > 1;
      const std::string indices =
          "[" + std::to_string(from) + ":" + std::to_string(end) + "] of axis " + std::to_string(axis);
      for (size_t p = before; p < names_.size() && (name.empty() || shared); ++p)
        names_[p] += (names_[p].empty() ? "" : " ") + indices;
      from = end;
    }
  }

  /// The operand that gives each element of the result; kNoValue: there is none.
  ValueId same_element(const Node &n) const {
    switch (n.op) {
      case Op::Unary:
      case Op::Cast:
      case Op::Requant:
      case Op::Lookup:
        return n.inputs[0];
      case Op::Binary:
        for (size_t k = 0; k < 2; ++k)
          if (g_.is_constant(n.inputs[1 - k]) && g_[n.inputs[k]].shape == g_[n.output].shape) return n.inputs[k];
        return kNoValue;
      default:
        return kNoValue;
    }
  }

  bool follow(const Node &n, Tensor &out) {
    if (const ValueId v = same_element(n); v != kNoValue) {
      out.data = parts(v).data;
      return true;
    }
    std::vector<const Tensor *> operands;
    switch (n.op) {
      case Op::Transpose:
      case Op::Reshape:
      case Op::Slice:
      case Op::Expand:
        operands = {&parts(n.inputs[0])};
        break;
      case Op::Concat:
        visit_operands(n);  // before a pointer to one of them is kept
        for (ValueId v : n.inputs) operands.push_back(&parts_.at(v));
        break;
      default:
        return false;
    }
    return cpu::evaluate(n.op, n.attrs, operands, out).ok();
  }

  const Graph &g_;
  const std::vector<int> made_;
  std::map<ValueId, Tensor> parts_;
  std::vector<std::string> names_;
  size_t visited_ = 0;
};

}  // namespace

OutputParts output_parts(const Graph &graph, size_t output) {
  Finder finder(graph);
  const Tensor &parts = finder.parts(graph.outputs[output]);
  OutputParts out;
  if (finder.names().size() < 2 || finder.names().size() > kMostParts) {
    out.names = {""};
    return out;
  }
  out.names = finder.names();
  out.of.assign(parts.as<int32_t>(), parts.as<int32_t>() + parts.count());
  return out;
}

}  // namespace npu::graph
