// SPDX-License-Identifier: MIT
#include "compiler/passes/io_types.h"

#include <algorithm>
#include <cstdio>

#include "compiler/graph/moves.h"
#include "compiler/passes/integers.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// Integers of 8 bits and what they stand for.
struct Bytes {
  Dtype type = Dtype::Undefined;
  Quant quant;
  bool operator==(const Bytes &) const = default;
};

/// The same numbers in the other type of 8 bits.
Bytes in_type(const Bytes &bytes, Dtype type) {
  if (bytes.type == type) return bytes;
  const int32_t shift = type == Dtype::I8 ? -128 : 128;
  return {type, {bytes.quant.scale, bytes.quant.zero + shift}};
}

std::string quant_text(const Quant &q) {
  char text[64];
  std::snprintf(text, sizeof text, "scale %.9g, zero point %d", static_cast<double>(q.scale), q.zero);
  return text;
}

class TypeSetter {
 public:
  explicit TypeSetter(Graph &graph) : graph_(graph) {}

  Status set(const IoTypes &types) {
    std::vector<std::string> inputs;
    for (ValueId v : graph_.inputs) inputs.push_back(graph_[v].name);
    const std::vector<std::string> outputs = graph_.output_names;
    NPU_TRY(set_side("input", types.inputs, inputs, graph_.inputs, &TypeSetter::set_input));
    NPU_TRY(set_side("output", types.outputs, outputs, graph_.outputs, &TypeSetter::set_output));
    remove_dead(graph_);
    return {};
  }

 private:
  // ---- which tensors

  /// The type that a tensor is to have; Undefined: the one that it has.
  Dtype wanted(const IoTypes::Side &side, const std::string &name, ValueId v) const {
    const auto named = side.named.find(name);
    if (named != side.named.end()) return named->second;
    return graph_[v].dtype == Dtype::F32 || known_bytes(v).type != Dtype::Undefined ? side.all : Dtype::Undefined;
  }

  static Status check_names(const char *what, const IoTypes::Side &side, const std::vector<std::string> &names) {
    std::string known;
    for (const std::string &name : names) known += (known.empty() ? "'" : ", '") + name + "'";
    for (const auto &[name, type] : side.named)
      if (std::find(names.begin(), names.end(), name) == names.end())
        return Status::error(std::string("type of ") + what + " '" + name + "': the network has no such " + what +
                             "; it has " + known);
    return {};
  }

  /// `values` are the graph's inputs or outputs, which `set_one` changes.
  Status set_side(const char *what, const IoTypes::Side &side, const std::vector<std::string> &names,
                  const std::vector<ValueId> &values, Status (TypeSetter::*set_one)(size_t, Dtype)) {
    NPU_TRY(check_names(what, side, names));
    for (size_t i = 0; i < names.size(); ++i) {
      const Dtype type = wanted(side, names[i], values[i]), before = graph_[values[i]].dtype;
      if (type == Dtype::Undefined || type == before) continue;
      NPU_TRY((this->*set_one)(i, type).within(std::string(what) + " '" + names[i] + "' as " + dtype_name(type)));
      add_note(what, names[i], before, values[i]);
    }
    return {};
  }

  void add_note(const char *what, const std::string &name, Dtype before, ValueId now) {
    std::string note =
        std::string(what) + " '" + name + "' is " + dtype_name(graph_[now].dtype) + " instead of " + dtype_name(before);
    if (is_byte(graph_[now].dtype)) note += ", " + quant_text(graph_[now].quant);
    graph_.notes.push_back(std::move(note));
  }

  /// What an input or output of 8 bits stands for; Undefined: it is none, or that is not known.
  Bytes known_bytes(ValueId v) const {
    const Value &value = graph_[v];
    return is_byte(value.dtype) && value.quant.scale != 0 ? Bytes{value.dtype, value.quant} : Bytes{};
  }

  /// The reason why a tensor that is not float32, and has no scale, stays as it is.
  Status no_scale(ValueId v) const {
    return Status::error(std::string("it is ") + dtype_name(graph_[v].dtype) + " without a scale");
  }

  // ---- nodes

  int source_of(const std::string &tensor, const char *type) {
    graph_.sources.push_back({tensor, type, {}});
    return static_cast<int>(graph_.sources.size() - 1);
  }

