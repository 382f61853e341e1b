// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/numbers.h"
#include "tests/unit/compute/typed.h"

namespace npu::test {
namespace {

using Places = hw::OperandPlaces;
using hw::arith::dtype_bytes;

constexpr uint8_t kFloats[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16};
constexpr uint8_t kBytes8[] = {NPU_DTYPE_S8, NPU_DTYPE_U8};
constexpr uint8_t kNumbers[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8,
                                NPU_DTYPE_U8,  NPU_DTYPE_S16, NPU_DTYPE_U16};
constexpr uint8_t kNumbers32[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8,
                                  NPU_DTYPE_U8,  NPU_DTYPE_S16, NPU_DTYPE_U16,  NPU_DTYPE_S32};
constexpr uint8_t kTables[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8,  NPU_DTYPE_U8,  NPU_DTYPE_S16,
                               NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_BF16};

void choose_number(Random &r, uint8_t dtype, float &scale, int32_t &zero) {
  scale = random_scale(r, dtype);
  zero = random_zero(r, dtype);
}

/// Elements for the operands of one that reads and writes. Often they have one size, so that one may take the place of
/// the other.
template <class Cmd>
void choose_elements(Random &r, Typed<Cmd> &t, bool odd, bool may_be_in_place) {
  t.at[Places::kIn] = some_elements(r, t.c.in_dtype, span_of(t.c, Places::kIn), odd);
  t.at[Places::kOut] = some_elements(r, t.c.out_dtype, span_of(t.c, Places::kOut));
  t.in_place = may_be_in_place && dtype_bytes(t.c.in_dtype) == dtype_bytes(t.c.out_dtype) && r.chance(2);
}

/// Errors that functions may have are less than a step.
void coarsen(uint8_t dtype, float &scale) {
  if (!model::is_float(dtype)) scale = std::max(scale, 0.001f);
}

template <class Cmd>
void choose_types(Random &r, Cmd &c) {
  c.in_dtype = one_of(r, kNumbers);
  c.out_dtype = r.chance(2) ? c.in_dtype : one_of(r, kNumbers);
  choose_number(r, c.in_dtype, c.in_scale, c.in_zp);
  choose_number(r, c.out_dtype, c.out_scale, c.out_zp);
  if (c.in_dtype == c.out_dtype && r.chance(2)) c.out_scale = c.in_scale, c.out_zp = c.in_zp;
}

/// Runs a command that writes to kOut, or where its input lies.
template <class Cmd, class Call>
Bytes run_one(const Typed<Cmd> &t, Call call) {
  Bytes out = t.in_place ? t.at[Places::kIn] : t.at[Places::kOut];
  call(t.in_place ? out.data() : t.at[Places::kIn].data(), out.data());
  return out;
}

/// kParam at an odd address.
struct Odd {
  Bytes bytes;
  explicit Odd(const Bytes &vectors) : bytes(vectors.size() + 1) {
    std::copy(vectors.begin(), vectors.end(), bytes.begin() + 1);
  }
  const void *vector(bool used, size_t first_float) const {
    return used ? bytes.data() + 1 + first_float * sizeof(float) : nullptr;
  }
};

void append(Bytes &to, const Values &v) {
  const auto *first = reinterpret_cast<const uint8_t *>(v.data());
  to.insert(to.end(), first, first + v.size() * sizeof(float));
}

/// Dimensions with broadcasting and gaps for `operands` strides; the product stays small.
template <size_t operands>
void random_dims(Random &r, uint32_t (&dims)[5], uint32_t (*const (&stride)[operands])[5]) {
  const int shape = r.range(0, 3);
  for (size_t d = 0; d < 5; ++d) dims[d] = r.chance(2) ? 1 : r.range(1, shape ? 6 : 3);
  dims[4] = shape == 0 ? r.range(900, 3000) : r.range(1, 70);
  for (auto *s : stride) {
    const bool dense = r.chance(2);
    uint32_t inside = 1;
    for (size_t d = 5; d-- > 0;) {
      (*s)[d] = !dense && r.chance(3) ? 0 : inside;
      if (!dense && d == 4 && r.chance(4)) (*s)[d] = r.range(2, 3);
      inside = std::max<uint32_t>(inside, (*s)[d]) * dims[d] + (!dense && r.chance(5) ? r.range(1, 3) : 0);
    }
  }
}

bool dense(const uint32_t (&dims)[5], const uint32_t (&stride)[5], uint32_t pitch) {
  uint32_t inside = 1;
  for (size_t d = 5; d-- > 0;) {
    if (dims[d] > 1 && stride[d] != inside) return false;
    inside = d == 4 ? pitch : inside * dims[d];
  }
  return true;
}

}  // namespace

Typed<npu_cmd_pool> random_typed_pool(Random &r) {
  Typed<npu_cmd_pool> t;
  npu_cmd_pool &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_POOL_MAX, NPU_POOL_AVG));
  c.n = r.range(1, 3);
  c.ih = r.range(1, 12);
  c.iw = r.range(1, 12);
  c.c = r.range(1, 70);
  c.kh = static_cast<uint16_t>(r.range(1, 5));
  c.kw = static_cast<uint16_t>(r.range(1, 5));
  c.sh = static_cast<uint16_t>(r.range(1, 3));
  c.sw = static_cast<uint16_t>(r.range(1, 3));
  c.dh = c.dw = 1;
  c.pad_t = r.range(0, c.kh - 1);
  c.pad_l = r.range(0, c.kw - 1);
  if (c.subop == NPU_POOL_AVG && r.chance(2)) {
    c.flags = NPU_POOLF_COUNT_PAD;
    c.pad_b = r.range(0, 2);
    c.pad_r = r.range(0, 2);
  }
  // Windows begin within the image.
  c.oh = std::max<uint32_t>((c.ih + static_cast<uint32_t>(c.pad_t) - 1) / c.sh + 1, 1);
  c.ow = std::max<uint32_t>((c.iw + static_cast<uint32_t>(c.pad_l) - 1) / c.sw + 1, 1);
  while (c.oh > 1 && (c.oh - 1) * c.sh >= c.ih + static_cast<uint32_t>(c.pad_t)) --c.oh;
  while (c.ow > 1 && (c.ow - 1) * c.sw >= c.iw + static_cast<uint32_t>(c.pad_l)) --c.ow;
  c.in_pitch = random_pitch(r, c.c);
  c.out_pitch = random_pitch(r, c.c);
  choose_types(r, c);
  choose_elements(r, t, false, false);
  return t;
}

