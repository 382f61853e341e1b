// SPDX-License-Identifier: MIT
// RNN, GRU and LSTM, unrolled: the inputs of all steps are multiplied by their weights at once, then each step follows
// with nodes of its own.
#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

constexpr int64_t kMaxSteps = 4096;

// Functions that the attribute `activations` names.

using Apply = Status (*)(OpContext &c, float alpha, float beta, ValueId x, ValueId &out);

template <ActKind kind>
Status direct(OpContext &c, float alpha, float beta, ValueId x, ValueId &out) {
  return c.unary(kind, x, out, alpha, beta);
}

/// alpha * x + beta
Status affine(OpContext &c, float alpha, float beta, ValueId x, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Mul, x, alpha, out));
  return c.binary(BinaryKind::Add, out, beta, out);
}

/// alpha * tanh(beta * x)
Status scaled_tanh(OpContext &c, float alpha, float beta, ValueId x, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Mul, x, beta, out));
  NPU_TRY(c.unary(ActKind::Tanh, out, out));
  return c.binary(BinaryKind::Mul, out, alpha, out);
}

/// x / (1 + |x|)
Status softsign(OpContext &c, float, float, ValueId x, ValueId &out) {
  NPU_TRY(c.unary(ActKind::Abs, x, out));
  NPU_TRY(c.binary(BinaryKind::Add, out, 1, out));
  return c.binary(BinaryKind::Div, x, out, out);
}

/// x > alpha ? x : 0
Status thresholded_relu(OpContext &c, float alpha, float, ValueId x, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Less, c.scalar(alpha), x, out));
  return c.where(out, x, c.scalar(0), out);
}

/// A function with the defaults of its parameters, which are those of the operator of that name.
struct Function {
  std::string_view name;  ///< in lower case
  Apply apply = nullptr;
  int parameters = 0;
  float alpha = 0, beta = 0;
};

constexpr Function kFunctions[] = {
    {"affine", affine, 2, 1, 0},
    {"elu", direct<ActKind::Elu>, 1, 1, 0},
    {"hardsigmoid", direct<ActKind::HardSigmoid>, 2, 0.2f, 0.5f},
    {"leakyrelu", direct<ActKind::LeakyRelu>, 1, 0.01f, 0},
    {"relu", direct<ActKind::Relu>},
    {"scaledtanh", scaled_tanh, 2, 1, 1},
    {"sigmoid", direct<ActKind::Sigmoid>},
    {"softplus", direct<ActKind::Softplus>},
    {"softsign", softsign},
    {"tanh", direct<ActKind::Tanh>},
    {"thresholdedrelu", thresholded_relu, 1, 1, 0},
};

Status find_function(const std::string &name, Function &out) {
  std::string lower = name;
  for (char &letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const Function &f : kFunctions)
    if (f.name == lower) {
      out = f;
      return {};
    }
  return Status::error("activation '" + name + "' is not known");
}

// The three operators.

/// One direction.
struct Cell {
  std::array<Function, 3> functions;  ///< f, g, h
  int64_t hidden = 0;
  float clip = 0;                ///< bound of what goes into functions; 0: none
  ValueId projected = kNoValue;  ///< [steps * batch, gates * hidden]: inputs times weights, with biases
  ValueId recurrent = kNoValue;  ///< [hidden, gates * hidden]; GRU: see gru_step()
  ValueId candidate = kNoValue;  ///< GRU: [hidden, hidden]
  ValueId bias = kNoValue;       ///< GRU with linear_before_reset: of the recurrent product
  std::array<ValueId, 3> peepholes{kNoValue, kNoValue, kNoValue};  ///< LSTM: [hidden] of gates i, o and f; none or all
};

struct State {
  ValueId h = kNoValue;
  ValueId c = kNoValue;  ///< LSTM
};

