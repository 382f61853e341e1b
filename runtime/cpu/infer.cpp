// SPDX-License-Identifier: MIT
// What each operator takes and makes. Attributes and shapes may come from a file that somebody has tampered with:
// nothing is taken for granted, and no sum overflows.
#include <algorithm>
#include <iterator>

#include "runtime/cpu/element.h"
#include "runtime/cpu/infer_checks.h"
#include "runtime/cpu/names.h"
#include "runtime/cpu/plugin.h"

namespace npu::cpu {
namespace {

using Operands = OperandKinds;

/// More dimensions than any network has: gathering by indices adds up those of its operands.
constexpr size_t kMaxRank = 64;

Status mismatch(const std::string &what) { return Status::error(what); }

// Parts of checks.

Status check_kind(const std::string &what, const TensorKind &kind) {
  if (dtype_bytes(kind.dtype) == 0) return mismatch(what + " has an element type that is not supported");
  if (kind.shape.size() > kMaxRank)
    return mismatch(what + " has " + std::to_string(kind.shape.size()) + " dimensions, " + std::to_string(kMaxRank) +
                    " are supported");
  if (element_count(kind.shape) >= 0) return {};
  if (*std::min_element(kind.shape.begin(), kind.shape.end()) < 0)
    return mismatch(what + " " + shape_text(kind.shape) + " has a negative dimension");
  return mismatch(what + " " + shape_text(kind.shape) + " has more than " + std::to_string(kMaxElements) + " elements");
}

Status check_axis(int axis, const Shape &x) {
  return axis >= 0 && static_cast<size_t>(axis) < x.size()
             ? Status()
             : mismatch("axis " + std::to_string(axis) + " is outside " + shape_text(x));
}

/// Integers, not bool.
bool counts(Dtype type) { return is_integer(type) && type != Dtype::Bool; }
bool is_number(Dtype type) { return type == Dtype::F32 || counts(type); }
bool is_index(Dtype type) { return type == Dtype::I32 || type == Dtype::I64; }
bool is_signed(Dtype type) {
  return type == Dtype::I8 || type == Dtype::I16 || type == Dtype::I32 || type == Dtype::I64;
}

Status check_f32(const char *what, Dtype type) { return check_type(type == Dtype::F32, what, type, "float32"); }
Status check_real(const char *what, Dtype type) { return check_type(is_real(type), what, type, kReals); }

Status check_indices(const TensorKind &indices) {
  return check_type(is_index(indices.dtype), "the operand of indices", indices.dtype, "int32, int64");
}

Status check_equal_types(const TensorKind &a, const TensorKind &b) {
  return a.dtype == b.dtype ? Status()
                            : Status::error(kWrongType, std::string("operands of different types, ") +
                                                            dtype_name(a.dtype) + " and " + dtype_name(b.dtype));
}

Status broadcast(const Shape &a, const Shape &b, Shape &out) {
  return broadcast_shapes(a, b, out)
             ? Status()
             : mismatch("operands " + shape_text(a) + " and " + shape_text(b) + " do not broadcast");
}

// Windows.

/// Output size of one spatial dimension of a convolution or pooling, without ceil_mode: the importer puts what that
/// adds into the padding.
int64_t window_places(const Window &w, int i, int64_t size) {
  const int64_t span = size + w.begin[i] + w.end[i] - w.extent(i);
  return span < 0 ? 0 : span / w.stride[i] + 1;
}

constexpr int64_t kMaxPadding = 1 << 28;

Status check_window(const Window &w, const Shape &x) {
  if (x.size() != 3 && x.size() != 4)
    return mismatch("input " + shape_text(x) + " has " + std::to_string(static_cast<int64_t>(x.size()) - 2) +
                    " spatial dimensions, 1 or 2 are supported");
  for (size_t i = 0; i < 2; ++i) {
    for (int64_t f : {w.kernel[i], w.stride[i], w.dilation[i]})
      if (f < 1 || f > 65535)
        return mismatch("kernel, stride or dilation " + std::to_string(f) + " is outside 1 to 65535");
    for (int64_t p : {w.begin[i], w.end[i]})
      if (p < -kMaxPadding || p > kMaxPadding) return mismatch("padding " + std::to_string(p) + " is out of range");
  }
  if (x.size() == 3 && (w.kernel[1] != 1 || w.stride[1] != 1 || w.begin[1] || w.end[1]))
    return mismatch("a window over two dimensions for input " + shape_text(x));
  return {};
}

Status window_output(const Window &w, const Shape &x, int64_t channels, Shape &out) {
  out = {x[0], channels};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t places = window_places(w, static_cast<int>(i), x[i + 2]);
    if (places < 1)
      return mismatch("a window of " + std::to_string(w.extent(static_cast<int>(i))) +
                      " does not fit spatial dimension " + std::to_string(i) + " of input " + shape_text(x));
    out.push_back(places);
  }
  return {};
}

/// Each window of a dimension sees an element.
Status check_sight(const Window &w, size_t d, int64_t size, int64_t places) {
  // Windows that begin in front of the data, and the last one; the others see the cell they begin at. How far into the
  // data their first cells lie comes again after `dilation` windows.
  const int64_t last = places - 1, early = std::min({last, w.begin[d] / w.stride[d], w.dilation[d]});
  for (int64_t o = 0; o <= last; o = o < early ? o + 1 : (o < last ? last : last + 1)) {
    const int64_t start = o * w.stride[d] - w.begin[d];
    const int64_t tap = start >= 0 ? 0 : (-start + w.dilation[d] - 1) / w.dilation[d];
    if (tap >= w.kernel[d] || start + tap * w.dilation[d] >= size)
      return mismatch("window " + std::to_string(o) + " of spatial dimension " + std::to_string(d) +
                      " sees nothing but padding");
  }
  return {};
}

Status infer_pooling(const Window &w, const TensorKind &x, TensorKind &out) {
  NPU_TRY(check_window(w, x.shape));
  for (size_t d = 0; d < 2; ++d)
    if (w.begin[d] < 0 || w.end[d] < 0) return mismatch("negative padding of a pooling");
  NPU_TRY(window_output(w, x.shape, x.shape[1], out.shape));
  for (size_t d = 0; d + 2 < x.shape.size(); ++d) NPU_TRY(check_sight(w, d, x.shape[d + 2], out.shape[d + 2]));
  return {};
}

Status infer_pool(const PoolAttrs &attrs, Operands in, TensorKind &out) {
  for (int64_t p : attrs.counted_end)
    if (p < 0 || p > kMaxPadding) return mismatch("counted padding " + std::to_string(p) + " is out of range");
  const Dtype type = in[0]->dtype;
  if (is_quantized(attrs)) {
    if (attrs.max) return mismatch("a maximum has no scales");
    NPU_TRY(check_quant("the input", attrs.in, type));
    NPU_TRY(check_quant("the result", attrs.out, attrs.out_type));
    out.dtype = attrs.out_type;
  } else {
    const bool fits = is_real(type) || (attrs.max && is_byte(type));
    NPU_TRY(check_type(fits, "the input", type, attrs.max ? "float32, float16, bfloat16, int8, uint8" : kReals));
    NPU_TRY(check_no_quant(std::array{attrs.in, attrs.out}, attrs.out_type));
    if (is_real(type)) out.dtype = attrs.out_type;
  }
  return infer_pooling(attrs.window, *in[0], out);
}

Status infer_pool_indices(const PoolIndicesAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_f32("the input", in[0]->dtype));
  NPU_TRY(infer_pooling(attrs.window, *in[0], out));
  out.dtype = Dtype::I64;
  return {};
}

