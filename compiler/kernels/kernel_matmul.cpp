// SPDX-License-Identifier: MIT
// Matrix product. Cut by batch, rows, columns and, with partial sums, by the inner dimension.
#include <algorithm>
#include <optional>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

constexpr int64_t kLightColumns = 32;  ///< columns that are not cut for the sake of their weights

struct MatmulTile {
  int64_t batch, m, k, n;
};

class MatMul final : public Kernel {
 public:
  MatMul(const MatMulOp &op, const View &out, const KernelContext &c)
      : c_(c), op_(op), a_(op.a), y_(out), b_(std::get_if<View>(&op.b)) {
    batch_ = y_.dims[0];
    m_ = y_.dims[1];
    n_ = y_.dims[2];
    k_ = a_.dims[2];
    shared_a_ = batch_ == 1 || a_.strides[0] == 0;
    shared_b_ = !b_ || batch_ == 1 || b_->strides[0] == 0;
  }

  Plan plan(int64_t budget) const override {
    Plan best;
    for (int64_t batch : tile_sizes(batch_))
      for (int64_t n : channel_tiles(n_, 64))
        for (int64_t k : channel_tiles(k_, 32))
          for (int64_t m : tile_sizes(m_)) {
            if (batch > 1 && m < m_) continue;
            consider({batch, m, k, n}, budget, best);
          }
    return best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    const MatmulTile t{plan.tile[0], plan.tile[1], plan.tile[2], plan.tile[3]};
    size_t at = 0;
    const auto part = [&](bool direct, int64_t tiles) {
      const size_t count = direct ? 0 : tiles > 1 ? 2 : 1;
      at += count;
      return buffers.subspan(at - count, count);
    };
    Run run{out, TileInput(part(a_direct(t), loads_a(t))), TileInput(std::span<const uint32_t>()), {}, {}};
    if (b_) run.b = TileInput(part(b_direct(t), loads_b(t)));
    run.out = part(c_.direct(y_, {t.batch, t.m, t.n}), stores(t));
    if (!b_) pack_weights(t, run);
    pack_vectors(t, run);
    if (needs_sums(t)) run.sums_at = buffers.back();
    for (int64_t batch = 0; batch < batch_; batch += t.batch)
      for (int64_t m = 0; m < m_; m += t.m) {
        size_t block = 0;
        for (int64_t n = 0; n < n_; n += t.n)
          emit_sum(run, t, {batch, m, n},
                   {std::min(t.batch, batch_ - batch), std::min(t.m, m_ - m), std::min(t.n, n_ - n)}, block);
      }
  }

 private:
  struct Run {
    Emitter &emitter;
    TileInput a, b;
    std::span<const uint32_t> out;
    std::vector<int64_t> blocks;
    std::vector<int64_t> vectors = {};  ///< bias and multiplier of each tile of columns; else
    int64_t bias_offset = 0;            ///< the bias of all
    size_t stored = 0;
    std::optional<uint32_t> sums_at = {};  ///< of sums that are larger than what they become
  };

  Shape a_box(const MatmulTile &t) const { return {shared_a_ ? 1 : t.batch, t.m, t.k}; }
  Shape b_box(const MatmulTile &t) const { return {shared_b_ ? 1 : t.batch, t.k, t.n}; }
  bool a_direct(const MatmulTile &t) const { return c_.direct(a_, a_box(t)); }
  bool b_direct(const MatmulTile &t) const { return b_ && (c_.direct(*b_, b_box(t)) || b_transposed(t)); }
  /// B resident as [n][k], which the command can read.
  bool b_transposed(const MatmulTile &t) const {
    return c_.place(*b_).local &&
           is_dense({shared_b_ ? 1 : t.batch, t.n, t.k}, {b_->strides[0], b_->strides[2], b_->strides[1]});
  }
  int64_t tiles(const MatmulTile &t) const { return tiles_of(batch_, t.batch) * tiles_of(m_, t.m); }
  int64_t loads_a(const MatmulTile &t) const {
    return tiles(t) * tiles_of(k_, t.k) * (t.k < k_ ? tiles_of(n_, t.n) : 1);
  }
  int64_t loads_b(const MatmulTile &t) const {
    const bool whole = t.k == k_ && t.n == n_;
    return whole ? (shared_b_ ? 1 : tiles_of(batch_, t.batch)) : tiles(t) * tiles_of(k_, t.k) * tiles_of(n_, t.n);
  }
  int64_t stores(const MatmulTile &t) const { return tiles(t) * tiles_of(n_, t.n); }
  /// Whether sums of several commands need a place of their own.
  bool needs_sums(const MatmulTile &t) const { return t.k < k_ && c_.storage(y_).element_bytes() != kSumBytes; }

