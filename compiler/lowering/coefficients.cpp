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

void Coefficients::write(std::vector<uint8_t> &out) const {
  out.resize(static_cast<size_t>(end_));
  for (const Block &b : blocks_) b.write(reinterpret_cast<float *>(out.data() + b.at));
}

}  // namespace npu::compiler
