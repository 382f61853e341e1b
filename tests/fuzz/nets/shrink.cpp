// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/shrink.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

namespace npu::fuzz {
namespace {

/// Numbers of a constant that are worth reading.
constexpr int kShown = 8;

class Shrinker {
 public:
  Shrinker(const Plan &plan, const std::function<bool(const Plan &)> &fails, int trials)
      : best_(plan), fails_(fails), trials_(trials) {
    // First to numbers that say what they choose: half of such a number means something.
    Plan smallest;
    make_network(best_, &smallest);
    try_plan(smallest);
  }

  Plan run() {
    for (bool smaller = true; smaller && trials_ > 0;) {
      smaller = false;
      smaller |= leave_out_nodes();
      smaller |= lessen([](Plan &p) -> std::vector<uint32_t> & { return p.head; });
      for (size_t i = 0; i < best_.nodes.size(); ++i)
        smaller |= lessen([i](Plan &p) -> std::vector<uint32_t> & { return p.nodes[i]; });
    }
    return best_;
  }

 private:
  bool try_plan(const Plan &plan) {
    if (trials_-- <= 0 || !fails_(plan)) return false;
    best_ = plan;
    return true;
  }

  bool leave_out_nodes() {
    bool any = false;
    for (size_t size = std::max<size_t>(best_.nodes.size() / 2, 1); size > 0; size /= 2)
      for (size_t end = best_.nodes.size(); end > 0;) {
        const size_t begin = end > size ? end - size : 0;
        Plan plan = best_;
        plan.nodes.erase(plan.nodes.begin() + static_cast<int64_t>(begin),
                         plan.nodes.begin() + static_cast<int64_t>(end));
        any |= try_plan(plan);
        end = std::min(begin, best_.nodes.size());
      }
    return any;
  }

  /// Numbers of one list of a plan: 0, else halves, else one less.
  template <class List>
  bool lessen(List list) {
    bool any = false;
    for (size_t i = 0; i < list(best_).size() && trials_ > 0; ++i) {
      const auto with = [&](uint32_t value) {
        Plan plan = best_;
        list(plan)[i] = value;
        const bool smaller = try_plan(plan);
        any |= smaller;
        return smaller;
      };
      const auto number = [&] { return list(best_)[i]; };
      if (number() == 0 || with(0)) continue;
      while (number() > 1 && with(number() / 2)) {
      }
      while (number() > 1 && with(number() - 1)) {
      }
    }
    return any;
  }

  Plan best_;
  const std::function<bool(const Plan &)> &fails_;
  int trials_;
};

template <class List>
std::string joined(const List &list) {
  std::string out;
  for (const auto &v : list) {
    out += out.empty() ? "[" : ", ";
    out += std::to_string(v);
  }
  return out.empty() ? "[]" : out + "]";
}

std::string attribute_text(const onnx::AttributeProto &a) {
  switch (a.type()) {
    case onnx::AttributeProto::INT:
      return std::to_string(a.i());
    case onnx::AttributeProto::FLOAT:
      return std::to_string(a.f());
    case onnx::AttributeProto::STRING:
      return a.s();
    case onnx::AttributeProto::INTS:
      return joined(a.ints());
    case onnx::AttributeProto::FLOATS:
      return joined(a.floats());
    default:
      return a.t().int64_data_size() ? joined(a.t().int64_data()) : "...";
  }
}

}  // namespace

Plan shrink(const Plan &plan, const std::function<bool(const Plan &)> &fails, int most_trials) {
  return Shrinker(plan, fails, most_trials).run();
}

std::string describe(const std::string &model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromString(model)) return "not an ONNX file\n";
  std::map<std::string, std::string> shapes, constants;
  const auto note = [&](const onnx::ValueInfoProto &v) {
    std::vector<int64_t> dims;
    for (const auto &d : v.type().tensor_type().shape().dim()) dims.push_back(d.dim_value());
    shapes[v.name()] = joined(dims);
  };
  for (const auto &v : proto.graph().input()) note(v);
  for (const auto &v : proto.graph().value_info()) note(v);
  for (const auto &t : proto.graph().initializer())
    constants[t.name()] = t.int64_data_size()             ? joined(t.int64_data())
                          : t.float_data_size() <= kShown ? joined(t.float_data())
                                                          : "float" + joined(t.dims());
  std::string out = "operator set " + std::to_string(proto.opset_import(0).version()) + ", inputs";
  for (const auto &v : proto.graph().input()) out += " " + v.name() + shapes[v.name()];
  out += "\n";
  for (const auto &n : proto.graph().node()) {
    for (const auto &o : n.output()) out += o + shapes[o] + " ";
    out += "= " + n.op_type() + "(";
    for (int i = 0; i < n.input_size(); ++i)
      out += (i ? ", " : "") + (constants.count(n.input(i)) ? constants[n.input(i)] : n.input(i));
    out += ")";
    for (const auto &a : n.attribute()) out += " " + a.name() + "=" + attribute_text(a);
    out += "\n";
  }
  return out;
}

}  // namespace npu::fuzz
