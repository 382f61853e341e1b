// SPDX-License-Identifier: MIT
#include "compiler/api/text.h"

#include <algorithm>
#include <cstring>

#include "npu_isa.hpp"
#include "uapi/hw/asm/assembler.h"

namespace npu::compiler {
namespace {

void stream_text(std::span<const uint8_t> stream, std::span<const std::string> layers, std::string &out) {
  uint32_t layer = UINT32_MAX;
  for (size_t at = 0; at + NPU_CMD_BYTES <= stream.size(); at += NPU_CMD_BYTES) {
    npu_cmd head;
    std::memcpy(&head, stream.data() + at, sizeof head);
    if (head.layer != layer && head.layer < layers.size()) {
      std::string name = layers[head.layer];
      std::replace(name.begin(), name.end(), '\n', ' ');
      out += "# " + name + "\n";
    }
    layer = head.layer;
    assembly::CommandBytes bytes;
    std::copy_n(stream.data() + at, bytes.size(), bytes.begin());
    bool exact = true;
    out += assembly::disassemble(bytes, exact) + "\n";
  }
}

}  // namespace

std::string disassemble(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma,
                        std::span<const std::string> layers) {
  std::string out = ".tiu\n";
  stream_text(tiu, layers, out);
  out += ".gdma\n";
  stream_text(gdma, layers, out);
  return out;
}

}  // namespace npu::compiler
