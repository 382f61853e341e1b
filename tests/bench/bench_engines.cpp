// SPDX-License-Identifier: MIT
// The chip's engines against bare oneDNN: the layers of networks as CONV commands through the back end and as plain
// calls of the library with everything prepared beforehand, in f32 and in 8 bits. One thread, in turns. Prints the best
// time of each layer, and for tests/bench/pairs.py lines "pair NAME ONEDNN-MS CHIP-MS": the time of the whole network,
// from the best of some turns for each layer.
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <random>
#include <string>
#include <vector>

#include "npu_isa.hpp"
#include "qemu-device/model/src/backend.h"

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

struct Layer {
  const char *name;
  int size, ic, oc, k, stride, times, groups;
};

// Distinct convolutions of ResNet-50 with their number in the network.
constexpr Layer kResnet[] = {
    {"conv1 7x7", 224, 3, 64, 7, 2, 1, 1},          {"56 1x1 64-64", 56, 64, 64, 1, 1, 1, 1},
    {"56 3x3 64", 56, 64, 64, 3, 1, 3, 1},          {"56 1x1 64-256", 56, 64, 256, 1, 1, 4, 1},
    {"56 1x1 256-64", 56, 256, 64, 1, 1, 2, 1},     {"56 1x1 256-128", 56, 256, 128, 1, 1, 1, 1},
    {"56 3x3/2 128", 56, 128, 128, 3, 2, 1, 1},     {"56 1x1/2 256-512", 56, 256, 512, 1, 2, 1, 1},
    {"28 1x1 128-512", 28, 128, 512, 1, 1, 4, 1},   {"28 1x1 512-128", 28, 512, 128, 1, 1, 3, 1},
    {"28 3x3 128", 28, 128, 128, 3, 1, 3, 1},       {"28 1x1 512-256", 28, 512, 256, 1, 1, 1, 1},
    {"28 3x3/2 256", 28, 256, 256, 3, 2, 1, 1},     {"28 1x1/2 512-1024", 28, 512, 1024, 1, 2, 1, 1},
    {"14 1x1 256-1024", 14, 256, 1024, 1, 1, 6, 1}, {"14 1x1 1024-256", 14, 1024, 256, 1, 1, 5, 1},
    {"14 3x3 256", 14, 256, 256, 3, 1, 5, 1},       {"14 1x1 1024-512", 14, 1024, 512, 1, 1, 1, 1},
    {"14 3x3/2 512", 14, 512, 512, 3, 2, 1, 1},     {"14 1x1/2 1024-2048", 14, 1024, 2048, 1, 2, 1, 1},
    {"7 1x1 512-2048", 7, 512, 2048, 1, 1, 3, 1},   {"7 1x1 2048-512", 7, 2048, 512, 1, 1, 2, 1},
    {"7 3x3 512", 7, 512, 512, 3, 1, 2, 1},
};

// Depthwise convolutions of MobileNetV2.
constexpr Layer kDepthwise[] = {
    {"112 dw 3x3 32", 112, 32, 32, 3, 1, 1, 32},     {"112 dw 3x3/2 96", 112, 96, 96, 3, 2, 1, 96},
    {"56 dw 3x3 144", 56, 144, 144, 3, 1, 1, 144},   {"56 dw 3x3/2 144", 56, 144, 144, 3, 2, 1, 144},
    {"28 dw 3x3 192", 28, 192, 192, 3, 1, 2, 192},   {"28 dw 3x3/2 192", 28, 192, 192, 3, 2, 1, 192},
    {"14 dw 3x3 384", 14, 384, 384, 3, 1, 4, 384},   {"14 dw 3x3 576", 14, 576, 576, 3, 1, 2, 576},
    {"14 dw 3x3/2 576", 14, 576, 576, 3, 2, 1, 576}, {"7 dw 3x3 960", 7, 960, 960, 3, 1, 3, 960},
};

constexpr int kPairs = 7;
constexpr int kTurns = 5;

double seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

/// The numbers that a network is computed in.
struct Kind {
  const char *name;
  uint8_t in, wgt, out;
  int32_t in_zero;
};
constexpr Kind kF32 = {"engines", NPU_DTYPE_F32, NPU_DTYPE_F32, NPU_DTYPE_F32, 0};
constexpr Kind kU8 = {"engines-u8", NPU_DTYPE_U8, NPU_DTYPE_S8, NPU_DTYPE_U8, 0};
constexpr Kind kS8 = {"engines-s8", NPU_DTYPE_S8, NPU_DTYPE_S8, NPU_DTYPE_S8, -128};

