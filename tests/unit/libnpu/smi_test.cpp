// SPDX-License-Identifier: MIT
// npu-smi: who has a card open, from a made-up /proc; and both ways of telling.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/npu-smi/report.h"

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
           "\ndrm-pdev:\t0000:01:00.0\ndrm-engine-core0:\t1000000 ns\ndrm-engine-core1:\t500000 "
           "ns\nnpu-jobs:\t7\ndrm-resident-card:\t64 MiB\n"
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

/// A block of a SoC whose caches are watched.
Report soc() {
  Report report = example();
  Card &card = report.cards[0];
  card.bus = "soc";
  card.memory = {};
  card.info.bus = DRM_NPU_BUS_PLATFORM;
  card.clients[0].system_bytes = 24ull << 20;
  card.watch = {.flags = DRM_NPU_WATCH_PRESENT, .uncleaned = 5, .stale = 6, .overwritten = 7, .discarded = 8};
  return report;
}

TEST(Formats, ABlockOfASocHasNoMemoryButAWatch) {
  const char *lines = "cache lines not cleaned 5, not invalidated 6, cleaned too late 7, thrown away 8";
  const std::string text = formats()[0].write(soc(), "1");
  for (const char *part : {"| soc  ", "     24 MiB system |", lines}) EXPECT_NE(text.find(part), text.npos) << text;
  const nlohmann::json card = nlohmann::json::parse(formats()[1].write(soc(), "1")).at("cards").at(0);
  EXPECT_EQ(card.at("cache_uncleaned"), 5);
  EXPECT_EQ(card.at("cache_discarded"), 8);
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("cache.stale,cache.overwritten", columns, bad)) << bad;
  EXPECT_EQ(csv(soc(), columns), "6,7\n");
  std::string shown;
  for (const std::string &line : screen(soc(), "title", 40, 100)) shown += line + "\n";
  EXPECT_NE(shown.find("memory  24 MiB of the system\n"), shown.npos) << shown;
  EXPECT_NE(shown.find("not cleaned 5, not invalidated 6"), shown.npos) << shown;
}

TEST(Formats, WithoutAWatchThereAreNoCounters) {
  const nlohmann::json card = nlohmann::json::parse(formats()[1].write(example(), "1")).at("cards").at(0);
  EXPECT_TRUE(card.at("cache_stale").is_null());
  EXPECT_EQ(formats()[0].write(example(), "1").find("cache lines"), std::string::npos);
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("chip,cache.stale", columns, bad)) << bad;
  EXPECT_EQ(csv(example(), columns), "QNPU1,\n");
}

TEST(Formats, WithoutProcessesTheTableSaysSo) {
  Report report = example();
  report.cards[0].clients.clear();
  EXPECT_NE(formats()[0].write(report, "1").find("no process has a card open"), std::string::npos);
}

TEST(Formats, JsonIsJson) {
  ASSERT_STREQ(formats()[1].option, "--json");
  Report report = example();
  report.cards[0].info.cores = 2;
  report.cards[0].core_util = {50, 0};
  const nlohmann::json all = nlohmann::json::parse(formats()[1].write(report, "1.2.3"));
  EXPECT_EQ(all.at("version"), "1.2.3");
  const nlohmann::json &card = all.at("cards").at(0);
  EXPECT_EQ(card.at("card"), 0);
  EXPECT_EQ(card.at("processes").at(0).at("process"), "a \"b\"\n");
  EXPECT_EQ(card.at("temperature_mc"), 42500);
  EXPECT_EQ(card.at("memory_free"), 461373440);
  EXPECT_EQ(card.at("core_utilisation"), nlohmann::json({50, 0}));
  EXPECT_EQ(card.at("jobs"), nlohmann::json({0, 0}));
}

TEST(Formats, JsonHasNamesOfAnyBytes) {
  Report report = example();
  report.cards[0].clients[0].process = "\xff\x01x";
  const nlohmann::json all = nlohmann::json::parse(formats()[1].write(report, "1"));
  EXPECT_EQ(all.at("cards").at(0).at("processes").at(0).at("process"), "\xef\xbf\xbd\x01x");
}

