// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/float_nets.h"

#include <algorithm>
#include <random>

namespace npu::test {

Status RandomSamples::open(const std::vector<quantize::Input> &inputs) {
  inputs_ = inputs;
  return {};
}

Status RandomSamples::load(size_t index, std::vector<graph::Tensor> &out) const {
  std::mt19937 random(static_cast<uint32_t>(index) + 1);
  for (const quantize::Input &input : inputs_) {
    graph::Tensor &t = out.emplace_back(input.dtype, input.shape);
    for (int64_t i = 0; i < t.count(); ++i)
      if (t.dtype == graph::Dtype::F32) t.as<float>()[i] = static_cast<float>(random() % 20001) / 10000 - 1;
  }
  if (change_) change_(index, out);
  return {};
}

quantize::Options int8_options(size_t samples, RandomSamples::Change change) {
  quantize::Options out;
  out.type = quantize::Type::Int8;
  out.rule.method = quantize::Method::MinMax;
  out.samples = std::make_shared<RandomSamples>(samples, std::move(change));
  return out;
}

namespace {

struct Real {
  std::string name;
  Dims dims;
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  OnnxBuilder run() {
    constexpr void (Maker::*kSteps[])() = {&Maker::conv,     &Maker::conv,     &Maker::conv,
                                           &Maker::sum,      &Maker::function, &Maker::concat,
                                           &Maker::max_pool, &Maker::swish,    &Maker::turn};
    add(b_.input({1, from(1, 4), from(4, 8), from(4, 8)}, "x"), {}, true);
    for (int64_t left = from(2, 8); left > 0; --left) (this->*kSteps[from(0, std::ssize(kSteps) - 1)])();
    finish();
    return std::move(b_);
  }

 private:
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return from(1, 100) <= percent; }
  const Real any() { return reals_[static_cast<size_t>(from(0, std::ssize(reals_) - 1))]; }

  void add(const std::string &name, const Dims &dims, bool is_input = false) {
    if (!is_input) return reals_.push_back({name, dims});
    Dims known;
    for (const auto &d : b_.model.graph().input(0).type().tensor_type().shape().dim()) known.push_back(d.dim_value());
    reals_.push_back({name, known});
  }

  void conv() {
    const Real x = any();
    const int64_t groups = chance(30) ? x.dims[1] : 1, outer = groups * from(1, 3), k = from(1, 3);
    std::string y = b_.op("Conv", {x.name, b_.weights({outer, x.dims[1] / groups, k, k}), b_.weights({outer})});
    b_.attr("group", groups).attr("pads", std::vector<int64_t>{k / 2, k / 2, k - 1 - k / 2, k - 1 - k / 2});
    const int64_t act = from(0, 4);
    if (act == 1) y = b_.op("Relu", {y});
    if (act == 2) y = b_.op("Clip", {y, b_.scalar(0), b_.scalar(1)});
    if (act == 3) y = b_.op("LeakyRelu", {y});
    add(y, {1, outer, x.dims[2], x.dims[3]});
  }

  void sum() {
    const Real a = any();
    std::vector<Real> same;
    for (const Real &r : reals_)
      if (r.dims == a.dims) same.push_back(r);
    const Real c = same[static_cast<size_t>(from(0, std::ssize(same) - 1))];
    std::string y = a.name == c.name ? b_.op("Add", {a.name, b_.weights({1, a.dims[1], 1, 1})})
                                     : b_.op(chance(70) ? "Add" : "Mul", {a.name, c.name});
    if (chance(50)) y = b_.op("Relu", {y});
    add(y, a.dims);
  }

  void function() {
    const char *const kinds[] = {"Sigmoid", "Tanh", "HardSwish", "Elu"};
    const Real x = any();
    const auto k = static_cast<size_t>(from(0, 3));
    add(b_.op(kinds[k], {x.name}), x.dims);
  }

  void swish() {
    const Real x = any();
    add(b_.op("Mul", {x.name, b_.op("Sigmoid", {x.name})}), x.dims);
  }

  void concat() {
    const Real a = any(), c = any();
    if (a.dims[2] != c.dims[2] || a.dims[3] != c.dims[3] || a.dims[1] + c.dims[1] > 16) return conv();
    add(b_.op("Concat", {a.name, c.name}), {1, a.dims[1] + c.dims[1], a.dims[2], a.dims[3]});
    b_.attr("axis", int64_t{1});
  }

  void max_pool() {
    const Real x = any();
    if (x.dims[2] < 3 || x.dims[3] < 3) return conv();
    add(b_.op("MaxPool", {x.name}), {1, x.dims[1], x.dims[2] / 2, x.dims[3] / 2});
    b_.attr("kernel_shape", std::vector<int64_t>{2, 2}).attr("strides", std::vector<int64_t>{2, 2});
  }

  void turn() {
    const Real x = any();
    add(b_.op("Transpose", {x.name}), {1, x.dims[1], x.dims[3], x.dims[2]});
    b_.attr("perm", std::vector<int64_t>{0, 1, 3, 2});
  }

  /// Everything that nothing reads becomes an output, the last of them behind a Gemm.
  void finish() {
    std::vector<Real> ends;
    for (const Real &r : reals_) {
      bool read = false;
      for (const auto &n : b_.model.graph().node())
        read = read || std::find(n.input().begin(), n.input().end(), r.name) != n.input().end();
      if (!read) ends.push_back(r);
    }
    for (const Real &r : ends) {
      const std::string mean = b_.op("Flatten", {b_.op("GlobalAveragePool", {r.name})});
      b_.output(b_.op("Gemm", {mean, b_.weights({r.dims[1], 5}), b_.weights({5})}));
    }
  }

  OnnxBuilder b_{14};
  std::vector<Real> reals_;
  std::mt19937 random_;
};

}  // namespace

OnnxBuilder random_float_net(uint32_t seed) { return Maker(seed).run(); }

}  // namespace npu::test
