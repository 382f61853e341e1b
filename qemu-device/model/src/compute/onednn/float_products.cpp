// SPDX-License-Identifier: MIT
// CONV and MATMUL of floating-point numbers on oneDNN's primitives. What is not f32 without gaps is brought into it and
// back; the library takes rows of matrices that lie apart as they are.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/geometry.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

// Products beyond this do not count as safe from overflow; far enough below the largest float for any order of
// summation.
constexpr double kSafe = 1e37;

bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % alignof(float) == 0; }

// A packed copy with the memory object that refers to it, for all threads.
struct PackedWeights final : Packed {
  PackedWeights(const Operation &op, PackedCache &cache)
      : Packed(cache.allocate(op.packed_bytes()), op.packed_bytes()), memory(op.packed_memory(data.get())) {}
  const dnnl::memory memory;
};

// Largest sum of |weight| of an output: bounds every sum that inputs of a known size can give.
double reach_of(const void *plain, const npu_cmd_conv &c) {
  const size_t filter = size_t{c.kh} * c.kw * (c.ic / c.groups);
  double reach = 0;
  for (size_t o = 0; o < c.oc; ++o) {
    const double sum = kernels().magnitude(static_cast<const char *>(plain) + o * filter * sizeof(float), filter);
    if (!std::isfinite(sum)) return INFINITY;
    reach = std::max(reach, sum);
  }
  return reach;
}

// Whether the library can fuse an activation: it computes these exactly, but for NaN, which it turns into a number.
bool can_fuse(uint8_t act, float act_a) {
  return act == NPU_ACT_RELU || act == NPU_ACT_CLIP ||
         (act == NPU_ACT_LEAKY_RELU && std::isfinite(act_a) && act_a != 0.0f);
}

}  // namespace

bool Onednn::weights(Operation &op, const Streamed &source, const WeightPart &part, Weights &w) {
  const PackedKey key{source.asid, source.va, source.bytes, part.first, op.layout()};
  ThreadState &thread = ThreadState::current();
  if (source.constant) {
    w.shared = packed_.find(key);
    if (w.shared) {
      w.memory = static_cast<const PackedWeights &>(*w.shared).memory;
      w.reach = w.shared->reach;
      return true;
    }
  }
  if (!source.constant && thread.own.holds(source.serial, part.first, *op.layout())) {
    w.memory = op.packed_memory(thread.packed.data());
    w.reach = thread.own.reach;
    return true;
  }
  const uint64_t ticket = source.constant ? packed_.ticket(source.asid) : 0;
  const void *plain = source.fetch(source.arg);
  if (!plain) return false;
  plain = static_cast<const char *>(plain) + part.first * hw::arith::dtype_bytes(part.dtype);
  if (part.dtype != NPU_DTYPE_F32) {
    auto *floats = static_cast<float *>(thread.converted.reserve(part.count * sizeof(float)));
    number_kernels().load({part.dtype}, plain, part.count, floats);
    plain = floats;
  }
  if (!source.constant) {
    w.memory = op.packed_memory(thread.packed.reserve(op.packed_bytes()));
    op.pack(plain, w.memory);
    if (part.conv && w.padded) w.reach = reach_of(plain, *part.conv);
    thread.own = {source.serial, part.first, op.layout(), w.reach};
    return true;
  }
  const auto fresh = std::make_shared<PackedWeights>(op, packed_);
  op.pack(plain, fresh->memory);
  if (part.conv) fresh->reach = reach_of(plain, *part.conv);
  packed_.insert(key, fresh, ticket);
  w.shared = fresh;
  w.memory = fresh->memory;
  w.reach = fresh->reach;
  return true;
}

namespace {

// ---- results ----

/// Rows of a result as f32: in their place, or without gaps in a buffer of the thread.
class FloatRows {
 public:
  /// `apart`: whether whoever writes them takes rows with gaps.
  FloatRows(uint8_t dtype, size_t rows, size_t cols, size_t pitch, void *out, bool apart)
      : dtype_(dtype), rows_(rows), cols_(cols), pitch_(pitch), out_(static_cast<char *>(out)) {
    const bool dense = pitch == cols || rows == 1;
    in_place_ = dtype == NPU_DTYPE_F32 && (dense || apart);
    step_ = in_place_ && !dense ? pitch : cols;
    data_ = in_place_ ? f32(out)
                      : static_cast<float *>(ThreadState::current().results.reserve(rows * cols * sizeof(float)));
  }

