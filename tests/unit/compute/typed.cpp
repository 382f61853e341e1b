// SPDX-License-Identifier: MIT
#include "tests/unit/compute/typed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/numbers.h"
#include "uapi/hw/asm/assembler.h"

namespace npu::test {
namespace {

using Places = hw::OperandPlaces;

constexpr uint64_t kMaxProducts = 300000;

constexpr uint8_t kFloats[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16};
constexpr uint8_t kBytes8[] = {NPU_DTYPE_S8, NPU_DTYPE_U8};

struct Range {
  int low, high;
};
Range range_of(uint8_t dtype) {
  switch (dtype) {
    case NPU_DTYPE_S8:
      return {INT8_MIN, INT8_MAX};
    case NPU_DTYPE_U8:
      return {0, UINT8_MAX};
    case NPU_DTYPE_S16:
      return {INT16_MIN, INT16_MAX};
    default:
      return {0, UINT16_MAX};
  }
}

}  // namespace

int32_t random_zero(Random &r, uint8_t dtype) {
  if (model::is_float(dtype) || dtype == NPU_DTYPE_S32) return 0;
  const Range may = range_of(dtype);
  const int choices[] = {may.low, may.high, 0, (may.low + may.high + 1) / 2, r.range(may.low, may.high)};
  return choices[r.range(0, 4)];
}

Bytes some_elements(Random &r, uint8_t dtype, size_t count, bool odd) {
  Bytes bytes(count * hw::arith::dtype_bytes(dtype));
  if (model::is_float(dtype)) {
    constexpr float kOdd[] = {INFINITY, -INFINITY, NAN, -0.0f, 0x1p-140f, 3e38f, -3e38f, 70000.0f};
    Values v = r.values(count);
    if (r.chance(3))
      for (float &x : v) x *= 300;
    if (odd)
      for (float &x : v)
        if (r.chance(9)) x = kOdd[r.range(0, 7)];
    model::store_numbers({dtype}, v.data(), count, bytes.data());
    return bytes;
  }
  const bool ends = r.chance(5);
  const Range may = range_of(dtype);
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<uint32_t>(dtype == NPU_DTYPE_S32 ? static_cast<int>(r.bits())
                                         : ends                 ? (r.chance(2) ? may.low : may.high)
                                                                : r.range(may.low, may.high));
    std::memcpy(bytes.data() + i * hw::arith::dtype_bytes(dtype), &x, hw::arith::dtype_bytes(dtype));
  }
  return bytes;
}

void random_fused(Random &r, uint8_t last, uint8_t &act, float &a, float &b, float size) {
  do {
    a = b = 0;
    random_activation(r, act, a, b);
  } while (act > last);
  a *= act == NPU_ACT_CLIP ? size : 1;
  b *= size;
}

float random_scale(Random &r, uint8_t dtype) {
  if (model::is_float(dtype)) return 0;
  const float choices[] = {1, 0.5f, 0.25f, r.real(0.001f, 0.1f), r.real(0.001f, 0.1f), 0x1p-140f, 1e30f, 3e38f};
  return choices[r.chance(4) ? r.range(0, 7) : r.range(0, 4)];
}

uint32_t random_pitch(Random &r, uint32_t dense) {
  return r.chance(2) ? 0 : dense + (r.chance(2) ? r.range(0, 40) : 0);
}

