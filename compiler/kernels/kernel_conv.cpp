// SPDX-License-Identifier: MIT
// Convolution. Cut by pictures, rows, columns, groups and output channels; and, with partial sums, by input channels
// and kernel rows. Few output channels leave columns of the arithmetic idle: where a window is one pixel, neighbours
// are computed as groups, each with a copy of the weights.
#include <algorithm>
#include <optional>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

constexpr int64_t kMostPackedChannels = 128;  ///< output channels of all pixels that are computed as groups
constexpr int64_t kLightChannels = 32;        ///< output channels that are not cut for the sake of their weights

/// Sizes of one tile, in Plan::tile.
struct Tile {
  int64_t n, rows, columns, groups, oc, ic, kernel_rows, local_weights;
  int64_t pack = 1;  ///< pixels that are computed as groups
};

Tile tile_of(const Plan &p) {
  return {p.tile[0], p.tile[1], p.tile[2], p.tile[3], p.tile[4], p.tile[5], p.tile[6], p.tile[7], p.tile[8]};
}

class Conv final : public Kernel {
 public:
  Conv(const ConvOp &op, const View &out, const KernelContext &c)
      : c_(c),
        op_(op),
        x_(op.input),
        y_(out),
        addend_(op.addend ? &*op.addend : nullptr),
        made_(std::get_if<View>(&op.weights)) {
    weight_bytes_ = graph::dtype_bytes(type_of(op_.weights, c_.storages));
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
    return best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    Run run{.tile = tile_of(plan), .emitter = out};
    const Tile &t = run.tile;
    const bool out_direct = c_.direct(y_, output_box(t));
    run.in_direct = c_.direct(x_, input_box(t));
    size_t at = 0;
    if (!run.in_direct) {
      at = loads(t) > 1 ? 2 : 1;
      run.in = TileInput(buffers.subspan(0, at));
    }
    const size_t outs = out_direct ? 0 : stores(t) > 1 ? 2 : 1;
    run.out = buffers.subspan(at, outs);
    at += outs;
    if (made_)
      fetch_weights(run, buffers.subspan(at));
    else
      pack_weights(run);
    if (t.local_weights && !made_) {
      run.weights_at = buffers[at];
      const graph::Dtype type = type_of(op_.weights, c_.storages);
      out.copy({run.weights_count}, {kCoefficients, type, run.blocks.front(), {1}}, {-1, type, run.weights_at, {1}});
    }
    pack_vectors(run);
    if (needs_sums(t)) run.sums_at = buffers.back();
    for (int64_t n = 0; n < y_.dims[0]; n += t.n)
      for (int64_t row = 0; row < y_.dims[1]; row += t.rows)
        for (int64_t column = 0; column < y_.dims[2]; column += t.columns) emit_channels(run, n, row, column);
  }

 private:
  struct Run {
    Tile tile;
    Emitter &emitter;
    TileInput in{std::span<const uint32_t>()};
    std::span<const uint32_t> out;
    std::vector<int64_t> blocks;   ///< offsets of the weight blocks, in the order of the channel loops
    std::vector<int64_t> vectors;  ///< bias and multiplier of the tiles of output channels
    int64_t weights_count = 0;     ///< numbers from the first block to the end of the last
    uint32_t weights_at = 0;
    int64_t bias_at = 0;              ///< of all channels, where no tile has vectors of its own
    std::optional<uint32_t> sums_at;  ///< of sums that are larger than what they become
    size_t stored = 0;
    bool in_direct = false;
  };

