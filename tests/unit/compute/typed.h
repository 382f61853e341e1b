// SPDX-License-Identifier: MIT
// Random legal commands with operands of all types, and their execution on a back end. Operands lie in buffers without
// room to spare, so that a read too far is one behind a buffer.
#ifndef NPU_TESTS_COMPUTE_TYPED_H
#define NPU_TESTS_COMPUTE_TYPED_H

#include <string>
#include <vector>

#include "tests/unit/compute/cases.h"

namespace npu::test {

using Bytes = std::vector<uint8_t>;

/// A command with its operands by their places (hw::OperandPlaces); that of the result holds what lies there before.
/// kParam has the vectors of a command, one after the other.
template <class Cmd>
struct Typed {
  Cmd c = hw::make<Cmd>();
  Bytes at[hw::OperandPlaces::kCount];
  bool in_place = false;  ///< the result takes the place of the first operand, of products that of the partial sums
};

/// Makes up the numbers of a command whose dimensions are chosen: types, scales, zero points, activation, vectors; and
/// the operands. Products are of floating-point numbers or of 8 bits.
void choose_numbers(Random &r, bool floats, Typed<npu_cmd_conv> &t);
void choose_numbers(Random &r, bool floats, Typed<npu_cmd_matmul> &t);
Typed<npu_cmd_conv> random_typed_conv(Random &r, bool floats);
Typed<npu_cmd_matmul> random_typed_matmul(Random &r, bool floats);

/// The result with what lies between its elements.
Bytes run(model::Backend &backend, const Typed<npu_cmd_conv> &t, const Origin &origin = {});
Bytes run(model::Backend &backend, const Typed<npu_cmd_matmul> &t, const Origin &origin = {});

/// The command as text.
template <class Cmd>
std::string text_of(const Cmd &c);

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_TYPED_H
