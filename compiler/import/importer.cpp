// SPDX-License-Identifier: MIT
#include "compiler/import/importer.h"

#include <set>

#include "compiler/import/declared_shapes.h"
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// The nodes that some output needs.
std::vector<bool> live_nodes(const RawModel &model) {
  std::set<std::string> wanted;
  for (const RawValue &o : model.outputs) wanted.insert(o.name);
  std::vector<bool> live(model.nodes.size());
  for (size_t i = model.nodes.size(); i-- > 0;) {
    for (const std::string &o : model.nodes[i].outputs) live[i] = live[i] || (!o.empty() && wanted.count(o));
    if (live[i]) wanted.insert(model.nodes[i].inputs.begin(), model.nodes[i].inputs.end());
  }
  return live;
}

std::string shape_hint(const RawValue &v) {
  std::string text = "--shape " + v.name + "=";
  for (size_t i = 0; i < v.dims.size(); ++i)
    text += (i ? "," : "") + std::to_string(v.dims[i].value >= 0 ? v.dims[i].value : 1);
  return text;
}

/// Combines what the file says about an input with what the user says.
class ShapeBinder {
 public:
  explicit ShapeBinder(const ImportOptions &options) : options_(options) {}

  Status check_names(const RawModel &model) const {
    for (const auto &[name, shape] : options_.shapes) {
      bool known = false;
      std::string names;
      for (const RawValue &v : model.inputs) {
        known = known || v.name == name;
        names += (names.empty() ? "'" : ", '") + v.name + "'";
      }
      if (!known) return Status::error("a shape is given for '" + name + "', the inputs are " + names);
    }
    return {};
  }

  Status collect(const RawValue &v) {
    const auto it = options_.shapes.find(v.name);
    if (it == options_.shapes.end() || !v.has_shape) return {};
    if (it->second.size() != v.dims.size())
      return Status::error("input '" + v.name + "' is given " + std::to_string(it->second.size()) +
                           " dimensions, the model has " + dims_text(v));
    for (size_t i = 0; i < v.dims.size(); ++i) {
      const int64_t given = it->second[i];
      if (v.dims[i].value >= 0 && v.dims[i].value != given)
        return Status::error("input '" + v.name + "' is given the shape " + shape_text(it->second) +
                             ", the model has " + dims_text(v));
      if (v.dims[i].symbol.empty()) continue;
      const auto [known, inserted] = symbols_.emplace(v.dims[i].symbol, given);
      if (!inserted && known->second != given)
        return Status::error("dimension '" + v.dims[i].symbol + "' is given two values: " +
                             std::to_string(known->second) + " and " + std::to_string(given));
    }
    return {};
  }

  Status bind(const RawValue &v, Shape &out) const {
    const auto it = options_.shapes.find(v.name);
    if (it != options_.shapes.end())
      out = it->second;
    else if (!v.has_shape)
      return Status::error("input '" + v.name + "' has no shape in the file: give it with --shape " + v.name + "=...");
    else {
      for (const RawDim &d : v.dims) {
        const auto s = symbols_.find(d.symbol);
        out.push_back(d.value >= 0 ? d.value : s != symbols_.end() ? s->second : -1);
      }
      for (int64_t d : out)
        if (d < 0)
          return Status::error("input '" + v.name + "' has shape " + dims_text(v) +
                               ", and a program needs fixed sizes: give them, for example with " + shape_hint(v));
    }
    const int64_t count = element_count(out);
    if (count < 0)
      return Status::error("input '" + v.name + "' of shape " + shape_text(out) + " has more than " +
                           std::to_string(kMaxElements) + " elements");
    if (count == 0) return Status::error("input '" + v.name + "' of shape " + shape_text(out) + " is empty");
    return {};
  }

 private:
  const ImportOptions &options_;
  std::map<std::string, int64_t> symbols_;
};

/// Why a file may declare another shape for the result of a node.
std::string about_declared(const RawNode &n) {
  const auto ceil_mode = n.attributes.find("ceil_mode");
  if (ceil_mode != n.attributes.end() && ceil_mode->second.i.value_or(0))
    return " (ceil_mode adds no window that begins in the padding behind the data)";
  if (n.type == "Resize" || n.type == "Upsample")
    return " (a size is that of the input times the scale, in single precision, rounded down)";
  return {};
}

class Importer {
 public:
  /// `declared`: of the model; null: what the file says about shapes is not looked at.
  Importer(const RawModel &model, const ImportOptions &options, DeclaredShapes *declared, Graph &graph)
      : model_(model), options_(options), declared_(declared), graph_(graph), live_(live_nodes(model)) {}

  /// Of all tensors that have been converted.
  DeclaredShapes::Shapes shapes() const {
    DeclaredShapes::Shapes out;
    for (const auto &[name, value] : values_) out[name] = graph_[value].shape;
    return out;
  }

