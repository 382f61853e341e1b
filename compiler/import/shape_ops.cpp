// SPDX-License-Identifier: MIT
// Operators that only rename elements, or their type: constants, reshapes, transposes, conversions.
#include <algorithm>
#include <iterator>

#include "compiler/import/narrow.h"
#include "compiler/import/node_order.h"
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

Status constant(OpContext &c) {
  TensorPtr value;
  for (const auto &[name, a] : c.node.attributes) {
    if (name == "value" && a.tensor)
      value = working_tensor(a.tensor, "the value of " + node_title(c.node), c.graph);
    else if (name == "value_float" && a.f)
      value = make_scalar(*a.f);
    else if (name == "value_floats")
      value = make_f32({static_cast<int64_t>(a.floats.size())}, a.floats);
    else if (name == "value_ints")
      value = make_i64(a.ints);
    else if (name == "value_string" || name == "value_strings")
      return refuse(Obstacle::Type, "its value is text, tensors of numbers are supported");
    else if (name == "value_int" && a.i) {
      auto scalar = std::make_shared<Tensor>(Dtype::I64, Shape{});
      *scalar->as<int64_t>() = *a.i;
      value = std::move(scalar);
    }
  }
  if (!value) return Status::error("it has none of the attributes value, value_float(s), value_int(s)");
  if (dtype_bytes(value->dtype) == 0 && narrow_bits(value->dtype) == 0)
    return refuse(Obstacle::Type,
                  std::string("its value is of ") + dtype_name(value->dtype) + ", tensors of numbers are supported");
  c.results[0] = c.constant(std::move(value));
  return {};
}

Status identity(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  c.results[0] = c.in(0);
  return {};
}

/// Training with ratio 0 drops nothing either. The mask is of numbers before operator set 10.
Status dropout(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 3));
  if (c.has_input(2)) {
    std::vector<int64_t> training;
    std::vector<float> ratio{0.5f};
    NPU_TRY(c.const_ints(2, "training_mode", training));
    if (training.size() != 1) return Status::error("training_mode is not one truth value");
    if (training[0] && c.has_input(1)) NPU_TRY(c.const_floats(1, "ratio", ratio));
    if (training[0] && (ratio.size() != 1 || ratio[0] != 0))
      return refuse(Obstacle::Form, "training mode is not inference: it drops elements at random");
  }
  c.results[0] = c.in(0);
  if (!c.wants_output(1)) return {};
  return c.expand(c.scalar(1, c.opset < 10 ? Dtype::F32 : Dtype::Bool), c.shape(0), c.results[1]);
}

Status flatten(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 1), c.rank(0), axis, true));
  const Shape &x = c.shape(0);
  return c.reshape(c.in(0),
                   {element_count(Shape(x.begin(), x.begin() + axis)), element_count(Shape(x.begin() + axis, x.end()))},
                   c.results[0]);
}

Status reshape(OpContext &c) {
  NPU_TRY(c.need_inputs(c.opset < 5 ? 1 : 2, c.opset < 5 ? 1 : 2));
  Shape wanted = c.attr_ints("shape");
  if (c.opset >= 5) NPU_TRY(c.const_ints(1, "shape", wanted));
  const Shape &x = c.shape(0);
  const bool keep_zero = c.attr_i("allowzero", 0) != 0;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && !keep_zero) {
      if (i >= x.size())
        return Status::error("shape entry " + std::to_string(i) + " copies a dimension that input " + shape_text(x) +
                             " does not have");
      wanted[i] = x[i];
    }
    if (wanted[i] == -1 && open < 0)
      open = static_cast<int64_t>(i);
    else if (wanted[i] < 0 || __builtin_mul_overflow(known, wanted[i], &known))
      return Status::error("shape " + shape_text(wanted) + " is not valid");
  }
  if (open >= 0) {
    if (known == 0 || element_count(x) % known)
      return Status::error("cannot reshape " + shape_text(x) + " to " + shape_text(wanted));
    wanted[static_cast<size_t>(open)] = element_count(x) / known;
  }
  return c.reshape(c.in(0), wanted, c.results[0]);
}

Status squeeze(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  std::vector<int64_t> axes = c.attr_ints("axes");
  if (c.has_input(1)) NPU_TRY(c.const_ints(1, "axes", axes));
  const Shape &x = c.shape(0);
  std::vector<bool> drop(x.size(), !c.has_input(1) && axes.empty());
  for (int64_t a : axes) {
    int axis;
    NPU_TRY(c.axis(a, c.rank(0), axis));
    if (x[static_cast<size_t>(axis)] != 1)
      return Status::error("dimension " + std::to_string(axis) + " of " + shape_text(x) + " is not 1");
    drop[static_cast<size_t>(axis)] = true;
  }
  Shape out;
  for (size_t i = 0; i < x.size(); ++i)
    if (!drop[i] || x[i] != 1) out.push_back(x[i]);
  return c.reshape(c.in(0), out, c.results[0]);
}

Status unsqueeze(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 2));
  std::vector<int64_t> axes = c.attr_ints("axes");
  if (c.has_input(1)) NPU_TRY(c.const_ints(1, "axes", axes));
  const size_t rank = c.shape(0).size() + axes.size();
  std::vector<bool> added(rank);
  for (int64_t a : axes) {
    int axis;
    NPU_TRY(c.axis(a, static_cast<int64_t>(rank), axis));
    if (added[static_cast<size_t>(axis)]) return Status::error("axis " + std::to_string(a) + " is named twice");
    added[static_cast<size_t>(axis)] = true;
  }
  Shape out;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) out.push_back(added[i] ? 1 : c.shape(0)[next++]);
  return c.reshape(c.in(0), out, c.results[0]);
}

