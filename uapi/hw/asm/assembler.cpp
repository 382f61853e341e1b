// SPDX-License-Identifier: MIT
#include "uapi/hw/asm/assembler.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "uapi/hw/asm/tables.h"

namespace npu::assembly {
namespace {

using hw::FieldType;

// The values that an integer field can hold.
struct Limits {
  int64_t low;
  uint64_t high;
};

Limits limits_of(FieldType type) {
  switch (type) {
    case FieldType::U8:
      return {0, std::numeric_limits<uint8_t>::max()};
    case FieldType::U16:
      return {0, std::numeric_limits<uint16_t>::max()};
    case FieldType::U64:
      return {0, std::numeric_limits<uint64_t>::max()};
    case FieldType::S32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      return {0, std::numeric_limits<uint32_t>::max()};
  }
}

std::string quoted(std::string_view s) { return "'" + std::string(s) + "'"; }

template <class Range>
std::string list_of_names(const Range &range) {
  std::string names;
  for (const auto &value : range) names += (names.empty() ? "" : ", ") + lower(value.name);
  return names;
}

std::string expected_of(const NamedField &f) {
  std::string text = "expected ";
  if (!f.field.values.empty())
    text += (f.is_flags ? "names joined by | of " : "one of ") + list_of_names(f.field.values) + " or ";
  if (f.field.type == FieldType::F32) return text + "a number such as 0.5, or its bits in hexadecimal";
  const Limits l = limits_of(f.field.type);
  return text + "a number from " + std::to_string(l.low) + " to " + std::to_string(l.high);
}

const hw::EnumValue *find_value(std::span<const hw::EnumValue> values, const std::string &name) {
  for (const hw::EnumValue &v : values)
    if (lower(v.name) == name) return &v;
  return nullptr;
}

// All of `s` as a number in the given base.
template <class T>
bool whole(std::string_view s, T &value, int base) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  return error == std::errc() && end == s.data() + s.size();
}

bool is_hex(std::string_view s) { return s.starts_with("0x"); }

// An integer within the field's limits, as the field's bits.
bool parse_integer(std::string_view s, FieldType type, uint64_t &bits) {
  const Limits l = limits_of(type);
  const bool negative = s.starts_with('-');
  if (negative) s.remove_prefix(1);
  const int base = is_hex(s) ? 16 : 10;
  if (base == 16) s.remove_prefix(2);
  uint64_t size;
  if (s.empty() || s[0] == '-' || !whole(s, size, base)) return false;
  const uint64_t limit = negative ? -static_cast<uint64_t>(l.low) : l.high;
  if (size > limit) return false;
  bits = negative ? -size : size;
  return true;
}

bool parse_float(std::string_view s, uint64_t &bits) {
  if (is_hex(s)) return parse_integer(s, FieldType::U32, bits);
  float value;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return false;
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  bits = word;
  return true;
}

class Assembler {
 public:
  Assembler(std::string_view text, Program &program) : text_(text), program_(program) {}

  std::optional<Error> run() {
    while (!text_.empty() && !error_) {
      ++line_number_;
      const size_t end = text_.find('\n');
      line_ = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      at_ = 0;
      line();
    }
    return error_;
  }

 private:
  bool fail(size_t at, std::string message) {
    if (!error_) error_ = Error{line_number_, static_cast<unsigned>(at + 1), std::move(message)};
    return false;
  }

  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }
  // At a word, not at the end or a comment.
  bool more() {
    skip_blanks();
    return at_ < line_.size() && line_[at_] != '#';
  }
  // Characters up to one of `stop`, a blank or a comment; in lower case.
  std::string word(std::string_view stop) {
    const size_t start = at_;
    while (at_ < line_.size() && !std::strchr(" \t\r#", line_[at_]) && stop.find(line_[at_]) == std::string_view::npos)
      ++at_;
    return lower(line_.substr(start, at_ - start));
  }

  void line() {
    if (!more()) return;
    if (line_[at_] == '.')
      directive();
    else
      command();
    if (!error_ && more()) fail(at_, "unexpected " + quoted(line_.substr(at_)) + "; expected the end of the line");
  }

  void directive() {
    const size_t start = at_;
    const std::string name = word("");
    if (name == ".core") return select_core();
    if (name != ".tiu" && name != ".gdma") {
      fail(start, "unknown directive " + quoted(name) + "; expected .tiu, .gdma or .core");
      return;
    }
    const bool tiu = name == ".tiu";
    unsigned &next = tiu ? next_tiu_ : next_gdma_;
    if (next >= NPU_MAX_CORES) {
      fail(start, name + " of core " + std::to_string(next) + "; expected at most " + std::to_string(NPU_MAX_CORES) +
                      " cores");
      return;
    }
    uint32_t &started = tiu ? started_tiu_ : started_gdma_;
    if (started >> next & 1) {
      fail(start, "core " + std::to_string(next) + " has its " + name + " already; expected another core");
      return;
    }
    started |= 1u << next;
    if (program_.cores.size() <= next) program_.cores.resize(next + 1);
    core_ = next++;
    engine_ = tiu ? hw::EngineKind::Tiu : hw::EngineKind::Gdma;
  }

  void select_core() {
    skip_blanks();
    const size_t start = at_;
    uint64_t core;
    if (!parse_integer(word(""), FieldType::U32, core) || core >= NPU_MAX_CORES) {
      fail(start, "no such core; expected a number from 0 to " + std::to_string(NPU_MAX_CORES - 1));
      return;
    }
    next_tiu_ = next_gdma_ = static_cast<unsigned>(core);
    engine_ = hw::EngineKind::Any;
  }

