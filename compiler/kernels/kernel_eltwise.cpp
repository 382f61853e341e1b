// SPDX-License-Identifier: MIT
// Binary and unary operators, element by element, in the order of the result's storage.
#include <algorithm>

#include "compiler/kernels/box_tiles.h"

namespace npu::compiler {
namespace {

constexpr size_t kEltwiseDims = 5;

/// What both have in common: how boxes are cut, and where their results go.
class Eltwise : public Kernel {
 public:
  template <class Op>
  Eltwise(const Op &op, const View &out, const KernelContext &c) : c_(c) {
    const std::vector<int> order = memory_order(out);
    y_ = permuted(out, order);
    Op::each_input(op, [&](const View &v) { in_.push_back(permuted(v, order)); });
    std::vector<Strides *> all{&y_.strides};
    for (View &v : in_) all.push_back(&v.strides);
    collapse(y_.dims, all);
    for (View &v : in_) v.dims = y_.dims;
  }

  Plan plan(int64_t budget) const override {
    Plan best;
    for_cuts(y_.dims, [&](size_t split, int64_t chunk) { consider(split, chunk, budget, best); });
    return best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    const auto split = static_cast<size_t>(plan.tile[0]);
    const Shape full = box_of(y_.dims, split, plan.tile[1]);
    std::vector<TileInput> inputs;
    size_t at = 0;
    const auto part = [&](bool direct, int64_t tiles) {
      const size_t count = direct ? 0 : tiles > 1 ? 2 : 1;
      at += count;
      return buffers.subspan(at - count, count);
    };
    for (const View &v : in_) inputs.emplace_back(part(!needs_buffer(v, full), loads(v, split, plan.tile[1])));
    const std::span<const uint32_t> results = part(c_.direct(y_, full), plan.tiles);
    size_t stored = 0;
    for_boxes(y_.dims, split, plan.tile[1], [&](const Shape &start, const Shape &box) {
      const bool direct = results.empty() || c_.direct(y_, box);
      const uint32_t to = direct ? c_.address(y_, start) : results[stored++ % results.size()];
      emit_box(out, inputs, start, box, to);
      if (!direct) out.copy(box, c_.buffer_end(y_, to, box), c_.end(y_, start));
    });
  }

 protected:
  /// The command of a box, with the result at address `to`, and transfers of operands that it needs.
  virtual void emit_box(Emitter &out, std::vector<TileInput> &inputs, const Shape &start, const Shape &box,
                        uint32_t to) const = 0;
  /// Whether the command can read the operand where it lies.
  virtual bool readable(const View &v, const Shape &box) const = 0;
  /// Whether an operand that it cannot read comes into a buffer of its own.
  virtual bool has_buffers() const = 0;
  /// Whether an element takes four times as long as one of an addition.
  virtual bool slow() const = 0;

  /// What of an operand comes into its buffer for a box: the part that it has elements for.
  virtual Shape own_box(const View &v, const Shape &box) const {
    Shape own = box;
    for (size_t i = 0; i < box.size(); ++i)
      if (v.strides[i] == 0) own[i] = 1;
    return own;
  }

  const KernelContext c_;
  View y_;
  std::vector<View> in_;

 private:
  bool needs_buffer(const View &v, const Shape &box) const { return has_buffers() && !readable(v, box); }

  int64_t loads(const View &v, size_t split, int64_t chunk) const {
    Shape dims = own_box(v, v.dims);
    return box_count(dims, split, dims[split] == 1 ? 1 : chunk);
  }