  float *data() const { return data_; }
  /// Elements from one row to the next.
  size_t step() const { return step_; }

  /// Puts the partial sums where the results will be: they lie as the result does.
  void begin_with(const void *psum) const {
    if (psum == data_) return;
    const bool dense = pitch_ == cols_ || rows_ == 1;  // two places may overlap then
    const size_t runs = dense ? 1 : rows_, count = dense ? rows_ * cols_ : cols_;
    for (size_t r = 0; r < runs; ++r) std::memmove(data_ + r * step_, f32(psum) + r * pitch_, count * sizeof(float));
  }
  void begin_with_zeroes() const {
    for (size_t r = 0; r < rows_; ++r) std::memset(data_ + r * step_, 0, cols_ * sizeof(float));
  }
  void add(const float *bias) const {
    for (size_t r = 0; r < rows_; ++r) {
      float *row = data_ + r * step_;
      kernels().combine(NPU_ELTWISE_ADD, row, 1, bias, 1, row, cols_);
    }
  }
  void activate(uint8_t act, float act_a, float act_b) const {
    if (act == NPU_ACT_NONE) return;
    const size_t runs = step_ == cols_ ? 1 : rows_, count = step_ == cols_ ? rows_ * cols_ : cols_;
    for (size_t r = 0; r < runs; ++r)
      kernels().activate(act, act_a, act_b, data_ + r * step_, data_ + r * step_, count);
  }
  /// Brings them where the command wants them.
  void finish() const {
    if (in_place_) return;
    const size_t size = hw::arith::dtype_bytes(dtype_);
    const size_t runs = pitch_ == cols_ ? 1 : rows_, count = pitch_ == cols_ ? rows_ * cols_ : cols_;
    for (size_t r = 0; r < runs; ++r)
      number_kernels().store({dtype_}, data_ + r * cols_, count, out_ + r * pitch_ * size);
  }

