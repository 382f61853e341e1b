// SPDX-License-Identifier: MIT
// Pooling. Cut by pictures, rows, columns and channels.
#include <algorithm>

#include "compiler/kernels/kernel.h"

namespace npu::compiler {
namespace {

struct PoolTile {
  int64_t n, rows, columns, channels;
};

class Pool final : public Kernel {
 public:
  Pool(const PoolOp &op, const View &out, const KernelContext &c) : c_(c), op_(op), x_(op.input), y_(out) {}

  Plan plan(int64_t budget) const override {
    Plan best;
    const std::vector<int64_t> widths = tile_sizes(y_.dims[2]);
    for (size_t i = 0; i < widths.size() && !best.feasible; ++i)
      for (int64_t channels : channel_tiles(y_.dims[3], 32)) {
        for (int64_t n : tile_sizes(y_.dims[0])) consider({n, y_.dims[1], widths[i], channels}, budget, best);
        for (int64_t rows : tile_sizes(y_.dims[1])) consider({1, rows, widths[i], channels}, budget, best);
      }
    return best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    const PoolTile t{plan.tile[0], plan.tile[1], plan.tile[2], plan.tile[3]};
    const bool in_direct = c_.direct(x_, input_box(t)), out_direct = c_.direct(y_, output_box(t));
    const size_t each = plan.tiles > 1 ? 2 : 1, ins = in_direct ? 0 : each;
    Run run{out, buffers.subspan(0, ins), buffers.subspan(ins, out_direct ? 0 : each), in_direct, 0};
    for (int64_t n = 0; n < y_.dims[0]; n += t.n)
      for (int64_t row = 0; row < y_.dims[1]; row += t.rows)
        for (int64_t column = 0; column < y_.dims[2]; column += t.columns)
          for (int64_t channel = 0; channel < y_.dims[3]; channel += t.channels)
            emit_tile(run, {n, row, column, channel},
                      {std::min(t.n, y_.dims[0] - n), std::min(t.rows, y_.dims[1] - row),
                       std::min(t.columns, y_.dims[2] - column), std::min(t.channels, y_.dims[3] - channel)});
  }

 private:
  struct Run {
    Emitter &emitter;
    std::span<const uint32_t> in, out;
    bool in_direct;
    size_t count;
  };

  int64_t extent(int64_t outs, size_t d) const {
    return std::min(x_.dims[d + 1], (outs - 1) * op_.window.stride[d] + op_.window.extent(static_cast<int>(d)));
  }
  Shape input_box(const PoolTile &t) const { return {t.n, extent(t.rows, 0), extent(t.columns, 1), t.channels}; }
  Shape output_box(const PoolTile &t) const { return {t.n, t.rows, t.columns, t.channels}; }

  void consider(const PoolTile &t, int64_t budget, Plan &best) const {
    Plan p;
    const Shape in = input_box(t), out = output_box(t);
    p.tiles = tiles_of(y_.dims[0], t.n) * tiles_of(y_.dims[1], t.rows) * tiles_of(y_.dims[2], t.columns) *
              tiles_of(y_.dims[3], t.channels);
    add_buffers(p, c_.direct(x_, in), c_.bytes(x_, in), p.tiles);
    add_buffers(p, c_.direct(y_, out), c_.bytes(y_, out), p.tiles);
    if (total_bytes(p.buffers) > budget) return;
    p.feasible = true;
    auto c = hw::make<npu_cmd_pool>();
    set_shape(c, in, out);
    const double load = c_.direct(x_, in) ? 0 : c_.transfer_cycles(x_, in),
                 store = c_.direct(y_, out) ? 0 : c_.transfer_cycles(y_, out);
    p.cost = pipelined(p.tiles, load, static_cast<double>(hw::cost_detail::cost(c, {}).cycles), store);
    p.tile = {t.n, t.rows, t.columns, t.channels};
    if (!best.feasible || p.cost < best.cost) best = std::move(p);
  }

  void set_shape(npu_cmd_pool &c, const Shape &in, const Shape &out) const {
    c.in_dtype = c_.dtype(x_);
    c.out_dtype = c_.dtype(y_);
    set_number(c.in_dtype, op_.in_quant, c.in_scale, c.in_zp);
    set_number(c.out_dtype, op_.out_quant, c.out_scale, c.out_zp);
    c.n = static_cast<uint32_t>(out[0]);
    c.ih = static_cast<uint32_t>(in[1]);
    c.iw = static_cast<uint32_t>(in[2]);
    c.c = static_cast<uint32_t>(out[3]);
    c.oh = static_cast<uint32_t>(out[1]);
    c.ow = static_cast<uint32_t>(out[2]);
    c.kh = static_cast<uint16_t>(op_.window.kernel[0]);
    c.kw = static_cast<uint16_t>(op_.window.kernel[1]);
  }

  void emit_tile(Run &run, const Shape &at, const Shape &out) const {
    const graph::Window &w = op_.window;
    Reach rows = reach(at[1], out[1], w.stride[0], w.begin[0], w.dilation[0], w.kernel[0], x_.dims[1]);
    Reach columns = reach(at[2], out[2], w.stride[1], w.begin[1], w.dilation[1], w.kernel[1], x_.dims[2]);
    const auto dense = [&] { return c_.direct(x_, {out[0], rows.count, columns.count, out[3]}); };
    if (run.in_direct && !dense()) columns = {0, x_.dims[2], columns.pad - columns.first};
    if (run.in_direct && !dense()) rows = {0, x_.dims[1], rows.pad - rows.first};
    const Shape start{at[0], rows.first, columns.first, at[3]}, in{out[0], rows.count, columns.count, out[3]};
    auto c = hw::make<npu_cmd_pool>();
    set_shape(c, in, out);
    c.subop = op_.max ? NPU_POOL_MAX : NPU_POOL_AVG;
    c.sh = static_cast<uint16_t>(w.stride[0]);
    c.sw = static_cast<uint16_t>(w.stride[1]);
    c.dh = static_cast<uint16_t>(w.dilation[0]);
    c.dw = static_cast<uint16_t>(w.dilation[1]);
    c.pad_t = static_cast<int32_t>(rows.pad);
    c.pad_l = static_cast<int32_t>(columns.pad);
    if (op_.count_pad) {
      c.flags |= NPU_POOLF_COUNT_PAD;
      // Only the tiles at the lower and right border see the padding there.
      if (rows.first + rows.count == x_.dims[1]) c.pad_b = static_cast<int32_t>(op_.counted_end[0]);
      if (columns.first + columns.count == x_.dims[2]) c.pad_r = static_cast<int32_t>(op_.counted_end[1]);
    }
    c.in_addr = dense() ? c_.address(x_, start) : run.in[run.count % run.in.size()];
    if (!dense()) run.emitter.copy(in, c_.end(x_, start), c_.buffer_end(x_, c.in_addr, in));
    const bool direct = c_.direct(y_, out);
    c.out_addr = direct ? c_.address(y_, at) : run.out[run.count % run.out.size()];
    run.emitter.tiu(c);
    if (!direct) run.emitter.copy(out, c_.buffer_end(y_, c.out_addr, out), c_.end(y_, at));
    ++run.count;
  }

  const KernelContext c_;
  const PoolOp &op_;
  const View &x_, &y_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const PoolOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Pool>(op, out, context);
}

}  // namespace npu::compiler