  void consider(size_t split, int64_t chunk, int64_t budget, Plan &best) const {
    const Shape box = box_of(y_.dims, split, chunk);
    const size_t first =
        static_cast<size_t>(std::find_if(box.begin(), box.end(), [](int64_t d) { return d > 1; }) - box.begin());
    if (box.size() - first > kEltwiseDims && first < box.size()) return;
    Plan p;
    p.tiles = box_count(y_.dims, split, chunk);
    double load = 0;
    for (const View &v : in_) {
      if (readable(v, box)) continue;
      const Shape own = own_box(v, box);
      const int64_t n = loads(v, split, chunk);
      add_buffers(p, !has_buffers(), c_.bytes(v, own), n);
      load += c_.transfer_cycles(v, own) * static_cast<double>(n) / static_cast<double>(p.tiles);
    }
    add_buffers(p, c_.direct(y_, box), c_.bytes(y_, box), p.tiles);
    if (total_bytes(p.buffers) > budget) return;
    p.feasible = true;
    const double elements = static_cast<double>(graph::element_count(box));
    int64_t element_bytes = c_.storage(y_).element_bytes();  // of all operands
    for (const View &v : in_) element_bytes += c_.storage(v).element_bytes();
    uint32_t rate = kChip.rate(c_.dtype(y_));
    for (const View &v : in_) rate = std::min(rate, kChip.rate(c_.dtype(v)));
    const double work = 32 + std::max((slow() ? 4 : 1) * elements / (128 * rate),
                                      elements * static_cast<double>(element_bytes) / kLocalBandwidth);
    p.cost = pipelined(p.tiles, load, work, c_.direct(y_, box) ? 0 : c_.transfer_cycles(y_, box));
    p.tile = {static_cast<int64_t>(split), chunk};
    if (!best.feasible || p.cost < best.cost) best = std::move(p);
  }
};

bool is_slow(const graph::Activation &act) { return hw::cost_detail::is_slow(static_cast<uint8_t>(act.kind)); }

/// An operand that the command cannot read is copied to where the result will be.
class Unary final : public Eltwise {
 public:
  Unary(const UnaryOp &op, const View &out, const KernelContext &c) : Eltwise(op, out, c), op_(op) {}

 private:
  bool readable(const View &v, const Shape &box) const override { return c_.direct(v, box); }
  bool has_buffers() const override { return false; }
  bool slow() const override { return is_slow(op_.act); }

  void emit_box(Emitter &out, std::vector<TileInput> &, const Shape &start, const Shape &box,
                uint32_t to) const override {
    const View &x = in_[0];
    auto c = hw::make<npu_cmd_unary>();
    c.in_addr = to;
    if (readable(x, box))
      c.in_addr = c_.address(x, start);
    else
      out.copy(box, c_.end(x, start), c_.buffer_end(x, to, box));
    c.out_addr = to;
    c.count = static_cast<uint32_t>(graph::element_count(box));
    c.in_dtype = c_.dtype(x);
    c.out_dtype = c_.dtype(y_);
    c.subop = static_cast<uint8_t>(op_.act.kind);
    c.act_a = op_.act.a;
    c.act_b = op_.act.b;
    out.tiu(c);
  }

  const UnaryOp &op_;
};

/// What reads an element of one size and makes one of another. An operand that is not dense comes into a buffer.
class Resizing : public Eltwise {
 public:
  using Eltwise::Eltwise;

 private:
  bool readable(const View &v, const Shape &box) const override { return c_.direct(v, box); }
  bool has_buffers() const override { return true; }
  /// Elements that the operand repeats are repeated there.
  Shape own_box(const View &, const Shape &box) const override { return box; }

  virtual void emit_dense(Emitter &out, uint32_t from, uint32_t to, int64_t count) const = 0;

  void emit_box(Emitter &out, std::vector<TileInput> &inputs, const Shape &start, const Shape &box,
                uint32_t to) const override {
    const View &x = in_[0];
    uint32_t from;
    if (readable(x, box)) {
      from = c_.address(x, start);
    } else {
      bool fresh;
      Shape key = start;
      key.insert(key.end(), box.begin(), box.end());
      from = inputs[0].get(key, fresh);
      if (fresh) out.copy(box, c_.end(x, start), c_.buffer_end(x, from, box));
    }
    emit_dense(out, from, to, graph::element_count(box));
  }
};

class Requant final : public Resizing {
 public:
  Requant(const RequantOp &op, const View &out, const KernelContext &c) : Resizing(op, out, c), op_(op) {}

 private:
  bool slow() const override { return is_slow(op_.act); }

  void emit_dense(Emitter &out, uint32_t from, uint32_t to, int64_t count) const override {
    auto c = hw::make<npu_cmd_requant>();
    c.in_addr = from;
    c.out_addr = to;
    c.rows = 1;
    c.cols = static_cast<uint32_t>(count);
    c.in_dtype = c_.dtype(in_[0]);
    c.out_dtype = c_.dtype(y_);
    set_number(c.in_dtype, op_.in_quant, c.in_scale, c.in_zp);
    set_number(c.out_dtype, op_.out_quant, c.out_scale, c.out_zp);
    set_activation(c, op_.act);
    out.tiu(c);
  }

  const RequantOp &op_;
};

class Lookup final : public Resizing {
 public:
  Lookup(const LookupOp &op, const View &out, const KernelContext &c) : Resizing(op, out, c), op_(op) {}

