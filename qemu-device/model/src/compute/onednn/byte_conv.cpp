// SPDX-License-Identifier: MIT
// CONV of 8 bits.
#include <algorithm>
#include <cstring>

#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/byte_products.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

/// One dimension of the windows.
struct ByteAxis {
  int64_t in, image;      ///< cells of the input, and with those that dilation puts between
  int64_t pad, dilation;  ///< of the input
  int64_t kernel, kernel_dilation;
  int64_t out;
  int64_t step;    ///< image cells from one staged cell to the next: only what some window needs is staged
  int64_t stride;  ///< staged cells from one window to the next

  ByteAxis(uint32_t input, uint8_t input_dilation, int32_t padding, uint16_t k, uint16_t k_dilation, uint32_t output,
           uint16_t window_stride)
      : in(input),
        image((int64_t{input} - 1) * std::max<uint8_t>(input_dilation, 1) + 1),
        pad(padding),
        dilation(std::max<uint8_t>(input_dilation, 1)),
        kernel(k),
        kernel_dilation(k_dilation),
        out(output),
        step(k == 1 ? window_stride : 1),
        stride(k == 1 ? 1 : window_stride) {}

  /// Staged cells that `count` windows see.
  int64_t reach(int64_t count) const { return (count - 1) * stride + (kernel - 1) * kernel_dilation + 1; }
  /// Whether all windows lie in the image and the image is the input.
  bool inside() const { return dilation == 1 && pad <= 0 && (reach(out) - 1) * step - pad < in; }
  /// The cell of the input at a staged cell, or -1.
  int64_t input_at(int64_t staged) const {
    const int64_t at = staged * step - pad;
    return at < 0 || at >= image || at % dilation ? -1 : at / dilation;
  }
};

/// The input of a convolution in the form in which tiles read it: as it is, or staged as factors with all cells that
/// the windows see.
class ByteInput {
 public:
  ByteInput(const npu_cmd_conv &c, const void *in)
      : c_(c),
        y_(c.ih, c.idh, c.pad_t, c.kh, c.dh, c.oh, c.sh),
        x_(c.iw, c.idw, c.pad_l, c.kw, c.dw, c.ow, c.sw),
        in_(static_cast<const char *>(in)),
        pitch_(or_else(c.in_pitch, c.ic)),
        depth_(c.groups > 1 && c.groups == c.ic && c.groups == c.oc),
        staged_(!fits_in_place()) {
    if (!staged_) y_.step = x_.step = 1, y_.stride = c.sh, x_.stride = c.sw;
    cell_ = staged_ ? c.ic * byte_kernels().factor_bytes : pitch_;
    row_ = cell_ * static_cast<size_t>(staged_ ? x_.reach(x_.out) : x_.in);
    image_ = row_ * static_cast<size_t>(staged_ ? y_.reach(y_.out) : y_.in);
    runs_of_row_ = joined(staged_) ? 1 : c.kw;
  }

  /// Whether offsets within a chunk fit into their type, and a chunk into memory.
  bool usable() const {
    return x_.reach(x_.out) < kByteMostStaged / static_cast<int64_t>(cell_) &&
           y_.reach(1) + y_.stride < kByteMostStaged / static_cast<int64_t>(row_) && c_.kh * runs_of_row_ <= kMostRuns;
  }

  /// Whether each channel is by itself.
  bool depth() const { return depth_; }
  /// Bytes from a cell to the next, and from a window to the next of its row.
  size_t cell() const { return cell_; }
  size_t window_step() const { return static_cast<size_t>(x_.stride) * cell_; }

  ByteRuns runs() const {
    ByteRuns r{{}, run_factors(staged_)};
    for (size_t ky = 0; ky < c_.kh; ++ky)
      for (size_t kx = 0; kx < runs_of_row_; ++kx)
        r.offsets.push_back(static_cast<int32_t>(ky * c_.dh * row_ + kx * c_.dw * cell_));
    return r;
  }

  /// Rows of output cells that belong together: of one image, or of several whole ones.
  size_t rows_of_chunk() const {
    const size_t whole = static_cast<size_t>(y_.reach(y_.out)) * row_;
    if (whole <= kByteChunk) return std::max<size_t>(kByteChunk / image_, 1) * c_.oh;
    const size_t band = std::max<size_t>(kByteChunk / (row_ * static_cast<size_t>(y_.stride)), 1);
    return divide_up(c_.oh, divide_up(c_.oh, std::min<size_t>(band, c_.oh)));
  }

