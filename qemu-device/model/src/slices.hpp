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
  Cmd c;             ///< dims, pitches, padding, flags and activation of the part; its addresses are the whole one's
  uint64_t in = 0;   ///< input
  uint64_t wgt = 0;  ///< weights or B
  uint64_t weights = 0;  ///< elements from the first to the last that it reads from there
  uint64_t param = 0;    ///< bias and multiplier
  uint64_t out = 0;      ///< result and partial sums
  /// A link of a chain begins with the accumulators that the one before left, and leaves its own, where these are not
  /// the command's. They are dense.
  bool from_link = false, to_link = false;
};

/// A part of a command that reads one or two operands in local memory.
template <class Cmd>
struct Pointwise {
  Cmd c;
  uint64_t a = 0, b = 0, out = 0;  ///< first elements of the operands and the result
  uint64_t c_at = 0;               ///< of SELECT's condition
  uint64_t param = 0;              ///< of vectors with an element a column
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

/// Makes a slice a link of a chain of accumulators.
template <class Cmd>
void link(Product<Cmd> &s, bool first, bool last) {
  s.from_link = !first;
  s.to_link = !last;
  if (!first) s.c.flags |= NPU_CONV_PSUM_IN;
  if (last) return;
  s.c.flags = static_cast<uint16_t>((s.c.flags & ~(NPU_CONV_BIAS | NPU_CONV_REQUANT)) | NPU_CONV_PSUM_OUT);
  s.c.out_dtype = s.c.in_dtype == NPU_DTYPE_S8 || s.c.in_dtype == NPU_DTYPE_U8 ? NPU_DTYPE_S32 : NPU_DTYPE_F32;
  s.c.out_zp = 0;
  s.c.act = NPU_ACT_NONE;
  s.c.act_a = s.c.act_b = 0;
}

inline uint64_t or_else(uint64_t value, uint64_t otherwise) { return value ? value : otherwise; }

/// Rows or columns of the image that a convolution sees: with input dilation there are some between those of the input.
inline int64_t image_size(uint32_t in, uint8_t dilation) {
  return (int64_t{in} - 1) * static_cast<int64_t>(or_else(dilation, 1)) + 1;
}
inline int64_t image_rows(const npu_cmd_conv &c) { return image_size(c.ih, c.idh); }
inline int64_t image_cols(const npu_cmd_conv &c) { return image_size(c.iw, c.idw); }
inline int64_t image_rows(const npu_cmd_pool &c) { return c.ih; }
inline int64_t image_cols(const npu_cmd_pool &c) { return c.iw; }
/// Whether the rows of the image are those of the input, so that a part can begin at any of them.
inline bool dense_rows(const npu_cmd_conv &c) { return c.idh <= 1; }
inline bool dense_rows(const npu_cmd_pool &) { return true; }

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
  // Where all windows lie behind the image their distance does not matter.
  const auto moved = [](int32_t pad, uint64_t at, uint16_t stride, int64_t size) {
    return static_cast<int32_t>(std::max<int64_t>(pad - static_cast<int64_t>(at) * stride, -size));
  };
  if (!whole_cols) c.pad_l = moved(c.pad_l, part.ox, c.sw, image_cols(c));
  if (whole_rows) return 0;
  if (!dense_rows(c)) {
    c.pad_t = moved(c.pad_t, part.oy, c.sh, image_rows(c));
    return 0;
  }
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
  return mul(std::min<uint64_t>(c.kh, static_cast<uint64_t>(image_rows(c))),
             std::min<uint64_t>(c.kw, static_cast<uint64_t>(image_cols(c))));
}

// ---- CONV ----

class ConvCut {
 public:
  using Slice = Product<npu_cmd_conv>;

  ConvCut(const npu_cmd_conv &c, const SliceLimits &limits, const Each<Slice> &each)
      : c_(c),
        limits_(limits),
        each_(each),
        in_pitch_(or_else(c.in_pitch, c.ic)),
        out_pitch_(or_else(c.out_pitch, c.oc)),
        icg_(c.ic / c.groups),
        ocg_(c.oc / c.groups),
        filter_(mul(c.kh, c.kw, icg_)),
        work_(add(mul(window_cells(c), icg_), activation(c.act))) {}

