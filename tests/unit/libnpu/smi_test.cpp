// SPDX-License-Identifier: MIT
// npu-smi: who has a card open, from a made-up /proc; and both ways of telling.
#include <gtest/gtest.h>
#include <npu.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <clocale>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/npu-smi/report.h"
#include "tools/npu-smi/view.h"

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
    std::ofstream(proc_ / pid / "cmdline") << "/opt/" << name << '\0' << "--batch" << '\0' << "8 9" << '\0';
    std::ofstream(proc_ / pid / "status") << "Name:\t" << name << "\nUid:\t4242\t0\t0\t0\n";
    std::ofstream(proc_ / pid / "fdinfo" / fd) << text;
  }

  static std::string info(const std::string &driver, const std::string &client) {
    return "pos:\t0\nflags:\t02\ndrm-driver:\t" + driver + "\ndrm-client-id:\t" + client +
           "\ndrm-pdev:\t0000:01:00.0\ndrm-engine-core0:\t1000000 ns\ndrm-engine-core1:\t500000 "
           "ns\nqnpu-modelled-core0:\t30 ns\nqnpu-modelled-core1:\t12 ns\nqnpu-cycles-core0:\t30\n"
           "qnpu-submissions:\t3\nqnpu-jobs:\t7\ndrm-resident-card:\t64 MiB\n"
           "drm-resident-system:\t5 KiB\n";
  }

  fs::path proc_;
};

TEST_F(Clients, FilesOfTheDriverAreFoundOncePerClient) {
  add("77", "infer", "3", info("qnpu", "4"));
  add("77", "infer", "5", info("qnpu", "4"));  // a duplicate
  add("77", "infer", "6", info("qnpu", "5"));
  add("12", "other", "3", info("qnpu", "9"));
  const auto clients = find_clients(proc_.string());
  ASSERT_EQ(clients.size(), 3u);
  EXPECT_EQ(clients[0].pid, 12);
  EXPECT_EQ(clients[0].process, "other");
  EXPECT_EQ(clients[1].pid, 77);
  EXPECT_EQ(clients[1].client, 4u);
  EXPECT_EQ(clients[1].bus, "0000:01:00.0");
  EXPECT_EQ(clients[1].card_bytes, 64u << 20);
  EXPECT_EQ(clients[1].system_bytes, 5u << 10);
  EXPECT_EQ(clients[1].busy_ns, 1500000u);
  EXPECT_EQ(clients[1].modelled_ns, 42u);
  EXPECT_EQ(clients[1].submissions, 3u);
  EXPECT_EQ(clients[1].jobs, 7u);
  EXPECT_EQ(clients[2].client, 5u);
}

TEST_F(Clients, ProcessesHaveAUserAndArguments) {
  add("77", "infer", "3", info("qnpu", "4"));
  add("78", "other", "3", info("qnpu", "5"));
  std::ofstream(proc_ / "78" / "status") << "Uid:\t0\t987654\t0\t0\n";
  fs::remove(proc_ / "78" / "cmdline");
  const auto clients = find_clients(proc_.string());
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0].arguments, "/opt/infer --batch 8 9");
  EXPECT_EQ(clients[0].uid, 0);
  EXPECT_EQ(clients[0].user, getpwuid(0) ? "root" : "0");
  EXPECT_EQ(clients[1].arguments, "");
  EXPECT_EQ(clients[1].user, "987654");  // who has no name
}

TEST_F(Clients, WhatCannotBeSeenIsKnown) {
  bool complete = false;
  add("77", "infer", "3", info("qnpu", "4"));
  add("78", "infer", "3", info("qnpu", "4"));  // a file that two processes share
  add("79", "infer", "3", info("qnpu", "5"));
  const auto clients = find_clients(proc_.string(), &complete);
  EXPECT_TRUE(complete);
  // The driver's count has npu-smi's own file, too.
  EXPECT_EQ(count_hidden(3, clients, complete), 0);
  EXPECT_EQ(count_hidden(5, clients, complete), 2);
  EXPECT_EQ(count_hidden(1, clients, complete), 0);
  // A driver that does not count.
  EXPECT_EQ(count_hidden(0, clients, true), 0);
  EXPECT_EQ(count_hidden(0, clients, false), -1);
  find_clients("/nonexistent", &complete);
  EXPECT_FALSE(complete);
  if (geteuid() == 0) return;  // for root nothing is unreadable
  fs::permissions(proc_ / "77" / "fdinfo", fs::perms::none);
  EXPECT_EQ(find_clients(proc_.string(), &complete).size(), 2u);
  EXPECT_FALSE(complete);
  fs::permissions(proc_ / "77" / "fdinfo", fs::perms::owner_all);
}