  /// Makes rows [first, first + count) of output cells ready, counted through all images.
  void prepare(size_t first, size_t count, ByteRows &rows) const {
    const size_t n = first / c_.oh, oy = first % c_.oh;
    const size_t images = divide_up(count, c_.oh), height = std::min<size_t>(count, c_.oh - oy);
    rows.offsets.resize(images * height * c_.ow);
    int32_t *at = rows.offsets.data();
    for (size_t i = 0; i < images; ++i)
      for (size_t y = 0; y < height; ++y) {
        const auto begin = static_cast<int32_t>(i * image_ + y * static_cast<size_t>(y_.stride) * row_);
        const auto step = static_cast<int32_t>(window_step());
        for (int32_t x = 0; x < static_cast<int32_t>(c_.ow); ++x) *at++ = begin + x * step;
      }
    list_segments(first, count, rows.segments);
    rows.in = staged_ ? stage(n, images, oy, height)
                      : in_ + n * image_ + (oy * c_.sh + static_cast<size_t>(-y_.pad)) * row_ +
                            static_cast<size_t>(-x_.pad) * cell_;
  }

 private:
  static constexpr size_t kMostRuns = size_t{1} << 20;

  bool fits_in_place() const {
    return vnni() && c_.in_dtype == NPU_DTYPE_U8 && y_.inside() && x_.inside() &&
           (depth_ || run_factors(false) % kWordBytes == 0);
  }
  /// Whether the cells of a window's row follow each other without a gap.
  bool joined(bool staged) const {
    return !depth_ && c_.groups == 1 && c_.dw == 1 && x_.step == 1 && (staged || pitch_ == c_.ic);
  }
  size_t run_factors(bool staged) const { return joined(staged) ? size_t{c_.kw} * c_.ic : c_.ic / c_.groups; }

  /// Kernel rows outside of the image are left out where factors there are 0.
  void list_segments(size_t first, size_t count, std::vector<ByteSegment> &list) const {
    list.clear();
    const bool skip = staged_ && input_zero(c_.in_dtype, c_.in_zp) == 0;
    for (size_t r = first; r < first + count; ++r) {
      WindowRange ky{0, c_.kh};
      if (skip) ky = window_range(static_cast<int64_t>(r % c_.oh) * c_.sh - c_.pad_t, c_.dh, c_.kh, y_.image);
      const ByteSegment s{c_.ow, static_cast<size_t>(ky.first) * runs_of_row_,
                          static_cast<size_t>(ky.size()) * runs_of_row_};
      if (!list.empty() && list.back().first_run == s.first_run && list.back().run_count == s.run_count)
        list.back().rows += s.rows;
      else
        list.push_back(s);
    }
  }

  const char *stage(size_t n, size_t images, size_t oy, size_t height) const {
    const int64_t top = static_cast<int64_t>(oy) * y_.stride, end = top + y_.reach(static_cast<int64_t>(height));
    const size_t bytes = images * static_cast<size_t>(end - top) * row_;
    auto *to = static_cast<char *>(ThreadState::current().staged.reserve(bytes + kByteOverread));
    const char *const base = to;
    for (size_t i = n; i < n + images; ++i)
      for (int64_t y = top; y < end; ++y, to += row_) stage_row(i, y, to);
    return base;
  }

  void fill(char *to, size_t bytes) const { std::memset(to, input_zero(c_.in_dtype, c_.in_zp), bytes); }