namespace {

/// Factors that bring sums of `terms` products to some steps; or such that make ties, saturate, or are no numbers.
void random_multipliers(Random &r, size_t terms, float *m, size_t count) {
  const int kind = r.range(0, 7);
  const float usual = 1.0f / (30.0f * std::sqrt(static_cast<float>(terms)) + 1);
  const float odd[] = {0, -0.0f, 0x1p-140f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < count; ++i) {
    m[i] = usual * r.real(0.3f, 3);
    if (kind == 0) m[i] = 1.0f / static_cast<float>(1 << r.range(1, 12));
    if (kind == 1) m[i] = -m[i];
    if (kind == 2) m[i] = 1000 * r.real(-1, 1);
    if (kind == 3 && r.chance(4)) m[i] = odd[r.range(0, 7)];
  }
}

/// Vectors that follow each other: bias and multipliers.
void choose_vectors(Random &r, uint16_t flags, bool floats, size_t terms, size_t channels, Bytes &param) {
  const size_t bytes = channels * sizeof(float);
  if (flags & NPU_CONV_BIAS) {
    Bytes bias = some_elements(r, floats ? NPU_DTYPE_F32 : NPU_DTYPE_S32, channels);
    if (!floats && !r.chance(4))
      for (size_t i = 0; i < channels; ++i) {
        const int32_t small = r.range(-20000, 20000);
        std::memcpy(bias.data() + i * sizeof small, &small, sizeof small);
      }
    param.insert(param.end(), bias.begin(), bias.end());
  }
  if (flags & NPU_CONV_REQUANT) {
    Values m(channels);
    random_multipliers(r, terms, m.data(), channels);
    const auto *first = reinterpret_cast<const uint8_t *>(m.data());
    param.insert(param.end(), first, first + bytes);
  }
}

template <class Cmd>
void choose_product(Random &r, bool floats, size_t terms, size_t channels, Typed<Cmd> &t) {
  Cmd &c = t.c;
  c.in_dtype = floats ? one_of(r, kFloats) : one_of(r, kBytes8);
  c.wgt_dtype = floats ? one_of(r, kFloats) : one_of(r, kBytes8);
  c.in_zp = random_zero(r, c.in_dtype);
  c.wgt_zp = r.chance(2) ? (c.wgt_dtype == NPU_DTYPE_U8 ? 128 : 0) * !floats : random_zero(r, c.wgt_dtype);
  c.out_dtype = floats ? NPU_DTYPE_F32 : NPU_DTYPE_S32;
  if (r.chance(4)) c.flags |= NPU_CONV_PSUM_IN;
  if (r.chance(6)) {
    c.flags |= NPU_CONV_PSUM_OUT;
  } else {
    if (r.chance(2)) c.flags |= NPU_CONV_BIAS;
    if (floats) {
      c.out_dtype = one_of(r, kFloats);
    } else if (!r.chance(5)) {
      c.flags |= NPU_CONV_REQUANT;
      c.out_dtype = r.chance(4) ? one_of(r, kFloats) : one_of(r, kBytes8);
      c.out_zp = random_zero(r, c.out_dtype);
    }
    const uint8_t last = c.out_dtype == NPU_DTYPE_S32   ? NPU_ACT_NONE
                         : model::is_float(c.out_dtype) ? NPU_ACT_TANH
                                                        : NPU_ACT_LEAKY_RELU;
    random_fused(r, last, c.act, c.act_a, c.act_b, model::is_float(c.out_dtype) ? 1.0f : 60.0f);
  }
  const auto elements = [&](unsigned place) { return span_of(c, place); };
  t.at[Places::kIn] = some_elements(r, c.in_dtype, elements(Places::kIn));
  t.at[Places::kWeights] = some_elements(r, c.wgt_dtype, elements(Places::kWeights));
  t.at[Places::kOut] = some_elements(r, c.out_dtype, elements(Places::kOut));
  const uint8_t sums = floats ? NPU_DTYPE_F32 : NPU_DTYPE_S32;
  if (c.flags & NPU_CONV_PSUM_IN) t.at[Places::kPsum] = some_elements(r, sums, elements(Places::kPsum));
  t.in_place = hw::arith::dtype_bytes(c.out_dtype) == sizeof(float) && r.chance(2);
  t.at[Places::kParam].clear();
  choose_vectors(r, c.flags, floats, terms, channels, t.at[Places::kParam]);
}

template <class Cmd>
Bytes run_product(model::Backend &backend, const Typed<Cmd> &t, size_t channels, const Origin &origin) {
  Bytes out = t.at[Places::kOut];
  const Bytes &vectors = t.at[Places::kParam];
  const bool bias = t.c.flags & NPU_CONV_BIAS, multiplier = t.c.flags & NPU_CONV_REQUANT;
  // At odd addresses, as in memory.
  Bytes odd(vectors.size() + 1);
  std::copy(vectors.begin(), vectors.end(), odd.begin() + 1);
  const model::ProductParams params(bias ? odd.data() + 1 : nullptr,
                                    multiplier ? odd.data() + 1 + (bias ? channels * sizeof(float) : 0) : nullptr);
  const Bytes &sums = t.at[Places::kPsum];
  const void *psum = sums.empty() ? nullptr : sums.data();
  if (psum && t.in_place) {
    out = sums;
    psum = out.data();
  }
  const Bytes &wgt = t.at[Places::kWeights];
  const model::Streamed streamed{[](void *p) -> const void * { return static_cast<const Bytes *>(p)->data(); },
                                 const_cast<Bytes *>(&wgt),
                                 wgt.size(),
                                 origin.constant,
                                 origin.asid,
                                 origin.va};
  EXPECT_TRUE(backend.run(t.c, t.at[Places::kIn].data(), streamed, params, psum, out.data()));
  return out;
}

}  // namespace

void choose_numbers(Random &r, bool floats, Typed<npu_cmd_conv> &t) {
  const npu_cmd_conv &c = t.c;
  choose_product(r, floats, size_t{c.kh} * c.kw * (c.ic / c.groups), c.oc, t);
}

