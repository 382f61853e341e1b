// SPDX-License-Identifier: MIT
// bmrt_test: its comparison, its command line, and the program as a whole (exit codes, messages).
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>

#include "tests/unit/runtime/models.h"
#include "tools/bmrt_test/compare.h"
#include "tools/bmrt_test/latency.h"
#include "tools/bmrt_test/options.h"

namespace {

using bmrt_test::compare;
using bmrt_test::Comparison;
using bmrt_test::Options;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Comparison floats(const Floats &got, const Floats &expected, double accuracy = 1e-2) {
  return compare(BM_FLOAT32, got.data(), expected.data(), got.size(), {accuracy, 0});
}

TEST(Compare, FloatsAreRelativeToTheLargestExpectedOne) {
  EXPECT_TRUE(floats({2e-5f, 1e-3f}, {1.1e-5f, 1e-3f}).equal);  // 1e-2 * 1e-3
  EXPECT_FALSE(floats({2.2e-5f, 1e-3f}, {1.1e-5f, 1e-3f}).equal);
  EXPECT_FALSE(floats({0.0f, 0.0f}, {1.1e-5f, 1e-3f}).equal) << "small numbers are not zero";
  EXPECT_FALSE(floats({1e-30f}, {0.0f}).equal);
  EXPECT_TRUE(floats({0.9f, 100.0f}, {0.0f, 100.0f}).equal);  // 1e-2 * 100
  EXPECT_FALSE(floats({1.1f, 100.0f}, {0.0f, 100.0f}).equal);
  EXPECT_FALSE(floats({0.0f, 1000.0f}, {0.0f, 1.0f}).equal);  // what was got does not count
  EXPECT_TRUE(floats({1.0f}, {1.0f}, 0).equal);
  EXPECT_FALSE(floats({std::nextafter(1.0f, 2.0f)}, {1.0f}, 0).equal);
}

TEST(Compare, AnAbsoluteLimitAddsToTheRelativeOne) {
  const auto with = [](const Floats &got, const Floats &expected, double limit, double accuracy = 1e-2) {
    return compare(BM_FLOAT32, got.data(), expected.data(), got.size(), {accuracy, 0, -1, limit});
  };
  EXPECT_TRUE(with({0.5f}, {0.0f}, 0.5).equal);
  EXPECT_FALSE(with({0.6f}, {0.0f}, 0.5).equal);
  EXPECT_TRUE(with({0.9f, 100}, {0, 100}, 0.5).equal);  // 1e-2 * 100
  EXPECT_FALSE(with({1e-9f}, {0}, 0).equal);
  // Without one: rounding errors where all that is expected is tiny, and nowhere else.
  EXPECT_TRUE(with({1e-8f, -9e-8f, 0}, {0, 0, 0}, -1).equal);
  EXPECT_TRUE(with({1e-8f}, {0}, -1).tiny);
  EXPECT_FALSE(with({2e-7f}, {0}, -1).equal);
  EXPECT_FALSE(with({1e-8f, 2e-6f}, {0, 2e-6f}, -1, 1e-4).equal);
  EXPECT_TRUE(with({1e-8f, 9e-7f}, {0, 9e-7f}, -1, 1e-4).equal);
  const uint16_t got[] = {0x002a}, zero[] = {0}, more[] = {0x0400};  // 2.5e-6, 6.1e-5
  EXPECT_TRUE(compare(BM_FLOAT16, got, zero, 1, {0, 0, -1, -1}).equal);
  EXPECT_EQ(compare(BM_BFLOAT16, more, zero, 1, {0, 0, -1, -1}).limit, bmrt_test::kTinyLimit16);
  const int dims[] = {1};
  bm_shape_t shape;
  bmrt_shape(&shape, dims, 1);
  EXPECT_NE(bmrt_test::summary(with({1e-8f}, {0}, -1), shape).find("may differ by 1e-07, as all expected"),
            std::string::npos);
}

TEST(Compare, WhatADeviceMayFlushToZeroIsZero) {
  constexpr float kNormal = std::numeric_limits<float>::min();
  EXPECT_TRUE(floats({0.0f}, {kNormal / 2}).equal);
  EXPECT_TRUE(floats({-kNormal}, {0.0f}).equal);
  EXPECT_FALSE(floats({kNormal * 1.5f}, {0.0f}).equal);
  const uint16_t zero[] = {0}, largest_subnormal[] = {0x03ff}, above[] = {0x0401}, bf[] = {0x0081};
  EXPECT_TRUE(compare(BM_FLOAT16, zero, largest_subnormal, 1, {0, 0}).equal);
  EXPECT_FALSE(compare(BM_FLOAT16, zero, above, 1, {0, 0}).equal);
  EXPECT_FALSE(compare(BM_BFLOAT16, zero, bf, 1, {0, 0}).equal);
}

TEST(Compare, NotANumberAndInfinityAreOnlyEqualToThemselves) {
  EXPECT_TRUE(floats({kNan, kInf, -kInf}, {kNan, kInf, -kInf}).equal);
  EXPECT_FALSE(floats({kNan}, {0.0f}).equal);
  EXPECT_FALSE(floats({0.0f}, {kNan}).equal);
  EXPECT_FALSE(floats({kInf}, {-kInf}).equal);
  EXPECT_FALSE(floats({5.0f, kInf}, {0.0f, kInf}).equal);  // an infinity does not widen the limit
}

TEST(Compare, DescribesTheFirstAndTheLargestDifference) {
  const int dims[] = {2, 3};
  bm_shape_t shape;
  bmrt_shape(&shape, dims, 2);
  const Comparison c = floats({1, 0, 0, 0, 0.5f, 3}, {1, 0, 0, 0, 0, 0});
  EXPECT_EQ(c.mismatches, 2u);
  EXPECT_EQ(bmrt_test::describe(c, shape),
            "element 4 (index [1,1]): got 0.5, expected 0, difference 0.5 is above 0.01; 2 of 6 elements differ, "
            "the largest difference is 3 at element 5 (got 3, expected 0)");
}

TEST(Compare, IntegersHaveAToleranceOfTheirOwn) {
  const int8_t got[] = {-128, 127, 3}, expected[] = {-128, 126, 3};
  EXPECT_FALSE(compare(BM_INT8, got, expected, 3, {1e-2, 0}).equal);
  EXPECT_TRUE(compare(BM_INT8, got, expected, 3, {1e-2, 1}).equal);
  const uint8_t high[] = {255}, low[] = {0};
  EXPECT_EQ(compare(BM_UINT8, high, low, 1, {1e-2, 0}).largest.difference, 255);
  const int32_t a[] = {-2000000000}, b[] = {2000000000};
  EXPECT_EQ(compare(BM_INT32, a, b, 1, {1e-2, 0}).largest.difference, 4e9);
}

TEST(Compare, ReadsHalfFormats) {
  const uint16_t f16[] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x7bff}, same[] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x7bff};
  EXPECT_TRUE(compare(BM_FLOAT16, f16, same, 5, {0, 0}).equal);
  const uint16_t one[] = {0x3c00}, two[] = {0x4000};
  EXPECT_EQ(compare(BM_FLOAT16, one, two, 1, {0, 0}).first.difference, 1.0);
  const uint16_t bf[] = {0x3f80}, bf2[] = {0xbf80};
  EXPECT_EQ(compare(BM_BFLOAT16, bf, bf2, 1, {0, 0}).first.difference, 2.0);
}