Status transpose(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const std::vector<int64_t> given = c.attr_ints("perm");
  std::vector<int> perm;
  for (int64_t i = c.rank(0); i-- > 0 && given.empty();) perm.push_back(static_cast<int>(i));
  for (int64_t p : given) perm.push_back(p < 0 || p >= c.rank(0) ? -1 : static_cast<int>(p));
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int>(i) || sorted.size() != c.shape(0).size())
      return Status::error("perm " + shape_text(given) + " is not a permutation of the dimensions of " +
                           shape_text(c.shape(0)));
  return c.transpose(c.in(0), perm, c.results[0]);
}

Status shape_of(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape &x = c.shape(0);
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + c.rank(0) : v, 0, c.rank(0)); };
  const int64_t start = clamp(c.attr_i("start", 0)), end = clamp(c.attr_i("end", c.rank(0)));
  c.results[0] = c.constant(make_i64(start < end ? Shape(x.begin() + start, x.begin() + end) : Shape{}));
  return {};
}

/// All floating-point types are float32 here.
Status cast_to(OpContext &c, Dtype to) { return c.cast(c.in(0), working_type(to), c.results[0]); }

/// Types by their numbers, as operator sets below 6 name them.
constexpr std::string_view kTypeNames[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                           "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};

Status cast(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  int64_t to = c.attr_i("to", 0);
  if (c.opset < 6)
    to = std::find(std::begin(kTypeNames), std::end(kTypeNames), c.attr_s("to", "")) - std::begin(kTypeNames);
  if (to > 0 && to < 32 && dtype_bytes(static_cast<Dtype>(to))) return cast_to(c, static_cast<Dtype>(to));
  if (to == static_cast<int64_t>(Dtype::String)) return refuse(Obstacle::Type, "cannot cast to text");
  if (c.opset < 6) return refuse(Obstacle::Type, "cannot cast to type '" + c.attr_s("to", "") + "'");
  const Dtype type = to > 0 && to < 256 ? static_cast<Dtype>(to) : Dtype::Undefined;
  return refuse(Obstacle::Type,
                "cannot cast to " + std::string(dtype_name(type)) + " (type " + std::to_string(to) + ")");
}

Status cast_like(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  return cast_to(c, c.value(1).dtype);
}

Status constant_of_shape(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  Shape shape;
  NPU_TRY(c.const_ints(0, "shape", shape));
  if (element_count(shape) < 0) return Status::error("shape " + shape_text(shape) + " is negative or too large");
  TensorPtr value = make_scalar(0);
  const auto it = c.node.attributes.find("value");
  if (it != c.node.attributes.end() && it->second.tensor)
    value = working_tensor(it->second.tensor, "the value of " + node_title(c.node), c.graph);
  if (value->count() != 1 || dtype_bytes(value->dtype) == 0) return Status::error("value is not one number");
  ValueId y;
  NPU_TRY(c.reshape(c.constant(value), {}, y));
  return c.expand(y, shape, c.results[0]);
}

/// [n, c, h, w] with blocks of b * b channels spread over the picture, or gathered from it.
Status depth_to_space(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape x = c.shape(0);
  const int64_t b = c.attr_i("blocksize", 0);
  if (x.size() != 4 || b < 1 || b > 4096 || x[1] % (b * b))
    return Status::error("blocksize " + std::to_string(b) + " does not fit input " + shape_text(x));
  const int64_t depth = x[1] / (b * b);
  const std::string mode = c.attr_s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return Status::error("mode '" + mode + "' is not known");
  const bool columns_first = mode == "CRD";
  ValueId y;
  NPU_TRY(c.reshape(c.in(0),
                    columns_first ? Shape{x[0], depth, b, b, x[2], x[3]} : Shape{x[0], b, b, depth, x[2], x[3]}, y));
  const std::vector<int> perm = columns_first ? std::vector<int>{0, 1, 4, 2, 5, 3} : std::vector<int>{0, 3, 4, 1, 5, 2};
  NPU_TRY(c.emit(Op::Transpose, {y}, TransposeAttrs{perm}, y));
  return c.reshape(y, {x[0], depth, x[2] * b, x[3] * b}, c.results[0]);
}

Status space_to_depth(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape x = c.shape(0);
  const int64_t b = c.attr_i("blocksize", 0);
  if (x.size() != 4 || b < 1 || b > 4096 || x[2] % b || x[3] % b)
    return Status::error("blocksize " + std::to_string(b) + " does not fit input " + shape_text(x));
  ValueId y;
  NPU_TRY(c.reshape(c.in(0), {x[0], x[1], x[2] / b, b, x[3] / b, b}, y));
  NPU_TRY(c.emit(Op::Transpose, {y}, TransposeAttrs{{0, 3, 5, 1, 2, 4}}, y));
  return c.reshape(y, {x[0], x[1] * b * b, x[2] / b, x[3] / b}, c.results[0]);
}

constexpr OpEntry kShapeOps[] = {
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", depth_to_space},
    {"Dropout", dropout},
    {"Flatten", flatten},
    {"Identity", identity},
    {"Reshape", reshape},
    {"Shape", shape_of},
    {"SpaceToDepth", space_to_depth},
    {"Squeeze", squeeze},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const OpEntry> shape_ops() { return kShapeOps; }

}  // namespace npu::graph
