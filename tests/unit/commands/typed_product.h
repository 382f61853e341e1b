// SPDX-License-Identifier: MIT
// CONV and MATMUL of all types: random legal commands with their operands, and their results by loops that know only
// docs/reference/hardware.md.
#ifndef NPU_TESTS_COMMANDS_TYPED_PRODUCT_H
#define NPU_TESTS_COMMANDS_TYPED_PRODUCT_H

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {

/// A product with its operands. `psum` has its accumulators where the result has its elements.
template <class Cmd>
struct TypedProduct {
  Cmd c = hw::make<Cmd>();
  Bytes in, wgt, bias, multiplier, psum;
  size_t outputs = 0;  ///< elements from the first of the result to the last, with gaps

  bool integers() const { return !is_real(c.in_dtype); }
  const void *psum_data() const { return c.flags & NPU_CONV_PSUM_IN ? psum.data() : nullptr; }
  /// The result's place before the command, with the partial sums in it if they are to be.
  Bytes prepared(bool in_place) const {
    if (in_place && psum_data()) return psum;
    return Bytes(outputs * size_of(c.out_dtype), 0xa5);
  }
  bool can_be_in_place() const { return size_of(c.out_dtype) == 4; }
  model::ProductParams params(uint64_t first = 0) const {
    return {c.flags & NPU_CONV_BIAS ? bias.data() + 4 * first : nullptr,
            c.flags & NPU_CONV_REQUANT ? multiplier.data() + 4 * first : nullptr};
  }
};
using TypedConv = TypedProduct<npu_cmd_conv>;
using TypedMatmul = TypedProduct<npu_cmd_matmul>;

/// `whole`: whole numbers only and no function that is not exact, so that every order of the sums has the same bits.
TypedConv random_typed_conv(Random &r, bool whole);
TypedMatmul random_typed_matmul(Random &r, bool whole);
Bytes expect_product(const TypedConv &t, bool in_place);
Bytes expect_product(const TypedMatmul &t, bool in_place);
std::string describe(const TypedConv &t);
std::string describe(const TypedMatmul &t);

template <class Cmd>
Bytes run(model::Backend &backend, const TypedProduct<Cmd> &t, bool in_place) {
  Bytes out = t.prepared(in_place);
  const void *psum = in_place && t.psum_data() ? out.data() : t.psum_data();
  EXPECT_TRUE(backend.run(t.c, t.in.data(), model::Streamed::at(t.wgt.data()), t.params(), psum, out.data()));
  return out;
}

/// Runs a command in the slices that the limits make of it. look(slice) checks each.
template <class Cmd, class Look>
Bytes run_in_slices(model::Backend &backend, const TypedProduct<Cmd> &t, const model::SliceLimits &limits,
                    bool in_place, uint64_t channels, Look look) {
  Bytes out = t.prepared(in_place), link(channels * 4);
  const uint32_t in_size = size_of(t.c.in_dtype), wgt_size = size_of(t.c.wgt_dtype), size = size_of(t.c.out_dtype);
  for_slices(t.c, limits, [&](const model::Product<Cmd> &s) {
    look(s);
    EXPECT_LE((s.wgt + s.weights) * wgt_size, t.wgt.size());
    const void *psum = t.psum_data() ? (in_place ? out.data() : t.psum.data()) + s.out * 4 : nullptr;
    if (s.from_link) psum = link.data();
    void *to = s.to_link ? link.data() : out.data() + s.out * size;
    const model::ProductParams all = t.params(s.param);
    const model::ProductParams params(s.c.flags & NPU_CONV_BIAS ? all.bias : nullptr,
                                      s.c.flags & NPU_CONV_REQUANT ? all.multiplier : nullptr);
    EXPECT_TRUE(backend.run(s.c, t.in.data() + s.in * in_size, model::Streamed::at(t.wgt.data() + s.wgt * wgt_size),
                            params, psum, to));
    return true;
  });
  return out;
}

}  // namespace npu::test

#endif  // NPU_TESTS_COMMANDS_TYPED_PRODUCT_H