/// A vector with one number for each channel or column.
Status check_bias(Operands in, int64_t length) {
  if (in.size() < 3 || !in[2]) return {};
  return in[2]->shape == Shape{length}
             ? Status()
             : mismatch("bias " + shape_text(in[2]->shape) + " does not have " + std::to_string(length) + " elements");
}

/// Products of other types than those that ProductQuant has.
Status check_plain_product(const ProductQuant &quant, const Activation &act, Operands in, Dtype &out) {
  if (quant != ProductQuant{.out = quant.out}) return mismatch("parameters of a quantized product that is none");
  if (in.size() > 3 && in[3]) return mismatch("a multiplier of a product that is not quantized");
  const bool real = is_real(in[0]->dtype), bias = in.size() > 2 && in[2];
  NPU_TRY(check_real("the result", quant.out));
  if (!real) NPU_TRY(check_equal_types(*in[0], *in[1]));
  if (!real && bias) NPU_TRY(check_equal_types(*in[0], *in[2]));
  if (real) NPU_TRY(check_real("operand 1", in[1]->dtype));
  if (real && bias) NPU_TRY(check_f32("the bias", in[2]->dtype));
  if (real) out = quant.out;
  return check_fused(act, real ? Dtype::F32 : in[0]->dtype);
}

Status check_float_conv(const ConvAttrs &attrs, Operands in, Dtype &out) {
  NPU_TRY(check_real("the input", in[0]->dtype));
  return check_plain_product(attrs.quant, attrs.act, in, out);
}

