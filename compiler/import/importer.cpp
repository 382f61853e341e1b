// SPDX-License-Identifier: MIT
#include "compiler/import/importer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/graph/moves.h"
#include "compiler/graph/remove_dead.h"
#include "compiler/import/declared_shapes.h"
#include "compiler/import/file_types.h"
#include "compiler/import/help.h"
#include "compiler/import/known_attributes.h"
#include "compiler/import/narrow.h"
#include "compiler/import/node_order.h"
#include "compiler/import/op_context.h"
#include "compiler/import/open_shapes.h"
#include "compiler/import/plugin_ops.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/operators.h"

namespace npu::graph {
namespace {

/// The nodes that some output needs, in an order in which they can be converted.
Status live_nodes(const RawGraph &graph, std::vector<const RawNode *> &live) {
  for (const RawNode &n : graph.nodes)
    for (const std::string &name : n.outputs)
      if (graph.initializers.count(name))
        return refuse(Obstacle::File,
                      "'" + name + "' is a result of " + node_title(n) + ", and an initializer as well");
  std::vector<size_t> order;
  NPU_TRY(order_nodes(graph.nodes, order));
  std::set<std::string> wanted;
  for (const RawValue &o : graph.outputs) wanted.insert(o.name);
  live.clear();
  for (size_t i = order.size(); i-- > 0;) {
    const RawNode &n = graph.nodes[order[i]];
    if (std::none_of(n.outputs.begin(), n.outputs.end(),
                     [&](const std::string &o) { return !o.empty() && wanted.count(o); }))
      continue;
    live.push_back(&n);
    add_reads(n, wanted);
  }
  std::reverse(live.begin(), live.end());
  return {};
}

/// The type that a .bmodel has for an input or output; Undefined if there is none.
Dtype stored_type(Dtype type) {
  switch (working_type(type)) {
    case Dtype::I64:
      return Dtype::I32;
    case Dtype::U64:
      return Dtype::U32;
    case Dtype::Bool:
      return Dtype::U8;
    case Dtype::String:
      return Dtype::Undefined;
    default:
      return working_type(type);
  }
}

/// What is wrong with a tensor of a type that has no size.
std::string about_type(Dtype type) {
  return std::string(dtype_name(type)) + (narrow_bits(type)
                                              ? ", numbers of at least 8 bits (floating point: 16) are supported"
                                              : ", tensors of numbers are supported");
}

/// Combines what the file says about an input with what the user says.
class ShapeBinder {
 public:
  explicit ShapeBinder(const ImportOptions &options) : options_(options) {}

  Status check_names(const RawModel &model) const {
    for (const auto &[name, shape] : options_.shapes) NPU_TRY(check_name(model, "shape", name));
    for (const auto &[name, value] : options_.values) NPU_TRY(check_name(model, "value", name));
    return {};
  }

  Status collect(const RawValue &v) {
    const auto it = options_.shapes.find(v.name);
    if (it == options_.shapes.end() || !v.has_shape) return {};
    if (it->second.size() != v.dims.size())
      return refuse(Obstacle::Option, "input '" + v.name + "' is given " + std::to_string(it->second.size()) +
                                          " dimensions, the model has " + dims_text(v));
    for (size_t i = 0; i < v.dims.size(); ++i) {
      const int64_t given = it->second[i];
      if (v.dims[i].value >= 0 && v.dims[i].value != given)
        return refuse(Obstacle::Option, "input '" + v.name + "' is given the shape " + shape_text(it->second) +
                                            ", the model has " + dims_text(v));
      if (v.dims[i].symbol.empty()) continue;
      const auto [known, inserted] = symbols_.emplace(v.dims[i].symbol, given);
      if (!inserted && known->second != given)
        return refuse(Obstacle::Option, "dimension '" + v.dims[i].symbol + "' is given two values: " +
                                            std::to_string(known->second) + " and " + std::to_string(given));
    }
    return {};
  }

  /// The shape of an input as far as it is known; -1: a dimension is open. False: it is not known.
  bool find_dims(const RawValue &v, Shape &out) const {
    const auto it = options_.shapes.find(v.name);
    if (it != options_.shapes.end()) {
      out = it->second;
      return true;
    }
    for (const RawDim &d : v.dims) {
      const auto s = symbols_.find(d.symbol);
      out.push_back(d.value >= 0 ? d.value : s != symbols_.end() ? s->second : -1);
    }
    return v.has_shape && std::ranges::none_of(out, [](int64_t d) { return d < 0; });
  }

  /// Inputs of the model that have no fixed shape yet.
  std::vector<OpenInput> open_inputs(const RawModel &model) const {
    std::vector<OpenInput> out;
    for (const RawValue &v : model.inputs)
      if (Shape dims; v.is_tensor && !options_.values.count(v.name) && !find_dims(v, dims)) out.push_back({&v, dims});
    return out;
  }

