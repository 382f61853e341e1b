// SPDX-License-Identifier: MIT
// Writes the seeds of fuzz_bmodel into a directory: small valid models of different kinds.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/unit/runtime/models.h"

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bmodel_seeds DIR\n");
    return 2;
  }
  using namespace test_models;
  auto first = net("first", {plus({1, 8}, 1)}), second = net("second", {plus({1, 8}, 2)});
  first.part_of = second.part_of = "steps";
  second.step = second.device = 1;
  first.stages[0].outputs[0].name = second.stages[0].inputs[0].name = "between";
  first.stages[0].outputs[0].hidden = second.stages[0].inputs[0].hidden = 1;
  auto dynamic = plus({4, 8}, 3);
  dynamic.is_dynamic = dynamic.n_dynamic = 1;
  auto source = net("source", {plus({1, 8}, 3), plus({2, 8}, 3)});
  source.source = {'o', 'n', 'n', 'x'};
  for (auto &stage : source.stages) stage.is_dynamic = 1;
  const std::pair<const char *, std::vector<uint8_t>> seeds[] = {
      {"plus", file({net("plus", {plus({1, 8}, 3)})})},
      {"affine", file({net("affine", {affine(16)})})},
      {"keep", file({net("keep", {keep(4, true)})})},
      {"stages", file({net("stages", {plus({1, 8}, 3), plus({2, 8}, 3)})})},
      {"cores", file({net("cores", {relay()})})},
      {"choose", file({net("choose", {choose()})})},
      {"back", file({net("back", {there_and_back()})})},
      {"graph", file({net("graph", {pick(rows_by_index())})})},
      {"steps", file({first, second})},
      {"dynamic", file({net("dynamic", {dynamic})})},
      {"source", file({source})},
      {"words", file({net("words", {mirror({5, 6}, 3, 2, 0)})})},
      {"sample", sample()},
  };
  std::filesystem::create_directories(argv[1]);
  for (const auto &[name, bytes] : seeds) {
    std::ofstream out(std::filesystem::path(argv[1]) / (std::string(name) + ".bmodel"), std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      std::fprintf(stderr, "bmodel_seeds: %s/%s.bmodel: cannot write\n", argv[1], name);
      return 1;
    }
  }
  return 0;
}