TEST_F(Clients, EverythingElseIsLeftOut) {
  add("5", "desktop", "3", info("i915", "1"));
  add("6", "plain", "3", "pos:\t0\nflags:\t02\n");
  add("7", "strange", "3", std::string(3000, ':') + "\n\n\tdrm-driver qnpu");
  add("self", "npu", "3", info("qnpu", "1"));
  add("8x", "npu", "3", info("qnpu", "1"));
  fs::create_directories(proc_ / "9");
  EXPECT_TRUE(find_clients(proc_.string()).empty());
  EXPECT_TRUE(find_clients("/nonexistent").empty());
}

Report example() {
  Card card;
  card.chip = "QNPU1";
  card.transport = "drm";
  card.driver = "qnpu 1.0.0";
  card.bus = "0000:01:00.0";
  card.info.cores = 2;
  card.status.temperature_mc = 42500;
  card.status.power_mw = 5250;
  card.status.clock_khz = 1000000;
  card.status.card_ns = 5000;
  card.status.busy_ns[1] = 2000;
  card.memory.card_total = 504ull << 20;
  card.memory.card_free = 440ull << 20;
  Client client;
  client.pid = 321;
  client.process = "a \"b\"\n";
  client.card_bytes = 64ull << 20;
  card.clients.push_back(client);
  return {{card}};
}

const Format &format_of(const std::string &option) {
  for (const Format &f : formats())
    if (f.option && f.option == option) return f;
  ADD_FAILURE() << option;
  return formats()[0];
}

TEST(Formats, TheTableHasEverything) {
  const std::string text = formats()[0].write(example(), "1.2.3");
  for (const char *part : {"npu-smi 1.2.3", "driver qnpu 1.0.0", "transport drm", "QNPU1", "0000:01:00.0", "42.5 C",
                           "5.2 W", "1000 MHz", "64 / 504   MiB", "321", "64.0 MiB"})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

std::string text_of(const std::vector<Line> &lines) {
  std::string text;
  for (const Line &line : lines) {
    for (const Span &span : line) text += span.text;
    text += "\n";
  }
  return text;
}

/// The live view after one look.
std::string shown(const Report &report, size_t rows, size_t columns) {
  View view("title", Glyphs::Ascii);
  view.add(report);
  return text_of(view.lines(rows, columns));
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
  const std::string lines = "cache lines uncleaned 5, stale 6, overwritten 7, discarded 8\n";
  const std::string text = formats()[0].write(soc(), "1");
  for (const std::string &part : std::vector<std::string>{"| soc  ", "     24 MiB system |", " - MiB |",
                                                          "\nNPU 0: driver qnpu 1.0.0", "\nNPU 0: " + lines})
    EXPECT_NE(text.find(part), text.npos) << part << " in " << text;
  const nlohmann::json card = nlohmann::json::parse(formats()[1].write(soc(), "1")).at("cards").at(0);
  EXPECT_EQ(card.at("cache_uncleaned"), 5);
  EXPECT_EQ(card.at("cache_discarded"), 8);
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("cache.stale,cache.overwritten", columns, bad)) << bad;
  EXPECT_EQ(csv(soc(), columns), "6,7\n");
  const std::string live = shown(soc(), 40, 100);
  EXPECT_NE(live.find("memory  24 MiB of the system\n"), live.npos) << live;
  EXPECT_NE(live.find("  " + lines), live.npos) << live;
  EXPECT_NE(live.find("NPU 0  QNPU1  soc  qnpu 1.0.0"), live.npos) << live;
}

