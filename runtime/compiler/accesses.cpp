// SPDX-License-Identifier: MIT
#include "accesses.h"

#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

using hw::cost_detail::dtype_bytes;

int64_t product(std::initializer_list<uint64_t> factors) {
  uint64_t n = 1;
  for (uint64_t f : factors) n *= f;
  return static_cast<int64_t>(n);
}

class Collector {
 public:
  std::vector<Access> list;

  void range(uint8_t region, uint64_t base, int64_t bytes, bool write) {
    list.push_back({region, write, static_cast<int64_t>(base), static_cast<int64_t>(base) + bytes});
  }
  void local(uint32_t base, int64_t bytes, bool write) { range(NPU_REGION_LOCAL, base, bytes, write); }

  template <class D, class S, size_t N>
  void strided(uint8_t region, uint64_t base, const D (&dims)[N], const S (&strides)[N], uint32_t size, bool write) {
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < N; ++i) {
      const int64_t reach = (static_cast<int64_t>(dims[i]) - 1) * static_cast<int64_t>(strides[i]) * size;
      (reach < 0 ? low : high) += reach;
    }
    const auto at = static_cast<int64_t>(base);
    list.push_back({region, write, at + low, at + high + size});
  }

  void conv(const npu_cmd_conv &c) {
    const int64_t out = product({c.n, c.oh, c.ow, c.oc, 4});
    local(c.in_addr, product({c.n, c.ih, c.iw, c.ic, 4}), false);
    range(c.wgt_region, c.wgt_offset, product({c.oc, c.kh, c.kw, c.ic / c.groups, 4}), false);
    if (c.flags & NPU_CONV_BIAS) range(c.param_region, c.param_offset, product({c.oc, 4}), false);
    if (c.flags & NPU_CONV_PSUM_IN) local(c.psum_addr, out, false);
    local(c.out_addr, out, true);
  }

  void matmul(const npu_cmd_matmul &c) {
    const int64_t out = product({c.batch, c.m, c.n, 4});
    local(c.in_addr, product({c.batch - 1, c.a_batch_stride, 4}) + product({c.m, c.k, 4}), false);
    range(c.wgt_region, c.wgt_offset, product({c.batch - 1, c.b_batch_stride, 4}) + product({c.k, c.n, 4}), false);
    if (c.flags & NPU_CONV_BIAS) range(c.param_region, c.param_offset, product({c.n, 4}), false);
    if (c.flags & NPU_CONV_PSUM_IN) local(c.psum_addr, out, false);
    local(c.out_addr, out, true);
  }

  void eltwise(const npu_cmd_eltwise &c) {
    strided(NPU_REGION_LOCAL, c.a_addr, c.dims, c.a_stride, 4, false);
    if (!(c.flags & NPU_ELTWISEF_B_IMM)) strided(NPU_REGION_LOCAL, c.b_addr, c.dims, c.b_stride, 4, false);
    local(c.out_addr, product({c.dims[0], c.dims[1], c.dims[2], c.dims[3], c.dims[4], 4}), true);
  }
};

}  // namespace

std::vector<Access> accesses_of(const uint8_t (&bytes)[NPU_CMD_BYTES]) {
  Collector a;
  switch (bytes[0]) {
    case NPU_OP_CONV:
      a.conv(hw::decode<npu_cmd_conv>(bytes));
      break;
    case NPU_OP_MATMUL:
      a.matmul(hw::decode<npu_cmd_matmul>(bytes));
      break;
    case NPU_OP_POOL: {
      const auto c = hw::decode<npu_cmd_pool>(bytes);
      a.local(c.in_addr, product({c.n, c.ih, c.iw, c.c, 4}), false);
      a.local(c.out_addr, product({c.n, c.oh, c.ow, c.c, 4}), true);
      break;
    }
    case NPU_OP_ELTWISE:
      a.eltwise(hw::decode<npu_cmd_eltwise>(bytes));
      break;
    case NPU_OP_UNARY: {
      const auto c = hw::decode<npu_cmd_unary>(bytes);
      a.local(c.in_addr, product({c.count, 4}), false);
      a.local(c.out_addr, product({c.count, 4}), true);
      break;
    }
    case NPU_OP_SOFTMAX: {
      const auto c = hw::decode<npu_cmd_softmax>(bytes);
      a.local(c.in_addr, product({c.rows, c.cols, 4}), false);
      a.local(c.out_addr, product({c.rows, c.cols, 4}), true);
      break;
    }
    case NPU_OP_COPY: {
      const auto c = hw::decode<npu_cmd_copy>(bytes);
      a.strided(c.src_region, c.src_offset, c.dims, c.src_stride, dtype_bytes(c.src_dtype), false);
      a.strided(c.dst_region, c.dst_offset, c.dims, c.dst_stride, dtype_bytes(c.dst_dtype), true);
      break;
    }
    case NPU_OP_FILL: {
      const auto c = hw::decode<npu_cmd_fill>(bytes);
      a.strided(c.dst_region, c.dst_offset, c.dims, c.dst_stride, dtype_bytes(c.dst_dtype), true);
      break;
    }
    default:
      break;
  }
  return std::move(a.list);
}

}  // namespace npu::compiler
