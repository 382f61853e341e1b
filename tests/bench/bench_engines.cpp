// SPDX-License-Identifier: MIT
// The chip's engines against bare oneDNN: the layers of ResNet-50 as CONV commands through the back end and as plain
// calls of the library with everything prepared beforehand. One thread, in turns. Prints the best time of each
// layer, and for tests/bench/pairs.py lines "pair engines ONEDNN-MS CHIP-MS": the time of the whole network, from the
// best of some turns for each layer.
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
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
using Values = std::vector<float>;

struct Layer {
  const char *name;
  int size, ic, oc, k, stride, times;
};

// Distinct convolutions of ResNet-50 with their number in the network.
constexpr Layer kLayers[] = {
    {"conv1 7x7", 224, 3, 64, 7, 2, 1},          {"56 1x1 64-64", 56, 64, 64, 1, 1, 1},
    {"56 3x3 64", 56, 64, 64, 3, 1, 3},          {"56 1x1 64-256", 56, 64, 256, 1, 1, 4},
    {"56 1x1 256-64", 56, 256, 64, 1, 1, 2},     {"56 1x1 256-128", 56, 256, 128, 1, 1, 1},
    {"56 3x3/2 128", 56, 128, 128, 3, 2, 1},     {"56 1x1/2 256-512", 56, 256, 512, 1, 2, 1},
    {"28 1x1 128-512", 28, 128, 512, 1, 1, 4},   {"28 1x1 512-128", 28, 512, 128, 1, 1, 3},
    {"28 3x3 128", 28, 128, 128, 3, 1, 3},       {"28 1x1 512-256", 28, 512, 256, 1, 1, 1},
    {"28 3x3/2 256", 28, 256, 256, 3, 2, 1},     {"28 1x1/2 512-1024", 28, 512, 1024, 1, 2, 1},
    {"14 1x1 256-1024", 14, 256, 1024, 1, 1, 6}, {"14 1x1 1024-256", 14, 1024, 256, 1, 1, 5},
    {"14 3x3 256", 14, 256, 256, 3, 1, 5},       {"14 1x1 1024-512", 14, 1024, 512, 1, 1, 1},
    {"14 3x3/2 512", 14, 512, 512, 3, 2, 1},     {"14 1x1/2 1024-2048", 14, 1024, 2048, 1, 2, 1},
    {"7 1x1 512-2048", 7, 512, 2048, 1, 1, 3},   {"7 1x1 2048-512", 7, 2048, 512, 1, 1, 2},
    {"7 3x3 512", 7, 512, 512, 3, 1, 2},
};

constexpr int kPairs = 7;
constexpr int kTurns = 5;

double seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

Values random_values(size_t count) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> real(-1, 1);
  Values v(count);
  for (float &x : v) x = real(engine);
  return v;
}

npu_cmd_conv command_of(const Layer &l) {
  npu_cmd_conv c = npu::hw::make<npu_cmd_conv>();
  c.n = 1;
  c.ih = c.iw = l.size;
  c.ic = l.ic;
  c.oc = l.oc;
  c.kh = c.kw = l.k;
  c.sh = c.sw = l.stride;
  c.dh = c.dw = 1;
  c.groups = 1;
  c.pad_t = c.pad_l = l.k / 2;
  c.oh = c.ow = (l.size + 2 * (l.k / 2) - l.k) / l.stride + 1;
  c.flags = NPU_CONV_BIAS;
  c.act = NPU_ACT_RELU;
  return c;
}

// The same layer as an application of the library would set it up: NHWC, weights packed, ReLU fused.
class Bare {
 public:
  Bare(const npu_cmd_conv &c, Values &in, Values &wgt, Values &bias, Values &out)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    using Tag = memory::format_tag;
    using Conv = dnnl::convolution_forward;
    const auto f32 = [](const memory::dims &d, Tag t) { return memory::desc(d, memory::data_type::f32, t); };
    const memory::desc in_md = f32({1, c.ic, c.ih, c.iw}, Tag::nhwc), out_md = f32({1, c.oc, c.oh, c.ow}, Tag::nhwc);
    const memory::dims kernel = {c.oc, c.ic, c.kh, c.kw}, pad = {c.pad_t, c.pad_l};
    dnnl::post_ops ops;
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    attr.set_post_ops(ops);
    const Conv::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, in_md,
                          f32(kernel, Tag::any), f32({c.oc}, Tag::a), out_md, {c.sh, c.sw}, pad, pad);
    const Conv::primitive_desc pd(desc, attr, engine_);
    primitive_ = dnnl::primitive(pd.get());
    memory plain(f32(kernel, Tag::ohwi), engine_, wgt.data()), packed(pd.weights_desc(), engine_);
    dnnl::reorder(plain, packed).execute(stream_, plain, packed);
    arguments_ = {{DNNL_ARG_SRC, memory(in_md, engine_, in.data())},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_BIAS, memory(pd.bias_desc(), engine_, bias.data())},
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

Pairs measure(npu::model::Backend &backend, const Layer &l, uint64_t va) {
  const npu_cmd_conv c = command_of(l);
  Values in = random_values(size_t{c.ih} * c.iw * c.ic), wgt = random_values(size_t{c.oc} * c.kh * c.kw * c.ic);
  Values bias = random_values(c.oc), out(size_t{c.oh} * c.ow * c.oc), bare_out(out.size());
  Bare bare(c, in, wgt, bias, bare_out);
  const auto fetch = [](void *arg) -> const void * { return static_cast<Values *>(arg)->data(); };
  const npu::model::Streamed weights{fetch, &wgt, wgt.size() * sizeof(float), true, 1, va};
  const auto turn = [&](Times &best) {
    const auto bare_start = Clock::now();
    bare.run();
    best.bare = std::min(best.bare, seconds(bare_start));
    const auto start = Clock::now();
    if (!backend.run(c, in.data(), weights, bias.data(), nullptr, out.data())) std::abort();
    best.backend = std::min(best.backend, seconds(start));
  };
  Times first{1e9, 1e9};
  turn(first);  // makes what is kept
  Pairs pairs;
  for (Times &best : pairs) {
    best = {1e9, 1e9};
    for (int i = 0; i < kTurns; ++i) turn(best);
  }
  if (out != bare_out) std::printf("%s: results differ\n", l.name);
  return pairs;
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
  std::printf("%-22s %9s %9s %7s\n", "layer", "oneDNN ms", "chip ms", "ratio");
  Pairs total{};
  uint64_t va = 0;
  for (const Layer &l : kLayers) {
    Times best{1e9, 1e9};
    const Pairs pairs = measure(*backend, l, va += 1 << 30);
    for (int p = 0; p < kPairs; ++p) {
      best = {std::min(best.bare, pairs[p].bare), std::min(best.backend, pairs[p].backend)};
      total[p].bare += pairs[p].bare * l.times;
      total[p].backend += pairs[p].backend * l.times;
    }
    std::printf("%-22s %9.3f %9.3f %6.1f%%\n", l.name, best.bare * 1e3, best.backend * 1e3,
                100 * best.bare / best.backend);
  }
  for (const Times &t : total) std::printf("pair engines %.3f %.3f\n", t.bare * 1e3, t.backend * 1e3);
}
