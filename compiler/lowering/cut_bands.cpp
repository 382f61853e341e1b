// SPDX-License-Identifier: MIT
// A network begins with its input on the way from memory. Where that takes longer than the first operator's arithmetic,
// the input comes in bands of rows, and the first operators are cut into such bands as well: they compute all that the
// rows which are there suffice for while the next ones come.
#include <algorithm>

#include "compiler/lowering/chip_types.h"
#include "compiler/lowering/lowered.h"
#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

constexpr hw::CostParams kChip;
constexpr int64_t kMostBands = 12;
constexpr int64_t kBandBytes = 96 << 10;  ///< at least so many a band, which take much longer than a transfer's latency
constexpr int64_t kLeastRows = 4;         ///< of a band of the input

int64_t bands_of(const Storage &input) { return std::min(input.bytes() / kBandBytes, kMostBands); }

template <class Op>
concept HasWindow = requires(Op &op) {
  op.window;
};

uint8_t dtype_of(const Lowered &l, const View &v) { return chip_type(l.storage_of(v).type); }

/// The command that computes all of an operator with windows.
template <class Command>
Command whole_command(const View &in, const graph::Window &window, const View &out) {
  auto c = hw::make<Command>();
  c.n = static_cast<uint32_t>(out.dims[0]);
  c.ih = static_cast<uint32_t>(in.dims[1]);
  c.iw = static_cast<uint32_t>(in.dims[2]);
  c.oh = static_cast<uint32_t>(out.dims[1]);
  c.ow = static_cast<uint32_t>(out.dims[2]);
  c.kh = static_cast<uint16_t>(window.kernel[0]);
  c.kw = static_cast<uint16_t>(window.kernel[1]);
  return c;
}

uint64_t cycles_of(const Lowered &l, const PoolOp &op, const View &out) {
  auto c = whole_command<npu_cmd_pool>(op.input, op.window, out);
  c.in_dtype = c.out_dtype = dtype_of(l, out);
  c.c = static_cast<uint32_t>(out.dims[3]);
  return hw::cost_detail::cost(c, {}).cycles;
}
uint64_t cycles_of(const Lowered &l, const ConvOp &op, const View &out) {
  auto c = whole_command<npu_cmd_conv>(op.input, op.window, out);
  c.in_dtype = dtype_of(l, op.input);
  c.wgt_dtype = chip_type(type_of(op.weights, l.storages));
  c.out_dtype = dtype_of(l, out);
  c.ic = static_cast<uint32_t>(op.input.dims[3]);
  c.oc = static_cast<uint32_t>(out.dims[3]);
  c.groups = static_cast<uint32_t>(op.groups);
  return hw::cost_detail::cost(c, {}).cycles;
}

/// What bands need to know of an operator with windows. There are none of others, which have no input here.
struct Windowed {
  const View *input = nullptr;
  const graph::Window *window = nullptr;
};

Windowed windowed(const LoweredOp &op) {
  return std::visit(
      [&](const auto &o) -> Windowed {
        if constexpr (HasWindow<decltype(o)>)
          return {&o.input, &o.window};
        else
          return {};
      },
      op.body);
}

/// Cycles of an operator with windows, in one command.
uint64_t cycles_of(const Lowered &l, const LoweredOp &op) {
  return std::visit(
      [&](const auto &o) -> uint64_t {
        if constexpr (HasWindow<decltype(o)>)
          return cycles_of(l, o, op.out);
        else
          return 0;
      },
      op.body);
}

int64_t result_bytes(const Lowered &l, const LoweredOp &op) {
  return op.out.count() * l.storage_of(op.out).element_bytes();
}

/// Whether bands of an operator's result are runs of local memory, and bands of its input are all that it reads.
bool has_bands(const Lowered &l, const LoweredOp &op) {
  return windowed(op).input && op.inputs().size() == 1 && op.out.dims[0] == 1 &&
         l.storage_of(op.out).kind == StorageKind::Temp && is_dense(op.out.dims, op.out.strides);
}

/// The number of operators to cut, 0 for none: as many as compute for as long as the input comes.
size_t chain_length(const Lowered &l, int64_t lmem_bytes) {
  if (l.ops.empty() || !has_bands(l, l.ops[0])) return 0;
  const Windowed first = windowed(l.ops[0]);
  const Storage &input = l.storage_of(*first.input);
  const int64_t bands = bands_of(input);
  const auto load =
      static_cast<uint64_t>(input.bytes() / kChip.ddr_bw + bands * int64_t{kChip.gdma_fixed + kChip.ddr_latency});
  uint64_t cycles = cycles_of(l, l.ops[0]);
  if (input.kind != StorageKind::Input || first.input->count() != input.elements || bands < 2 ||
      first.input->dims[1] < bands * kLeastRows || cycles >= load)
    return 0;
  int64_t bytes = input.bytes() + result_bytes(l, l.ops[0]);
  size_t n = 1;
  for (; cycles < load && n < l.ops.size(); ++n) {
    const LoweredOp &op = l.ops[n], &before = l.ops[n - 1];
    const Windowed w = windowed(op);
    bytes += result_bytes(l, op);
    if (!has_bands(l, op) || w.input->storage != before.out.storage || w.input->dims != before.out.dims ||
        !same_places(*w.input, before.out) || bytes > lmem_bytes / 4 * 3)
      break;
    cycles += cycles_of(l, op);
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
  LoweredOp band = op;
  band.out = rows_of(op.out, first, end - first);
  std::visit(
      [&](auto &o) {
        if constexpr (HasWindow<decltype(o)>) {
          graph::Window &w = o.window;
          const Reach seen =
              reach(first, end - first, w.stride[0], w.begin[0], w.dilation[0], w.kernel[0], o.input.dims[1]);
          o.input = rows_of(o.input, seen.first, seen.count);
          w.begin[0] = seen.pad;
        }
      },
      band.body);
  return band;
}

/// The rows of a result for which the first `there` rows of the operand are enough.
int64_t rows_from(const LoweredOp &op, int64_t there) {
  const Windowed w = windowed(op);
  if (there == w.input->dims[1]) return op.out.dims[1];
  const int64_t free = there + w.window->begin[0] - w.window->extent(0);
  return free < 0 ? 0 : std::min(free / w.window->stride[0] + 1, op.out.dims[1]);
}

}  // namespace

void cut_bands(Lowered &lowered, int64_t lmem_bytes) {
  const size_t chain = chain_length(lowered, lmem_bytes);
  if (chain == 0) return;
  std::vector<LoweredOp> loads, ops;
  const View input = *windowed(lowered.ops[0]).input;
  Storage picture;
  picture.type = lowered.storage_of(input).type;
  picture.elements = input.count();
  const View copied = dense_view(static_cast<int>(lowered.storages.size()), input.dims);
  lowered.storages.push_back(picture);
  *lowered.ops[0].inputs()[0] = copied;
  const int64_t rows = input.dims[1];
  const int64_t bands = bands_of(picture);
  std::vector<int64_t> done(chain, 0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t first = rows * band / bands;
    int64_t there = rows * (band + 1) / bands;
    loads.push_back(
        {lowered.ops[0].source, rows_of(copied, first, there - first), CopyOp{rows_of(input, first, there - first)}});
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
