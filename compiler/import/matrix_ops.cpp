// SPDX-License-Identifier: MIT
// Matrix products and what consists of them: Einstein sums, determinants, attention.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// Integers of less than 32 bits are multiplied as int32: they wrap round to the same.
Status product(OpContext &c, ValueId a, ValueId b, ValueId &out) {
  const Dtype type = c.graph[a].dtype;
  if (c.graph[b].dtype != type || type == Dtype::Bool)
    return refuse(Obstacle::Type,
                  std::string("a product of ") + dtype_name(type) + " and " + dtype_name(c.graph[b].dtype));
  if (dtype_bytes(type) >= 4) return c.matmul(a, b, out);
  NPU_TRY(c.cast(a, Dtype::I32, a));
  NPU_TRY(c.cast(b, Dtype::I32, b));
  NPU_TRY(c.matmul(a, b, out));
  return c.cast(out, type, out);
}

/// x * factor; of integers only with a factor that their type has.
Status scaled(OpContext &c, ValueId x, float factor, ValueId &out) {
  const Dtype type = c.graph[x].dtype;
  out = x;
  if (factor == 1.0f) return {};
  if (type != Dtype::F32 &&
      (factor != std::trunc(factor) || (factor < 0 && (type == Dtype::U32 || type == Dtype::U64))))
    return refuse(Obstacle::Form,
                  "a factor of " + std::to_string(factor) + " for operands of type " + dtype_name(type));
  return c.binary(BinaryKind::Mul, x, factor, out);
}

/// y = alpha * A * B + beta * C. The factor goes to a constant operand if there is one.
Status gemm(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  if (c.rank(0) != 2 || c.rank(1) != 2)
    return Status::error("operands " + shape_text(c.shape(0)) + " and " + shape_text(c.shape(1)) + " are not matrices");
  ValueId a = c.in(0), b = c.in(1), y, bias;
  if (c.attr_i("transA", 0)) NPU_TRY(c.transpose(a, {1, 0}, a));
  if (c.attr_i("transB", 0)) NPU_TRY(c.transpose(b, {1, 0}, b));
  const float alpha = c.attr_f("alpha", 1.0f), beta = c.attr_f("beta", 1.0f);
  ValueId &factor = c.graph.is_constant(a) ? a : b;
  const bool early = c.graph.is_constant(factor);
  if (early) NPU_TRY(scaled(c, factor, alpha, factor));
  NPU_TRY(product(c, a, b, y));
  if (!early) NPU_TRY(scaled(c, y, alpha, y));
  c.results[0] = y;
  if (!c.has_input(2) || beta == 0.0f) return {};
  Shape wide;
  if (!broadcast_shapes(c.graph[y].shape, c.shape(2), wide) || wide != c.graph[y].shape)
    return Status::error("C " + shape_text(c.shape(2)) + " does not broadcast to " + shape_text(c.graph[y].shape));
  NPU_TRY(scaled(c, c.in(2), beta, bias));
  return c.binary(BinaryKind::Add, y, bias, c.results[0]);
}

/// Vectors become matrices of one row or column and lose that dimension again.
Status matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  ValueId a = c.in(0), b = c.in(1), y;
  if (c.rank(0) < 1 || c.rank(1) < 1) return Status::error("an operand is a scalar");
  const bool row = c.rank(0) == 1, column = c.rank(1) == 1;
  if (row) NPU_TRY(c.reshape(a, {1, c.shape(0)[0]}, a));
  if (column) NPU_TRY(c.reshape(b, {c.shape(1)[0], 1}, b));
  NPU_TRY(product(c, a, b, y));
  Shape out = c.graph[y].shape;
  if (column) out.pop_back();
  if (row) out.erase(out.end() - (column ? 1 : 2));
  return c.reshape(y, out, c.results[0]);
}

// Einstein sums.

/// Names of dimensions: letters as they are; those of an ellipsis are -1, -2... from its last one on.
using Labels = std::vector<int>;

/// An operand, or the product of several.
struct Term {
  ValueId value = kNoValue;
  Labels labels;
};

