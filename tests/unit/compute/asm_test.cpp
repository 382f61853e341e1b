// SPDX-License-Identifier: MIT
// Text form of commands: everything survives the way to text and back, and wrong text is refused where it is wrong.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/compute/cases.h"
#include "uapi/hw/asm/assembler.h"

namespace npu::test {
namespace {

using assembly::assemble;
using assembly::CommandBytes;
using assembly::disassemble;
using assembly::Program;

// One line in a stream of the engine that takes it.
CommandBytes one(const std::string &line, const char *stream = ".tiu") {
  Program p;
  const auto error = assemble(std::string(stream) + "\n" + line + "\n", p);
  EXPECT_FALSE(error) << line << ": " << (error ? error->message : "");
  const auto &commands = p.cores.at(0).tiu.empty() ? p.cores.at(0).gdma : p.cores.at(0).tiu;
  return commands.at(0);
}

TEST(Assembler, PutsEveryFieldWhereTheHeaderHasIt) {
  npu_cmd_conv want = hw::make<npu_cmd_conv>();
  want.flags = NPU_CONV_BIAS | NPU_CONV_PSUM_IN;
  want.wait = 3;
  want.layer = 77;
  want.out_addr = 0x4000;
  want.act = NPU_ACT_CLIP;
  want.wgt_offset = 0x123456789abcull;
  want.wgt_region = NPU_REGION_LOCAL;
  want.ih = 4294967295u;
  want.kh = 65535;
  want.pad_t = -5;
  want.act_a = -0.1f;
  want.act_b = 6e7f;
  const CommandBytes got =
      one("conv flags=bias|psum_in wait=3 layer=77 out_addr=0x4000 act=clip wgt_offset=0x123456789abc wgt_region=0xff "
          "ih=4294967295 kh=65535 pad_t=-5 act_a=-0.1 act_b=6e7  # comment");
  EXPECT_EQ(0, std::memcmp(&want, got.data(), sizeof want));

  npu_cmd_copy copy = hw::make<npu_cmd_copy>();
  copy.src_dtype = copy.dst_dtype = NPU_DTYPE_S8;
  for (int i = 0; i < 6; ++i) copy.dims[i] = i + 1, copy.src_stride[i] = -i, copy.dst_stride[i] = i * 100;
  const CommandBytes copy_got =
      one("COPY dims=[1, 2,3 ,4,5,6] src_stride=[0,-1,-2,-3,-4,-5] src_dtype=S8 dst_dtype=s8 "
          "dst_stride=[0,100,200,300,400,500]",
          ".gdma");
  EXPECT_EQ(0, std::memcmp(&copy, copy_got.data(), sizeof copy));
}

TEST(Assembler, KnowsTheFunctionsOfUnary) {
  constexpr struct {
    const char *name;
    uint8_t subop;
  } kNames[] = {{"none", 0},  {"relu", 1},        {"clip", 2},          {"leaky_relu", 3},  {"sigmoid", 4},
                {"tanh", 5},  {"exp", 6},         {"log", 7},           {"sqrt", 8},        {"rsqrt", 9},
                {"neg", 12},  {"reciprocal", 10}, {"abs", 11},          {"erf", 13},        {"gelu", 14},
                {"elu", 15},  {"softplus", 18},   {"hard_sigmoid", 16}, {"hard_swish", 17}, {"floor", 19},
                {"ceil", 20}, {"round", 21},      {"sign", 22},         {"sin", 23},        {"cos", 24}};
  for (const auto &n : kNames) {
    const std::string line = "unary subop=" + std::string(n.name);
    EXPECT_EQ(one(line)[1], n.subop) << line;
  }
  const std::string text = "unary subop=gelu out_addr=0x40 count=16 act_a=1";
  bool exact = true;
  EXPECT_EQ(disassemble(one(text), exact), text);
}

TEST(Assembler, ReadsBitsOfFloats) {
  npu_cmd_eltwise c = hw::decode<npu_cmd_eltwise>(one("eltwise subop=max flags=b_imm imm=0x7fc00001").data());
  uint32_t bits;
  std::memcpy(&bits, &c.imm, 4);
  EXPECT_EQ(bits, 0x7fc00001u);
  EXPECT_EQ(c.subop, NPU_ELTWISE_MAX);
}

CommandBytes random_command(Random &r, const hw::Command &command, bool sparse) {
  CommandBytes bytes{};
  const bool any_value = !sparse;
  for (unsigned i = 1; i < NPU_CMD_BYTES; ++i)
    if (command.used_bytes[i / 64] >> (i % 64) & 1)
      if (any_value || r.chance(6)) bytes[i] = static_cast<uint8_t>(r.range(0, 255));
  bytes[0] = command.opcode;
  return bytes;
}

TEST(Disassembler, RandomCommandsOfEveryKindSurviveTheWayToTextAndBack) {
  Random r(61);
  for (const hw::Command &command : hw::kCommands)
    for (int i = 0; i < 400; ++i) {
      Program p;
      p.cores.resize(1);
      const CommandBytes bytes = random_command(r, command, i % 2);
      (command.engine == hw::EngineKind::Gdma ? p.cores[0].gdma : p.cores[0].tiu).push_back(bytes);
      bool exact;
      const std::string text = disassemble(p, exact);
      ASSERT_TRUE(exact) << text;
      Program back;
      const auto error = assemble(text, back);
      ASSERT_FALSE(error) << text << error->line << ':' << error->column << ": " << error->message;
      ASSERT_TRUE(back == p) << text;
    }
}

// Each field alone, with a value that no other byte has: a field that text leaves out or confuses shows.
TEST(Disassembler, EveryFieldIsNamed) {
  for (const hw::Command &command : hw::kCommands)
    for (const hw::Field &field : command.fields) {
      CommandBytes bytes{};
      bytes[0] = command.opcode;
      for (unsigned i = 0; i < field.count * hw::field_bytes(field.type); ++i) bytes[field.offset + i] = 1 + i;
      bool exact = true;
      const std::string text = disassemble(bytes, exact);
      EXPECT_TRUE(exact) << text;
      EXPECT_NE(text.find(" " + std::string(field.name) + "="), std::string::npos) << text;
      EXPECT_EQ(one(text, command.engine == hw::EngineKind::Gdma ? ".gdma" : ".tiu"), bytes) << text;
    }
}

TEST(Disassembler, SaysWhatTextCannotExpress) {
  CommandBytes bytes{};
  bytes[0] = 0x99;
  bool exact = true;
  EXPECT_EQ(disassemble(bytes, exact), "# unknown opcode 0x99");
  EXPECT_FALSE(exact);
  bytes[0] = NPU_OP_NOP;
  bytes[100] = 7;
  exact = true;
  EXPECT_EQ(disassemble(bytes, exact), "nop  # reserved byte 100 is 0x7");
  EXPECT_FALSE(exact);
}

TEST(Assembler, DirectivesSelectCores) {
  Program p;
  const auto error = assemble(".tiu\nnop\n.gdma\nnop\nnop\n.tiu\nnop wait=1\n.gdma\n.core 5\n.gdma\nnop layer=9\n", p);
  ASSERT_FALSE(error) << error->message;
  ASSERT_EQ(p.cores.size(), 6u);
  EXPECT_EQ(p.cores[0].tiu.size(), 1u);
  EXPECT_EQ(p.cores[0].gdma.size(), 2u);
  EXPECT_EQ(p.cores[1].tiu.size(), 1u);
  EXPECT_EQ(p.cores[1].gdma.size(), 0u);
  EXPECT_EQ(p.cores[5].gdma.at(0)[8], 9);
}

TEST(Assembler, WrongTextIsRefusedWhereItIsWrong) {
  struct {
    const char *text;
    unsigned line, column;
    const char *message;
  } const cases[] = {
      {"conv", 1, 1, "outside a stream"},
      {".tiu\nconf n=1", 2, 1, "unknown command 'conf'; expected one of nop"},
      {".tiu\n\n  conv m=1", 3, 8, "conv has no field 'm'; expected one of subop, in_pitch, in_addr"},
      {".tiu\nconv n=1 n=2", 2, 10, "given twice"},
      {".tiu\nconv n", 2, 7, "expected '='"},
      {".tiu\nconv n=", 2, 8, "expected a number from 0 to 4294967295"},
      {".tiu\nconv n=4294967296", 2, 8, "expected a number from 0 to 4294967295"},
      {".tiu\nconv n=-1", 2, 8, "expected a number from 0 to"},
      {".tiu\nconv n=0x", 2, 8, "expected a number"},
      {".tiu\nconv n=1x", 2, 8, "'1x' is no value of 'n'"},
      {".tiu\nconv kh=65536", 2, 9, "from 0 to 65535"},
      {".tiu\nconv wgt_region=256", 2, 17, "from 0 to 255"},
      {".tiu\nconv pad_t=-2147483649", 2, 12, "from -2147483648 to 2147483647"},
      {".tiu\nconv pad_t=2147483648", 2, 12, "from -2147483648 to 2147483647"},
      {".tiu\nconv pad_t=--1", 2, 12, "no value"},
      {".tiu\nconv wgt_offset=18446744073709551616", 2, 17, "no value"},
      {".tiu\nconv act=rule", 2, 10, "expected one of none, relu"},
      {".tiu\nconv flags=bias|bios", 2, 12, "names joined by | of bias, psum_in"},
      {".tiu\nconv flags=bias|", 2, 12, "names joined by |"},
      {".tiu\nconv act_a=one", 2, 12, "a number such as 0.5"},
      {".tiu\nconv act_a=1e99", 2, 12, "a number such as 0.5"},
      {".tiu\neltwise dims=1", 2, 14, "is an array; expected ["},
      {".tiu\neltwise dims=[1,2,3]", 2, 20, "has 5 elements; expected ',' after 3"},
      {".tiu\neltwise dims=[1,2,3,4,5,6]", 2, 24, "has 5 elements; expected ']' after 5"},
      {".tiu\neltwise dims=[1,2,,4,5]", 2, 19, "no value of 'dims'"},
      {".tiu\ncopy", 2, 1, "expected it in a .gdma stream"},
      {".gdma\npool", 2, 1, "expected it in a .tiu stream"},
      {".tui", 1, 1, "expected .tiu, .gdma or .core"},
      {".tiu now", 1, 6, "expected the end of the line"},
      {".core 8", 1, 7, "expected a number from 0 to 7"},
      {".core", 1, 6, "expected a number from 0 to 7"},
      {".core 0\n.tiu\n.core 0\n.tiu", 4, 1, "has its .tiu already"},
      {".core 7\n.tiu\n.tiu", 3, 1, "expected at most 8 cores"},
      {".core 1\nnop", 2, 1, "outside a stream"},
  };
  for (const auto &c : cases) {
    Program p;
    const auto error = assemble(c.text, p);
    ASSERT_TRUE(error) << c.text;
    EXPECT_EQ(error->line, c.line) << c.text;
    EXPECT_EQ(error->column, c.column) << c.text;
    EXPECT_NE(error->message.find(c.message), std::string::npos) << c.text << ": " << error->message;
    EXPECT_TRUE(p.cores.empty()) << c.text;
  }
}

TEST(Assembler, AnyBytesAreReadOrRefused) {
  Random r(62);
  const std::string good =
      ".tiu\nconv n=1 act=relu flags=bias|psum_in act_a=0.5\neltwise dims=[1,2,3,4,5]\n.core 3\n.gdma\ncopy\n";
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int edits = r.range(1, 6); edits > 0; --edits) {
      const size_t at = r.range(0, text.size() - 1);
      if (r.chance(3))
        text.erase(at, r.range(1, 8));
      else
        text[at] = static_cast<char>(r.chance(2) ? r.range(0, 255) : good[r.range(0, good.size() - 1)]);
      if (text.empty()) text = "\n";
    }
    Program p;
    const auto error = assemble(text, p);
    if (!error) continue;
    ++refused;
    ASSERT_GE(error->line, 1u);
    ASSERT_GE(error->column, 1u);
    ASSERT_FALSE(error->message.empty());
  }
  EXPECT_GT(refused, 10000);
}