 private:
  const uint8_t dtype_;
  const size_t rows_, cols_, pitch_;
  char *const out_;
  bool in_place_;
  size_t step_;
  float *data_;
};

// ---- convolutions ----

/// The image that windows see: with input dilation there are rows and columns of zeroes between those of the input.
int64_t image_size(uint32_t in, uint8_t dilation) { return (int64_t{in} - 1) * std::max<uint8_t>(dilation, 1) + 1; }
bool dilated(const npu_cmd_conv &c) { return c.idh > 1 || c.idw > 1; }

/// One row of the image's cells that the windows need, as f32 without gaps.
void stage_row(const npu_cmd_conv &c, const char *from, size_t pitch, const Axis &x, float *to) {
  const NumberKernels &k = number_kernels();
  const Number number{c.in_dtype};
  const size_t size = hw::arith::dtype_bytes(c.in_dtype), dilation = std::max<uint8_t>(c.idw, 1);
  const auto skip = static_cast<size_t>(x.skip), cells = static_cast<size_t>(x.in);
  if (dilation == 1 && pitch == c.ic) return k.load(number, from + skip * pitch * size, cells * c.ic, to);
  for (size_t i = 0; i < cells; ++i, to += c.ic) {
    if ((skip + i) % dilation)
      std::memset(to, 0, c.ic * sizeof(float));
    else
      k.load(number, from + (skip + i) / dilation * pitch * size, c.ic, to);
  }
}

// The input of a convolution in f32, without gaps and without the cells that negative padding or a short result leave
// out.
const float *stage(const npu_cmd_conv &c, const Axis &y, const Axis &x, const void *in) {
  const size_t pitch = or_else(c.in_pitch, c.ic), size = hw::arith::dtype_bytes(c.in_dtype);
  const bool dense = pitch == c.ic || uint64_t{c.n} * c.ih * c.iw == 1;
  const bool whole_rows = x.skip == 0 && x.in == c.iw;
  if (c.in_dtype == NPU_DTYPE_F32 && dense && !dilated(c) && whole_rows)
    if (c.n == 1 || (y.skip == 0 && y.in == c.ih)) return f32(in) + y.skip * c.iw * c.ic;
  const size_t row = static_cast<size_t>(x.in) * c.ic, bytes = c.n * static_cast<size_t>(y.in) * row * sizeof(float);
  auto *to = static_cast<float *>(ThreadState::current().staged.reserve(bytes));
  const float *const result = to;
  const size_t dilation = std::max<uint8_t>(c.idh, 1);
  for (size_t n = 0; n < c.n; ++n)
    for (int64_t r = 0; r < y.in; ++r, to += row) {
      const auto at = static_cast<size_t>(y.skip + r);
      if (at % dilation)
        std::memset(to, 0, row * sizeof(float));
      else
        stage_row(c, static_cast<const char *>(in) + (n * c.ih + at / dilation) * c.iw * pitch * size, pitch, x, to);
    }
  return result;
}

Shape shape_of(const npu_cmd_conv &c, const Axis &y, const Axis &x, bool bias, bool sum) {
  Shape s{};
  s.kind = Shape::Conv;
  s.n = c.n, s.ih = y.in, s.iw = x.in, s.ic = c.ic, s.oc = c.oc, s.oh = c.oh, s.ow = c.ow;
  s.kh = c.kh, s.kw = c.kw, s.sh = c.sh, s.sw = c.sw, s.dh = c.dh, s.dw = c.dw, s.groups = c.groups;
  s.top = y.before, s.left = x.before, s.bottom = y.behind, s.right = x.behind;
  s.bias = bias, s.sum = sum;
  s.wgt_dtype = c.wgt_dtype;
  return s;
}

// Is every sum so small that no order of its terms can overflow?
bool safe(const npu_cmd_conv &c, const float *in, size_t inputs, const void *bias, double reach) {
  if (!(reach < kSafe)) return false;
  const Kernels &k = kernels();
  return k.largest(in, inputs) * reach + (bias ? k.largest(f32(bias), c.oc) : 0.0) < kSafe;
}

/// A convolution of single cells that lie apart is a product of matrices whose rows do.
bool is_matmul(const npu_cmd_conv &c) {
  const bool apart = or_else(c.in_pitch, c.ic) != c.ic || or_else(c.out_pitch, c.oc) != c.oc;
  return apart && c.groups == 1 && c.kh == 1 && c.kw == 1 && c.sh == 1 && c.sw == 1 && c.pad_t == 0 && c.pad_l == 0 &&
         c.oh == c.ih && c.ow == c.iw && !dilated(c);
}

npu_cmd_matmul as_matmul(const npu_cmd_conv &c) {
  npu_cmd_matmul m{};
  m.flags = static_cast<uint16_t>(c.flags | NPU_CONV_TRANS_B);
  m.in_dtype = c.in_dtype, m.wgt_dtype = c.wgt_dtype, m.out_dtype = c.out_dtype;
  m.act = c.act, m.act_a = c.act_a, m.act_b = c.act_b;
  m.batch = 1, m.m = c.n * c.oh * c.ow, m.k = c.ic, m.n = c.oc;
  m.a_row_stride = c.in_pitch, m.out_row_stride = c.out_pitch;
  return m;
}

}  // namespace

