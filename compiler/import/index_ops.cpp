// SPDX-License-Identifier: MIT
// Operators that pick or place elements by indices, and those that make indices.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "compiler/import/op_context.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

/// 0, 1, 2, ... in that shape.
Status iota(OpContext &c, Shape shape, ValueId &out) {
  // One node at a time adds to the constants, which are bounded.
  NPU_TRY(c.expand(c.scalar(1, Dtype::I64), {element_count(shape)}, out));
  NPU_TRY(c.emit(Op::CumSum, {out}, CumSumAttrs{0, true, false}, out));
  return c.reshape(out, std::move(shape), out);
}

Status in_shape(OpContext &c, TensorPtr tensor, Shape shape, ValueId &out) {
  return c.reshape(c.constant(std::move(tensor)), std::move(shape), out);
}

/// An operand whose data decides how large the result is.
Status need_constant(const OpContext &c, size_t k) {
  if (c.graph.is_constant(c.in(k))) return {};
  return refuse(Obstacle::DataShape, "the shape of its result depends on the data of input " + std::to_string(k) +
                                         " ('" + c.value(k).name + "'), which is not known at compile time");
}

/// An operand of one number, without dimensions.
Status one_number(OpContext &c, size_t k, const char *what, ValueId &out) {
  if (element_count(c.shape(k)) == 1) return c.reshape(c.in(k), {}, out);
  return Status::error(std::string(what) + " is " + shape_text(c.shape(k)) + ", one number was expected");
}

// Picking.

/// The chip gathers by constant indices that are not negative.
Status gather(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  if (!c.graph.is_constant(c.in(1))) return c.gather(axis, c.in(0), c.in(1), c.results[0]);
  std::vector<int64_t> index;
  NPU_TRY(c.const_ints(1, "indices", index));
  const int64_t size = c.shape(0)[static_cast<size_t>(axis)];
  for (int64_t &i : index) {
    if ((i < -size || i >= size) && c.perhaps) return c.gather(axis, c.in(0), c.in(1), c.results[0]);
    if (i < -size || i >= size)
      return Status::error("index " + std::to_string(i) + " is outside a dimension of " + std::to_string(size));
    i = i < 0 ? i + size : i;
  }
  ValueId indices;
  NPU_TRY(in_shape(c, make_i64(index), c.shape(1), indices));
  return c.gather(axis, c.in(0), indices, c.results[0]);
}

Status gather_elements(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  return c.emit(Op::GatherElements, {c.in(0), c.in(1)}, GatherAttrs{axis}, c.results[0]);
}

Status gather_nd(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  const int64_t batch_dims = c.attr_i("batch_dims", 0);
  if (batch_dims < 0 || batch_dims >= std::min(c.rank(0), c.rank(1)))
    return Status::error("batch_dims " + std::to_string(batch_dims) + " of operands " + shape_text(c.shape(0)) +
                         " and " + shape_text(c.shape(1)));
  return c.emit(Op::GatherNd, {c.in(0), c.in(1)}, GatherNdAttrs{static_cast<int>(batch_dims)}, c.results[0]);
}

/// Without an axis of the flat input.
Status compress(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  NPU_TRY(need_constant(c, 1));
  int axis = 0;
  ValueId x = c.in(0);
  if (c.has("axis"))
    NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  else
    NPU_TRY(c.reshape(x, {element_count(c.shape(0))}, x));
  std::vector<int64_t> condition, picked;
  NPU_TRY(c.const_ints(1, "condition", condition));
  const int64_t size = c.graph[x].shape[static_cast<size_t>(axis)];
  if (c.rank(1) != 1 || static_cast<int64_t>(condition.size()) > size)
    return Status::error("condition is " + shape_text(c.shape(1)) + ", at most " + std::to_string(size) +
                         " elements in one dimension were expected");
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) picked.push_back(static_cast<int64_t>(i));
  return c.gather(axis, x, c.constant(make_i64(picked)), c.results[0]);
}

