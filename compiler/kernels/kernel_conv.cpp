// SPDX-License-Identifier: MIT
// Convolution. Cut by pictures, rows, columns, groups and output channels; and, with partial sums, by input channels
// and kernel rows. Few input channels leave most of the arithmetic idle: where it pays, a tile's windows are unfolded
// by the GDMA first, so that all that one output sees counts as channels of a kernel of one element.
#include <algorithm>
#include <cmath>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

constexpr int64_t kUnfoldChannels = 128;  ///< input channels with which unfolding is tried
constexpr int64_t kLightChannels = 32;    ///< output channels that are not cut for the sake of their weights

/// Sizes of one tile, in Plan::tile.
struct Tile {
  int64_t n, rows, columns, groups, oc, ic, kernel_rows, local_weights, unfolded;
};

Tile tile_of(const Plan &p) {
  return {p.tile[0], p.tile[1], p.tile[2], p.tile[3], p.tile[4], p.tile[5], p.tile[6], p.tile[7], p.tile[8]};
}

class Conv final : public Kernel {
 public:
  explicit Conv(const KernelContext &c)
      : c_(c), op_(c.op), x_(op_.in[0]), y_(op_.out), summand_(op_.in.size() > 1 ? &op_.in[1] : nullptr) {
    icg_ = x_.dims[3] / op_.groups;
    ocg_ = y_.dims[3] / op_.groups;
  }

  Plan plan(int64_t budget) const override {
    Plan best;
    const int64_t width = y_.dims[2], kernel = op_.window.kernel[0];
    // Columns are cut where whole rows leave much to be gained, down to where that stops helping; kernel rows only
    // where nothing else fits.
    int worse = 0;
    for (int64_t columns = width; columns >= 1 && worse<2; columns = columns> 1 ? (columns + 1) / 2 : 0) {
      const double before = best.cost;
      const bool fitted = best.feasible;
      try_columns(budget, columns, kernel, best);
      if (best.feasible && best.cost < 1.1 * ideal()) break;
      worse = fitted && best.cost >= before ? worse + 1 : 0;
    }
    const std::vector<int64_t> widths = tile_sizes(width);
    for (size_t i = 0; !best.feasible && kernel > 1 && i < widths.size(); ++i) try_columns(budget, widths[i], 1, best);
    if (may_unfold())
      for (int64_t columns = width; columns >= 1 && columns > width / 8; columns = columns > 1 ? (columns + 1) / 2 : 0)
        try_unfolded(budget, columns, best);
    return best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    Run run{.tile = tile_of(plan), .emitter = out};
    const Tile &t = run.tile;
    const bool out_direct = c_.direct(y_, output_box(t));
    run.in_direct = !t.unfolded && c_.direct(x_, input_box(t));
    size_t at = 0;
    if (t.unfolded) {
      const size_t count = loads(t) > 1 ? 2 : 1;
      if (needs_window()) {
        run.window = buffers.subspan(0, count);
        at = count;
      }
      run.patches = buffers.subspan(at, count);
      at += count;
    } else if (!run.in_direct) {
      at = loads(t) > 1 ? 2 : 1;
      run.in = TileInput(buffers.subspan(0, at));
    }
    const size_t outs = out_direct ? 0 : stores(t) > 1 ? 2 : 1;
    run.out = buffers.subspan(at, outs);
    at += outs;
    pack_weights(run);
    if (t.local_weights) {
      run.weights_at = buffers[at];
      const int64_t n = out.coeff.end() - run.weights_offset;
      out.copy({n / kElementBytes}, {kCoefficients, run.weights_offset, {1}}, {-1, run.weights_at, {1}});
    }
    if (op_.bias) run.bias_offset = append_tensor(out.coeff, op_.bias);
    for (int64_t n = 0; n < y_.dims[0]; n += t.n)
      for (int64_t row = 0; row < y_.dims[1]; row += t.rows)
        for (int64_t column = 0; column < y_.dims[2]; column += t.columns) emit_channels(run, n, row, column);
  }

