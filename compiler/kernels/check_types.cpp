// SPDX-License-Identifier: MIT
#include "compiler/kernels/check_types.h"

#include "compiler/lowering/chip_types.h"

namespace npu::compiler {
namespace {

using graph::Dtype;
using graph::is_byte;
using graph::is_real;

bool is_number(Dtype type) { return is_byte(type) || is_real(type); }
bool is_any_number(Dtype type) { return is_number(type) || type == Dtype::I16 || type == Dtype::U16; }

/// Finds operands of a type that the operator's commands do not take there.
class Checker {
 public:
  Checker(const LoweredOp &op, const std::vector<Storage> &storages) : op_(op), storages_(storages) {}

  Dtype type(const View &v) const { return storages_[static_cast<size_t>(v.storage)].type; }

  void expect(bool fits, const char *operand, Dtype found, const char *expected) {
    if (fits || !status_.ok()) return;
    status_ = Status::error(std::string(op_.name()) + " has " + operand + " of " + graph::dtype_name(found) +
                            ", expected " + expected);
  }
  void reals(const char *operand, Dtype found) {
    expect(is_real(found), operand, found, "float32, float16 or bfloat16");
  }
  void numbers(const char *operand, Dtype found) {
    expect(is_number(found), operand, found, "float32, float16, bfloat16, int8 or uint8");
  }
  void vector(const char *operand, const graph::TensorPtr &t, Dtype wanted) {
    if (t) expect(t->dtype == wanted, operand, t->dtype, graph::dtype_name(wanted));
  }

  template <class Op>
  void product(const Op &op, Dtype x, Dtype weights) {
    const Dtype out = type(op_.out);
    if (!op.quant.on) {
      reals("an input", x);
      reals("weights", weights);
      reals("a result", out);
      return vector("a bias", op.bias, Dtype::F32);
    }
    expect(is_byte(x), "an input", x, "int8 or uint8");
    expect(is_byte(weights), "weights", weights, "int8 or uint8");
    expect(op.multiplier ? is_number(out) : out == Dtype::I32, "a result", out,
           op.multiplier ? "a real number, int8 or uint8" : "int32");
    vector("a bias", op.bias, Dtype::I32);
    vector("multipliers", op.multiplier, Dtype::F32);
  }

  const Status &status() const { return status_; }

 private:
  const LoweredOp &op_;
  const std::vector<Storage> &storages_;
  Status status_;
};

}  // namespace

Status check_types(const LoweredOp &op, const std::vector<Storage> &storages) {
  Checker c(op, storages);
  const Dtype out = c.type(op.out);
  std::visit(Overloaded{
                 [&](const ConvOp &conv) {
                   c.product(conv, c.type(conv.input), type_of(conv.weights, storages));
                   if (conv.addend)
                     c.expect(c.type(*conv.addend) == Dtype::F32, "a summand", c.type(*conv.addend), "float32");
                 },
                 [&](const MatMulOp &product) { c.product(product, c.type(product.a), type_of(product.b, storages)); },
                 [&](const OneOf<PoolOp, SoftmaxOp> auto &typed) {
                   c.numbers("an input", c.type(typed.input));
                   c.numbers("a result", out);
                 },
                 [&](const BinaryOp &binary) {
                   c.numbers("an operand", c.type(binary.a));
                   if (const View *b = std::get_if<View>(&binary.b)) c.numbers("an operand", c.type(*b));
                   c.numbers("a result", out);
                 },
                 [&](const UnaryOp &unary) {
                   c.reals("an input", c.type(unary.input));
                   c.expect(out == c.type(unary.input), "a result", out, graph::dtype_name(c.type(unary.input)));
                 },
                 [&](const RequantOp &requant) {
                   const char *expected = "real numbers or integers of 8 or 16 bits";
                   c.expect(is_any_number(c.type(requant.input)), "an input", c.type(requant.input), expected);
                   c.expect(is_any_number(out), "a result", out, expected);
                 },
                 [&](const LookupOp &lookup) {
                   c.expect(is_byte(c.type(lookup.input)), "an input", c.type(lookup.input), "int8 or uint8");
                   c.vector("a table", lookup.table, out);
                 },
                 [&](const CopyOp &copy) {
                   const Dtype from = c.type(copy.input);
                   c.expect(from == out || (is_real(from) && is_real(out)), "an input", from, graph::dtype_name(out));
                   c.expect(has_chip_type(out), "elements", out, "a type that the chip has");
                 },
                 [&](const FillOp &) { c.numbers("a result", out); },
             },
             op.body);
  return c.status();
}

}  // namespace npu::compiler