Status infer_conv(const ConvAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  if (attrs.quant.on)
    NPU_TRY(check_product(attrs.quant, attrs.act, in, w.empty() ? 0 : w[0], out.dtype));
  else
    NPU_TRY(check_float_conv(attrs, in, out.dtype));
  NPU_TRY(check_window(attrs.window, x));
  if (w.size() != x.size()) return mismatch("weights " + shape_text(w) + " do not fit input " + shape_text(x));
  if (attrs.groups < 1 || x[1] % attrs.groups || w[0] % attrs.groups || w[1] != x[1] / attrs.groups)
    return mismatch("input " + shape_text(x) + ", weights " + shape_text(w) + " and group " +
                    std::to_string(attrs.groups) + " do not fit");
  for (size_t i = 2; i < w.size(); ++i)
    if (w[i] != attrs.window.kernel[i - 2]) return mismatch("kernel_shape differs from weights " + shape_text(w));
  NPU_TRY(check_bias(in, w[0]));
  return window_output(attrs.window, x, w[0], out.shape);
}

// Arithmetic.

Status infer_matmul(const MatMulAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &a = in[0]->shape, &b = in[1]->shape;
  const Dtype type = in[0]->dtype;
  if (attrs.quant.on) {
    NPU_TRY(check_product(attrs.quant, attrs.act, in, b.empty() ? 0 : b.back(), out.dtype));
  } else {
    NPU_TRY(check_type(is_real(type) || is_index(type) || type == Dtype::U32 || type == Dtype::U64, "an operand", type,
                       "float32, float16, bfloat16, int32, int64, uint32, uint64"));
    NPU_TRY(check_plain_product(attrs.quant, attrs.act, in, out.dtype));
  }
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2])
    return mismatch("operands " + shape_text(a) + " and " + shape_text(b) + " cannot be multiplied");
  NPU_TRY(check_bias(in, b.back()));
  if (!broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2), out.shape))
    return mismatch("operands " + shape_text(a) + " and " + shape_text(b) + " do not broadcast");
  out.shape.push_back(a[a.size() - 2]);
  out.shape.push_back(b.back());
  return {};
}

bool is_comparison(BinaryKind kind) {
  return kind == BinaryKind::Equal || kind == BinaryKind::Less || kind == BinaryKind::LessOrEqual;
}

Status check_binary_types(BinaryKind kind, const TensorKind &a, const TensorKind &b) {
  const auto check = [&](bool fits, const char *supported) {
    return check_type(fits, "an operand", a.dtype, supported);
  };
  switch (kind) {
    case BinaryKind::And:
    case BinaryKind::Or:
    case BinaryKind::Xor:
      return check(is_integer(a.dtype), "bool, integers");
    case BinaryKind::ShiftLeft:
    case BinaryKind::ShiftRight:
      return check(counts(a.dtype), "integers");
    case BinaryKind::Pow:
      NPU_TRY(check_type(is_number(b.dtype), "the exponent", b.dtype, "float32, integers"));
      return check(is_number(a.dtype), "float32, integers");
    case BinaryKind::Equal:
    case BinaryKind::Less:
    case BinaryKind::LessOrEqual:
      return check(is_number(a.dtype) || a.dtype == Dtype::Bool, "float32, integers, bool");
    case BinaryKind::Add:
    case BinaryKind::Sub:
    case BinaryKind::Mul:
    case BinaryKind::Div:
    case BinaryKind::Max:
    case BinaryKind::Min:
    case BinaryKind::Mod:
    case BinaryKind::Fmod:
      break;
  }
  return check(is_number(a.dtype), "float32, integers");
}

