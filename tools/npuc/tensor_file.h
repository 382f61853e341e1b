// SPDX-License-Identifier: MIT
// Named tensors in a file: what npuc and the process with ONNX Runtime (npuc-onnxruntime) give each other. For each
// tensor: bytes of the name, type (as ONNX numbers them) and rank as uint32_t, the name, dimensions as int64_t, data.
#ifndef NPU_NPUC_TENSOR_FILE_H
#define NPU_NPUC_TENSOR_FILE_H

#include <fstream>
#include <string>
#include <vector>

#include "common/status.h"
#include "runtime/cpu/tensor.h"

namespace npu::npuc {

struct NamedTensor {
  std::string name;
  cpu::Tensor tensor;
};

inline Status write_tensors(const std::string &path, const std::vector<NamedTensor> &tensors) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto put = [&file](const void *p, size_t bytes) {
    file.write(static_cast<const char *>(p), static_cast<std::streamsize>(bytes));
  };
  for (const NamedTensor &t : tensors) {
    const uint32_t head[] = {static_cast<uint32_t>(t.name.size()), static_cast<uint32_t>(t.tensor.dtype),
                             static_cast<uint32_t>(t.tensor.shape.size())};
    put(head, sizeof head);
    put(t.name.data(), t.name.size());
    put(t.tensor.shape.data(), t.tensor.shape.size() * sizeof(int64_t));
    put(t.tensor.data.data(), t.tensor.data.size());
  }
  file.close();
  return file ? Status() : Status::error("cannot write " + path);
}

inline Status read_tensors(const std::string &path, std::vector<NamedTensor> &out) {
  constexpr uint32_t kMostName = 1 << 16, kMostRank = 64;
  std::ifstream file(path, std::ios::binary);
  const auto get = [&file](void *p, size_t bytes) {
    return static_cast<bool>(file.read(static_cast<char *>(p), static_cast<std::streamsize>(bytes)));
  };
  if (!file) return Status::error("cannot read " + path);
  while (file.peek() != std::ifstream::traits_type::eof()) {
    uint32_t head[3];
    NamedTensor &t = out.emplace_back();
    if (!get(head, sizeof head) || head[0] > kMostName || head[2] > kMostRank)
      return Status::error(path + " is damaged");
    cpu::Shape shape(head[2]);
    t.name.resize(head[0]);
    const auto type = static_cast<cpu::Dtype>(head[1]);
    if (!get(t.name.data(), t.name.size()) || !get(shape.data(), shape.size() * sizeof(int64_t)) ||
        cpu::dtype_bytes(type) == 0 || cpu::element_count(shape) < 0)
      return Status::error(path + " is damaged");
    t.tensor = cpu::Tensor(type, shape);
    if (!get(t.tensor.data.data(), t.tensor.data.size())) return Status::error(path + " is damaged");
  }
  return {};
}

}  // namespace npu::npuc

#endif  // NPU_NPUC_TENSOR_FILE_H
