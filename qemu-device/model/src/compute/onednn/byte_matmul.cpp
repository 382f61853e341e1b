// SPDX-License-Identifier: MIT
// MATMUL of 8 bits.
#include <algorithm>

#include "qemu-device/model/src/compute/onednn/byte_products.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

/// A command with all its strides, and the batch joined where it is one product with more rows.
struct ByteMatmulPlan {
  bool trans;
  size_t m, k, n, products;
  size_t a_row, b_row, out_row, out_batch;  // elements
  bool in_place;
  size_t row;  // bytes from one row to the next, as tiles read them
  size_t chunk_rows;

  explicit ByteMatmulPlan(const npu_cmd_matmul &c)
      : trans(c.flags & NPU_CONV_TRANS_B),
        m(c.m),
        k(c.k),
        n(c.n),
        products(c.batch),
        a_row(or_else(c.a_row_stride, c.k)),
        b_row(or_else(c.b_row_stride, trans ? c.k : c.n)),
        out_row(or_else(c.out_row_stride, c.n)),
        out_batch(or_else(c.out_batch_stride, m * out_row)),
        in_place(vnni() && c.in_dtype == NPU_DTYPE_U8 && k % kWordBytes == 0),
        row(in_place ? a_row : divide_up(k * byte_kernels().factor_bytes, kWordBytes) * kWordBytes) {
    // A batch with one B is one product with more rows, if the As follow each other.
    if (c.b_batch_stride == 0 && c.a_batch_stride == m * a_row && out_batch == m * out_row) {
      m *= products;
      products = 1;
    }
    constexpr size_t kFewest = 32;  // rows, for few of which columns are not read again
    chunk_rows = std::min(std::max(kByteChunk / row, kFewest), m);
  }
  bool usable() const { return row * chunk_rows < static_cast<size_t>(kByteMostStaged); }
};

/// Rows [first, first + count) of A as tiles read them.
void prepare(const npu_cmd_matmul &c, const ByteMatmulPlan &p, const char *a, size_t first, size_t count,
             ByteRows &rows) {
  rows.in = a + first * p.a_row;
  if (!p.in_place) {
    auto *to = static_cast<char *>(ThreadState::current().staged.reserve(count * p.row + kByteOverread));
    rows.in = to;
    for (size_t r = first; r < first + count; ++r, to += p.row)
      byte_kernels().stage(c.in_dtype, c.in_zp, a + r * p.a_row, p.k, to);
  }
  rows.offsets.resize(count);
  for (size_t r = 0; r < count; ++r) rows.offsets[r] = static_cast<int32_t>(r * p.row);
  rows.segments = {{count, 0, 1}};
}

}  // namespace

bool Onednn::run_bytes(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                       const void *psum, void *out) {
  if (byte_kernels().factor_bytes == 0) return Reference::run(c, in, wgt, params, psum, out);
  const ByteMatmulPlan p(c);
  if (!p.usable()) return Reference::run(c, in, wgt, params, psum, out);
  const ByteEpilogue epilogue(c, p.n, params);
  const ColumnForm form{p.n, 1, p.k};
  const BytePacking packing{{kByteMatmul, c.wgt_dtype, c.wgt_zp, c.n, c.k, p.trans, static_cast<int64_t>(p.b_row)},
                            form.bytes(),
                            [&](const char *plain, char *packed) {
                              form.pack(c.wgt_dtype, c.wgt_zp, plain, p.trans ? p.b_row : 1, p.trans ? 1 : p.b_row,
                                        packed);
                            }};
  const int32_t in_zero = input_zero(c.in_dtype, c.in_zp), zero = weight_zero(c.wgt_dtype, c.wgt_zp);
  const uint32_t constant = static_cast<uint32_t>(in_zero) * static_cast<uint32_t>(zero) * c.k;
  const ByteRuns runs{{0}, p.k};
  std::vector<int32_t> start(form.blocks() * kByteBlock);
  ByteWeights w;
  ByteRows rows;
  for (size_t batch = 0; batch < p.products; ++batch) {
    if (batch == 0 || c.b_batch_stride) {
      if (!find_weights(packed_, packing, wgt, batch * c.b_batch_stride, w)) return false;
      start_accumulators(params.bias, 0, p.n, form.sums(w.data), in_zero, constant, start.data());
    }
    const ByteColumns columns{
        w.data, form.block_bytes(), p.n, start.data(), params.multiplier ? epilogue.multipliers().data() : nullptr,
        zero};
    const char *a = static_cast<const char *>(in) + batch * c.a_batch_stride;
    const ByteOutput output(epilogue, out, psum, batch * p.out_batch, p.out_row);
    for (size_t first = 0, count; first < p.m; first += count) {
      count = std::min(p.chunk_rows, p.m - first);
      prepare(c, p, a, first, count, rows);
      const BytePlaces places = output.places(epilogue, first, count, p.n);
      multiply(rows, runs, columns, places, epilogue);
      output.finish(epilogue, first, count, places);
    }
  }
  return true;
}

}  // namespace npu::model
