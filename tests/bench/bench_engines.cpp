// SPDX-License-Identifier: MIT
// The chip's engines against bare oneDNN: the layers of networks as CONV and MATMUL commands through the back end and
// as plain calls of the library with everything prepared beforehand, in f32 and in 8 bits. One thread, in turns. Prints
// the best time of each layer, and for tests/bench/pairs.py lines "pair NAME ONEDNN-MS CHIP-MS": the time of the whole
// network, from the best of some turns for each layer.
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
#include "qemu-device/model/src/compute/onednn/dnnl_api.h"

namespace {

namespace dnnl_api = npu::model::dnnl_api;

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

struct Matmul {
  const char *name;
  int batch, m, k, n, times;
  bool known;  ///< the right operand; otherwise it arrives at run time
};

// Matrix products of BERT-base for 128 tokens.
constexpr Matmul kBert[] = {
    {"128x768x768", 1, 128, 768, 768, 48, true},      {"128x768x3072", 1, 128, 768, 3072, 12, true},
    {"128x3072x768", 1, 128, 3072, 768, 12, true},    {"12 x 128x64x128", 12, 128, 64, 128, 12, false},
    {"12 x 128x128x64", 12, 128, 128, 64, 12, false},
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

template <class Command>
void set_types(Command &c, const Kind &kind) {
  c.flags = NPU_CONV_BIAS | (kind.in == NPU_DTYPE_F32 ? 0 : NPU_CONV_REQUANT);
  c.act = NPU_ACT_RELU;
  c.in_dtype = kind.in;
  c.wgt_dtype = kind.wgt;
  c.out_dtype = kind.out;
  c.in_zp = kind.in_zero;
  c.out_zp = kind.out == NPU_DTYPE_S8 ? -128 : 0;
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
  set_types(c, kind);
  return c;
}

npu_cmd_matmul command_of(const Matmul &l, const Kind &kind) {
  npu_cmd_matmul c = npu::hw::make<npu_cmd_matmul>();
  c.batch = l.batch;
  c.m = l.m;
  c.k = l.k;
  c.n = l.n;
  c.a_batch_stride = l.m * l.k;
  c.b_batch_stride = l.batch == 1 ? 0 : l.k * l.n;
  set_types(c, kind);
  return c;
}

bool is_known(const Layer &) { return true; }
bool is_known(const Matmul &l) { return l.known; }

/// Numbers of elements.
struct Sizes {
  size_t in, wgt, out, columns, inner;
};
Sizes sizes_of(const npu_cmd_conv &c) {
  const size_t inner = size_t{c.kh} * c.kw * (c.ic / c.groups);
  return {size_t{c.ih} * c.iw * c.ic, c.oc * inner, size_t{c.oh} * c.ow * c.oc, c.oc, inner};
}
Sizes sizes_of(const npu_cmd_matmul &c) {
  return {size_t{c.batch} * c.m * c.k, size_t{c.batch} * c.k * c.n, size_t{c.batch} * c.m * c.n, c.n, c.k};
}

// What a layer is computed from, for both.
struct Operands {
  Bytes in, wgt;
  std::vector<float> bias, multipliers;
  std::vector<int32_t> whole_bias;

  template <class Command>
  explicit Operands(const Command &c) {
    const Sizes sizes = sizes_of(c);
    in = random_elements(c.in_dtype, sizes.in);
    wgt = random_elements(c.wgt_dtype, sizes.wgt);
    multipliers.assign(sizes.columns, 1.0f / (128 * 30 * std::sqrt(static_cast<float>(sizes.inner))));
    for (size_t i = 0; i < sizes.columns; ++i) {
      whole_bias.push_back(static_cast<int32_t>(i * 7919 % 2001) - 1000);
      bias.push_back(static_cast<float>(whole_bias[i]) / (c.in_dtype == NPU_DTYPE_F32 ? 1000.0f : 1.0f));
    }
  }
};

// The same layer as an application of the library would set it up: NHWC, known weights packed, ReLU and requantisation
// fused.
class Bare {
 public:
  Bare(const npu_cmd_conv &c, bool, Operands &o, Bytes &out) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    using Tag = memory::format_tag;
    using Type = memory::data_type;
    const memory::desc in_md({1, c.ic, c.ih, c.iw}, type_of(c.in_dtype), Tag::nhwc);
    const memory::desc out_md({1, c.oc, c.oh, c.ow}, type_of(c.out_dtype), Tag::nhwc);
    memory::dims kernel = {c.oc, c.ic, c.kh, c.kw};
    const memory::dims pad = {c.pad_t, c.pad_l};
    if (c.groups > 1) kernel = {c.groups, c.oc / c.groups, c.ic / c.groups, c.kh, c.kw};
    const dnnl::primitive_attr attr = attributes(c.flags, 1 << 1, c.groups > 1 ? 1 << 0 | 1 << 1 : 1 << 0, o);
    const Type weights = type_of(c.wgt_dtype);
    const memory::desc kernel_md(kernel, weights, Tag::any), bias_md({c.oc}, Type::f32, Tag::a);
    const dnnl_api::Conv conv{in_md, kernel_md, &bias_md, out_md, {c.sh, c.sw}, {0, 0}, pad, pad};
    const Tag plain_tag = c.groups > 1 ? Tag::gohwi : Tag::ohwi;
    dnnl_api::describe(conv, attr, engine_, [&](const auto &pd) { set_up(pd, {kernel, weights, plain_tag}, o, out); });
  }

  Bare(const npu_cmd_matmul &c, bool known, Operands &o, Bytes &out)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    const auto desc = [&](uint8_t type, dnnl::memory::dims dims, bool any) {
      if (c.batch > 1) dims.insert(dims.begin(), c.batch);
      return dnnl::memory::desc(dims, type_of(type), any ? Tag::any : c.batch > 1 ? Tag::abc : Tag::ab);
    };
    const dnnl::memory::dims wgt{c.k, c.n},
        bias = c.batch > 1 ? dnnl::memory::dims{1, 1, c.n} : dnnl::memory::dims{1, c.n};
    const dnnl::memory::desc a_md = desc(c.in_dtype, {c.m, c.k}, false), b_md = desc(c.wgt_dtype, wgt, known),
                             out_md = desc(c.out_dtype, {c.m, c.n}, false);
    const dnnl::memory::desc bias_md(bias, dnnl::memory::data_type::f32, c.batch > 1 ? Tag::abc : Tag::ab);
    const int columns = c.batch > 1 ? 1 << 2 : 1 << 1;  // the last dimension
    const dnnl_api::Matmul matmul{a_md, b_md, &bias_md, out_md};
    dnnl_api::describe(matmul, attributes(c.flags, columns, columns, o), engine_,
                       [&](const auto &pd) { set_up(pd, desc(c.wgt_dtype, wgt, false), o, out); });
  }
  void run() { primitive_.execute(stream_, arguments_); }

