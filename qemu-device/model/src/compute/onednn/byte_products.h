// SPDX-License-Identifier: MIT
// What CONV and MATMUL of 8 bits share. Inputs are brought into a form in which each window is some runs of factors,
// chunk by chunk, so that they stay in the second-level cache; tiles of some rows (pixels) by some blocks of output
// channels follow.
//
// With VNNI factors are u8 and s8 whatever the types are: x' = x or x + 128, w' = w or w - 128, and their zero points
// move along. Then
//   sum (x - x_zero) (w - w_zero) = sum x' w' - x_zero' sum w' - w_zero' sum x' + terms x_zero' w_zero'
// holds modulo 2^32 if cells outside of the image are x_zero'. Without VNNI factors are x - x_zero and w - w_zero
// themselves.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_BYTE_PRODUCTS_H
#define NPU_MODEL_COMPUTE_ONEDNN_BYTE_PRODUCTS_H

#include <functional>
#include <memory>
#include <vector>

#include "npu_arith.hpp"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/onednn/byte_kernels.h"
#include "qemu-device/model/src/compute/onednn/geometry.h"
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

namespace npu::model {

inline constexpr size_t kByteChunk = size_t{128} << 10;  ///< bytes of inputs that many tiles read
/// Bytes of a chunk: beyond, and in shapes that have no smaller one, the reference computes.
inline constexpr int64_t kByteMostStaged = int64_t{256} << 20;

inline size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

inline bool vnni() { return byte_kernels().factor_bytes == 1; }

/// The zero points of factors.
inline int32_t input_zero(uint8_t dtype, int32_t zero) {
  if (!vnni()) return 0;
  return dtype == NPU_DTYPE_S8 ? zero + 128 : zero;
}
inline int32_t weight_zero(uint8_t dtype, int32_t zero) {
  if (!vnni()) return 0;
  return dtype == NPU_DTYPE_U8 ? zero - 128 : zero;
}

/// What becomes of the accumulators of a command.
class ByteEpilogue {
 public:
  template <class Cmd>
  ByteEpilogue(const Cmd &c, size_t channels, const ProductParams &params)
      : channels_(channels), act_(c.act), dtype_(c.out_dtype), act_a_(c.act_a), act_b_(c.act_b), zero_(c.out_zp) {
    if (params.multiplier) multiply_by(params.multiplier);
  }

  const ByteResult &result() const { return form_; }
  /// Padded to whole blocks; empty where the result is the accumulators.
  const std::vector<float> &multipliers() const { return multipliers_; }
  /// Bytes of an element of the result, and of one as the tiles write it.
  size_t element() const { return hw::arith::dtype_bytes(dtype_); }
  size_t tile_element() const { return form_.form == ByteResult::Bytes ? 1 : sizeof(float); }
  /// Whether tiles write floats to a buffer, of which finish() makes the result.
  bool detour() const { return detour_; }

  /// What is left to do for rows that the tiles have written; `floats` is the buffer, or the result itself.
  void finish(float *floats, size_t rows, size_t floats_pitch, char *out, size_t out_pitch) const;

 private:
  void multiply_by(const void *multipliers);
  void try_bytes();

  const size_t channels_;
  const uint8_t act_, dtype_;
  const float act_a_, act_b_;
  const int32_t zero_;
  ByteResult form_;
  bool detour_ = false;
  std::vector<float> multipliers_;
};

/// Rows one after the other that need the same runs.
struct ByteSegment {
  size_t rows, first_run, run_count;
};

/// Rows of a chunk as tiles read them.
struct ByteRows {
  const char *in = nullptr;
  std::vector<int32_t> offsets;  ///< of each row's first factor
  std::vector<ByteSegment> segments;
};

/// The runs of all rows.
struct ByteRuns {
  std::vector<int32_t> offsets;
  size_t factors = 0;  ///< of each

  /// Words of one.
  size_t words() const { return divide_up(factors * byte_kernels().factor_bytes, kWordBytes); }
};

/// Where the results of a chunk's rows go.
struct BytePlaces {
  const char *psum;
  size_t psum_pitch;
  char *out;
  size_t out_pitch;
};

/// A command's results: an element is a row's by a channel's place.
struct ByteOutput {
  char *out;
  size_t pitch;  ///< bytes, of a row
  const char *psum;
  size_t psum_pitch;

  ByteOutput(const ByteEpilogue &epilogue, void *result, const void *sums, size_t first, size_t elements)
      : out(static_cast<char *>(result) + first * epilogue.element()),
        pitch(elements * epilogue.element()),
        psum(sums ? static_cast<const char *>(sums) + first * kWordBytes : nullptr),
        psum_pitch(elements * kWordBytes) {}

  /// Where tiles write `rows` rows from the `first` on.
  BytePlaces places(const ByteEpilogue &epilogue, size_t first, size_t rows, size_t channels) const;
  void finish(const ByteEpilogue &epilogue, size_t first, size_t rows, const BytePlaces &places) const;
};

/// Output channels that meet the same rows.
struct ByteColumns {
  const char *weights;
  size_t block_bytes;  ///< of packed weights
  size_t count;
  const int32_t *start;
  const float *multipliers;  ///< null where the result has none
  int32_t zero;              ///< of the factors
};

void multiply(const ByteRows &rows, const ByteRuns &runs, const ByteColumns &columns, const BytePlaces &places,
              const ByteEpilogue &epilogue);

/// Packed weights of some columns, with the sum of each behind them.
struct ColumnForm {
  size_t columns, runs, run_factors;

  size_t blocks() const { return divide_up(columns, kByteBlock); }
  size_t words() const { return runs * divide_up(run_factors * byte_kernels().factor_bytes, kWordBytes); }
  size_t block_bytes() const { return words() * kByteBlock * kWordBytes; }
  size_t bytes() const { return blocks() * (block_bytes() + kByteBlock * sizeof(int32_t)); }
  const int32_t *sums(const char *packed) const {
    return reinterpret_cast<const int32_t *>(packed + blocks() * block_bytes());
  }

  /// Weight (channel, term) is element channel * channel_step + term * term_step.
  void pack(uint8_t dtype, int32_t zero, const char *plain, size_t channel_step, size_t term_step, char *packed) const;
};

/// What the accumulators of channels [first, first + count) begin with: `sums` are those of their weights.
void start_accumulators(const void *bias, size_t first, size_t count, const int32_t *sums, int32_t in_zero,
                        uint32_t constant, int32_t *start);

/// Forms of packed weights, the first word of their layouts: those of oneDNN begin with a number of dimensions.
enum ByteForm : int64_t { kByteConv = 1000, kByteDepthConv, kByteMatmul };

/// How to pack weights: `layout` names the form, which takes so many bytes.
struct BytePacking {
  Layout layout;
  size_t bytes;
  std::function<void(const char *plain, char *packed)> pack;
};

/// Packed weights for one command: a shared copy of constant ones or the thread's own of the others.
struct ByteWeights {
  PackedCache::Ref shared;
  const char *data = nullptr;
};

/// Fetches only where no copy exists. `part` is the first element. False: could not be fetched.
bool find_weights(PackedCache &cache, const BytePacking &packing, const Streamed &source, uint64_t part,
                  ByteWeights &w);

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_BYTE_PRODUCTS_H