struct Kind {
  int64_t gates;
  std::vector<std::string> functions;  ///< by default, of one direction
  size_t most_inputs;
  bool has_cell;  ///< State::c
  /// Makes the next state; `x` are the step's rows of Cell::projected.
  Status (*step)(OpContext &c, const Cell &cell, ValueId x, State &s);
};

/// What the operands and attributes say.
struct Recurrence {
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;
  bool batch_first = false;
  std::vector<bool> backward;       ///< for each direction
  std::vector<Function> functions;  ///< of all directions
  float clip = 0;
  ValueId x = kNoValue;          ///< [steps * batch, inputs]
  std::vector<ValueId> running;  ///< bool [batch, 1] for each step: which sequences have it; empty: all
  int64_t directions() const { return static_cast<int64_t>(backward.size()); }
};

/// The function of a cell with that number, behind the clip.
Status activate(OpContext &c, const Cell &cell, size_t number, ValueId x, ValueId &out) {
  const Function &f = cell.functions[number];
  if (cell.clip > 0) NPU_TRY(c.unary(ActKind::Clip, x, x, -cell.clip, cell.clip));
  return f.apply(c, f.alpha, f.beta, x, out);
}

/// x * weights + bias
Status multiply(OpContext &c, ValueId x, ValueId weights, ValueId bias, ValueId &out) {
  const bool inside = bias == kNoValue || c.graph.is_constant(bias);
  NPU_TRY(c.emit(Op::MatMul, {x, weights, inside ? bias : kNoValue}, MatMulAttrs{}, out));
  return inside ? Status() : c.binary(BinaryKind::Add, out, bias, out);
}

/// h' = f(x + h R)
Status rnn_step(OpContext &c, const Cell &cell, ValueId x, State &s) {
  ValueId sum;
  NPU_TRY(multiply(c, s.h, cell.recurrent, kNoValue, sum));
  NPU_TRY(c.binary(BinaryKind::Add, x, sum, sum));
  return activate(c, cell, 0, sum, s.h);
}

/// Gates z and r, then the candidate n:
///   z, r = f(x + h R),  n = g(x + (r h) R)  or, with linear_before_reset,  g(x + r (h R + bias)),  h' = n + z (h - n)
/// The recurrent weights are those of z and r; with linear_before_reset those of all three, and there is no other set.
Status gru_step(OpContext &c, const Cell &cell, ValueId x, State &s) {
  const int64_t n = cell.hidden;
  ValueId recurrent, gates, z, r, fresh;
  NPU_TRY(multiply(c, s.h, cell.recurrent, cell.bias, recurrent));
  NPU_TRY(c.slice(x, 1, 0, 2 * n, gates));
  NPU_TRY(c.slice(recurrent, 1, 0, 2 * n, z));
  NPU_TRY(c.binary(BinaryKind::Add, gates, z, gates));
  NPU_TRY(activate(c, cell, 0, gates, gates));
  NPU_TRY(c.slice(gates, 1, 0, n, z));
  NPU_TRY(c.slice(gates, 1, n, n, r));
  if (cell.candidate == kNoValue) {
    NPU_TRY(c.slice(recurrent, 1, 2 * n, n, fresh));
    NPU_TRY(c.binary(BinaryKind::Mul, r, fresh, fresh));
  } else {
    NPU_TRY(c.binary(BinaryKind::Mul, r, s.h, fresh));
    NPU_TRY(multiply(c, fresh, cell.candidate, kNoValue, fresh));
  }
  NPU_TRY(c.slice(x, 1, 2 * n, n, x));
  NPU_TRY(c.binary(BinaryKind::Add, x, fresh, fresh));
  NPU_TRY(activate(c, cell, 1, fresh, fresh));
  NPU_TRY(c.binary(BinaryKind::Sub, s.h, fresh, s.h));
  NPU_TRY(c.binary(BinaryKind::Mul, z, s.h, s.h));
  return c.binary(BinaryKind::Add, fresh, s.h, s.h);
}