Status infer_quantized_binary(const BinaryAttrs &attrs, Operands in, TensorKind &out) {
  if (static_cast<int>(attrs.kind) >= kFirstHostBinary)
    return mismatch("function " + std::to_string(static_cast<int>(attrs.kind)) + " does not work on quantized numbers");
  NPU_TRY(check_quant("operand 0", attrs.a, in[0]->dtype));
  NPU_TRY(check_quant("operand 1", attrs.b, in[1]->dtype));
  NPU_TRY(check_quant("the result", attrs.out, attrs.out_type));
  NPU_TRY(check_fused(attrs.act, Dtype::F32));
  out.dtype = attrs.out_type;
  return broadcast(in[0]->shape, in[1]->shape, out.shape);
}

Status infer_binary(const BinaryAttrs &attrs, Operands in, TensorKind &out) {
  const int kind = static_cast<int>(attrs.kind);
  if (!name_of(attrs.kind)) return mismatch("function " + std::to_string(kind) + " of two numbers is unknown");
  if (is_quantized(attrs)) return infer_quantized_binary(attrs, in, out);
  NPU_TRY(check_no_quant(std::array{attrs.a, attrs.b, attrs.out}, attrs.out_type));
  if (kind < kFirstHostBinary && is_real(in[0]->dtype) && is_real(in[1]->dtype)) {
    out.dtype = attrs.out_type;
    NPU_TRY(check_fused(attrs.act, Dtype::F32));
    return broadcast(in[0]->shape, in[1]->shape, out.shape);
  }
  if (attrs.kind != BinaryKind::Pow) NPU_TRY(check_equal_types(*in[0], *in[1]));
  NPU_TRY(check_binary_types(attrs.kind, *in[0], *in[1]));
  if (is_comparison(attrs.kind)) out.dtype = Dtype::Bool;
  NPU_TRY(check_fused(attrs.act, out.dtype));
  return broadcast(in[0]->shape, in[1]->shape, out.shape);
}

Status infer_unary(const UnaryAttrs &attrs, Operands in, TensorKind &out) {
  const ActKind kind = attrs.act.kind;
  const Dtype type = in[0]->dtype;
  NPU_TRY(check_activation(attrs.act));
  if (kind == ActKind::IsNan || kind == ActKind::IsInf) out.dtype = Dtype::Bool;
  if (static_cast<int>(kind) < kFirstHostAct && is_half(type)) return {};
  switch (kind) {
    case ActKind::Not:
      return check_type(is_integer(type), "the input", type, "bool, integers");
    case ActKind::Neg:
      return check_type(type == Dtype::F32 || is_signed(type), "the input", type, "float32, signed integers");
    case ActKind::Abs:
    case ActKind::Relu:
    case ActKind::Sign:
      return check_type(is_number(type), "the input", type, "float32, integers");
    default:
      return check_f32("the input", type);
  }
}

Status infer_softmax(const SoftmaxAttrs &attrs, Operands in, TensorKind &out) {
  if (is_quantized(attrs)) {
    NPU_TRY(check_quant("the input", attrs.in, in[0]->dtype));
    NPU_TRY(check_quant("the result", attrs.out, attrs.out_type));
    out.dtype = attrs.out_type;
  } else {
    NPU_TRY(check_real("the input", in[0]->dtype));
    NPU_TRY(check_no_quant(std::array{attrs.in, attrs.out}, attrs.out_type));
    out.dtype = attrs.out_type;
  }
  return check_axis(attrs.axis, in[0]->shape);
}