Typed<npu_cmd_eltwise> random_typed_eltwise(Random &r) {
  Typed<npu_cmd_eltwise> t;
  npu_cmd_eltwise &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_ELTWISE_ADD, NPU_ELTWISE_CMP_LE));
  uint32_t(*const strides[])[5] = {&c.a_stride, &c.b_stride};
  random_dims(r, c.dims, strides);
  c.out_pitch = random_pitch(r, c.dims[4]);
  c.a_dtype = one_of(r, kNumbers);
  c.b_dtype = r.chance(2) ? c.a_dtype : one_of(r, kNumbers);
  c.out_dtype = r.chance(2) ? c.a_dtype : one_of(r, kNumbers);
  if (r.chance(3)) {
    c.flags = NPU_ELTWISEF_B_IMM;
    c.b_dtype = NPU_DTYPE_F32;
    c.imm = r.real(-3, 3);
    std::fill_n(c.b_stride, 5, 0);
  }
  choose_number(r, c.a_dtype, c.a_scale, c.a_zp);
  choose_number(r, c.b_dtype, c.b_scale, c.b_zp);
  if (c.subop >= NPU_ELTWISE_CMP_EQ) {
    c.out_dtype = NPU_DTYPE_U8;
    c.out_scale = 1;
  } else {
    choose_number(r, c.out_dtype, c.out_scale, c.out_zp);
    random_fused(r, NPU_ACT_TANH, c.act, c.act_a, c.act_b, 1);
    if (c.act > NPU_ACT_LEAKY_RELU || c.subop == NPU_ELTWISE_POW) coarsen(c.out_dtype, c.out_scale);
  }
  t.at[Places::kA] = some_elements(r, c.a_dtype, span_of(c, Places::kA), true);
  t.at[Places::kB] = some_elements(r, c.b_dtype, span_of(c, Places::kB), true);
  t.at[Places::kResult] = some_elements(r, c.out_dtype, span_of(c, Places::kResult));
  t.in_place = dtype_bytes(c.a_dtype) == dtype_bytes(c.out_dtype) &&
               dense(c.dims, c.a_stride, c.out_pitch ? c.out_pitch : c.dims[4]) && r.chance(2);
  return t;
}

Typed<npu_cmd_unary> random_typed_unary(Random &r) {
  Typed<npu_cmd_unary> t;
  npu_cmd_unary &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_ACT_NONE, NPU_ACT_COS));
  c.count = r.chance(3) ? r.range(1000, 3000) : r.range(1, 100);
  c.in_dtype = one_of(r, kFloats);
  c.out_dtype = r.chance(2) ? c.in_dtype : one_of(r, kFloats);
  if (c.subop == NPU_ACT_CLIP) c.act_a = -0.5f, c.act_b = 0.75f;
  if (c.subop == NPU_ACT_LEAKY_RELU || c.subop == NPU_ACT_ELU) c.act_a = 0.3f;
  if (c.subop == NPU_ACT_GELU) c.act_a = static_cast<float>(r.range(0, 1));
  if (c.subop == NPU_ACT_HARD_SIGMOID) c.act_a = 0.2f, c.act_b = 0.5f;
  choose_elements(r, t, c.subop != NPU_ACT_SIN && c.subop != NPU_ACT_COS, true);
  return t;
}