/// Gate 0 (i), 1 (o) or 2 (f) of an LSTM. Without peepholes the three have gone through their function at once.
Status lstm_gate(OpContext &c, const Cell &cell, ValueId gates, size_t number, ValueId state, ValueId &out) {
  NPU_TRY(c.slice(gates, 1, static_cast<int64_t>(number) * cell.hidden, cell.hidden, out));
  if (cell.peepholes[number] == kNoValue) return {};
  ValueId seen;
  NPU_TRY(c.binary(BinaryKind::Mul, state, cell.peepholes[number], seen));
  NPU_TRY(c.binary(BinaryKind::Add, out, seen, out));
  return activate(c, cell, 0, out, out);
}

/// With v = x + h R, whose columns are those of i, o, f and the candidate n:
///   i, f = f(v + P c),  n = g(v),  c' = f c + i n,  o = f(v + P c'),  h' = o h(c')
/// With input_forget, f = 1 - i.
Status lstm_step(OpContext &c, const Cell &cell, ValueId x, State &s) {
  ValueId all, gates, i, o, forget, fresh;
  NPU_TRY(multiply(c, s.h, cell.recurrent, kNoValue, all));
  NPU_TRY(c.binary(BinaryKind::Add, x, all, all));
  NPU_TRY(c.slice(all, 1, 0, 3 * cell.hidden, gates));
  if (cell.peepholes[0] == kNoValue) NPU_TRY(activate(c, cell, 0, gates, gates));
  NPU_TRY(lstm_gate(c, cell, gates, 0, s.c, i));
  if (c.attr_i("input_forget", 0))
    NPU_TRY(c.binary(BinaryKind::Sub, c.scalar(1), i, forget));
  else
    NPU_TRY(lstm_gate(c, cell, gates, 2, s.c, forget));
  NPU_TRY(c.slice(all, 1, 3 * cell.hidden, cell.hidden, fresh));
  NPU_TRY(activate(c, cell, 1, fresh, fresh));
  NPU_TRY(c.binary(BinaryKind::Mul, i, fresh, fresh));
  NPU_TRY(c.binary(BinaryKind::Mul, forget, s.c, s.c));
  NPU_TRY(c.binary(BinaryKind::Add, s.c, fresh, s.c));
  NPU_TRY(lstm_gate(c, cell, gates, 1, s.c, o));
  NPU_TRY(activate(c, cell, 2, s.c, s.h));
  return c.binary(BinaryKind::Mul, o, s.h, s.h);
}

// Operands and attributes.

/// Alpha and beta go to the functions that have them, in their order.
Status read_functions(const OpContext &c, const Kind &kind, Recurrence &r) {
  std::vector<std::string> names = c.attr_strings("activations");
  const size_t wanted = kind.functions.size() * r.backward.size();
  if (names.empty())
    while (names.size() < wanted) names.insert(names.end(), kind.functions.begin(), kind.functions.end());
  if (names.size() < wanted)
    return Status::error("it has " + std::to_string(names.size()) + " activations, " + std::to_string(wanted) +
                         " were expected");
  const std::vector<float> alphas = c.attr_floats("activation_alpha"), betas = c.attr_floats("activation_beta");
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < wanted; ++i) {
    Function f;
    NPU_TRY(find_function(names[i], f));
    if (f.parameters > 0 && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (f.parameters > 1 && beta < betas.size()) f.beta = betas[beta++];
    r.functions.push_back(f);
  }
  return {};
}

Status read_attributes(const OpContext &c, const Kind &kind, Recurrence &r) {
  const std::string direction = c.attr_s("direction", "forward");
  if (direction == "bidirectional")
    r.backward = {false, true};
  else if (direction == "forward" || direction == "reverse")
    r.backward = {direction == "reverse"};
  else
    return Status::error("direction '" + direction + "' is not known");
  r.batch_first = c.attr_i("layout", 0) != 0;
  r.clip = c.attr_f("clip", 0);
  if (c.has("clip") && !(r.clip > 0))
    return Status::error("clip is " + std::to_string(r.clip) + ", a positive number was expected");
  return read_functions(c, kind, r);
}

