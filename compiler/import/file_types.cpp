// SPDX-License-Identifier: MIT
#include "compiler/import/file_types.h"

#include <algorithm>

#include "compiler/graph/moves.h"
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// F32 stands for all types that float32 holds without rounding, or nearly so.
Dtype followed(Dtype type) { return is_half(type) ? type : Dtype::F32; }

/// The type that an attribute of a node names; Undefined: there is none.
Dtype named_type(const RawNode &n) {
  for (const char *name : {"to", "dtype", "output_dtype"})
    if (const auto a = n.attributes.find(name); a != n.attributes.end() && a->second.i && *a->second.i > 0)
      return static_cast<Dtype>(*a->second.i);
  if (n.type != "Constant" && n.type != "ConstantOfShape") return Dtype::Undefined;
  const auto value = n.attributes.find("value");
  return value != n.attributes.end() && value->second.tensor ? value->second.tensor->dtype : Dtype::F32;
}

/// The operand from which on one has the type of the result.
size_t typing_operand(const RawNode &n) { return n.type == "CastLike" ? 1 : n.type == "OneHot" ? 2 : 0; }

bool has_body(const RawNode &n) {
  return std::ranges::any_of(n.attributes, [](const auto &a) { return a.second.graph != nullptr; });
}

}  // namespace

TypeFollower::TypeFollower(const RawModel &model, Graph &graph, FileTypes &types) : graph_(graph), types_(types) {
  types_.clear();
  for (const auto *list : {&model.values, &model.outputs})
    for (const RawValue &v : *list)
      if (v.is_tensor && v.dtype != Dtype::Undefined) declared_[v.name] = v.dtype;
}

void TypeFollower::set(ValueId v, Dtype in_file) {
  if (types_.size() <= at(v)) types_.resize(graph_.values.size(), Dtype::Undefined);
  types_[at(v)] = followed(in_file);
}

Dtype TypeFollower::result_type(const OpContext &c, size_t k, bool outermost) const {
  if (const Dtype named = named_type(c.node); named != Dtype::Undefined) return followed(named);
  if (const auto found = declared_.find(c.node.outputs[k]); outermost && found != declared_.end())
    return followed(found->second);
  for (size_t i = typing_operand(c.node); i < c.input_count(); ++i)
    if (c.has_input(i) && c.value(i).dtype == Dtype::F32) return followed(type_of(types_, c.in(i)));
  return Dtype::F32;
}

Status TypeFollower::follow(OpContext &c, size_t first, bool outermost) {
  // Results of bodies are put together by moves, and have their types already.
  for (size_t i = first; i < graph_.nodes.size(); ++i) {
    const Node &n = graph_.nodes[i];
    if (n.source != c.source() || (!moves(n) && n.op != Op::Where) || graph_[n.output].dtype != Dtype::F32) continue;
    const Dtype type = type_of(types_, n.inputs[n.op == Op::Where ? 1 : 0]);
    if (type != Dtype::Undefined && type_of(types_, n.output) == Dtype::Undefined) set(n.output, type);
  }
  if (has_body(c.node)) return {};
  for (size_t k = 0; k < c.results.size(); ++k) {
    ValueId &v = c.results[k];
    if (v == kNoValue || graph_[v].dtype != Dtype::F32) continue;
    const Dtype type = result_type(c, k, outermost), now = type_of(types_, v);
    if (now != Dtype::Undefined && now != type) NPU_TRY(c.emit(Op::Cast, {v}, CastAttrs{Dtype::F32}, v));
    set(v, type);
  }
  return {};
}

}  // namespace npu::graph
