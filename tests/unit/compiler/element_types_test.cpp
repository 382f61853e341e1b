// SPDX-License-Identifier: MIT
// Element types on their way from the graph to commands: sizes, places and dtypes of tensors that are not float32.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/lowering/chip_types.h"
#include "compiler/schedule/codegen.h"
#include "compiler/schedule/records.h"
#include "npu_arith.hpp"

namespace npu::test {
namespace {

using compiler::Lowered;
using compiler::LoweredOp;
using compiler::Storage;
using compiler::StorageKind;
using graph::Dtype;

constexpr int64_t kLmem = 64 << 10;

/// Does what copies say, byte by byte, before they are bound.
class Copier {
 public:
  Copier(const Lowered &lowered, const std::vector<uint8_t> &input) : lowered_(lowered), local_(kLmem) {
    lowered.coeff.write(coeff_);
    for (const Storage &s : lowered.storages) {
      tensors_.emplace_back(static_cast<size_t>(s.bytes()));
      if (s.kind == StorageKind::Input) tensors_.back() = input;
    }
  }

  void run(const compiler::Command &command, uint8_t dtype) {
    const auto &c = std::get<npu_cmd_copy>(command.body);
    EXPECT_EQ(c.src_dtype, dtype);
    EXPECT_EQ(c.dst_dtype, dtype);
    const int64_t size = hw::arith::dtype_bytes(dtype);
    std::vector<uint8_t> &from = side(command.src_storage), &to = side(command.dst_storage);
    int64_t count = 1;
    for (uint32_t d : c.dims) count *= d;
    for (int64_t n = 0; n < count; ++n) {
      auto src = static_cast<int64_t>(c.src_offset), dst = static_cast<int64_t>(c.dst_offset);
      int64_t rest = n;
      for (size_t d = std::size(c.dims); d-- > 0; rest /= c.dims[d]) {
        src += rest % c.dims[d] * c.src_stride[d] * size;
        dst += rest % c.dims[d] * c.dst_stride[d] * size;
      }
      ASSERT_LE(static_cast<size_t>(src + size), from.size());
      ASSERT_LE(static_cast<size_t>(dst + size), to.size());
      std::memcpy(&to[static_cast<size_t>(dst)], &from[static_cast<size_t>(src)], static_cast<size_t>(size));
    }
  }

  const std::vector<uint8_t> &output() const {
    for (size_t s = 0; s < tensors_.size(); ++s)
      if (lowered_.storages[s].kind == StorageKind::Output) return tensors_[s];
    return local_;
  }

 private:
  std::vector<uint8_t> &side(int storage) {
    if (storage < 0) return local_;
    return lowered_.storages[static_cast<size_t>(storage)].kind == StorageKind::Const
               ? coeff_
               : tensors_[static_cast<size_t>(storage)];
  }

