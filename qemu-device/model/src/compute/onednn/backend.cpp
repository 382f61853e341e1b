// SPDX-License-Identifier: MIT
// The oneDNN back end: CONV and MATMUL on primitives, the rest on vector loops, strange shapes on the reference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/geometry.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/operation.h"
#include "qemu-device/model/src/compute/onednn_module.h"
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

// Products beyond this do not count as safe from overflow; far enough below the largest float for any order of
// summation.
constexpr double kSafe = 1e37;

const float *f32(const void *p) { return static_cast<const float *>(p); }
float *f32(void *p) { return static_cast<float *>(p); }

// A packed copy with the memory object that refers to it, for all threads.
struct PackedWeights final : Packed {
  explicit PackedWeights(const Operation &op) : Packed(op.packed_bytes()), memory(op.packed_memory(data.data())) {}
  const dnnl::memory memory;
};

// Largest sum of |weight| of an output: bounds every sum that inputs of a known size can give.
double reach_of(const void *plain, const npu_cmd_conv &c) {
  const size_t filter = size_t{c.kh} * c.kw * (c.ic / c.groups);
  double reach = 0;
  for (size_t o = 0; o < c.oc; ++o) {
    double sum = 0;
    for (size_t i = 0; i < filter; ++i) sum += std::fabs(load_f32(plain, o * filter + i));
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

class Onednn final : public Backend {
 public:
  explicit Onednn(uint64_t max_packed_bytes) : packed_(max_packed_bytes) {}

  const char *name() const override { return "onednn"; }

  bool conv(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
            void *out) override;
  bool matmul(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
              void *out) override;
  void pool(const npu_cmd_pool &c, const void *in, void *out) override { fast::pool(c, f32(in), f32(out)); }
  void eltwise(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    fast::eltwise(c, f32(a), f32(b), f32(out));
  }
  void unary(const npu_cmd_unary &c, const void *in, void *out) override {
    fast::activate(c.subop, c.act_a, c.act_b, f32(in), f32(out), c.count);
  }
  void softmax(const npu_cmd_softmax &c, const void *in, void *out) override { fast::softmax(c, f32(in), f32(out)); }
  void forget(uint32_t asid) override { packed_.forget(asid); }
  void trim() override { ThreadState::current().trim(); }

 private:
  // Packed weights for one command: a shared copy of constant ones or the thread's own of the others.
  struct Weights {
    PackedCache::Ref shared;
    dnnl::memory memory;
    double reach = INFINITY;  ///< of a CONV's weights; where they are not constant only if padding makes it matter
    bool padded = false;
  };
  // Fetches only where no copy exists. `plain_at` is the first byte of the part. False: could not be fetched.
  bool weights(Operation &op, const Streamed &source, uint64_t part, size_t plain_at, const npu_cmd_conv *conv,
               Weights &w);

  PackedCache packed_;
};

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
  const auto fresh = std::make_shared<PackedWeights>(op);
  op.pack(plain, fresh->memory);
  if (conv) fresh->reach = reach_of(plain, *conv);
  packed_.insert(key, fresh, ticket);
  w.shared = fresh;
  w.memory = fresh->memory;
  w.reach = fresh->reach;
  return true;
}

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

bool Onednn::conv(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
                  void *out) {
  const SingleThread single;
  const Axis y = Axis::of(c.ih, c.oh, c.kh, c.sh, c.dh, c.pad_t);
  const Axis x = Axis::of(c.iw, c.ow, c.kw, c.sw, c.dw, c.pad_l);
  Shape shape = shape_of(c, y, x, bias, psum);
  Operation *op = y.usable && x.usable ? &ThreadState::current().operation(shape) : nullptr;
  if (!op || !op->usable()) {
    const void *plain = wgt.fetch(wgt.arg);
    if (!plain) return false;
    reference::conv(c, f32(in), plain, bias, f32(psum), f32(out));
    return true;
  }
  Weights w;
  w.padded = y.before > 0 || y.behind > 0 || x.before > 0 || x.behind > 0;
  if (!weights(*op, wgt, 0, 0, &c, w)) return false;
  // The library multiplies padding by weights where that is faster; zero times an infinite weight is not what the
  // definition says.
  if (w.padded && !std::isfinite(w.reach)) {
    const void *plain = wgt.fetch(wgt.arg);
    if (!plain) return false;
    reference::conv(c, f32(in), plain, bias, f32(psum), f32(out));
    return true;
  }
  const size_t inputs = size_t{c.n} * c.ih * c.iw * c.ic, outputs = size_t{c.n} * c.oh * c.ow * c.oc;
  // A fused activation is right only where no NaN can arise. Looking at the inputs for that costs less than an
  // activation of its own where they are no more than the outputs.
  bool fused = false;
  const bool bias_aligned = reinterpret_cast<uintptr_t>(bias) % alignof(float) == 0;
  if (can_fuse(c.act, c.act_a) && !psum && inputs <= outputs && w.reach < kSafe && bias_aligned) {
    const double size = fast::largest(f32(in), inputs) * w.reach + (bias ? fast::largest(f32(bias), c.oc) : 0.0);
    shape.act = c.act, shape.act_a = c.act_a, shape.act_b = c.act_b;
    Operation &with_act = ThreadState::current().operation(shape);
    fused = size < kSafe && with_act.usable() && *with_act.layout() == *op->layout();
    if (fused) op = &with_act;
  }
  if (psum && psum != out) std::memmove(out, psum, outputs * sizeof(float));
  op->run(crop(c, y, x, f32(in)), w.memory, bias, out);
  if (!fused) fast::activate(c.act, c.act_a, c.act_b, f32(out), f32(out), outputs);
  return true;
}

bool Onednn::matmul(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
                    void *out) {
  const SingleThread single;
  // A batch with one B is one product with more rows, if the As follow each other.
  const bool joined = c.b_batch_stride == 0 && c.a_batch_stride == uint64_t{c.m} * c.k;
  const uint64_t products = joined ? 1 : c.batch;
  const uint64_t rows = joined ? uint64_t{c.m} * c.batch : c.m;
  Shape shape = Shape::matmul(rows, c.k, c.n, c.flags & NPU_CONV_TRANS_B);
  shape.bias = bias;
  shape.sum = psum;
  Operation &op = ThreadState::current().operation(shape);
  if (!op.usable()) {
    const void *plain = wgt.fetch(wgt.arg);
    if (!plain) return false;
    reference::matmul(c, f32(in), plain, bias, f32(psum), f32(out));
    return true;
  }
  const size_t outputs = size_t{c.batch} * c.m * c.n;
  Weights w;
  for (uint64_t i = 0; i < products; ++i) {
    const uint64_t b_at = i * c.b_batch_stride;
    if ((i == 0 || c.b_batch_stride != 0) && !weights(op, wgt, b_at, b_at * sizeof(float), nullptr, w)) return false;
    if (i == 0 && psum && psum != out) std::memmove(out, psum, outputs * sizeof(float));
    op.run(f32(in) + i * c.a_batch_stride, w.memory, bias, f32(out) + i * rows * c.n);
  }
  fast::activate(c.act, c.act_a, c.act_b, f32(out), f32(out), outputs);
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Backend *npu_onednn_create(uint32_t interface,
                                                                             uint64_t max_packed_bytes, char *why,
                                                                             size_t why_bytes) {
  if (interface != kOnednnInterface) {
    std::snprintf(why, why_bytes, "%s has interface %u, the model needs %u", kOnednnModule, kOnednnInterface,
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