  Status bind(const RawValue &v, Shape &out) const {
    if (!find_dims(v, out)) return refuse(Obstacle::OpenShape, open_inputs_text({{&v, out}}));
    const int64_t count = element_count(out);
    if (count < 0)
      return refuse(Obstacle::Size, "input '" + v.name + "' of shape " + shape_text(out) + " has more than " +
                                        std::to_string(kMaxElements) + " elements");
    if (count == 0) return refuse(Obstacle::Option, "input '" + v.name + "' of shape " + shape_text(out) + " is empty");
    return {};
  }

 private:
  static Status check_name(const RawModel &model, const char *what, const std::string &name) {
    std::string names;
    for (const RawValue &v : model.inputs) {
      if (v.name == name) return {};
      names += (names.empty() ? "'" : ", '") + v.name + "'";
    }
    return refuse(Obstacle::Option, std::string("a ") + what + " is given for '" + name + "', the inputs are " + names);
  }

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

class Importer : private BodyConverter {
 public:
  /// `declared`: of the model; null: what the file says about shapes is not looked at.
  Importer(const RawModel &model, const ImportOptions &options, DeclaredShapes *declared, Graph &graph,
           Findings &findings)
      : model_(model), options_(options), declared_(declared), graph_(graph), opset_(model.opset), findings_(findings) {
    for (const RawFunction &f : model.functions) functions_.emplace(std::tuple(f.domain, f.name, f.overload), &f);
  }

  /// Lets the import say which types values have in the file.
  void follow_types(FileTypes &types) { types_.emplace(model_, graph_, types); }

  /// Of all tensors that have been converted.
  DeclaredShapes::Shapes shapes() const {
    DeclaredShapes::Shapes out;
    for (const auto &[name, value] : scopes_.front().values) out[name] = graph_[value].shape;
    return out;
  }

  Status run() {
    NPU_TRY(check_opset(model_.opset));
    graph_.name = model_.graph_name;
    std::vector<const RawNode *> live;
    NPU_TRY(live_nodes(model_, live));
    note_opset(live);
    NPU_TRY(check_operators(live));
    NPU_TRY(add_inputs());
    for (const RawNode *n : live) convert(*n);
    NPU_TRY(report("one node cannot be compiled", "nodes cannot be compiled"));
    return add_outputs();
  }

  Status explain(std::vector<NodeVerdict> &verdicts) {
    NPU_TRY(check_opset(model_.opset));
    graph_.name = model_.graph_name;
    std::vector<const RawNode *> live;
    NPU_TRY(live_nodes(model_, live));
    note_opset(live);
    ShapeBinder binder(options_);
    NPU_TRY(collect_shapes(binder));
    std::map<std::string, Unknown> unknown;  // by their names
    std::string shapes;
    if (const std::vector<OpenInput> open = binder.open_inputs(model_); !open.empty())
      shapes = ": give them" + suggested_shapes(model_, options_, open);
    for (const RawValue &v : model_.inputs)
      if (const Status s = add_input(binder, v); !s.ok()) {
        const bool is_open = obstacle_of(s) == Obstacle::OpenShape;
        unknown[v.name] = {s.message() + (is_open ? shapes : ""), v.name, help_for(obstacle_of(s))};
      }
    NPU_TRY(add_constants(model_));
    for (const RawNode *n : live) {
      NodeVerdict v{static_cast<size_t>(n - model_.nodes.data()), graph_.sources.size(), 0, {}, {}, {}};
      explain_node(*n, unknown, v);
      v.end = graph_.sources.size();
      if (!v.problem.empty()) go_around(binder, *n, v, unknown);
      verdicts.push_back(std::move(v));
    }
    add_outputs_of_parts();
    return {};
  }

 private:
  /// A tensor that nothing can read.
  struct Unknown {
    std::string why, input, help;  ///< as in NodeVerdict
  };

  /// Says why a node cannot be converted, if it has not been.
  void explain_node(const RawNode &n, const std::map<std::string, Unknown> &unknown, NodeVerdict &verdict) {
    findings_.list.clear();
    std::set<const RawFunction *> seen;
    check_operator(n, seen);
    if (findings_.empty()) {
      for (const std::string &name : n.inputs)
        if (const auto it = unknown.find(name); it != unknown.end()) {
          verdict.problem = it->second.why;
          verdict.input = it->second.input;
          verdict.help = it->second.help;
          return;
        }
      convert(n);
    }
    if (findings_.empty()) return;
    const Finding &f = findings_.list.front();
    const bool is_own = f.op == operator_name(n) && f.nodes.front() == node_name(n);
    verdict.problem = is_own ? f.what : f.op + " '" + f.nodes.front() + "': " + f.what;
    verdict.help = f.help;
  }