bool contains(const Labels &labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int place_of(const Labels &labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

/// `covered`: how many dimensions an ellipsis stands for.
Status read_labels(const std::string &text, int64_t covered, Labels &labels) {
  for (size_t i = 0; i < text.size();) {
    const char letter = text[i];
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
      labels.push_back(letter);
      ++i;
      continue;
    }
    if (text.compare(i, 3, "...") != 0 || text.find("...", i + 3) != std::string::npos)
      return Status::error("term '" + text + "' of the equation is not letters and at most one ellipsis");
    for (int64_t k = covered; k > 0; --k) labels.push_back(static_cast<int>(-k));
    i += 3;
  }
  return {};
}

/// The terms in front of the arrow; `covered` is that of the longest ellipsis.
Status read_operands(const OpContext &c, const std::string &text, std::vector<Term> &terms, int64_t &covered) {
  for (size_t from = 0, comma; from <= text.size(); from = comma + 1) {
    comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    const size_t k = terms.size();
    if (!c.has_input(k)) return Status::error("the equation has more terms than there are operands");
    const bool ellipsis = part.find("...") != std::string::npos;
    const int64_t rest = c.rank(k) - static_cast<int64_t>(part.size()) + (ellipsis ? 3 : 0);
    terms.push_back({c.in(k), {}});
    NPU_TRY(read_labels(part, rest, terms.back().labels));
    if (static_cast<int64_t>(terms.back().labels.size()) != c.rank(k))
      return Status::error("term '" + part + "' of the equation does not fit operand " + shape_text(c.shape(k)));
    covered = std::max(covered, ellipsis ? rest : 0);
  }
  return terms.size() == c.input_count() ? Status() : Status::error("the equation has fewer terms than operands");
}

/// Without an arrow the result has the dimensions of ellipses, then the letters that occur once, in their order.
Status read_equation(const OpContext &c, std::vector<Term> &terms, Labels &result) {
  std::string text = c.attr_s("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  int64_t covered = 0;
  NPU_TRY(read_operands(c, text.substr(0, arrow), terms, covered));
  std::map<int, int> uses, repeated;
  for (const Term &t : terms)
    for (int label : t.labels) ++uses[label];
  if (arrow == std::string::npos) {
    for (const auto &[label, n] : uses)
      if (label < 0 || n == 1) result.push_back(label);
    return {};
  }
  NPU_TRY(read_labels(text.substr(arrow + 2), covered, result));
  for (int label : result)
    if (!uses.count(label) || repeated[label]++)
      return Status::error("the result of '" + text + "' has a letter that no operand has, or one twice");
  return covered == 0 || contains(result, -1)
             ? Status()
             : Status::error("the result of '" + text + "' has no ellipsis, the operands have one");
}

/// Takes away dimensions of length 1 that would be repeated to the length that their label has elsewhere.
Status drop_repeated(OpContext &c, std::vector<Term> &terms) {
  std::map<int, int64_t> lengths;
  for (const Term &t : terms) {
    const Shape shape = c.graph[t.value].shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &length = lengths.emplace(t.labels[i], 1).first->second;
      if (shape[i] != 1 && length != 1 && shape[i] != length)
        return Status::error("a letter of the equation has the lengths " + std::to_string(length) + " and " +
                             std::to_string(shape[i]));
      if (shape[i] != 1) length = shape[i];
    }
  }
  for (Term &t : terms) {
    const Shape shape = c.graph[t.value].shape;
    const Labels labels = std::move(t.labels);
    Shape left;
    t.labels.clear();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != lengths[labels[i]]) continue;
      left.push_back(shape[i]);
      t.labels.push_back(labels[i]);
    }
    NPU_TRY(c.reshape(t.value, left, t.value));
  }
  return {};
}