  Status run() {
    if (model_.opset < kMinOpset || model_.opset > kMaxOpset)
      return Status::error("the model uses operator set " + std::to_string(model_.opset) + ", versions " +
                           std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset) + " are supported");
    graph_.name = model_.graph_name;
    NPU_TRY(check_operators());
    NPU_TRY(add_inputs());
    for (size_t i = 0; i < model_.nodes.size(); ++i)
      if (live_[i]) convert(i);
    NPU_TRY(report(static_cast<int>(problems_.size()) == 1
                       ? "one node cannot be compiled:"
                       : std::to_string(problems_.size()) + " nodes cannot be compiled:"));
    return add_outputs();
  }

 private:
  std::string title(const RawNode &n) const {
    const std::string name = !n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : "";
    return (n.domain.empty() ? "" : n.domain + ".") + n.type + " '" + name + "'";
  }

  Status report(const std::string &head) const {
    if (problems_.empty()) return {};
    std::string text = head;
    for (const std::string &p : problems_) text += "\n  " + p;
    return Status::error(text);
  }

  Status check_operators() {
    for (size_t i = 0; i < model_.nodes.size(); ++i)
      if (live_[i] && !find_op(model_.nodes[i].domain, model_.nodes[i].type))
        problems_.push_back(title(model_.nodes[i]) + ": the operator is not supported");
    const size_t n = problems_.size();
    return report(n == 1 ? "one node has an operator that is not supported:"
                         : std::to_string(n) + " nodes have operators that are not supported:");
  }

  Status add_inputs() {
    ShapeBinder binder(options_);
    NPU_TRY(binder.check_names(model_));
    for (const RawValue &v : model_.inputs) NPU_TRY(binder.collect(v));
    for (const RawValue &v : model_.inputs) {
      if (v.dtype != Dtype::F32)
        return Status::error("input '" + v.name + "' is " + dtype_name(v.dtype) + ", float32 is supported");
      Value value;
      value.name = v.name;
      NPU_TRY(binder.bind(v, value.shape));
      values_[v.name] = graph_.add_value(std::move(value));
      graph_.inputs.push_back(values_[v.name]);
    }
    for (const auto &[name, tensor] : model_.initializers) values_[name] = graph_.add_constant(tensor, name);
    return {};
  }

  /// Operands of a node; false when one of them could not be converted.
  bool operands(const RawNode &n, std::vector<ValueId> &inputs, std::string &problem) const {
    for (const std::string &name : n.inputs) {
      if (name.empty()) {
        inputs.push_back(kNoValue);
        continue;
      }
      const auto it = values_.find(name);
      if (it != values_.end()) {
        inputs.push_back(it->second);
        continue;
      }
      if (!failed_.count(name)) problem = "it reads '" + name + "', which nothing in front of it makes";
      return false;
    }
    return true;
  }

  /// Gives the results of a node their names; says where the file declares another shape.
  std::string keep_results(const RawNode &n, const std::vector<ValueId> &results) {
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k].empty() || results[k] == kNoValue) continue;
      Value &v = graph_[results[k]];
      const std::string difference = declared_ ? declared_->difference(n.outputs[k], v.shape) : "";
      if (!difference.empty()) return difference + about_declared(n);
      values_[n.outputs[k]] = results[k];
      if (v.name.empty()) v.name = n.outputs[k];
    }
    return {};
  }

  void convert(size_t index) {
    const RawNode &n = model_.nodes[index];
    Source source;
    source.type = n.type;
    source.name = !n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : n.type;
    graph_.sources.push_back(std::move(source));
    const int source_index = static_cast<int>(graph_.sources.size()) - 1;
    const size_t nodes_before = graph_.nodes.size();
    std::vector<ValueId> inputs;
    std::string problem;
    const bool ready = operands(n, inputs, problem);
    if (ready) {
      OpContext context(graph_, n, model_.opset, source_index, std::move(inputs));
      const Status status = find_op(n.domain, n.type)(context);
      problem = status.ok() ? keep_results(n, context.results) : status.message();
      if (problem.empty() && graph_.nodes.size() == nodes_before) {
        const bool constant = context.results[0] != kNoValue && graph_.is_constant(context.results[0]);
        graph_.sources.back().fate = constant ? "folded" : "nothing to do";
      }
    }
    if (!problem.empty()) problems_.push_back(title(n) + ": " + problem);
    if (!ready || !problem.empty()) failed_.insert(n.outputs.begin(), n.outputs.end());
  }

  Status add_outputs() {
    for (const RawValue &o : model_.outputs) {
      const auto it = values_.find(o.name);
      if (it == values_.end()) return Status::error("nothing makes the output '" + o.name + "'");
      const Value &v = graph_[it->second];
      if (v.dtype != Dtype::F32)
        return Status::error("output '" + o.name + "' is " + dtype_name(v.dtype) + ", float32 is supported");
      const std::string difference = declared_ ? declared_->difference(o.name, v.shape) : "";
      if (!difference.empty()) return Status::error("output " + difference);
      if (element_count(v.shape) == 0)
        return Status::error("output '" + o.name + "' of shape " + shape_text(v.shape) + " is empty");
      graph_.outputs.push_back(it->second);
      graph_.output_names.push_back(o.name);
    }
    return {};
  }

  const RawModel &model_;
  const ImportOptions &options_;
  DeclaredShapes *const declared_;
  Graph &graph_;
  const std::vector<bool> live_;
  std::map<std::string, ValueId> values_;
  std::set<std::string> failed_;
  std::vector<std::string> problems_;
};

}  // namespace

Status import_model(const RawModel &model, const ImportOptions &options, Graph &graph) {
  DeclaredShapes declared(model, options, [&model](const ImportOptions &other) {
    Graph scratch;
    Importer importer(model, other, nullptr, scratch);
    // Where it fails, the shapes behind that are missing, and are taken for such that follow from the given ones.
    (void)importer.run();
    return importer.shapes();
  });
  return Importer(model, options, &declared, graph).run();
}

}  // namespace npu::graph
