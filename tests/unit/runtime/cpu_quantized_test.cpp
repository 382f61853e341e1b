// SPDX-License-Identifier: MIT
// Quantized operators: numbers worked out by hand, extremes, references that are written here, and what is refused.
#include <algorithm>
#include <random>

#include "runtime/cpu/element.h"
#include "tests/unit/runtime/cpu_run.h"

namespace npu::cpu {
namespace {

RequantAttrs to_float(Quant in) { return {in, {}, {}, Dtype::F32}; }
RequantAttrs from_float(Quant out, Dtype to) { return {{}, out, {}, to}; }

TEST(CpuRequant, QuantizesToTheNearestHalvesToEven) {
  const Tensor x =
      row<float>({0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 0.26f, 63.7f, 64, -64, -64.3f, 3e38f, kInf, -kInf, kNan});
  expect<int8_t>(run(Op::Requant, from_float({0.5f, 0}, Dtype::I8), {x}),
                 {0, 2, 2, 0, -2, 1, 127, 127, -128, -128, 127, 127, -128, 0});
  expect<uint8_t>(run(Op::Requant, from_float({0.5f, 128}, Dtype::U8), {x}),
                  {128, 130, 130, 128, 126, 129, 255, 255, 0, 0, 255, 255, 0, 128});
}

TEST(CpuRequant, QuantizesTo16Bits) {
  const Tensor x = row<float>({0.5f, 1.5f, 32767, 32768, -32768, -32769, 1e9f, kNan});
  expect<int16_t>(run(Op::Requant, from_float({1, 0}, Dtype::I16), {x}),
                  {0, 2, 32767, 32767, -32768, -32768, 32767, 0});
  expect<uint16_t>(run(Op::Requant, from_float({1, 40000}, Dtype::U16), {x}),
                   {40000, 40002, 65535, 65535, 7232, 7231, 65535, 40000});
}

TEST(CpuRequant, DividesByTheScaleInSinglePrecision) {
  // The quotients are 3.5 and 8.5; with more digits 3.4999999 and 8.5000001.
  expect<uint8_t>(run(Op::Requant, from_float({0.1f, 0}, Dtype::U8), {row<float>({0.35f, 0.85f})}), {4, 8});
  // A smallest scale: the quotient is infinite.
  expect<int8_t>(run(Op::Requant, from_float({1e-45f, 3}, Dtype::I8), {row<float>({1, -1, 0})}), {127, -128, 3});
}

TEST(CpuRequant, GivesTheNumbersThatIntegersStandFor) {
  expect<float>(run(Op::Requant, to_float({0.1f, -128}), {row<int8_t>({-128, 127, 0})}), {0, 255 * 0.1f, 128 * 0.1f});
  expect<float>(run(Op::Requant, to_float({0.5f, 255}), {row<uint8_t>({0, 255, 254})}), {-127.5f, 0, -0.5f});
  expect<float>(run(Op::Requant, to_float({2, -32768}), {row<int16_t>({-32768, 32767})}), {0, 131070});
  expect<float>(run(Op::Requant, to_float({2, 65535}), {row<uint16_t>({0, 65535})}), {-131070, 0});
}

TEST(CpuRequant, GoesFromIntegersToOthersThroughAFunction) {
  const RequantAttrs plain{{0.5f, 0}, {1, 10}, {}, Dtype::U8};
  expect<uint8_t>(run(Op::Requant, plain, {row<int8_t>({0, 1, 3, -1, -128, 127})}), {10, 10, 12, 10, 0, 74});
  RequantAttrs relu = plain;
  relu.act = {ActKind::Relu, 0, 0};
  expect<uint8_t>(run(Op::Requant, relu, {row<int8_t>({0, 1, 3, -1, -128, 127})}), {10, 10, 12, 10, 10, 74});
}

TEST(CpuLookup, TakesTheByteAsIndex) {
  std::vector<float> floats(256);
  std::vector<uint16_t> shorts(256);
  for (size_t i = 0; i < 256; ++i) {
    floats[i] = static_cast<float>(i) / 2;
    shorts[i] = static_cast<uint16_t>(1000 + i);
  }
  expect<float>(run(Op::Lookup, {}, {row<int8_t>({0, 127, -1, -128}), row(floats)}), {0, 63.5f, 127.5f, 64});
  expect<uint16_t>(run(Op::Lookup, {}, {row<uint8_t>({0, 127, 255}), row(shorts)}), {1000, 1127, 1255});
}

// Products.

ProductQuant product(int32_t x_zero, int32_t w_zero, int32_t out_zero, Dtype out) {
  return {true, x_zero, w_zero, out_zero, out};
}

TEST(CpuQuantizedProducts, WorkedOutByHand) {
  // (1 - 2) * (3 - 1) + (5 - 2) * (-4 - 1) = -17, (7 - 2) * 2 + (0 - 2) * -5 = 20; bias 7: -10, 27
  const Tensor a = tensor<uint8_t>({2, 2}, {1, 5, 7, 0}), b = tensor<int8_t>({2, 1}, {3, -4});
  const Tensor bias = row<int32_t>({7}), factor = row<float>({0.5f});
  const auto found = [&](ProductQuant quant, Activation act = {}) {
    const MatMulAttrs attrs{act, quant};
    return quant.out == Dtype::I32 ? run(Op::MatMul, attrs, {a, b, bias})
                                   : run(Op::MatMul, attrs, {a, b, bias, factor});
  };
  expect<int32_t>(found(product(2, 1, 0, Dtype::I32)), {2, 1}, {-10, 27});
  expect<float>(found(product(2, 1, 0, Dtype::F32)), {2, 1}, {-5, 13.5f});
  expect<int8_t>(found(product(2, 1, 3, Dtype::I8)), {2, 1}, {-2, 17});  // 13.5 is 14
  expect<uint8_t>(found(product(2, 1, 3, Dtype::U8)), {2, 1}, {0, 17});
  expect<uint8_t>(found(product(2, 1, 250, Dtype::U8)), {2, 1}, {245, 255});
  expect<int8_t>(found(product(2, 1, 3, Dtype::I8), {ActKind::Relu, 0, 0}), {2, 1}, {3, 17});
  expect<int8_t>(found(product(2, 1, 3, Dtype::I8), {ActKind::Clip, -1, 6}), {2, 1}, {2, 9});
  expect<int8_t>(found(product(2, 1, 3, Dtype::I8), {ActKind::LeakyRelu, 0.5f, 0}), {2, 1}, {1, 17});  // -2.5 is -2
  expect<float>(found(product(2, 1, 0, Dtype::F32), {ActKind::Relu, 0, 0}), {2, 1}, {0, 13.5f});
}

TEST(CpuQuantizedProducts, SumsWrapRound) {
  constexpr int64_t kTerms = 33026;  // times 255 * 255 is 2^31 + 32002
  const Tensor a = tensor<uint8_t>({1, kTerms}, std::vector<uint8_t>(kTerms, 255));
  const Tensor b = tensor<uint8_t>({kTerms, 1}, std::vector<uint8_t>(kTerms, 255));
  const MatMulAttrs sums{{}, product(0, 0, 0, Dtype::I32)}, scaled{{}, product(0, 0, 0, Dtype::F32)};
  constexpr int32_t kSum = -2147483647 - 1 + 32002;
  expect<int32_t>(run(Op::MatMul, sums, {a, b}), {1, 1}, {kSum});
  expect<int32_t>(run(Op::MatMul, sums, {a, b, row<int32_t>({-32003})}), {1, 1}, {2147483647});
  expect<float>(run(Op::MatMul, scaled, {a, b, row<int32_t>({-32003}), row<float>({1})}), {1, 1}, {2147483648.f});
  Tensor x = a, w = b;
  x.shape = w.shape = {1, kTerms, 1};
  expect<int32_t>(run(Op::Conv, ConvAttrs{{}, 1, {}, sums.quant}, {x, w}), {1, 1, 1}, {kSum});
}

TEST(CpuQuantizedProducts, TheSumIsRoundedAndThenTheProduct) {
  // 2^24 + 1 as float32 is 2^24; times 3 that is 50331648, and 50331651 without the first rounding.
  const Tensor a = tensor<uint8_t>({1, 1}, {1}), b = tensor<uint8_t>({1, 1}, {1});
  const MatMulAttrs attrs{{}, product(0, 0, 0, Dtype::F32)};
  expect<float>(run(Op::MatMul, attrs, {a, b, row<int32_t>({1 << 24}), row<float>({3})}), {1, 1}, {50331648});
}

TEST(CpuQuantizedProducts, PaddingAddsNothing) {
  // A kernel of ones over a picture that is 5 everywhere, zero point 3: 2 for each cell inside.
  Window w;
  w.kernel = {3, 3};
  w.begin = w.end = {1, 1};
  const ConvAttrs attrs{w, 1, {}, product(3, 0, 0, Dtype::I32)};
  const Tensor x = tensor<uint8_t>({1, 1, 3, 3}, std::vector<uint8_t>(9, 5));
  const Tensor ones = tensor<int8_t>({1, 1, 3, 3}, std::vector<int8_t>(9, 1));
  expect<int32_t>(run(Op::Conv, attrs, {x, ones}), {1, 1, 3, 3}, {8, 12, 8, 12, 18, 12, 8, 12, 8});
}

// Random operands against references that go element by element.

std::mt19937 random_numbers(5);

int64_t between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_numbers() % static_cast<uint64_t>(high - low + 1));
}
float random_scale() {
  return std::ldexp(static_cast<float>(between(1, 1 << 20)), static_cast<int>(between(-26, -18)));
}
Dtype random_byte() { return between(0, 1) ? Dtype::I8 : Dtype::U8; }
int32_t random_zero(Dtype type) {
  const int32_t low = type == Dtype::I8 ? -128 : 0;
  return static_cast<int32_t>(between(0, 3) ? between(low, low + 255) : low + 255 * between(0, 1));
}
Tensor random_bytes(Dtype type, const Shape &shape) {
  Tensor t(type, shape);
  for (uint8_t &byte : t.data) byte = static_cast<uint8_t>(between(0, 255));
  return t;
}
Tensor random_floats(const Shape &shape) {
  Tensor t(Dtype::F32, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = static_cast<float>(between(-4000, 4000)) / 512;
  return t;
}

int32_t byte_at(const Tensor &t, int64_t i) { return t.dtype == Dtype::I8 ? t.as<int8_t>()[i] : t.as<uint8_t>()[i]; }

/// As the C library rounds, for numbers that fit.
int64_t rounded(float v, int64_t low, int64_t high, int32_t zero) {
  if (v < -1e6f) return low;
  if (v > 1e6f) return high;
  return std::min(high, std::max(low, std::lrint(v) + zero));
}
int64_t stored(float v, Dtype type, int32_t zero) {
  return type == Dtype::I8 ? rounded(v, -128, 127, zero) : rounded(v, 0, 255, zero);
}

struct Operand {
  Tensor tensor;
  Quant quant;
  float at(int64_t i) const {
    if (tensor.dtype == Dtype::F32) return tensor.as<float>()[i];
    const auto difference = static_cast<float>(byte_at(tensor, i) - quant.zero);
    return difference * quant.scale;
  }
};

Operand random_operand(const Shape &shape, bool quantized) {
  if (!quantized) return {random_floats(shape), {}};
  const Dtype type = random_byte();
  return {random_bytes(type, shape), {random_scale(), random_zero(type)}};
}

struct Result {
  Quant quant;
  Dtype type = Dtype::F32;
};

Result random_result(bool quantized) {
  if (!quantized) return {};
  const Dtype type = random_byte();
  return {{random_scale(), random_zero(type)}, type};
}

/// `real` in float32, before it is stored.
void expect_element(const Tensor &out, int64_t i, float real, const Result &r) {
  if (r.type == Dtype::F32)
    EXPECT_TRUE(same(out.as<float>()[i], real)) << "element " << i << ": " << out.as<float>()[i] << ", " << real;
  else
    EXPECT_EQ(byte_at(out, i), stored(real / r.quant.scale, r.type, r.quant.zero)) << "element " << i;
}

TEST(CpuQuantized, TwoOperandsOfAllKinds) {
  for (int round = 0; round < 600; ++round) {
    const auto kind = static_cast<BinaryKind>(round % 6);
    const int which = static_cast<int>(between(1, 7));
    const Operand a = random_operand({4, 3}, which & 1), b = random_operand({4, 3}, which & 2);
    const Result r = random_result(which & 4);
    const Activation act = between(0, 1) ? Activation{ActKind::Clip, -1, 2.5f} : Activation{};
    const Tensor out = run(Op::Binary, BinaryAttrs{kind, act, a.quant, b.quant, r.quant, r.type}, {a.tensor, b.tensor});
    ASSERT_EQ(out.dtype, r.type);
    for (int64_t i = 0; i < out.count(); ++i) {
      const float x = a.at(i), y = b.at(i);
      float v = kind == BinaryKind::Add   ? x + y
                : kind == BinaryKind::Sub ? x - y
                : kind == BinaryKind::Mul ? x * y
                : kind == BinaryKind::Div ? x / y
                : kind == BinaryKind::Max ? std::max(x, y)
                                          : std::min(x, y);
      if (v != v) continue;  // 0 / 0
      if (x == 0 && y == 0) v += 0.f;
      if (act.kind == ActKind::Clip) v = std::min(2.5f, std::max(-1.f, v));
      if (r.type == Dtype::F32 && v == 0) continue;  // its sign is tested elsewhere
      expect_element(out, i, v, r);
    }
  }
}

TEST(CpuQuantized, AnOperandBroadcasts) {
  const Tensor a = tensor<int8_t>({2, 2}, {10, -10, 20, -20}), b = row<float>({0.5f, 1});
  const BinaryAttrs attrs{BinaryKind::Add, {}, {0.1f, 0}, {}, {0.5f, 100}, Dtype::U8};
  expect<uint8_t>(run(Op::Binary, attrs, {a, b}), {2, 2}, {103, 100, 105, 98});
}

TEST(CpuQuantized, Averages) {
  for (int round = 0; round < 200; ++round) {
    const bool from_integers = between(0, 3) != 0;
    const Operand x = random_operand({2, 3, 7, 6}, from_integers);
    const Result r = random_result(!from_integers || between(0, 1));
    PoolAttrs attrs{{}, false, between(0, 1) != 0, {1, 0}, x.quant, r.quant, r.type};
    attrs.window.kernel = {3, 2};
    attrs.window.stride = {2, 1};
    attrs.window.begin = {1, 1};
    attrs.window.end = {1, 0};
    const Tensor out = run(Op::Pool, attrs, {x.tensor});
    ASSERT_EQ(kind_text(out), kind_text({r.type, {2, 3, 4, 6}}));
    for (int64_t i = 0; i < out.count(); ++i) {
      const int64_t picture = i / 24, oy = i / 6 % 4, ox = i % 6;
      int32_t sum = 0, count = 0;
      double real = 0;
      for (int64_t y = std::max<int64_t>(0, 2 * oy - 1); y < std::min<int64_t>(7, 2 * oy + 2); ++y)
        for (int64_t xx = std::max<int64_t>(0, ox - 1); xx <= ox; ++xx) {
          const int64_t place = (picture * 7 + y) * 6 + xx;
          if (from_integers)
            sum += byte_at(x.tensor, place) - x.quant.zero;
          else
            real += x.tensor.as<float>()[place];
          ++count;
        }
      if (attrs.count_pad) count = 3 * 2;
      const float v = from_integers ? static_cast<float>(sum) / static_cast<float>(count) * x.quant.scale
                                    : static_cast<float>(real / count);
      expect_element(out, i, v == 0 ? 0 : v, r);
    }
  }
}

TEST(CpuQuantized, AMaximumTakesBytesAsTheyAre) {
  PoolAttrs attrs;
  attrs.window.kernel = {2, 2};
  expect<int8_t>(run(Op::Pool, attrs, {tensor<int8_t>({1, 1, 2, 3}, {-5, -7, -128, -6, -9, -127})}), {1, 1, 1, 2},
                 {-5, -7});
  expect<uint8_t>(run(Op::Pool, attrs, {tensor<uint8_t>({1, 1, 2, 2}, {0, 255, 128, 127})}), {1, 1, 1, 1}, {255});
}

TEST(CpuQuantized, Softmax) {
  // e^0, e^ln 3 by their sum: 1/4, 3/4. A step of the input is ln 3.
  const SoftmaxAttrs attrs{1, false, {std::log(3.f), 5}, {1 / 256.f, 0}, Dtype::U8};
  expect<uint8_t>(run(Op::Softmax, attrs, {tensor<uint8_t>({2, 2}, {5, 6, 9, 9})}), {2, 2}, {64, 192, 128, 128});
  const SoftmaxAttrs to_int8{1, false, {}, {1 / 256.f, -128}, Dtype::I8};
  expect<int8_t>(run(Op::Softmax, to_int8, {tensor<float>({1, 2}, {0, 100})}), {1, 2}, {-128, 127});
  const SoftmaxAttrs to_float{0, false, {1, 0}, {}, Dtype::F32};
  expect<float>(run(Op::Softmax, to_float, {row<int8_t>({7, 7})}), {0.5f, 0.5f});
}

/// What a sum becomes; `channel` has bias and multiplier.
void expect_product(const Tensor &out, int64_t i, int64_t channel, int64_t exact, const ProductQuant &quant,
                    Activation act, const Tensor &bias, const Tensor &factor) {
  const auto sum = static_cast<int32_t>(static_cast<uint32_t>(exact + bias.as<int32_t>()[channel]));
  if (quant.out == Dtype::I32) {
    EXPECT_EQ(out.as<int32_t>()[i], sum) << "element " << i;
    return;
  }
  float v = static_cast<float>(sum) * factor.as<float>()[factor.count() > 1 ? channel : 0];
  if (act.kind == ActKind::Relu && v < 0) v = 0;
  if (act.kind == ActKind::LeakyRelu && v < 0) v *= act.a;
  if (is_half(quant.out)) {
    Tensor expected(quant.out, {1});
    cpu::store(expected, 0, static_cast<double>(v));
    EXPECT_EQ(out.as<uint16_t>()[i], expected.as<uint16_t>()[0]) << "element " << i;
  } else if (quant.out == Dtype::F32)
    EXPECT_EQ(out.as<float>()[i], v) << "element " << i;
  else
    EXPECT_EQ(byte_at(out, i), stored(v, quant.out, quant.out_zero)) << "element " << i;
}

struct RandomProduct {
  Dtype x = random_byte(), w = random_byte();
  ProductQuant quant;
  Activation act;
  Tensor bias, factor;

  explicit RandomProduct(int64_t channels) : bias(Dtype::I32, {channels}) {
    constexpr Dtype kResults[] = {Dtype::I8, Dtype::U8, Dtype::F32, Dtype::I32, Dtype::F16, Dtype::BF16};
    const Dtype out = kResults[between(0, 5)];
    quant = product(random_zero(x), random_zero(w), out == Dtype::I8 || out == Dtype::U8 ? random_zero(out) : 0, out);
    constexpr Activation kActs[] = {{}, {ActKind::Relu, 0, 0}, {ActKind::LeakyRelu, 0.3f, 0}};
    if (out != Dtype::I32) act = kActs[between(0, 2)];
    for (int64_t i = 0; i < channels; ++i)
      bias.as<int32_t>()[i] =
          static_cast<int32_t>(between(0, 9) ? between(-40000, 40000) : between(-2147483648, 2147483647));
    factor = Tensor(Dtype::F32, {between(0, 1) ? channels : 1});
    for (int64_t i = 0; i < factor.count(); ++i) factor.as<float>()[i] = random_scale() / 64;
  }
  std::vector<Tensor> operands(const Tensor &a, const Tensor &b) const {
    std::vector<Tensor> all{a, b, bias};
    if (quant.out != Dtype::I32) all.push_back(factor);
    return all;
  }
};

TEST(CpuQuantizedProducts, Convolutions) {
  for (int round = 0; round < 300; ++round) {
    const int64_t groups = between(1, 3), inner = between(1, 3), per_group = between(1, 2), size = 6;
    const int64_t kernel = between(1, 3), stride = between(1, 2), dilation = between(1, 2), begin = between(0, 2);
    const RandomProduct p(groups * per_group);
    ConvAttrs attrs{{}, groups, p.act, p.quant};
    attrs.window.kernel = {kernel, kernel};
    attrs.window.stride = {stride, stride};
    attrs.window.dilation = {dilation, dilation};
    attrs.window.begin = {begin, begin};
    attrs.window.end = {1, 1};
    const Tensor x = random_bytes(p.x, {2, groups * inner, size, size});
    const Tensor w = random_bytes(p.w, {groups * per_group, inner, kernel, kernel});
    const Tensor out = run(Op::Conv, attrs, p.operands(x, w));
    const int64_t side = (size + begin + 1 - (kernel - 1) * dilation - 1) / stride + 1;
    ASSERT_EQ(kind_text(out), kind_text({p.quant.out, {2, groups * per_group, side, side}}));
    int64_t i = 0;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t oc = 0; oc < groups * per_group; ++oc)
        for (int64_t oy = 0; oy < side; ++oy)
          for (int64_t ox = 0; ox < side; ++ox, ++i) {
            int64_t sum = 0;
            for (int64_t t = 0; t < inner * kernel * kernel; ++t) {
              const int64_t y = oy * stride - begin + t / kernel % kernel * dilation;
              const int64_t xx = ox * stride - begin + t % kernel * dilation;
              if (y < 0 || xx < 0 || y >= size || xx >= size) continue;
              const int64_t c = oc / per_group * inner + t / (kernel * kernel);
              sum += (int64_t{byte_at(x, ((n * groups * inner + c) * size + y) * size + xx)} - p.quant.x_zero) *
                     (byte_at(w, oc * inner * kernel * kernel + t) - p.quant.w_zero);
            }
            expect_product(out, i, oc, sum, p.quant, p.act, p.bias, p.factor);
          }
  }
}