 private:
  struct Run {
    Tile tile;
    Emitter &emitter;
    TileInput in{std::span<const uint32_t>()};
    std::span<const uint32_t> out, window, patches;
    std::vector<int64_t> blocks;  ///< offsets of the weight blocks, in the order of the channel loops
    int64_t weights_offset = 0, bias_offset = 0;
    uint32_t weights_at = 0;
    size_t stored = 0, loaded = 0, unfolded = 0;
    bool in_direct = false;
  };

  /// Cycles of the arithmetic alone, in one command.
  double ideal() const {
    const Tile whole{y_.dims[0], y_.dims[1], y_.dims[2], op_.groups, ocg_, icg_, op_.window.kernel[0], 0, 0};
    return static_cast<double>(hw::cost_detail::cost(shape_command(whole), {}).cycles);
  }

  int64_t input_channels(const Tile &t) const { return t.groups > 1 ? t.groups * icg_ : t.ic; }
  int64_t output_channels(const Tile &t) const { return t.groups > 1 ? t.groups * ocg_ : t.oc; }
  int64_t extent(int64_t outs, int d, int64_t kernel) const {
    return std::min(x_.dims[static_cast<size_t>(d) + 1],
                    (outs - 1) * op_.window.stride[static_cast<size_t>(d)] +
                        (kernel - 1) * op_.window.dilation[static_cast<size_t>(d)] + 1);
  }
  Shape input_box(const Tile &t) const {
    return {t.n, extent(t.rows, 0, t.kernel_rows), extent(t.columns, 1, op_.window.kernel[1]), input_channels(t)};
  }
  Shape output_box(const Tile &t) const { return {t.n, t.rows, t.columns, output_channels(t)}; }
  int64_t spatial_tiles(const Tile &t) const {
    return tiles_of(y_.dims[0], t.n) * tiles_of(y_.dims[1], t.rows) * tiles_of(y_.dims[2], t.columns);
  }
  int64_t group_tiles(const Tile &t) const { return tiles_of(op_.groups, t.groups); }
  int64_t sum_tiles(const Tile &t) const {
    return tiles_of(icg_, t.ic) * tiles_of(op_.window.kernel[0], t.kernel_rows);
  }
  int64_t oc_tiles(const Tile &t) const { return tiles_of(ocg_, t.oc); }
  int64_t loads(const Tile &t) const {
    return spatial_tiles(t) * group_tiles(t) * (sum_tiles(t) > 1 ? sum_tiles(t) * oc_tiles(t) : 1);
  }
  int64_t stores(const Tile &t) const { return spatial_tiles(t) * group_tiles(t) * oc_tiles(t); }

  npu_cmd_conv shape_command(const Tile &t) const {
    auto c = hw::make<npu_cmd_conv>();
    const Shape in = input_box(t);
    c.n = static_cast<uint32_t>(t.n);
    c.ih = static_cast<uint32_t>(in[1]);
    c.iw = static_cast<uint32_t>(in[2]);
    c.ic = static_cast<uint32_t>(in[3]);
    c.oc = static_cast<uint32_t>(output_channels(t));
    c.oh = static_cast<uint32_t>(t.rows);
    c.ow = static_cast<uint32_t>(t.columns);
    c.kh = static_cast<uint16_t>(t.kernel_rows);
    c.kw = static_cast<uint16_t>(op_.window.kernel[1]);
    c.groups = static_cast<uint32_t>(t.groups);
    if (t.local_weights) c.wgt_region = NPU_REGION_LOCAL;
    if (summand_) c.flags |= NPU_CONV_PSUM_IN;
    if (!t.unfolded) return c;
    c.ih = c.oh;
    c.iw = c.ow;
    c.ic = static_cast<uint32_t>(window_elements());
    c.kh = c.kw = 1;
    return c;
  }

  /// Elements that one output sees.
  int64_t window_elements() const { return op_.window.kernel[0] * op_.window.kernel[1] * icg_; }

