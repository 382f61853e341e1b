// SPDX-License-Identifier: MIT
#include "compiler/lowering/coefficients.h"

#include <algorithm>

namespace npu::compiler {

int64_t Coefficients::append(Block block) {
  const int64_t at = next();
  end_ = at + block.all_bytes();
  blocks_.push_back({at, std::move(block)});
  return at;
}

std::vector<int64_t> Coefficients::append(const Key &key, std::vector<Block> blocks) {
  std::vector<int64_t> &places = known_[key];
  if (places.empty())
    for (Block &b : blocks) places.push_back(append(std::move(b)));
  return places;
}

void Coefficients::write(std::vector<uint8_t> &out) const {
  out.resize(static_cast<size_t>(end_));
  for (const auto &[at, block] : blocks_) {
    uint8_t *const first = out.data() + at;
    block.write(first);
    for (int64_t k = 1; k < block.copies; ++k) std::copy_n(first, block.bytes, first + k * block.bytes);
  }
}

}  // namespace npu::compiler
