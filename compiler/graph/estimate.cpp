// SPDX-License-Identifier: MIT
#include "compiler/graph/estimate.h"

#include <algorithm>

#include "npu_cost.hpp"

namespace npu::graph {
namespace {

double steps(int64_t n, int64_t by) { return static_cast<double>((n + by - 1) / by); }

/// Pixels, or rows, that the array takes in a cycle.
double pixels(const Graph &g, const Node &n) {
  const int64_t bytes = dtype_bytes(g[n.inputs[0]].dtype);
  return kChip.mac_pixels * (bytes == 1 ? kChip.rate_8 : bytes == 2 ? kChip.rate_16 : 1.0);
}

/// The arithmetic of a part of a node, as docs/reference/hardware.md section 8.1 counts it.
double arithmetic(const Graph &g, const Node &n, const Box &part) {
  const double elements = count(part);
  switch (n.op) {
    case Op::Conv: {
      const Shape &w = g[n.inputs[1]].shape;
      const int64_t taps = element_count(w) / w[0];
      return elements / static_cast<double>(part[1].size()) * steps(taps, kChip.mac_ic) *
             steps(part[1].size(), kChip.mac_oc) / pixels(g, n);
    }
    case Op::MatMul: {
      const int64_t k = g[n.inputs[0]].shape.back(), columns = part.back().size();
      return elements / static_cast<double>(columns) * steps(k, kChip.mac_ic) * steps(columns, kChip.mac_oc) /
             pixels(g, n);
    }
    case Op::Pool: {
      const Window &w = std::get<PoolAttrs>(n.attrs).window;
      return elements * static_cast<double>(w.kernel[0] * w.kernel[1]) / kChip.ew_lanes;
    }
    case Op::Softmax:
      return 8 * elements / kChip.ew_lanes;
    case Op::Unary:
      return hw::cost_detail::is_slow(static_cast<uint8_t>(std::get<UnaryAttrs>(n.attrs).act.kind)) *
             (4 * elements / kChip.ew_lanes);
    default:
      return 0;
  }
}

/// Bytes of local memory that a part of a node moves.
double local_bytes(const Graph &g, const Node &n, const Box &part, const Box &first) {
  const double out = element_bytes(g, n.output) * count(part);
  switch (n.op) {
    case Op::Transpose:
    case Op::Reshape:
    case Op::Slice:
    case Op::Expand:
    case Op::Concat:
      return 0;  // views, mostly
    case Op::Binary: {
      double bytes = out;
      for (ValueId v : n.inputs) bytes += element_bytes(g, v) * count(part);
      return bytes;
    }
    default:
      return out + element_bytes(g, n.inputs[0]) * count(first);
  }
}

}  // namespace

double count(const Box &box) {
  double n = 1;
  for (Range r : box) n *= static_cast<double>(std::max<int64_t>(r.size(), 0));
  return n;
}

double element_bytes(const Graph &g, ValueId v) { return dtype_bytes(g[v].dtype); }

double compute_cycles(const Graph &g, const Node &n, const Box &part, const Box &first) {
  return kChip.tiu_fixed + std::max(arithmetic(g, n, part), local_bytes(g, n, part, first) / kChip.lmem_bw);
}

}  // namespace npu::graph