 private:
  bool slow() const override { return false; }

  void emit_dense(Emitter &out, uint32_t from, uint32_t to, int64_t count) const override {
    auto c = hw::make<npu_cmd_lut>();
    c.in_addr = from;
    c.out_addr = to;
    c.count = static_cast<uint32_t>(count);
    c.in_dtype = c_.dtype(in_[0]);
    c.out_dtype = c_.dtype(y_);
    c.param_region = kRegionCoeff;
    c.param_offset = static_cast<uint64_t>(append_tensor(out.coeff, op_.table));
    out.tiu(c);
  }

  const LookupOp &op_;
};

class Binary final : public Eltwise {
 public:
  Binary(const BinaryOp &op, const View &out, const KernelContext &c) : Eltwise(op, out, c), op_(op) {}

 private:
  bool readable(const View &v, const Shape &) const override {
    return c_.place(v).local && std::all_of(v.strides.begin(), v.strides.end(), [](int64_t s) { return s >= 0; });
  }
  bool has_buffers() const override { return true; }
  bool slow() const override { return is_slow(op_.act) || op_.kind == graph::BinaryKind::Div; }

  /// Address and strides of an operand for a box, loading it where needed.
  uint32_t operand(Emitter &out, TileInput &buffers, const View &v, const Shape &start, const Shape &box,
                   uint32_t (&strides)[kEltwiseDims]) const {
    const size_t skip = box.size() > kEltwiseDims ? box.size() - kEltwiseDims : 0;
    const size_t shift = box.size() < kEltwiseDims ? kEltwiseDims - box.size() : 0;
    const bool resident = readable(v, box);
    const Shape own = own_box(v, box);
    const Strides used = resident ? v.strides : graph::dense_strides(own);
    for (size_t i = skip; i < box.size(); ++i)
      strides[i - skip + shift] = box[i] == 1 || v.strides[i] == 0 ? 0 : static_cast<uint32_t>(used[i]);
    if (resident) return c_.address(v, start);
    bool fresh;
    Shape from = start;
    for (size_t i = 0; i < from.size(); ++i)
      if (v.strides[i] == 0) from[i] = 0;
    Shape key = from;
    key.insert(key.end(), own.begin(), own.end());
    const uint32_t addr = buffers.get(key, fresh);
    if (fresh) out.copy(own, c_.end(v, from), c_.buffer_end(v, addr, own));
    return addr;
  }

  void emit_box(Emitter &out, std::vector<TileInput> &inputs, const Shape &start, const Shape &box,
                uint32_t to) const override {
    auto c = hw::make<npu_cmd_eltwise>();
    c.subop = static_cast<uint8_t>(op_.kind);
    c.a_dtype = c_.dtype(in_[0]);
    c.out_dtype = c_.dtype(y_);
    set_number(c.a_dtype, op_.a_quant, c.a_scale, c.a_zp);
    set_number(c.out_dtype, op_.out_quant, c.out_scale, c.out_zp);
    c.out_addr = to;
    std::fill(std::begin(c.dims), std::end(c.dims), 1u);
    const size_t skip = box.size() > kEltwiseDims ? box.size() - kEltwiseDims : 0,
                 shift = box.size() < kEltwiseDims ? kEltwiseDims - box.size() : 0;
    for (size_t i = skip; i < box.size(); ++i) c.dims[i - skip + shift] = static_cast<uint32_t>(box[i]);
    c.a_addr = operand(out, inputs[0], in_[0], start, box, c.a_stride);
    if (const float *number = std::get_if<float>(&op_.b)) {
      c.flags |= NPU_ELTWISEF_B_IMM;
      c.imm = *number;
    } else {
      c.b_dtype = c_.dtype(in_[1]);
      set_number(c.b_dtype, op_.b_quant, c.b_scale, c.b_zp);
      c.b_addr = operand(out, inputs[1], in_[1], start, box, c.b_stride);
    }
    set_activation(c, op_.act);
    out.tiu(c);
  }

  const BinaryOp &op_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const BinaryOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Binary>(op, out, context);
}

std::unique_ptr<Kernel> make_kernel(const RequantOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Requant>(op, out, context);
}

std::unique_ptr<Kernel> make_kernel(const LookupOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Lookup>(op, out, context);
}

std::unique_ptr<Kernel> make_kernel(const UnaryOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Unary>(op, out, context);
}

}  // namespace npu::compiler
