// SPDX-License-Identifier: MIT
// Operators on quantized numbers. Products add up integers; everything else loads its operands as float32, computes as
// the operator without quantization does, and stores.
#include <cstring>

#include "runtime/cpu/element.h"
#include "runtime/cpu/numbers.h"
#include "runtime/cpu/picture.h"

namespace npu::cpu {
namespace {

Tensor dequantized(const Tensor &x, const Quant &quant) {
  Tensor out(Dtype::F32, x.shape);
  load_numbers(x.dtype, quant, x.data.data(), static_cast<size_t>(x.count()), out.as<float>());
  return out;
}

void quantize(const Tensor &x, const Quant &quant, Tensor &out) {
  store_numbers(out.dtype, quant, x.as<float>(), static_cast<size_t>(x.count()), out.data.data());
}

/// An operand as float32.
class Loaded {
 public:
  Loaded(const Tensor &x, const Quant &quant) : made_(quant.scale == 0 ? Tensor() : dequantized(x, quant)) {
    tensor_ = quant.scale == 0 ? &x : &made_;
  }
  Loaded(const Loaded &) = delete;
  Loaded &operator=(const Loaded &) = delete;
  const Tensor &operator*() const { return *tensor_; }

 private:
  const Tensor made_;
  const Tensor *tensor_;
};

/// Calls f with a result of float32 and stores that.
template <class F>
auto stored(const Quant &quant, Tensor &out, F f) {
  if (quant.scale == 0) return f(out);
  Tensor floats(Dtype::F32, out.shape);
  if constexpr (std::is_void_v<decltype(f(floats))>) {
    f(floats);
    quantize(floats, quant, out);
  } else {
    const auto status = f(floats);
    quantize(floats, quant, out);
    return status;
  }
}

/// What becomes of the sum of products of an output channel or column.
class Finish {
 public:
  Finish(const ProductQuant &quant, const Activation &act, const Tensor *bias, const Tensor *multiplier, Tensor &out)
      : quant_(quant), act_(act), bias_(bias), multiplier_(multiplier), out_(out) {}

  void operator()(int64_t place, int64_t channel, uint32_t sum) const {
    if (bias_) sum += bias_->as<uint32_t>()[channel];
    const auto total = static_cast<int32_t>(sum);
    if (!multiplier_) {
      out_.as<int32_t>()[place] = total;
      return;
    }
    const float factor = multiplier_->as<float>()[multiplier_->count() == 1 ? 0 : channel];
    float v = static_cast<float>(total) * factor;
    if (act_.kind != ActKind::None) v = activate(act_, v);
    if (is_real(quant_.out))  // of 16 bits: the caller rounds
      out_.as<float>()[place] = v;
    else if (quant_.out == Dtype::I8)
      out_.as<int8_t>()[place] = saturated<int8_t>(v, quant_.out_zero);
    else
      out_.as<uint8_t>()[place] = saturated<uint8_t>(v, quant_.out_zero);
  }

 private:
  const ProductQuant &quant_;
  const Activation &act_;
  const Tensor *bias_, *multiplier_;
  Tensor &out_;
};

/// x - zero, int32.
Tensor centred(const Tensor &x, int32_t zero) {
  Tensor out(Dtype::I32, x.shape);
  with_integer(x.dtype, [&](auto type) {
    const auto *from = x.as<decltype(type)>();
    const int64_t n = x.count();
    for (int64_t i = 0; i < n; ++i) out.as<int32_t>()[i] = static_cast<int32_t>(from[i]) - zero;
  });
  return out;
}

}  // namespace

void quantized_conv(const ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias,
                    const Tensor *multiplier, Tensor &out) {
  const Picture in(x.shape), to(out.shape), k(w.shape);
  const Tensor pixels = centred(x, attrs.quant.x_zero), weights = centred(w, attrs.quant.w_zero);
  const Finish finish(attrs.quant, attrs.act, bias, multiplier, out);
  const int64_t per_group = to.c / attrs.groups, x_step = in.h * in.w, w_step = k.h * k.w;
  for_outputs(to, [&](int64_t n, int64_t oc, int64_t oy, int64_t ox) {
    uint32_t sum = 0;
    const int64_t first = oc / per_group * k.c;
    for_cells(attrs.window, in, oy, ox, [&](int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      const int32_t *a = pixels.as<int32_t>() + in.at(n, first, iy, ix);
      const int32_t *b = weights.as<int32_t>() + k.at(oc, 0, ky, kx);
      for (int64_t c = 0; c < k.c; ++c) sum += static_cast<uint32_t>(a[c * x_step] * b[c * w_step]);
    });
    finish(to.at(n, oc, oy, ox), oc, sum);
  });
}

void quantized_matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias,
                      const Tensor *multiplier, Tensor &out) {
  Tensor sums(Dtype::I32, out.shape);
  matmul({}, centred(a, attrs.quant.x_zero), centred(b, attrs.quant.w_zero), nullptr, sums);
  const Finish finish(attrs.quant, attrs.act, bias, multiplier, out);
  const int64_t n = out.count(), columns = out.shape.back();
  for (int64_t i = 0; i < n; ++i) finish(i, i % columns, sums.as<uint32_t>()[i]);
}

void quantized_average(const PoolAttrs &attrs, const Tensor &x, Tensor &out) {
  const Picture in(x.shape), to(out.shape);
  if (attrs.in.scale == 0) {
    PoolAttrs plain = attrs;
    plain.out = {};
    return stored(attrs.out, out, [&](Tensor &floats) { pool(plain, x, floats); });
  }
  const Tensor cells = centred(x, attrs.in.zero);
  stored(attrs.out, out, [&](Tensor &floats) {
    for_outputs(to, [&](int64_t n, int64_t c, int64_t oy, int64_t ox) {
      int64_t sum = 0, count = 0;
      for_cells(attrs.window, in, oy, ox, [&](int64_t, int64_t, int64_t iy, int64_t ix) {
        sum += cells.as<int32_t>()[in.at(n, c, iy, ix)];
        ++count;
      });
      if (attrs.count_pad) count = counted(attrs, in, oy, ox);
      floats.as<float>()[to.at(n, c, oy, ox)] = static_cast<float>(sum) / static_cast<float>(count) * attrs.in.scale;
    });
  });
}

Status quantized_binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
  const Loaded x(a, attrs.a), y(b, attrs.b);
  const BinaryAttrs plain{attrs.kind, attrs.act};
  return stored(attrs.out, out, [&](Tensor &floats) { return binary(plain, *x, *y, floats); });
}

void quantized_softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out) {
  const Loaded loaded(x, attrs.in);
  stored(attrs.out, out, [&](Tensor &floats) { softmax(attrs, *loaded, floats); });
}

void requant(const RequantAttrs &attrs, const Tensor &x, Tensor &out) {
  const Loaded loaded(x, attrs.in);
  stored(attrs.out, out, [&](Tensor &floats) { unary({attrs.act}, *loaded, floats); });
}

void lookup(const Tensor &x, const Tensor &table, Tensor &out) {
  const int64_t n = x.count();
  with_size(table.dtype, [&](auto size) {
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      std::memcpy(out.data.data() + i * size(), table.data.data() + x.data[i] * size(), size());
  });
}

}  // namespace npu::cpu
