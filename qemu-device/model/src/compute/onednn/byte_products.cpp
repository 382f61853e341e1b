// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/compute/onednn/byte_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/operation.h"

namespace npu::model {

void ByteEpilogue::multiply_by(const void *multipliers) {
  form_.form = ByteResult::Floats;
  multipliers_.resize(divide_up(channels_, kByteBlock) * kByteBlock);
  std::memcpy(multipliers_.data(), multipliers, channels_ * sizeof(float));
  if (!is_float(dtype_)) try_bytes();
  detour_ = form_.form == ByteResult::Floats && dtype_ != NPU_DTYPE_F32;
}

// Rounds in the tiles, if no NaN can arise. The activation and the type's range become one clamp of the value.
void ByteEpilogue::try_bytes() {
  const float largest = kernels().largest(multipliers_.data(), multipliers_.size());
  if (!(largest < 0x1p90f)) return;
  if (act_ == NPU_ACT_LEAKY_RELU && !std::isfinite(act_a_)) return;
  const bool is_signed = dtype_ == NPU_DTYPE_S8;
  const auto bottom = static_cast<float>((is_signed ? INT8_MIN : 0) - zero_);
  const auto top = static_cast<float>((is_signed ? INT8_MAX : UINT8_MAX) - zero_);
  float low = -INFINITY, high = INFINITY;
  if (act_ == NPU_ACT_RELU) low = 0;
  if (act_ == NPU_ACT_CLIP) low = act_a_, high = act_b_;
  form_ = {ByteResult::Bytes, is_signed, false, 1, std::clamp(low, bottom, top), std::clamp(high, bottom, top), zero_};
  if (act_ == NPU_ACT_LEAKY_RELU) form_.slope = act_a_;
  // Values below 2^31 are rounded to what saturates by itself.
  form_.adjust = act_ == NPU_ACT_LEAKY_RELU || low > bottom || high < top || largest >= 1;
}

void ByteEpilogue::finish(float *floats, size_t rows, size_t floats_pitch, char *out, size_t out_pitch) const {
  if (form_.form != ByteResult::Floats) return;
  if (act_ != NPU_ACT_NONE) {
    const bool dense = floats_pitch == channels_;
    for (size_t r = 0; r < (dense ? 1 : rows); ++r) {
      float *row = floats + r * floats_pitch;
      kernels().activate(act_, act_a_, act_b_, row, row, dense ? rows * channels_ : channels_);
    }
  }
  if (!detour_) return;
  for (size_t r = 0; r < rows; ++r) {
    const float *row = floats + r * floats_pitch;
    if (is_float(dtype_))
      store_numbers({dtype_, 0, 0}, row, channels_, out + r * out_pitch);
    else
      store_rounded(dtype_, zero_, row, channels_, out + r * out_pitch);
  }
}

BytePlaces ByteOutput::places(const ByteEpilogue &epilogue, size_t first, size_t rows, size_t channels) const {
  BytePlaces p{psum ? psum + first * psum_pitch : nullptr, psum_pitch, out + first * pitch, pitch};
  if (!epilogue.detour()) return p;
  p.out_pitch = channels * sizeof(float);
  p.out = static_cast<char *>(ThreadState::current().results.reserve(rows * p.out_pitch));
  return p;
}

void ByteOutput::finish(const ByteEpilogue &epilogue, size_t first, size_t rows, const BytePlaces &places) const {
  epilogue.finish(reinterpret_cast<float *>(places.out), rows, places.out_pitch / sizeof(float), out + first * pitch,
                  pitch);
}

void multiply(const ByteRows &rows, const ByteRuns &runs, const ByteColumns &columns, const BytePlaces &places,
              const ByteEpilogue &epilogue) {
  const ByteKernels &k = byte_kernels();
  const size_t words = runs.words(), word_bytes = kByteBlock * kWordBytes;
  std::vector<int32_t> row_start;
  if (columns.zero) {
    row_start.resize(rows.offsets.size());
    k.sum_rows(rows.in, rows.offsets.data(), rows.offsets.size(), runs.offsets.data(), runs.offsets.size(),
               runs.factors, -columns.zero, row_start.data());
  }
  const size_t wide = rows.offsets.size() <= k.max_rows[4] ? 4 : k.max_rows[2] ? 2 : 1;
  for (size_t first = 0, blocks; first < columns.count; first += blocks * kByteBlock) {
    const size_t left = columns.count - first;
    blocks = wide;
    while (blocks > divide_up(left, kByteBlock)) blocks /= 2;
    const size_t most = k.max_rows[blocks];
    size_t row = 0;
    for (const ByteSegment &s : rows.segments) {
      const size_t end = row + s.rows;
      for (size_t parts = divide_up(s.rows, most), count; row < end; row += count, --parts) {
        count = divide_up(end - row, parts);
        const ByteTile tile{
            rows.in,
            rows.offsets.data() + row,
            runs.offsets.data() + s.first_run,
            s.run_count,
            words,
            columns.weights + first / kByteBlock * columns.block_bytes + s.first_run * words * word_bytes,
            columns.block_bytes,
            columns.start + first,
            columns.zero ? row_start.data() + row : nullptr,
            places.psum ? places.psum + row * places.psum_pitch + first * kWordBytes : nullptr,
            places.psum_pitch,
            columns.multipliers ? columns.multipliers + first : nullptr,
            &epilogue.result(),
            places.out + row * places.out_pitch + first * epilogue.tile_element(),
            places.out_pitch,
            std::min(left, blocks * kByteBlock)};
        k.tile(tile, count, blocks);
      }
    }
  }
}

void ColumnForm::pack(uint8_t dtype, int32_t zero, const char *plain, size_t channel_step, size_t term_step,
                      char *packed) const {
  const ByteKernels &k = byte_kernels();
  auto *sums = reinterpret_cast<int32_t *>(packed + blocks() * block_bytes());
  k.pack({dtype, zero, plain, columns, channel_step, runs, run_factors, term_step, block_bytes()}, packed);
  for (size_t b = 0; b < blocks(); ++b) k.sum(packed + b * block_bytes(), words(), sums + b * kByteBlock);
}

void start_accumulators(const void *bias, size_t first, size_t count, const int32_t *sums, int32_t in_zero,
                        uint32_t constant, int32_t *start) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t x = constant - static_cast<uint32_t>(in_zero) * static_cast<uint32_t>(sums[i]);
    if (bias) x += static_cast<uint32_t>(load_as<int32_t>(bias, first + i));
    start[i] = static_cast<int32_t>(x);
  }
}