  void consider(const MatmulTile &t, int64_t budget, Plan &best) const {
    Plan p;
    const Shape out{t.batch, t.m, t.n};
    add_buffers(p, a_direct(t), c_.bytes(a_, a_box(t)), loads_a(t));
    if (b_) add_buffers(p, b_direct(t), c_.bytes(*b_, b_box(t)), loads_b(t));
    add_buffers(p, c_.direct(y_, out), c_.bytes(y_, out), stores(t));
    if (needs_sums(t)) p.buffers.push_back(LmemAllocator::rounded(graph::element_count(out) * kSumBytes));
    if (total_bytes(p.buffers) > budget) return;
    p.feasible = true;
    p.tiles = stores(t) * tiles_of(k_, t.k);
    auto c = hw::make<npu_cmd_matmul>();
    set_shape(c, {t.batch, t.m, t.n}, t.k);
    if (b_) c.wgt_region = NPU_REGION_LOCAL;
    const hw::Cost cost = hw::cost_detail::cost(c, {});
    if (t.n > kLightColumns && c_.too_heavy(cost)) return;
    const auto steps = static_cast<double>(p.tiles);
    double load = a_direct(t) ? 0 : c_.transfer_cycles(a_, a_box(t)) * static_cast<double>(loads_a(t)) / steps;
    if (b_ && !b_direct(t)) load += c_.transfer_cycles(*b_, b_box(t)) * static_cast<double>(loads_b(t)) / steps;
    const double store = c_.direct(y_, out) ? 0 : c_.transfer_cycles(y_, out) * static_cast<double>(stores(t)) / steps;
    const double flow = static_cast<double>(cost.flow_bytes) / kMemoryBandwidth;
    p.cost = std::max(pipelined(p.tiles, load, std::max(static_cast<double>(cost.cycles), flow), store),
                      steps * (flow + load + store));
    p.tile = {t.batch, t.m, t.k, t.n};
    if (!best.feasible || p.cost < best.cost) best = std::move(p);
  }

  void set_shape(npu_cmd_matmul &c, const Shape &out, int64_t k) const {
    c.in_dtype = c_.dtype(a_);
    c.wgt_dtype = c_.dtype(op_.b);
    c.out_dtype = c_.dtype(y_);
    c.batch = static_cast<uint32_t>(out[0]);
    c.m = static_cast<uint32_t>(out[1]);
    c.n = static_cast<uint32_t>(out[2]);
    c.k = static_cast<uint32_t>(k);
    c.a_batch_stride = shared_a_ ? 0 : static_cast<uint32_t>(out[1] * k);
    c.b_batch_stride = shared_b_ ? 0 : static_cast<uint32_t>(out[2] * k);
  }

  /// Blocks [k][n], in the order of the loops.
  void pack_weights(const MatmulTile &t, Run &run) const {
    const graph::TensorPtr weights = constant_of(op_.b);
    const int64_t size = graph::dtype_bytes(weights->dtype);
    std::vector<Coefficients::Block> blocks;
    for (int64_t n = 0; n < n_; n += t.n)
      for (int64_t k = 0; k < k_; k += t.k) {
        const int64_t rows = std::min(t.k, k_ - k), columns = std::min(t.n, n_ - n);
        const auto write = [weights, size, n, k, rows, columns, width = n_](uint8_t *out) {
          const uint8_t *w = weights->data.data();
          for (int64_t y = k; y < k + rows; ++y, out += columns * size)
            std::copy_n(w + (y * width + n) * size, columns * size, out);
        };
        blocks.push_back({rows * columns * size, write});
      }
    run.blocks = run.emitter.coeff.append({weights.get(), {t.k, t.n}}, std::move(blocks));
  }