  /// The rows (or columns) of the input, padding included, that a run of outputs sees.
  int64_t span_of(int64_t outs, size_t d) const {
    return (outs - 1) * op_.window.stride[d] + (op_.window.kernel[d] - 1) * op_.window.dilation[d] + 1;
  }
  /// Whether a run of outputs sees padding.
  bool sees_padding(int64_t out, int64_t outs, size_t d) const {
    const int64_t first = out * op_.window.stride[d] - op_.window.begin[d];
    return first < 0 || first + span_of(outs, d) > x_.dims[d + 1];
  }
  /// Windows are unfolded from a copy of the input, unless that is resident and has no padding.
  bool needs_window() const {
    return !c_.place(x_).local || sees_padding(0, y_.dims[1], 0) || sees_padding(0, y_.dims[2], 1);
  }
  Shape window_box(const Tile &t) const { return {t.n, span_of(t.rows, 0), span_of(t.columns, 1), icg_}; }

  /// Whether unfolding makes better use of the arithmetic. Padding becomes data, which must not meet infinite weights.
  bool may_unfold() const {
    const int64_t taps = op_.window.kernel[0] * op_.window.kernel[1];
    if (op_.groups != 1 || taps == 1 || icg_ > kUnfoldChannels ||
        tiles_of(taps * icg_, kChip.mac_ic) >= taps * tiles_of(icg_, kChip.mac_ic))
      return false;
    const float *w = op_.weights->as<float>();
    return std::all_of(w, w + op_.weights->count(), [](float v) { return std::isfinite(v); });
  }

  void try_unfolded(int64_t budget, int64_t columns, Plan &best) const {
    for (int64_t oc : channel_tiles(ocg_, 64))
      for (int64_t local_weights = 0; local_weights < 2; ++local_weights) {
        Tile t{1, 1, columns, 1, oc, icg_, op_.window.kernel[0], local_weights, 1};
        for (int64_t n : tile_sizes(y_.dims[0])) {
          t.n = n;
          t.rows = y_.dims[1];
          consider(t, budget, best);
        }
        for (int64_t rows : tile_sizes(y_.dims[1])) {
          t.n = 1;
          t.rows = rows;
          consider(t, budget, best);
        }
      }
  }

  /// Cycles to bring a tile's input and to unfold it.
  double unfold_cycles(const Tile &t) const {
    double cycles = c_.local_transfer_cycles(2 * t.n * t.rows * t.columns * window_elements());
    if (needs_window())
      cycles += c_.transfer_cycles(x_, input_box(t)) + c_.local_transfer_cycles(graph::element_count(window_box(t)));
    return cycles;
  }

  void try_columns(int64_t budget, int64_t columns, int64_t kernel_rows, Plan &best) const {
    std::vector<int64_t> group_sizes = tile_sizes(op_.groups);
    for (int64_t groups : group_sizes) {
      // Inside a group channels are cut only when each group stands alone.
      const std::vector<int64_t> ocs = groups > 1 ? std::vector<int64_t>{ocg_} : channel_tiles(ocg_, 64);
      const std::vector<int64_t> ics = groups > 1 ? std::vector<int64_t>{icg_} : channel_tiles(icg_, 32);
      for (int64_t oc : ocs)
        for (int64_t ic : ics)
          for (int64_t local_weights = 0; local_weights < 2; ++local_weights) {
            Tile t{1, 1, columns, groups, oc, ic, kernel_rows, local_weights, 0};
            for (int64_t n : tile_sizes(y_.dims[0])) {
              t.n = n;
              t.rows = y_.dims[1];
              consider(t, budget, best);
            }
            for (int64_t rows : tile_sizes(y_.dims[1])) {
              t.n = 1;
              t.rows = rows;
              consider(t, budget, best);
            }
          }
    }
  }