TEST(Formats, ABlockOfASocIsNoCardAnywhere) {
  const std::string details = format_of("-q").write(soc(), "1");
  for (const char *part : {"NPU 0\n", "  Cache lines stale            : 6\n", "  Total                        : -\n",
                           "  System memory of processes   : 24 MiB\n", "(user -), card - MiB, system 24 MiB"})
    EXPECT_NE(details.find(part), details.npos) << part << " in " << details;
  EXPECT_NE(format_of("dmon").write(soc(), "1").find("     0     -    -   42.5"), std::string::npos);
  EXPECT_NE(format_of("pmon").write(soc(), "1").find("     0      321      -      24 "), std::string::npos);
  EXPECT_NE(shown(soc(), 40, 100).find("        -       24 "), std::string::npos);
  const nlohmann::json card = nlohmann::json::parse(formats()[1].write(soc(), "1")).at("cards").at(0);
  EXPECT_TRUE(card.at("memory_total").is_null());
  EXPECT_EQ(card.at("memory_system"), 24 << 20);
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("memory.used,memory.system", columns, bad)) << bad;
  EXPECT_EQ(csv(soc(), columns), ",24\n");
  EXPECT_EQ(metrics(soc(), "1").find("npu_card_memory_total_bytes"), std::string::npos);
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
  EXPECT_NE(formats()[0].write(report, "1").find("no process has an NPU open"), std::string::npos);
}

/// Files of processes that /proc does not show.
Report hidden(int count, bool others) {
  Report report = example();
  report.cards[0].hidden = count;
  if (!others) report.cards[0].clients.clear();
  return report;
}

TEST(Formats, HiddenProcessesAreNotDenied) {
  const char *const two = "2 open files are not visible to you";
  for (const char *option : {"", "-q", "pmon", "live"}) {
    const bool live = !strcmp(option, "live");
    const auto text = [&](const Report &report) {
      return live ? shown(report, 40, 120) : (*option ? format_of(option) : formats()[0]).write(report, "1");
    };
    EXPECT_NE(text(hidden(2, false)).find(two), std::string::npos) << text(hidden(2, false));
    EXPECT_EQ(text(hidden(2, false)).find("no process has"), std::string::npos) << option;
    EXPECT_NE(text(hidden(2, true)).find(two), std::string::npos) << option;
    EXPECT_NE(text(hidden(2, true)).find("321"), std::string::npos) << option;
    EXPECT_NE(text(hidden(-1, false)).find("not visible to you"), std::string::npos) << option;
  }
  const auto card = [](const Report &report) {
    return nlohmann::json::parse(formats()[1].write(report, "1")).at("cards").at(0);
  };
  EXPECT_TRUE(card(hidden(2, false)).at("processes").is_null());
  EXPECT_EQ(card(hidden(2, false)).at("hidden_files"), 2);
  EXPECT_TRUE(card(hidden(-1, false)).at("processes").is_null());
  EXPECT_TRUE(card(hidden(-1, false)).at("hidden_files").is_null());
  EXPECT_TRUE(card(hidden(1, true)).at("memory_system").is_null());
  EXPECT_EQ(card(hidden(1, true)).at("processes").size(), 1u);
  EXPECT_EQ(card(hidden(0, false)).at("processes").size(), 0u);
  EXPECT_NE(metrics(hidden(2, false), "1").find("npu_card_hidden_files{"), std::string::npos);
  std::vector<size_t> columns;
  std::string bad;
  ASSERT_TRUE(parse_columns("index,processes", columns, bad)) << bad;
  EXPECT_EQ(csv(hidden(2, true), columns), "0,\n");
  EXPECT_EQ(csv(hidden(0, true), columns), "0,1\n");
}

TEST(Formats, BusyAndModelledTimeAreTwo) {
  Report report = example();
  Client &client = report.cards[0].clients[0];
  client.submissions = 3;
  client.jobs = 12;
  client.busy_ns = 790000000;
  client.modelled_ns = 17000000;
  const std::string table = formats()[0].write(report, "1");
  EXPECT_NE(table.find("|           3 |         12 |    790.000 ms |     17.000 ms |"), table.npos) << table;
  const nlohmann::json process =
      nlohmann::json::parse(formats()[1].write(report, "1")).at("cards").at(0).at("processes").at(0);
  EXPECT_EQ(process.at("submissions"), 3);
  EXPECT_EQ(process.at("jobs"), 12);
  EXPECT_EQ(process.at("busy_ns"), 790000000);
  EXPECT_EQ(process.at("modelled_ns"), 17000000);
}