Status check_operand(const OpContext &c, size_t k, const char *name, const Shape &expected) {
  return !c.has_input(k) || c.shape(k) == expected ? Status()
                                                   : Status::error(std::string(name) + " is " + shape_text(c.shape(k)) +
                                                                   ", expected " + shape_text(expected));
}

Status check_operands(const OpContext &c, const Kind &kind, const Recurrence &r) {
  const int64_t d = r.directions(), columns = kind.gates * r.hidden;
  const Shape state = r.batch_first ? Shape{r.batch, d, r.hidden} : Shape{d, r.batch, r.hidden};
  NPU_TRY(check_operand(c, 1, "W", {d, columns, r.inputs}));
  NPU_TRY(check_operand(c, 2, "R", {d, columns, r.hidden}));
  NPU_TRY(check_operand(c, 3, "B", {d, 2 * columns}));
  NPU_TRY(check_operand(c, 4, "sequence_lens", {r.batch}));
  NPU_TRY(check_operand(c, 5, "initial_h", state));
  NPU_TRY(check_operand(c, 6, "initial_c", state));
  return check_operand(c, 7, "P", {d, 3 * r.hidden});
}

/// The sizes, and X as the rows of all steps.
Status read_input(OpContext &c, Recurrence &r) {
  const Shape x = c.shape(0);
  if (x.size() != 3 || c.rank(2) != 3 || element_count(x) < 1 || element_count(c.shape(2)) < 1)
    return Status::error("X is " + shape_text(x) + " and R is " + shape_text(c.shape(2)) +
                         ", three dimensions were expected, and none of them 0");
  r.steps = x[r.batch_first ? 1 : 0];
  r.batch = x[r.batch_first ? 0 : 1];
  r.inputs = x[2];
  r.hidden = c.shape(2)[2];
  if (r.steps > kMaxSteps)
    return refuse(Obstacle::Size, "sequences of " + std::to_string(r.steps) + " steps, up to " +
                                      std::to_string(kMaxSteps) + " are supported");
  if (c.has("hidden_size") && c.attr_i("hidden_size", 0) != r.hidden)
    return Status::error("hidden_size is " + std::to_string(c.attr_i("hidden_size", 0)) + ", R is " +
                         shape_text(c.shape(2)));
  r.x = c.in(0);
  if (r.batch_first) NPU_TRY(c.transpose(r.x, {1, 0, 2}, r.x));
  return c.reshape(r.x, {r.steps * r.batch, r.inputs}, r.x);
}

/// From the lengths of the sequences.
Status read_running(OpContext &c, Recurrence &r) {
  if (!c.has_input(4)) return {};
  ValueId lengths;
  NPU_TRY(c.reshape(c.in(4), {r.batch, 1}, lengths));
  for (int64_t t = 0; t < r.steps; ++t) {
    const ValueId number = c.scalar_like(lengths, static_cast<double>(t));
    r.running.emplace_back();
    NPU_TRY(c.binary(BinaryKind::Less, number, lengths, r.running.back()));
  }
  return {};
}

/// Part d of the first dimension of x, without that dimension.
Status part(OpContext &c, ValueId x, int64_t d, ValueId &out) {
  const Shape shape = c.graph[x].shape;
  NPU_TRY(c.slice(x, 0, d, 1, out));
  return c.reshape(out, Shape(shape.begin() + 1, shape.end()), out);
}

/// Weights [rows, columns] of direction d of operand k, transposed.
Status weights(OpContext &c, size_t k, int64_t d, ValueId &out) {
  NPU_TRY(part(c, c.in(k), d, out));
  return c.transpose(out, {1, 0}, out);
}