const Format &format_of(const std::string &option) {
  for (const Format &f : formats())
    if (f.option && f.option == option) return f;
  ADD_FAILURE() << option;
  return formats()[0];
}

Report lost() {
  Report report = example();
  report.cards.push_back(report.cards[0]);
  report.cards[1].index = 1;
  report.cards[1].lost = "No such device";
  return report;
}

TEST(Formats, DetailsHaveALineForEverything) {
  const std::string text = format_of("-q").write(lost(), "1");
  for (const char *part :
       {"Card 0\n", "    Chip                             : QNPU1\n", "        Used                         : 64 MiB\n",
        "        Temperature                  : 42.5 C\n", "PID 321", "Card 1\n    Lost "})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

TEST(Formats, StreamsTellOfTheWindow) {
  Report report = example();
  report.window_ms = 500;
  report.cards[0].window_jobs = 100;
  report.cards[0].clients[0].window_jobs = 50;
  report.cards[0].clients[0].window_ns = 10000000;
  EXPECT_EQ(format_of("dmon").write(report, "1"), "     0     0   12   42.5    5.2   1000      0    0    200\n");
  report.cards[0].clients[0].process = "infer";
  EXPECT_EQ(format_of("pmon").write(report, "1"), "     0      321     64       0     100    20.0  infer\n");
  // A line of values has as many columns as the heads.
  for (const char *option : {"dmon", "pmon"}) {
    std::istringstream heads(format_of(option).head()), values(format_of(option).write(report, "1"));
    std::string first, line;
    std::getline(heads, first);
    std::istringstream names(first.substr(1));
    const std::vector<std::string> a{std::istream_iterator<std::string>(names), {}},
        b{std::istream_iterator<std::string>(values), {}};
    EXPECT_EQ(a.size(), b.size()) << option;
  }
}

TEST(Formats, LostCardsAreTold) {
  for (const Format &f : formats())
    EXPECT_NE(f.write(lost(), "1").find("No such device"), std::string::npos) << (f.option ? f.option : "table");
}

TEST(Query, ColumnsComeAsAskedFor) {
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("memory.used,index,temperature", columns, bad));
  EXPECT_EQ(csv_head(columns), "memory.used [MiB],index,temperature [mC]\n");
  EXPECT_EQ(csv(lost(), columns), "64,0,42500\nlost,1,lost\n");
  EXPECT_FALSE(parse_columns("index,", columns, bad));
  EXPECT_EQ(bad, "");
  EXPECT_FALSE(parse_columns("index,nonsense,chip", columns, bad));
  EXPECT_EQ(bad, "nonsense");
}

TEST(Query, FieldsAreQuotedWhereTheyMustBe) {
  Report report = example();
  report.cards[0].chip = "a \"b\", c";
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("chip", columns, bad));
  EXPECT_EQ(csv(report, columns), "\"a \"\"b\"\", c\"\n");
}

TEST(Screen, HasCardsAndProcessesThatDoMostFirst) {
  Report report = example();
  report.window_ms = 1000;
  report.cards[0].core_util = {100, 50};
  Client busy;
  busy.pid = 99;
  busy.process = "busy\x1b[2J";
  busy.window_ns = 500000000;
  report.cards[0].clients.push_back(busy);
  const auto lines = screen(report, "title", 40, 120);
  std::string all;
  for (const std::string &line : lines) all += line + "\n";
  EXPECT_NE(all.find("core 0  [########################] 100 %"), all.npos) << all;
  EXPECT_NE(all.find("core 1  [############            ]  50 %"), all.npos) << all;
  EXPECT_NE(all.find("] 64 of 504 MiB"), all.npos) << all;
  EXPECT_LT(all.find("  99 "), all.find(" 321 ")) << all;
  EXPECT_NE(all.find("50.0 %  busy?[2J"), all.npos) << all;
}

TEST(Screen, FitsEveryTerminal) {
  for (size_t rows : {1, 2, 5, 10, 50})
    for (size_t columns : {1, 10, 40, 200}) {
      const auto lines = screen(lost(), "title", rows, columns);
      EXPECT_LE(lines.size(), rows);
      for (const std::string &line : lines) EXPECT_LE(line.size(), columns);
    }
}

}  // namespace
}  // namespace npu::smi