bool find_weights(PackedCache &cache, const BytePacking &packing, const Streamed &source, uint64_t part,
                  ByteWeights &w) {
  const PackedKey key{source.asid, source.va, source.bytes, part, std::make_shared<const Layout>(packing.layout)};
  ThreadState &thread = ThreadState::current();
  if (source.constant && (w.shared = cache.find(key))) {
    w.data = static_cast<const char *>(w.shared->data.get());
    return true;
  }
  if (!source.constant && thread.own.holds(source.serial, part, packing.layout)) {
    w.data = static_cast<const char *>(thread.packed.data());
    return true;
  }
  const uint64_t ticket = source.constant ? cache.ticket(source.asid) : 0;
  const auto *plain = static_cast<const char *>(source.fetch(source.arg));
  if (!plain) return false;
  plain += part;
  if (!source.constant) {
    auto *own = static_cast<char *>(thread.packed.reserve(packing.bytes));
    packing.pack(plain, own);
    thread.own = {source.serial, part, key.layout, 0};
    w.data = own;
    return true;
  }
  const auto fresh = std::make_shared<Packed>(cache.allocate(packing.bytes), packing.bytes);
  packing.pack(plain, static_cast<char *>(fresh->data.get()));
  cache.insert(key, fresh, ticket);
  w.shared = fresh;
  w.data = static_cast<const char *>(fresh->data.get());
  return true;
}

}  // namespace npu::model
