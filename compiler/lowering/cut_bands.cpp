// SPDX-License-Identifier: MIT
// A network begins with its input on the way from memory. Where that takes longer than the first operator's arithmetic,
// the input comes in bands of rows, and the first operators are cut into such bands as well: they compute all that the
// rows which are there suffice for while the next ones come.
#include <algorithm>

#include "compiler/lowering/lowered.h"
#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

constexpr hw::CostParams kChip;
constexpr int64_t kMostBands = 12;
constexpr int64_t kBandBytes = 96 << 10;  ///< at least so many a band, which take much longer than a transfer's latency
constexpr int64_t kLeastRows = 4;         ///< of a band of the input

int64_t bands_of(const Storage &input) { return std::min(input.bytes() / kBandBytes, kMostBands); }

/// Cycles of an operator with windows, in one command.
uint64_t cycles_of(const LoweredOp &op) {
  const Shape &in = op.in[0].dims, &out = op.out.dims;
  const auto shape = [&](auto c) {
    c.n = static_cast<uint32_t>(out[0]);
    c.ih = static_cast<uint32_t>(in[1]);
    c.iw = static_cast<uint32_t>(in[2]);
    c.oh = static_cast<uint32_t>(out[1]);
    c.ow = static_cast<uint32_t>(out[2]);
    c.kh = static_cast<uint16_t>(op.window.kernel[0]);
    c.kw = static_cast<uint16_t>(op.window.kernel[1]);
    return c;
  };
  if (op.kind == Kind::Pool) {
    auto c = shape(hw::make<npu_cmd_pool>());
    c.c = static_cast<uint32_t>(out[3]);
    return hw::cost_detail::cost(c, {}).cycles;
  }
  auto c = shape(hw::make<npu_cmd_conv>());
  c.ic = static_cast<uint32_t>(in[3]);
  c.oc = static_cast<uint32_t>(out[3]);
  c.groups = static_cast<uint32_t>(op.groups);
  return hw::cost_detail::cost(c, {}).cycles;
}

/// Whether bands of an operator's result are runs of local memory.
bool has_bands(const Lowered &l, const LoweredOp &op) {
  return (op.kind == Kind::Conv || op.kind == Kind::Pool) && op.in.size() == 1 && op.out.dims[0] == 1 &&
         l.storages[static_cast<size_t>(op.out.storage)].kind == StorageKind::Temp &&
         is_dense(op.out.dims, op.out.strides);
}

/// The number of operators to cut, 0 for none: as many as compute for as long as the input comes.
size_t chain_length(const Lowered &l, int64_t lmem_bytes) {
  if (l.ops.empty() || !has_bands(l, l.ops[0])) return 0;
  const Storage &input = l.storages[static_cast<size_t>(l.ops[0].in[0].storage)];
  const int64_t bands = bands_of(input);
  const auto load =
      static_cast<uint64_t>(input.bytes() / kChip.ddr_bw + bands * int64_t{kChip.gdma_fixed + kChip.ddr_latency});
  uint64_t cycles = cycles_of(l.ops[0]);
  if (input.kind != StorageKind::Input || l.ops[0].in[0].count() != input.elements || bands < 2 ||
      l.ops[0].in[0].dims[1] < bands * kLeastRows || cycles >= load)
    return 0;
  int64_t bytes = input.bytes() + l.ops[0].out.count() * kElementBytes;
  size_t n = 1;
  for (; cycles < load && n < l.ops.size(); ++n) {
    const LoweredOp &op = l.ops[n], &before = l.ops[n - 1];
    bytes += op.out.count() * kElementBytes;
    if (!has_bands(l, op) || op.in[0].storage != before.out.storage || op.in[0].dims != before.out.dims ||
        !same_places(op.in[0], before.out) || bytes > lmem_bytes / 4 * 3)
      break;
    cycles += cycles_of(op);
  }
  return n > 1 ? n : 0;
}

View rows_of(const View &v, int64_t first, int64_t count) {
  Shape dims = v.dims;
  dims[1] = count;
  return sliced(v, {0, first, 0, 0}, {1, 1, 1, 1}, dims);
}

/// Rows [first, end) of an operator's result.
LoweredOp band_of(const LoweredOp &op, int64_t first, int64_t end) {
  const graph::Window &w = op.window;
  const int64_t size = op.in[0].dims[1];
  const Reach seen = reach(first, end - first, w.stride[0], w.begin[0], w.dilation[0], w.kernel[0], size);
  LoweredOp band = op;
  band.in[0] = rows_of(op.in[0], seen.first, seen.count);
  band.out = rows_of(op.out, first, end - first);
  band.window.begin[0] = seen.pad;
  return band;
}

/// The rows of a result for which the first `there` rows of the operand are enough.
int64_t rows_from(const LoweredOp &op, int64_t there) {
  if (there == op.in[0].dims[1]) return op.out.dims[1];
  const graph::Window &w = op.window;
  const int64_t free = there + w.begin[0] - w.extent(0);
  return free < 0 ? 0 : std::min(free / w.stride[0] + 1, op.out.dims[1]);
}

}  // namespace

void cut_bands(Lowered &lowered, int64_t lmem_bytes) {
  const size_t chain = chain_length(lowered, lmem_bytes);
  if (chain == 0) return;
  std::vector<LoweredOp> loads, ops;
  LoweredOp load;
  load.source = lowered.ops[0].source;
  load.in = {lowered.ops[0].in[0]};
  Storage picture;
  picture.elements = load.in[0].count();
  load.out = dense_view(static_cast<int>(lowered.storages.size()), load.in[0].dims);
  lowered.storages.push_back(picture);
  lowered.ops[0].in = {load.out};
  const int64_t rows = load.out.dims[1];
  const int64_t bands = bands_of(picture);
  std::vector<int64_t> done(chain, 0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t first = rows * band / bands;
    int64_t there = rows * (band + 1) / bands;
    loads.push_back(load);
    loads.back().in = {rows_of(load.in[0], first, there - first)};
    loads.back().out = rows_of(load.out, first, there - first);
    for (size_t i = 0; i < chain; ++i) {
      there = rows_from(lowered.ops[i], there);
      if (there > done[i]) ops.push_back(band_of(lowered.ops[i], done[i], there));
      done[i] = there;
    }
  }
  std::move(lowered.ops.begin() + static_cast<std::ptrdiff_t>(chain), lowered.ops.end(), std::back_inserter(ops));
  std::move(ops.begin(), ops.end(), std::back_inserter(loads));
  lowered.ops = std::move(loads);
}

}  // namespace npu::compiler