  void consider(const Tile &t, int64_t budget, Plan &best) const {
    if (t.local_weights && spatial_tiles(t) == 1) return;
    Plan p;
    const Shape in = input_box(t), out = output_box(t);
    if (t.unfolded) {
      add_buffers(p, !needs_window(), graph::element_count(window_box(t)) * kElementBytes, loads(t));
      add_buffers(p, false, t.n * t.rows * t.columns * window_elements() * kElementBytes, loads(t));
    } else {
      add_buffers(p, c_.direct(x_, in), graph::element_count(in) * kElementBytes, loads(t));
    }
    add_buffers(p, c_.direct(y_, out), graph::element_count(out) * kElementBytes, stores(t));
    if (t.local_weights) p.buffers.push_back(packed_bytes(t));
    if (total_bytes(p.buffers) > budget) return;
    if (t.groups == 1 && t.oc > kLightChannels && c_.too_heavy(hw::cost_detail::cost(shape_command(t), {}))) return;
    p.feasible = true;
    p.tiles = stores(t) * sum_tiles(t);
    p.cost = estimate(t, in, out, p.tiles);
    p.tile = {t.n, t.rows, t.columns, t.groups, t.oc, t.ic, t.kernel_rows, t.local_weights, t.unfolded};
    if (!best.feasible || p.cost < best.cost) best = std::move(p);
  }

  /// Bytes of all weight blocks, each rounded up as Coefficients::append does.
  int64_t packed_bytes(const Tile &t) const {
    return group_tiles(t) * oc_tiles(t) * sum_tiles(t) *
           LmemAllocator::rounded(output_channels(t) * t.kernel_rows * op_.window.kernel[1] *
                                  (t.groups > 1 ? icg_ : t.ic) * kElementBytes);
  }

  double estimate(const Tile &t, const Shape &in, const Shape &out, int64_t commands) const {
    const hw::Cost cost = hw::cost_detail::cost(shape_command(t), {});
    const auto n = static_cast<double>(commands);
    double load = 0;
    if (t.unfolded)
      load = unfold_cycles(t) * static_cast<double>(loads(t)) / n;
    else if (!c_.direct(x_, in))
      load = c_.transfer_cycles(x_, in) * static_cast<double>(loads(t)) / n;
    if (summand_ && !c_.direct(*summand_, out))
      load += c_.transfer_cycles(*summand_, out) * static_cast<double>(stores(t)) / n;
    const double store = c_.direct(y_, out) ? 0 : c_.transfer_cycles(y_, out) * static_cast<double>(stores(t)) / n;
    const double flow = static_cast<double>(cost.flow_bytes) / kMemoryBandwidth;
    const double once = t.local_weights ? static_cast<double>(packed_bytes(t)) / kMemoryBandwidth + kDdrLatency : 0;
    // Streamed weights and transfers share the memory.
    const double bound = n * (flow + load + store);
    return std::max(pipelined(commands, load, std::max(static_cast<double>(cost.cycles), flow), store), bound) + once;
  }

  /// Each block [oc][kernel rows][kw][ic] in one run, in the order in which the loops of emit_channels come to it.
  void pack_weights(Run &run) const {
    const Tile &t = run.tile;
    const int64_t kh = op_.window.kernel[0], kw = op_.window.kernel[1];
    const graph::TensorPtr weights = op_.weights;
    run.weights_offset = run.emitter.coeff.next();
    for_channel_tiles(t, [&](int64_t oc, int64_t ocs, int64_t, int64_t ic, int64_t ics, int64_t ky, int64_t kys) {
      const auto write = [weights, kh, kw, icg = icg_, oc, ocs, ic, ics, ky, kys](float *out) {
        const float *w = weights->as<float>();
        for (int64_t o = oc; o < oc + ocs; ++o)
          for (int64_t y = ky; y < ky + kys; ++y)
            for (int64_t x = 0; x < kw; ++x)
              for (int64_t i = ic; i < ic + ics; ++i) *out++ = w[((o * icg + i) * kh + y) * kw + x];
      };
      run.blocks.push_back(run.emitter.coeff.append(ocs * kys * kw * ics, write));
    });
  }

