// SPDX-License-Identifier: MIT
// Matrix products.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

constexpr int64_t kMostProducts = 3000000;

struct Product {
  double weight, most;  ///< of the constant operand, of the result
};

Product sizes(double most, int64_t terms) {
  const double weight = std::sqrt(3 / static_cast<double>(terms));
  return {weight, std::min(static_cast<double>(terms) * weight, 4.0) * most};
}

/// Two run-time operands: their sum of products is as large as it can be.
double run_time_most(const Tensor &a, const Tensor &b, int64_t terms) {
  return a.most * b.most * static_cast<double>(terms);
}

bool gemm(Net &net, Choices &c, const char *type) {
  const auto is_matrix = [](const Tensor &t) { return t.rank() == 2; };
  const Tensor *found = net.pick(c, is_matrix);
  if (!found) return false;
  const Tensor a = *found;
  const bool ta = c.chance(30), tb = c.chance(50);
  const int64_t m = a.dims[ta ? 1 : 0], k = a.dims[ta ? 0 : 1];
  const Tensor *other =
      c.chance(30) ? net.pick(c, [&](const Tensor &t) { return is_matrix(t) && t.dims[tb ? 1 : 0] == k; }) : nullptr;
  const int64_t n = other ? other->dims[tb ? 0 : 1] : c.from(1, 20);
  const float alpha = c.one_of<float>({1, 0.5f, -1.5f}), beta = c.one_of<float>({1, 2, -0.5f, 0});
  const double product = other ? run_time_most(a, *other, k) : sizes(a.most, k).most;
  const double most = std::fabs(static_cast<double>(alpha)) * product + 2;
  const Dims y{m, n};
  if (!net.allows(y, most) || m * n * k > kMostProducts || n * k > 50000) return false;
  const std::string right =
      other ? other->name : net.constant(tb ? Dims{n, k} : Dims{k, n}, sizes(a.most, k).weight).name;
  std::vector<std::string> inputs{a.name, right};
  if (net.opset < 11 || c.chance(70)) {
    const Dims shape = c.one_of<Dims>({{n}, {m, n}, {1, n}, {m, 1}, {1}, {}});
    inputs.push_back(net.constant(shape, 1).name);
  }
  const std::string result = net.node(type, inputs);
  if (ta) net.b.attr("transA", int64_t{1});
  if (tb) net.b.attr("transB", int64_t{1});
  if (alpha != 1) net.b.attr("alpha", alpha);
  if (beta != 1) net.b.attr("beta", beta);
  net.add(result, y, most);
  return true;
}

/// The shape of a product of stacks of matrices and vectors; false when they do not fit.
bool product_dims(Dims a, Dims b, Dims &out, int64_t &terms) {
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  terms = a.back();
  if (a.size() < 2 || b.size() < 2 || terms != b[b.size() - 2]) return false;
  const size_t rank = std::max(a.size(), b.size());
  out.assign(rank, 1);
  for (size_t i = 2; i < rank; ++i) {
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1, db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return false;
    out[rank - 1 - i] = std::max(da, db);
  }
  out[rank - 2] = a[a.size() - 2];
  out[rank - 1] = b.back();
  if (column) out.pop_back();
  if (row) out.erase(out.end() - (column ? 1 : 2));
  return true;
}

bool matmul(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found) return false;
  const Tensor x = *found;
  Dims y;
  int64_t terms;
  if (c.chance(50)) {
    const Tensor *other = net.pick(c, [&](const Tensor &t) {
      return product_dims(x.dims, t.dims, y, terms) && net.allows(y, run_time_most(x, t, terms));
    });
    if (other && product_dims(x.dims, other->dims, y, terms)) {
      const double most = run_time_most(x, *other, terms);
      net.add(net.node(type, {x.name, other->name}), y, most);
      return true;
    }
  }
  // A constant on the right, or on the left: a matrix, a stack of them or a vector.
  const bool left = x.rank() > 1 && c.chance(30);
  const int64_t k = left ? x.dims[static_cast<size_t>(x.rank() - 2)] : x.dims.back();
  Dims w = c.chance(15) ? Dims{k} : left ? Dims{c.from(1, 20), k} : Dims{k, c.from(1, 20)};
  if (w.size() == 2 && x.rank() > 2 && c.chance(25)) w.insert(w.begin(), x.dims[static_cast<size_t>(x.rank() - 3)]);
  const Product p = sizes(x.most, k);
  if (!product_dims(left ? w : x.dims, left ? x.dims : w, y, terms) || !net.allows(y, p.most)) return false;
  if (count_of(y) * k > kMostProducts || count_of(w) > 50000) return false;
  const std::string constant = net.constant(w, p.weight).name;
  net.add(left ? net.node(type, {constant, x.name}) : net.node(type, {x.name, constant}), y, p.most);
  return true;
}

// Einstein sums: each letter has a length.

/// A term of letters that are different: those that x has, from `first` on.
std::string letters(int64_t rank, char first) {
  std::string out;
  for (int64_t i = 0; i < rank; ++i) out += static_cast<char>(first + i);
  return out;
}

