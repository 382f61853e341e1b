// SPDX-License-Identifier: MIT
// Cuts TIU commands into slices: smaller commands that, run one after the other, do the same and take at most
// kStepOperations each. No element of a result depends on the cut: each slice computes some elements whole, or goes on
// with the accumulators that the one before left in the result.
#ifndef NPU_MODEL_SLICES_HPP
#define NPU_MODEL_SLICES_HPP

#include <algorithm>
#include <cstdint>
#include <functional>

#include "npu_cost.hpp"
#include "npu_isa.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/pace.h"

namespace npu::model {

/// A part of CONV or MATMUL. Its offsets count elements from the first one of the whole command's operands.
template <class Cmd>
struct Product {
  Cmd c;                 ///< dims, padding, flags and activation of the part; its addresses are the whole command's
  uint64_t in = 0;       ///< input; of a CONV with fewer channels than the whole one: of cells as far apart as there
  uint64_t wgt = 0;      ///< weights or B
  uint64_t weights = 0;  ///< elements that it reads from there
  uint64_t param = 0;    ///< bias
  uint64_t out = 0;      ///< result and partial sums
  bool chained = false;  ///< begins with what the slice before left in the result, not with the partial sums
};

/// A part of a command that reads one or two operands in local memory.
template <class Cmd>
struct Pointwise {
  Cmd c;
  uint64_t a = 0, b = 0, out = 0;  ///< first elements of the operands and the result
};

template <class Slice>
using Each = std::function<bool(const Slice &)>;

/// What a slice may need at most, where the command can be cut that far.
struct SliceLimits {
  uint64_t operations = kStepOperations;
  uint64_t weights = kStepOperations;  ///< elements of weights or of B
};

namespace slices_detail {

using hw::cost_detail::add;
using hw::cost_detail::mul;

inline constexpr uint64_t kFunction = 32;  // operations that a transcendental function counts as
inline constexpr uint64_t kResult = 8;     // what an element of a result costs besides its terms
inline constexpr uint64_t kCall = 4096;    // what a product costs besides its elements

inline uint64_t activation(uint8_t act) { return hw::cost_detail::is_slow(act) ? kFunction : kResult; }

/// How many units of a cost fit into a limit: at least 1, at most `count`.
inline uint64_t fit(uint64_t limit, uint64_t cost, uint64_t count) {
  return std::clamp<uint64_t>(limit / std::max<uint64_t>(cost, 1), 1, count);
}

/// Makes a slice a link of a chain that goes through the accumulators in the result.
template <class Cmd>
void link(Product<Cmd> &s, bool first, bool last) {
  s.chained = !first;
  if (!first) s.c.flags |= NPU_CONV_PSUM_IN;
  if (last) return;
  s.c.flags = static_cast<uint16_t>((s.c.flags & ~NPU_CONV_BIAS) | NPU_CONV_PSUM_OUT);
  s.c.act = NPU_ACT_NONE;
  s.c.act_a = s.c.act_b = 0;
}

/// Moves the first of a window's output cells to `at`: returns how many leading input cells no window needs any more,
/// and changes the padding to match. Where all windows lie behind the image one cell stays.
inline int64_t move_window(int64_t at, int64_t stride, int64_t in, int32_t &pad) {
  const int64_t start = at * stride - pad;
  const int64_t skipped = std::clamp<int64_t>(start, 0, in - 1);
  pad = static_cast<int32_t>(std::max<int64_t>(skipped - start, -1));
  return skipped;
}

/// Output cells [oy, oy + rows) x [ox, ox + cols) of images [n, n + images). Only a single row is cut into columns.
struct Part {
  uint64_t n = 0, images = 1, oy = 0, rows = 1, ox = 0, cols = 1;
};

/// Reduces CONV or POOL to a part. Returns how many rows of the images lie before the first that the part needs.
template <class Cmd>
int64_t cut_windows(const Part &part, Cmd &c) {
  const bool whole_rows = part.rows == c.oh, whole_cols = part.cols == c.ow;
  c.n = static_cast<uint32_t>(part.images);
  c.oh = static_cast<uint32_t>(part.rows);
  c.ow = static_cast<uint32_t>(part.cols);
  if (!whole_cols)
    c.pad_l = static_cast<int32_t>(
        std::max<int64_t>(int64_t{c.pad_l} - static_cast<int64_t>(part.ox) * c.sw, -int64_t{c.iw}));
  if (whole_rows) return 0;
  const int64_t skipped = move_window(static_cast<int64_t>(part.oy), c.sh, c.ih, c.pad_t);
  c.ih -= static_cast<uint32_t>(skipped);
  return skipped;
}

/// Cuts output cells: by images, else by rows, else by columns of a row. `cell` is the work of one.
template <class Cmd, class F>
bool cut_cells(const Cmd &c, uint64_t limit, uint64_t cell, F f) {
  const uint64_t row = mul(cell, c.ow), image = mul(row, c.oh);
  if (image <= limit) {
    for (uint64_t n = 0, count; n < c.n; n += count) {
      count = fit(limit, image, c.n - n);
      if (!f(Part{n, count, 0, c.oh, 0, c.ow})) return false;
    }
    return true;
  }
  for (uint64_t n = 0; n < c.n; ++n)
    for (uint64_t oy = 0, rows; oy < c.oh; oy += rows) {
      rows = fit(limit, row, c.oh - oy);
      for (uint64_t ox = 0, cols; ox < c.ow; ox += cols) {
        cols = rows > 1 ? c.ow : fit(limit, cell, c.ow - ox);
        if (!f(Part{n, 1, oy, rows, ox, cols})) return false;
      }
    }
  return true;
}

/// Cells of a window that can lie inside the image.
template <class Cmd>
uint64_t window_cells(const Cmd &c) {
  return mul(std::min<uint64_t>(c.kh, c.ih), std::min<uint64_t>(c.kw, c.iw));
}

// ---- CONV ----

class ConvCut {
 public:
  using Slice = Product<npu_cmd_conv>;