void choose_numbers(Random &r, bool floats, Typed<npu_cmd_matmul> &t) { choose_product(r, floats, t.c.k, t.c.n, t); }

Typed<npu_cmd_conv> random_typed_conv(Random &r, bool floats) {
  Typed<npu_cmd_conv> t;
  npu_cmd_conv &c = t.c;
  do {
    const ConvCase shape = random_conv(r);
    c = hw::make<npu_cmd_conv>();
    c.n = shape.c.n, c.ih = shape.c.ih, c.iw = shape.c.iw, c.ic = shape.c.ic, c.oc = shape.c.oc;
    c.oh = shape.c.oh, c.ow = shape.c.ow, c.kh = shape.c.kh, c.kw = shape.c.kw, c.sh = shape.c.sh, c.sw = shape.c.sw;
    c.dh = shape.c.dh, c.dw = shape.c.dw, c.groups = shape.c.groups, c.pad_t = shape.c.pad_t, c.pad_l = shape.c.pad_l;
    if (r.chance(4)) c.idh = static_cast<uint8_t>(r.range(0, 3)), c.idw = static_cast<uint8_t>(r.range(0, 3));
    c.in_pitch = random_pitch(r, c.ic);
    c.out_pitch = random_pitch(r, c.oc);
  } while (uint64_t{c.n} * c.oh * c.ow * c.oc * c.kh * c.kw * (c.ic / c.groups) > kMaxProducts);
  choose_numbers(r, floats, t);
  return t;
}

Typed<npu_cmd_matmul> random_typed_matmul(Random &r, bool floats) {
  Typed<npu_cmd_matmul> t;
  npu_cmd_matmul &c = t.c;
  do {
    c = hw::make<npu_cmd_matmul>();
    c.batch = r.chance(2) ? 1 : r.range(1, 5);
    c.m = r.chance(3) ? r.range(1, 6) : r.range(1, 60);
    c.k = r.chance(6) ? 1 : r.range(1, 150);
    c.n = r.chance(6) ? 1 : r.range(1, 150);
  } while (uint64_t{c.batch} * c.m * c.k * c.n > kMaxProducts);
  if (r.chance(2)) c.flags |= NPU_CONV_TRANS_B;
  const bool trans = c.flags & NPU_CONV_TRANS_B;
  c.a_row_stride = random_pitch(r, c.k);
  c.b_row_stride = random_pitch(r, trans ? c.k : c.n);
  c.out_row_stride = random_pitch(r, c.n);
  const uint32_t a_row = c.a_row_stride ? c.a_row_stride : c.k, out_row = c.out_row_stride ? c.out_row_stride : c.n;
  const uint32_t b_row = c.b_row_stride ? c.b_row_stride : (trans ? c.k : c.n);
  const auto batch = [&](uint32_t dense) { return r.chance(3) ? 0 : dense + (r.chance(3) ? r.range(1, 9) : 0); };
  c.a_batch_stride = batch(c.m * a_row);
  c.b_batch_stride = batch((trans ? c.n : c.k) * b_row);
  if (r.chance(2)) c.out_batch_stride = c.m * out_row + r.range(0, 9);
  // Heads of attention: the batch lies within the rows.
  if (c.batch > 1 && r.chance(4)) {
    c.out_row_stride = c.n * c.batch;
    c.out_batch_stride = c.n;
    c.a_row_stride = c.k * c.batch;
    c.a_batch_stride = c.k;
  }
  choose_numbers(r, floats, t);
  return t;
}

Bytes run(model::Backend &backend, const Typed<npu_cmd_conv> &t, const Origin &origin) {
  return run_product(backend, t, t.c.oc, origin);
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_matmul> &t, const Origin &origin) {
  return run_product(backend, t, t.c.n, origin);
}

template <class Cmd>
std::string text_of(const Cmd &c) {
  assembly::CommandBytes bytes{};
  std::memcpy(bytes.data(), &c, sizeof c);
  bool exact;
  return assembly::disassemble(bytes, exact);
}
template std::string text_of(const npu_cmd_conv &c);
template std::string text_of(const npu_cmd_matmul &c);
template std::string text_of(const npu_cmd_pool &c);
template std::string text_of(const npu_cmd_eltwise &c);
template std::string text_of(const npu_cmd_unary &c);
template std::string text_of(const npu_cmd_softmax &c);
template std::string text_of(const npu_cmd_reduce &c);
template std::string text_of(const npu_cmd_norm &c);
template std::string text_of(const npu_cmd_lut &c);
template std::string text_of(const npu_cmd_requant &c);
template std::string text_of(const npu_cmd_select &c);

}  // namespace npu::test
