// SPDX-License-Identifier: MIT
// Networks of operators between nodes that quantize: random ones, and the forms that tools write. Networks of float32
// that become integers by samples.
#include "tests/fuzz/nets/net.h"
#include "tests/unit/compiler/exported_nets.h"
#include "tests/unit/compiler/parts_nets.h"

namespace npu::fuzz {

Made make_quantized_network(const Plan &plan, Plan *smallest) {
  Choices head(plan.head);
  Plan used{plan.kind, plan.data, {}, {}};
  const auto seed = static_cast<uint32_t>(plan.data);
  const auto made = std::make_shared<test::QuantizedNet>();
  if (head.chance(20)) {
    const auto forms = test::exported_forms();
    const test::ExportedForm &form = forms[static_cast<size_t>(head.below(static_cast<int64_t>(forms.size())))];
    *made = form.make(seed);
    made->integers_only = form.in_float.empty() && form.on_cpu.empty();
  } else {
    // The input takes its choices from the head, each operator from its own numbers.
    std::vector<Choices> nodes;
    nodes.reserve(plan.nodes.size());
    const auto below = [&](int64_t n) { return (nodes.empty() ? head : nodes.back()).below(n); };
    const auto more = [&](bool added) {
      if (added) used.nodes.push_back(nodes.back().chosen());
      if (nodes.size() == plan.nodes.size()) return false;
      nodes.emplace_back(plan.nodes[nodes.size()]);
      return true;
    };
    *made = test::make_quantized_net({below, more}, seed);
  }
  used.head = head.chosen();
  if (smallest) *smallest = std::move(used);
  Made out{made->b.bytes(), plan.data, true, made};
  out.onnxruntime = !made->has_half && made->b.model.opset_import(0).version() <= 21;
  return out;
}

Made make_calibrated_network(const Plan &plan, Plan *smallest) {
  Choices head(plan.head);
  const auto below = [&head](int64_t n) { return head.below(n); };
  const auto made = std::make_shared<const test::PartsNet>(test::make_parts_net(below));
  if (smallest) *smallest = {NetKind::Calibrated, plan.data, head.chosen(), {}};
  Made out{made->b.bytes(), plan.data, false, nullptr};
  out.parts = made;
  return out;
}

}  // namespace npu::fuzz
