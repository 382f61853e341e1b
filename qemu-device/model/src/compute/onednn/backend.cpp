// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/geometry.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"
#include "qemu-device/model/src/compute/onednn_module.h"

namespace npu::model {
namespace {

// Products beyond this do not count as safe from overflow; far enough below the largest float for any order of
// summation.
constexpr double kSafe = 1e37;

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

bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % alignof(float) == 0; }

}  // namespace

bool Onednn::weights(Operation &op, const Streamed &source, uint64_t part, size_t plain_at, const npu_cmd_conv *conv,
                     Weights &w) {
  const PackedKey key{source.asid, source.va, source.bytes, part, op.layout()};
  if (source.constant) {
    w.shared = packed_.find(key);
    if (w.shared) {
      w.memory = static_cast<const PackedWeights &>(*w.shared).memory;
      w.reach = w.shared->reach;
      return true;
    }
  }
  if (!source.constant && ThreadState::current().own.holds(source.serial, part, *op.layout())) {
    w.memory = op.packed_memory(ThreadState::current().packed.data());
    w.reach = ThreadState::current().own.reach;
    return true;
  }
  const uint64_t ticket = source.constant ? packed_.ticket(source.asid) : 0;
  const void *plain = source.fetch(source.arg);
  if (!plain) return false;
  plain = static_cast<const char *>(plain) + plain_at;
  if (!source.constant) {
    ThreadState &thread = ThreadState::current();
    w.memory = op.packed_memory(thread.packed.reserve(op.packed_bytes()));
    op.pack(plain, w.memory);
    if (conv && w.padded) w.reach = reach_of(plain, *conv);
    thread.own = {source.serial, part, op.layout(), w.reach};
    return true;
  }
  const auto fresh = std::make_shared<PackedWeights>(op, packed_);
  op.pack(plain, fresh->memory);
  if (conv) fresh->reach = reach_of(plain, *conv);
  packed_.insert(key, fresh, ticket);
  w.shared = fresh;
  w.memory = fresh->memory;
  w.reach = fresh->reach;
  return true;
}

namespace {

// The input of a convolution without the cells that negative padding or a short result leave out.
const float *crop(const npu_cmd_conv &c, const Axis &y, const Axis &x, const float *in) {
  const bool whole_rows = x.skip == 0 && x.in == c.iw;
  const bool whole = whole_rows && y.skip == 0 && y.in == c.ih;
  if (whole || (whole_rows && c.n == 1)) return in + y.skip * c.iw * c.ic;
  const size_t row = x.in * c.ic;
  auto *to = static_cast<float *>(ThreadState::current().cropped.reserve(c.n * y.in * row * sizeof(float)));
  const float *const result = to;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t r = 0; r < y.in; ++r, to += row)
      std::memcpy(to, in + ((n * c.ih + y.skip + r) * c.iw + x.skip) * c.ic, row * sizeof(float));
  return result;
}

Shape shape_of(const npu_cmd_conv &c, const Axis &y, const Axis &x, bool bias, bool sum) {
  Shape s{};
  s.kind = Shape::Conv;
  s.n = c.n, s.ih = y.in, s.iw = x.in, s.ic = c.ic, s.oc = c.oc, s.oh = c.oh, s.ow = c.ow;
  s.kh = c.kh, s.kw = c.kw, s.sh = c.sh, s.sw = c.sw, s.dh = c.dh, s.dw = c.dw, s.groups = c.groups;
  s.top = y.before, s.left = x.before, s.bottom = y.behind, s.right = x.behind;
  s.bias = bias, s.sum = sum;
  return s;
}

// Is every sum so small that no order of its terms can overflow?
bool safe(const npu_cmd_conv &c, const float *in, size_t inputs, const void *bias, double reach) {
  if (!(reach < kSafe)) return false;
  const Kernels &k = kernels();
  return k.largest(in, inputs) * reach + (bias ? k.largest(f32(bias), c.oc) : 0.0) < kSafe;
}

// What the code below takes: f32 without gaps.

bool plain(uint8_t dtype, uint64_t cells, uint32_t pitch, uint32_t dense) {
  return dtype == NPU_DTYPE_F32 && (pitch == 0 || pitch == dense || cells == 1);
}

bool plain(const npu_cmd_conv &c) {
  return plain(c.in_dtype, uint64_t{c.n} * c.ih * c.iw, c.in_pitch, c.ic) && c.wgt_dtype == NPU_DTYPE_F32 &&
         plain(c.out_dtype, uint64_t{c.n} * c.oh * c.ow, c.out_pitch, c.oc) && c.idh <= 1 && c.idw <= 1;
}

bool plain(const npu_cmd_matmul &c) {
  const uint32_t rows = c.flags & NPU_CONV_TRANS_B ? c.n : c.k, row = c.flags & NPU_CONV_TRANS_B ? c.k : c.n;
  return plain(c.in_dtype, c.m, c.a_row_stride, c.k) && plain(c.wgt_dtype, rows, c.b_row_stride, row) &&
         plain(c.out_dtype, c.m, c.out_row_stride, c.n) &&
         (c.batch == 1 || c.out_batch_stride == 0 || c.out_batch_stride == uint64_t{c.m} * c.n);
}

}  // namespace