TEST(Compare, IntegersAreToldInSteps) {
  const int dims[] = {2, 2};
  bm_shape_t shape;
  bmrt_shape(&shape, dims, 2);
  const int8_t got[] = {-128, 127, 3, 5}, expected[] = {-128, 126, 3, 2};
  const Comparison c = compare(BM_INT8, got, expected, 4, {1e-2, 1});
  EXPECT_FALSE(c.equal);
  EXPECT_EQ(c.mismatches, 1u);
  EXPECT_EQ(bmrt_test::summary(c, shape),
            "2 of 4 elements differ, at most by 3 LSB, first element 1 (index [0,1]): got 127, expected 126; cosine "
            "0.999855");
  EXPECT_EQ(bmrt_test::describe(c, shape),
            "element 3 (index [1,1]): got 5, expected 2, difference 3 LSB is above 1; 1 of 4 elements differ, the "
            "largest difference is 3 LSB at element 3 (got 5, expected 2)");
  EXPECT_EQ(bmrt_test::summary(compare(BM_INT8, got, got, 4, {1e-2, 0}), shape), "all 4 elements are equal");
}

/// As vectors of the numbers that elements stand for.
TEST(Compare, Cosines) {
  const int8_t got[] = {-128, 127, 3, 5}, expected[] = {-128, 126, 3, 2}, zeros[] = {0, 0, 0, 0};
  EXPECT_NEAR(compare(BM_INT8, got, expected, 4, {}, -128).cosine, 0.999970999, 1e-9);
  EXPECT_EQ(compare(BM_INT8, zeros, zeros, 4, {}).cosine, 1);
  EXPECT_TRUE(std::isnan(compare(BM_INT8, got, zeros, 4, {}).cosine));
  const float right[] = {3, 4}, left[] = {-4, 3}, back[] = {-3, -4}, nan[] = {3, NAN};
  EXPECT_EQ(compare(BM_FLOAT32, left, right, 2, {}).cosine, 0);
  EXPECT_EQ(compare(BM_FLOAT32, back, right, 2, {}).cosine, -1);
  EXPECT_TRUE(std::isnan(compare(BM_FLOAT32, nan, right, 2, {}).cosine));
}