Status infer_reduce(const ReduceAttrs &attrs, Operands in, TensorKind &out) {
  if (!name_of(attrs.kind))
    return mismatch("reduction " + std::to_string(static_cast<int>(attrs.kind)) + " is unknown");
  const bool extreme = attrs.kind == ReduceKind::Max || attrs.kind == ReduceKind::Min;
  NPU_TRY(check_type(is_number(out.dtype) || (extreme && out.dtype == Dtype::Bool), "the input", out.dtype,
                     extreme ? "float32, integers, bool" : "float32, integers"));
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    NPU_TRY(check_axis(attrs.axes[i], in[0]->shape));
    if (i && attrs.axes[i] <= attrs.axes[i - 1]) return mismatch("axes are not in rising order");
    out.shape[static_cast<size_t>(attrs.axes[i])] = 1;
  }
  if (attrs.kind == ReduceKind::Mean && out.dtype != Dtype::F32 && !element_count(in[0]->shape) &&
      element_count(out.shape))
    return mismatch("the mean of no integers");
  return {};
}

Status infer_cumsum(const CumSumAttrs &attrs, Operands in, TensorKind &) {
  NPU_TRY(check_type(is_number(in[0]->dtype), "the input", in[0]->dtype, "float32, integers"));
  return check_axis(attrs.axis, in[0]->shape);
}

Status check_ordered(Dtype type) {
  return check_type(type == Dtype::F32 || is_integer(type), "the input", type, "float32, integers, bool");
}

Status infer_argmax(const ArgMaxAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_ordered(in[0]->dtype));
  NPU_TRY(check_axis(attrs.axis, in[0]->shape));
  int64_t &length = out.shape[static_cast<size_t>(attrs.axis)];
  if (length == 0) return mismatch("axis " + std::to_string(attrs.axis) + " of " + shape_text(out.shape) + " is empty");
  length = 1;
  out.dtype = Dtype::I64;
  return {};
}

Status infer_topk(const TopKAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_ordered(in[0]->dtype));
  NPU_TRY(check_axis(attrs.axis, in[0]->shape));
  int64_t &length = out.shape[static_cast<size_t>(attrs.axis)];
  if (attrs.count < 0 || attrs.count > length)
    return mismatch("the first " + std::to_string(attrs.count) + " of " + std::to_string(length) + " elements");
  length = attrs.count;
  out.dtype = Dtype::I64;
  return {};
}

// Moves.

Status infer_transpose(const TransposeAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape;
  if (attrs.perm.size() != x.size()) return mismatch("perm does not have " + std::to_string(x.size()) + " entries");
  std::vector<bool> seen(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int p = attrs.perm[i];
    if (p < 0 || static_cast<size_t>(p) >= x.size() || seen[static_cast<size_t>(p)])
      return mismatch("perm is not a permutation of the dimensions of " + shape_text(x));
    seen[static_cast<size_t>(p)] = true;
    out.shape[i] = x[static_cast<size_t>(p)];
  }
  return {};
}

Status infer_reshape(const ShapeAttrs &attrs, Operands in, TensorKind &out) {
  out.shape = attrs.shape;
  return element_count(out.shape) == element_count(in[0]->shape)
             ? Status()
             : mismatch("cannot reshape " + shape_text(in[0]->shape) + " to " + shape_text(out.shape));
}

Status infer_concat(const ConcatAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_axis(attrs.axis, out.shape));
  const auto axis = static_cast<size_t>(attrs.axis);
  for (const TensorKind *part : in.subspan(1)) {
    NPU_TRY(check_equal_types(*in[0], *part));
    Shape other = part->shape;
    if (other.size() != out.shape.size())
      return mismatch("inputs " + shape_text(out.shape) + " and " + shape_text(other) + " differ in rank");
    other[axis] = out.shape[axis];
    if (other != out.shape)
      return mismatch("inputs " + shape_text(out.shape) + " and " + shape_text(part->shape) + " differ outside axis " +
                      std::to_string(axis));
    out.shape[axis] = std::min(out.shape[axis] + part->shape[axis], kMaxElements + 1);
  }
  return {};
}