TEST(Formats, TheListHasALineEach) {
  EXPECT_EQ(format_of("-L").write(example(), "1"),
            "NPU 0: QNPU1 (bus 0000:01:00.0, driver qnpu 1.0.0, 2 cores, 504 MiB)\n");
  EXPECT_EQ(format_of("-L").write(soc(), "1"),
            "NPU 0: QNPU1 (bus soc, driver qnpu 1.0.0, 2 cores, no memory of its own)\n");
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

TEST(Formats, TimesThatADriverDoesNotTellAreNotZero) {
  Report report = example();
  const auto json = [&] { return nlohmann::json::parse(formats()[1].write(report, "1")).at("cards").at(0); };
  EXPECT_EQ(json().at("busy_ns"), nlohmann::json({0, 2000}));
  EXPECT_NE(metrics(report, "1").find("npu_core_busy_seconds_total{"), std::string::npos);
  report.cards[0].status.card_ns = 0;
  EXPECT_TRUE(json().at("busy_ns").is_null());
  EXPECT_EQ(metrics(report, "1").find("npu_core_busy_seconds_total{"), std::string::npos);
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
       {"card 0\n", "    Chip                             : QNPU1\n", "        Used                         : 64 MiB\n",
        "        Temperature                  : 42.5 C\n", "PID 321", "card 1\n    Lost "})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

TEST(Formats, StreamsTellOfTheWindow) {
  Report report = example();
  report.window_ms = 500;
  report.cards[0].window_jobs = 100;
  report.cards[0].clients[0].window_jobs = 50;
  report.cards[0].clients[0].window_ns = 10000000;
  report.cards[0].clients[0].window_modelled_ns = 2000000;
  report.cards[0].utilisation = 0;
  EXPECT_EQ(format_of("dmon").write(report, "1"), "     0     0   12   42.5    5.2   1000      0    0    200\n");
  report.cards[0].clients[0].process = "infer";
  EXPECT_EQ(format_of("pmon").write(report, "1"), "     0      321     64       0     100    20.0     4.0  infer\n");
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

Client client_of(long pid, const std::string &user, const std::string &arguments, uint64_t window_ns) {
  Client c;
  c.pid = pid;
  c.user = user;
  c.process = "short";
  c.arguments = arguments;
  c.window_ns = window_ns;
  c.window_jobs = window_ns / 1000000;
  return c;
}

/// Two cores, three processes.
Report busy() {
  Report report = example();
  report.window_ms = 1000;
  report.time = "2026-01-02T03:04:05.678Z";
  report.cards[0].core_util = {100, 50};
  report.cards[0].clients = {client_of(321, "ann", "sleeper", 0), client_of(99, "bob", "busy\x1b[2J --all", 500000000),
                             client_of(200, "cid", "", 1000000)};
  return report;
}

/// Positions of these texts, one after another.
void expect_order(const std::string &text, std::initializer_list<const char *> parts) {
  size_t at = 0;
  for (const char *part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, text.npos) << part << " in\n" << text;
    at = found;
  }
}

TEST(Screen, HasCardsAndProcessesThatDoMostFirst) {
  const std::string all = shown(busy(), 40, 120);
  EXPECT_NE(all.find("core 0  [##############################] 100 %"), all.npos) << all;
  EXPECT_NE(all.find("core 1  [###############               ]  50 %"), all.npos) << all;
  EXPECT_NE(all.find("] 64 of 504 MiB"), all.npos) << all;
  EXPECT_NE(all.find("2026-01-02T03:04:05.678Z\n"), all.npos) << all;
  expect_order(all, {"  99 bob", " 50.0 busy?[2J --all", " 200 cid", "short", " 321 ann", "sleeper"});
}

TEST(Screen, KeysSortProcesses) {
  View view("title", Glyphs::Ascii);
  view.add(busy());
  const auto text = [&] { return text_of(view.lines(40, 120)); };
  EXPECT_NE(text().find("s: sort (engine %)"), std::string::npos) << text();
  EXPECT_TRUE(view.press(Key::Reverse));
  expect_order(text(), {"engine %, reversed", " 321 ann", " 200 cid", "  99 bob"});
  EXPECT_TRUE(view.press(Key::Reverse));
  while (text().find("sort (PID)") == std::string::npos) ASSERT_TRUE(view.press(Key::Sort));
  expect_order(text(), {"  99 bob", " 200 cid", " 321 ann"});
  EXPECT_TRUE(view.press(Key::Sort));
  expect_order(text(), {"sort (USER", " 321 ann", "  99 bob", " 200 cid"});
  while (text().find("sort (COMMAND)") == std::string::npos) ASSERT_TRUE(view.press(Key::Sort));
  expect_order(text(), {"busy?", "short", "sleeper"});
  EXPECT_FALSE(view.press(Key::Other));
}

TEST(Screen, HelpComesAndGoes) {
  View view("title", Glyphs::Ascii);
  view.add(busy());
  EXPECT_TRUE(view.press(Key::Help));
  std::string text = text_of(view.lines(24, 80));
  for (const char *part : {"utilisation", "reverse the order", "engine %"})
    EXPECT_NE(text.find(part), text.npos) << text;
  EXPECT_EQ(text.find("core 0"), text.npos) << text;
  EXPECT_EQ(text.find("more lines"), text.npos) << text;
  EXPECT_TRUE(view.press(Key::Other));
  text = text_of(view.lines(24, 80));
  EXPECT_NE(text.find("core 0"), text.npos) << text;
}

TEST(Screen, ProcessesAreScrolled) {
  Report report = busy();
  report.cards[0].clients.clear();
  for (long pid = 1000; pid < 1100; pid++) report.cards[0].clients.push_back(client_of(pid, "u", "x", 0));
  View view("title", Glyphs::Ascii);
  view.add(report);
  const auto has = [&](const char *what) { return text_of(view.lines(24, 80)).find(what) != std::string::npos; };
  EXPECT_TRUE(has(" 1000 u"));
  EXPECT_TRUE(has("more lines"));
  view.press(Key::Down);
  EXPECT_FALSE(has(" 1000 u"));
  EXPECT_TRUE(has(" 1001 u"));
  view.press(Key::PageDown);
  EXPECT_FALSE(has(" 1001 u"));
  view.press(Key::Last);
  EXPECT_TRUE(has(" 1099 u"));
  EXPECT_FALSE(has("more lines"));
  view.press(Key::PageUp);
  EXPECT_FALSE(has(" 1099 u"));
  view.press(Key::First);
  view.press(Key::Up);
  EXPECT_TRUE(has(" 1000 u"));
}

/// Values of core 0, one look after another.
View with_history(Glyphs glyphs, std::initializer_list<int> values) {
  View view("title", glyphs);
  for (const int value : values) {
    Report report = busy();
    report.cards[0].core_util = {value, 0};
    view.add(report);
  }
  return view;
}

std::string line_with(const std::string &text, const char *part) {
  const size_t at = text.find(part), begin = text.rfind('\n', at) + 1;
  return at == text.npos ? text : text.substr(begin, text.find('\n', at) - begin);
}

TEST(Screen, GraphsGrowFromTheRight) {
  const View view = with_history(Glyphs::Ascii, {0, 1, 50, 100});
  const std::string line = line_with(text_of(view.lines(14, 80)), "core 0");
  EXPECT_EQ(line.size(), 80u);
  EXPECT_EQ(line.substr(75), "  .:#") << line;
}

TEST(Screen, GraphsTakeRowsThatAreThere) {
  const std::string text = text_of(with_history(Glyphs::Ascii, {100, 50}).lines(50, 200));
  const std::string line = line_with(text, "core 0");
  EXPECT_EQ(line.substr(line.size() - 2), "# ") << text;  // of 4 rows the upper ones have nothing of 50 %
  const size_t at = text.find(line) + line.size() + 1;
  size_t rows = 1;
  for (size_t next = at; text.substr(next, 8) != "  core 1"; next = text.find('\n', next) + 1) rows++;
  EXPECT_EQ(rows, 4u) << text;
}

/// The locale of the test program, and back.
class Utf8 : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(setlocale(LC_CTYPE, "C.UTF-8"), nullptr); }
  void TearDown() override { setlocale(LC_CTYPE, "C"); }
};

