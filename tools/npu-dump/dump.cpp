// SPDX-License-Identifier: MIT
#include "tools/npu-dump/dump.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "npu_regs.h"
#include "uapi/hw/asm/assembler.h"

namespace npu::dump {

namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

/// The bytes of a structure in hexadecimal; nothing if it is not exactly that.
template <class T>
std::optional<T> bytes_of(std::string_view hex) {
  T value;
  if (hex.size() != 2 * sizeof value) return {};
  auto *to = reinterpret_cast<uint8_t *>(&value);
  for (size_t i = 0; i < sizeof value; ++i) {
    const char *at = hex.data() + 2 * i;
    const auto parsed = std::from_chars(at, at + 2, to[i], 16);
    if (parsed.ec != std::errc() || parsed.ptr != at + 2) return {};
  }
  return value;
}

template <class T>
bool empty(const T &value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  return std::all_of(bytes, bytes + sizeof value, [](uint8_t b) { return b == 0; });
}

std::string number(uint64_t v) { return std::to_string(v); }

std::string hex(uint64_t v) {
  char text[19] = "0x";
  return {text, std::to_chars(text + 2, text + sizeof text, v, 16).ptr};
}

std::string unchanged(std::string_view line) { return std::string(line) + "\n"; }

/// command ENGINE CORE INDEX MARK BYTES
std::string command(std::string_view line, const Words &w) {
  const auto bytes = w.size() == 6 ? bytes_of<assembly::CommandBytes>(w[5]) : std::nullopt;
  if (!bytes) return unchanged(line);
  bool exact = true;
  std::string text = w[4] == ">" ? ">" : " ";
  text += std::string(5 - std::min<size_t>(w[3].size(), 5), ' ') + std::string(w[3]) + "  ";
  return text + assembly::disassemble(*bytes, exact) + "\n";
}

/// sq INDEX BYTES
std::string submission(std::string_view line, const Words &w) {
  const auto e = w.size() == 3 ? bytes_of<npu_sqe>(w[2]) : std::nullopt;
  if (!e) return unchanged(line);
  if (empty(*e)) return "";
  return "sq " + std::string(w[1]) + ": job " + number(e->job_id) + " descriptor " + hex(e->desc_addr) + " bytes " +
         number(e->desc_bytes) + "\n";
}

/// cq INDEX BYTES
std::string completion(std::string_view line, const Words &w) {
  const auto e = w.size() == 3 ? bytes_of<npu_cqe>(w[2]) : std::nullopt;
  if (!e) return unchanged(line);
  if (empty(*e)) return "";
  std::string text = "cq " + std::string(w[1]) + ": job " + number(e->job_id) + " status " + number(e->status) +
                     " core " + number(e->core) + " cycles " + number(e->end_cycle - e->start_cycle) + " phase " +
                     number(e->phase & NPU_CQE_PHASE);
  if (e->status != NPU_STATUS_OK)
    text += " engine " + number(e->engine) + " command " + number(e->command) + " region " + number(e->region) +
            " offset " + hex(e->offset) + " bytes " + number(e->bytes) + " address " + hex(e->fault_addr);
  return text + "\n";
}

std::string readable(std::string_view line) {
  const Words words = split(line);
  if (words.empty()) return unchanged(line);
  if (words[0] == "command") return command(line, words);
  if (words[0] == "sq") return submission(line, words);
  if (words[0] == "cq") return completion(line, words);
  return unchanged(line);
}

/// stream ENGINE core C region R offset O count N at I
std::string stream(std::string_view line, const Words &w) {
  if (w.size() != 12) return unchanged(line);
  const std::string engine = w[1] == "gdma" ? "GDMA" : w[1] == "tiu" ? "TIU" : std::string(w[1]);
  const std::string where = engine + " of core " + std::string(w[3]) + ": ";
  if (w[9] == w[11]) return where + "all " + std::string(w[9]) + " commands are retired\n";
  return where + "at command " + std::string(w[11]) + " of " + std::string(w[9]) + "\n";
}

/// A line of Part::kCommands; "" for what does not belong there.
std::string activity(std::string_view line) {
  const Words words = split(line);
  if (words.empty()) return "";
  if (words[0] == "stream") return stream(line, words);
  for (const char *kind : {"reason", "job", "completion", "command", "unreadable"})
    if (words[0] == kind) return readable(line);
  return "";
}

}  // namespace

Status decode(std::string_view text, std::string &out, Part part) {
  out.clear();
  const std::string head = "qnpu-coredump " + std::to_string(kVersion);
  if (text.substr(0, text.find('\n')) != head) return Status::error("this does not begin with \"" + head + "\"");
  std::string_view last;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    last = text.substr(0, end);
    out += part == Part::kAll ? readable(last) : activity(last);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return last == "end" ? Status() : Status::error("the dump is cut off: its last line is not \"end\"");
}

}  // namespace npu::dump