/// Numbers of the type that lie between.
TEST(Compare, FloatingPointMayBeToldInUnitsOfTheLastPlace) {
  const auto steps = [](bm_data_type_t type, auto got, auto expected) {
    const Comparison c = compare(type, &got, &expected, 1, {0, 0, 0});
    EXPECT_STREQ(c.unit, " ULP");
    EXPECT_EQ(c.equal, c.largest.difference == 0);
    return c.largest.difference;
  };
  using U = uint16_t;
  EXPECT_EQ(steps(BM_FLOAT16, U{0x3c00}, U{0x3c00}), 0);
  EXPECT_EQ(steps(BM_FLOAT16, U{0x3c00}, U{0x3bff}), 1);
  EXPECT_EQ(steps(BM_FLOAT16, U{0x0001}, U{0x8002}), 3) << "across zero";
  EXPECT_EQ(steps(BM_FLOAT16, U{0x0000}, U{0x8000}), 0) << "two zeros";
  EXPECT_EQ(steps(BM_FLOAT16, U{0x03ff}, U{0x0400}), 1) << "the last denormal";
  EXPECT_EQ(steps(BM_FLOAT16, U{0x7bff}, U{0x7c00}), kInf);
  EXPECT_EQ(steps(BM_FLOAT16, U{0x7e00}, U{0x7e01}), 0) << "NaN";
  EXPECT_EQ(steps(BM_BFLOAT16, U{0x3f80}, U{0x3f85}), 5);
  EXPECT_EQ(steps(BM_BFLOAT16, U{0xbf80}, U{0x3f80}), 2 * 0x3f80);
  EXPECT_EQ(steps(BM_FLOAT32, 1.0f, std::nextafter(1.0f, 2.0f)), 1);
  EXPECT_EQ(steps(BM_FLOAT32, kNan, 0.0f), kInf);
  const U got[] = {0x3c03}, expected[] = {0x3c00};
  EXPECT_TRUE(compare(BM_FLOAT16, got, expected, 1, {0, 0, 3}).equal);
  EXPECT_FALSE(compare(BM_FLOAT16, got, expected, 1, {1, 0, 2}).equal) << "instead of accuracy_f";
  const int8_t integers[] = {1}, others[] = {2};
  EXPECT_FALSE(compare(BM_INT8, integers, others, 1, {0, 0, 9}).equal) << "integers have their own limit";
}

/// More than are read at once.
TEST(Compare, FindsTheOneAmongMany) {
  std::vector<uint16_t> got(10000, 0x3c00), expected = got;
  got[9999] = 0x3c01;
  const Comparison c = compare(BM_FLOAT16, got.data(), expected.data(), got.size(), {0, 0, 0});
  EXPECT_EQ(c.differing, 1u);
  EXPECT_EQ(c.first.index, 9999u);
}

