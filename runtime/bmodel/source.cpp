// SPDX-License-Identifier: MIT
#include "runtime/bmodel/source.h"

#include <algorithm>
#include <cstring>

#include "runtime/bmodel/container.h"

namespace npu::bmodel {

namespace {

const fb::Binary *source_of(const fb::NetParameter &stage) { return stage.is_dynamic() ? stage.binary_ir() : nullptr; }

Status read_header(std::span<const uint8_t> binary, std::span<const uint8_t> &network) {
  npu_source_header h;
  if (binary.size() < sizeof h) return Status::error("its network (binary_ir) is truncated");
  std::memcpy(&h, binary.data(), sizeof h);
  if (h.magic != NPU_SOURCE_MAGIC) return Status::error("its code for dynamic shapes (binary_ir) is another chip's");
  if (h.version != NPU_SOURCE_VERSION)
    return Status::error("its network (binary_ir) is of version " + std::to_string(h.version) + ", expected " +
                         std::to_string(NPU_SOURCE_VERSION));
  if (h.header_bytes != sizeof h || h.reserved0 || h.reserved1)
    return Status::error("the header of its network (binary_ir) has another size, or reserved fields that are not 0");
  if (h.format != NPU_SOURCE_ONNX)
    return Status::error("its network (binary_ir) has format " + std::to_string(h.format) + ", expected " +
                         std::to_string(NPU_SOURCE_ONNX));
  if (h.bytes != binary.size() - sizeof h)
    return Status::error("its network (binary_ir) has " + std::to_string(binary.size() - sizeof h) +
                         " bytes, its header says " + std::to_string(h.bytes));
  network = binary.subspan(sizeof h);
  return {};
}

}  // namespace

bool has_source(const fb::Net &net) {
  const fb::Binary *const first =
      net.parameter() && net.parameter()->size() ? source_of(*net.parameter()->Get(0)) : nullptr;
  return first && first->size();
}

Status read_source(const Container &container, const fb::Net &net, std::span<const uint8_t> &network) {
  const auto first = container.binary(source_of(*net.parameter()->Get(0)));
  for (const fb::NetParameter *stage : *net.parameter()) {
    const auto other = container.binary(source_of(*stage));
    if (!std::equal(first.begin(), first.end(), other.begin(), other.end()))
      return Status::error("some of its stages are dynamic and others are not, or come of other networks");
  }
  return read_header(first, network);
}

}  // namespace npu::bmodel