  ConvCut(const npu_cmd_conv &c, const SliceLimits &limits, const Each<Slice> &each)
      : c_(c),
        limits_(limits),
        each_(each),
        icg_(c.ic / c.groups),
        ocg_(c.oc / c.groups),
        filter_(mul(c.kh, c.kw, icg_)),
        work_(add(mul(window_cells(c), icg_), activation(c.act))) {}

  void run() const {
    const bool whole = mul(filter_, c_.oc) <= limits_.weights && mul(work_, c_.oc) <= limits_.operations;
    const uint64_t cell = whole ? mul(work_, c_.oc) : UINT64_MAX;
    cut_cells(c_, limits_.operations, cell, [&](const Part &part) {
      Slice s{c_};
      s.out = ((part.n * c_.oh + part.oy) * c_.ow + part.ox) * c_.oc;
      s.in = (part.n * c_.ih + static_cast<uint64_t>(cut_windows(part, s.c))) * c_.iw * c_.ic;
      if (part.rows != c_.oh) drop_rows_behind(s.c);
      s.weights = mul(filter_, c_.oc);
      return whole ? each_(s) : groups(s);
    });
  }

 private:
  /// Leaves out the input rows behind the last window.
  static void drop_rows_behind(npu_cmd_conv &c) {
    const int64_t end = int64_t{c.oh - 1} * c.sh - c.pad_t + int64_t{c.kh - 1} * c.dh + 1;
    c.ih = static_cast<uint32_t>(std::clamp<int64_t>(end, 1, c.ih));
  }

  /// One output cell whose channels are too much work: by groups, then by the channels of a group.
  bool groups(const Slice &cell) const {
    for (uint64_t g = 0, count; g < c_.groups; g += count) {
      const uint64_t by_work = fit(limits_.operations, mul(work_, ocg_), c_.groups - g);
      count = fit(limits_.weights, mul(filter_, ocg_), by_work);
      Slice s = cell;
      s.c.groups = static_cast<uint32_t>(count);
      s.c.ic = static_cast<uint32_t>(count * icg_);
      s.in += g * icg_;
      if (!channels(s, g * ocg_, count * ocg_)) return false;
    }
    return true;
  }

  bool channels(const Slice &cell, uint64_t first, uint64_t count) const {
    uint64_t step = count;
    if (cell.c.groups == 1) step = fit(limits_.weights, filter_, fit(limits_.operations, work_, count));
    for (uint64_t o = 0, n; o < count; o += n) {
      n = std::min(step, count - o);
      Slice s = cell;
      s.c.oc = static_cast<uint32_t>(n);
      s.param = first + o;
      s.out += first + o;
      s.wgt = mul(first + o, filter_);
      s.weights = mul(n, filter_);
      if (!(s.weights <= limits_.weights ? each_(s) : window_rows(s))) return false;
    }
    return true;
  }

