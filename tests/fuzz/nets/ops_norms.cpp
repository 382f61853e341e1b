// SPDX-License-Identifier: MIT
// Normalizations. What they divide by may be small: their operands are bounded, and the tolerance shows the rest.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

constexpr double kBound = 4;

/// The largest deviation of n numbers, in standard deviations.
double most_deviation(int64_t n) { return std::sqrt(static_cast<double>(n)); }

const Tensor *pick_with_rank(Net &net, Choices &c, int64_t least) {
  return net.pick(c, [=](const Tensor &t) { return t.rank() >= least; });
}

bool instance_normalization(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_with_rank(net, c, 3);
  if (!found) return false;
  const double most = most_deviation(found->count() / (found->dims[0] * found->dims[1])) + 1;
  if (!net.allows(found->dims, most)) return false;
  const Tensor x = bounded(net, *found, kBound);
  const Dims channels{x.dims[1]};
  const std::string y = net.node(type, {x.name, net.constant(channels, 1).name, net.constant(channels, 1).name});
  if (c.chance(50)) net.b.attr("epsilon", 0.01f);
  net.add(y, x.dims, most);
  return true;
}

bool group_normalization(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_with_rank(net, c, 3);
  if (!found || net.opset < 18) return false;
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= found->dims[1]; ++d)
    if (found->dims[1] % d == 0) divisors.push_back(d);
  const int64_t groups = divisors[static_cast<size_t>(c.below(static_cast<int64_t>(divisors.size())))];
  const double most = most_deviation(found->count() / (found->dims[0] * groups)) + 1;
  if (!net.allows(found->dims, most)) return false;
  const Tensor x = bounded(net, *found, kBound);
  // Scale and bias belonged to groups at first.
  const Dims parameters{net.opset < 21 ? groups : x.dims[1]};
  const std::string y = net.node(type, {x.name, net.constant(parameters, 1).name, net.constant(parameters, 1).name});
  net.b.attr("num_groups", groups);
  if (c.chance(50)) net.b.attr("epsilon", 0.01f);
  net.add(y, x.dims, most);
  return true;
}

bool layer_normalization(Net &net, Choices &c, const char *type) {
  const bool rms = std::string(type) == "RMSNormalization";
  const Tensor *found = pick_with_rank(net, c, 1);
  if (!found || net.opset < (rms ? 23 : 17)) return false;
  const int64_t axis = c.chance(50) ? c.below(found->rank()) : found->rank() - 1;
  const Dims rest(found->dims.begin() + axis, found->dims.end());
  const double most = most_deviation(count_of(rest)) + 1;
  if (!net.allows(found->dims, most)) return false;
  if (count_of(rest) == 1) net.onnxruntime = false;  // which refuses that
  const Tensor x = bounded(net, *found, kBound);
  std::vector<std::string> inputs{x.name, net.constant(rest, 1).name};
  if (!rms && c.chance(60)) inputs.push_back(net.constant(rest, 1).name);
  const std::string y = net.node(type, inputs);
  if (axis != x.rank() - 1 || c.chance(40)) net.b.attr("axis", c.chance(50) ? axis : axis - x.rank());
  if (c.chance(50)) net.b.attr("epsilon", 0.01f);
  const bool more = !rms && c.chance(20);
  const std::string mean = more ? net.b.more_output() : "", inverse = more ? net.b.more_output() : "";
  net.add(y, x.dims, most);
  Dims one = x.dims;
  for (size_t i = static_cast<size_t>(axis); i < one.size(); ++i) one[i] = 1;
  if (more) net.add(mean, one, x.most);
  if (more) net.add(inverse, one, 400, 0, true);  // 1 / sqrt(epsilon) at most
  return true;
}

/// Its deviation has no epsilon to speak of: what is all the same, but for rounding, is left out.
bool mean_variance_normalization(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 4 && t.count() > t.dims[1] && t.exact; });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  const bool all = c.chance(50);
  // Where all is the same, ONNX Runtime divides by 0: only of an input it can be told that this is not so.
  if (!x.name.starts_with('x')) net.onnxruntime = false;
  int64_t n = x.count() / x.dims[1];
  if (!all) n = x.dims[2] * x.dims[3];
  if (n == 1 || !net.allows(x.dims, most_deviation(n))) return false;
  const std::string y = net.node(type, {x.name});
  if (!all) net.b.attr("axes", std::vector<int64_t>{2, 3});
  net.add(y, x.dims, most_deviation(n));
  return true;
}

bool lp_normalization(Net &net, Choices &c, const char *type) {
  const Tensor x = positive_operand(net, c);
  if (x.rank() < 1) return false;
  const std::string y = net.node(type, {x.name});
  if (c.chance(60)) net.b.attr("axis", c.from(-x.rank(), x.rank() - 1));
  if (c.chance(60)) net.b.attr("p", c.from(1, 2));
  net.add(y, x.dims, 1, 0, true);
  return true;
}

bool lrn(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 4; });
  if (!found) return false;
  const Tensor x = bounded(net, *found, 8);
  const std::string y = net.node(type, {x.name});
  net.b.attr("size", c.one_of<int64_t>({1, 3, 5, 7}));
  if (c.chance(50)) net.b.attr("alpha", c.one_of<float>({0.5f, 0.01f}));
  if (c.chance(50)) net.b.attr("beta", c.one_of<float>({0.5f, 1, 2}));
  if (c.chance(50)) net.b.attr("bias", c.one_of<float>({1, 2}));
  net.add(y, x.dims, x.most);
  return true;
}

constexpr Op kNorms[] = {
    {"InstanceNormalization", instance_normalization},
    {"GroupNormalization", group_normalization},
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", layer_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"LpNormalization", lp_normalization},
    {"LRN", lrn},
};

}  // namespace

std::span<const Op> norm_ops() { return kNorms; }

}  // namespace npu::fuzz