/// Where in the first two axes, taken as one, the rows of the result of ReverseSequence come from: of each sequence, as
/// long as it is, from its end on. `lengths` has one number for each sequence.
Status reversed_rows(OpContext &c, bool time_first, int64_t places, int64_t sequences, ValueId lengths, ValueId &out) {
  const auto outer = [](int64_t n) { return Shape{n, 1}; };
  const auto inner = [](int64_t n) { return Shape{1, n}; };
  ValueId place, sequence, inside, back;
  NPU_TRY(iota(c, time_first ? outer(places) : inner(places), place));
  NPU_TRY(iota(c, time_first ? inner(sequences) : outer(sequences), sequence));
  NPU_TRY(c.cast(lengths, Dtype::I64, lengths));
  NPU_TRY(c.reshape(lengths, c.graph[sequence].shape, lengths));
  NPU_TRY(c.binary(BinaryKind::Less, place, lengths, inside));
  NPU_TRY(c.binary(BinaryKind::Sub, lengths, place, back));
  NPU_TRY(c.binary(BinaryKind::Sub, back, 1.0, back));
  NPU_TRY(c.where(inside, back, place, out));
  ValueId &slow = time_first ? out : sequence;
  NPU_TRY(c.binary(BinaryKind::Mul, slow, static_cast<double>(time_first ? sequences : places), slow));
  NPU_TRY(c.binary(BinaryKind::Add, out, sequence, out));
  return c.reshape(out, {places * sequences}, out);
}

Status reverse_sequence(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  const int64_t time = c.attr_i("time_axis", 0), batch = c.attr_i("batch_axis", 1);
  const Shape x = c.shape(0);
  if (x.size() < 2 || std::min(time, batch) != 0 || std::max(time, batch) != 1)
    return Status::error("time_axis " + std::to_string(time) + " and batch_axis " + std::to_string(batch) +
                         " of input " + shape_text(x) + ", the first two axes were expected");
  const int64_t places = x[static_cast<size_t>(time)], sequences = x[static_cast<size_t>(batch)];
  if (c.shape(1) != Shape{sequences})
    return Status::error("sequence_lens is " + shape_text(c.shape(1)) + ", expected " + shape_text({sequences}));
  c.results[0] = c.in(0);
  if (element_count(x) == 0) return {};
  ValueId rows, y;
  NPU_TRY(reversed_rows(c, time == 0, places, sequences, c.in(1), rows));
  Shape flat(x.begin() + 1, x.end());
  flat[0] = places * sequences;
  NPU_TRY(c.reshape(c.in(0), flat, y));
  NPU_TRY(c.gather(0, y, rows, y));
  return c.reshape(y, x, c.results[0]);
}

/// Zeros on one side of a diagonal of the last two axes.
Status trilu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  if (c.rank(0) < 2) return Status::error("input " + shape_text(c.shape(0)) + " has no matrices");
  c.results[0] = c.in(0);
  if (element_count(c.shape(0)) == 0) return {};
  ValueId row, column;
  NPU_TRY(iota(c, {c.shape(0).end()[-2], 1}, row));
  NPU_TRY(iota(c, {c.shape(0).back()}, column));
  ValueId k = c.scalar(0, Dtype::I64), diagonal, keep;
  if (c.has_input(1)) {
    NPU_TRY(one_number(c, 1, "k", k));
    NPU_TRY(c.cast(k, Dtype::I64, k));
  }
  NPU_TRY(c.binary(BinaryKind::Sub, column, row, diagonal));
  const bool upper = c.attr_i("upper", 1) != 0;
  NPU_TRY(c.binary(BinaryKind::LessOrEqual, upper ? k : diagonal, upper ? diagonal : k, keep));
  return c.where(keep, c.in(0), c.scalar_like(c.in(0), 0), c.results[0]);
}

// Placing.

Status reduction_of(const OpContext &c, Reduction &out) {
  struct Name {
    const char *name;
    Reduction reduction;
    int64_t since;
  };
  constexpr Name kNames[] = {{"none", Reduction::None, 1},
                             {"add", Reduction::Add, 16},
                             {"mul", Reduction::Mul, 16},
                             {"max", Reduction::Max, 18},
                             {"min", Reduction::Min, 18}};
  const std::string given = c.attr_s("reduction", "none");
  for (const Name &n : kNames)
    if (given == n.name && c.opset >= n.since) {
      out = n.reduction;
      return {};
    }
  return Status::error("reduction '" + given + "' is not known in operator set " + std::to_string(c.opset));
}

Status scatter_elements(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  ScatterAttrs attrs;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), attrs.axis));
  NPU_TRY(reduction_of(c, attrs.reduction));
  return c.emit(Op::ScatterElements, {c.in(0), c.in(1), c.in(2)}, attrs, c.results[0]);
}

