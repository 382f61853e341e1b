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

Typed<npu_cmd_pool> random_typed_pool(Random &r);
Typed<npu_cmd_eltwise> random_typed_eltwise(Random &r);
Typed<npu_cmd_unary> random_typed_unary(Random &r);
Typed<npu_cmd_softmax> random_typed_softmax(Random &r);
Typed<npu_cmd_reduce> random_typed_reduce(Random &r);
Typed<npu_cmd_norm> random_typed_norm(Random &r);
Typed<npu_cmd_lut> random_typed_lut(Random &r);
Typed<npu_cmd_requant> random_typed_requant(Random &r);
Typed<npu_cmd_select> random_typed_select(Random &r);

// What random commands are made of.

template <size_t n>
uint8_t one_of(Random &r, const uint8_t (&list)[n]) {
  return list[r.range(0, n - 1)];
}
/// 0, or at least `dense`.
uint32_t random_pitch(Random &r, uint32_t dense);
/// At an end of the range, 0, in the middle, or anywhere.
int32_t random_zero(Random &r, uint8_t dtype);
/// Of integers a scale, 0 for all others.
float random_scale(Random &r, uint8_t dtype);
/// Numbers near 1 or whole ones of any size; sometimes at the ends of their range only. `odd` brings infinities and
/// NaN.
Bytes some_elements(Random &r, uint8_t dtype, size_t count, bool odd = false);
/// An activation up to `last` with parameters of about `size`.
void random_fused(Random &r, uint8_t last, uint8_t &act, float &a, float &b, float size);
/// Elements from the first to the last that a command touches of an operand.
template <class Cmd>
size_t span_of(const Cmd &c, unsigned place) {
  hw::OperandList list;
  hw::operands_detail::describe(c, list);
  return list[place].used ? static_cast<size_t>(list[place].hull().bytes / list[place].size) : 0;
}

/// The result with what lies between its elements.
Bytes run(model::Backend &backend, const Typed<npu_cmd_conv> &t, const Origin &origin = {});
Bytes run(model::Backend &backend, const Typed<npu_cmd_matmul> &t, const Origin &origin = {});
Bytes run(model::Backend &backend, const Typed<npu_cmd_pool> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_eltwise> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_unary> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_softmax> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_reduce> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_norm> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_lut> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_requant> &t);
Bytes run(model::Backend &backend, const Typed<npu_cmd_select> &t);

/// The command as text.
template <class Cmd>
std::string text_of(const Cmd &c);

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_TYPED_H