  static Node node(Op op, int source, ValueId x, Attrs attrs, ValueId output = kNoValue) {
    return {op, source, {x}, output, std::move(attrs)};
  }

  ValueId result_of(const Node &n) {
    Value result;
    (void)infer(graph_, n, result);  // passes for all that is made here
    return graph_.add_value(std::move(result));
  }

  void prepend(std::vector<Node> nodes) {
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(nodes.begin()),
                        std::make_move_iterator(nodes.end()));
  }

  ValueId append(Node n) {
    if (n.output == kNoValue) n.output = result_of(n);
    graph_.nodes.push_back(n);
    return n.output;
  }

  void replace(ValueId old, ValueId now) {
    for (Node &n : graph_.nodes) std::replace(n.inputs.begin(), n.inputs.end(), old, now);
    std::replace(graph_.outputs.begin(), graph_.outputs.end(), old, now);
  }

  // ---- inputs

  Status set_input(size_t i, Dtype type) {
    const ValueId v = graph_.inputs[i];
    const Bytes known = known_bytes(v);
    if (graph_[v].dtype == Dtype::F32 && is_byte(type)) {
      Bytes made;
      NPU_TRY(quantized_as(v, made));
      to_bytes(i, in_type(made, type));
      return {};
    }
    if (graph_[v].dtype != Dtype::F32 && known.type == Dtype::Undefined) return no_scale(v);
    if (is_byte(type))
      convert_input(i, type, in_type(known, type).quant, known);
    else
      convert_input(i, type, {}, known);
    return {};
  }

  /// The integers that all nodes which quantize an input, perhaps behind moves, make of it.
  Status quantized_as(ValueId input, Bytes &out) const {
    std::string reader;
    NPU_TRY(visit_readers(input, out, reader));
    if (out.type != Dtype::Undefined) return {};
    return Status::error("it has no scale: " +
                         (reader.empty() ? "nothing quantizes it" : reader + " reads it in float32"));
  }

  Status visit_readers(ValueId v, Bytes &found, std::string &in_float) const {
    for (const Node &n : graph_.nodes) {
      if (std::find(n.inputs.begin(), n.inputs.end(), v) == n.inputs.end()) continue;
      if (rearranges(n)) {
        NPU_TRY(visit_readers(n.output, found, in_float));
      } else if (!quantizes(n)) {
        if (in_float.empty()) in_float = name_of(n);
      } else {
        const auto &attrs = std::get<RequantAttrs>(n.attrs);
        if (!is_byte(attrs.to)) return Status::error(name_of(n) + " makes " + dtype_name(attrs.to) + " of it");
        const Bytes made{attrs.to, attrs.out};
        if (found.type != Dtype::Undefined && !(found == made))
          return Status::error("it is quantized in two ways: with " + quant_text(found.quant) + " and with " +
                               quant_text(made.quant) + " by " + name_of(n));
        found = made;
      }
    }
    return {};
  }

  std::string name_of(const Node &n) const {
    const Source &source = graph_.sources[static_cast<size_t>(n.source)];
    return source.type + " '" + source.name + "'";
  }

  /// An input of float32 becomes the integers that its readers make of it. Who reads the numbers themselves gets those
  /// that the integers stand for.
  void to_bytes(size_t i, const Bytes &bytes) {
    const ValueId old = graph_.inputs[i];
    Value value = graph_[old];
    value.dtype = bytes.type;
    value.quant = bytes.quant;
    graph_[old].name.clear();
    const ValueId now = graph_.inputs[i] = graph_.add_value(std::move(value));
    quantize_readers(old, now, bytes);
    remove_dead(graph_);
    if (graph_.use_counts()[static_cast<size_t>(old)] == 0) return;
    const int source = source_of(graph_[now].name, "InputType");
    prepend({node(Op::Requant, source, now, RequantAttrs{bytes.quant, {}, {}, Dtype::F32}, old)});
  }

  /// Nodes that quantize `floats`, also behind moves, work on `integers` now.
  void quantize_readers(ValueId floats, ValueId integers, const Bytes &bytes) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node n = graph_.nodes[i];
      if (std::find(n.inputs.begin(), n.inputs.end(), floats) == n.inputs.end()) continue;
      if (quantizes(n)) {
        quantize_reader(i, integers, bytes);
      } else if (rearranges(n)) {
        Node moved = n;
        moved.inputs[0] = integers;
        moved.output = result_of(moved);
        graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(i++), moved);
        quantize_readers(n.output, moved.output, bytes);
      }
    }
  }

  void quantize_reader(size_t i, ValueId integers, const Bytes &bytes) {
    Node &n = graph_.nodes[i];
    auto &attrs = std::get<RequantAttrs>(n.attrs);
    n.inputs[0] = integers;
    attrs.in = bytes.quant;
    if (attrs.to != bytes.type) return;  // the other type of 8 bits
    replace(n.output, integers);
    n.output = result_of(n);  // nobody reads it
    graph_.sources[static_cast<size_t>(n.source)].fate = "nothing to do";
  }

  /// In front of an input of float32 or of known integers stands a conversion from another type.
  void convert_input(size_t i, Dtype type, const Quant &quant, const Bytes &known) {
    const ValueId old = graph_.inputs[i];
    Value value = graph_[old];
    value.dtype = type;
    value.quant = quant;
    graph_[old].name.clear();
    ValueId now = graph_.inputs[i] = graph_.add_value(std::move(value));
    const int source = source_of(graph_[now].name, "InputType");
    std::vector<Node> nodes;
    if (type == Dtype::F16 || type == Dtype::BF16) {
      nodes.push_back(node(Op::Cast, source, now, CastAttrs{Dtype::F32}));
      now = nodes.back().output = known.type == Dtype::Undefined ? old : result_of(nodes.back());
    }
    if (known.type != Dtype::Undefined)
      nodes.push_back(node(Op::Requant, source, now, RequantAttrs{quant, known.quant, {}, known.type}, old));
    prepend(std::move(nodes));
  }

  // ---- outputs

  Status set_output(size_t k, Dtype type) {
    const ValueId old = graph_.outputs[k];
    ValueId v = old;
    Bytes known = known_bytes(v);
    if (graph_[v].dtype != Dtype::F32 && known.type == Dtype::Undefined) return no_scale(v);
    if (is_byte(type) && known.type == Dtype::Undefined) NPU_TRY(find_bytes(v, v, known));
    const Bytes made = is_byte(type) ? in_type(known, type) : Bytes{Dtype::F32, {}};
    if (known.type != Dtype::Undefined && !(made == known))
      v = append(node(Op::Requant, output_source(k), v, RequantAttrs{known.quant, made.quant, {}, made.type}));
    if (type == Dtype::F16 || type == Dtype::BF16) v = append(node(Op::Cast, output_source(k), v, CastAttrs{type}));
    graph_[v].quant = made.quant;
    if (graph_[v].name.empty()) {
      const bool is_input = std::ranges::count(graph_.inputs, old) > 0;
      graph_[v].name = is_input ? graph_.output_names[k] : std::exchange(graph_[old].name, {});
    }
    graph_.outputs[k] = v;
    return {};
  }

  int output_source(size_t k) { return source_of(graph_.output_names[k], "OutputType"); }

  /// The integers that a value of float32 is made of, perhaps by moves: those work on the integers then.
  Status find_bytes(ValueId v, ValueId &integers, Bytes &bytes) {
    const int made = graph_.producers()[static_cast<size_t>(v)];
    if (made < 0) return Status::error("it has no scale: it is an input or a constant of float32");
    const Node n = graph_.nodes[static_cast<size_t>(made)];
    if (rearranges(n)) {
      NPU_TRY(find_bytes(n.inputs[0], integers, bytes));
      Node moved = n;
      moved.inputs[0] = integers;
      moved.output = kNoValue;
      integers = append(std::move(moved));
      return {};
    }
    if (!dequantizes(n)) return Status::error("it has no scale: " + name_of(n) + " makes it in float32");
    integers = n.inputs[0];
    bytes = {graph_[integers].dtype, std::get<RequantAttrs>(n.attrs).in};
    return is_byte(bytes.type) ? Status() : Status::error(std::string("its integers are ") + dtype_name(bytes.type));
  }

  Graph &graph_;
};

}  // namespace

bool is_io_type(Dtype type) { return is_byte(type) || type == Dtype::F32 || type == Dtype::F16 || type == Dtype::BF16; }

Status set_io_types(Graph &graph, const IoTypes &types) { return TypeSetter(graph).set(types); }

}  // namespace npu::graph