/// Two dimensions of one label become one: each (n + 1)-th of their n * n elements.
Status take_diagonals(OpContext &c, Term &t) {
  for (size_t p = 0; p < t.labels.size();) {
    const int label = t.labels[p];
    const auto again = std::find(t.labels.begin() + static_cast<int64_t>(p) + 1, t.labels.end(), label);
    if (again == t.labels.end()) {
      ++p;
      continue;
    }
    const auto q = static_cast<size_t>(again - t.labels.begin());
    Shape shape;
    Labels labels;
    std::vector<int> perm;
    for (size_t i = 0; i < t.labels.size(); ++i) {
      if (i == p || i == q) continue;
      perm.push_back(static_cast<int>(i));
      labels.push_back(t.labels[i]);
      shape.push_back(c.graph[t.value].shape[i]);
    }
    const int64_t n = c.graph[t.value].shape[p];
    const int last = static_cast<int>(shape.size());
    perm.insert(perm.end(), {static_cast<int>(p), static_cast<int>(q)});
    labels.push_back(label);
    shape.push_back(element_count({n, n}));
    NPU_TRY(c.transpose(t.value, perm, t.value));
    NPU_TRY(c.reshape(t.value, shape, t.value));
    NPU_TRY(c.slice(t.value, last, 0, n, t.value, n + 1));
    t.labels = labels;
    p = 0;
  }
  return {};
}

/// Sums over the dimensions that nobody needs.
Status sum_out(OpContext &c, Term &t, const Labels &needed) {
  std::vector<int> axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (contains(needed, t.labels[i]))
      left.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  t.labels = left;
  return c.reduce(ReduceKind::Sum, t.value, axes, false, t.value);
}

/// Dimensions in groups, each of which becomes one.
Status arrange(OpContext &c, const Term &t, const std::vector<Labels> &groups, ValueId &out) {
  const Shape from = c.graph[t.value].shape;
  std::vector<int> perm;
  Shape shape;
  for (const Labels &group : groups) {
    Shape lengths;
    for (int label : group) {
      perm.push_back(place_of(t.labels, label));
      lengths.push_back(from[static_cast<size_t>(perm.back())]);
    }
    shape.push_back(element_count(lengths));
  }
  NPU_TRY(c.transpose(t.value, perm, out));
  return c.reshape(out, shape, out);
}

/// a becomes the product of a and b, which has all needed labels of both. A label of only one operand is needed.
Status contract(OpContext &c, Term &a, const Term &b, const Labels &needed) {
  Labels batch, rows, columns, summed;
  for (int label : a.labels)
    (!contains(b.labels, label) ? rows : contains(needed, label) ? batch : summed).push_back(label);
  for (int label : b.labels)
    if (!contains(a.labels, label)) columns.push_back(label);
  std::vector<Labels> left{rows, summed}, right{summed, columns};
  if (!batch.empty()) {
    left.insert(left.begin(), batch);
    right.insert(right.begin(), batch);
  }
  ValueId x, y;
  NPU_TRY(arrange(c, a, left, x));
  NPU_TRY(arrange(c, b, right, y));
  Term out;
  Shape shape;
  for (const Labels &group : {batch, rows, columns})
    for (int label : group) {
      const Term &of = contains(a.labels, label) ? a : b;
      out.labels.push_back(label);
      shape.push_back(c.graph[of.value].shape[static_cast<size_t>(place_of(of.labels, label))]);
    }
  NPU_TRY(summed.empty() ? c.binary(BinaryKind::Mul, x, y, out.value) : product(c, x, y, out.value));
  NPU_TRY(c.reshape(out.value, shape, out.value));
  a = out;
  return {};
}

/// From left to right, two operands at a time.
Status einsum(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1 << 20));
  std::vector<Term> terms;
  Labels result;
  NPU_TRY(read_equation(c, terms, result));
  NPU_TRY(drop_repeated(c, terms));
  for (Term &t : terms) NPU_TRY(take_diagonals(c, t));
  const auto needed_from = [&](size_t k) {
    Labels needed = result;
    for (; k < terms.size(); ++k) needed.insert(needed.end(), terms[k].labels.begin(), terms[k].labels.end());
    return needed;
  };
  Term y = terms[0];
  NPU_TRY(sum_out(c, y, needed_from(1)));
  for (size_t k = 1; k < terms.size(); ++k) {
    const Labels needed = needed_from(k + 1);
    Labels of_operand = needed;
    of_operand.insert(of_operand.end(), y.labels.begin(), y.labels.end());
    NPU_TRY(sum_out(c, terms[k], of_operand));
    NPU_TRY(contract(c, y, terms[k], needed));
  }
  std::vector<int> perm;
  perm.reserve(result.size());
  for (int label : result) perm.push_back(place_of(y.labels, label));
  return c.transpose(y.value, perm, c.results[0]);
}