Status scatter_nd(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  ScatterAttrs attrs;
  NPU_TRY(reduction_of(c, attrs.reduction));
  return c.emit(Op::ScatterNd, {c.in(0), c.in(1), c.in(2)}, attrs, c.results[0]);
}

/// Rows of operand 1 take the places in operand 0 from operand 2 on, which names one place for each picture; without it
/// they are the first. In a circle the place behind the last is the first.
Status tensor_scatter(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", -2), c.rank(0), axis));
  const std::string mode = c.attr_s("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return Status::error("mode is '" + mode + "', 'linear' or 'circular' was expected");
  const auto d = static_cast<size_t>(axis);
  const Shape cache = c.shape(0), update = c.shape(1);
  Shape expected = cache;
  if (d < update.size()) expected[d] = update[d];
  if (axis == 0 || update != expected || update[d] > cache[d])
    return Status::error("an update " + shape_text(update) + " does not fit a cache " + shape_text(cache) +
                         " along axis " + std::to_string(axis));
  if (!c.has_input(2)) {
    ValueId rest;
    NPU_TRY(c.slice(c.in(0), axis, update[d], cache[d] - update[d], rest));
    return update[d] == cache[d] ? (c.results[0] = c.in(1), Status()) : c.concat(axis, {c.in(1), rest}, c.results[0]);
  }
  if (c.shape(2) != Shape{cache[0]})
    return Status::error("write_indices are " + shape_text(c.shape(2)) + ", one for each of " +
                         std::to_string(cache[0]) + " was expected");
  Shape first(cache.size(), 1), steps(cache.size(), 1);
  first[0] = cache[0];
  steps[d] = update[d];
  ValueId at, places;
  NPU_TRY(c.reshape(c.in(2), first, at));
  NPU_TRY(c.cast(at, Dtype::I64, at));
  NPU_TRY(iota(c, steps, places));
  NPU_TRY(c.binary(BinaryKind::Add, at, places, places));
  if (mode == "circular") NPU_TRY(c.binary(BinaryKind::Mod, places, static_cast<double>(cache[d]), places));
  NPU_TRY(c.expand(places, update, places));
  return c.emit(Op::ScatterElements, {c.in(0), places, c.in(1)}, ScatterAttrs{axis}, c.results[0]);
}

/// Index i counts from the end where it is negative: i or i + depth is the place. Outside of both nothing is set.
Status one_hot(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  NPU_TRY(need_constant(c, 1));
  ValueId places, index, off, on, hit, hit_from_end;
  NPU_TRY(one_number(c, 1, "depth", places));
  NPU_TRY(c.cast(places, Dtype::I64, places));
  const int64_t depth = *c.graph[places].constant->as<int64_t>();
  if (depth < 0 || depth > kMaxElements) return Status::error("depth is " + std::to_string(depth));
  if (c.shape(2) != Shape{2}) return Status::error("values are " + shape_text(c.shape(2)) + ", two were expected");
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", -1), c.rank(0) + 1, axis));
  Shape shape = c.shape(0), steps(c.shape(0).size() + 1 - static_cast<size_t>(axis), 1);
  shape.insert(shape.begin() + axis, 1);
  steps[0] = depth;
  NPU_TRY(c.cast(c.in(0), Dtype::I64, index));
  NPU_TRY(c.reshape(index, shape, index));
  NPU_TRY(iota(c, steps, places));
  NPU_TRY(c.binary(BinaryKind::Equal, index, places, hit));
  NPU_TRY(c.binary(BinaryKind::Sub, places, static_cast<double>(depth), places));
  NPU_TRY(c.binary(BinaryKind::Equal, index, places, hit_from_end));
  NPU_TRY(c.binary(BinaryKind::Or, hit, hit_from_end, hit));
  NPU_TRY(c.slice(c.in(2), 0, 0, 1, off));
  NPU_TRY(c.slice(c.in(2), 0, 1, 1, on));
  return c.where(hit, on, off, c.results[0]);
}

// Making.

Status size(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  c.results[0] = c.scalar(static_cast<double>(element_count(c.shape(0))), Dtype::I64);
  return {};
}

Status eye_like(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const int64_t given = c.attr_i("dtype", static_cast<int64_t>(c.value(0).dtype)), k = c.attr_i("k", 0);
  const Dtype type = given < 0 || given > 255 ? Dtype::Undefined : working_type(static_cast<Dtype>(given));
  if (dtype_bytes(type) == 0) return Status::error("dtype " + std::to_string(given) + " is not supported");
  if (c.rank(0) != 2) return Status::error("input " + shape_text(c.shape(0)) + " is not a matrix");
  auto tensor = std::make_shared<Tensor>(type, c.shape(0));
  const int64_t rows = c.shape(0)[0], columns = c.shape(0)[1];
  // The lengths are small against what k may be.
  for (int64_t i = 0; i < rows && k > -rows && k < columns; ++i)
    if (i + k >= 0 && i + k < columns) cpu::store(*tensor, i * columns + i + k, 1);
  c.results[0] = c.constant(std::move(tensor));
  return {};
}

/// How many numbers from `start` on, `delta` apart, lie in front of `limit`; -1: too many, or none can be told.
int64_t range_count(const Tensor &start, const Tensor &limit, const Tensor &delta) {
  if (!cpu::is_integer(start.dtype)) {
    const double step = cpu::load(delta, 0), n = std::ceil((cpu::load(limit, 0) - cpu::load(start, 0)) / step);
    return step != 0 && n <= static_cast<double>(kMaxElements) ? static_cast<int64_t>(std::max(n, 0.0)) : -1;
  }
  const int64_t from = cpu::load_integer(start, 0), to = cpu::load_integer(limit, 0);
  const int64_t step = cpu::load_integer(delta, 0);
  if (step == 0) return -1;
  if (step > 0 ? from >= to : from <= to) return 0;
  const auto bits = [](int64_t v) { return static_cast<uint64_t>(v); };
  const uint64_t span = step > 0 ? bits(to) - bits(from) : bits(from) - bits(to);
  const uint64_t n = (span - 1) / (step > 0 ? bits(step) : 0 - bits(step)) + 1;
  return n <= static_cast<uint64_t>(kMaxElements) ? static_cast<int64_t>(n) : -1;
}

Status range(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  ValueId operands[3], y;
  constexpr const char *kNames[] = {"start", "limit", "delta"};
  for (size_t k = 0; k < 3; ++k) {
    NPU_TRY(need_constant(c, k));
    NPU_TRY(one_number(c, k, kNames[k], operands[k]));
    if (c.value(k).dtype != c.value(0).dtype) return Status::error("start, limit and delta differ in type");
  }
  const int64_t count = range_count(*c.value(0).constant, *c.value(1).constant, *c.value(2).constant);
  if (count < 0)
    return Status::error("delta is 0 or not a number, or there are more than " + std::to_string(kMaxElements) +
                         " elements");
  NPU_TRY(iota(c, {count}, y));
  NPU_TRY(c.cast(y, c.value(0).dtype, y));
  NPU_TRY(c.binary(BinaryKind::Mul, y, operands[2], y));
  return c.binary(BinaryKind::Add, y, operands[0], c.results[0]);
}

/// A column for each element that is not 0.
Status non_zero(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(need_constant(c, 0));
  const TensorPtr x = c.value(0).constant;
  const Shape shape{c.rank(0), x->count()};
  if (element_count(shape) < 0)
    return refuse(Obstacle::Size,
                  "input " + shape_text(x->shape) + " may have more than " + std::to_string(kMaxElements) + " indices");
  auto positions = std::make_shared<Tensor>(Dtype::I64, shape);
  Tensor number(Dtype::I64, {1});
  cpu::nonzero(*x, *positions, number);
  return c.slice(c.constant(std::move(positions)), 1, 0, *number.as<int64_t>(), c.results[0]);
}

/// The classes of equal rows: where each begins, of which class every row is, and how many rows a class has.
struct Classes {
  std::vector<int64_t> first, of_row, count;
};

/// -1, 0, 1; NaN is behind everything and equal to itself.
template <class T>
int compare(const T *a, const T *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool a_is_nan = a[i] != a[i], b_is_nan = b[i] != b[i];
    if (a_is_nan != b_is_nan) return a_is_nan ? 1 : -1;
    if (a[i] < b[i] || a[i] > b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

/// `compared` is compare() of two rows, whatever their type.
Classes classify(int64_t rows, bool sorted, const std::function<int(int64_t, int64_t)> &compared) {
  std::vector<int64_t> order(static_cast<size_t>(rows)), number(order.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compared(a, b) < 0; });
  Classes out;
  out.of_row.resize(order.size());
  // Of equal rows the first comes first: it stands for its class.
  int64_t first = -1;
  for (const int64_t row : order) {
    if (first < 0 || compared(first, row) != 0) {
      first = row;
      out.first.push_back(row);
    }
    out.of_row[static_cast<size_t>(row)] = first;
  }
  if (!sorted) std::sort(out.first.begin(), out.first.end());
  for (size_t i = 0; i < out.first.size(); ++i) number[static_cast<size_t>(out.first[i])] = static_cast<int64_t>(i);
  out.count.resize(out.first.size());
  for (int64_t &v : out.of_row) {
    v = number[static_cast<size_t>(v)];
    ++out.count[static_cast<size_t>(v)];
  }
  return out;
}

/// Without an axis of the elements of the flat input.
Status unique(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(need_constant(c, 0));
  int axis = 0;
  ValueId x = c.in(0), rows;
  if (c.has("axis"))
    NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis));
  else
    NPU_TRY(c.reshape(x, {element_count(c.shape(0))}, x));
  std::vector<int> perm(c.graph[x].shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
  NPU_TRY(c.transpose(x, perm, rows));
  const Tensor &t = *c.graph[rows].constant;
  const int64_t n = t.shape[0], width = n ? t.count() / n : 0;
  const bool sorted = c.attr_i("sorted", 1) != 0;
  const Classes classes = cpu::with_number(t.dtype, [&](auto type) {
    const auto *data = t.as<decltype(type)>();
    return classify(n, sorted,
                    [=](int64_t a, int64_t b) { return compare(data + a * width, data + b * width, width); });
  });
  const std::vector<int64_t> *lists[] = {&classes.first, &classes.of_row, &classes.count};
  for (size_t k = 0; k < 3; ++k)
    if (c.wants_output(k + 1)) c.results[k + 1] = c.constant(make_i64(*lists[k]));
  return c.gather(axis, x, c.constant(make_i64(classes.first)), c.results[0]);
}

/// Optional operands of one number each.
Status nms_limits(const OpContext &c, int64_t &per_class, cpu::NmsAttrs &attrs) {
  std::vector<int64_t> most{0};
  std::vector<float> iou{0}, score{-std::numeric_limits<float>::infinity()};
  if (c.has_input(2)) NPU_TRY(c.const_ints(2, "max_output_boxes_per_class", most));
  if (c.has_input(3)) NPU_TRY(c.const_floats(3, "iou_threshold", iou));
  if (c.has_input(4)) NPU_TRY(c.const_floats(4, "score_threshold", score));
  if (most.size() != 1 || iou.size() != 1 || score.size() != 1)
    return Status::error("max_output_boxes_per_class or a threshold is not one number");
  per_class = std::max<int64_t>(most[0], 0);
  attrs.iou = iou[0];
  attrs.score = score[0];
  return {};
}

/// Rows of batch, class and box. No boxes at all where no number of them is given.
Status non_max_suppression(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 5));
  for (size_t k = 0; k < c.input_count(); ++k)
    if (c.has_input(k)) NPU_TRY(need_constant(c, k));
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.size() != 3 || scores.size() != 3 || boxes[2] != 4 || boxes[0] != scores[0] || boxes[1] != scores[2])
    return Status::error("boxes " + shape_text(boxes) + " and scores " + shape_text(scores) + " do not fit");
  cpu::NmsAttrs attrs;
  int64_t per_class = 0;
  NPU_TRY(nms_limits(c, per_class, attrs));
  per_class = std::min(per_class, boxes[1]);
  attrs.center = c.attr_i("center_point_box", 0) != 0;
  attrs.per_class = static_cast<uint32_t>(per_class);
  const Shape most{scores[0] * scores[1] * per_class, 3};
  if (element_count(most) < 0) return refuse(Obstacle::Size, "its result may be as large as " + shape_text(most));
  auto selected = std::make_shared<Tensor>(Dtype::I64, most);
  Tensor number(Dtype::I64, {1});
  if (per_class) cpu::nms(attrs, *c.value(0).constant, *c.value(1).constant, *selected, number);
  return c.slice(c.constant(std::move(selected)), 0, 0, *number.as<int64_t>(), c.results[0]);
}

constexpr OpEntry kIndexOps[] = {
    {"Compress", compress},
    {"EyeLike", eye_like},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero},
    {"OneHot", one_hot},
    {"Range", range},
    {"ReverseSequence", reverse_sequence},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Size", size},
    {"TensorScatter", tensor_scatter},
    {"Trilu", trilu},
    {"Unique", unique},
};

}  // namespace

std::span<const OpEntry> index_ops() { return kIndexOps; }

}  // namespace npu::graph