/// The biases of inputs and recurrence; of GRU's linear_before_reset the latter stays with its product.
Status read_biases(OpContext &c, int64_t d, bool apart, ValueId &bias, ValueId &recurrent) {
  bias = recurrent = kNoValue;
  if (!c.has_input(3)) return {};
  const int64_t n = c.shape(3)[1] / 2;
  NPU_TRY(part(c, c.in(3), d, bias));
  NPU_TRY(c.slice(bias, 0, n, n, recurrent));
  NPU_TRY(c.slice(bias, 0, 0, n, bias));
  if (apart) return {};
  NPU_TRY(c.binary(BinaryKind::Add, bias, recurrent, bias));
  recurrent = kNoValue;
  return {};
}

Status read_cell(OpContext &c, const Kind &kind, const Recurrence &r, int64_t d, Cell &cell) {
  const bool gru = kind.step == gru_step, linear = gru && c.attr_i("linear_before_reset", 0) != 0;
  const size_t functions = kind.functions.size();
  std::copy_n(r.functions.begin() + d * static_cast<int64_t>(functions), functions, cell.functions.begin());
  cell.hidden = r.hidden;
  cell.clip = r.clip;
  ValueId from_input, bias;
  NPU_TRY(read_biases(c, d, linear, bias, cell.bias));
  NPU_TRY(weights(c, 1, d, from_input));
  NPU_TRY(multiply(c, r.x, from_input, bias, cell.projected));
  NPU_TRY(weights(c, 2, d, cell.recurrent));
  if (gru && !linear) {
    NPU_TRY(c.slice(cell.recurrent, 1, 2 * r.hidden, r.hidden, cell.candidate));
    NPU_TRY(c.slice(cell.recurrent, 1, 0, 2 * r.hidden, cell.recurrent));
  }
  if (!c.has_input(7)) return {};
  ValueId peepholes;
  NPU_TRY(part(c, c.in(7), d, peepholes));
  for (size_t k = 0; k < 3; ++k)
    NPU_TRY(c.slice(peepholes, 0, static_cast<int64_t>(k) * r.hidden, r.hidden, cell.peepholes[k]));
  return {};
}

/// The initial state of direction d from operand k; 0 by default.
Status initial(OpContext &c, const Recurrence &r, size_t k, int64_t d, ValueId &out) {
  if (!c.has_input(k)) return c.expand(c.scalar(0), {r.batch, r.hidden}, out);
  out = c.in(k);
  if (r.batch_first) NPU_TRY(c.transpose(out, {1, 0, 2}, out));
  return part(c, out, d, out);
}

// Steps.

/// Rows of `yes` where the condition [batch, 1] holds, of `no` elsewhere. What is known now is a copy.
Status choose(OpContext &c, ValueId condition, ValueId yes, ValueId no, ValueId &out) {
  const TensorPtr known = c.graph[condition].constant;
  if (!known) return c.where(condition, yes, no, out);
  std::vector<int64_t> rows;
  const int64_t batch = known->count();
  int64_t chosen = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const bool first = known->as<uint8_t>()[b] != 0;
    rows.push_back(first ? b : batch + b);
    chosen += first;
  }
  out = chosen ? yes : no;
  if (chosen == 0 || chosen == batch) return {};
  NPU_TRY(c.concat(0, {yes, no}, out));
  return c.gather(0, out, c.constant(make_i64(rows)), out);
}