// Determinants.

/// The work of an expansion doubles with each row, and it loses more digits than an elimination, whose choice of pivots
/// depends on the data.
constexpr int64_t kMaxDetRows = 8;

/// The sets of `size` of n columns, one bit a column, rising.
std::vector<unsigned> column_sets(int64_t n, int64_t size) {
  std::vector<unsigned> sets;
  for (unsigned s = 0; s < 1u << n; ++s)
    if (std::popcount(s) == size) sets.push_back(s);
  return sets;
}

/// Minors of the first k rows, one for each set of k columns, from those of k - 1 rows and row k: expansion along it.
Status next_minors(OpContext &c, ValueId row, int64_t k, ValueId &minors) {
  const int64_t batch = c.graph[row].shape[0], n = c.graph[row].shape[1];
  const std::vector<unsigned> sets = column_sets(n, k), smaller = column_sets(n, k - 1);
  std::vector<int64_t> columns, places;
  std::vector<float> signs;
  for (unsigned s : sets)
    for (int64_t j = 0, place = 0; j < n; ++j) {
      if (!(s >> j & 1)) continue;
      columns.push_back(j);
      places.push_back(std::lower_bound(smaller.begin(), smaller.end(), s & ~(1u << j)) - smaller.begin());
      signs.push_back((k - 1 + place++) % 2 ? -1.0f : 1.0f);
    }
  const auto terms = static_cast<int64_t>(signs.size());
  NPU_TRY(c.gather(1, row, c.constant(make_i64(columns)), row));
  NPU_TRY(c.gather(1, minors, c.constant(make_i64(places)), minors));
  NPU_TRY(c.binary(BinaryKind::Mul, row, minors, minors));
  NPU_TRY(c.binary(BinaryKind::Mul, minors, c.constant(make_f32({terms}, signs)), minors));
  NPU_TRY(c.reshape(minors, {batch, terms / k, k}, minors));
  return c.reduce(ReduceKind::Sum, minors, {2}, false, minors);
}

Status det(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape x = c.shape(0);
  const int64_t n = x.empty() ? 0 : x.back();
  if (x.size() < 2 || x[x.size() - 2] != n) return Status::error("input " + shape_text(x) + " is not square matrices");
  if (n > kMaxDetRows)
    return refuse(Obstacle::Form, "a determinant of " + std::to_string(n) + " rows, up to " +
                                      std::to_string(kMaxDetRows) +
                                      " are supported: it is expanded by minors, which double in number with each row");
  const Shape outer(x.begin(), x.end() - 2);
  if (n == 0) return c.expand(c.scalar(1), outer, c.results[0]);
  ValueId all, row, minors = kNoValue;
  const int64_t batch = element_count(outer);
  NPU_TRY(c.reshape(c.in(0), {batch, n, n}, all));
  for (int64_t k = 1; k <= n; ++k) {
    NPU_TRY(c.slice(all, 1, k - 1, 1, row));
    NPU_TRY(c.reshape(row, {batch, n}, row));
    if (k == 1)
      minors = row;
    else
      NPU_TRY(next_minors(c, row, k, minors));
  }
  return c.reshape(minors, outer, c.results[0]);
}

// Attention.

/// [batch, sequence, heads * size] becomes [batch, heads, sequence, size]; four dimensions stay.
Status split_heads(OpContext &c, ValueId x, int64_t heads, ValueId &out) {
  const Shape s = c.graph[x].shape;
  out = x;
  if (s.size() == 4) return {};
  if (s.size() != 3) return Status::error("operand " + shape_text(s) + " has not 3 or 4 dimensions");
  if (heads < 1 || s[2] % heads)
    return Status::error("operand " + shape_text(s) + " does not consist of " + std::to_string(heads) + " heads");
  NPU_TRY(c.reshape(x, {s[0], s[1], heads, s[2] / heads}, out));
  return c.transpose(out, {0, 2, 1, 3}, out);
}

