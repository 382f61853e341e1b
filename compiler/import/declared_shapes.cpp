// SPDX-License-Identifier: MIT
#include "compiler/import/declared_shapes.h"

namespace npu::graph {
namespace {

/// Doubles the given dimensions that the file leaves open; false when there are none.
bool double_open_dims(const RawModel &model, ImportOptions &options) {
  bool any = false;
  for (const RawValue &input : model.inputs) {
    const auto given = options.shapes.find(input.name);
    if (given == options.shapes.end()) continue;
    for (size_t i = 0; i < given->second.size(); ++i) {
      const bool open = !input.has_shape || i >= input.dims.size() || input.dims[i].value < 0;
      if (!open || given->second[i] > kMaxElements) continue;
      given->second[i] *= 2;
      any = true;
    }
  }
  return any;
}

}  // namespace

std::string dims_text(const RawValue &v) {
  std::string text = "[";
  for (size_t i = 0; i < v.dims.size(); ++i) {
    const RawDim &d = v.dims[i];
    text += (i ? ", " : "") + (d.value >= 0       ? std::to_string(d.value)
                               : d.zero           ? "0"
                               : d.symbol.empty() ? "?"
                                                  : d.symbol);
  }
  return text + "]";
}

DeclaredShapes::DeclaredShapes(const RawModel &model, const ImportOptions &options, Infer infer)
    : doubled_(options), infer_(std::move(infer)) {
  given_ = double_open_dims(model, doubled_);
  for (const auto *list : {&model.values, &model.outputs})
    for (const RawValue &v : *list)
      if (v.has_shape) declared_[v.name] = &v;
}

bool DeclaredShapes::follows(const std::string &name, int dim, const Shape &inferred) {
  if (!given_) return false;
  if (!other_) other_ = infer_(doubled_);
  const auto it = other_->find(name);
  if (it == other_->end() || it->second.size() != inferred.size()) return true;
  return dim >= 0 && it->second[static_cast<size_t>(dim)] != inferred[static_cast<size_t>(dim)];
}

std::string DeclaredShapes::difference(const std::string &name, const Shape &inferred) {
  const auto it = declared_.find(name);
  if (it == declared_.end()) return {};
  const RawValue &v = *it->second;
  bool differs = false;
  if (v.dims.size() != inferred.size())
    differs = !follows(name, -1, inferred);
  else
    for (size_t i = 0; i < inferred.size(); ++i)
      differs = differs || (v.dims[i].value >= 0 && v.dims[i].value != inferred[i] &&
                            !follows(name, static_cast<int>(i), inferred));
  return differs ? "'" + name + "' has the shape " + shape_text(inferred) + ", the file declares " + dims_text(v) : "";
}

}  // namespace npu::graph
