// SPDX-License-Identifier: MIT
#include "compiler/graph/print.h"

#include <cstdio>
#include <map>

#include "runtime/cpu/element.h"
#include "runtime/cpu/fields.h"
#include "runtime/cpu/names.h"

namespace npu::graph {
namespace {

constexpr int64_t kShownElements = 8;

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

template <class T>
requires requires(T v) { cpu::name_of(v); }
std::string field_text(T v) { return cpu::name_of(v); }
std::string field_text(Dtype v) { return cpu::dtype_name(v); }
std::string field_text(const std::string &v) { return v; }
std::string field_text(const TensorKind &v) { return kind_text(v); }
/// "scale@zero"
std::string field_text(const cpu::Quant &v) {
  return number_text(static_cast<double>(v.scale)) + "@" + std::to_string(v.zero);
}
std::string field_text(bool v) { return v ? "true" : "false"; }
template <class T>
requires std::is_integral_v<T> std::string field_text(T v) { return std::to_string(v); }
template <class T>
requires std::is_floating_point_v<T> std::string field_text(T v) { return number_text(static_cast<double>(v)); }
std::string field_text(const cpu::PluginAttribute &v);
template <class List>
requires requires(const List &list) { list.size(); }
std::string field_text(const List &list) {
  std::string text;
  for (const auto &v : list) text += (text.empty() ? "" : ", ") + field_text(v);
  return "[" + text + "]";
}

std::string field_text(const cpu::PluginAttribute &v) {
  switch (v.kind) {
    case cpu::PluginValue::Ints:
      return v.name + "=" + field_text(v.ints);
    case cpu::PluginValue::Floats:
      return v.name + "=" + field_text(v.floats);
    case cpu::PluginValue::Strings:
      return v.name + "=" + field_text(v.strings);
    case cpu::PluginValue::Tensor:
      break;
  }
  return v.name + "=" + kind_text(v.tensor);
}

/// " name=value" for each field that is not at its default; those of inner structs with their own names.
template <class A>
std::string fields_text(const A &attrs) {
  std::vector<std::string> defaults;
  const A fresh{};
  const auto collect = [](const A &a, const auto &each) {
    cpu::for_each_field(a, [&](const char *name, const auto &field) {
      if constexpr (requires { field_text(field); })
        each(std::string(" ") + name + "=" + field_text(field));
      else
        each(fields_text(field));
    });
  };
  collect(fresh, [&](std::string text) { defaults.push_back(std::move(text)); });
  std::string out;
  size_t at = 0;
  collect(attrs, [&](const std::string &text) {
    if (text != defaults[at++]) out += text;
  });
  return out;
}

std::string attrs_text(const Attrs &attrs) {
  return std::visit([](const auto &a) { return fields_text(a); }, attrs);
}

class Names {
 public:
  explicit Names(const Graph &g) : graph_(g) {
    for (const Value &v : g.values) ++count_[v.name];
  }
  std::string operator()(ValueId v) const {
    if (v == kNoValue) return "-";
    const std::string &name = graph_[v].name;
    return name.empty() || count_.at(name) > 1 ? name + "#" + std::to_string(static_cast<int>(v)) : name;
  }

 private:
  const Graph &graph_;
  std::map<std::string, int> count_;
};

/// Type and shape, and what integers of 8 bits stand for: "int8 [1, 4] {-128 to 127, 1@0}".
std::string value_text(const Value &v, bool ranges) {
  std::string text = kind_text(v);
  if (!ranges || v.quant.scale == 0 || !is_byte(v.dtype)) return text;
  const int32_t least = v.dtype == Dtype::I8 ? -128 : 0;
  const auto number = [&](int32_t q) { return number_text(static_cast<double>(q - v.quant.zero) * v.quant.scale); };
  return text + " {" + number(least) + " to " + number(least + 255) + ", " + field_text(v.quant) + "}";
}

std::string constant_text(const Tensor &t) {
  if (t.count() > kShownElements) return "...";
  std::string text;
  for (int64_t i = 0; i < t.count(); ++i) text += (i ? ", " : "") + number_text(cpu::load(t, i));
  return text;
}

std::string operands_text(const Node &n, const Names &name) {
  std::string text;
  for (ValueId v : n.inputs) text += (text.empty() ? "" : ", ") + name(v);
  return text;
}

/// For a string in double quotes.
std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? '?' : c;
  }
  return out;
}

}  // namespace

std::string to_text(const Graph &g, bool ranges) {
  const Names name(g);
  const std::vector<int> uses = g.use_counts();
  std::string out;
  for (ValueId v : g.inputs) out += "input " + name(v) + ": " + value_text(g[v], ranges) + "\n";
  for (size_t i = 0; i < g.values.size(); ++i) {
    const auto v = static_cast<ValueId>(i);
    if (g.is_constant(v) && uses[i])
      out += "constant " + name(v) + ": " + kind_text(g[v]) + " = " + constant_text(*g[v].constant) + "\n";
  }
  for (const Node &n : g.nodes)
    out += name(n.output) + ": " + value_text(g[n.output], ranges) + " = " + op_name(n.op) + "(" +
           operands_text(n, name) + ")" + attrs_text(n.attrs) + "\n";
  for (size_t k = 0; k < g.outputs.size(); ++k)
    out += "output " + g.output_names[k] + " = " + name(g.outputs[k]) + "\n";
  return out;
}

std::string to_dot(const Graph &g, bool ranges) {
  const Names name(g);
  const std::vector<int> made = g.producers();
  const auto source = [&](ValueId v) {
    const int node = made[static_cast<size_t>(v)];
    return node >= 0 ? "n" + std::to_string(node) : "v" + std::to_string(static_cast<int>(v));
  };
  const auto edge = [&](ValueId v, const std::string &to) {
    return "  " + source(v) + " -> " + to + " [label=\"" + escaped(value_text(g[v], ranges)) + "\"];\n";
  };
  std::string out = "digraph \"" + escaped(g.name) + "\" {\n  node [shape=box];\n";
  for (ValueId v : g.inputs) out += "  " + source(v) + " [shape=ellipse, label=\"" + escaped(name(v)) + "\"];\n";
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node &n = g.nodes[i];
    const std::string self = "n" + std::to_string(i);
    out += "  " + self + " [label=\"" + op_name(n.op) + escaped(attrs_text(n.attrs)) + "\\n" +
           escaped(g.sources[static_cast<size_t>(n.source)].name) + "\"];\n";
    for (ValueId v : n.inputs)
      if (v != kNoValue && !g.is_constant(v)) out += edge(v, self);
  }
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const std::string self = "o" + std::to_string(k);
    out += "  " + self + " [shape=ellipse, label=\"" + escaped(g.output_names[k]) + "\"];\n";
    if (g.is_constant(g.outputs[k])) out += "  " + source(g.outputs[k]) + " [label=\"constant\"];\n";
    out += edge(g.outputs[k], self);
  }
  return out + "}\n";
}

}  // namespace npu::graph