/// Some letters of a text, in another order.
std::string some_of(Choices &c, std::string text, int64_t percent) {
  for (size_t i = text.size(); i-- > 1;)
    std::swap(text[i], text[static_cast<size_t>(c.below(static_cast<int64_t>(i) + 1))]);
  std::string out;
  for (char letter : text)
    if (c.chance(percent)) out += letter;
  return out;
}

bool einsum(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0 && t.rank() <= 4 && t.count() <= 4000; });
  if (!found || net.opset < 12) return false;
  const Tensor x = *found;
  const std::string a = letters(x.rank(), 'a');
  std::string b, both = a;
  Dims lengths = x.dims, w;
  double most = x.most;
  std::vector<std::string> inputs{x.name};
  if (c.chance(75)) {
    b = some_of(c, a + "z", 50);
    if (c.chance(70)) b += 'y';
    if (b.empty()) b = "a";
    if (b.find('z') != b.npos) both += 'z', lengths.push_back(c.from(1, 4));
    if (b.find('y') != b.npos) both += 'y', lengths.push_back(c.from(1, 4));
    for (char letter : b) w.push_back(lengths[both.find(letter)]);
    if (count_of(w) > 20000 || count_of(lengths) > kMostProducts) return false;
    inputs.push_back(net.constant(w, 0.25).name);
    most *= 0.25;
  } else {
    net.onnxruntime = false;  // which cannot drop dimensions of length 1
  }
  const std::string result = some_of(c, both, 60);
  Dims y;
  for (char letter : result) y.push_back(lengths[both.find(letter)]);
  most *= static_cast<double>(count_of(lengths)) / static_cast<double>(count_of(y));
  if (!net.allows(y, most)) return false;
  const std::string equation = a + (b.empty() ? "" : "," + b) + "->" + result;
  net.add(net.node(type, inputs), y, most);
  net.b.attr("equation", equation.c_str());
  return true;
}

bool det(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(
      c, [](const Tensor &t) { return t.rank() >= 2 && t.dims.back() == t.dims.end()[-2] && t.dims.back() <= 5; });
  if (!found || net.opset < 11) return false;
  const Tensor x = bounded(net, *found, 1);
  const Dims y(x.dims.begin(), x.dims.end() - 2);
  // Hadamard's bound.
  net.add(net.node(type, {x.name}), y, std::pow(std::sqrt(static_cast<double>(x.dims.back())), x.dims.back()));
  return true;
}

/// Queries, keys and values of one tensor, [batch, heads, sequence, size] or [batch, sequence, heads * size].
bool attention(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick(c, [](const Tensor &t) { return (t.rank() == 3 || t.rank() == 4) && t.count() <= 8000; });
  if (!found || net.opset < 23) return false;
  const Tensor x = bounded(net, *found, 4);
  const bool flat = x.rank() == 3;
  const int64_t heads = flat ? (x.dims[2] % 2 == 0 && c.chance(60) ? 2 : 1) : x.dims[1];
  const int64_t sequence = x.dims[flat ? 1 : 2];
  std::string v = x.name;
  double most = x.most;
  if (c.chance(50)) {
    v = net.constant(x.dims, 1).name;
    most = 1;
  }
  std::vector<std::string> inputs{x.name, c.chance(50) ? x.name : net.constant(x.dims, 1).name, v};
  if (c.chance(30)) inputs.push_back(net.constant({sequence, sequence}, 2).name);
  const std::string y = net.node(type, inputs);
  if (flat) net.b.attr("q_num_heads", heads).attr("kv_num_heads", heads);
  if (c.chance(30)) net.b.attr("is_causal", int64_t{1});
  if (c.chance(30)) net.b.attr("scale", 0.25f);
  if (c.chance(20)) net.b.attr("softcap", 2.0f);
  net.add(y, x.dims, most);
  return true;
}

bool rotary_embedding(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 4 && t.dims[3] % 2 == 0; });
  if (!found || net.opset < 23) return false;
  const Tensor x = bounded(net, *found, 40);
  const int64_t size = x.dims[3], turned = size > 2 && c.chance(30) ? 2 : size;
  const Dims table{x.dims[0], x.dims[2], turned / 2};
  const std::string y = net.node(type, {x.name, net.constant(table, 1).name, net.constant(table, 1).name});
  if (turned != size) net.b.attr("rotary_embedding_dim", turned);
  if (c.chance(50)) net.b.attr("interleaved", int64_t{1});
  net.add(y, x.dims, 2 * x.most);
  return true;
}

constexpr Op kMatrices[] = {
    {"Gemm", gemm},     {"MatMul", matmul},       {"MatMul", matmul},
    {"Det", det},       {"Attention", attention}, {"RotaryEmbedding", rotary_embedding},
    {"Einsum", einsum},
};

}  // namespace

std::span<const Op> matrix_ops() { return kMatrices; }

}  // namespace npu::fuzz
