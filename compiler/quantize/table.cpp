// SPDX-License-Identifier: MIT
#include "compiler/quantize/table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <tuple>

namespace npu::quantize {
namespace {

constexpr std::string_view kTitle = "# npuc calibration table ", kVersion = "1";
constexpr const char *kBlank = " \t\r";

/// The shortest text that is this number again.
template <class T>
std::string number_text(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string quoted(const std::string &name) {
  std::string out = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + "\"";
}

/// Takes a name between double quotes off the front.
bool take_name(std::string_view &line, std::string &out) {
  out.clear();
  if (line.empty() || line[0] != '"') return false;
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '"') {
      line.remove_prefix(i + 1);
      return true;
    }
    const bool escaped = line[i] == '\\';
    if (escaped && ++i == line.size()) return false;
    out += escaped && line[i] == 'n' ? '\n' : line[i];
  }
  return false;
}

std::string_view take_word(std::string_view &line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

template <class T>
bool parse_number(std::string_view word, T &out) {
  if (!word.empty() && word[0] == '+') word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

Status parse_line(std::string_view line, Table &out) {
  std::string name;
  TableLine entry;
  for (const auto &[word, what, list] :
       {std::tuple{"keep", "node", &Table::keep}, std::tuple{"real", "tensor", &Table::reals}}) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(std::string_view(word).size());
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (!take_name(line, name) || !take_word(line).empty())
      return Status::error("a " + std::string(what) + "'s name between double quotes is expected behind '" + word +
                           "', and nothing else");
    return (out.*list).insert(name).second ? Status()
                                           : Status::error(std::string(what) + " '" + name + "' has a line already");
  }
  if (!take_name(line, name)) return Status::error("a tensor's name between double quotes is expected first");
  const std::string where = "tensor '" + name + "': ";
  for (float *end : {&entry.range.low, &entry.range.high}) {
    const std::string_view word = take_word(line);
    if (!parse_number(word, *end) || !std::isfinite(*end))
      return Status::error(where + "'" + std::string(word) +
                           "' is no finite number: \"NAME\" LOW HIGH METHOD is expected");
  }
  entry.method = take_word(line);
  if (entry.method.empty()) entry.method = "manual";
  if (const std::string_view more = take_word(line); !more.empty())
    return Status::error(where + "'" + std::string(more) + "' is too much: \"NAME\" LOW HIGH METHOD is expected");
  if (entry.range.low > entry.range.high)
    return Status::error(where + "the lowest number " + number_text(entry.range.low) + " is above the highest, " +
                         number_text(entry.range.high));
  if (!out.tensors.emplace(name, entry).second) return Status::error(where + "has a line already");
  return {};
}

}  // namespace

std::string rule_text(const RangeRule &rule) {
  switch (rule.method) {
    case Method::Percentile:
      return "percentile:" + number_text(rule.percentile);
    case Method::Kl:
      return "kl";
    case Method::Mse:
      return "mse";
    default:
      return "minmax";
  }
}

bool parse_rule(const std::string &text, RangeRule &out) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  out = {};
  if (name == "percentile") {
    out.method = Method::Percentile;
    if (colon == std::string::npos) return true;
    return parse_number(std::string_view(text).substr(colon + 1), out.percentile) && out.percentile > 50 &&
           out.percentile <= 100;
  }
  for (const Method method : {Method::MinMax, Method::Kl, Method::Mse})
    if (text == rule_text({method, 0})) {
      out.method = method;
      return true;
    }
  return false;
}

std::string table_text(const Table &table) {
  std::string out = std::string(kTitle) + std::string(kVersion) + "\n";
  for (const auto &[name, line] : table.tensors)
    out += quoted(name) + "  " + number_text(line.range.low) + "  " + number_text(line.range.high) + "  " +
           line.method + "\n";
  for (const std::string &node : table.keep) out += "keep " + quoted(node) + "\n";
  for (const std::string &tensor : table.reals) out += "real " + quoted(tensor) + "\n";
  return out;
}

Status parse_table(const std::string &text, Table &out) {
  out = {};
  size_t number = 0;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line(text.data() + from, end - from);
    from = end + 1;
    ++number;
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.substr(0, kTitle.size()) == kTitle) {
      const std::string_view version = line.substr(kTitle.size(), line.find_last_not_of(kBlank) + 1 - kTitle.size());
      if (!version.empty() && std::isdigit(static_cast<unsigned char>(version[0])) && version != kVersion)
        return Status::error("line " + std::to_string(number) + ": a table of version " + std::string(version) + ", " +
                             std::string(kVersion) + " is expected");
    }
    if (line.empty() || line[0] == '#') continue;
    NPU_TRY(parse_line(line, out).within("line " + std::to_string(number)));
  }
  return {};
}

}  // namespace npu::quantize