TEST_F(Utf8, GraphsHaveBlocks) {
  EXPECT_EQ(choose_glyphs("xterm"), Glyphs::Eighths);
  EXPECT_EQ(choose_glyphs("linux"), Glyphs::Halves);
  std::string line = line_with(text_of(with_history(Glyphs::Eighths, {1, 50, 100}).lines(14, 80)), "core 0");
  EXPECT_TRUE(line.ends_with("▁▄█")) << line;
  EXPECT_EQ(width_of(line), 80u);
  line = line_with(text_of(with_history(Glyphs::Halves, {1, 50, 100}).lines(14, 80)), "core 0");
  EXPECT_TRUE(line.ends_with("▄▄█")) << line;
}

TEST_F(Utf8, WideCharactersFit) {
  EXPECT_EQ(width_of("日本"), 4u);
  EXPECT_EQ(fitting("日本", 3), "日");
  EXPECT_EQ(fitting("a\xff\x1b\u200f", 9), "a???");
}

TEST(Screen, WithoutAUtf8LocaleThereIsAscii) {
  EXPECT_EQ(choose_glyphs("xterm"), Glyphs::Ascii);
  Report report = busy();
  report.cards[0].clients[0].arguments = "日本";
  for (const char c : shown(report, 40, 120)) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Screen, FitsEveryTerminal) {
  Report report = busy();
  report.cards.push_back(lost().cards[1]);
  for (size_t rows : {1, 2, 5, 10, 24, 50})
    for (size_t columns : {1, 10, 40, 80, 200}) {
      View view("title", Glyphs::Ascii);
      view.add(report);
      const auto lines = view.lines(rows, columns);
      EXPECT_LE(lines.size(), rows);
      for (const Line &line : lines) {
        size_t width = 0;
        for (const Span &span : line) width += width_of(span.text);
        EXPECT_LE(width, columns);
      }
      EXPECT_EQ(rows == 1 || width_of(lines[0][0].text) == columns, true);  // the title takes all of it
    }
}