TEST(CpuQuantizedProducts, Matrices) {
  for (int round = 0; round < 300; ++round) {
    const int64_t batch = between(1, 3), m = between(1, 4), k = between(1, 70), n = between(1, 4);
    const RandomProduct p(n);
    const bool shared = between(0, 1);
    const Tensor a = random_bytes(p.x, {batch, m, k}), b = random_bytes(p.w, {shared ? 1 : batch, k, n});
    const Tensor out = run(Op::MatMul, MatMulAttrs{p.act, p.quant}, p.operands(a, b));
    ASSERT_EQ(kind_text(out), kind_text({p.quant.out, {batch, m, n}}));
    for (int64_t i = 0; i < out.count(); ++i) {
      const int64_t column = i % n, row = i / n, matrix = shared ? 0 : row / m;
      int64_t sum = 0;
      for (int64_t t = 0; t < k; ++t)
        sum += (int64_t{byte_at(a, row * k + t)} - p.quant.x_zero) *
               (byte_at(b, (matrix * k + t) * n + column) - p.quant.w_zero);
      expect_product(out, i, column, sum, p.quant, p.act, p.bias, p.factor);
    }
  }
}

// What infer() refuses.

struct Refused {
  const char *says;
  Op op;
  Attrs attrs;
  std::vector<TensorKind> operands;
};