dnnl::memory::data_type type_of(uint8_t dtype) {
  switch (dtype) {
    case NPU_DTYPE_S8:
      return dnnl::memory::data_type::s8;
    case NPU_DTYPE_U8:
      return dnnl::memory::data_type::u8;
    default:
      return dnnl::memory::data_type::f32;
  }
}

/// Numbers from -1 to 1, or bytes.
Bytes random_elements(uint8_t dtype, size_t count) {
  static std::mt19937 engine(1);
  if (dtype != NPU_DTYPE_F32) {
    Bytes bytes(count);
    for (char &x : bytes) x = static_cast<char>(engine());
    return bytes;
  }
  std::uniform_real_distribution<float> real(-1, 1);
  Bytes bytes(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const float x = real(engine);
    std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
  }
  return bytes;
}

npu_cmd_conv command_of(const Layer &l, const Kind &kind) {
  npu_cmd_conv c = npu::hw::make<npu_cmd_conv>();
  c.n = 1;
  c.ih = c.iw = l.size;
  c.ic = l.ic;
  c.oc = l.oc;
  c.kh = c.kw = l.k;
  c.sh = c.sw = l.stride;
  c.dh = c.dw = 1;
  c.groups = l.groups;
  c.pad_t = c.pad_l = l.k / 2;
  c.oh = c.ow = (l.size + 2 * (l.k / 2) - l.k) / l.stride + 1;
  c.flags = NPU_CONV_BIAS | (kind.in == NPU_DTYPE_F32 ? 0 : NPU_CONV_REQUANT);
  c.act = NPU_ACT_RELU;
  c.in_dtype = kind.in;
  c.wgt_dtype = kind.wgt;
  c.out_dtype = kind.out;
  c.in_zp = kind.in_zero;
  c.out_zp = kind.out == NPU_DTYPE_S8 ? -128 : 0;
  return c;
}

// What a layer is computed from, for both.
struct Operands {
  Bytes in, wgt;
  std::vector<float> bias, multipliers;
  std::vector<int32_t> whole_bias;

  explicit Operands(const npu_cmd_conv &c)
      : in(random_elements(c.in_dtype, size_t{c.ih} * c.iw * c.ic)),
        wgt(random_elements(c.wgt_dtype, size_t{c.oc} * c.kh * c.kw * (c.ic / c.groups))),
        bias(c.oc),
        multipliers(c.oc, 1.0f / (128 * 30 * std::sqrt(static_cast<float>(c.kh) * c.kw * (c.ic / c.groups)))),
        whole_bias(c.oc) {
    for (size_t i = 0; i < c.oc; ++i) {
      whole_bias[i] = static_cast<int32_t>(i * 7919 % 2001) - 1000;
      bias[i] = static_cast<float>(whole_bias[i]) / (c.in_dtype == NPU_DTYPE_F32 ? 1000.0f : 1.0f);
    }
  }
};