  /// Behind a node that cannot be converted, other nodes read its results as inputs.
  void go_around(const ShapeBinder &binder, const RawNode &n, const NodeVerdict &verdict,
                 std::map<std::string, Unknown> &unknown) {
    std::map<std::string, const RawValue *> declared;
    for (const RawValue &v : model_.values) declared[v.name] = &v;
    for (const RawValue &v : model_.outputs) declared[v.name] = &v;
    for (const std::string &name : n.inputs) read_outside_.insert(name);
    for (const std::string &name : n.outputs) {
      if (name.empty()) continue;
      scopes_.back().failed.erase(name);
      scopes_.back().values.erase(name);
      const auto known = declared.find(name);
      if (known != declared.end() && add_input(binder, *known->second).ok()) continue;
      unknown[name] = {"it reads '" + name + "', a result of " + node_title(n) +
                           ", which cannot be compiled, and the file does not say which shape and type it has",
                       verdict.input, verdict.help};
    }
  }

  /// Outputs of the file that have been converted, and what nodes read that have not been.
  void add_outputs_of_parts() {
    for (const RawValue &o : model_.outputs) read_outside_.insert(o.name);
    for (const std::string &name : read_outside_) {
      const auto it = scopes_.front().values.find(name);
      if (it == scopes_.front().values.end() || graph_.is_constant(it->second)) continue;
      ValueId v = it->second;
      const Dtype stored = stored_type(graph_[v].dtype);
      if (dtype_bytes(stored) == 0 || element_count(graph_[v].shape) <= 0) continue;
      if (std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end()) continue;
      if (stored != graph_[v].dtype && !convert_type(v, stored, v).ok()) continue;
      graph_.outputs.push_back(v);
      graph_.output_names.push_back(name);
    }
  }

  /// Names of one graph; those of the graphs around it are seen, too, but not from a function.
  struct Scope {
    std::map<std::string, ValueId> values;
    std::set<std::string> failed;
    bool closed = false;
  };
  using Arguments = std::map<std::string, RawAttribute>;
  static inline const std::string kNotSupported = "the operator is not supported";
  static constexpr size_t kMaxDepth = 64;        // bodies in bodies, functions in functions
  static constexpr size_t kMaxNodes = 1u << 18;  // conversions, with those of bodies and functions

  static Status check_opset(int64_t opset) {
    if (opset >= kMinOpset && opset <= kMaxOpset) return {};
    return refuse(Obstacle::OperatorSet, "the model uses operator set " + std::to_string(opset) + ", versions " +
                                             std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset) +
                                             " are supported");
  }

  /// ONNX's own operators in a file that imports other domains alone.
  void note_opset(const std::vector<const RawNode *> &nodes) {
    const bool used = std::ranges::any_of(nodes, [](const RawNode *n) { return n->domain.empty(); });
    if (used && !model_.has_opset)
      graph_.notes.push_back("the file imports no version of ONNX's operator set: version " +
                             std::to_string(model_.opset) + " is taken");
  }

  /// A node's name behind those of the calls that it is in: "call/node".
  std::string path_of(std::string name) const {
    for (auto caller = callers_.rbegin(); caller != callers_.rend(); ++caller) name = node_name(**caller) + "/" + name;
    return name;
  }

  static std::string operator_name(const RawNode &n) {
    return printable((n.domain.empty() ? "" : n.domain + ".") + n.type);
  }

  void add_problem(const RawNode &n, const std::string &what, Obstacle obstacle) {
    const std::string op = operator_name(n);
    auto f = std::find_if(findings_.list.begin(), findings_.list.end(),
                          [&](const Finding &known) { return known.op == op && known.what == what; });
    if (f == findings_.list.end()) {
      f = findings_.list.insert(f, Finding{op, what, {}, obstacle, 0, {}});
      f->help = obstacle == Obstacle::Operator ? help_for_operator(n.domain, n.type) : help_for(obstacle);
    }
    if (f->nodes.size() < Finding::kNamed) f->nodes.push_back(path_of(node_name(n)));
    ++f->count;
  }

  size_t problem_count() const {
    size_t count = 0;
    for (const Finding &f : findings_.list) count += f.count;
    return count;
  }

  /// All problems in one message, each operator once for what is wrong with it.
  Status report(const char *one, const char *several) {
    if (findings_.empty()) return {};
    const size_t count = problem_count();
    findings_.headline = count == 1 ? one : std::to_string(count) + " " + several;
    return refuse(findings_.list[0].obstacle, findings_.text(false));
  }

  const RawFunction *find_function(const RawNode &n) const {
    const auto it = functions_.find({n.domain, n.type, n.overload});
    return it == functions_.end() ? nullptr : it->second;
  }

  void check_operator(const RawNode &n, std::set<const RawFunction *> &seen) {
    if (const RawFunction *f = find_function(n)) {
      if (seen.insert(f).second)
        for (const RawNode &inner : f->nodes) check_operator(inner, seen);
      return;
    }
    if (!find_op(n.domain, n.type) && !is_plugin_operator(n))
      add_problem(n, kNotSupported + plugin_advice(n), Obstacle::Operator);
    // A branch that is not taken does no harm.
    for (const auto &[name, a] : n.attributes)
      if (a.graph && n.type != "If")
        for (const RawNode &inner : a.graph->nodes) check_operator(inner, seen);
  }

