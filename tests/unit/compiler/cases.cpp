// SPDX-License-Identifier: MIT
#include "tests/unit/compiler/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace npu::test {
namespace {

std::vector<float> read_floats(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  EXPECT_TRUE(file) << path;
  std::vector<float> out(file ? static_cast<size_t>(file.tellg()) / sizeof(float) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char *>(out.data()), static_cast<std::streamsize>(out.size() * sizeof(float)));
  EXPECT_TRUE(file) << path;
  return out;
}

}  // namespace

std::vector<Case> read_cases(const std::string &directory) {
  std::vector<Case> out;
  std::error_code missing;
  for (const auto &entry : std::filesystem::directory_iterator(directory, missing)) {
    if (!entry.is_directory()) continue;
    Case c;
    c.name = entry.path().filename().string();
    c.model = (entry.path() / "model.onnx").string();
    c.inputs = read_floats(entry.path() / "input_ref_data.dat");
    c.outputs = read_floats(entry.path() / "output_ref_data.dat");
    out.push_back(std::move(c));
  }
  EXPECT_FALSE(out.empty()) << "no cases in " << directory;
  std::sort(out.begin(), out.end(), [](const Case &a, const Case &b) { return a.name < b.name; });
  return out;
}

std::vector<std::vector<float>> cut(const std::vector<float> &all, const std::vector<size_t> &sizes) {
  std::vector<std::vector<float>> out;
  size_t at = 0;
  for (size_t n : sizes) {
    EXPECT_LE(at + n, all.size());
    if (at + n > all.size()) return out;
    out.emplace_back(all.begin() + static_cast<int64_t>(at), all.begin() + static_cast<int64_t>(at + n));
    at += n;
  }
  EXPECT_EQ(at, all.size()) << "the reference has more numbers than the network";
  return out;
}

std::string compare(const std::vector<float> &got, const std::vector<float> &want, double relative, double share) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " elements, expected " + std::to_string(want.size());
  double top = 0;
  for (float v : want) top = std::max(top, std::fabs(static_cast<double>(v)));
  size_t bad = 0, first = 0;
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(static_cast<double>(got[i]) - want[i]) <=
          relative * std::fabs(static_cast<double>(want[i])) + share * top) &&
        bad++ == 0)
      first = i;
  if (!bad) return {};
  return std::to_string(bad) + " of " + std::to_string(got.size()) + " elements differ, the first at " +
         std::to_string(first) + ": got " + std::to_string(got[first]) + ", expected " + std::to_string(want[first]);
}

}  // namespace npu::test