 private:
  /// The masks name the dimensions whose indices have a multiplier each, of the result and of the weights.
  static dnnl::primitive_attr attributes(uint16_t flags, int result_mask, int weights_mask, const Operands &o) {
    dnnl::post_ops ops;
    dnnl_api::append_activation(ops, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    if (flags & NPU_CONV_REQUANT) dnnl_api::multiply_result(attr, result_mask, weights_mask, o.multipliers);
    attr.set_post_ops(ops);
    return attr;
  }

  template <class Description>
  void set_up(const Description &pd, const dnnl::memory::desc &plain_desc, Operands &o, Bytes &out) {
    using dnnl::memory;
    primitive_ = dnnl::primitive(pd.get());
    memory plain(plain_desc, engine_, o.wgt.data()), weights = plain;
    if (pd.weights_desc() != plain_desc) {
      weights = memory(pd.weights_desc(), engine_);
      dnnl::reorder(plain, weights).execute(stream_, plain, weights);
    }
    arguments_ = {{DNNL_ARG_SRC, memory(pd.src_desc(), engine_, o.in.data())},
                  {DNNL_ARG_WEIGHTS, weights},
                  {DNNL_ARG_BIAS, memory(pd.bias_desc(), engine_, o.bias.data())},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_, out.data())}};
    dnnl_api::add_multipliers(arguments_, engine_, o.multipliers);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct Times {
  double bare, backend;
};
using Pairs = std::array<Times, kPairs>;

template <class L>
Pairs measure(npu::model::Backend &backend, const L &l, const Kind &kind, uint64_t va) {
  const auto c = command_of(l, kind);
  Operands o(c);
  Bytes out(sizes_of(c).out * (c.out_dtype == NPU_DTYPE_F32 ? sizeof(float) : 1)), bare_out(out.size());
  Bare bare(c, is_known(l), o, bare_out);
  const auto fetch = [](void *arg) -> const void * { return static_cast<Bytes *>(arg)->data(); };
  const npu::model::Streamed weights{fetch, &o.wgt, o.wgt.size(), is_known(l), 1, va};
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
template <class L, size_t n>
Pairs measure_all(npu::model::Backend &backend, const L (&layers)[n], const Kind &kind, std::vector<Times> &best) {
  static uint64_t va = 0;
  Pairs total{};
  for (const L &l : layers) {
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
  table(kBert, "-matmul");
}