TEST(LatenciesTest, PercentilesAreNearestRanks) {
  bmrt_test::Latencies one, all;
  EXPECT_EQ(one.percentile(50), 0u);
  EXPECT_EQ(one.min(), 0u);
  one.add(7);
  for (const unsigned p : {1, 50, 99, 100}) EXPECT_EQ(one.percentile(p), 7u) << p;
  for (uint64_t ns = 1; ns <= 200; ++ns) all.add(201 - ns);
  EXPECT_EQ(all.percentile(50), 100u);
  EXPECT_EQ(all.percentile(90), 180u);
  EXPECT_EQ(all.percentile(99), 198u);
  EXPECT_EQ(all.percentile(100), 200u);
  all.add(one);
  EXPECT_EQ(all.count(), 201u);
  EXPECT_EQ(all.percentile(50), 100u);
  EXPECT_EQ(all.min(), 1u);
  EXPECT_EQ(all.max(), 200u);
  EXPECT_DOUBLE_EQ(all.mean(), 20107.0 / 201);
}

TEST(LatenciesTest, LongOnesAreKnownToOneIn2048) {
  bmrt_test::Latencies l;
  for (const uint64_t ns : {5000001u, 123456789u, 4000000000u}) l.add(ns);
  EXPECT_GE(l.percentile(30), 5000001u);
  EXPECT_LE(l.percentile(30), 5000001u + 5000001u / 2048);
  EXPECT_GE(l.percentile(60), 123456789u);
  EXPECT_LE(l.percentile(60), 123456789u + 123456789u / 2048);
  EXPECT_EQ(l.percentile(99), 4000000000u) << "not more than the longest";
  EXPECT_EQ(bmrt_test::latency_text(l, 12.34),
            "latency of 3 launches: p50 123470 us, p90 4000000 us, p99 4000000 us, max 4000000 us; 12.3 launches/s");
}

std::optional<int> parse(std::vector<const char *> args, Options &o) {
  args.insert(args.begin(), "bmrt_test");
  return bmrt_test::parse_options(static_cast<int>(args.size()), args.data(), o);
}

TEST(OptionsTest, HasTheDocumentedDefaults) {
  Options o;
  EXPECT_FALSE(parse({"--context_dir", "/d"}, o));
  EXPECT_EQ(o.bmodel, "/d/compilation.bmodel");
  EXPECT_TRUE(o.compare);
  EXPECT_EQ(o.accuracy_f, 1e-2);
  EXPECT_EQ(o.accuracy_i, 0);
  Options plain;
  EXPECT_FALSE(parse({"--bmodel", "m"}, plain));
  EXPECT_FALSE(plain.compare);
}

TEST(OptionsTest, ReadsLists) {
  Options o;
  EXPECT_FALSE(parse({"--bmodel", "m", "--net_idx", "0", "--shapes", "[1,3,28,28],[1,10]", "--core_list", "1,0"}, o));
  ASSERT_EQ(o.shapes.size(), 2u);
  EXPECT_EQ(o.shapes[0].num_dims, 4);
  EXPECT_EQ(o.shapes[0].dims[3], 28);
  EXPECT_EQ(o.shapes[1].dims[1], 10);
  EXPECT_EQ(o.cores, (std::vector<int>{1, 0}));
}

TEST(OptionsTest, RefusesWhatMakesNoSense) {
  const std::vector<std::vector<const char *>> bad = {
      {},
      {"--bmodel", "m", "--context_dir", "d"},
      {"--bmodel", "m", "--compare", "1"},
      {"--bmodel", "m", "--compare", "2"},
      {"--bmodel", "m", "--loopnum", "0"},
      {"--bmodel", "m", "--thread_num", "x"},
      {"--bmodel", "m", "--accuracy_f", "nan"},
      {"--bmodel", "m", "--shapes", "[1,2"},
      {"--bmodel", "m", "--net_idx", "0", "--shapes", "1,2"},
      {"--bmodel", "m", "--net_idx", "0", "--shapes", "[1,2],"},
      {"--bmodel", "m", "--net_idx", "0", "--shapes", "[0]"},
      {"--bmodel", "m", "--unknown"},
      {"--bmodel", "m", "--float_inputs"},
      {"--context_dir", "d", "--input", "x.npy"},
      {"--bmodel", "m", "--preprocess", "scale=1/255"},
      {"--bmodel", "m", "--input", "x.png", "--preprocess", "scale=a"},
      {"--bmodel", "m", "--json", ""},
      {"--bmodel", "m", "--float_outputs"},
      {"--context_dir", "d", "--lsb", "-1"},
      {"--context_dir", "d", "--ulp", "x"},
  };
  for (const auto &args : bad) {
    Options o;
    EXPECT_EQ(parse(args, o), std::optional<int>(bmrt_test::kUsage)) << (args.empty() ? "" : args.back());
  }
}

