// SPDX-License-Identifier: MIT
#include "tests/unit/compute/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

namespace npu::test {
namespace {

// Largest number of products in a random case: hundreds of cases have to run under sanitizers.
constexpr uint64_t kMaxProducts = 400000;

// An extent of a window's result: usually what fits with some padding behind, sometimes fewer or more.
uint32_t random_extent(Random &r, int64_t in, int64_t k, int64_t stride, int64_t dilation, int64_t pad) {
  const int64_t behind = r.range(0, 3);
  const int64_t natural = (in + pad + behind - ((k - 1) * dilation + 1)) / stride + 1;
  const int64_t wanted = r.chance(4) ? r.range(1, 9) : natural;
  return static_cast<uint32_t>(std::clamp<int64_t>(wanted, 1, 24));
}

int32_t random_pad(Random &r) {
  switch (r.range(0, 5)) {
    case 0:
      return r.range(-4, -1);
    case 1:
      return r.range(4, 12);
    case 2:
    case 3:
      return 0;
    default:
      return r.range(1, 3);
  }
}

const float *data_or_null(const Values &v, bool wanted) { return wanted ? v.data() : nullptr; }

// A streamed operand that lies in a vector.
struct Source {
  const Values &values;
  static const void *fetch(void *arg) { return static_cast<Source *>(arg)->values.data(); }
  model::Streamed streamed(const Origin &o) {
    return {fetch, this, values.size() * sizeof(float), o.constant, o.asid, o.va};
  }
};

template <class Case, class Call>
Values run_sums(const Case &t, bool in_place, Call call) {
  Values out(t.outputs(), std::numeric_limits<float>::quiet_NaN());
  const bool partial = t.c.flags & NPU_CONV_PSUM_IN;
  if (partial && in_place) out = t.psum;
  const float *psum = partial ? (in_place ? out.data() : t.psum.data()) : nullptr;
  EXPECT_TRUE(call(data_or_null(t.bias, t.c.flags & NPU_CONV_BIAS), psum, out.data()));
  return out;
}

void random_sum_flags(Random &r, uint16_t &flags, uint8_t &act, float &a, float &b) {
  if (r.chance(3)) flags |= NPU_CONV_PSUM_IN;
  if (r.chance(4)) {
    flags |= NPU_CONV_PSUM_OUT;
    return;
  }
  if (r.chance(2)) flags |= NPU_CONV_BIAS;
  random_activation(r, act, a, b);
}

void random_groups(Random &r, npu_cmd_conv &c) {
  switch (r.range(0, 5)) {
    case 0:  // depthwise
      c.groups = c.ic = c.oc = r.range(1, 70);
      break;
    case 1:  // several results a channel
      c.groups = c.ic = r.range(1, 20);
      c.oc = c.groups * r.range(2, 5);
      break;
    case 2:
      c.groups = r.range(2, 4);
      c.ic = c.groups * r.range(1, 20);
      c.oc = c.groups * r.range(1, 40);
      break;
    default:
      c.groups = 1;
      c.ic = r.range(1, 40);
      c.oc = r.range(1, 80);
  }
}

}  // namespace

Values Random::values(size_t count, float size) {
  Values v(count);
  for (float &x : v) x = real(-size, size);
  return v;
}

void random_activation(Random &r, uint8_t &act, float &a, float &b) {
  act = static_cast<uint8_t>(r.range(NPU_ACT_NONE, NPU_ACT_TANH));
  if (act == NPU_ACT_CLIP) {
    a = r.real(-2, 1);
    b = a + r.real(0, 3);
  }
  if (act == NPU_ACT_LEAKY_RELU) a = r.real(-0.5f, 1.5f);
}

ConvCase random_conv(Random &r) {
  ConvCase t;
  npu_cmd_conv &c = t.c;
  do {
    c = hw::make<npu_cmd_conv>();
    random_groups(r, c);
    c.n = r.range(1, 3);
    c.ih = r.range(1, 20);
    c.iw = r.range(1, 20);
    const bool point = r.chance(4);
    c.kh = point ? 1 : r.range(1, 6);
    c.kw = point ? 1 : r.range(1, 6);
    c.sh = r.chance(2) ? 1 : r.range(1, 4);
    c.sw = r.chance(2) ? 1 : r.range(1, 4);
    c.dh = r.chance(2) ? 1 : r.range(1, 3);
    c.dw = r.chance(2) ? 1 : r.range(1, 3);
    c.pad_t = random_pad(r);
    c.pad_l = random_pad(r);
    c.oh = random_extent(r, c.ih, c.kh, c.sh, c.dh, c.pad_t);
    c.ow = random_extent(r, c.iw, c.kw, c.sw, c.dw, c.pad_l);
  } while (uint64_t{t.outputs()} * c.kh * c.kw * (c.ic / c.groups) > kMaxProducts);
  random_sum_flags(r, c.flags, c.act, c.act_a, c.act_b);
  t.in = r.values(size_t{c.n} * c.ih * c.iw * c.ic);
  t.wgt = r.values(size_t{c.oc} * c.kh * c.kw * (c.ic / c.groups));
  t.bias = r.values(c.oc, 2);
  t.psum = r.values(t.outputs(), 4);
  return t;
}

MatmulCase random_matmul(Random &r) {
  MatmulCase t;
  npu_cmd_matmul &c = t.c;
  do {
    c.batch = r.chance(2) ? 1 : r.range(1, 5);
    c.m = r.chance(3) ? 1 : r.range(1, 60);
    c.k = r.chance(6) ? 1 : r.range(1, 150);
    c.n = r.chance(6) ? 1 : r.range(1, 150);
  } while (uint64_t{t.outputs()} * c.k > kMaxProducts);
  const auto stride = [&](uint32_t dense) { return r.chance(3) ? 0 : (r.chance(3) ? dense + r.range(1, 9) : dense); };
  c.a_batch_stride = stride(c.m * c.k);
  c.b_batch_stride = stride(c.k * c.n);
  if (r.chance(2)) c.flags |= NPU_CONV_TRANS_B;
  random_sum_flags(r, c.flags, c.act, c.act_a, c.act_b);
  t.a = r.values(size_t{c.batch - 1} * c.a_batch_stride + size_t{c.m} * c.k);
  t.b = r.values(size_t{c.batch - 1} * c.b_batch_stride + size_t{c.k} * c.n);
  t.bias = r.values(c.n, 2);
  t.psum = r.values(t.outputs(), 4);
  return t;
}

Values run(model::Backend &backend, const ConvCase &t, const Origin &origin, bool in_place) {
  Source wgt{t.wgt};
  return run_sums(t, in_place, [&](const void *bias, const void *psum, void *out) {
    return backend.run(t.c, t.in.data(), wgt.streamed(origin), bias, psum, out);
  });
}

Values run(model::Backend &backend, const MatmulCase &t, const Origin &origin, bool in_place) {
  Source b{t.b};
  return run_sums(t, in_place, [&](const void *bias, const void *psum, void *out) {
    return backend.run(t.c, t.a.data(), b.streamed(origin), bias, psum, out);
  });
}

std::string describe(const npu_cmd_conv &c) {
  std::ostringstream s;
  s << "conv n=" << c.n << " in=" << c.ih << 'x' << c.iw << 'x' << c.ic << " out=" << c.oh << 'x' << c.ow << 'x' << c.oc
    << " k=" << c.kh << 'x' << c.kw << " s=" << c.sh << 'x' << c.sw << " d=" << c.dh << 'x' << c.dw
    << " groups=" << c.groups << " pad=" << c.pad_t << ',' << c.pad_l << " flags=" << c.flags << " act=" << int{c.act};
  return s.str();
}

std::string describe(const npu_cmd_matmul &c) {
  std::ostringstream s;
  s << "matmul batch=" << c.batch << " m=" << c.m << " k=" << c.k << " n=" << c.n << " strides=" << c.a_batch_stride
    << ',' << c.b_batch_stride << " flags=" << c.flags << " act=" << int{c.act};
  return s.str();
}

std::vector<std::string> backend_names() {
#ifdef NPU_TEST_ONEDNN
  return {"reference", "onednn"};
#else
  return {"reference"};
#endif
}

std::unique_ptr<model::Backend> make_backend(const std::string &name) {
  if (name == "reference") return std::make_unique<model::Reference>();
  setenv("NPU_MODEL_LIBDIR", NPU_TEST_LIBDIR, 0);
  std::string why;
  auto backend = model::make_onednn_backend(why);
  EXPECT_TRUE(backend) << why;
  return backend;
}

}  // namespace npu::test
