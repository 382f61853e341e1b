// SPDX-License-Identifier: MIT
#include "compiler/lowering/coefficients.h"

#include <algorithm>
#include <utility>

namespace npu::compiler {

int64_t Coefficients::append(int64_t count, Write write, int64_t copies) {
  const int64_t at = next(), bytes = count * static_cast<int64_t>(sizeof(float));
  blocks_.push_back({at, count, copies, std::move(write)});
  end_ = at + copies * bytes;
  return at;
}

void Coefficients::write(std::vector<uint8_t> &out) const {
  out.resize(static_cast<size_t>(end_));
  for (const Block &b : blocks_) {
    float *const first = reinterpret_cast<float *>(out.data() + b.at);
    b.write(first);
    for (int64_t k = 1; k < b.copies; ++k) std::copy_n(first, b.count, first + k * b.count);
  }
}

}  // namespace npu::compiler