  /// Cycles of the arithmetic alone, in one command.
  double ideal() const {
    const Tile whole{y_.dims[0], y_.dims[1], y_.dims[2], op_.groups, ocg_, icg_, op_.window.kernel[0], 0};
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
  /// Whether sums of several commands need a place of their own.
  bool needs_sums(const Tile &t) const { return sum_tiles(t) > 1 && c_.storage(y_).element_bytes() != kSumBytes; }

  void set_types(npu_cmd_conv &c) const {
    c.in_dtype = c_.dtype(x_);
    c.wgt_dtype = c_.dtype(op_.weights);
    c.out_dtype = c_.dtype(y_);
  }

  npu_cmd_conv shape_command(const Tile &t) const {
    auto c = hw::make<npu_cmd_conv>();
    const Shape in = input_box(t);
    set_types(c);
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
    if (addend_) c.flags |= NPU_CONV_PSUM_IN;
    pack_pixels(c, t.pack);
    return c;
  }

  /// Whether a pixel of the result needs that pixel of the input and no other.
  bool pointwise() const {
    const graph::Window &w = op_.window;
    for (size_t d = 0; d < 2; ++d)
      if (w.kernel[d] != 1 || w.stride[d] != 1 || w.begin[d] != 0 || x_.dims[d + 1] != y_.dims[d + 1]) return false;
    return op_.groups == 1;
  }

  /// The number of pixels, at most `most`, that as groups of one need the fewest columns a pixel.
  static int64_t best_pack(int64_t pixels, int64_t oc, int64_t most) {
    int64_t best = 1;
    for (int64_t q = 2; q <= most && q * oc <= kMostPackedChannels; ++q)
      if (pixels % q == 0 && tiles_of(q * oc, kChip.mac_oc) * best < tiles_of(best * oc, kChip.mac_oc) * q) best = q;
    return best;
  }

  /// Computes runs of at most `most` pixels as groups. Input and output are dense, so that only the shape changes.
  static void pack_pixels(npu_cmd_conv &c, int64_t most) {
    if (most == 1 || c.ih != c.oh || c.iw != c.ow) return;
    const int64_t pixels = int64_t{c.n} * c.oh * c.ow;
    c.groups = static_cast<uint32_t>(best_pack(pixels, c.oc, most));
    c.n = c.ih = c.oh = 1;
    c.iw = c.ow = static_cast<uint32_t>(pixels / c.groups);
    c.ic *= c.groups;
    c.oc *= c.groups;
  }

  void consider_packed(Tile t, int64_t budget, Plan &best) const {
    consider(t, budget, best);
    if (!pointwise() || op_.quant.on) return;
    t.pack = best_pack(t.n * t.rows * t.columns, t.oc, kMostPackedChannels);
    if (t.pack > 1) consider(t, budget, best);
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
            Tile t{1, 1, columns, groups, oc, ic, kernel_rows, local_weights};
            for (int64_t n : tile_sizes(y_.dims[0])) {
              t.n = n;
              t.rows = y_.dims[1];
              consider_packed(t, budget, best);
            }
            for (int64_t rows : tile_sizes(y_.dims[1])) {
              t.n = 1;
              t.rows = rows;
              consider_packed(t, budget, best);
            }
          }
    }
  }

  void consider(const Tile &t, int64_t budget, Plan &best) const {
    if (made_ ? !takes_made(t) : t.local_weights && spatial_tiles(t) == 1) return;
    Plan p;
    const Shape in = input_box(t), out = output_box(t);
    add_buffers(p, c_.direct(x_, in), c_.bytes(x_, in), loads(t));
    add_buffers(p, c_.direct(y_, out), c_.bytes(y_, out), stores(t));
    if (t.local_weights && !(made_ && c_.direct(*made_, made_->dims))) p.buffers.push_back(packed_bytes(t));
    if (needs_sums(t)) p.buffers.push_back(LmemAllocator::rounded(graph::element_count(out) * kSumBytes));
    if (total_bytes(p.buffers) > budget) return;
    if (t.groups == 1 && t.oc > kLightChannels && c_.too_heavy(hw::cost_detail::cost(shape_command(t), {}))) return;
    p.feasible = true;
    p.tiles = stores(t) * sum_tiles(t);
    p.cost = estimate(t, in, out, p.tiles);
    p.tile = {t.n, t.rows, t.columns, t.groups, t.oc, t.ic, t.kernel_rows, t.local_weights, t.pack};
    if (!best.feasible || p.cost < best.cost) best = std::move(p);
  }

  /// Weights that the network makes lie in local memory as a whole, where the blocks of output channels are runs.
  bool takes_made(const Tile &t) const {
    return t.local_weights && t.pack == 1 && t.ic == icg_ && t.kernel_rows == op_.window.kernel[0];
  }

  /// Brings such weights, unless they are there.
  void fetch_weights(Run &run, std::span<const uint32_t> buffers) const {
    const Shape &all = made_->dims;
    if (c_.direct(*made_, all)) {
      run.weights_at = c_.address(*made_, Shape(all.size()));
    } else {
      run.weights_at = buffers[0];
      run.emitter.copy(all, c_.end(*made_, Shape(all.size())), c_.buffer_end(*made_, run.weights_at, all));
    }
    for_channel_tiles(run.tile, [&](int64_t oc, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) {
      run.blocks.push_back(c_.bytes(*made_, {oc, all[1], all[2], all[3]}));
    });
  }

  /// Bytes of all weight blocks, each rounded up as Coefficients::append does.
  int64_t packed_bytes(const Tile &t) const {
    if (made_) return LmemAllocator::rounded(c_.bytes(*made_, made_->dims));
    return group_tiles(t) * oc_tiles(t) * sum_tiles(t) *
           LmemAllocator::rounded(t.pack * output_channels(t) * t.kernel_rows * op_.window.kernel[1] *
                                  (t.groups > 1 ? icg_ : t.ic) * weight_bytes_);
  }

  double estimate(const Tile &t, const Shape &in, const Shape &out, int64_t commands) const {
    const hw::Cost cost = hw::cost_detail::cost(shape_command(t), {});
    const auto n = static_cast<double>(commands);
    double load = 0;
    if (!c_.direct(x_, in)) load = c_.transfer_cycles(x_, in) * static_cast<double>(loads(t)) / n;
    if (addend_ && !c_.direct(*addend_, out))
      load += c_.transfer_cycles(*addend_, out) * static_cast<double>(stores(t)) / n;
    const double store = c_.direct(y_, out) ? 0 : c_.transfer_cycles(y_, out) * static_cast<double>(stores(t)) / n;
    const double flow = static_cast<double>(cost.flow_bytes) / kMemoryBandwidth;
    const double once = t.local_weights ? static_cast<double>(packed_bytes(t)) / kMemoryBandwidth + kDdrLatency : 0;
    // Streamed weights and transfers share the memory.
    const double bound = n * (flow + load + store);
    return std::max(pipelined(commands, load, std::max(static_cast<double>(cost.cycles), flow), store), bound) + once;
  }

  /// Each block [oc][kernel rows][kw][ic] in one run, in the order in which the loops of emit_channels come to it, once
  /// for each of the pixels that are computed as groups.
  void pack_weights(Run &run) const {
    const Tile &t = run.tile;
    const int64_t kh = op_.window.kernel[0], kw = op_.window.kernel[1];
    const graph::TensorPtr weights = constant_of(op_.weights);
    std::vector<Coefficients::Block> blocks;
    for_channel_tiles(t, [&](int64_t oc, int64_t ocs, int64_t, int64_t ic, int64_t ics, int64_t ky, int64_t kys) {
      const auto write = [weights, kh, kw, icg = icg_, oc, ocs, ic, ics, ky, kys](uint8_t *out) {
        with_word(weights->dtype, [&](auto word) {
          const auto *from = weights->as<decltype(word)>();
          auto *to = reinterpret_cast<decltype(word) *>(out);
          for (int64_t o = oc; o < oc + ocs; ++o)
            for (int64_t y = ky; y < ky + kys; ++y)
              for (int64_t x = 0; x < kw; ++x)
                for (int64_t i = ic; i < ic + ics; ++i) *to++ = from[((o * icg + i) * kh + y) * kw + x];
        });
      };
      blocks.push_back({ocs * kys * kw * ics * weight_bytes_, write, t.pack});
    });
    const int64_t last = blocks.back().all_bytes();
    run.blocks = run.emitter.coeff.append({weights.get(), {op_.groups, t.groups, t.oc, t.ic, t.kernel_rows, t.pack}},
                                          std::move(blocks));
    run.weights_count = (run.blocks.back() + last - run.blocks.front()) / weight_bytes_;
  }

  /// Bias and multiplier of each tile of output channels; the bias of pixels that are computed as groups as often as
  /// their weights.
  void pack_vectors(Run &run) const {
    const Tile &t = run.tile;
    Coefficients &coeff = run.emitter.coeff;
    if (t.pack == 1 && !op_.multiplier) {
      run.bias_at = op_.bias ? append_tensor(coeff, op_.bias) : 0;
      return;
    }
    if (t.pack == 1) {
      for_output_tiles(t, [&](int64_t oc, int64_t ocs) {
        run.vectors.push_back(append_vectors(coeff, op_.bias, op_.multiplier, oc, ocs));
      });
      return;
    }
    for (int64_t oc = 0; op_.bias && oc < ocg_; oc += t.oc) {
      const int64_t count = std::min(t.oc, ocg_ - oc), start = oc * bias_bytes(), bytes = count * bias_bytes();
      const auto write = [bias = op_.bias, start, bytes](uint8_t *out) {
        std::copy_n(bias->data.begin() + start, bytes, out);
      };
      const Coefficients::Key key{op_.bias.get(), {oc, count, t.pack}};
      run.vectors.push_back(coeff.append(key, {{bytes, write, t.pack}})[0]);
    }
  }

  int64_t bias_bytes() const { return graph::dtype_bytes(op_.bias->dtype); }

  /// Where bias and multiplier of output channels from `oc` on lie, which are those of tile `number`.
  int64_t vectors_of(const Run &run, int64_t oc, size_t number) const {
    if (!run.vectors.empty()) return run.vectors[number];
    return op_.bias ? run.bias_at + oc * bias_bytes() : 0;
  }

  /// Calls f(first output channel, how many) for the tiles of output channels, in the order of for_channel_tiles().
  template <class F>
  void for_output_tiles(const Tile &t, F f) const {
    for (int64_t g = 0; g < op_.groups; g += t.groups)
      for (int64_t oc = 0; oc < ocg_; oc += t.oc)
        f(g * ocg_ + oc, t.groups > 1 ? std::min(t.groups, op_.groups - g) * ocg_ : std::min(t.oc, ocg_ - oc));
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
    size_t block = 0, output = 0;
    const Shape box{std::min(t.n, y_.dims[0] - n), std::min(t.rows, y_.dims[1] - row),
                    std::min(t.columns, y_.dims[2] - column), 0};
    uint32_t to = 0, from = 0;
    for_channel_tiles(t, [&](int64_t oc, int64_t ocs, int64_t group, int64_t ic, int64_t ics, int64_t ky, int64_t kys) {
      const bool first = ic == 0 && ky == 0, last = ic + ics == icg_ && ky + kys == op_.window.kernel[0];
      const Shape start{n, row, column, oc};
      Shape out_box = box;
      out_box[3] = ocs;
      const bool direct = run.out.empty() || c_.direct(y_, out_box);
      if (first) {
        to = direct ? c_.address(y_, start) : run.out[run.stored++ % run.out.size()];
        from = to;
        if (addend_ && c_.direct(*addend_, out_box))
          from = c_.address(*addend_, start);
        else if (addend_)
          run.emitter.copy(out_box, c_.end(*addend_, start), c_.buffer_end(y_, to, out_box));
      }
      auto c = hw::make<npu_cmd_conv>();
      c.groups = static_cast<uint32_t>(std::min(t.groups, op_.groups - group));
      fill_input(run, c, {n, row, column, group * icg_ + ic}, box, static_cast<int64_t>(c.groups) * ics, ky, kys);
      const uint32_t sums = run.sums_at.value_or(to);
      c.out_addr = last ? to : sums;
      fill_output(run, c, out_box, run.blocks[block++]);
      set_sums(c, op_, first ? from : sums, first && !addend_, last, vectors_of(run, oc, output));
      if (last) ++output;
      pack_pixels(c, t.pack);
      run.emitter.tiu(c);
      if (last && !direct) run.emitter.copy(out_box, c_.buffer_end(y_, to, out_box), c_.end(y_, start));
    });
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
      if (fresh) run.emitter.copy(in, c_.end(x_, start), c_.buffer_end(x_, c.in_addr, in));
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
    set_types(c);
    c.oh = static_cast<uint32_t>(box[1]);
    c.ow = static_cast<uint32_t>(box[2]);
    c.oc = static_cast<uint32_t>(box[3]);
    c.wgt_region = run.tile.local_weights ? NPU_REGION_LOCAL : kRegionCoeff;
    c.wgt_offset = static_cast<uint64_t>(run.tile.local_weights ? run.weights_at + block - run.blocks.front() : block);
  }

  const KernelContext c_;
  const ConvOp &op_;
  const View &x_, &y_;
  const View *const addend_;  ///< null: none
  const View *const made_;    ///< weights that are no constant; null: they are one
  int64_t weight_bytes_;      ///< of one number
  int64_t icg_, ocg_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const ConvOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Conv>(op, out, context);
}

}  // namespace npu::compiler