  const Lowered &lowered_;
  std::vector<uint8_t> local_, coeff_;
  std::vector<std::vector<uint8_t>> tensors_;
};

/// A tensor of which each element has a number of its own, as far as they are large enough.
graph::Tensor counted(Dtype type, const graph::Shape &shape, int64_t first) {
  graph::Tensor t(type, shape);
  const size_t size = graph::dtype_bytes(type);
  for (int64_t i = 0; i < t.count(); ++i) {
    const int64_t number = first + i * 7;
    std::memcpy(&t.data[static_cast<size_t>(i) * size], &number, size);
  }
  return t;
}

/// The transpose {2, 0, 1} of an input [3, 40, 300] and a constant [3, 20, 300], joined along dimension 1.
graph::Graph joined(Dtype type, graph::TensorPtr constant) {
  graph::Graph g;
  const auto value = [&](const graph::Shape &shape) { return g.add_value({{type, shape}, "", nullptr}); };
  const graph::ValueId x = value({3, 40, 300}), c = g.add_constant(std::move(constant));
  const graph::ValueId both = value({3, 60, 300}), out = value({300, 3, 60});
  g.sources.push_back({"n", "Concat", ""});
  g.nodes.push_back({graph::Op::Concat, 0, {x, c}, both, graph::ConcatAttrs{1}});
  g.nodes.push_back({graph::Op::Transpose, 0, {both}, out, graph::TransposeAttrs{{2, 0, 1}}});
  g.inputs = {x};
  g.outputs = {out};
  g.output_names = {"out"};
  return g;
}

class Moves : public testing::TestWithParam<Dtype> {};

TEST_P(Moves, TakeTheSizeOfTheirElements) {
  const Dtype type = GetParam();
  const graph::Tensor x = counted(type, {3, 40, 300}, 1);
  const auto constant = std::make_shared<graph::Tensor>(counted(type, {3, 20, 300}, 3));
  graph::Graph g = joined(type, constant);
  Lowered lowered;
  ASSERT_TRUE(compiler::lower(g, lowered).ok());
  for (const Storage &s : lowered.storages) EXPECT_EQ(s.type, type);
  compiler::Generated generated;
  const Status status = compiler::generate(lowered, g.sources, {.lmem_bytes = kLmem}, generated);
  ASSERT_TRUE(status.ok()) << status.message();
  Copier copier(lowered, x.data);
  for (const compiler::Command &c : generated.commands) copier.run(c, compiler::chip_type(type));
  const auto size = static_cast<size_t>(graph::dtype_bytes(type));
  std::vector<uint8_t> expected;
  for (size_t k = 0; k < 300; ++k)
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 60; ++j) {
        const uint8_t *from =
            j < 40 ? &x.data[((i * 40 + j) * 300 + k) * size] : &constant->data[((i * 20 + j - 40) * 300 + k) * size];
        expected.insert(expected.end(), from, from + size);
      }
  EXPECT_TRUE(copier.output() == expected);
}

INSTANTIATE_TEST_SUITE_P(All, Moves,
                         testing::Values(Dtype::F32, Dtype::F16, Dtype::I8, Dtype::Bool, Dtype::U16, Dtype::I32,
                                         Dtype::I64),
                         [](const auto &p) { return std::string(graph::dtype_name(p.param)); });

TEST(ChipTypes, HaveTheSizeOfTheCompilers) {
  int known = 0;
  for (int number = 0; number <= static_cast<int>(Dtype::BF16); ++number) {
    const auto type = static_cast<Dtype>(number);
    if (!compiler::has_chip_type(type)) continue;
    ++known;
    EXPECT_EQ(hw::arith::dtype_bytes(compiler::chip_type(type)), graph::dtype_bytes(type)) << number;
  }
  EXPECT_EQ(known, 13);
  EXPECT_FALSE(compiler::has_chip_type(Dtype::Undefined));
  EXPECT_FALSE(compiler::has_chip_type(Dtype::String));
}

/// An operator from one storage to another, of eight elements each.
Lowered from_to(Dtype from, Dtype to, LoweredOp::Body body) {
  Lowered l;
  for (Dtype type : {from, to}) {
    Storage &s = l.storages.emplace_back();
    s.kind = l.storages.size() == 1 ? StorageKind::Input : StorageKind::Output;
    s.type = type;
    s.elements = 8;
  }
  l.ops.push_back({0, compiler::dense_view(1, {8}), std::move(body)});
  return l;
}

std::string error_of(Lowered lowered) {
  compiler::Generated generated;
  return std::string(compiler::generate(lowered, {{"n", "", ""}}, {.lmem_bytes = kLmem}, generated).message());
}

TEST(CheckTypes, NamesWhatHasNoKernel) {
  const compiler::View x = compiler::dense_view(0, {8});
  const std::string node = "internal error, please report: node 'n': ";
  EXPECT_EQ(error_of(from_to(Dtype::F32, Dtype::F32, compiler::UnaryOp{x, {}})), "");
  EXPECT_EQ(error_of(from_to(Dtype::I16, Dtype::F32, compiler::UnaryOp{x, {}})),
            node + "Unary has an input of int16, expected float32, float16 or bfloat16");
  EXPECT_EQ(error_of(from_to(Dtype::F16, Dtype::F32, compiler::UnaryOp{x, {}})),
            node + "Unary has a result of float32, expected float16");
  EXPECT_EQ(error_of(from_to(Dtype::F32, Dtype::F16, compiler::BinaryOp{{}, x, 1.0f, {}})), "");
  EXPECT_EQ(error_of(from_to(Dtype::F32, Dtype::I16, compiler::BinaryOp{{}, x, 1.0f, {}})),
            node + "Binary has a result of int16, expected float32, float16, bfloat16, int8 or uint8");
  EXPECT_EQ(error_of(from_to(Dtype::F32, Dtype::I32, compiler::FillOp{1})),
            node + "Fill has a result of int32, expected float32, float16, bfloat16, int8 or uint8");
  EXPECT_EQ(error_of(from_to(Dtype::F32, Dtype::BF16, compiler::CopyOp{x})), "");
  EXPECT_EQ(error_of(from_to(Dtype::I16, Dtype::I16, compiler::CopyOp{x})), "");
  EXPECT_EQ(error_of(from_to(Dtype::I16, Dtype::I32, compiler::CopyOp{x})),
            node + "Copy has an input of int16, expected int32");
  EXPECT_EQ(error_of(from_to(Dtype::String, Dtype::String, compiler::CopyOp{x})),
            node + "Copy has elements of string, expected a type that the chip has");
  compiler::MatMulOp product;
  product.a = compiler::dense_view(0, {1, 1, 8});
  product.b = std::make_shared<graph::Tensor>(Dtype::I8, graph::Shape{8, 8});
  Lowered l = from_to(Dtype::F32, Dtype::F32, std::move(product));
  l.ops[0].out = compiler::dense_view(1, {1, 1, 8});
  EXPECT_EQ(error_of(std::move(l)), node + "MatMul has weights of int8, expected float32, float16 or bfloat16");
}

TEST(NetworkHash, TellsTypesOfOneSizeApart) {
  const auto hash = [](Dtype type) {
    return compiler::hash_of(from_to(type, type, compiler::CopyOp{compiler::dense_view(0, {8})}));
  };
  EXPECT_NE(hash(Dtype::F32), hash(Dtype::I32));
  EXPECT_NE(hash(Dtype::I32), hash(Dtype::U32));
  EXPECT_EQ(hash(Dtype::I32), hash(Dtype::I32));
}

}  // namespace
}  // namespace npu::test