  /// Calls f(first output channel, how many, first group, first input channel in the group, how many, first kernel row,
  /// how many).
  template <class F>
  void for_channel_tiles(const Tile &t, F f) const {
    for (int64_t g = 0; g < op_.groups; g += t.groups) {
      const int64_t gs = std::min(t.groups, op_.groups - g);
      for (int64_t oc = 0; oc < ocg_; oc += t.oc) {
        const int64_t ocs = t.groups > 1 ? gs * ocg_ : std::min(t.oc, ocg_ - oc);
        for (int64_t ic = 0; ic < icg_; ic += t.ic)
          for (int64_t ky = 0; ky < op_.window.kernel[0]; ky += t.kernel_rows)
            f(g * ocg_ + oc, ocs, g, ic, std::min(t.ic, icg_ - ic), ky,
              std::min(t.kernel_rows, op_.window.kernel[0] - ky));
      }
    }
  }

  void emit_channels(Run &run, int64_t n, int64_t row, int64_t column) const {
    const Tile &t = run.tile;
    size_t block = 0;
    const Shape box{std::min(t.n, y_.dims[0] - n), std::min(t.rows, y_.dims[1] - row),
                    std::min(t.columns, y_.dims[2] - column), 0};
    uint32_t to = 0, from = 0;
    const uint32_t patches = t.unfolded ? unfold(run, {n, row, column, 0}, box) : 0;
    for_channel_tiles(t, [&](int64_t oc, int64_t ocs, int64_t group, int64_t ic, int64_t ics, int64_t ky, int64_t kys) {
      const bool first = ic == 0 && ky == 0, last = ic + ics == icg_ && ky + kys == op_.window.kernel[0];
      const Shape start{n, row, column, oc};
      Shape out_box = box;
      out_box[3] = ocs;
      const bool direct = run.out.empty() || c_.direct(y_, out_box);
      if (first) {
        to = direct ? c_.address(y_, start) : run.out[run.stored++ % run.out.size()];
        from = to;
        if (summand_ && c_.direct(*summand_, out_box))
          from = c_.address(*summand_, start);
        else if (summand_)
          run.emitter.copy(out_box, c_.end(*summand_, start), buffer_end(to, out_box));
      }
      auto c = hw::make<npu_cmd_conv>();
      c.groups = static_cast<uint32_t>(std::min(t.groups, op_.groups - group));
      if (t.unfolded)
        fill_unfolded(c, patches, box);
      else
        fill_input(run, c, {n, row, column, group * icg_ + ic}, box, static_cast<int64_t>(c.groups) * ics, ky, kys);
      c.out_addr = to;
      fill_output(run, c, out_box, run.blocks[block++]);
      set_sums(c, op_, first ? from : to, first && !summand_, last, run.bias_offset + oc * kElementBytes);
      run.emitter.tiu(c);
      if (last && !direct) run.emitter.copy(out_box, buffer_end(to, out_box), c_.end(y_, start));
    });
  }

  /// Unfolds the windows of a tile as [n][rows][columns][kernel rows][kernel columns][channels]; returns where they
  /// are.
  uint32_t unfold(Run &run, const Shape &at, const Shape &box) const {
    const graph::Window &w = op_.window;
    const int64_t row = at[1] * w.stride[0] - w.begin[0], column = at[2] * w.stride[1] - w.begin[1];
    End from;
    Strides by;
    if (c_.place(x_).local && !sees_padding(at[1], box[1], 0) && !sees_padding(at[2], box[2], 1)) {
      from = c_.end(x_, {at[0], row, column, 0});
      by = x_.strides;
    } else {
      const Shape window = window_box({.n = box[0], .rows = box[1], .columns = box[2]});
      by = graph::dense_strides(window);
      from = {-1, run.window[run.loaded++ % run.window.size()], by};
      const int64_t top = std::max<int64_t>(row, 0), bottom = std::min(row + window[1], x_.dims[1]);
      const int64_t left = std::max<int64_t>(column, 0), right = std::min(column + window[2], x_.dims[2]);
      const Shape seen{box[0], bottom - top, right - left, icg_};
      if (seen != window) run.emitter.fill(window, 0, from);
      if (seen[1] > 0 && seen[2] > 0) {
        End to = from;
        to.base += ((top - row) * by[1] + (left - column) * by[2]) * kElementBytes;
        run.emitter.copy(seen, c_.end(x_, {at[0], top, left, 0}), to);
      }
    }
    from.strides = {by[0], by[1] * w.stride[0], by[2] * w.stride[1], by[1] * w.dilation[0], by[2] * w.dilation[1],
                    by[3]};
    const Shape dims{box[0], box[1], box[2], w.kernel[0], w.kernel[1], icg_};
    const uint32_t patches = run.patches[run.unfolded++ % run.patches.size()];
    run.emitter.copy(dims, from, buffer_end(patches, dims));
    return patches;
  }

