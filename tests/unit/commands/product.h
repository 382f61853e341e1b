// SPDX-License-Identifier: MIT
// What the tests of CONV and MATMUL share: operands of their slices.
#ifndef NPU_TESTS_COMMANDS_PRODUCT_H
#define NPU_TESTS_COMMANDS_PRODUCT_H

#include "tests/unit/commands/command.h"

namespace npu::test {

inline const float *or_null(const Values &v) { return v.empty() ? nullptr : v.data(); }

template <class Cmd>
const float *bias_of(const Cmd &c, const Values &bias, uint64_t first = 0) {
  return c.flags & NPU_CONV_BIAS ? bias.data() + first : nullptr;
}

/// A result as it is before a command, with the partial sums in its place if they are to be.
inline Values prepared(const Values &psum, size_t outputs, bool in_place) {
  return in_place && !psum.empty() ? psum : Values(outputs, NAN);
}

template <class Cmd>
const float *psum_of(const model::Product<Cmd> &s, const Values &psum, const Values &out, bool in_place,
                     const Values &link) {
  if (s.from_link) return link.data();
  if (in_place && !psum.empty()) return out.data() + s.out;
  return psum.empty() ? nullptr : psum.data() + s.out;
}

/// Where a slice's results go; `link` has room for those that are a link's.
template <class Cmd>
float *out_of(const model::Product<Cmd> &s, Values &out, Values &link) {
  return s.to_link ? link.data() : out.data() + s.out;
}

}  // namespace npu::test

#endif  // NPU_TESTS_COMMANDS_PRODUCT_H