Status infer_slice(const SliceAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape;
  if (attrs.start.size() != x.size() || attrs.step.size() != x.size() || attrs.count.size() != x.size())
    return mismatch("start, step and count do not have " + std::to_string(x.size()) + " entries");
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t start = attrs.start[i], step = attrs.step[i], count = attrs.count[i];
    int64_t last;
    if (step == 0) return mismatch("a slice has step 0");
    if (count < 0 || count > kMaxElements) return mismatch("a slice of " + std::to_string(count) + " elements");
    if (count > 0 && (start < 0 || start >= x[i] || __builtin_mul_overflow(count - 1, step, &last) ||
                      __builtin_add_overflow(last, start, &last) || last < 0 || last >= x[i]))
      return mismatch("slice leaves " + shape_text(x));
  }
  out.shape = attrs.count;
  return {};
}

Status infer_pad(const PadAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape;
  if (attrs.begin.size() != x.size() || attrs.end.size() != x.size())
    return mismatch("padding does not have " + std::to_string(x.size()) + " entries");
  for (size_t i = 0; i < x.size(); ++i) {
    for (int64_t p : {attrs.begin[i], attrs.end[i]})
      if (p < 0 || p > kMaxElements) return mismatch("padding " + std::to_string(p) + " is out of range");
    out.shape[i] += attrs.begin[i] + attrs.end[i];
  }
  return {};
}

Status infer_expand(const ShapeAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape;
  return broadcast_shapes(x, attrs.shape, out.shape) && out.shape == attrs.shape
             ? Status()
             : mismatch("cannot expand " + shape_text(x) + " to " + shape_text(attrs.shape));
}

Status infer_cast(const CastAttrs &attrs, Operands, TensorKind &out) {
  out.dtype = attrs.to;
  return {};
}

Status infer_where(const std::monostate &, Operands in, TensorKind &out) {
  NPU_TRY(check_type(in[0]->dtype == Dtype::Bool, "the condition", in[0]->dtype, "bool"));
  NPU_TRY(check_equal_types(*in[1], *in[2]));
  Shape both;
  NPU_TRY(broadcast(in[1]->shape, in[2]->shape, both));
  NPU_TRY(broadcast(in[0]->shape, both, out.shape));
  out.dtype = in[1]->dtype;
  return {};
}

// Moves by indices.

Status infer_gather(const GatherAttrs &attrs, Operands in, TensorKind &out) {
  const Shape &x = in[0]->shape, &indices = in[1]->shape;
  NPU_TRY(check_indices(*in[1]));
  NPU_TRY(check_axis(attrs.axis, x));
  out.shape.assign(x.begin(), x.begin() + attrs.axis);
  out.shape.insert(out.shape.end(), indices.begin(), indices.end());
  out.shape.insert(out.shape.end(), x.begin() + attrs.axis + 1, x.end());
  return {};
}

/// Indices that move along an axis: outside of it they lie inside x.
Status check_element_indices(int axis, const TensorKind &x, const TensorKind &indices) {
  NPU_TRY(check_indices(indices));
  NPU_TRY(check_axis(axis, x.shape));
  bool fits = indices.shape.size() == x.shape.size();
  for (size_t i = 0; fits && i < x.shape.size(); ++i)
    fits = i == static_cast<size_t>(axis) || indices.shape[i] <= x.shape[i];
  return fits ? Status()
              : mismatch("indices " + shape_text(indices.shape) + " do not fit input " + shape_text(x.shape) +
                         " outside axis " + std::to_string(axis));
}

Status infer_gather_elements(const GatherAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_element_indices(attrs.axis, *in[0], *in[1]));
  out.shape = in[1]->shape;
  return {};
}

/// Rows of indices that name the dimensions behind the first ones; `picked` is the shape of what they name.
Status check_index_rows(size_t batch_dims, const TensorKind &x, const TensorKind &indices, Shape &picked) {
  NPU_TRY(check_indices(indices));
  const auto bad = [&] {
    return mismatch("indices " + shape_text(indices.shape) + " do not fit input " + shape_text(x.shape) + " behind " +
                    std::to_string(batch_dims) + " dimensions");
  };
  if (batch_dims >= std::min(indices.shape.size(), x.shape.size())) return bad();
  const int64_t named = indices.shape.back(), behind = static_cast<int64_t>(x.shape.size() - batch_dims);
  if (named < 1 || named > behind) return bad();
  if (!std::equal(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(batch_dims), indices.shape.begin()))
    return bad();
  picked.assign(indices.shape.begin(), indices.shape.end() - 1);
  picked.insert(picked.end(), x.shape.end() - (behind - named), x.shape.end());
  return {};
}