TensorKind i8(Shape shape) { return {Dtype::I8, std::move(shape)}; }
TensorKind f32(Shape shape) { return {Dtype::F32, std::move(shape)}; }
TensorKind i32(Shape shape) { return {Dtype::I32, std::move(shape)}; }

void expect_all_refused(std::span<const Refused> list) {
  for (const Refused &r : list) {
    std::vector<const TensorKind *> in;
    for (const TensorKind &kind : r.operands) in.push_back(&kind);
    TensorKind out;
    const Status status = infer(r.op, r.attrs, in, out);
    EXPECT_NE(status.message().find(r.says), std::string::npos) << op_name(r.op) << ": " << r.says << "\n"
                                                                << status.message();
  }
}

TEST(InferQuantized, RefusesScalesAndZeroPoints) {
  const TensorKind x = i8({3}), f = f32({3}), wide{Dtype::I16, {3}}, whole = i32({3});
  const auto in = [](float scale, int32_t zero) { return RequantAttrs{{scale, zero}, {}, {}, Dtype::F32}; };
  const auto out = [](float scale, int32_t zero, Dtype to) { return RequantAttrs{{}, {scale, zero}, {}, to}; };
  const BinaryAttrs add{BinaryKind::Add, {}, {1, 0}, {1, 0}, {}, Dtype::F32};
  BinaryAttrs power = add, sum = add, wrong = add, zero_alone;
  power.kind = BinaryKind::Pow;
  sum.out = {1, -1};
  sum.out_type = Dtype::U8;
  wrong.act = {ActKind::Exp, 0, 0};
  zero_alone.a.zero = 1;
  BinaryAttrs type_alone;
  type_alone.out_type = Dtype::I8;
  const Refused list[] = {
      {"neither the input nor the result has a scale", Op::Requant, in(0, 0), {f}},
      {"scale -1.000000 of the input is not positive", Op::Requant, in(-1, 0), {x}},
      {"scale nan of the input is not positive", Op::Requant, in(kNan, 0), {x}},
      {"scale inf of the result is not positive", Op::Requant, out(kInf, 0, Dtype::I8), {f}},
      {"scale -0.000000 of the input", Op::Requant, RequantAttrs{{-0.f, 0}, {1, 0}, {}, Dtype::I8}, {x}},
      {"zero point 128 of the input is outside int8", Op::Requant, in(1, 128), {x}},
      {"zero point -129 of the input is outside int8", Op::Requant, in(1, -129), {x}},
      {"zero point -1 of the result is outside uint8", Op::Requant, out(1, -1, Dtype::U8), {f}},
      {"zero point 32768 of the result is outside int16", Op::Requant, out(1, 32768, Dtype::I16), {f}},
      {"zero point 65536 of the result is outside uint16", Op::Requant, out(1, 65536, Dtype::U16), {f}},
      {"which has a scale, is int32", Op::Requant, in(1, 0), {whole}},
      {"which has a scale, is float32", Op::Requant, in(1, 0), {f}},
      {"which has no scale, is int8", Op::Requant, out(1, 0, Dtype::I8), {x}},
      {"has a zero point and no scale", Op::Requant, RequantAttrs{{0, 1}, {1, 0}, {}, Dtype::I8}, {f}},
      {"the result, which has a scale, is float32", Op::Requant, out(1, 0, Dtype::F32), {f}},
      {"the result, which has a scale, is bool", Op::Requant, out(1, 0, Dtype::Bool), {f}},
      {"function 6 only works alone", Op::Requant, RequantAttrs{{1, 0}, {}, {ActKind::Exp, 0, 0}, Dtype::F32}, {x}},

      {"function 128 does not work on quantized numbers", Op::Binary, power, {x, x}},
      {"zero point -1 of the result is outside uint8", Op::Binary, sum, {x, x}},
      {"function 6 only works alone", Op::Binary, wrong, {x, x}},
      {"operand 1, which has a scale, is float32", Op::Binary, add, {x, f}},
      {"operand 0, which has a scale, is int16", Op::Binary, add, {wide, x}},
      {"a zero point without a scale", Op::Binary, zero_alone, {x, x}},
      {"a type of the result without a scale", Op::Binary, type_alone, {x, x}},
      {"[2] and [3] do not broadcast", Op::Binary, add, {i8({2}), x}},

      {"a type of the result without", Op::Softmax, SoftmaxAttrs{0, false, {}, {}, Dtype::I8}, {f}},
      {"the input, which has a scale, is", Op::Softmax, SoftmaxAttrs{0, false, {1, 0}, {}, Dtype::F32}, {f}},
      {"the input is int8", Op::Softmax, SoftmaxAttrs{0, false}, {x}},
      {"axis 1 is outside", Op::Softmax, SoftmaxAttrs{1, false, {1, 0}, {}, Dtype::F32}, {x}},

      {"a table [255], expected [256]", Op::Lookup, {}, {x, f32({255})}},
      {"the input is int16", Op::Lookup, {}, {wide, f32({256})}},
      {"the table is int64", Op::Lookup, {}, {x, {Dtype::I64, {256}}}},
  };
  expect_all_refused(list);
}