/// All steps of one direction; `rows` are the results in the order of the input. A sequence that has ended keeps its
/// state, and its results are 0.
Status run(OpContext &c, const Kind &kind, const Recurrence &r, const Cell &cell, bool backward, State &s,
           std::vector<ValueId> &rows) {
  ValueId zero, x;
  NPU_TRY(c.expand(c.scalar(0), {r.batch, r.hidden}, zero));
  rows.assign(static_cast<size_t>(r.steps), kNoValue);
  for (int64_t k = 0; k < r.steps; ++k) {
    const int64_t t = backward ? r.steps - 1 - k : k;
    ValueId &row = rows[static_cast<size_t>(t)];
    State next = s;
    NPU_TRY(c.slice(cell.projected, 0, t * r.batch, r.batch, x));
    NPU_TRY(kind.step(c, cell, x, next));
    row = next.h;
    if (!r.running.empty()) {
      const ValueId running = r.running[static_cast<size_t>(t)];
      if (c.wants_output(0)) NPU_TRY(choose(c, running, next.h, zero, row));
      NPU_TRY(choose(c, running, next.h, s.h, next.h));
      if (kind.has_cell) NPU_TRY(choose(c, running, next.c, s.c, next.c));
    }
    s = next;
  }
  return {};
}

/// [batch, hidden] of all directions as output k.
Status put_state(OpContext &c, const Recurrence &r, size_t k, std::vector<ValueId> states) {
  if (!c.wants_output(k)) return {};
  const int axis = r.batch_first ? 1 : 0;
  for (ValueId &s : states)
    NPU_TRY(c.reshape(s, r.batch_first ? Shape{r.batch, 1, r.hidden} : Shape{1, r.batch, r.hidden}, s));
  return c.concat(axis, std::move(states), c.results[k]);
}

/// The results of all steps and directions as output 0.
Status put_steps(OpContext &c, const Recurrence &r, std::vector<std::vector<ValueId>> rows) {
  if (!c.wants_output(0)) return {};
  std::vector<ValueId> directions;
  for (std::vector<ValueId> &of_one : rows) {
    ValueId all;
    NPU_TRY(c.concat(0, std::move(of_one), all));
    NPU_TRY(c.reshape(all, {r.steps, 1, r.batch, r.hidden}, all));
    directions.push_back(all);
  }
  NPU_TRY(c.concat(1, std::move(directions), c.results[0]));
  return r.batch_first ? c.transpose(c.results[0], {2, 0, 1, 3}, c.results[0]) : Status();
}

Status recurrent(OpContext &c, const Kind &kind) {
  NPU_TRY(c.need_inputs(3, kind.most_inputs));
  Recurrence r;
  NPU_TRY(read_attributes(c, kind, r));
  NPU_TRY(read_input(c, r));
  NPU_TRY(check_operands(c, kind, r));
  NPU_TRY(read_running(c, r));
  std::vector<std::vector<ValueId>> rows(r.backward.size());
  std::vector<ValueId> last_h, last_c;
  for (size_t d = 0; d < r.backward.size(); ++d) {
    const auto number = static_cast<int64_t>(d);
    Cell cell;
    State s;
    NPU_TRY(read_cell(c, kind, r, number, cell));
    NPU_TRY(initial(c, r, 5, number, s.h));
    if (kind.has_cell) NPU_TRY(initial(c, r, 6, number, s.c));
    NPU_TRY(run(c, kind, r, cell, r.backward[d], s, rows[d]));
    last_h.push_back(s.h);
    last_c.push_back(s.c);
  }
  NPU_TRY(put_steps(c, r, std::move(rows)));
  NPU_TRY(put_state(c, r, 1, std::move(last_h)));
  return kind.has_cell ? put_state(c, r, 2, std::move(last_c)) : Status();
}

Status rnn(OpContext &c) { return recurrent(c, {1, {"Tanh"}, 6, false, rnn_step}); }
Status gru(OpContext &c) { return recurrent(c, {3, {"Sigmoid", "Tanh"}, 6, false, gru_step}); }
Status lstm(OpContext &c) { return recurrent(c, {4, {"Sigmoid", "Tanh", "Tanh"}, 8, true, lstm_step}); }

constexpr OpEntry kRecurrentOps[] = {{"GRU", gru}, {"LSTM", lstm}, {"RNN", rnn}};

}  // namespace

std::span<const OpEntry> recurrent_ops() { return kRecurrentOps; }

}  // namespace npu::graph