TEST(Utilisation, IsTheTimeWithAJob) {
  drm_npu_status_info before{}, after{};
  before.card_ns = 1000;
  before.busy_ns[1] = 500;
  after.card_ns = 2000;
  after.busy_ns[1] = 750;
  EXPECT_EQ(npu_utilisation(&before, &after, 0), 0);
  EXPECT_EQ(npu_utilisation(&before, &after, 1), 25);
  after.busy_ns[1] = 5000;  // read a moment later than the clock
  EXPECT_EQ(npu_utilisation(&before, &after, 1), 100);
  after.busy_ns[1] = 100;  // the card was reset
  EXPECT_EQ(npu_utilisation(&before, &after, 1), 10);
  EXPECT_EQ(npu_utilisation(&before, &before, 1), -1);
  EXPECT_EQ(npu_utilisation(&before, &after, 8), -1);
  after.card_ns = before.card_ns = 0;  // an older driver
  EXPECT_EQ(npu_utilisation(&before, &after, 1), -1);
}

TEST(Utilisation, IsNotMadeUpWhereItIsNotKnown) {
  Report report = example();
  report.cards[0].core_util = {-1, -1};
  const nlohmann::json card = nlohmann::json::parse(formats()[1].write(report, "1")).at("cards").at(0);
  EXPECT_TRUE(card.at("utilisation").is_null());
  EXPECT_TRUE(card.at("core_utilisation").at(1).is_null());
  EXPECT_NE(format_of("dmon").write(report, "1").find("     0     -   12"), std::string::npos);
  EXPECT_NE(formats()[0].write(report, "1").find("|   - % |"), std::string::npos);
}

/// For tests by programs that know JSON Schema and Prometheus' format: files in the folder $NPU_SMI_EXAMPLES.
TEST(Examples, AreWritten) {
  const char *folder = getenv("NPU_SMI_EXAMPLES");
  if (!folder) return;
  Report strange = busy();
  strange.cards[0].clients[1].process = "a\\b \"c\"\n\xff";
  const std::pair<const char *, Report> examples[] = {{"example", example()}, {"busy", busy()},
                                                      {"lost", lost()},       {"soc", soc()},
                                                      {"strange", strange},   {"hidden", hidden(2, false)}};
  for (const auto &[name, report] : examples) {
    Report dated = report;
    dated.time = "2026-01-02T03:04:05.678Z";
    std::ofstream(std::string(folder) + "/" + name + ".json") << formats()[1].write(dated, "1.2.3");
    std::ofstream(std::string(folder) + "/" + name + ".prom") << metrics(dated, "1.2.3");
  }
}

}  // namespace
}  // namespace npu::smi