TEST(InferQuantized, RefusesWindows) {
  const TensorKind x = i8({1, 2, 4, 4});
  const PoolAttrs scaled_max{{}, true, false, {0, 0}, {1, 0}, {1, 0}, Dtype::I8};
  const PoolAttrs average{{}, false, false, {0, 0}, {}, {}, Dtype::F32};
  const Refused list[] = {
      {"a maximum has no scales", Op::Pool, scaled_max, {x}},
      {"the input is int8, supported: float32", Op::Pool, average, {x}},
      {"the input is int32, supported: float32, float16, bfloat16, int8, uint8",
       Op::Pool,
       PoolAttrs{},
       {i32({1, 2, 4, 4})}},
      {"the input is int8", Op::PoolIndices, PoolIndicesAttrs{}, {x}},
  };
  expect_all_refused(list);
}

TEST(InferQuantized, RefusesProducts) {
  const TensorKind a = i8({2, 3}), b = i8({3, 4}), n = i32({4}), f = f32({4}), x = i8({1, 2, 4, 4}),
                   w = i8({4, 2, 1, 1});
  const auto of = [](ProductQuant quant, ActKind act = ActKind::None) { return MatMulAttrs{{act, 0, 0}, quant}; };
  const MatMulAttrs sums = of(product(0, 0, 0, Dtype::I32)), floats = of(product(0, 0, 0, Dtype::F32));
  MatMulAttrs off = sums;
  off.quant.on = false;
  const Refused list[] = {
      {"an operand is float32, supported: int8, uint8", Op::MatMul, sums, {f32({2, 3}), b}},
      {"an operand is int32, supported: int8, uint8", Op::MatMul, sums, {a, i32({3, 4})}},
      {"zero point 128 of operand 0", Op::MatMul, of(product(128, 0, 0, Dtype::I32)), {a, b}},
      {"zero point -1 of operand 1", Op::MatMul, of(product(0, -1, 0, Dtype::I32)), {a, {Dtype::U8, {3, 4}}}},
      {"zero point 256 of the result", Op::MatMul, of(product(0, 0, 256, Dtype::U8)), {a, b, n, f}},
      {"a zero point of a result of float32", Op::MatMul, of(product(0, 0, 1, Dtype::F32)), {a, b, n, f}},
      {"a zero point of a result of int32", Op::MatMul, of(product(0, 0, 1, Dtype::I32)), {a, b, n}},
      {"the result is int16", Op::MatMul, of(product(0, 0, 0, Dtype::I16)), {a, b, n, f}},
      {"inside an operator is int32", Op::MatMul, of(product(0, 0, 0, Dtype::I32), ActKind::Relu), {a, b}},
      {"function 4 does not work on steps",
       Op::MatMul,
       of(product(0, 0, 0, Dtype::I8), ActKind::Sigmoid),
       {a, b, n, f}},
      {"the bias is float32, supported: int32", Op::MatMul, sums, {a, b, f}},
      {"bias [5] does not have 4", Op::MatMul, sums, {a, b, i32({5})}},
      {"the multiplier is missing", Op::MatMul, floats, {a, b, n}},
      {"a multiplier of int32 sums", Op::MatMul, sums, {a, b, n, f}},
      {"the multiplier is int32", Op::MatMul, floats, {a, b, n, n}},
      {"multiplier [3] does not have 1 or 4", Op::MatMul, floats, {a, b, n, f32({3})}},
      {"multiplier [] does not have 1 or 4", Op::MatMul, floats, {a, b, n, f32({})}},
      {"cannot be multiplied", Op::MatMul, sums, {a, i8({4})}},
      {"the result is int32, supported: float32", Op::MatMul, off, {f32({2, 3}), f32({3, 4})}},
      {"a multiplier of a product", Op::MatMul, MatMulAttrs{}, {f32({2, 3}), f32({3, 4}), f, f}},
      {"an operand is int32", Op::Conv, ConvAttrs{{}, 1, {}, product(0, 0, 0, Dtype::I32)}, {i32({1, 2, 4, 4}), w}},
      {"multiplier [2] does not have 1 or 4",
       Op::Conv,
       ConvAttrs{{}, 1, {}, product(0, 0, 0, Dtype::F32)},
       {x, w, n, f32({2})}},
      {"weights [] do not fit", Op::Conv, ConvAttrs{{}, 1, {}, product(0, 0, 0, Dtype::I32)}, {x, i8({})}},
  };
  expect_all_refused(list);
}

}  // namespace
}  // namespace npu::cpu