Typed<npu_cmd_softmax> random_typed_softmax(Random &r) {
  Typed<npu_cmd_softmax> t;
  npu_cmd_softmax &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_SOFTMAX_NORMAL, NPU_SOFTMAX_LOG));
  c.rows = r.range(1, 9);
  c.cols = r.chance(4) ? r.range(300, 1500) : r.range(1, 90);
  choose_types(r, c);
  // Results are small numbers.
  if (c.in_scale > 1) c.in_scale = 0.1f;
  if (c.out_scale != 0) c.out_scale = r.real(0.002f, 0.1f);
  choose_elements(r, t, false, true);
  return t;
}

Typed<npu_cmd_reduce> random_typed_reduce(Random &r) {
  Typed<npu_cmd_reduce> t;
  npu_cmd_reduce &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_REDUCE_SUM, NPU_REDUCE_ARGMIN));
  c.outer = r.range(1, 5);
  c.n = r.chance(4) ? r.range(500, 1200) : r.range(1, 40);
  c.inner = r.chance(2) ? 1 : r.range(1, c.n > 100 ? 5 : 700);
  if (r.chance(2) && c.subop >= NPU_REDUCE_ARGMAX) c.flags = NPU_REDUCEF_LAST;
  choose_types(r, c);
  if (c.in_scale > 1) c.in_scale = 0.1f;
  if (c.out_scale > 1) c.out_scale = 0.1f;
  if (c.subop >= NPU_REDUCE_ARGMAX) {
    c.out_dtype = NPU_DTYPE_S32;
    c.out_scale = 1;
    c.out_zp = 0;
  }
  const bool exact = c.subop == NPU_REDUCE_MAX || c.subop == NPU_REDUCE_MIN || c.subop >= NPU_REDUCE_ARGMAX;
  choose_elements(r, t, exact, false);
  return t;
}

Typed<npu_cmd_norm> random_typed_norm(Random &r) {
  Typed<npu_cmd_norm> t;
  npu_cmd_norm &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_NORM_LAYER, NPU_NORM_RMS));
  c.rows = r.range(1, 9);
  c.cols = r.chance(3) ? r.range(200, 900) : r.range(1, 60);
  c.in_dtype = one_of(r, kFloats);
  c.out_dtype = r.chance(2) ? c.in_dtype : one_of(r, kFloats);
  c.epsilon = 1e-5f;
  c.flags = static_cast<uint16_t>(r.range(0, NPU_NORMF_SCALE | NPU_NORMF_BIAS));
  if (c.flags & NPU_NORMF_SCALE) append(t.at[Places::kParam], r.values(c.cols));
  if (c.flags & NPU_NORMF_BIAS) append(t.at[Places::kParam], r.values(c.cols));
  choose_elements(r, t, false, true);
  return t;
}

Typed<npu_cmd_lut> random_typed_lut(Random &r) {
  Typed<npu_cmd_lut> t;
  npu_cmd_lut &c = t.c;
  c.count = r.chance(2) ? r.range(1000, 5000) : r.range(1, 200);
  c.in_dtype = one_of(r, kBytes8);
  c.out_dtype = one_of(r, kTables);
  t.at[Places::kParam].resize(256 * dtype_bytes(c.out_dtype));
  for (uint8_t &x : t.at[Places::kParam]) x = static_cast<uint8_t>(r.bits());
  choose_elements(r, t, false, true);
  return t;
}

Typed<npu_cmd_requant> random_typed_requant(Random &r) {
  Typed<npu_cmd_requant> t;
  npu_cmd_requant &c = t.c;
  c.rows = r.range(1, 20);
  c.cols = r.chance(3) ? r.range(500, 2500) : r.range(1, 150);
  c.in_pitch = random_pitch(r, c.cols);
  c.out_pitch = r.chance(2) ? c.in_pitch : random_pitch(r, c.cols);
  c.in_dtype = one_of(r, kNumbers32);
  c.out_dtype = one_of(r, kNumbers32);
  choose_number(r, c.in_dtype, c.in_scale, c.in_zp);
  choose_number(r, c.out_dtype, c.out_scale, c.out_zp);
  if (r.chance(3)) random_fused(r, NPU_ACT_TANH, c.act, c.act_a, c.act_b, 1);
  if (c.act > NPU_ACT_LEAKY_RELU) coarsen(c.out_dtype, c.out_scale);
  const auto scales = [&](uint16_t flag, uint8_t dtype, float &scale) {
    if (model::is_float(dtype) || !r.chance(3)) return;
    c.flags |= flag;
    scale = 1;
    Values v = r.values(c.cols);
    for (float &x : v) x = r.chance(9) ? 0.5f : std::fabs(x) + 0.001f;
    append(t.at[Places::kParam], v);
  };
  scales(NPU_REQUANTF_IN_SCALES, c.in_dtype, c.in_scale);
  scales(NPU_REQUANTF_OUT_SCALES, c.out_dtype, c.out_scale);
  choose_elements(r, t, true, c.in_pitch == c.out_pitch);
  return t;
}