  void run() const {
    const bool whole = mul(filter_, c_.oc) <= limits_.weights && mul(work_, c_.oc) <= limits_.operations;
    const uint64_t cell = whole ? mul(work_, c_.oc) : UINT64_MAX;
    cut_cells(c_, limits_.operations, cell, [&](const Part &part) {
      Slice s{c_};
      s.c.in_pitch = static_cast<uint32_t>(in_pitch_);
      s.c.out_pitch = static_cast<uint32_t>(out_pitch_);
      s.out = ((part.n * c_.oh + part.oy) * c_.ow + part.ox) * out_pitch_;
      s.in = (part.n * c_.ih + static_cast<uint64_t>(cut_windows(part, s.c))) * c_.iw * in_pitch_;
      if (part.rows != c_.oh && dense_rows(c_)) drop_rows_behind(s.c);
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
    const WindowRange rows = window_range(-int64_t{c.pad_t}, c.dh, c.kh, image_rows(c));
    const WindowRange cols = window_range(-int64_t{c.pad_l}, c.dw, c.kw, image_cols(c));
    if (rows.size() <= 0 || cols.size() <= 0) {
      Slice s = element;
      s.c.kh = s.c.kw = 1;
      s.c.pad_t = static_cast<int32_t>(std::max<int64_t>(-image_rows(c), INT32_MIN));
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
  const uint64_t in_pitch_, out_pitch_;
  const uint64_t icg_, ocg_;
  const uint64_t filter_;  ///< weights of an output channel
  const uint64_t work_;    ///< of one element of the result
};

// ---- MATMUL ----

class MatmulCut {
 public:
  using Slice = Product<npu_cmd_matmul>;

  MatmulCut(const npu_cmd_matmul &c, const SliceLimits &limits, const Each<Slice> &each)
      : c_(with_strides(c)),
        limits_(limits),
        each_(each),
        trans_(c.flags & NPU_CONV_TRANS_B),
        b_(trans_ ? b_elements(c.n, c.k) : b_elements(c.k, c.n)),
        row_(add(mul(c.k, c.n), mul(c.n, activation(c.act)))),
        product_(add(mul(row_, c.m), kCall)) {}

  void run() const {
    if (b_ > limits_.weights || row_ > limits_.operations)
      rows(1, [this](const Slice &s) { return trans_ ? columns(s) : terms(s); });
    else if (product_ > limits_.operations)
      rows(fit(limits_.operations, row_, c_.m), each_);
    else
      batches();
  }

 private:
  /// The command with all its strides written out.
  static npu_cmd_matmul with_strides(npu_cmd_matmul c) {
    const auto put = [](uint32_t &stride, uint64_t dense) {
      if (stride == 0) stride = static_cast<uint32_t>(dense);
    };
    put(c.a_row_stride, c.k);
    put(c.b_row_stride, c.flags & NPU_CONV_TRANS_B ? c.k : c.n);
    put(c.out_row_stride, c.n);
    put(c.out_batch_stride, mul(c.m, c.out_row_stride));
    return c;
  }
  /// Elements of so many rows of B as it is stored, with what lies between them.
  uint64_t b_elements(uint64_t count, uint64_t row) const { return add(mul(count - 1, c_.b_row_stride), row); }

  Slice slice(uint64_t batch, uint64_t count, uint64_t row, uint64_t rows) const {
    Slice s{c_};
    s.c.batch = static_cast<uint32_t>(count);
    s.c.m = static_cast<uint32_t>(rows);
    s.in = batch * c_.a_batch_stride + row * c_.a_row_stride;
    s.wgt = batch * c_.b_batch_stride;
    s.weights = add(mul(count - 1, c_.b_batch_stride), b_);
    s.out = batch * c_.out_batch_stride + row * c_.out_row_stride;
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
      count = fit(limits_.weights, std::max(c_.b_row_stride, c_.k), by_work);
      Slice s = row;
      s.c.n = static_cast<uint32_t>(count);
      s.wgt += n * c_.b_row_stride;
      s.weights = b_elements(count, c_.k);
      s.param = n;
      s.out += n;
      if (!each_(s)) return false;
    }
    return true;
  }

  /// One row, whose rows of B follow each other in memory.
  bool terms(const Slice &row) const {
    const uint64_t step = std::max(c_.b_row_stride, c_.n);
    for (uint64_t k = 0, count; k < c_.k; k += count) {
      count = fit(std::min(limits_.operations, limits_.weights), step, c_.k - k);
      Slice s = row;
      s.c.k = static_cast<uint32_t>(count);
      s.in += k;
      s.wgt += k * c_.b_row_stride;
      s.weights = b_elements(count, c_.n);
      link(s, k == 0, k + count == c_.k);
      if (!each_(s)) return false;
    }
    return true;
  }

  const npu_cmd_matmul c_;
  const SliceLimits &limits_;
  const Each<Slice> &each_;
  const bool trans_;
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
  const uint64_t in_pitch = or_else(c.in_pitch, c.c), out_pitch = or_else(c.out_pitch, c.c);
  cut_cells(c, limits.operations, cell, [&](const Part &part) {
    Pointwise<npu_cmd_pool> s{c};
    s.out = ((part.n * c.oh + part.oy) * c.ow + part.ox) * out_pitch;
    s.a = (part.n * c.ih + static_cast<uint64_t>(cut_windows(part, s.c))) * c.iw * in_pitch;
    return each(s);
  });
}

namespace slices_detail {

/// Cuts a command on five dimensions by the outermost ones of which a part is small enough. `most` is how many elements
/// a slice may have; `place(slice, index)` sets the operands from the index of its first element.
template <class Cmd, class Place>
void cut_dims(const Cmd &c, uint64_t most, Place place, const Each<Pointwise<Cmd>> &each) {
  unsigned cut = 4;  // dimensions behind it belong to each slice as a whole
  uint64_t inside = 1;
  while (cut > 0 && mul(inside, c.dims[cut]) <= most) inside *= c.dims[cut--];
  uint64_t index[5] = {};
  Pointwise<Cmd> s{c};
  for (unsigned i = 0; i < cut; ++i) s.c.dims[i] = 1;
  for (;;) {
    const uint64_t count = fit(most, inside, c.dims[cut] - index[cut]);
    s.c.dims[cut] = static_cast<uint32_t>(count);
    place(s, index);
    if (!each(s)) return;
    index[cut] += count;
    for (unsigned i = cut; index[i] == c.dims[i]; ++index[--i]) {
      if (i == 0) return;
      index[i] = 0;
    }
  }
}

inline uint64_t place_of(const uint32_t (&stride)[5], const uint64_t (&index)[5]) {
  uint64_t at = 0;
  for (unsigned i = 0; i < 5; ++i) at += index[i] * stride[i];
  return at;
}

/// The result's element of an index, its rows `pitch` apart.
inline uint64_t result_of(const uint32_t (&dims)[5], uint64_t pitch, const uint64_t (&index)[5]) {
  return (((index[0] * dims[1] + index[1]) * dims[2] + index[2]) * dims[3] + index[3]) * pitch + index[4];
}

/// Cuts rows of `cols` elements: several at a time, or pieces of one. `place(slice, row, column, rows, columns)`.
template <class Slice, class Cmd, class Place>
void cut_rows(const Cmd &c, uint64_t most, uint64_t count, uint64_t cols, Place place, const Each<Slice> &each) {
  const uint64_t at_once = fit(most, cols, count), piece = fit(most, 1, cols);
  for (uint64_t row = 0, rows; row < count; row += rows) {
    rows = std::min(at_once, count - row);
    for (uint64_t col = 0, n; col < cols; col += n) {
      n = rows > 1 ? cols : std::min(piece, cols - col);
      Slice s{c};
      place(s, row, col, rows, n);
      if (!each(s)) return;
    }
  }
}

}  // namespace slices_detail

inline void for_slices(const npu_cmd_eltwise &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_eltwise>> &each) {
  using namespace slices_detail;
  const uint64_t pitch = or_else(c.out_pitch, c.dims[4]);
  const uint64_t cost = c.subop == NPU_ELTWISE_POW ? kFunction : activation(c.act);
  cut_dims<npu_cmd_eltwise>(
      c, std::max<uint64_t>(limits.operations / cost, 1),
      [&](Pointwise<npu_cmd_eltwise> &s, const uint64_t(&index)[5]) {
        s.c.out_pitch = static_cast<uint32_t>(pitch);
        s.a = place_of(c.a_stride, index);
        s.b = place_of(c.b_stride, index);
        s.out = result_of(c.dims, pitch, index);
      },
      each);
}

inline void for_slices(const npu_cmd_select &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_select>> &each) {
  using namespace slices_detail;
  cut_dims<npu_cmd_select>(
      c, std::max<uint64_t>(limits.operations / kResult, 1),
      [&](Pointwise<npu_cmd_select> &s, const uint64_t(&index)[5]) {
        s.a = place_of(c.a_stride, index);
        s.b = place_of(c.b_stride, index);
        s.c_at = place_of(c.c_stride, index);
        s.out = result_of(c.dims, c.dims[4], index);
      },
      each);
}

namespace slices_detail {

/// Commands on `count` elements that have nothing to do with each other.
template <class Cmd>
void cut_count(const Cmd &c, uint64_t limit, uint64_t cost, const Each<Pointwise<Cmd>> &each) {
  for (uint64_t at = 0, count; at < c.count; at += count) {
    count = fit(limit, cost, c.count - at);
    Pointwise<Cmd> s{c};
    s.c.count = static_cast<uint32_t>(count);
    s.a = s.out = at;
    if (!each(s)) return;
  }
}

/// Commands on rows that are never cut: the sum of one is one.
template <class Cmd>
void cut_whole_rows(const Cmd &c, uint64_t limit, const Each<Pointwise<Cmd>> &each) {
  for (uint64_t row = 0, count; row < c.rows; row += count) {
    count = fit(limit, mul(kFunction, c.cols), c.rows - row);
    Pointwise<Cmd> s{c};
    s.c.rows = static_cast<uint32_t>(count);
    s.a = s.out = row * c.cols;
    if (!each(s)) return;
  }
}

}  // namespace slices_detail

inline void for_slices(const npu_cmd_unary &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_unary>> &each) {
  slices_detail::cut_count(c, limits.operations, slices_detail::activation(c.subop), each);
}

inline void for_slices(const npu_cmd_lut &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_lut>> &each) {
  slices_detail::cut_count(c, limits.operations, 1, each);
}

inline void for_slices(const npu_cmd_softmax &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_softmax>> &each) {
  slices_detail::cut_whole_rows(c, limits.operations, each);
}

inline void for_slices(const npu_cmd_norm &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_norm>> &each) {
  slices_detail::cut_whole_rows(c, limits.operations, each);
}

inline void for_slices(const npu_cmd_requant &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_requant>> &each) {
  using namespace slices_detail;
  const uint64_t in_pitch = or_else(c.in_pitch, c.cols), out_pitch = or_else(c.out_pitch, c.cols);
  cut_rows<Pointwise<npu_cmd_requant>>(
      c, std::max<uint64_t>(limits.operations / activation(c.act), 1), c.rows, c.cols,
      [&](Pointwise<npu_cmd_requant> &s, uint64_t row, uint64_t col, uint64_t rows, uint64_t cols) {
        s.c.rows = static_cast<uint32_t>(rows);
        s.c.cols = static_cast<uint32_t>(cols);
        s.c.in_pitch = static_cast<uint32_t>(in_pitch);
        s.c.out_pitch = static_cast<uint32_t>(out_pitch);
        s.a = row * in_pitch + col;
        s.out = row * out_pitch + col;
        s.param = col;
      },
      each);
}

/// What becomes one element is never cut.
inline void for_slices(const npu_cmd_reduce &c, const SliceLimits &limits,
                       const Each<Pointwise<npu_cmd_reduce>> &each) {
  using namespace slices_detail;
  const uint64_t block = mul(c.n, c.inner);
  for (uint64_t o = 0, count; o < c.outer; o += count) {
    count = fit(limits.operations, mul(kResult, block), c.outer - o);
    Pointwise<npu_cmd_reduce> s{c};
    s.c.outer = static_cast<uint32_t>(count);
    s.a = o * block;
    s.out = o * c.inner;
    if (!each(s)) return;
  }
}

}  // namespace npu::model

#endif  // NPU_MODEL_SLICES_HPP
