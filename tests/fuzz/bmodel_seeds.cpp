// SPDX-License-Identifier: MIT
// Writes the seeds of fuzz_bmodel into a directory: small valid models of different kinds.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "models.h"

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bmodel_seeds DIR\n");
    return 2;
  }
  using namespace test_models;
  const std::pair<const char *, std::vector<uint8_t>> seeds[] = {
      {"plus", file({net("plus", {plus({1, 8}, 3)})})},
      {"affine", file({net("affine", {affine(16)})})},
      {"keep", file({net("keep", {keep(4, true)})})},
      {"stages", file({net("stages", {plus({1, 8}, 3), plus({2, 8}, 3)})})},
      {"cores", file({net("cores", {relay()})})},
      {"choose", file({net("choose", {choose()})})},
      {"back", file({net("back", {there_and_back()})})},
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
