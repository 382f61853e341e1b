// SPDX-License-Identifier: MIT
// Copies and fills. A copy inside memory that changes the order goes through local memory, where rows may be short at
// no cost.
#include <algorithm>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

class Copy final : public Kernel {
 public:
  Copy(const CopyOp &op, const View &out, const KernelContext &c) : c_(c), x_(op.input), y_(out) {
    collapse(y_.dims, {&x_.strides, &y_.strides});
    x_.dims = y_.dims;
  }

  Plan plan(int64_t budget) const override {
    Plan best;
    best.feasible = true;
    best.tile = {0};
    const bool inside = !c_.place(x_).local && !c_.place(y_).local;
    best.cost = direct_cost();
    if (!inside) return best;
    const Plan bounce = plan_bounce(budget);
    return bounce.feasible && bounce.cost < best.cost ? bounce : best;
  }

  void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const override {
    const Shape zero(y_.dims.size(), 0);
    if (plan.tile[0] == 0) return out.copy(y_.dims, c_.end(x_, zero), c_.end(y_, zero));
    const Shape tile(plan.tile.begin() + 1, plan.tile.begin() + 1 + static_cast<int64_t>(y_.dims.size()));
    Shape start = zero;
    for (size_t count = 0;; ++count) {
      Shape box = tile;
      for (size_t i = 0; i < box.size(); ++i) box[i] = std::min(box[i], y_.dims[i] - start[i]);
      const uint32_t at = buffers[count % buffers.size()];
      out.copy(box, c_.end(x_, start), c_.buffer_end(x_, at, box));
      out.copy(box, c_.buffer_end(x_, at, box), c_.end(y_, start));
      size_t d = box.size();
      while (d > 0 && (start[d - 1] += tile[d - 1]) >= y_.dims[d - 1]) start[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  /// What Emitter::copy would choose: the better of both orders.
  double direct_cost() const {
    const bool from_memory = !c_.place(x_).local, to_memory = !c_.place(y_).local;
    if (!from_memory || !to_memory)
      return from_memory ? c_.transfer_cycles(x_, x_.dims) : c_.transfer_cycles(y_, y_.dims);
    Emitter trial(scratch_);
    const Shape zero(y_.dims.size(), 0);
    trial.copy(y_.dims, c_.end(x_, zero), c_.end(y_, zero));
    double sum = 0;
    for (const Command &c : trial.commands) {
      const hw::Cost cost = cost_of(c);
      sum += static_cast<double>(cost.cycles) + static_cast<double>(cost.flow_bytes) / kMemoryBandwidth;
    }
    return sum;
  }

  /// Halves the dimension that costs least until two boxes fit.
  Plan plan_bounce(int64_t budget) const {
    Plan p;
    if (y_.dims.size() + 1 > p.tile.size()) return p;
    Shape box = y_.dims;
    while (2 * LmemAllocator::rounded(c_.bytes(x_, box)) > budget) {
      size_t best = box.size();
      double best_cost = 0;
      for (size_t i = 0; i < box.size(); ++i) {
        if (box[i] == 1) continue;
        Shape smaller = box;
        smaller[i] = (box[i] + 1) / 2;
        const double cost = bounce_cost(smaller);
        if (best == box.size() || cost < best_cost) {
          best = i;
          best_cost = cost;
        }
      }
      if (best == box.size()) return p;
      box[best] = (box[best] + 1) / 2;
    }
    p.feasible = true;
    p.cost = bounce_cost(box);
    p.tiles = count(box);
    p.buffers.assign(p.tiles > 1 ? 2 : 1, LmemAllocator::rounded(c_.bytes(x_, box)));
    p.tile[0] = 1;
    std::copy(box.begin(), box.end(), p.tile.begin() + 1);
    return p;
  }

  int64_t count(const Shape &box) const {
    int64_t n = 1;
    for (size_t i = 0; i < box.size(); ++i) n *= tiles_of(y_.dims[i], box[i]);
    return n;
  }

  double bounce_cost(const Shape &box) const {
    return static_cast<double>(count(box)) * (c_.transfer_cycles(x_, box) + c_.transfer_cycles(y_, box));
  }

  const KernelContext c_;
  View x_, y_;
  mutable Coefficients scratch_;
};

class Fill final : public Kernel {
 public:
  Fill(const FillOp &op, const View &out, const KernelContext &c) : c_(c), value_(op.value), y_(out) {}

  Plan plan(int64_t) const override {
    Plan p;
    p.feasible = true;
    p.cost = c_.transfer_cycles(y_, y_.dims);
    return p;
  }

  void emit(const Plan &, std::span<const uint32_t>, Emitter &out) const override {
    out.fill(y_.dims, value_, c_.end(y_, Shape(y_.dims.size(), 0)));
  }

 private:
  const KernelContext c_;
  const float value_;
  const View &y_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel(const CopyOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Copy>(op, out, context);
}

std::unique_ptr<Kernel> make_kernel(const FillOp &op, const View &out, const KernelContext &context) {
  return std::make_unique<Fill>(op, out, context);
}

}  // namespace npu::compiler