  Status check_operators(const std::vector<const RawNode *> &live) {
    std::set<const RawFunction *> seen;
    for (const RawNode *n : live) check_operator(*n, seen);
    return report("one node has an operator that is not supported", "nodes have operators that are not supported");
  }

  /// A conversion of an input or output of the network, as a node of its own.
  Status convert_type(ValueId v, Dtype to, ValueId &out) {
    graph_.sources.push_back({graph_[v].name, "Cast", {}});
    const RawNode none;
    OpContext context(graph_, none, opset_, static_cast<int>(graph_.sources.size()) - 1, {});
    NPU_TRY(context.emit(Op::Cast, {v}, CastAttrs{to, true}, out));
    graph_[out].name = graph_[v].name;
    return {};
  }

  void note_type(const char *what, const std::string &name, Dtype in_file, Dtype stored) {
    if (in_file != stored)
      graph_.notes.push_back(std::string(what) + " '" + name + "' is " + dtype_name(in_file) + " in the file, and " +
                             dtype_name(stored) + " in the .bmodel");
  }

  Status collect_shapes(ShapeBinder &binder) const {
    NPU_TRY(binder.check_names(model_));
    for (const RawValue &v : model_.inputs) NPU_TRY(binder.collect(v));
    return {};
  }

  Status add_inputs() {
    ShapeBinder binder(options_);
    NPU_TRY(collect_shapes(binder));
    if (const std::vector<OpenInput> open = binder.open_inputs(model_); !open.empty())
      return refuse(Obstacle::OpenShape,
                    open_inputs_text(open) + ": give them" + suggested_shapes(model_, options_, open));
    for (const RawValue &v : model_.inputs) NPU_TRY(add_input(binder, v));
    return add_constants(model_);
  }

  Status add_input(const ShapeBinder &binder, const RawValue &v) {
    if (options_.values.count(v.name)) return add_given(v);
    const Dtype stored = stored_type(v.dtype);
    if (dtype_bytes(stored) == 0)
      return refuse(Obstacle::Type, "input '" + v.name + "' is " + (v.is_tensor ? about_type(v.dtype) : "no tensor"));
    Value value;
    value.name = v.name;
    value.dtype = stored;
    NPU_TRY(binder.bind(v, value.shape));
    note_type("input", v.name, v.dtype, stored);
    ValueId id = graph_.add_value(std::move(value));
    graph_.inputs.push_back(id);
    if (types_) types_->set(id, v.dtype);
    if (working_type(v.dtype) != stored) NPU_TRY(convert_type(id, v.dtype, id));
    scopes_.front().values[v.name] = id;
    return {};
  }

  /// An input whose value the caller gives.
  Status add_given(const RawValue &v) {
    const TensorPtr given = options_.values.at(v.name);
    Shape shape;
    if (!fit_value(v, given->shape, shape))
      return refuse(Obstacle::Option, "input '" + v.name + "' is given a value of the shape " +
                                          shape_text(given->shape) + ", the model has " + dims_text(v));
    if (dtype_bytes(v.dtype) == 0) return refuse(Obstacle::Type, "input '" + v.name + "' is " + about_type(v.dtype));
    NPU_TRY(check_given(v, *given));
    TensorPtr tensor = given;
    if (working_type(v.dtype) == Dtype::F32) {
      tensor = working_tensor(given, "the value of input '" + v.name + "'", graph_);
    }
    auto converted = std::make_shared<Tensor>(working_type(v.dtype), shape);
    cpu::cast(*tensor, cpu::Overflow::Saturate, *converted);
    const ValueId id = scopes_.front().values[v.name] = graph_.add_constant(std::move(converted), v.name);
    if (types_) types_->set(id, v.dtype);
    return {};
  }

  /// Integers are given as such.
  static Status check_given(const RawValue &v, const Tensor &given) {
    if (!is_integer(v.dtype) || v.dtype == Dtype::Bool) return {};
    Tensor converted(v.dtype, given.shape);
    cpu::cast(given, cpu::Overflow::Saturate, converted);
    for (int64_t i = 0; i < given.count(); ++i)
      if (cpu::load(converted, i) != cpu::load(given, i))
        return refuse(Obstacle::Option, "input '" + v.name + "' is " + dtype_name(v.dtype) + ", and is given " +
                                            std::to_string(cpu::load(given, i)) + ", which that type does not have");
    return {};
  }

  Status add_constants(const RawGraph &graph) {
    for (const auto &[name, tensor] : graph.initializers) {
      const TensorPtr working = working_tensor(tensor, "initializer '" + printable(name) + "'", graph_);
      const ValueId id = scopes_.back().values[name] = graph_.add_constant(working, name);
      if (types_) types_->set(id, tensor->dtype);
    }
    return {};
  }