bool Onednn::run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out) {
  if (!is_float(c.in_dtype)) return run_bytes(c, in, wgt, params, psum, out);
  if (!plain(c)) return Reference::run(c, in, wgt, params, psum, out);
  const void *bias = params.bias;
  const SingleThread single;
  const Axis y = Axis::of(c.ih, c.oh, c.kh, c.sh, c.dh, c.pad_t);
  const Axis x = Axis::of(c.iw, c.ow, c.kw, c.sw, c.dw, c.pad_l);
  const size_t inputs = size_t{c.n} * c.ih * c.iw * c.ic, outputs = size_t{c.n} * c.oh * c.ow * c.oc;
  Weights w;
  w.padded = y.before > 0 || y.behind > 0 || x.before > 0 || x.behind > 0;
  // A fused activation is right only where no NaN can arise. Looking at the inputs for that costs less than an
  // activation of its own where they are no more than the outputs.
  bool fused = can_fuse(c.act, c.act_a) && !psum && inputs <= outputs && aligned(bias) && (wgt.constant || w.padded);
  const auto operation = [&](bool with_act) {
    Shape shape = shape_of(c, y, x, bias, psum);
    if (with_act) shape.act = c.act, shape.act_a = c.act_a, shape.act_b = c.act_b;
    return &ThreadState::current().operation(shape);
  };
  Operation *op = y.usable && x.usable ? operation(fused) : nullptr;
  if (op && fused && !op->usable()) op = operation(fused = false);
  if (!op || !op->usable()) return Reference::run(c, in, wgt, params, psum, out);
  if (!weights(*op, wgt, 0, 0, &c, w)) return false;
  // The library multiplies padding by weights where that is faster; zero times an infinite weight is not what the
  // definition says.
  if (w.padded && !std::isfinite(w.reach)) return Reference::run(c, in, wgt, params, psum, out);
  if (fused && !safe(c, f32(in), inputs, bias, w.reach)) {
    op = operation(fused = false);
    if (!op->usable()) return Reference::run(c, in, wgt, params, psum, out);
    if (!weights(*op, wgt, 0, 0, &c, w)) return false;
  }
  if (psum && psum != out) std::memmove(out, psum, outputs * sizeof(float));
  op->run(crop(c, y, x, f32(in)), w.memory, bias, out);
  if (!fused) kernels().activate(c.act, c.act_a, c.act_b, f32(out), f32(out), outputs);
  return true;
}

namespace {

// Few rows meet B as it lies: packing it would cost more than the products.
constexpr uint64_t kFewRows = 4;

void multiply_few_rows(const npu_cmd_matmul &c, const float *in, const float *b, const void *bias, const void *psum,
                       float *out) {
  const Kernels &k = kernels();
  const size_t products = size_t{c.m} * c.n, outputs = c.batch * products;
  if (!psum) std::memset(out, 0, outputs * sizeof(float));
  if (psum && psum != out) std::memmove(out, psum, outputs * sizeof(float));
  for (size_t i = 0; i < c.batch; ++i)
    k.multiply(in + i * c.a_batch_stride, c.m, c.k, b + i * c.b_batch_stride, c.n, c.flags & NPU_CONV_TRANS_B,
               out + i * products);
  if (bias)
    for (float *row = out; row != out + outputs; row += c.n) k.combine(NPU_ELTWISE_ADD, row, 1, f32(bias), 1, row, c.n);
  k.activate(c.act, c.act_a, c.act_b, out, out, outputs);
}

}  // namespace

bool Onednn::run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out) {
  if (!is_float(c.in_dtype)) return run_bytes(c, in, wgt, params, psum, out);
  if (!plain(c)) return Reference::run(c, in, wgt, params, psum, out);
  const void *bias = params.bias;
  // A batch with one B is one product with more rows, if the As follow each other.
  const bool joined = c.b_batch_stride == 0 && c.a_batch_stride == uint64_t{c.m} * c.k;
  const uint64_t products = joined ? 1 : c.batch;
  const uint64_t rows = joined ? uint64_t{c.m} * c.batch : c.m;
  if (rows <= kFewRows && aligned(bias)) {
    const void *b = wgt.fetch(wgt.arg);
    if (!b) return false;
    if (aligned(b)) return multiply_few_rows(c, f32(in), f32(b), bias, psum, f32(out)), true;
  }
  const SingleThread single;
  Shape shape = Shape::matmul(rows, c.k, c.n, c.flags & NPU_CONV_TRANS_B);
  shape.bias = bias;
  shape.sum = psum;
  Operation &op = ThreadState::current().operation(shape);
  if (!op.usable()) return Reference::run(c, in, wgt, params, psum, out);
  const size_t outputs = size_t{c.batch} * c.m * c.n;
  Weights w;
  for (uint64_t i = 0; i < products; ++i) {
    const uint64_t b_at = i * c.b_batch_stride;
    if ((i == 0 || c.b_batch_stride != 0) && !weights(op, wgt, b_at, b_at * sizeof(float), nullptr, w)) return false;
    if (i == 0 && psum && psum != out) std::memmove(out, psum, outputs * sizeof(float));
    op.run(f32(in) + i * c.a_batch_stride, w.memory, bias, f32(out) + i * rows * c.n);
  }
  kernels().activate(c.act, c.act_a, c.act_b, f32(out), f32(out), outputs);
  return true;
}

extern "C" __attribute__((visibility("default"))) Backend *npu_onednn_create(uint32_t interface,
                                                                             uint64_t max_packed_bytes, char *why,
                                                                             size_t why_bytes) {
  if (interface != kBackendInterface) {
    std::snprintf(why, why_bytes, "%s has interface %u, the model needs %u", kOnednnModule, kBackendInterface,
                  interface);
    return nullptr;
  }
  try {
    cpu_engine();
    return new Onednn(max_packed_bytes);
  } catch (const std::exception &e) {
    std::snprintf(why, why_bytes, "oneDNN: %s", e.what());
    return nullptr;
  }
}

}  // namespace npu::model
