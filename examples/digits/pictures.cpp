// SPDX-License-Identifier: MIT
#include "pictures.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace {

struct Header {
  char magic[4];
  uint32_t count, rows, cols;
};

std::string read_file(const std::string &path, const char *magic, Header &h, std::vector<uint8_t> &data) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return path + ": cannot open: " + std::strerror(errno);
  if (!file.read(reinterpret_cast<char *>(&h), sizeof h) || std::memcmp(h.magic, magic, 4) != 0)
    return path + ": does not begin with " + magic;
  data.assign(std::istreambuf_iterator<char>(file), {});
  const uint64_t bytes = uint64_t{h.count} * h.rows * h.cols;
  if (h.count != 0 && data.size() == bytes) return {};
  return path + ": has " + std::to_string(data.size()) + " bytes of data, its header says " + std::to_string(bytes);
}

}  // namespace

std::string read_pictures(const std::string &dir, Pictures &out) {
  Header images, labels;
  std::string why = read_file(dir + "/test_images.bin", "QDIM", images, out.pixels);
  if (why.empty()) why = read_file(dir + "/test_labels.bin", "QDLB", labels, out.labels);
  if (!why.empty()) return why;
  if (out.labels.size() != images.count) return dir + ": there are not as many labels as pictures";
  out.count = images.count;
  out.rows = images.rows;
  out.cols = images.cols;
  return {};
}

void draw(const Pictures &p, const std::vector<size_t> &which, const std::vector<std::string> &captions) {
  static constexpr char kShades[] = " .:-=+*#%@";  // from paper to ink
  const int width = static_cast<int>(2 * p.cols);  // characters are twice as high as wide
  for (size_t row = 0; row < p.rows; ++row) {
    std::string line;
    for (const size_t i : which) {
      for (size_t col = 0; col < p.cols; ++col) {
        const unsigned ink = std::min<unsigned>(p.pixels[(i * p.rows + row) * p.cols + col], 16);
        line.append(2, kShades[ink * 9 / 16]);
      }
      line += "  ";
    }
    std::printf("  %s\n", line.c_str());
  }
  std::printf("  ");
  for (const std::string &caption : captions) std::printf("%-*s  ", width, caption.c_str());
  std::printf("\n\n");
}
