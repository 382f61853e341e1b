// SPDX-License-Identifier: MIT
// Option values as people type them.
#include <charconv>

#include "compiler/api/npuc.h"

namespace npu::compiler {
namespace {

bool parse_number(std::string_view text, int64_t &out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

bool parse_size(const std::string &text, int64_t &out) {
  std::string_view digits = text;
  for (std::string_view suffix : {"iB", "B"})
    if (digits.size() > suffix.size() + 1 && digits.ends_with(suffix)) {
      digits.remove_suffix(suffix.size());
      break;
    }
  int64_t unit = 1;
  if (!digits.empty()) {
    const char last = digits.back();
    unit = last == 'K' || last == 'k' ? 1024 : last == 'M' || last == 'm' ? 1024 * 1024 : 1;
    if (unit > 1) digits.remove_suffix(1);
  }
  return parse_number(digits, out) && out >= 0 && !__builtin_mul_overflow(out, unit, &out);
}

Status parse_stage(const std::string &text, std::map<std::string, graph::Shape> &shapes) {
  for (size_t from = 0;;) {
    const size_t end = text.find(';', from);
    NPU_TRY(parse_shape(text.substr(from, end - from), shapes));
    if (end == std::string::npos) return {};
    from = end + 1;
  }
}

Status parse_shape(const std::string &text, std::map<std::string, graph::Shape> &shapes) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return Status::error("--shape " + text + ": NAME=D0,D1,... is expected");
  graph::Shape shape;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  for (;;) {
    const size_t comma = rest.find(',');
    int64_t d;
    if (!parse_number(rest.substr(0, comma), d) || d < 1)
      return Status::error("--shape " + text + ": dimension " + std::to_string(shape.size()) +
                           " is not a positive number");
    shape.push_back(d);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (!shapes.emplace(text.substr(0, equals), shape).second)
    return Status::error("--shape names '" + text.substr(0, equals) + "' twice");
  return {};
}

}  // namespace npu::compiler