// ---- the program

class Program : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/bmrt-test-XXXXXX";
    ASSERT_TRUE(mkdtemp(path));
    dir_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(const std::string &name, const void *data, size_t bytes) {
    std::ofstream(dir_ + "/" + name, std::ios::binary)
        .write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  }
  void write(const std::string &name, const Floats &v) { write(name, v.data(), v.size() * sizeof(float)); }
  void model(const std::vector<uint8_t> &bytes) { write("compilation.bmodel", bytes.data(), bytes.size()); }

  /// Exit code; all output in `text`. `before` stands before the program in the command.
  int run(const std::string &args, const std::string &before = "") {
    const std::string command = before + BMRT_TEST_PROGRAM + " " + args + " 2>&1";
    text.clear();
    FILE *p = popen(command.c_str(), "r");
    for (int c; (c = fgetc(p)) != EOF;) text += static_cast<char>(c);
    const int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool printed(const std::string &part) const { return text.find(part) != std::string::npos; }

  std::string dir_, text;
};

const Floats kX{1, 2, 3, 4, 5, 6, 7, 8}, kY{4, 5, 6, 7, 8, 9, 10, 11};

std::vector<uint8_t> plus_model() {
  return test_models::file({test_models::net("plus", {test_models::plus({1, 8}, 3)})});
}

TEST_F(Program, ComparesAContextDirectory) {
  model(plus_model());
  write("input_ref_data.dat", kX);
  write("output_ref_data.dat", kY);
  EXPECT_EQ(run("--context_dir " + dir_ + " --loopnum 2 --thread_num 2 --calculate_times 3"), 0) << text;
  EXPECT_TRUE(printed("net[0] stage[0], launch total time is ")) << text;
  // The vendor's line to the letter: programs read it.
  EXPECT_TRUE(std::regex_search(text, std::regex("is \\d+ us \\(npu \\d+ us, cpu \\d+ us\\)\n"))) << text;
  EXPECT_TRUE(printed("+++ The network[0] stage[0] cmp success +++")) << text;
  EXPECT_TRUE(printed("modelled cycles ")) << text;
  for (const char *what : {"load bmodel time(s): ", "load input time(s): ", "calculate time(s): ", "compare time(s): "})
    EXPECT_TRUE(printed(what)) << text;
}