bool Onednn::run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out) {
  if (!is_float(c.in_dtype)) return run_bytes(c, in, wgt, params, psum, out);
  if (is_matmul(c)) return run(as_matmul(c), in, wgt, params, psum, out);
  const void *bias = params.bias;
  const SingleThread single;
  const Axis y = Axis::of(image_size(c.ih, c.idh), c.oh, c.kh, c.sh, c.dh, c.pad_t);
  const Axis x = Axis::of(image_size(c.iw, c.idw), c.ow, c.kw, c.sw, c.dw, c.pad_l);
  const size_t cells = size_t{c.n} * c.oh * c.ow;
  Weights w;
  w.padded = y.before > 0 || y.behind > 0 || x.before > 0 || x.behind > 0 || dilated(c);
  const auto operation = [&](bool with_act) {
    Shape shape = shape_of(c, y, x, bias, psum);
    if (with_act) shape.act = c.act, shape.act_a = c.act_a, shape.act_b = c.act_b;
    return &ThreadState::current().operation(shape);
  };
  // A fused activation is right only where no NaN can arise. Looking at the inputs for that costs less than an
  // activation of its own where they are no more than the outputs.
  const uint64_t inputs = y.usable && x.usable ? c.n * static_cast<uint64_t>(y.in * x.in) * c.ic : 0;
  bool fused =
      can_fuse(c.act, c.act_a) && !psum && inputs <= cells * c.oc && aligned(bias) && (wgt.constant || w.padded);
  Operation *op = y.usable && x.usable ? operation(fused) : nullptr;
  if (op && fused && !op->usable()) op = operation(fused = false);
  if (!op || !op->usable()) return Reference::run(c, in, wgt, params, psum, out);
  const WeightPart part{c.wgt_dtype, 0, size_t{c.oc} * c.kh * c.kw * (c.ic / c.groups), &c};
  if (!weights(*op, wgt, part, w)) return false;
  // The library multiplies padding by weights where that is faster; zero times an infinite weight is not what the
  // definition says.
  if (w.padded && !std::isfinite(w.reach)) return Reference::run(c, in, wgt, params, psum, out);
  const float *staged = stage(c, y, x, in);
  if (fused && !safe(c, staged, inputs, bias, w.reach)) {
    op = operation(fused = false);
    if (!op->usable()) return Reference::run(c, in, wgt, params, psum, out);
    if (!weights(*op, wgt, part, w)) return false;
  }
  const FloatRows result(c.out_dtype, cells, c.oc, or_else(c.out_pitch, c.oc), out, false);
  if (psum) result.begin_with(psum);
  op->run(staged, w.memory, bias, result.data());
  if (!fused) result.activate(c.act, c.act_a, c.act_b);
  result.finish();
  return true;
}

namespace {

// ---- matrix products ----

/// A command with all its strides, and the batch joined where it is one product with more rows.
struct FloatMatmulPlan {
  bool trans;
  size_t m, k, n, products;
  size_t a_row, b_row, out_row, out_batch;  // elements

  explicit FloatMatmulPlan(const npu_cmd_matmul &c)
      : trans(c.flags & NPU_CONV_TRANS_B),
        m(c.m),
        k(c.k),
        n(c.n),
        products(c.batch),
        a_row(or_else(c.a_row_stride, c.k)),
        b_row(or_else(c.b_row_stride, trans ? c.k : c.n)),
        out_row(or_else(c.out_row_stride, c.n)),
        out_batch(or_else(c.out_batch_stride, m * out_row)) {
    if (c.b_batch_stride == 0 && c.a_batch_stride == m * a_row && out_batch == m * out_row) {
      m *= products;
      products = 1;
    }
  }
  /// Elements from B's first to its last.
  size_t b_span() const { return trans ? (n - 1) * b_row + k : (k - 1) * b_row + n; }
};

/// Rows of A as f32: as they are, or without gaps in a buffer of the thread.
struct FloatInput {
  const float *data;
  size_t row;

