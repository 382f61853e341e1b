// SPDX-License-Identifier: MIT
// npu-smi: who has a card open, from a made-up /proc; and both ways of telling.
#include <gtest/gtest.h>
#include <report.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace npu::smi {
namespace {

namespace fs = std::filesystem;

/// A folder like /proc.
class Clients : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/npu-smi-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    proc_ = name;
  }
  void TearDown() override { fs::remove_all(proc_); }

  void add(const std::string &pid, const std::string &name, const std::string &fd, const std::string &text) {
    fs::create_directories(proc_ / pid / "fdinfo");
    std::ofstream(proc_ / pid / "comm") << name << "\n";
    std::ofstream(proc_ / pid / "fdinfo" / fd) << text;
  }

  static std::string info(const std::string &driver, const std::string &client) {
    return "pos:\t0\nflags:\t02\ndrm-driver:\t" + driver + "\ndrm-client-id:\t" + client +
           "\ndrm-pdev:\t0000:01:00.0\ndrm-engine-core0:\t1000000 ns\ndrm-engine-core1:\t500000 ns\nnpu-jobs:\t7\ndrm-resident-card:\t64 MiB\n"
           "drm-resident-system:\t5 KiB\n";
  }

  fs::path proc_;
};

TEST_F(Clients, FilesOfTheDriverAreFoundOncePerClient) {
  add("77", "infer", "3", info("npu", "4"));
  add("77", "infer", "5", info("npu", "4"));  // a duplicate
  add("77", "infer", "6", info("npu", "5"));
  add("12", "other", "3", info("npu", "9"));
  const auto clients = find_clients(proc_.string());
  ASSERT_EQ(clients.size(), 3u);
  EXPECT_EQ(clients[0].pid, 12);
  EXPECT_EQ(clients[0].process, "other");
  EXPECT_EQ(clients[1].pid, 77);
  EXPECT_EQ(clients[1].client, 4u);
  EXPECT_EQ(clients[1].bus, "0000:01:00.0");
  EXPECT_EQ(clients[1].card_bytes, 64u << 20);
  EXPECT_EQ(clients[1].system_bytes, 5u << 10);
  EXPECT_EQ(clients[1].engine_ns, 1500000u);
  EXPECT_EQ(clients[1].jobs, 7u);
  EXPECT_EQ(clients[2].client, 5u);
}

TEST_F(Clients, EverythingElseIsLeftOut) {
  add("5", "desktop", "3", info("i915", "1"));
  add("6", "plain", "3", "pos:\t0\nflags:\t02\n");
  add("7", "strange", "3", std::string(3000, ':') + "\n\n\tdrm-driver npu");
  add("self", "npu", "3", info("npu", "1"));
  add("8x", "npu", "3", info("npu", "1"));
  fs::create_directories(proc_ / "9");
  EXPECT_TRUE(find_clients(proc_.string()).empty());
  EXPECT_TRUE(find_clients("/nonexistent").empty());
}

Report example() {
  Card card;
  card.chip = "QNPU1";
  card.transport = "drm";
  card.driver = "npu 1.0.0";
  card.bus = "0000:01:00.0";
  card.info.cores = 2;
  card.status.temperature_mc = 42500;
  card.status.power_mw = 5250;
  card.status.clock_khz = 1000000;
  card.memory.card_total = 504ull << 20;
  card.memory.card_free = 440ull << 20;
  Client client;
  client.pid = 321;
  client.process = "a \"b\"\n";
  client.card_bytes = 64ull << 20;
  card.clients.push_back(client);
  return {{card}};
}

TEST(Formats, TheTableHasEverything) {
  const std::string text = formats()[0].write(example(), "1.2.3");
  for (const char *part : {"npu-smi 1.2.3", "driver npu 1.0.0", "transport drm", "QNPU1", "0000:01:00.0", "42.5 C",
                           "5.2 W", "1000 MHz", "64 / 504   MiB", "321", "64.0 MiB"})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

TEST(Formats, WithoutProcessesTheTableSaysSo) {
  Report report = example();
  report.cards[0].clients.clear();
  EXPECT_NE(formats()[0].write(report, "1").find("no process has a card open"), std::string::npos);
}

TEST(Formats, JsonQuotesNames) {
  ASSERT_STREQ(formats()[1].option, "--json");
  const std::string text = formats()[1].write(example(), "1.2.3");
  EXPECT_NE(text.find(R"("process": "a \"b\"\u000a")"), text.npos) << text;
  EXPECT_NE(text.find(R"("temperature_mc": 42500)"), text.npos);
  EXPECT_NE(text.find(R"("memory_free": 461373440)"), text.npos);
}

}  // namespace
}  // namespace npu::smi