  void command() {
    const size_t start = at_;
    const std::string name = word("=");
    const hw::Command *command = nullptr;
    for (const hw::Command &c : hw::kCommands)
      if (lower(c.name) == name) command = &c;
    if (!command) {
      fail(start, "unknown command " + quoted(name) + "; expected one of " + list_of_names(hw::kCommands));
      return;
    }
    if (engine_ == hw::EngineKind::Any) {
      fail(start, name + " outside a stream; expected .tiu or .gdma before it");
      return;
    }
    if (command->engine != hw::EngineKind::Any && command->engine != engine_) {
      const char *needed = command->engine == hw::EngineKind::Tiu ? ".tiu" : ".gdma";
      fail(start, name + " is a command of the other engine; expected it in a " + needed + " stream");
      return;
    }
    auto &stream = engine_ == hw::EngineKind::Tiu ? program_.cores[core_].tiu : program_.cores[core_].gdma;
    if (stream.size() >= NPU_MAX_STREAM_COMMANDS) {
      fail(start, "too many commands; expected at most " + std::to_string(NPU_MAX_STREAM_COMMANDS) + " in a stream");
      return;
    }
    CommandBytes bytes{};
    bytes[0] = command->opcode;
    const std::vector<NamedField> fields = named_fields(*command);
    std::vector<bool> given(fields.size());
    while (!error_ && more()) assignment(name, fields, given, bytes);
    if (!error_) stream.push_back(bytes);
  }

  void assignment(const std::string &command, const std::vector<NamedField> &fields, std::vector<bool> &given,
                  CommandBytes &bytes) {
    const size_t start = at_;
    const std::string name = word("=");
    size_t i = 0;
    while (i < fields.size() && fields[i].field.name != name) ++i;
    if (i == fields.size()) {
      std::string names;
      for (const NamedField &f : fields) names += (names.empty() ? "" : ", ") + std::string(f.field.name);
      fail(start, command + " has no field " + quoted(name) + "; expected one of " + names);
      return;
    }
    if (given[i]) {
      fail(start, quoted(name) + " is given twice; expected it once");
      return;
    }
    given[i] = true;
    if (at_ >= line_.size() || line_[at_] != '=') {
      fail(at_, "no value for " + quoted(name) + "; expected '=' and a value");
      return;
    }
    ++at_;
    if (fields[i].field.count > 1)
      array(fields[i], bytes);
    else
      element(fields[i], 0, "", bytes);
  }

  void array(const NamedField &f, CommandBytes &bytes) {
    const std::string count = std::to_string(f.field.count);
    const std::string expected = "expected [ and " + count + " values separated by commas and ]";
    if (at_ >= line_.size() || line_[at_] != '[') {
      fail(at_, quoted(f.field.name) + " is an array; " + expected);
      return;
    }
    for (unsigned i = 0; i < f.field.count; ++i) {
      ++at_;
      skip_blanks();
      if (!element(f, i, ",]", bytes)) return;
      skip_blanks();
      const char wanted = i + 1 < f.field.count ? ',' : ']';
      if (at_ >= line_.size() || line_[at_] != wanted) {
        fail(at_, quoted(f.field.name) + " has " + count + " elements; expected '" + wanted + "' after " +
                      std::to_string(i + 1));
        return;
      }
    }
    ++at_;
  }

  bool element(const NamedField &f, unsigned index, std::string_view stop, CommandBytes &bytes) {
    const size_t start = at_;
    const std::string text = word(stop);
    uint64_t bits = 0;
    if (!value(f, text, bits))
      return fail(start, quoted(text) + " is no value of " + quoted(f.field.name) + "; " + expected_of(f));
    const unsigned size = hw::field_bytes(f.field.type);
    for (unsigned i = 0; i < size; ++i) bytes[f.field.offset + index * size + i] = static_cast<uint8_t>(bits >> 8 * i);
    return true;
  }

  static bool value(const NamedField &f, const std::string &text, uint64_t &bits) {
    if (f.field.type == FieldType::F32) return parse_float(text, bits);
    if (!f.is_flags) {
      if (const hw::EnumValue *v = find_value(f.field.values, text)) {
        bits = v->value;
        return true;
      }
      return parse_integer(text, f.field.type, bits);
    }
    bits = 0;
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find('|', start), text.size());
      const std::string part = text.substr(start, end - start);
      uint64_t one;
      if (const hw::EnumValue *v = find_value(f.field.values, part))
        one = v->value;
      else if (!parse_integer(part, f.field.type, one))
        return false;
      bits |= one;
      start = end + 1;
    }
    return true;
  }

  std::string_view text_;
  Program &program_;
  std::optional<Error> error_;
  std::string_view line_;
  unsigned line_number_ = 0;
  size_t at_ = 0;  // in line_
  // The stream that commands go to (Any: none) and the cores whose streams come next.
  hw::EngineKind engine_ = hw::EngineKind::Any;
  unsigned core_ = 0, next_tiu_ = 0, next_gdma_ = 0;
  uint32_t started_tiu_ = 0, started_gdma_ = 0;  // bit n: core n
};

}  // namespace

std::optional<Error> assemble(std::string_view text, Program &program) {
  program = {};
  auto error = Assembler(text, program).run();
  if (error) program = {};
  return error;
}

}  // namespace npu::assembly
