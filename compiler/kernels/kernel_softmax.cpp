// SPDX-License-Identifier: MIT
// Softmax over the last dimension. Rows that fit are worked on in place; longer ones in blocks.
#include <algorithm>

#include "compiler/kernels/box_tiles.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

class Softmax final : public Kernel {
 public:
  Softmax(const SoftmaxOp &op, const View &out, const KernelContext &c) : c_(c), op_(op), x_(op.input), y_(out) {
    columns_ = y_.dims.back();
    rows_ = Shape(y_.dims.begin(), y_.dims.end() - 1);
    if (rows_.empty()) rows_ = {1};
    if (y_.dims.size() == 1) {
      x_ = with_row(x_);
      y_ = with_row(y_);
    }
  }

  Plan plan(int64_t budget) const override {
    Plan best;
    for_cuts(rows_, [&](size_t split, int64_t chunk) {
      Plan p;
      const Shape box = box_at(split, chunk);
      p.tiles = box_count(rows_, split, chunk);
      add_buffers(p, c_.direct(y_, box), c_.bytes(y_, box), p.tiles);
      if (own_input() && !c_.direct(x_, box)) p.buffers.push_back(LmemAllocator::rounded(c_.bytes(x_, box)));
      if (total_bytes(p.buffers) > budget) return;
      p.feasible = true;
      const double work = 32 + 8.0 * static_cast<double>(graph::element_count(box)) / 128;
      p.cost = pipelined(p.tiles, c_.direct(x_, box) ? 0 : c_.transfer_cycles(x_, box), work,
                         c_.direct(y_, box) ? 0 : c_.transfer_cycles(y_, box));
      p.tile = {static_cast<int64_t>(split), chunk, columns_};
      if (!best.feasible || p.cost < best.cost) best = std::move(p);
    });
    return best.feasible || c_.dtype(x_) != NPU_DTYPE_F32 || c_.dtype(y_) != NPU_DTYPE_F32 ? best : plan_blocks(budget);
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    if (plan.tile[2] < columns_) return emit_blocks(plan.tile[2], buffers, out);
    size_t stored = 0;
    const Shape whole = box_at(static_cast<size_t>(plan.tile[0]), plan.tile[1]);
    std::span<const uint32_t> results = buffers;
    std::optional<uint32_t> input;
    if (own_input() && !c_.direct(x_, whole)) {
      input = buffers.back();
      results = buffers.first(buffers.size() - 1);
    }
    for_boxes(rows_, static_cast<size_t>(plan.tile[0]), plan.tile[1], [&](Shape start, Shape box) {
      start.push_back(0);
      box.push_back(columns_);
      const bool direct = results.empty() || c_.direct(y_, box);
      const uint32_t to = direct ? c_.address(y_, start) : results[stored++ % results.size()];
      uint32_t from = input ? *input : to;
      if (c_.direct(x_, box))
        from = c_.address(x_, start);
      else
        out.copy(box, c_.end(x_, start), c_.buffer_end(x_, from, box));
      softmax(out, from, to, graph::element_count(box) / columns_, columns_);
      if (!direct) out.copy(box, c_.buffer_end(y_, to, box), c_.end(y_, start));
    });
  }

 private:
  /// Rows whose elements are not as large as those of the result cannot be brought to its place.
  bool own_input() const { return c_.storage(x_).element_bytes() != c_.storage(y_).element_bytes(); }

  static View with_row(const View &v) { return {v.storage, v.offset, {1, v.dims[0]}, {0, v.strides[0]}}; }

  Shape box_at(size_t split, int64_t chunk) const {
    Shape box = box_of(rows_, split, chunk);
    box.push_back(columns_);
    return box;
  }

  void softmax(Emitter &out, uint32_t from, uint32_t to, int64_t rows, int64_t columns) const {
    auto c = hw::make<npu_cmd_softmax>();
    c.subop = op_.log ? NPU_SOFTMAX_LOG : NPU_SOFTMAX_NORMAL;
    c.in_dtype = c_.dtype(x_);
    c.out_dtype = c_.dtype(y_);
    set_number(c.in_dtype, op_.in_quant, c.in_scale, c.in_zp);
    set_number(c.out_dtype, op_.out_quant, c.out_scale, c.out_zp);
    c.in_addr = from;
    c.out_addr = to;
    c.rows = static_cast<uint32_t>(rows);
    c.cols = static_cast<uint32_t>(columns);
    out.tiu(c);
  }

  /// The longest block: a pooling reaches over that much.
  static constexpr int64_t kMaxBlock = 65535;

  /// Buffers of a row in blocks: two blocks, and two numbers for each block and three for the row.
  Plan plan_blocks(int64_t budget) const {
    Plan p;
    for (int64_t block : tile_sizes(columns_)) {
      const int64_t blocks = tiles_of(columns_, block);
      const int64_t row = LmemAllocator::rounded(c_.bytes(y_, {block}));
      p.buffers = {row, row, LmemAllocator::rounded(c_.bytes(y_, {2 * blocks + 3}))};
      if (block > kMaxBlock || blocks > kMaxBlock || total_bytes(p.buffers) > budget) continue;
      p.feasible = true;
      p.tiles = graph::element_count(rows_) * blocks;
      p.cost = 4 * static_cast<double>(c_.bytes(y_, y_.dims)) / kMemoryBandwidth + 1000 * static_cast<double>(p.tiles);
      p.tile = {0, 1, block};
      return p;
    }
    return p;
  }

