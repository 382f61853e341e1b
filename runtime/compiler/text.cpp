// SPDX-License-Identifier: MIT
#include "text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "npu_isa.hpp"

namespace npu::compiler {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char &c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

uint64_t raw(const uint8_t *bytes, const hw::Field &f, unsigned i) {
  uint64_t v = 0;
  const unsigned size = hw::field_bytes(f.type);
  std::memcpy(&v, bytes + f.offset + i * size, size);
  return v;
}

std::string value_text(const uint8_t *bytes, const hw::Field &f, unsigned i) {
  const uint64_t v = raw(bytes, f, i);
  for (const hw::EnumValue &e : f.values)
    if (e.value == v) return lower_case(e.name);
  char text[48];
  const auto word = static_cast<uint32_t>(v);
  float number;
  std::memcpy(&number, &word, sizeof number);
  if (f.type == hw::FieldType::F32)
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(number));
  else if (f.type == hw::FieldType::S32)
    std::snprintf(text, sizeof text, "%d", static_cast<int32_t>(word));
  else if (f.name.find("addr") != f.name.npos || f.name.find("offset") != f.name.npos)
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  else
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(v));
  return text;
}

std::string flags_text(uint16_t flags, const hw::Command &c) {
  std::string text;
  for (const hw::EnumValue &e : c.flags)
    if (flags & e.value) text += (text.empty() ? "" : "|") + lower_case(e.name);
  return text;
}

std::string subop_text(uint8_t subop, const hw::Command &c) {
  for (const hw::EnumValue &e : c.subops)
    if (e.value == subop) return lower_case(e.name);
  return std::to_string(subop);
}

std::string line(const uint8_t *bytes) {
  npu_cmd head;
  std::memcpy(&head, bytes, sizeof head);
  const hw::Command *c = hw::find_command(head.opcode);
  if (!c) return "# opcode " + std::to_string(head.opcode);
  std::string text = lower_case(c->name);
  if (!c->subops.empty()) text += " subop=" + subop_text(head.subop, *c);
  for (const hw::Field &f : c->fields) {
    bool zero = true;
    for (unsigned i = 0; i < f.count; ++i) zero = zero && raw(bytes, f, i) == 0;
    if (zero) continue;
    std::string list = value_text(bytes, f, 0);
    for (unsigned i = 1; i < f.count; ++i) list += "," + value_text(bytes, f, i);
    text += " " + std::string(f.name) + "=" + (f.count > 1 ? "[" + list + "]" : list);
  }
  if (head.flags) text += " flags=" + flags_text(head.flags, *c);
  if (head.wait) text += " wait=" + std::to_string(head.wait);
  if (head.layer) text += " layer=" + std::to_string(head.layer);
  return text;
}

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
    out += line(stream.data() + at) + "\n";
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
