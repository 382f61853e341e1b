// SPDX-License-Identifier: MIT
#include "ort/ep/options.h"

#include <charconv>
#include <cstring>
#include <set>

namespace npu::ort {
namespace {

const std::set<std::string> kCompilerOptions{"cores", "lmem", "reals", "turns", "quantize", "quantize_table"};

Status wrong(const std::string &name, const std::string &value, const std::string &expected) {
  return Status::error("option " + name + "=" + value + ": " + expected + " is expected");
}

Status read_flag(const std::string &name, const std::string &value, bool &out) {
  if (value != "0" && value != "1") return wrong(name, value, "0 or 1");
  out = value == "1";
  return {};
}

Status read_own(const std::string &name, const std::string &value, Options &out) {
  if (kCompilerOptions.count(name)) {
    out.compiler[name] = value;
    return {};
  }
  if (name == "dynamic") return read_flag(name, value, out.dynamic);
  if (name == "cache") {
    out.cache = value;
    return {};
  }
  if (name == "device") {
    int card = -1;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), card);
    if (failed != std::errc() || end != value.data() + value.size() || card < 0)
      return wrong(name, value, "the number of a card");
    out.device = card;
    return {};
  }
  std::string names = "cache, device, dynamic";
  for (const std::string &known : kCompilerOptions) names += ", " + known;
  return Status::error("option " + name + " is not known; the options are " + names);
}

}  // namespace

std::string Options::text() const {
  std::string out;
  for (const auto &[name, value] : compiler) out += name + "=" + value + ";";
  return out;
}

Status read_options(const std::vector<std::pair<std::string, std::string>> &entries, Options &out) {
  for (const auto &[key, value] : entries) {
    if (key.starts_with(kOptionPrefix)) NPU_TRY(read_own(key.substr(std::strlen(kOptionPrefix)), value, out));
    if (key == "session.disable_cpu_ep_fallback") out.cpu = value != "1";
    if (key == "ep.context_enable") NPU_TRY(read_flag(key, value, out.context));
    if (key == "ep.context_embed_mode") NPU_TRY(read_flag(key, value, out.context_embed));
    if (key == "ep.context_file_path") out.context_path = value;
    if (key == "ep.context_node_name_prefix") out.context_prefix = value;
  }
  return {};
}

}  // namespace npu::ort