  FloatInput(uint8_t dtype, const void *a, const FloatMatmulPlan &p) : data(f32(a)), row(p.a_row) {
    if (dtype == NPU_DTYPE_F32) return;
    auto *to = static_cast<float *>(ThreadState::current().staged.reserve(p.m * p.k * sizeof(float)));
    const size_t size = hw::arith::dtype_bytes(dtype);
    const size_t runs = p.a_row == p.k ? 1 : p.m, count = p.a_row == p.k ? p.m * p.k : p.k;
    for (size_t r = 0; r < runs; ++r)
      number_kernels().load({dtype}, static_cast<const char *>(a) + r * p.a_row * size, count, to + r * p.k);
    data = to;
    row = p.k;
  }
};

// Few rows meet B as it lies: packing it would cost more than the products.
constexpr size_t kFewRows = 4;
// Elements of B that become f32 at a time: small enough for the second-level cache.
constexpr size_t kPiece = size_t{1} << 15;

/// Adds the product with B, which is read once.
void multiply_few_rows(const FloatMatmulPlan &p, const FloatInput &a, uint8_t dtype, const char *b,
                       const FloatRows &result) {
  const Kernels &k = kernels();
  float *out = result.data();
  if (dtype == NPU_DTYPE_F32)
    return k.multiply(a.data, a.row, p.m, p.k, reinterpret_cast<const float *>(b), p.b_row, p.n, p.trans, out,
                      result.step());
  // Rows of B as it is stored: terms, or columns.
  const size_t rows = p.trans ? p.n : p.k, cols = p.trans ? p.k : p.n, size = hw::arith::dtype_bytes(dtype);
  constexpr size_t kTogether = 8;  // terms that a pass over the result takes
  const size_t most = std::max(kPiece / cols / kTogether * kTogether, kTogether);
  auto *piece = static_cast<float *>(ThreadState::current().converted.reserve(most * cols * sizeof(float)));
  for (size_t first = 0; first < rows; first += most) {
    const size_t count = std::min(most, rows - first);
    for (size_t r = 0; r < count; ++r)
      number_kernels().load({dtype}, b + (first + r) * p.b_row * size, cols, piece + r * cols);
    if (p.trans)
      k.multiply(a.data, a.row, p.m, p.k, piece, cols, count, true, out + first, result.step());
    else
      k.multiply(a.data + first, a.row, p.m, count, piece, cols, p.n, false, out, result.step());
  }
}

}  // namespace

bool Onednn::run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out) {
  if (!is_float(c.in_dtype)) return run_bytes(c, in, wgt, params, psum, out);
  const FloatMatmulPlan p(c);
  const void *bias = params.bias;
  const char *few = nullptr;
  if (p.m <= kFewRows && aligned(bias)) {
    few = static_cast<const char *>(wgt.fetch(wgt.arg));
    if (!few) return false;
    if (c.wgt_dtype == NPU_DTYPE_F32 && !aligned(few)) few = nullptr;
  }
  const SingleThread single;
  Operation *op = nullptr;
  // The library refuses to run products with one column or term whose elements lie apart.
  const bool gaps = p.a_row != p.k || p.b_row != (p.trans ? p.k : p.n) || p.out_row != p.n;
  if (!few && gaps && (p.n == 1 || p.k == 1)) return Reference::run(c, in, wgt, params, psum, out);
  if (!few) {
    Shape shape = Shape::matmul(p.m, p.k, p.n, p.trans);
    shape.bias = bias;
    shape.sum = psum;
    shape.wgt_dtype = c.wgt_dtype;
    shape.a_row = c.in_dtype == NPU_DTYPE_F32 ? p.a_row : p.k;
    shape.b_row = p.b_row;
    shape.out_row = c.out_dtype == NPU_DTYPE_F32 ? p.out_row : p.n;
    op = &ThreadState::current().operation(shape);
    if (!op->usable()) return Reference::run(c, in, wgt, params, psum, out);
  }
  const size_t in_size = hw::arith::dtype_bytes(c.in_dtype), out_size = hw::arith::dtype_bytes(c.out_dtype);
  Weights w;
  for (size_t i = 0; i < p.products; ++i) {
    const size_t b_at = i * c.b_batch_stride;
    if (op && (i == 0 || b_at != 0) && !weights(*op, wgt, {c.wgt_dtype, b_at, p.b_span(), nullptr}, w)) return false;
    const FloatInput a(c.in_dtype, static_cast<const char *>(in) + i * c.a_batch_stride * in_size, p);
    const FloatRows result(c.out_dtype, p.m, p.n, p.out_row, static_cast<char *>(out) + i * p.out_batch * out_size,
                           true);
    if (psum) result.begin_with(f32(psum) + i * p.out_batch);
    if (op) {
      op->run(a.data, w.memory, bias, result.data());
    } else {
      if (!psum) result.begin_with_zeroes();
      multiply_few_rows(p, a, c.wgt_dtype, few + b_at * hw::arith::dtype_bytes(c.wgt_dtype), result);
      if (bias) result.add(f32(bias));
    }
    result.activate(c.act, c.act_a, c.act_b);
    result.finish();
  }
  return true;
}

}  // namespace npu::model