  void stage_row(size_t n, int64_t y, char *to) const {
    const int64_t from_y = y_.input_at(y);
    if (from_y < 0) return fill(to, row_);
    const ByteKernels &k = byte_kernels();
    const char *from = in_ + (n * c_.ih + static_cast<size_t>(from_y)) * c_.iw * pitch_;
    const int64_t width = x_.reach(x_.out);
    if (x_.step == 1 && x_.dilation == 1 && pitch_ == c_.ic) {
      const int64_t left = std::clamp<int64_t>(x_.pad, 0, width), end = std::clamp(x_.in + x_.pad, left, width);
      const auto cells = [&](int64_t count) { return static_cast<size_t>(count) * cell_; };
      fill(to, cells(left));
      k.stage(c_.in_dtype, c_.in_zp, from + (left - x_.pad) * static_cast<int64_t>(pitch_),
              static_cast<size_t>(end - left) * c_.ic, to + cells(left));
      return fill(to + cells(end), cells(width - end));
    }
    for (int64_t x = 0; x < width; ++x, to += cell_) {
      const int64_t from_x = x_.input_at(x);
      if (from_x < 0)
        fill(to, cell_);
      else
        k.stage(c_.in_dtype, c_.in_zp, from + static_cast<size_t>(from_x) * pitch_, c_.ic, to);
    }
  }

  const npu_cmd_conv &c_;
  ByteAxis y_, x_;
  const char *const in_;
  const size_t pitch_;
  const bool depth_, staged_;
  size_t cell_, row_, image_;  ///< bytes from one to the next
  size_t runs_of_row_;         ///< of the kernel
};

/// Packed weights of a convolution whose channels are by themselves, with the sum of each behind them.
class DepthForm {
 public:
  explicit DepthForm(const npu_cmd_conv &c)
      : channels_(c.oc),
        taps_(size_t{c.kh} * c.kw),
        zero_(weight_zero(c.wgt_dtype, c.wgt_zp)),
        by_columns_(vnni() && zero_ == 0 && c.kw == 3 && c.kh > 1 && c.kh <= factors() && c.dw == 1 && c.sw <= 2) {
    if (by_columns_) {
      for (int32_t x = 0; x < c.kw; ++x)
        for (int32_t y = 0; y < static_cast<int32_t>(factors()); ++y)
          tap_at_.push_back(y < c.kh ? y * c.kw + x : kNone);
      return;
    }
    // Where weights have a zero point, it meets the taps as a factor of its own, or as two where it is none.
    const int copies = zero_ == INT8_MIN ? 3 : zero_ ? 2 : 1;
    for (int i = 0; i < copies; ++i)
      for (size_t t = 0; t < taps_; ++t) tap_at_.push_back(static_cast<int32_t>(t));
    constant_ = -zero_ / std::max(copies - 1, 1);
    tap_at_.resize(divide_up(tap_at_.size(), factors()) * factors(), kNone);
  }

  bool by_columns() const { return by_columns_; }
  size_t channels() const { return channels_; }
  size_t groups() const { return tap_at_.size() / factors(); }
  size_t block_bytes() const { return groups() * block() * kWordBytes; }
  size_t padded() const { return divide_up(channels_, block()) * block(); }
  size_t bytes() const { return packed_bytes() + padded() * sizeof(int32_t); }
  const int32_t *sums(const char *packed) const { return reinterpret_cast<const int32_t *>(packed + packed_bytes()); }

  /// Bytes from a window to the input of each tap.
  std::vector<int32_t> taps_of(const ByteRuns &runs) const {
    std::vector<int32_t> list;
    for (const int32_t t : tap_at_) list.push_back(runs.offsets[t == kNone ? 0 : static_cast<size_t>(t)]);
    return list;
  }

  void pack(uint8_t dtype, int32_t zero, const char *plain, char *packed) const {
    std::memset(packed, 0, bytes());
    auto *sums = reinterpret_cast<int32_t *>(packed + packed_bytes());
    for (size_t channel = 0; channel < channels_; ++channel)
      for (size_t t = 0; t < tap_at_.size(); ++t) {
        if (tap_at_[t] == kNone) continue;
        const bool repeated = !by_columns_ && t >= taps_;
        const uint8_t byte = load_as<uint8_t>(plain, channel * taps_ + static_cast<size_t>(tap_at_[t]));
        const int32_t w = (dtype == NPU_DTYPE_S8 ? static_cast<int8_t>(byte) : byte) - zero;
        if (!repeated) sums[channel] += w;
        put(channel, t, repeated ? constant_ : w + zero_, packed);
      }
  }

