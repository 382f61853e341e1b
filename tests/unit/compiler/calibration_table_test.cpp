// SPDX-License-Identifier: MIT
// The calibration table as text.
#include <gtest/gtest.h>

#include "compiler/quantize/table.h"

namespace npu::test {
namespace {

using quantize::Table;

TEST(CalibrationTable, IsTheSameAgain) {
  Table table, again;
  table.tensors["x"] = {{-1.25f, 3.5f}, "kl"};
  table.tensors["a \"quoted\" \\ name\nof two lines"] = {{0, 1e-30f}, "percentile:99.9"};
  table.tensors[""] = {{-0.1f, 0.f}, "manual"};
  table.keep = {"conv 1", "b\\"};
  table.reals = {"sum 1", "\""};
  const std::string text = table_text(table);
  ASSERT_EQ(parse_table(text, again).message(), "");
  EXPECT_EQ(table_text(again), text);
  EXPECT_EQ(again.keep, table.keep);
  EXPECT_EQ(again.reals, table.reals);
  ASSERT_EQ(again.tensors.size(), 3u);
  for (const auto &[name, line] : table.tensors) {
    EXPECT_EQ(again.tensors[name].range, line.range);
    EXPECT_EQ(again.tensors[name].method, line.method);
  }
}

TEST(CalibrationTable, TakesWhatPeopleWrite) {
  Table table;
  ASSERT_EQ(parse_table("# mine\n\n  \"x\"\t-1   +2.5\r\n\"y\" 0 1e3 guess\nkeep  \"n\"  ", table).message(), "");
  EXPECT_EQ(table.tensors["x"].range, (quantize::Range{-1, 2.5f}));
  EXPECT_EQ(table.tensors["x"].method, "manual");
  EXPECT_EQ(table.tensors["y"].range.high, 1000);
  EXPECT_EQ(table.keep.count("n"), 1u);
}

TEST(CalibrationTable, OfAnotherVersionIsRefused) {
  Table table;
  EXPECT_EQ(parse_table("# mine\n# npuc calibration table 2 \n", table).message(),
            "line 2: a table of version 2, 1 is expected");
  EXPECT_EQ(parse_table("# npuc calibration table 1\r\n# npuc calibration table of mine\n", table).message(), "");
}

TEST(CalibrationTable, ErrorsNameTheLine) {
  const auto message = [](const std::string &text) {
    Table table;
    return parse_table("# head\n" + text, table).message();
  };
  const std::string form = "\"NAME\" LOW HIGH METHOD is expected";
  EXPECT_EQ(message("x 0 1 kl"), "line 2: a tensor's name between double quotes is expected first");
  EXPECT_EQ(message("\"x 0 1 kl"), "line 2: a tensor's name between double quotes is expected first");
  EXPECT_EQ(message("\"x\" 0"), "line 2: tensor 'x': '' is no finite number: " + form);
  EXPECT_EQ(message("\"x\" 0 nan kl"), "line 2: tensor 'x': 'nan' is no finite number: " + form);
  EXPECT_EQ(message("\"x\" -inf 1"), "line 2: tensor 'x': '-inf' is no finite number: " + form);
  EXPECT_EQ(message("\"x\" 0 1e99"), "line 2: tensor 'x': '1e99' is no finite number: " + form);
  EXPECT_EQ(message("\"x\" 0 1 kl more"), "line 2: tensor 'x': 'more' is too much: " + form);
  EXPECT_EQ(message("\"x\" 2 1"), "line 2: tensor 'x': the lowest number 2 is above the highest, 1");
  EXPECT_EQ(message("\"x\" 0 1\n\n\"x\" 0 2"), "line 4: tensor 'x': has a line already");
  EXPECT_EQ(message("keep n"),
            "line 2: a node's name between double quotes is expected behind 'keep', and nothing else");
  EXPECT_EQ(message("keep \"n\"\nkeep \"n\""), "line 3: node 'n' has a line already");
  EXPECT_EQ(message("real \"n\" 0"),
            "line 2: a tensor's name between double quotes is expected behind 'real', and nothing else");
  EXPECT_EQ(message("real \"n\"\nreal \"n\""), "line 3: tensor 'n' has a line already");
}

TEST(CalibrationTable, Rules) {
  quantize::RangeRule rule;
  for (const char *text : {"minmax", "kl", "mse", "percentile:99.99", "percentile:100"}) {
    EXPECT_TRUE(parse_rule(text, rule)) << text;
    EXPECT_EQ(rule_text(rule), text);
  }
  EXPECT_TRUE(parse_rule("percentile", rule));
  for (const char *text :
       {"", "max", "kl:1", "percentile:", "percentile:50", "percentile:101", "percentile:nan", "mse "})
    EXPECT_FALSE(parse_rule(text, rule)) << text;
}

}  // namespace
}  // namespace npu::test