  /// One element of the result whose weights are too many: the cells of its window that lie inside the image, row by
  /// row.
  bool window_rows(const Slice &element) const {
    const npu_cmd_conv &c = element.c;
    const WindowRange rows = window_range(-int64_t{c.pad_t}, c.dh, c.kh, c.ih);
    const WindowRange cols = window_range(-int64_t{c.pad_l}, c.dw, c.kw, c.iw);
    if (rows.size() <= 0 || cols.size() <= 0) {
      Slice s = element;
      s.c.kh = s.c.kw = 1;
      s.c.pad_t = -static_cast<int32_t>(c.ih);
      s.weights = icg_;
      return each_(s);
    }
    for (int64_t ky = rows.first; ky < rows.last; ++ky) {
      Slice s = element;
      s.c.kh = 1;
      s.c.kw = static_cast<uint16_t>(cols.size());
      s.c.pad_t = static_cast<int32_t>(c.pad_t - ky * c.dh);
      s.c.pad_l = static_cast<int32_t>(c.pad_l - cols.first * c.dw);
      s.wgt += (static_cast<uint64_t>(ky) * c.kw + static_cast<uint64_t>(cols.first)) * icg_;
      s.weights = static_cast<uint64_t>(cols.size()) * icg_;
      link(s, ky == rows.first, ky + 1 == rows.last);
      if (!each_(s)) return false;
    }
    return true;
  }

  const npu_cmd_conv &c_;
  const SliceLimits &limits_;
  const Each<Slice> &each_;
  const uint64_t icg_, ocg_;
  const uint64_t filter_;  ///< weights of an output channel
  const uint64_t work_;    ///< of one element of the result
};

// ---- MATMUL ----

class MatmulCut {
 public:
  using Slice = Product<npu_cmd_matmul>;

  MatmulCut(const npu_cmd_matmul &c, const SliceLimits &limits, const Each<Slice> &each)
      : c_(c),
        limits_(limits),
        each_(each),
        b_(mul(c.k, c.n)),
        row_(add(b_, mul(c.n, activation(c.act)))),
        product_(add(mul(row_, c.m), kCall)) {}

  void run() const {
    if (b_ > limits_.weights || row_ > limits_.operations)
      rows(1, [this](const Slice &s) { return c_.flags & NPU_CONV_TRANS_B ? columns(s) : terms(s); });
    else if (product_ > limits_.operations)
      rows(fit(limits_.operations, row_, c_.m), each_);
    else
      batches();
  }

 private:
  Slice slice(uint64_t batch, uint64_t count, uint64_t row, uint64_t rows) const {
    Slice s{c_};
    s.c.batch = static_cast<uint32_t>(count);
    s.c.m = static_cast<uint32_t>(rows);
    s.in = batch * c_.a_batch_stride + row * c_.k;
    s.wgt = batch * c_.b_batch_stride;
    s.weights = add(mul(count - 1, c_.b_batch_stride), b_);
    s.out = (batch * c_.m + row) * c_.n;
    return s;
  }

  void batches() const {
    for (uint64_t b = 0, count; b < c_.batch; b += count) {
      count = fit(limits_.operations, product_, c_.batch - b);
      if (c_.b_batch_stride) count = std::min(count, (limits_.weights - b_) / c_.b_batch_stride + 1);
      if (!each_(slice(b, count, 0, c_.m))) return;
    }
  }

  void rows(uint64_t most, const Each<Slice> &each) const {
    for (uint64_t b = 0; b < c_.batch; ++b)
      for (uint64_t row = 0, count; row < c_.m; row += count) {
        count = std::min(most, c_.m - row);
        if (!each(slice(b, 1, row, count))) return;
      }
  }

  /// One row, whose columns' terms follow each other in memory.
  bool columns(const Slice &row) const {
    for (uint64_t n = 0, count; n < c_.n; n += count) {
      const uint64_t by_work = fit(limits_.operations, c_.k + activation(c_.act), c_.n - n);
      count = fit(limits_.weights, c_.k, by_work);
      Slice s = row;
      s.c.n = static_cast<uint32_t>(count);
      s.wgt += n * c_.k;
      s.weights = count * c_.k;
      s.param = n;
      s.out += n;
      if (!each_(s)) return false;
    }
    return true;
  }