// Where there is no card, a program that was not told to take the simulator says that it does, once.
TEST_F(Program, SaysThatItTakesTheSimulator) {
  constexpr const char *kNotice = "using the simulator";
  const bool card = access("/dev/accel/accel0", F_OK) == 0;
  model(plus_model());
  const auto notices = [&](const char *environment) {
    const std::string before = "env -u NPU_DEVICE -u NPU_SIM -u NPU_QUIET " + std::string(environment) + " ";
    EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --loopnum 2 --thread_num 2", before), 0) << text;
    size_t count = 0;
    for (size_t at = 0; (at = text.find(kNotice, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(notices(""), card ? 0u : 1u) << text;
  EXPECT_EQ(notices("NPU_DEVICE=auto"), card ? 0u : 1u) << text;
  EXPECT_EQ(notices("NPU_QUIET=1"), 0u) << text;
}

TEST_F(Program, NamesTheFirstMismatch) {
  model(plus_model());
  write("input_ref_data.dat", kX);
  Floats wrong = kY;
  wrong[3] += 1;
  wrong[6] -= 2;
  write("output_ref_data.dat", wrong);
  EXPECT_EQ(run("--context_dir " + dir_), 4) << text;
  EXPECT_TRUE(printed("+++ The network[0] stage[0] cmp failed +++")) << text;
  EXPECT_TRUE(printed("output 0 'y': element 3 (index [0,3]): got 7, expected 8, difference 1 is above 0.11")) << text;
  EXPECT_TRUE(printed("the largest difference is 2 at element 6")) << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --compare 0"), 0) << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --accuracy_f 0.2"), 0) << text;
}

/// Rows of 4 in reverse order, uint8 in and out; what they stand for differs.
std::vector<uint8_t> mirror_model() {
  npu::bmodel::StageDesc stage = test_models::mirror({2, 4}, 3, 0, 0);
  stage.inputs[0].step = 0.5f;
  stage.inputs[0].scale = 2;
  stage.inputs[0].zero_point = 10;
  stage.outputs[0].step = stage.outputs[0].scale = 0.25f;
  stage.outputs[0].zero_point = 100;
  return test_models::file({test_models::net("mirror", {stage})});
}

TEST_F(Program, ComparesIntegersInSteps) {
  model(mirror_model());
  const uint8_t x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[] = {4, 3, 2, 1, 8, 7, 6, 5}, off[] = {4, 3, 4, 1, 8, 7, 7, 5};
  write("input_ref_data.dat", x, 8);
  write("output_ref_data.dat", y, 8);
  EXPECT_EQ(run("--context_dir " + dir_), 0) << text;
  EXPECT_TRUE(printed("net[0] stage[0], output 0 'y': all 8 elements are equal")) << text;
  write("output_ref_data.dat", off, 8);
  EXPECT_EQ(run("--context_dir " + dir_ + " --lsb 2"), 0) << text;
  EXPECT_TRUE(
      printed("2 of 8 elements differ, at most by 2 LSB, first element 2 (index [0,2]): got 2, expected 4; "
              "cosine 0.999973"))
      << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --lsb 1"), 4) << text;
  EXPECT_TRUE(printed("output 0 'y': element 2 (index [0,2]): got 2, expected 4, difference 2 LSB is above 1; 1 of 8"))
      << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --accuracy_i 1"), 4) << "the option's other name";
}

/// Reference data of float32 for tensors of integers.
TEST_F(Program, TakesNumbersForIntegers) {
  model(mirror_model());
  const uint8_t x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  Floats in, out;
  for (const uint8_t q : x) in.push_back(0.5f * static_cast<float>(q - 10) + 0.1f);
  for (const uint8_t q : {4, 3, 2, 1, 8, 7, 6, 5}) out.push_back(0.25f * static_cast<float>(q - 100) + 0.1f);
  write("input_ref_data.dat", in);
  write("output_ref_data.dat", out);
  const std::string options = "--context_dir " + dir_ + " --float_inputs --float_outputs";
  EXPECT_EQ(run(options), 0) << text;
  EXPECT_TRUE(printed("all 8 elements are equal")) << text;
  out[5] += 0.25f;
  write("output_ref_data.dat", out);
  EXPECT_EQ(run(options), 4) << text;
  EXPECT_TRUE(printed("at most by 1 LSB, first element 5 (index [1,1]): got 7, expected 8")) << text;
  EXPECT_EQ(run(options + " --lsb 1"), 0) << text;
  write("input_ref_data.dat", x, 8);
  EXPECT_EQ(run("--context_dir " + dir_ + " --float_outputs --lsb 1"), 0) << text;
  EXPECT_EQ(run(options), 1) << text;
  EXPECT_TRUE(printed("input_ref_data.dat: has 8 bytes, the tensors of the model need 32 in float32")) << text;
  EXPECT_EQ(run("--context_dir " + dir_), 1) << text;
  EXPECT_TRUE(printed("output_ref_data.dat: has 32 bytes, the tensors of the model need 8, or 32 with --float_outputs"))
      << text;
}

TEST_F(Program, ExportsOutputs) {
  model(plus_model());
  write("input_ref_data.dat", kX);
  EXPECT_EQ(run("--context_dir " + dir_ + " --compare 0 --export_output"), 0) << text;
  std::ifstream file(dir_ + "/output_ref_data.dat.bmrt_test", std::ios::binary);
  Floats got(9);
  file.read(reinterpret_cast<char *>(got.data()), 9 * sizeof(float));
  ASSERT_EQ(file.gcount(), 32);
  got.resize(8);
  EXPECT_EQ(got, kY);
}

TEST_F(Program, WritesAProfile) {
  model(plus_model());
  write("input_ref_data.dat", kX);
  EXPECT_EQ(run("--context_dir " + dir_ + " --compare 0"), 0) << text;
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/bmrt_test_profile.json"));
  EXPECT_EQ(run("--context_dir " + dir_ + " --compare 0 --profile"), 0) << text;
  std::ifstream file(dir_ + "/bmrt_test_profile.json");
  const std::string trace{std::istreambuf_iterator<char>(file), {}};
  for (const char *what : {"bmrt_load_bmodel", "submit", "\"plus\""})
    EXPECT_NE(trace.find(what), std::string::npos) << what;
  for (const char *engine : {"TIU", "GDMA"}) /* of whichever core was free */
    EXPECT_TRUE(std::regex_search(trace, std::regex(std::string("core [0-9] ") + engine))) << engine;
}

TEST_F(Program, RunsAModelWithZeros) {
  model(test_models::sample());
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel"), 0) << text;
  for (const char *net : {"net[0] ", "net[1] ", "net[2] ", "net[3] "}) EXPECT_TRUE(printed(net)) << text;
  EXPECT_FALSE(printed("cmp")) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --net_idx 2"), 0) << text;
  EXPECT_TRUE(printed("net[2] ")) << text;
  EXPECT_FALSE(printed("net[1] ")) << text;
}

TEST_F(Program, TakesTheDataOfTheChosenNetworkFromTheWhole) {
  model(test_models::file(
      {test_models::net("a", {test_models::plus({1, 8}, 3)}), test_models::net("b", {test_models::plus({4}, 1)})}));
  Floats in = kX, out = kY;
  in.insert(in.end(), {1, 2, 3, 4});
  out.insert(out.end(), {2, 3, 4, 5});
  write("input_ref_data.dat", in);
  write("output_ref_data.dat", out);
  EXPECT_EQ(run("--context_dir " + dir_), 0) << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --net_idx 1 --core_list 0"), 0) << text;
  EXPECT_TRUE(printed("+++ The network[1] stage[0] cmp success +++")) << text;
  EXPECT_EQ(run("--context_dir " + dir_ + " --net_idx 0 --shapes [8]"), 0) << text;
}

TEST_F(Program, ShapesNeedAnIndexOnlyWhereThereAreSeveralNetworks) {
  model(plus_model());
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --shapes [1,8]"), 0) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --shapes [9]"), 3) << text;
  model(test_models::file({test_models::net("plus", {test_models::plus({1, 8}, 3)}),
                           test_models::net("more", {test_models::plus({1, 8}, 4)})}));
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --shapes [1,8]"), 1) << text;
  EXPECT_TRUE(printed("and the model has 2: say which with --net_idx")) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --net_idx 1 --shapes [1,8]"), 0) << text;
}

