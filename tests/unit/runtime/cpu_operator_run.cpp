// SPDX-License-Identifier: MIT
// Runs CPU operators for cpu_operator_test.py. Standard input has cases: a struct Case, for each input and output its
// type, rank and dims (int32 each), then the inputs' bytes. For each case standard output gets an int32, the length of
// the complaint, and that; or 0 and the outputs' bytes.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/cpu/subnet.h"

namespace {

using npu::cpu::Tensor;

struct Case {
  int32_t op;
  uint32_t flags;
  int32_t axis;
  uint32_t count;
  float iou, score;
  int32_t inputs, outputs;
};

void get(void *to, size_t bytes) {
  if (bytes && std::fread(to, bytes, 1, stdin) != 1) std::abort();
}

std::vector<Tensor> get_kinds(int32_t count) {
  std::vector<Tensor> list(static_cast<size_t>(count));
  for (Tensor &t : list) {
    int32_t head[2];
    get(head, sizeof head);
    t.dtype = npu::cpu::dtype_of_bm(static_cast<uint32_t>(head[0]));
    for (int32_t d = 0; d < head[1]; ++d) {
      int32_t dim;
      get(&dim, sizeof dim);
      t.shape.push_back(dim);
    }
  }
  return list;
}

}  // namespace

int main() {
  Case c;
  while (std::fread(&c, sizeof c, 1, stdin) == 1) {
    npu_cpu_param param{};
    param.flags = c.flags;
    param.axis = c.axis;
    param.count = c.count;
    param.iou = c.iou;
    param.score = c.score;
    std::vector<Tensor> in = get_kinds(c.inputs), out = get_kinds(c.outputs);
    for (Tensor &t : in) {
      t = Tensor(t.dtype, t.shape);
      get(t.data.data(), t.data.size());
    }
    const std::string why = npu::cpu::check_cpu_operator(c.op, param, in, out).message();
    const auto length = static_cast<int32_t>(why.size());
    std::fwrite(&length, sizeof length, 1, stdout);
    std::fwrite(why.data(), 1, why.size(), stdout);
    if (!why.empty()) continue;
    if (!npu::cpu::run_cpu_operator(c.op, param, in, out).ok()) return 1;
    for (const Tensor &t : out) std::fwrite(t.data.data(), 1, t.data.size(), stdout);
  }
  return 0;
}