  /// A value by its name; kNoValue if there is none, and whether that is because its node has failed.
  ValueId find(const std::string &name, bool &failed) const {
    failed = false;
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
      const auto it = s->values.find(name);
      if (it != s->values.end()) return it->second;
      failed = failed || s->failed.count(name);
      if (failed || s->closed) break;
    }
    return kNoValue;
  }

  /// Operands of a node; false when one of them could not be converted.
  bool operands(const RawNode &n, std::vector<ValueId> &inputs, std::string &problem) const {
    for (const std::string &name : n.inputs) {
      bool failed = false;
      inputs.push_back(name.empty() ? kNoValue : find(name, failed));
      if (name.empty() || inputs.back() != kNoValue) continue;
      if (!failed) problem = "it reads '" + name + "', which nothing in front of it makes";
      return false;
    }
    return true;
  }

  /// Gives the results of a node their names; says where the file declares another shape.
  std::string keep_results(const RawNode &n, const std::vector<ValueId> &results) {
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k].empty() || results[k] == kNoValue) continue;
      Value &v = graph_[results[k]];
      const bool outermost = scopes_.size() == 1;
      const std::string difference = declared_ && outermost ? declared_->difference(n.outputs[k], v.shape) : "";
      if (!difference.empty()) return difference + about_declared(n);
      scopes_.back().values[n.outputs[k]] = results[k];
      if (v.name.empty()) v.name = n.outputs[k];
    }
    return {};
  }

  /// Operands of types that the graph has not become wider where the operator takes them, and are errors elsewhere:
  /// only there the type does not decide more than what the numbers are.
  Status widen(const RawNode &n, std::vector<ValueId> &inputs, bool &floats) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k] == kNoValue || dtype_bytes(graph_[inputs[k]].dtype)) continue;
      const Dtype type = graph_[inputs[k]].dtype;
      const bool taken = n.type == "DequantizeLinear" || (k == 0 && (n.type == "Cast" || n.type == "CastLike"));
      if (!taken || narrow_bits(type) == 0)
        return refuse(Obstacle::Type, "it reads '" + n.inputs[k] + "', which is " + about_type(type));
      floats = floats || widened_type(type) == Dtype::F32;
      const auto [known, fresh] = widened_.emplace(inputs[k], kNoValue);
      if (fresh) known->second = graph_.add_constant(widened(*graph_[inputs[k]].constant), n.inputs[k]);
      inputs[k] = known->second;
    }
    return {};
  }

  /// Marks what the nodes of an operator, those from `first` on, pass to each other. What only moves into a result is
  /// one itself. Bodies have sources of their own.
  void mark_inner(size_t first, int source, const std::vector<ValueId> &results) {
    std::set<ValueId> outer(results.begin(), results.end());
    for (size_t i = graph_.nodes.size(); i-- > first;) {
      const Node &n = graph_.nodes[i];
      if (n.source != source) continue;
      if (outer.count(n.output) && moves(n)) outer.insert(n.inputs.begin(), n.inputs.end());
      graph_[n.output].inner = !outer.count(n.output) && !moves(n);
    }
  }

  Status convert_one(const RawNode &n, int source, std::vector<ValueId> inputs, std::vector<ValueId> &results) {
    if (graph_.sources.size() > kMaxNodes)
      return refuse(Obstacle::Size, "the network has more than " + std::to_string(kMaxNodes) +
                                        " nodes, with those of bodies and functions");
    if (has_references(n) && calls_.empty())
      return Status::error("an attribute refers to one of a function, and it is in none");
    if (has_references(n)) {
      std::string missing;
      const Status status = convert_one(with_arguments(n, missing), source, std::move(inputs), results);
      if (status.ok() || missing.empty()) return status;
      const Obstacle obstacle = obstacle_of(status);
      return refuse(obstacle == Obstacle::Other ? Obstacle::Function : obstacle, status.message() + missing);
    }
    if (const RawFunction *f = find_function(n)) return call(*f, n, inputs, results);
    const OpHandler handler = find_op(n.domain, n.type);
    if (!handler && !is_plugin_operator(n)) return refuse(Obstacle::Operator, kNotSupported + plugin_advice(n));
    for (const auto &[name, attribute] : n.attributes) {
      const std::string wrong =
          n.domain == kMicrosoft ? wrong_microsoft_attribute(n.type, name) : wrong_attribute_name(n.type, opset_, name);
      if (!wrong.empty()) return refuse(Obstacle::Attribute, "attribute '" + printable(name) + "' " + wrong);
    }
    bool narrow_floats = false;
    NPU_TRY(widen(n, inputs, narrow_floats));
    OpContext context(graph_, n, opset_, source, std::move(inputs), this, perhaps_);
    context.narrow_floats = narrow_floats;
    const size_t first = graph_.nodes.size();
    NPU_TRY(handler ? handler(context) : plugin_operator(context));
    if (!context.wrong_attribute().empty()) return refuse(Obstacle::Attribute, context.wrong_attribute());
    if (types_) NPU_TRY(types_->follow(context, first, scopes_.size() == 1));
    results = std::move(context.results);
    mark_inner(first, source, results);
    return {};
  }

  void convert(const RawNode &n) {
    Source source;
    source.type = n.type;
    source.name = path_of(!n.name.empty() ? n.name : !n.outputs.empty() ? n.outputs[0] : n.type);
    graph_.sources.push_back(std::move(source));
    const size_t source_index = graph_.sources.size() - 1, nodes_before = graph_.nodes.size();
    const size_t problems_before = problem_count();
    std::vector<ValueId> inputs, results(n.outputs.size(), kNoValue);
    std::string problem;
    Obstacle obstacle = Obstacle::Other;
    const bool ready = operands(n, inputs, problem);
    if (ready) {
      const Status status = convert_one(n, static_cast<int>(source_index), std::move(inputs), results);
      problem = status.ok() ? keep_results(n, results) : status.message();
      obstacle = status.ok() ? Obstacle::DeclaredShape : obstacle_of(status);
      for (ValueId v : results)
        if (problem.empty() && v != kNoValue) graph_.sources[source_index].outputs.push_back(graph_[v]);
      if (problem.empty() && graph_.nodes.size() == nodes_before) {
        const bool constant = !results.empty() && results[0] != kNoValue && graph_.is_constant(results[0]);
        graph_.sources[source_index].fate = constant ? "folded" : "nothing to do";
      } else if (problem.empty() &&
                 std::none_of(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(nodes_before), graph_.nodes.end(),
                              [&](const Node &made) { return made.source == static_cast<int>(source_index); })) {
        graph_.sources[source_index].fate = kInItsNodes;  // a call, or a body
      }
    }
    // A node whose body has failed says nothing of its own.
    if (!problem.empty() && problem_count() == problems_before) add_problem(n, problem, obstacle);
    if (!ready || !problem.empty()) scopes_.back().failed.insert(n.outputs.begin(), n.outputs.end());
  }

  /// The nodes of a body or function. Behind one that has failed there is nothing to learn, and loops make many.
  void convert_while_right(const std::vector<const RawNode *> &nodes) {
    const size_t before = problem_count();
    for (size_t i = 0; i < nodes.size() && problem_count() == before; ++i) convert(*nodes[i]);
  }

  /// Opens a scope in which a body is converted.
  Status enter(bool closed) {
    if (scopes_.size() >= kMaxDepth)
      return refuse(Obstacle::Size,
                    "bodies or functions lie in each other more than " + std::to_string(kMaxDepth) + " deep");
    scopes_.emplace_back().closed = closed;
    return {};
  }

  Status leave(const std::vector<std::string> &names, std::vector<ValueId> &outputs) {
    outputs.clear();
    Status status;
    for (const std::string &name : names) {
      bool failed;
      outputs.push_back(name.empty() ? kNoValue : find(name, failed));
      if (!name.empty() && outputs.back() == kNoValue && status.ok())
        status = Status::error("nothing in its body makes '" + name + "'");
    }
    scopes_.pop_back();
    return status;
  }

  Status convert_body(const RawGraph &body, const std::vector<ValueId> &inputs, bool perhaps,
                      std::vector<ValueId> &outputs) override {
    if (inputs.size() != body.inputs.size())
      return Status::error("its body has " + std::to_string(body.inputs.size()) + " inputs, expected " +
                           std::to_string(inputs.size()));
    NPU_TRY(enter(false));
    for (size_t i = 0; i < inputs.size(); ++i) scopes_.back().values[body.inputs[i].name] = inputs[i];
    NPU_TRY(add_constants(body));
    std::vector<const RawNode *> live;
    const Status sorted = live_nodes(body, live);
    const bool outside = perhaps_;
    perhaps_ = perhaps_ || perhaps;
    convert_while_right(live);
    perhaps_ = outside;
    if (!sorted.ok()) return scopes_.pop_back(), sorted;
    std::vector<std::string> names;
    for (const RawValue &o : body.outputs) names.push_back(o.name);
    return leave(names, outputs);
  }

  Status convert_chosen(const RawGraph &body, const std::string &condition, bool branch,
                        std::vector<ValueId> &outputs) override {
    const size_t before = findings_.list.size();
    const Status status = convert_body(body, {}, false, outputs);
    if (findings_.list.size() == before) return status;
    const std::string hint = other_choice(condition, !branch);
    if (hint.empty()) return status;
    for (size_t i = before; i < findings_.list.size(); ++i)  // an If inside may have said the same
      if (std::string &help = findings_.list[i].help; !help.starts_with(hint)) help = hint + "; otherwise " + help;
    return status;
  }

  /// The hint for a condition that is known from values that are given for inputs: without them it is converted again,
  /// by itself. Empty: it does not follow from one of them alone, or is a value of a body or a function.
  std::string other_choice(const std::string &condition, bool branch) const {
    if (options_.values.empty() || !scopes_.front().values.count(condition)) return {};
    if (std::ranges::any_of(scopes_.begin() + 1, scopes_.end(),
                            [&](const Scope &s) { return s.values.count(condition); }))
      return {};
    RawModel part = model_;
    std::erase_if(part.inputs, [&](const RawValue &v) { return !options_.values.count(v.name); });
    part.outputs.assign(1, RawValue{});
    part.outputs[0].name = condition;
    ImportOptions none;
    for (const RawValue &v : part.inputs) none.shapes[v.name] = options_.values.at(v.name)->shape;
    for (RawValue &v : part.inputs)
      if (std::ranges::all_of(v.dims, [](const RawDim &d) { return d.value >= 0; })) none.shapes.erase(v.name);
    Graph scratch;
    Findings ignored;
    if (!Importer(part, none, nullptr, scratch, ignored).run().ok() || scratch.outputs.empty()) return {};
    return condition_hint(scratch, scratch.outputs[0], branch);
  }

  Status try_branch(const RawGraph &body, std::vector<ValueId> &outputs) override {
    std::vector<Finding> before;
    before.swap(findings_.list);
    const size_t nodes = graph_.nodes.size(), sources = graph_.sources.size(), notes = graph_.notes.size(),
                 warnings = graph_.warnings.size();
    Status status = convert_body(body, {}, true, outputs);
    if (!findings_.empty()) {
      const Finding &f = findings_.list.front();
      status = refuse(f.obstacle, f.op + " '" + f.nodes.front() + "': " + f.what);
    }
    before.swap(findings_.list);
    if (status.ok()) return {};
    graph_.nodes.resize(nodes);
    graph_.sources.resize(sources);
    graph_.notes.resize(notes);
    graph_.warnings.resize(warnings);
    return status;
  }

  bool may_fail_later() const override { return options_.failing_branches && !perhaps_; }

  static bool has_references(const RawNode &n) {
    return std::any_of(n.attributes.begin(), n.attributes.end(),
                       [](const auto &a) { return !a.second.reference.empty(); });
  }

  /// The same node, also in a body in the function, where attributes that refer to the call's have its values. What the
  /// call leaves out, and the function has no value for, is left out; `missing` says so.
  RawNode with_arguments(RawNode n, std::string &missing) const {
    for (auto it = n.attributes.begin(); it != n.attributes.end();) {
      const std::string name = it->second.reference;
      const auto value = arguments_.find(name);
      if (!name.empty() && value == arguments_.end()) {
        missing += "; its attribute '" + printable(it->first) + "' is attribute '" + printable(name) +
                   "' of the function, which the call '" + node_name(*callers_.back()) + "' does not give";
        it = n.attributes.erase(it);
        continue;
      }
      if (!name.empty()) it->second = value->second;
      it->second.reference.clear();
      ++it;
    }
    return n;
  }

  /// What a call gives, and the function's own values for the rest.
  static Status read_arguments(const RawFunction &f, const RawNode &n, Arguments &out) {
    out = f.defaults;
    std::string names;
    for (const std::string &name : f.attributes) names += (names.empty() ? "" : ", ") + name;
    for (const auto &[name, value] : f.defaults) names += (names.empty() ? "" : ", ") + name;
    for (const auto &[name, value] : n.attributes) {
      const bool known = f.defaults.count(name) || name.starts_with('_') || name == "doc_string" ||
                         std::find(f.attributes.begin(), f.attributes.end(), name) != f.attributes.end();
      if (!known)
        return refuse(Obstacle::Attribute, "attribute '" + printable(name) +
                                               "' is not one of the function; its attributes are: " +
                                               (names.empty() ? "none" : printable(names)));
      out[name] = value;
    }
    return {};
  }

  /// Converts the nodes of a function in place of a call.
  Status call(const RawFunction &f, const RawNode &n, const std::vector<ValueId> &inputs,
              std::vector<ValueId> &results) {
    if (n.inputs.size() > f.inputs.size() || n.outputs.size() > f.outputs.size())
      return Status::error("the function has " + std::to_string(f.inputs.size()) + " inputs and " +
                           std::to_string(f.outputs.size()) + " outputs, the call " + std::to_string(n.inputs.size()) +
                           " and " + std::to_string(n.outputs.size()));
    NPU_TRY(check_opset(f.opset ? f.opset : opset_));
    if (calls_.count(&f)) return refuse(Obstacle::Function, "the function calls itself");
    Arguments given;
    NPU_TRY(read_arguments(f, n, given));
    NPU_TRY(enter(true));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != kNoValue) scopes_.back().values[f.inputs[i]] = inputs[i];
    const int64_t opset = opset_;
    opset_ = f.opset ? f.opset : opset_;
    std::vector<RawNode> nodes = f.nodes;
    std::vector<const RawNode *> pointers;
    for (RawNode &inner : nodes) {
      for (std::string &name : inner.inputs) name = is_missing(name, f) ? "" : name;
      pointers.push_back(&inner);
    }
    calls_.insert(&f);
    callers_.push_back(&n);
    arguments_.swap(given);
    convert_while_right(pointers);
    arguments_.swap(given);
    callers_.pop_back();
    calls_.erase(&f);
    opset_ = opset;
    return leave({f.outputs.begin(), f.outputs.begin() + static_cast<std::ptrdiff_t>(n.outputs.size())}, results);
  }

  /// Whether a call leaves out that input of the function.
  bool is_missing(const std::string &name, const RawFunction &f) const {
    return std::find(f.inputs.begin(), f.inputs.end(), name) != f.inputs.end() && !scopes_.back().values.count(name);
  }

  Status add_outputs() {
    for (const RawValue &o : model_.outputs) {
      const auto it = scopes_.front().values.find(o.name);
      if (it == scopes_.front().values.end())
        return refuse(Obstacle::File, "nothing makes the output '" + o.name + "'");
      ValueId v = it->second;
      const Dtype type = graph_[v].dtype, stored = stored_type(type);
      if (dtype_bytes(stored) == 0) return refuse(Obstacle::Type, "output '" + o.name + "' is " + about_type(type));
      const std::string difference = declared_ ? declared_->difference(o.name, graph_[v].shape) : "";
      if (!difference.empty()) return refuse(Obstacle::DeclaredShape, "output " + difference);
      if (element_count(graph_[v].shape) == 0)
        return Status::error("output '" + o.name + "' of shape " + shape_text(graph_[v].shape) + " is empty");
      note_type("output", o.name, working_type(o.dtype) == type ? o.dtype : type, stored);
      if (stored != type) NPU_TRY(convert_type(v, stored, v));
      graph_.outputs.push_back(v);
      graph_.output_names.push_back(o.name);
    }
    return {};
  }

  const RawModel &model_;
  const ImportOptions &options_;
  DeclaredShapes *const declared_;
  Graph &graph_;
  int64_t opset_;
  // By domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>, const RawFunction *> functions_;
  std::set<const RawFunction *> calls_;   // functions that are being expanded
  std::vector<const RawNode *> callers_;  // the nodes that call them, the outermost first
  Arguments arguments_;                   // attributes of the innermost call
  std::map<ValueId, ValueId> widened_;    // constants as operators have read them
  std::optional<TypeFollower> types_;
  bool perhaps_ = false;  // inside of a body that may not count
  std::vector<Scope> scopes_{1};
  Findings &findings_;
  std::set<std::string> read_outside_;  // by nodes that cannot be converted
};

}  // namespace

