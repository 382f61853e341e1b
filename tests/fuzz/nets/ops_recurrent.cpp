// SPDX-License-Identifier: MIT
// Recurrent networks of few steps.
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

struct Sizes {
  int64_t steps, batch, inputs, hidden, directions, gates;
};

/// The operands behind X: weights, biases, lengths, states and peepholes, as many as there are to be.
std::vector<std::string> operands(Net &net, Choices &c, const Sizes &s, bool lstm, bool batch_first) {
  const int64_t columns = s.gates * s.hidden;
  const double weight = 1 / std::sqrt(static_cast<double>(s.inputs)),
               own = 1 / std::sqrt(static_cast<double>(s.hidden));
  const Dims state = batch_first ? Dims{s.batch, s.directions, s.hidden} : Dims{s.directions, s.batch, s.hidden};
  std::vector<std::string> out{net.constant({s.directions, columns, s.inputs}, weight).name,
                               net.constant({s.directions, columns, s.hidden}, own).name};
  const int64_t more = c.from(0, lstm ? 5 : 3);
  if (more > 0) out.push_back(c.chance(80) ? net.constant({s.directions, 2 * columns}, 0.5).name : "");
  if (more > 1) out.push_back(c.chance(60) ? net.integers({s.batch}, 1, s.steps, onnx::TensorProto::INT32).name : "");
  if (more > 2) out.push_back(c.chance(80) ? net.constant(state, 1).name : "");
  if (more > 3) out.push_back(c.chance(80) ? net.constant(state, 1).name : "");
  if (more > 4) out.push_back(net.constant({s.directions, 3 * s.hidden}, 0.5).name);
  return out;
}

bool recurrent(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const bool lstm = kind == "LSTM", gru = kind == "GRU";
  const Tensor *found = net.pick(
      c, [](const Tensor &t) { return t.rank() == 3 && t.dims[0] <= 12 && t.dims[1] <= 12 && t.dims[2] <= 200; });
  if (!found) return false;
  const bool batch_first = net.opset >= 14 && c.chance(30);
  const Tensor x = bounded(net, *found, 4);
  const std::string direction = c.one_of<const char *>({"forward", "reverse", "bidirectional"});
  const Sizes s{x.dims[batch_first ? 1 : 0],          x.dims[batch_first ? 0 : 1], x.dims[2], c.from(1, 6),
                direction == "bidirectional" ? 2 : 1, lstm ? 4 : gru ? 3 : 1};
  const Dims all =
      batch_first ? Dims{s.batch, s.steps, s.directions, s.hidden} : Dims{s.steps, s.directions, s.batch, s.hidden};
  const Dims last = batch_first ? Dims{s.batch, s.directions, s.hidden} : Dims{s.directions, s.batch, s.hidden};
  if (!net.allows(all)) return false;
  if (batch_first) net.onnxruntime = false;  // which has no layout 1
  std::vector<std::string> inputs{x.name};
  const std::vector<std::string> rest = operands(net, c, s, lstm, batch_first);
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  const std::string y = net.node(type, inputs), h = net.b.more_output(), cell = lstm ? net.b.more_output() : "";
  net.b.attr("hidden_size", s.hidden);
  if (direction != "forward" || c.chance(30)) net.b.attr("direction", direction.c_str());
  if (batch_first) net.b.attr("layout", int64_t{1});
  if (gru && c.chance(50)) net.b.attr("linear_before_reset", int64_t{1});
  if (c.chance(30)) net.b.attr("clip", 1.5f);
  net.add(y, all, 1);
  net.add(h, last, 1);
  if (lstm) net.add(cell, last, static_cast<double>(s.steps) + 1);
  return true;
}

constexpr Op kRecurrent[] = {{"RNN", recurrent}, {"GRU", recurrent}, {"LSTM", recurrent}};

}  // namespace

std::span<const Op> recurrent_ops() { return kRecurrent; }

}  // namespace npu::fuzz
