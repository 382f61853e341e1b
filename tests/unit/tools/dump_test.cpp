// SPDX-License-Identifier: MIT
// npu-dump: what becomes of the lines of a dump.
#include "tools/npu-dump/dump.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "npu_isa.hpp"
#include "npu_regs.h"

namespace npu::test {
namespace {

template <class T>
std::string hex(const T &value) {
  std::string text;
  char digits[3];
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  for (size_t i = 0; i < sizeof value; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

std::string fill() {
  auto c = hw::make<npu_cmd_fill>();
  c.value = 7;
  c.dst_region = 1;
  c.dst_dtype = NPU_DTYPE_U8;
  for (auto &d : c.dims) d = 1;
  return hex(c);
}

std::string dump(const std::string &lines) { return "qnpu-coredump 1\n" + lines + "end\n"; }

std::string decode(const std::string &lines) {
  std::string text;
  EXPECT_EQ(dump::decode(dump(lines), text).message(), "");
  EXPECT_TRUE(text.starts_with("qnpu-coredump 1\n") && text.ends_with("end\n"));
  return text.substr(16, text.size() - 16 - 4);
}

TEST(Dump, CommandsAreDisassembled) {
  const std::string text = decode("command gdma 0 3 > " + fill() + "\ncommand gdma 0 4 - " + fill() + "\n");
  EXPECT_EQ(text.find(">    3  fill "), 0u) << text;
  EXPECT_NE(text.find("\n     4  fill "), std::string::npos) << text;
  EXPECT_NE(text.find("dst_dtype=u8"), std::string::npos) << text;
}

TEST(Dump, RingEntriesAreTakenApartAndEmptyOnesLeftOut) {
  npu_sqe s{};
  npu_cqe c{};
  EXPECT_EQ(decode("sq 0 " + hex(s) + "\ncq 0 " + hex(c) + "\n"), "");
  s.job_id = 5;
  s.desc_addr = 0x1000;
  s.desc_bytes = 96;
  c.job_id = 5;
  c.status = NPU_STATUS_PAGE_FAULT;
  c.engine = NPU_ENGINE_GDMA;
  c.command = 17;
  c.region = 3;
  c.offset = 0x8000;
  c.fault_addr = 0x100000000;
  c.phase = NPU_CQE_PHASE;
  EXPECT_EQ(decode("sq 4 " + hex(s) + "\ncq 6 " + hex(c) + "\n"),
            "sq 4: job 5 descriptor 0x1000 bytes 96\n"
            "cq 6: job 5 status 8 core 0 cycles 0 phase 1 engine 1 command 17 region 3 offset 0x8000 bytes 0 address "
            "0x100000000\n");
}

TEST(Dump, WhatIsNotKnownStaysAsItIs) {
  const std::string lines = "register CTRL 0x1\nnews of a later version\n\ncommand gdma 0 3 > 00\ncq 1 zz\ncq\n";
  EXPECT_EQ(decode(lines), lines);
}

TEST(Dump, CommandsOfAJobStandAlone) {
  const std::string lines =
      "reason watchdog\nkernel 6.12\njob 5 queue 3\nregister CTRL 0x1\n"
      "stream gdma core 0 region 2 offset 0x0 count 24 at 3\ncommand gdma 0 3 > " +
      fill() + "\nstream tiu core 1 region 2 offset 0x0 count 7 at 7\nsq 0 00\n";
  std::string text;
  EXPECT_EQ(dump::decode(dump(lines), text, dump::Part::kCommands).message(), "");
  EXPECT_EQ(text.find("reason watchdog\njob 5 queue 3\nGDMA of core 0: at command 3 of 24\n>    3  fill "), 0u) << text;
  EXPECT_TRUE(text.ends_with("\nTIU of core 1: all 7 commands are retired\n")) << text;
  EXPECT_EQ(text.find("register"), std::string::npos) << text;
}

TEST(Dump, OthersAndPartsAreErrors) {
  std::string text;
  EXPECT_EQ(dump::decode("", text).message(), "this does not begin with \"qnpu-coredump 1\"");
  EXPECT_EQ(text, "");
  EXPECT_FALSE(dump::decode("qnpu-coredump 10\nend\n", text).ok());
  EXPECT_EQ(text, "");
  EXPECT_EQ(dump::decode("qnpu-coredump 1\nregister A 0x", text).message(),
            "the dump is cut off: its last line is not \"end\"");
  EXPECT_EQ(text, "qnpu-coredump 1\nregister A 0x\n");
}

TEST(Dump, DamagedDumpsAreHarmless) {
  const std::string good = dump("command gdma 0 3 > " + fill() + "\ncq 0 " + hex(npu_cqe{}) + "\nsq 0 12\n");
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good, text;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    if (i & 1) bad.resize(random() % bad.size());
    (void)dump::decode(bad, text);
  }
}

}  // namespace
}  // namespace npu::test