  /// A padded vector in the order of registers: four channels stay together.
  template <class T>
  std::vector<T> in_registers(const std::vector<T> &natural) const {
    constexpr size_t kTogether = 4;
    std::vector<T> to(natural.size());
    for (size_t first = 0; first < block(); first += kTogether) {
      const size_t place = byte_kernels().depth_place(first);
      for (size_t i = 0; i < natural.size(); i += block())
        std::copy_n(natural.data() + i + first, kTogether, to.data() + i + place);
    }
    return to;
  }

 private:
  static constexpr int32_t kNone = -1;

  static size_t factors() { return kWordBytes / byte_kernels().factor_bytes; }
  static size_t block() { return byte_kernels().depth_channels; }
  size_t packed_bytes() const { return padded() / block() * block_bytes(); }

  void put(size_t channel, size_t tap, int32_t factor, char *packed) const {
    const size_t word = tap / factors() * block() + byte_kernels().depth_place(channel % block());
    char *to = packed + channel / block() * block_bytes() + word * kWordBytes;
    if (factors() == kWordBytes)
      to[tap % factors()] = static_cast<char>(factor);
    else
      reinterpret_cast<int16_t *>(to)[tap % factors()] = static_cast<int16_t>(factor);
  }

  const size_t channels_, taps_;
  const int32_t zero_;  ///< of the factors
  const bool by_columns_;
  int32_t constant_ = 0;
  std::vector<int32_t> tap_at_;  ///< the tap at each place of the words
};

/// A convolution by columns of weights, group by group.
class GroupConv {
 public:
  GroupConv(const npu_cmd_conv &c, const ByteInput &input)
      : c_(c),
        runs_(input.runs()),
        ocg_(c.oc / c.groups),
        zero_(weight_zero(c.wgt_dtype, c.wgt_zp)),
        form_{ocg_, runs_.offsets.size(), runs_.factors} {}

  BytePacking packing() const {
    const auto number = [](size_t x) { return static_cast<int64_t>(x); };
    return {
        {kByteConv, c_.wgt_dtype, c_.wgt_zp, c_.groups, number(ocg_), number(form_.runs), number(form_.run_factors)},
        c_.groups * form_.bytes(),
        [this](const char *plain, char *packed) {
          const size_t terms = form_.runs * form_.run_factors;
          for (size_t g = 0; g < c_.groups; ++g)
            form_.pack(c_.wgt_dtype, c_.wgt_zp, plain + g * ocg_ * terms, terms, 1, packed + g * form_.bytes());
        }};
  }
  void begin(const char *weights, const ProductParams &params, const ByteEpilogue &epilogue) {
    weights_ = weights;
    start_.resize(c_.groups * padded());
    multipliers_.resize(params.multiplier ? c_.groups * padded() : 0);
    const int32_t in_zero = input_zero(c_.in_dtype, c_.in_zp);
    const uint32_t constant = static_cast<uint32_t>(in_zero) * static_cast<uint32_t>(zero_) *
                              static_cast<uint32_t>(form_.runs * form_.run_factors);
    for (size_t g = 0; g < c_.groups; ++g) {
      start_accumulators(params.bias, g * ocg_, ocg_, form_.sums(weights + g * form_.bytes()), in_zero, constant,
                         start_.data() + g * padded());
      if (params.multiplier)
        std::copy_n(epilogue.multipliers().data() + g * ocg_, ocg_, multipliers_.data() + g * padded());
    }
  }
  void run(ByteRows &rows, const BytePlaces &places, const ByteEpilogue &epilogue) const {
    const char *const in = rows.in;
    for (size_t g = 0; g < c_.groups; ++g) {
      rows.in = in + g * (c_.ic / c_.groups) * byte_kernels().factor_bytes;
      BytePlaces of_group = places;
      of_group.out += g * ocg_ * epilogue.tile_element();
      if (places.psum) of_group.psum += g * ocg_ * kWordBytes;
      const ByteColumns columns{weights_ + g * form_.bytes(),
                                form_.block_bytes(),
                                ocg_,
                                start_.data() + g * padded(),
                                multipliers_.empty() ? nullptr : multipliers_.data() + g * padded(),
                                zero_};
      multiply(rows, runs_, columns, of_group, epilogue);
    }
  }

 private:
  size_t padded() const { return form_.blocks() * kByteBlock; }