  /// to = a KIND b for each a of a row; b is one number.
  void arithmetic(Emitter &out, uint8_t kind, uint32_t a, uint32_t b, uint32_t to, int64_t count) const {
    auto c = hw::make<npu_cmd_eltwise>();
    c.subop = kind;
    c.a_dtype = c.b_dtype = c.out_dtype = c_.dtype(y_);
    c.a_addr = a;
    c.b_addr = b;
    c.out_addr = to;
    std::fill(std::begin(c.dims), std::end(c.dims), 1u);
    c.dims[4] = static_cast<uint32_t>(count);
    c.a_stride[4] = 1;
    out.tiu(c);
  }

  void times(Emitter &out, uint32_t x, float factor) const {
    auto c = hw::make<npu_cmd_eltwise>();
    c.subop = NPU_ELTWISE_MUL;
    c.flags = NPU_ELTWISEF_B_IMM;
    c.a_dtype = c.b_dtype = c.out_dtype = c_.dtype(y_);
    c.a_addr = c.out_addr = x;
    c.imm = factor;
    std::fill(std::begin(c.dims), std::end(c.dims), 1u);
    out.tiu(c);
  }

  void function(Emitter &out, uint8_t kind, uint32_t x, int64_t count) const {
    auto c = hw::make<npu_cmd_unary>();
    c.subop = kind;
    c.in_dtype = c.out_dtype = c_.dtype(y_);
    c.in_addr = c.out_addr = x;
    c.count = static_cast<uint32_t>(count);
    out.tiu(c);
  }

  /// The maximum or the sum of a row.
  void reduce(Emitter &out, bool max, uint32_t from, uint32_t to, int64_t count) const {
    auto c = hw::make<npu_cmd_pool>();
    c.subop = max ? NPU_POOL_MAX : NPU_POOL_AVG;
    c.in_dtype = c.out_dtype = c_.dtype(y_);
    c.in_addr = from;
    c.out_addr = to;
    c.n = c.ih = c.c = c.oh = c.ow = 1;
    c.kh = c.sh = c.sw = c.dh = c.dw = 1;
    c.iw = static_cast<uint32_t>(count);
    c.kw = static_cast<uint16_t>(count);
    out.tiu(c);
    if (!max) times(out, to, static_cast<float>(count));
  }

  /// A row goes through local memory three times: for its maximum, for the sum of exp(x - maximum), for the result.
  void emit_blocks(int64_t block, std::span<const uint32_t> buffers, Emitter &out) const {
    const int64_t blocks = tiles_of(columns_, block);
    const auto number = [&](int64_t i) { return buffers[2] + static_cast<uint32_t>(c_.bytes(y_, {i})); };
    const uint32_t maxima = number(0), sums = number(blocks), maximum = number(2 * blocks),
                   sum = number(2 * blocks + 1);
    for_boxes(rows_, rows_.size() - 1, 1, [&](Shape start, Shape box) {
      start.push_back(0);
      box.push_back(0);
      size_t loaded = 0;
      // Calls f(number of the block, its elements, where they are).
      const auto each = [&](auto f) {
        for (int64_t i = 0; i < blocks; ++i) {
          start.back() = i * block;
          box.back() = std::min(block, columns_ - i * block);
          const uint32_t at = buffers[loaded++ % 2];
          out.copy(box, c_.end(x_, start), c_.buffer_end(x_, at, box));
          f(i, box.back(), at);
        }
      };
      each([&](int64_t i, int64_t n, uint32_t at) { reduce(out, true, at, number(i), n); });
      reduce(out, true, maxima, maximum, blocks);
      each([&](int64_t i, int64_t n, uint32_t at) {
        arithmetic(out, NPU_ELTWISE_SUB, at, maximum, at, n);
        function(out, NPU_ACT_EXP, at, n);
        reduce(out, false, at, number(blocks + i), n);
      });
      reduce(out, false, sums, sum, blocks);
      if (op_.log) function(out, NPU_ACT_LOG, sum, 1);
      each([&](int64_t, int64_t n, uint32_t at) {
        arithmetic(out, NPU_ELTWISE_SUB, at, maximum, at, n);
        if (!op_.log) function(out, NPU_ACT_EXP, at, n);
        arithmetic(out, op_.log ? NPU_ELTWISE_SUB : NPU_ELTWISE_DIV, at, sum, at, n);
        out.copy(box, c_.buffer_end(y_, at, box), c_.end(y_, start));
      });
    });
  }

  const KernelContext c_;
  const SoftmaxOp &op_;
  View x_, y_;
  Shape rows_;
  int64_t columns_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const SoftmaxOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Softmax>(op, out, context);
}

}  // namespace npu::compiler
