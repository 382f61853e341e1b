// SPDX-License-Identifier: MIT
// Products of 8-bit integers on vectors: accumulators of 32 bits, exact modulo 2^32, and what becomes of them. oneDNN's
// own primitives round where the chip does not (they add the zero point before they round, and the bias as a float) and
// saturate pairs of products on CPUs without VNNI.
//
// Factors of inputs and weights are multiplied in words of four bytes: with VNNI four u8 by four s8, the zero points
// accounted for elsewhere; otherwise two s16 each, zero points subtracted. Output channels come in blocks of
// kByteBlock. The cells of a window come in runs of factors that follow each other in the input.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_BYTE_KERNELS_H
#define NPU_MODEL_COMPUTE_ONEDNN_BYTE_KERNELS_H

#include <cstddef>
#include <cstdint>

namespace npu::model {

inline constexpr size_t kByteBlock = 16;      ///< output channels
inline constexpr size_t kWordBytes = 4;       ///< factors that are multiplied by one instruction
inline constexpr size_t kByteMaxBlocks = 4;   ///< of a tile
inline constexpr size_t kByteOverread = 128;  ///< readable bytes behind staged factors and packed weights

/// What becomes of accumulators.
struct ByteResult {
  enum Form : uint8_t {
    Words,   ///< s32 as they are
    Floats,  ///< f32(acc) * multiplier
    Bytes,   ///< that, through `slope`, `low` and `high`, rounded, plus `zero`, saturated to u8 (s8 if is_signed)
  };
  Form form = Words;
  bool is_signed = false;
  bool adjust = false;  ///< whether slope, low and high change anything
  float slope = 1;      ///< factor of values below 0
  float low = 0, high = 0;
  int32_t zero = 0;
};

/// Some rows of the input (pixels) by some blocks of output channels.
struct ByteTile {
  const char *in;
  const int32_t *rows;       ///< bytes from `in` to the first factor of each row
  const int32_t *runs;       ///< bytes from there to the first factor of each run
  size_t run_count, words;   ///< words of a run; what its last one holds too much meets weights of 0
  const char *weights;       ///< of the first block: [run][word][kByteBlock][kWordBytes]
  size_t weight_step;        ///< bytes to the next block
  const int32_t *start;      ///< what accumulators begin with, one for each channel of the blocks
  const int32_t *row_start;  ///< null, or what each row adds to that
  const char *psum;          ///< null, or what each element adds to that; may be `out`
  size_t psum_pitch;         ///< bytes to the next row
  const float *multipliers;  ///< one for each channel of the blocks, where the result has them
  const ByteResult *result;
  char *out;
  size_t out_pitch;  ///< bytes to the next row
  size_t channels;   ///< of the result
};

/// Channels that each meet their own weights only, one block of them for some rows.
struct ByteDepth {
  const char *in;
  const int32_t *rows;
  size_t row_count;
  const int32_t *taps;       ///< bytes from a row's first factor to that of each tap of the window
  size_t tap_groups;         ///< of as many taps as a word has factors
  size_t windows;            ///< 0, or the rows are so many windows beside each other, of three columns, a group each;
  size_t window_step, cell;  ///< these are one or two cells apart; bytes
  const char *weights;       ///< [tap group][register][vector of words]
  const int32_t *start;      ///< in the order of registers, as the multipliers
  const float *multipliers;
  const char *psum;
  size_t psum_pitch;
  const ByteResult *result;
  char *out;
  size_t out_pitch;
  size_t channels;
};

/// Weights as they are in memory. Either the terms of a channel follow each other or the channels of a term do.
struct PlainWeights {
  uint8_t dtype;
  int32_t zero;
  const void *first;
  size_t channels;      ///< those that the last block has too much are 0
  size_t channel_step;  ///< elements from one to the next
  size_t runs, run_factors;
  size_t term_step;
  size_t block_bytes;  ///< of packed weights
};

/// The loops that are compiled once for each kind of CPU.
struct ByteKernels {
  size_t factor_bytes;                    ///< 1 or 2; 0: this CPU has none of these loops
  size_t max_rows[kByteMaxBlocks + 1];    ///< of a tile, by its number of blocks; 0: there is no such tile
  size_t depth_channels;                  ///< of a block of ByteDepth
  size_t (*depth_place)(size_t channel);  ///< of a block: where its word is among the registers
  void (*tile)(const ByteTile &t, size_t rows, size_t blocks);
  void (*depth)(const ByteDepth &d);
  /// Elements of the input as factors.
  void (*stage)(uint8_t dtype, int32_t zero, const void *from, size_t count, void *to);
  /// Weights as factors in words.
  void (*pack)(const PlainWeights &w, void *to);
  /// sums[channel] = sum of the packed weights of a block.
  void (*sum)(const void *packed, size_t words, int32_t *sums);
  /// sums[row] = scale * sum of a row's factors in all runs.
  void (*sum_rows)(const char *in, const int32_t *rows, size_t row_count, const int32_t *runs, size_t run_count,
                   size_t run_factors, int32_t scale, int32_t *sums);
};

extern const ByteKernels kByteKernelsBaseline;
extern const ByteKernels kByteKernelsAvx2;
extern const ByteKernels kByteKernelsAvx512;
extern const ByteKernels kByteKernelsVnni;
/// The table for the host's CPU.
const ByteKernels &byte_kernels();

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_BYTE_KERNELS_H