/// The other way, for a result that is to have the rank of input 0.
Status join_heads(OpContext &c, ValueId x, ValueId &out) {
  const Shape s = c.graph[x].shape;
  out = x;
  if (c.rank(0) == 4) return {};
  NPU_TRY(c.transpose(x, {0, 2, 1, 3}, out));
  return c.reshape(out, {s[0], s[2], s[1] * s[3]}, out);
}

constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// The mask as summands of scores with that many columns; behind its last column everything is masked.
Status mask_bias(OpContext &c, int64_t columns, ValueId &bias) {
  bias = c.in(3);
  if (c.rank(3) < 1) return Status::error("attn_mask is a scalar");
  if (c.value(3).dtype == Dtype::Bool) NPU_TRY(c.where(bias, c.scalar(0), c.scalar(kMasked), bias));
  std::vector<int64_t> begin(c.shape(3).size(), 0), end = begin;
  end.back() = std::max<int64_t>(columns - c.shape(3).back(), 0);
  return c.pad(bias, begin, end, kMasked, bias);
}

/// With operand 6, which says how many columns of each picture count, the rest is masked.
Status mask_padding(OpContext &c, int64_t columns, ValueId &bias) {
  const Shape &batch = c.shape(0), lengths = c.shape(6);
  if (lengths != Shape{batch[0]})
    return Status::error("nonpad_kv_seqlen is " + shape_text(lengths) + ", one number for each of " +
                         std::to_string(batch[0]) + " was expected");
  if (element_count({columns}) < 0) return refuse(Obstacle::Size, "the scores have too many elements");
  auto numbers = std::make_shared<Tensor>(Dtype::I64, Shape{columns});
  std::iota(numbers->as<int64_t>(), numbers->as<int64_t>() + columns, int64_t{0});
  ValueId counts, length, padding;
  NPU_TRY(c.reshape(c.in(6), {batch[0], 1, 1, 1}, length));
  NPU_TRY(c.cast(length, Dtype::I64, length));
  NPU_TRY(c.binary(BinaryKind::Less, c.constant(std::move(numbers)), length, counts));
  NPU_TRY(c.where(counts, c.scalar(0), c.scalar(kMasked), padding));
  if (bias != kNoValue) return c.binary(BinaryKind::Add, bias, padding, bias);
  bias = padding;
  return {};
}

/// What is added to scores [..., rows, columns], of which the first `past` columns are older than the first row;
/// kNoValue: nothing.
Status attention_bias(OpContext &c, int64_t rows, int64_t columns, int64_t past, ValueId &bias) {
  bias = kNoValue;
  if (c.has_input(3)) NPU_TRY(mask_bias(c, columns, bias));
  if (c.has_input(6)) NPU_TRY(mask_padding(c, columns, bias));
  if (!c.attr_i("is_causal", 0)) return {};
  if (element_count({rows, columns}) < 0) return refuse(Obstacle::Size, "the scores have too many elements");
  std::vector<float> causal;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) causal.push_back(j <= i + past ? 0.0f : kMasked);
  const ValueId triangle = c.constant(make_f32({rows, columns}, causal));
  if (bias != kNoValue) return c.binary(BinaryKind::Add, bias, triangle, bias);
  bias = triangle;
  return {};
}

/// Rows that are masked altogether have a softmax of zeros (onnx/onnx, pull request 8068), not NaN: the bias becomes 0
/// there, `open` is 0 there and 1 elsewhere. kNoValue: there are none.
Status open_masked_rows(OpContext &c, ValueId &bias, ValueId &open) {
  ValueId closed;
  const int last = static_cast<int>(c.graph[bias].shape.size()) - 1;
  NPU_TRY(c.reduce(ReduceKind::Max, bias, {last}, true, closed));
  NPU_TRY(c.unary(ActKind::IsInf, closed, closed, 0, 1));
  NPU_TRY(c.where(closed, c.scalar(0), bias, bias));
  NPU_TRY(c.unary(ActKind::Not, closed, open));
  NPU_TRY(c.cast(open, Dtype::F32, open));
  const TensorPtr known = c.graph[open].constant;
  if (known && std::all_of(known->as<float>(), known->as<float>() + known->count(), [](float v) { return v == 1; }))
    open = kNoValue;
  return {};
}