TEST(ProgramFile, SurvivesTheWayToAFileAndBack) {
  Random r(63);
  for (int i = 0; i < 50; ++i) {
    Program p;
    p.cores.resize(r.range(0, NPU_MAX_CORES));
    for (auto &core : p.cores) {
      for (int n = r.range(0, 4); n > 0; --n) core.tiu.push_back(random_command(r, hw::kCommands[3], false));
      for (int n = r.range(0, 4); n > 0; --n) core.gdma.push_back(random_command(r, hw::kCommands[0], false));
    }
    Program back;
    ASSERT_FALSE(assembly::from_file(assembly::to_file(p), back));
    ASSERT_TRUE(back == p);
  }
}

TEST(ProgramFile, DamagedFilesAreRefused) {
  Program p, back;
  p.cores.resize(2);
  p.cores[1].tiu.resize(3);
  const std::vector<uint8_t> good = assembly::to_file(p);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(assembly::from_file({good.begin(), good.begin() + size}, back)) << size;
  std::vector<uint8_t> bad = good;
  bad[0] ^= 1;
  EXPECT_NE(assembly::from_file(bad, back).value().find("QJOB"), std::string::npos);
  bad = good;
  bad[8] = 200;
  EXPECT_NE(assembly::from_file(bad, back).value().find("200 cores; expected at most 8"), std::string::npos);
  // Offsets and counts at their extremes: no sum of them may wrap.
  uint8_t *const stream = &bad[sizeof(npu_job) + sizeof(npu_stream)];
  const uint64_t offset = ~uint64_t{0} - NPU_CMD_BYTES + 1, misaligned = 1;
  const uint32_t count = ~0u;
  const auto refused = [&](size_t field, const void *value, size_t size) {
    bad = good;
    std::memcpy(stream + field, value, size);
    const auto error = assembly::from_file(bad, back);
    EXPECT_TRUE(error && error->find("core 1") != std::string::npos) << field;
  };
  bad = good;
  refused(offsetof(npu_stream, tiu_offset), &offset, sizeof offset);
  refused(offsetof(npu_stream, tiu_offset), &misaligned, sizeof misaligned);
  refused(offsetof(npu_stream, tiu_count), &count, sizeof count);
}

}  // namespace
}  // namespace npu::test