// The same layer as an application of the library would set it up: NHWC, weights packed, ReLU and requantisation fused.
class Bare {
 public:
  Bare(const npu_cmd_conv &c, Operands &o, Bytes &out) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    using Tag = memory::format_tag;
    using Conv = dnnl::convolution_forward;
    using Type = memory::data_type;
    const memory::desc in_md({1, c.ic, c.ih, c.iw}, type_of(c.in_dtype), Tag::nhwc);
    const memory::desc out_md({1, c.oc, c.oh, c.ow}, type_of(c.out_dtype), Tag::nhwc);
    memory::dims kernel = {c.oc, c.ic, c.kh, c.kw};
    const memory::dims pad = {c.pad_t, c.pad_l};
    if (c.groups > 1) kernel = {c.groups, c.oc / c.groups, c.ic / c.groups, c.kh, c.kw};
    dnnl::post_ops ops;
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    if (c.flags & NPU_CONV_REQUANT) attr.set_output_scales(1 << 1, o.multipliers);
    attr.set_post_ops(ops);
    const Type weights = type_of(c.wgt_dtype);
    const Conv::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, in_md,
                          {kernel, weights, Tag::any}, {{c.oc}, Type::f32, Tag::a}, out_md, {c.sh, c.sw}, pad, pad);
    const Conv::primitive_desc pd(desc, attr, engine_);
    primitive_ = dnnl::primitive(pd.get());
    const Tag plain_tag = c.groups > 1 ? Tag::gohwi : Tag::ohwi;
    memory plain({kernel, weights, plain_tag}, engine_, o.wgt.data()), packed(pd.weights_desc(), engine_);
    dnnl::reorder(plain, packed).execute(stream_, plain, packed);
    arguments_ = {{DNNL_ARG_SRC, memory(in_md, engine_, o.in.data())},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_BIAS, memory(pd.bias_desc(), engine_, o.bias.data())},
                  {DNNL_ARG_DST, memory(out_md, engine_, out.data())}};
  }
  void run() { primitive_.execute(stream_, arguments_); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct Times {
  double bare, backend;
};
using Pairs = std::array<Times, kPairs>;

Pairs measure(npu::model::Backend &backend, const Layer &l, const Kind &kind, uint64_t va) {
  const npu_cmd_conv c = command_of(l, kind);
  Operands o(c);
  Bytes out(size_t{c.oh} * c.ow * c.oc * (c.out_dtype == NPU_DTYPE_F32 ? sizeof(float) : 1)), bare_out(out.size());
  Bare bare(c, o, bare_out);
  const auto fetch = [](void *arg) -> const void * { return static_cast<Bytes *>(arg)->data(); };
  const npu::model::Streamed weights{fetch, &o.wgt, o.wgt.size(), true, 1, va};
  const bool whole = c.flags & NPU_CONV_REQUANT;
  const npu::model::ProductParams params(whole ? static_cast<const void *>(o.whole_bias.data()) : o.bias.data(),
                                         whole ? o.multipliers.data() : nullptr);
  const auto turn = [&](Times &best) {
    const auto bare_start = Clock::now();
    bare.run();
    best.bare = std::min(best.bare, seconds(bare_start));
    const auto start = Clock::now();
    if (!backend.run(c, o.in.data(), weights, params, nullptr, out.data())) std::abort();
    best.backend = std::min(best.backend, seconds(start));
  };
  Times first{1e9, 1e9};
  turn(first);  // makes what is kept
  Pairs pairs;
  for (Times &best : pairs) {
    best = {1e9, 1e9};
    for (int i = 0; i < kTurns; ++i) turn(best);
  }
  // The library adds the zero point of a result of bytes before it rounds, and takes their sums as floats.
  if (!whole && out != bare_out) std::printf("%s: results differ\n", l.name);
  return pairs;
}

/// Times all layers of a network and prints them; returns the sums.
template <size_t n>
Pairs measure_all(npu::model::Backend &backend, const Layer (&layers)[n], const Kind &kind, std::vector<Times> &best) {
  static uint64_t va = 0;
  Pairs total{};
  for (const Layer &l : layers) {
    const Pairs pairs = measure(backend, l, kind, va += 1 << 30);
    best.push_back({1e9, 1e9});
    for (int p = 0; p < kPairs; ++p) {
      best.back() = {std::min(best.back().bare, pairs[p].bare), std::min(best.back().backend, pairs[p].backend)};
      total[p].bare += pairs[p].bare * l.times;
      total[p].backend += pairs[p].backend * l.times;
    }
  }
  return total;
}

}  // namespace

int main() {
  omp_set_num_threads(1);
  setenv("NPU_MODEL_LIBDIR", NPU_BENCH_LIBDIR, 0);
  std::string why;
  const auto backend = npu::model::make_onednn_backend(why);
  if (!backend) {
    std::fprintf(stderr, "bench_engines: %s\n", why.c_str());
    return 1;
  }
  const auto table = [&](const auto &layers, const char *network) {
    std::vector<Times> best[3];
    Pairs totals[3];
    const Kind *const kinds[] = {&kF32, &kU8, &kS8};
    for (int i = 0; i < 3; ++i) totals[i] = measure_all(*backend, layers, *kinds[i], best[i]);
    std::printf("%-20s %27s %27s %27s\n", "", "f32", "u8", "s8, zero point -128");
    std::printf("%-20s", "layer");
    for (int i = 0; i < 3; ++i) std::printf(" %9s %9s %7s", "oneDNN ms", "chip ms", "ratio");
    std::printf("\n");
    for (size_t l = 0; l < std::size(layers); ++l) {
      std::printf("%-20s", layers[l].name);
      for (const auto &b : best)
        std::printf(" %9.3f %9.3f %6.1f%%", b[l].bare * 1e3, b[l].backend * 1e3, 100 * b[l].bare / b[l].backend);
      std::printf("\n");
    }
    for (int i = 0; i < 3; ++i)
      for (const Times &t : totals[i])
        std::printf("pair %s%s %.3f %.3f\n", kinds[i]->name, network, t.bare * 1e3, t.backend * 1e3);
  };
  table(kResnet, "");
  table(kDepthwise, "-depthwise");
}