  /// One row, whose rows of B follow each other in memory.
  bool terms(const Slice &row) const {
    for (uint64_t k = 0, count; k < c_.k; k += count) {
      count = fit(std::min(limits_.operations, limits_.weights), c_.n, c_.k - k);
      Slice s = row;
      s.c.k = static_cast<uint32_t>(count);
      s.in += k;
      s.wgt += k * c_.n;
      s.weights = count * c_.n;
      link(s, k == 0, k + count == c_.k);
      if (!each_(s)) return false;
    }
    return true;
  }

  const npu_cmd_matmul &c_;
  const SliceLimits &limits_;
  const Each<Slice> &each_;
  const uint64_t b_;        ///< elements of one B
  const uint64_t row_;      ///< work of a row of the result
  const uint64_t product_;  ///< work of one product of the batch
};

}  // namespace slices_detail

/// Each calls `each` for the slices in order, until it returns false.
inline void for_slices(const npu_cmd_conv &c, const SliceLimits &limits, const Each<Product<npu_cmd_conv>> &each) {
  slices_detail::ConvCut(c, limits, each).run();
}

inline void for_slices(const npu_cmd_matmul &c, const SliceLimits &limits, const Each<Product<npu_cmd_matmul>> &each) {
  slices_detail::MatmulCut(c, limits, each).run();
}

inline void for_slices(const npu_cmd_pool &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_pool>> &each) {
  using namespace slices_detail;
  const uint64_t cell = mul(add(window_cells(c), kResult), c.c);
  cut_cells(c, limits.operations, cell, [&](const Part &part) {
    Pointwise<npu_cmd_pool> s{c};
    s.out = ((part.n * c.oh + part.oy) * c.ow + part.ox) * c.c;
    s.a = (part.n * c.ih + static_cast<uint64_t>(cut_windows(part, s.c))) * c.iw * c.c;
    return each(s);
  });
}

inline void for_slices(const npu_cmd_eltwise &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_eltwise>> &each) {
  using namespace slices_detail;
  const uint64_t most = std::max<uint64_t>(limits.operations / activation(c.act), 1);
  unsigned cut = 4;  // dimensions behind it belong to each slice as a whole
  uint64_t inside = 1;
  while (cut > 0 && mul(inside, c.dims[cut]) <= most) inside *= c.dims[cut--];
  uint64_t index[5] = {};
  Pointwise<npu_cmd_eltwise> s{c};
  for (unsigned i = 0; i < cut; ++i) s.c.dims[i] = 1;
  for (;;) {
    const uint64_t count = fit(most, inside, c.dims[cut] - index[cut]);
    s.c.dims[cut] = static_cast<uint32_t>(count);
    s.a = s.b = 0;
    for (unsigned i = 0; i <= cut; ++i) {
      s.a += index[i] * c.a_stride[i];
      s.b += index[i] * c.b_stride[i];
    }
    if (!each(s)) return;
    s.out += count * inside;
    index[cut] += count;
    for (unsigned i = cut; index[i] == c.dims[i]; ++index[--i]) {
      if (i == 0) return;
      index[i] = 0;
    }
  }
}

inline void for_slices(const npu_cmd_unary &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_unary>> &each) {
  using namespace slices_detail;
  for (uint64_t at = 0, count; at < c.count; at += count) {
    count = fit(limits.operations, activation(c.subop), c.count - at);
    Pointwise<npu_cmd_unary> s{c};
    s.c.count = static_cast<uint32_t>(count);
    s.a = s.out = at;
    if (!each(s)) return;
  }
}

/// A row is never cut: its sum is one.
inline void for_slices(const npu_cmd_softmax &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_softmax>> &each) {
  using namespace slices_detail;
  for (uint64_t row = 0, count; row < c.rows; row += count) {
    count = fit(limits.operations, mul(kFunction, c.cols), c.rows - row);
    Pointwise<npu_cmd_softmax> s{c};
    s.c.rows = static_cast<uint32_t>(count);
    s.a = s.out = row * c.cols;
    if (!each(s)) return;
  }
}

}  // namespace npu::model

#endif  // NPU_MODEL_SLICES_HPP