Status infer_gather_nd(const GatherNdAttrs &attrs, Operands in, TensorKind &out) {
  if (attrs.batch_dims < 0) return mismatch("batch_dims is " + std::to_string(attrs.batch_dims));
  return check_index_rows(static_cast<size_t>(attrs.batch_dims), *in[0], *in[1], out.shape);
}

Status check_updates(const ScatterAttrs &attrs, Operands in, const Shape &expected) {
  if (!name_of(attrs.reduction))
    return mismatch("reduction " + std::to_string(static_cast<int>(attrs.reduction)) + " is unknown");
  NPU_TRY(check_type(attrs.reduction == Reduction::None || is_number(in[0]->dtype), "the input of a reduction",
                     in[0]->dtype, "float32, integers"));
  NPU_TRY(check_equal_types(*in[0], *in[2]));
  return in[2]->shape == expected
             ? Status()
             : mismatch("updates " + shape_text(in[2]->shape) + ", expected " + shape_text(expected));
}

Status infer_scatter_elements(const ScatterAttrs &attrs, Operands in, TensorKind &) {
  NPU_TRY(check_element_indices(attrs.axis, *in[0], *in[1]));
  return check_updates(attrs, in, in[1]->shape);
}

Status infer_scatter_nd(const ScatterAttrs &attrs, Operands in, TensorKind &) {
  Shape expected;
  NPU_TRY(check_index_rows(0, *in[0], *in[1], expected));
  return check_updates(attrs, in, expected);
}

// Operators of users' own.

Status infer_plugin_output(const PluginOutputAttrs &attrs, Operands in, TensorKind &out) {
  NPU_TRY(check_type(in[0]->dtype == Dtype::U8, "the operand", in[0]->dtype, "uint8"));
  NPU_TRY(check_kind("the result", attrs.kind));
  const int64_t have = element_count(in[0]->shape);
  const int64_t need = element_count(attrs.kind.shape) * dtype_bytes(attrs.kind.dtype);
  if (attrs.offset < 0 || attrs.offset > have || need > have - attrs.offset)
    return mismatch("an output of " + std::to_string(need) + " bytes at offset " + std::to_string(attrs.offset) +
                    " of " + std::to_string(have) + " bytes");
  out = attrs.kind;
  return {};
}

// All together.

/// The attributes as those of an operator: what `f` takes.
template <class A>
Status call(Status (*f)(const A &, Operands, TensorKind &), const Attrs &attrs, Operands in, TensorKind &out) {
  const A *mine = std::get_if<A>(&attrs);
  return mine ? f(*mine, in, out) : mismatch("the attributes are those of another operator");
}

struct InferRow {
  size_t least, most;  ///< operands; those from `least` on may be left out
  Status (*infer)(const Attrs &, Operands, TensorKind &);
};

template <auto kInfer>
constexpr InferRow row(size_t least, size_t most) {
  return {least, most, [](const Attrs &attrs, Operands in, TensorKind &out) { return call(kInfer, attrs, in, out); }};
}

constexpr size_t kAny = SIZE_MAX;

