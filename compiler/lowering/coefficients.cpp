// SPDX-License-Identifier: MIT
#include "compiler/lowering/coefficients.h"

#include <utility>

namespace npu::compiler {

int64_t Coefficients::append(int64_t count, Write write) {
  const int64_t at = next();
  blocks_.push_back({at, std::move(write)});
  end_ = at + count * static_cast<int64_t>(sizeof(float));
  return at;
}

std::vector<int64_t> Coefficients::append(const Key &key, std::vector<Block> blocks) {
  std::vector<int64_t> &places = known_[key];
  if (places.empty())
    for (Block &b : blocks) places.push_back(append(b.count, std::move(b.write)));
  return places;
}

void Coefficients::write(std::vector<uint8_t> &out) const {
  out.resize(static_cast<size_t>(end_));
  for (const Placed &b : blocks_) b.write(reinterpret_cast<float *>(out.data() + b.at));
}

}  // namespace npu::compiler