  const npu_cmd_conv &c_;
  const ByteRuns runs_;
  const size_t ocg_;
  const int32_t zero_;
  const ColumnForm form_;
  const char *weights_ = nullptr;
  std::vector<int32_t> start_;
  std::vector<float> multipliers_;
};

/// A convolution whose channels are by themselves.
class DepthConv {
 public:
  DepthConv(const npu_cmd_conv &c, const ByteInput &input)
      : c_(c), input_(input), form_(c), taps_(form_.taps_of(input.runs())) {}

  BytePacking packing() const {
    return {{kByteDepthConv, c_.wgt_dtype, c_.wgt_zp, c_.oc, c_.kh, c_.kw, form_.by_columns()},
            form_.bytes(),
            [this](const char *plain, char *packed) { form_.pack(c_.wgt_dtype, c_.wgt_zp, plain, packed); }};
  }
  void begin(const char *weights, const ProductParams &params, const ByteEpilogue &epilogue) {
    weights_ = weights;
    std::vector<int32_t> start(form_.padded());
    start_accumulators(params.bias, 0, c_.oc, form_.sums(weights), input_zero(c_.in_dtype, c_.in_zp), 0, start.data());
    start_ = form_.in_registers(start);
    if (!params.multiplier) return;
    std::vector<float> multipliers(epilogue.multipliers());
    multipliers.resize(form_.padded());
    multipliers_ = form_.in_registers(multipliers);
  }
  void run(const ByteRows &rows, const BytePlaces &places, const ByteEpilogue &epilogue) const {
    const ByteKernels &k = byte_kernels();
    for (size_t first = 0; first < form_.channels(); first += k.depth_channels) {
      const ByteDepth d{rows.in + first * k.factor_bytes,
                        rows.offsets.data(),
                        rows.offsets.size(),
                        taps_.data(),
                        form_.groups(),
                        form_.by_columns() ? c_.ow : 0,
                        input_.window_step(),
                        input_.cell(),
                        weights_ + first / k.depth_channels * form_.block_bytes(),
                        start_.data() + first,
                        multipliers_.empty() ? nullptr : multipliers_.data() + first,
                        places.psum ? places.psum + first * kWordBytes : nullptr,
                        places.psum_pitch,
                        &epilogue.result(),
                        places.out + first * epilogue.tile_element(),
                        places.out_pitch,
                        std::min(k.depth_channels, form_.channels() - first)};
      k.depth(d);
    }
  }

 private:
  const npu_cmd_conv &c_;
  const ByteInput &input_;
  const DepthForm form_;
  const std::vector<int32_t> taps_;
  const char *weights_ = nullptr;
  std::vector<int32_t> start_;
  std::vector<float> multipliers_;
};

template <class Conv>
bool run_conv(PackedCache &cache, const npu_cmd_conv &c, const ByteInput &input, const Streamed &wgt,
              const ProductParams &params, const void *psum, void *out) {
  const ByteEpilogue epilogue(c, c.oc, params);
  Conv conv(c, input);
  ByteWeights w;
  if (!find_weights(cache, conv.packing(), wgt, 0, w)) return false;
  conv.begin(w.data, params, epilogue);
  const ByteOutput output(epilogue, out, psum, 0, or_else(c.out_pitch, c.oc));
  ByteRows rows;
  const size_t all = size_t{c.n} * c.oh, step = input.rows_of_chunk();
  for (size_t first = 0, count; first < all; first += count) {
    count = std::min(step, step >= c.oh ? all - first : c.oh - first % c.oh);
    input.prepare(first, count, rows);
    const size_t at = first * c.ow, cells = count * c.ow;
    const BytePlaces places = output.places(epilogue, at, cells, c.oc);
    conv.run(rows, places, epilogue);
    output.finish(epilogue, at, cells, places);
  }
  return true;
}

}  // namespace

bool Onednn::run_bytes(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                       const void *psum, void *out) {
  if (byte_kernels().factor_bytes == 0) return Reference::run(c, in, wgt, params, psum, out);
  const ByteInput input(c, in);
  if (!input.usable()) return Reference::run(c, in, wgt, params, psum, out);
  return input.depth() ? run_conv<DepthConv>(packed_, c, input, wgt, params, psum, out)
                       : run_conv<GroupConv>(packed_, c, input, wgt, params, psum, out);
}

}  // namespace npu::model
