// SPDX-License-Identifier: MIT
// The test pictures of networks/digits: reading and drawing.
#ifndef DIGITS_PICTURES_H
#define DIGITS_PICTURES_H

#include <cstdint>
#include <string>
#include <vector>

struct Pictures {
  size_t count = 0, rows = 0, cols = 0;
  std::vector<uint8_t> pixels;  // picture after picture, row by row: 0 (paper) to 16 (ink)
  std::vector<uint8_t> labels;  // what they show
};

// Reads DIR/test_images.bin and DIR/test_labels.bin. Returns an empty string, or what is wrong.
std::string read_pictures(const std::string &dir, Pictures &out);

// Draws some pictures side by side, a caption under each.
void draw(const Pictures &pictures, const std::vector<size_t> &which, const std::vector<std::string> &captions);

#endif  // DIGITS_PICTURES_H