Typed<npu_cmd_select> random_typed_select(Random &r) {
  Typed<npu_cmd_select> t;
  npu_cmd_select &c = t.c;
  constexpr uint8_t kTypes[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8, NPU_DTYPE_U16, NPU_DTYPE_S64};
  c.dtype = one_of(r, kTypes);
  uint32_t(*const strides[])[5] = {&c.a_stride, &c.b_stride, &c.c_stride};
  random_dims(r, c.dims, strides);
  const auto random_bytes = [&](size_t count) {
    Bytes bytes(count);
    for (uint8_t &x : bytes) x = static_cast<uint8_t>(r.bits());
    return bytes;
  };
  const size_t size = dtype_bytes(c.dtype);
  t.at[Places::kA] = random_bytes(span_of(c, Places::kA) * size);
  t.at[Places::kB] = random_bytes(span_of(c, Places::kB) * size);
  t.at[Places::kResult] = random_bytes(span_of(c, Places::kResult) * size);
  t.at[Places::kCondition].resize(span_of(c, Places::kCondition));
  for (uint8_t &x : t.at[Places::kCondition]) x = r.chance(2) ? 0 : static_cast<uint8_t>(r.range(1, 255));
  t.in_place = dense(c.dims, c.a_stride, c.dims[4]) && r.chance(2);
  return t;
}

Bytes run(model::Backend &backend, const Typed<npu_cmd_pool> &t) {
  return run_one(t, [&](const void *in, void *out) { backend.run(t.c, in, out); });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_unary> &t) {
  return run_one(t, [&](const void *in, void *out) { backend.run(t.c, in, out); });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_softmax> &t) {
  return run_one(t, [&](const void *in, void *out) { backend.run(t.c, in, out); });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_reduce> &t) {
  return run_one(t, [&](const void *in, void *out) { backend.run(t.c, in, out); });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_norm> &t) {
  const Odd vectors(t.at[Places::kParam]);
  const bool scale = t.c.flags & NPU_NORMF_SCALE;
  return run_one(t, [&](const void *in, void *out) {
    backend.run(t.c, in, vectors.vector(scale, 0), vectors.vector(t.c.flags & NPU_NORMF_BIAS, scale ? t.c.cols : 0),
                out);
  });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_lut> &t) {
  const Odd table(t.at[Places::kParam]);
  return run_one(t, [&](const void *in, void *out) { backend.run(t.c, in, table.vector(true, 0), out); });
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_requant> &t) {
  const Odd vectors(t.at[Places::kParam]);
  const bool scales = t.c.flags & NPU_REQUANTF_IN_SCALES;
  return run_one(t, [&](const void *in, void *out) {
    backend.run(t.c, in, vectors.vector(scales, 0),
                vectors.vector(t.c.flags & NPU_REQUANTF_OUT_SCALES, scales ? t.c.cols : 0), out);
  });
}

Bytes run(model::Backend &backend, const Typed<npu_cmd_eltwise> &t) {
  Bytes out = t.at[Places::kResult];
  const Bytes &a = t.at[Places::kA], &b = t.at[Places::kB];
  // The result has what lies behind the operand's last element, too, where their rows have gaps.
  if (t.in_place) std::copy_n(a.begin(), std::min(a.size(), out.size()), out.begin());
  backend.run(t.c, t.in_place ? out.data() : a.data(), b.empty() ? nullptr : b.data(), out.data());
  return out;
}
Bytes run(model::Backend &backend, const Typed<npu_cmd_select> &t) {
  Bytes out = t.at[Places::kResult];
  const Bytes &a = t.at[Places::kA];
  if (t.in_place) std::copy_n(a.begin(), std::min(a.size(), out.size()), out.begin());
  backend.run(t.c, t.in_place ? out.data() : a.data(), t.at[Places::kB].data(), t.at[Places::kCondition].data(),
              out.data());
  return out;
}

}  // namespace npu::test