  void pack_vectors(const MatmulTile &t, Run &run) const {
    if (!op_.multiplier) {
      run.bias_offset = op_.bias ? append_tensor(run.emitter.coeff, op_.bias) : 0;
      return;
    }
    for (int64_t n = 0; n < n_; n += t.n)
      run.vectors.push_back(append_vectors(run.emitter.coeff, op_.bias, op_.multiplier, n, std::min(t.n, n_ - n)));
  }

  int64_t vectors_of(const Run &run, const MatmulTile &t, int64_t n) const {
    if (!run.vectors.empty()) return run.vectors[static_cast<size_t>(n / t.n)];
    return op_.bias ? run.bias_offset + n * graph::dtype_bytes(op_.bias->dtype) : 0;
  }

  uint32_t operand(Run &run, TileInput &buffers, const View &v, const Shape &start, const Shape &box) const {
    bool fresh;
    Shape key = start;
    key.insert(key.end(), box.begin(), box.end());
    const uint32_t addr = buffers.get(key, fresh);
    if (fresh) run.emitter.copy(box, c_.end(v, start), c_.buffer_end(v, addr, box));
    return addr;
  }

  void emit_sum(Run &run, const MatmulTile &t, const Shape &at, const Shape &out, size_t &block) const {
    const bool direct = run.out.empty() || c_.direct(y_, out);
    const uint32_t to = direct ? c_.address(y_, at) : run.out[run.stored++ % run.out.size()];
    for (int64_t k = 0; k < k_; k += t.k) {
      const int64_t ks = std::min(t.k, k_ - k);
      auto c = hw::make<npu_cmd_matmul>();
      set_shape(c, out, ks);
      const uint32_t sums = run.sums_at.value_or(to);
      const bool last = k + ks == k_;
      c.out_addr = last ? to : sums;
      const MatmulTile now{out[0], out[1], ks, out[2]};
      const Shape a_start{shared_a_ ? 0 : at[0], at[1], k};
      c.in_addr = a_direct(now) ? c_.address(a_, a_start) : operand(run, run.a, a_, a_start, a_box(now));
      if (b_)
        set_b(run, c, now, {shared_b_ ? 0 : at[0], k, at[2]});
      else {
        c.wgt_region = kRegionCoeff;
        c.wgt_offset = static_cast<uint64_t>(run.blocks[block++]);
      }
      set_sums(c, op_, sums, k == 0, last, vectors_of(run, t, at[2]));
      run.emitter.tiu(c);
    }
    if (!direct) run.emitter.copy(out, c_.buffer_end(y_, to, out), c_.end(y_, at));
  }

  void set_b(Run &run, npu_cmd_matmul &c, const MatmulTile &now, const Shape &start) const {
    c.wgt_region = NPU_REGION_LOCAL;
    if (c_.direct(*b_, b_box(now))) {
      c.wgt_offset = c_.address(*b_, start);
    } else if (b_transposed(now)) {
      c.wgt_offset = c_.address(*b_, start);
      c.flags |= NPU_CONV_TRANS_B;
    } else {
      c.wgt_offset = operand(run, run.b, *b_, start, b_box(now));
    }
  }

  const KernelContext c_;
  const MatMulOp &op_;
  const View &a_, &y_;
  const View *const b_;  ///< null: it is a constant
  int64_t batch_, m_, n_, k_;
  bool shared_a_, shared_b_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const MatMulOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<MatMul>(op, out, context);
}

}  // namespace npu::compiler