/// infer() of an operator; null for a number that is none.
constexpr InferRow row_of(Op op) {
  switch (op) {
    case Op::Conv:
      return row<infer_conv>(2, 4);
    case Op::MatMul:
      return row<infer_matmul>(2, 4);
    case Op::Pool:
      return row<infer_pool>(1, 1);
    case Op::Binary:
      return row<infer_binary>(2, 2);
    case Op::Unary:
      return row<infer_unary>(1, 1);
    case Op::Softmax:
      return row<infer_softmax>(1, 1);
    case Op::Transpose:
      return row<infer_transpose>(1, 1);
    case Op::Reshape:
      return row<infer_reshape>(1, 1);
    case Op::Concat:
      return row<infer_concat>(1, kAny);
    case Op::Slice:
      return row<infer_slice>(1, 1);
    case Op::Pad:
      return row<infer_pad>(1, 1);
    case Op::Expand:
      return row<infer_expand>(1, 1);
    case Op::Gather:
      return row<infer_gather>(2, 2);
    case Op::Cast:
      return row<infer_cast>(1, 1);
    case Op::Where:
      return row<infer_where>(3, 3);
    case Op::Reduce:
      return row<infer_reduce>(1, 1);
    case Op::ArgMax:
      return row<infer_argmax>(1, 1);
    case Op::TopK:
      return row<infer_topk>(1, 1);
    case Op::CumSum:
      return row<infer_cumsum>(1, 1);
    case Op::GatherElements:
      return row<infer_gather_elements>(2, 2);
    case Op::GatherNd:
      return row<infer_gather_nd>(2, 2);
    case Op::ScatterElements:
      return row<infer_scatter_elements>(3, 3);
    case Op::ScatterNd:
      return row<infer_scatter_nd>(3, 3);
    case Op::PoolIndices:
      return row<infer_pool_indices>(1, 1);
    case Op::Requant:
      return row<infer_requant>(1, 1);
    case Op::Lookup:
      return row<infer_lookup>(2, 2);
    case Op::Plugin:
      return row<check_plugin>(0, kAny);
    case Op::PluginOutput:
      return row<infer_plugin_output>(1, 1);
    case Op::Fail:
      return row<infer_expand>(1, 1);
  }
  return {0, 0, nullptr};
}

Status check_operands(const InferRow &row, Operands in) {
  if (in.size() < row.least || in.size() > row.most)
    return mismatch(std::to_string(in.size()) + " operands, expected " + std::to_string(row.least) +
                    (row.most == row.least ? ""
                     : row.most == kAny    ? " or more"
                                           : " to " + std::to_string(row.most)));
  for (size_t k = 0; k < in.size(); ++k) {
    if (in[k])
      NPU_TRY(check_kind("operand " + std::to_string(k), *in[k]));
    else if (k < row.least || (row.least && row.most == kAny))
      return mismatch("operand " + std::to_string(k) + " is missing");
  }
  return {};
}

}  // namespace

Status check_type(bool fits, const char *what, Dtype type, const char *supported) {
  return fits ? Status()
              : Status::error(kWrongType, std::string(what) + " is " + dtype_name(type) + ", supported: " + supported);
}

Status check_activation(const Activation &act) {
  const int kind = static_cast<int>(act.kind);
  if (!name_of(act.kind)) return mismatch("function " + std::to_string(kind) + " is unknown");
  const int parameters = parameters_of(act.kind);
  if ((parameters < 1 && act.a != 0) || (parameters < 2 && act.b != 0))
    return mismatch("a parameter that function " + std::to_string(kind) + " does not have is not 0");
  if (act.kind == ActKind::Clip && !(act.a <= act.b))
    return mismatch("bounds " + std::to_string(act.a) + " and " + std::to_string(act.b) + " are not in order");
  if (act.kind == ActKind::Gelu && act.a != 0 && act.a != 1)
    return mismatch("GELU of kind " + std::to_string(act.a) + ", there are 0 and 1");
  return {};
}

Status check_fused(const Activation &act, Dtype type) {
  NPU_TRY(check_activation(act));
  if (act.kind > ActKind::Tanh)
    return mismatch("function " + std::to_string(static_cast<int>(act.kind)) + " only works alone");
  return act.kind == ActKind::None
             ? Status()
             : check_type(type == Dtype::F32, "the operand of a function inside an operator", type, "float32");
}

Status infer(Op op, const Attrs &attrs, std::span<const TensorKind *const> operands, TensorKind &out) {
  const InferRow row = row_of(op);
  if (!row.infer) return mismatch("operator " + std::to_string(static_cast<int>(op)) + " is unknown");
  NPU_TRY(check_operands(row, operands));
  TensorKind result;  // most operators keep type or shape; `out` may be an operand
  if (row.least) result = *operands[0];
  NPU_TRY(row.infer(attrs, operands, result));
  NPU_TRY(check_kind("the result", result));
  out = std::move(result);
  return {};
}

}  // namespace npu::cpu