  void fill_unfolded(npu_cmd_conv &c, uint32_t patches, const Shape &box) const {
    c.in_addr = patches;
    c.n = static_cast<uint32_t>(box[0]);
    c.ih = static_cast<uint32_t>(box[1]);
    c.iw = static_cast<uint32_t>(box[2]);
    c.ic = static_cast<uint32_t>(window_elements());
    c.kh = c.kw = c.sh = c.sw = c.dh = c.dw = 1;
  }

  /// Brings the input of a tile into local memory and describes it.
  void fill_input(Run &run, npu_cmd_conv &c, const Shape &at, const Shape &box, int64_t channels, int64_t ky,
                  int64_t kys) const {
    const graph::Window &w = op_.window;
    Reach rows = reach(at[1], box[1], w.stride[0], w.begin[0] - ky * w.dilation[0], w.dilation[0], kys, x_.dims[1]);
    Reach columns = reach(at[2], box[2], w.stride[1], w.begin[1], w.dilation[1], w.kernel[1], x_.dims[2]);
    // A resident input is read where it lies: what is not seen at the borders comes along where it keeps the box dense.
    const auto dense = [&] { return c_.direct(x_, {box[0], rows.count, columns.count, channels}); };
    if (run.in_direct && !dense()) columns = {0, x_.dims[2], columns.pad - columns.first};
    if (run.in_direct && !dense()) rows = {0, x_.dims[1], rows.pad - rows.first};
    const Shape start{at[0], rows.first, columns.first, at[3]}, in{box[0], rows.count, columns.count, channels};
    if (dense()) {
      c.in_addr = c_.address(x_, start);
    } else {
      bool fresh;
      Shape key = start;
      key.insert(key.end(), in.begin(), in.end());
      c.in_addr = run.in.get(key, fresh);
      if (fresh) run.emitter.copy(in, c_.end(x_, start), buffer_end(c.in_addr, in));
    }
    c.n = static_cast<uint32_t>(box[0]);
    c.ih = static_cast<uint32_t>(rows.count);
    c.iw = static_cast<uint32_t>(columns.count);
    c.ic = static_cast<uint32_t>(channels);
    c.kh = static_cast<uint16_t>(kys);
    c.kw = static_cast<uint16_t>(w.kernel[1]);
    c.sh = static_cast<uint16_t>(w.stride[0]);
    c.sw = static_cast<uint16_t>(w.stride[1]);
    c.dh = static_cast<uint16_t>(w.dilation[0]);
    c.dw = static_cast<uint16_t>(w.dilation[1]);
    c.pad_t = static_cast<int32_t>(rows.pad);
    c.pad_l = static_cast<int32_t>(columns.pad);
  }

  void fill_output(const Run &run, npu_cmd_conv &c, const Shape &box, int64_t block) const {
    c.in_dtype = c.wgt_dtype = c.out_dtype = kF32;
    c.oh = static_cast<uint32_t>(box[1]);
    c.ow = static_cast<uint32_t>(box[2]);
    c.oc = static_cast<uint32_t>(box[3]);
    c.wgt_region = run.tile.local_weights ? NPU_REGION_LOCAL : kRegionCoeff;
    c.wgt_offset = static_cast<uint64_t>(run.tile.local_weights ? run.weights_at + block - run.weights_offset : block);
  }

  const KernelContext c_;
  const LoweredOp &op_;
  const View &x_, &y_;
  const View *summand_;
  int64_t icg_, ocg_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelContext &context) { return std::make_unique<Conv>(context); }

}  // namespace npu::compiler