namespace {

DeclaredShapes declared_shapes(const RawModel &model, const ImportOptions &options) {
  return DeclaredShapes(model, options, [&model](const ImportOptions &other) {
    Graph scratch;
    Findings ignored;
    Importer importer(model, other, nullptr, scratch, ignored);
    // Where it fails, the shapes behind that are missing, and are taken for such that follow from the given ones.
    (void)importer.run();
    return importer.shapes();
  });
}

}  // namespace

Status import_model(const RawModel &model, const ImportOptions &options, Graph &graph, Findings *findings) {
  Findings own;
  Findings &found = findings ? *findings : own;
  found = {};
  DeclaredShapes declared = declared_shapes(model, options);
  NPU_TRY(Importer(model, options, &declared, graph, found).run());
  remove_dead(graph);
  return {};
}

bool fit_value(const RawValue &v, const Shape &given, Shape &out) {
  out = given;
  if (!v.has_shape) return true;
  const auto fits = [&] {
    bool same = v.dims.size() == out.size();
    for (size_t i = 0; same && i < out.size(); ++i) same = v.dims[i].value < 0 || v.dims[i].value == out[i];
    return same;
  };
  if (fits()) return true;
  Shape long_ones;
  for (int64_t d : given)
    if (d != 1) long_ones.push_back(d);
  size_t fixed = 0, open = 0;
  for (const RawDim &d : v.dims) d.value < 0 ? ++open : fixed += d.value != 1;
  if (long_ones.size() != fixed && long_ones.size() != fixed + open) return false;
  const bool takes_open = long_ones.size() > fixed;
  out.clear();
  size_t next = 0;
  for (const RawDim &d : v.dims) out.push_back((d.value < 0 && takes_open) || d.value > 1 ? long_ones[next++] : 1);
  return fits();
}

Status import_with_types(const RawModel &model, const ImportOptions &options, Graph &graph, FileTypes &types) {
  Findings ignored;
  DeclaredShapes declared = declared_shapes(model, options);
  Importer importer(model, options, &declared, graph, ignored);
  importer.follow_types(types);
  NPU_TRY(importer.run());
  remove_dead(graph);
  return {};
}

Status explain_model(const RawModel &model, const ImportOptions &options, Graph &graph,
                     std::vector<NodeVerdict> &verdicts) {
  DeclaredShapes declared = declared_shapes(model, options);
  Findings findings;
  verdicts.clear();
  return Importer(model, options, &declared, graph, findings).explain(verdicts);
}

}  // namespace npu::graph