/// The softmax of scaled scores [batch, heads, rows, columns]. The cap comes in front of the mask, and output 3 shows
/// the stages in this order, as corrected in ONNX 1.22 (onnx/onnx, pull requests 7867 and 7913).
Status attention_weights(OpContext &c, ValueId scores, int64_t past, ValueId &out) {
  const int64_t mode = c.attr_i("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return Status::error("qk_matmul_output_mode is " + std::to_string(mode) + ", 0 to 3 are known");
  const Shape s = c.graph[scores].shape;
  ValueId stages[4] = {scores}, bias, open = kNoValue;
  const float cap = c.attr_f("softcap", 0);
  if (cap > 0) {
    NPU_TRY(c.binary(BinaryKind::Div, scores, cap, scores));
    NPU_TRY(c.unary(ActKind::Tanh, scores, scores));
    NPU_TRY(c.binary(BinaryKind::Mul, scores, cap, scores));
  }
  stages[1] = stages[2] = scores;
  NPU_TRY(attention_bias(c, s[2], s[3], past, bias));
  if (bias != kNoValue) {
    if (mode == 2 && c.wants_output(3)) NPU_TRY(c.binary(BinaryKind::Add, scores, bias, stages[2]));
    if (!c.finite_mask) NPU_TRY(open_masked_rows(c, bias, open));
    NPU_TRY(c.binary(BinaryKind::Add, scores, bias, scores));
    if (c.graph[scores].shape != s)
      return Status::error("attn_mask " + shape_text(c.shape(3)) + " does not broadcast to scores " + shape_text(s));
  }
  NPU_TRY(c.emit(Op::Softmax, {scores}, SoftmaxAttrs{3, false}, out));
  if (open != kNoValue) NPU_TRY(c.binary(BinaryKind::Mul, out, open, out));
  stages[3] = out;
  if (c.wants_output(3)) c.results[3] = stages[mode];
  return {};
}

/// Keys or values with those of the past in front.
Status with_past(OpContext &c, size_t operand, size_t result, ValueId &x) {
  if (c.has_input(operand) && element_count(c.shape(operand)) != 0) NPU_TRY(c.concat(2, {c.in(operand), x}, x));
  if (c.wants_output(result)) c.results[result] = x;
  return {};
}

/// Heads that share keys and values are rows of one product.
Status attention(OpContext &c) {
  NPU_TRY(c.need_inputs(3, c.opset < 24 ? 6 : 7));
  if (c.has_input(6) && (c.has_input(4) || c.has_input(5)))
    return Status::error("it has nonpad_kv_seqlen and past keys or values, of which only one is allowed");
  if (c.rank(1) != c.rank(0) || c.rank(2) != c.rank(0)) return Status::error("Q, K and V differ in rank");
  ValueId q, k, v, y;
  const int64_t heads = c.attr_i("kv_num_heads", 0);
  NPU_TRY(split_heads(c, c.in(0), c.attr_i("q_num_heads", 0), q));
  NPU_TRY(split_heads(c, c.in(1), heads, k));
  NPU_TRY(split_heads(c, c.in(2), heads, v));
  const int64_t fresh = c.graph[k].shape[2];
  NPU_TRY(with_past(c, 4, 1, k));
  NPU_TRY(with_past(c, 5, 2, v));
  const Shape qs = c.graph[q].shape, ks = c.graph[k].shape, vs = c.graph[v].shape;
  if (ks[1] < 1 || qs[1] % ks[1] || vs[1] != ks[1])
    return Status::error("Q, K and V have " + std::to_string(qs[1]) + ", " + std::to_string(ks[1]) + " and " +
                         std::to_string(vs[1]) + " heads");
  const int64_t rows = qs[1] / ks[1] * qs[2];
  const double scale = c.has("scale") ? c.attr_f("scale", 1) : 1 / std::sqrt(static_cast<double>(qs[3]));
  NPU_TRY(c.binary(BinaryKind::Mul, q, scale, q));
  NPU_TRY(c.reshape(q, {qs[0], ks[1], rows, qs[3]}, q));
  NPU_TRY(c.transpose(k, {0, 1, 3, 2}, k));
  NPU_TRY(c.matmul(q, k, y));
  NPU_TRY(c.reshape(y, {qs[0], qs[1], qs[2], ks[2]}, y));
  NPU_TRY(attention_weights(c, y, ks[2] - fresh, y));
  NPU_TRY(c.reshape(y, {qs[0], ks[1], rows, ks[2]}, y));
  NPU_TRY(c.matmul(y, v, y));
  NPU_TRY(c.reshape(y, {qs[0], qs[1], qs[2], vs[3]}, y));
  return join_heads(c, y, c.results[0]);
}

/// Cosines or sines for an input [batch, heads, sequence, size]: operand k, or the rows of it that operand 3 names.
Status rotary_table(OpContext &c, size_t k, const Shape &x, int64_t half, ValueId &out) {
  out = c.in(k);
  if (c.has_input(3)) NPU_TRY(c.gather(0, out, c.in(3), out));
  if (c.graph[out].shape != Shape{x[0], x[2], half})
    return Status::error("a table of " + shape_text(c.graph[out].shape) + ", expected " +
                         shape_text({x[0], x[2], half}));
  return c.reshape(out, {x[0], 1, x[2], half}, out);
}

/// (a, b) turned by an angle.
Status rotate(OpContext &c, ValueId cosine, ValueId sine, ValueId &a, ValueId &b) {
  ValueId ac, as, bc, bs;
  NPU_TRY(c.binary(BinaryKind::Mul, a, cosine, ac));
  NPU_TRY(c.binary(BinaryKind::Mul, a, sine, as));
  NPU_TRY(c.binary(BinaryKind::Mul, b, cosine, bc));
  NPU_TRY(c.binary(BinaryKind::Mul, b, sine, bs));
  NPU_TRY(c.binary(BinaryKind::Sub, ac, bs, a));
  return c.binary(BinaryKind::Add, as, bc, b);
}

Status rotary_embedding(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 4));
  ValueId x, cosine, sine, a, b, y;
  NPU_TRY(split_heads(c, c.in(0), c.attr_i("num_heads", 0), x));
  const Shape s = c.graph[x].shape;
  int64_t turned = c.attr_i("rotary_embedding_dim", 0);
  if (turned == 0) turned = s[3];
  if (turned < 1 || turned > s[3] || turned % 2)
    return Status::error("rotary_embedding_dim is " + std::to_string(turned) + ", an even number up to " +
                         std::to_string(s[3]) + " was expected");
  const int64_t half = turned / 2;
  const bool interleaved = c.attr_i("interleaved", 0) != 0;
  NPU_TRY(rotary_table(c, 1, s, half, cosine));
  NPU_TRY(rotary_table(c, 2, s, half, sine));
  NPU_TRY(c.slice(x, 3, 0, half, a, interleaved ? 2 : 1));
  NPU_TRY(c.slice(x, 3, interleaved ? 1 : half, half, b, interleaved ? 2 : 1));
  NPU_TRY(rotate(c, cosine, sine, a, b));
  for (ValueId *part : {&a, &b})
    if (interleaved) NPU_TRY(c.reshape(*part, {s[0], s[1], s[2], half, 1}, *part));
  NPU_TRY(c.concat(interleaved ? 4 : 3, {a, b}, y));
  NPU_TRY(c.reshape(y, {s[0], s[1], s[2], turned}, y));
  if (turned < s[3]) {
    NPU_TRY(c.slice(x, 3, turned, s[3] - turned, x));
    NPU_TRY(c.concat(3, {y, x}, y));
  }
  return join_heads(c, y, c.results[0]);
}

constexpr OpEntry kMatrixOps[] = {
    {"Attention", attention}, {"Det", det},       {"Einsum", einsum},
    {"Gemm", gemm},           {"MatMul", matmul}, {"RotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const OpEntry> matrix_ops() { return kMatrixOps; }

}  // namespace npu::graph