TEST_F(Program, TellsFailuresApart) {
  EXPECT_EQ(run(""), 2) << text;
  EXPECT_EQ(run("--help"), 0) << text;
  EXPECT_EQ(run("--version"), 0) << text;
  EXPECT_TRUE(printed("bmrt_test ")) << text;
  EXPECT_EQ(run("--bmodel /nonexistent"), 1) << text;
  EXPECT_TRUE(printed("/nonexistent: cannot open: No such file")) << text;
  model(plus_model());
  EXPECT_EQ(run("--context_dir " + dir_), 1) << text;
  EXPECT_TRUE(printed("/input_ref_data.dat: cannot open")) << text;
  write("input_ref_data.dat", Floats{1, 2});
  EXPECT_EQ(run("--context_dir " + dir_), 1) << text;
  EXPECT_TRUE(printed("input_ref_data.dat: has 8 bytes, the tensors of the model need 32")) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --devid 7"), 1) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --net_idx 1"), 1) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --net_idx 0 --shapes [9]"), 3) << text;
  EXPECT_TRUE(printed("no stage has the input shapes [9]; expected [1,8]")) << text;
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel --core_list 77"), 3) << text;
  model(test_models::file({test_models::net("bad", {test_models::overrun(4)})}));
  EXPECT_EQ(run("--bmodel " + dir_ + "/compilation.bmodel"), 3) << text;
  EXPECT_TRUE(printed("net[0] 'bad' stage[0]: ")) << text;
  EXPECT_TRUE(printed("GDMA command 0, region 0")) << text;
}

}  // namespace
