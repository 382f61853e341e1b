// SPDX-License-Identifier: MIT
#include "tools/npuc/page.h"

#include <algorithm>

namespace npu::npuc::page {

namespace {

/// Bytes of the UTF-8 character at `at`; 0: there is none.
size_t utf8_length(const std::string &text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  // Surrogates, what is longer than it has to be, what lies behind the last character, and two that are none.
  const unsigned second = byte(at + 1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) ||
                     (first == 0xef && second == 0xbf && byte(at + 2) > 0xbd);
  return wrong ? 0 : length;
}

}  // namespace

std::string valid(const std::string &text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    out += length ? text.substr(at, length) : "?";
    at += std::max<size_t>(length, 1);
  }
  return out;
}

std::string escaped(const std::string &text) {
  std::string out;
  for (const char c : valid(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
  }
  return out;
}

std::string grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += "\u202f";
    out += digits[i];
  }
  return out;
}

std::string size_text(uint64_t bytes) {
  const char *const units[] = {" B", " KiB", " MiB", " GiB"};
  double v = static_cast<double>(bytes);
  size_t u = bytes < 10240 ? 0 : 1;
  if (u) v /= 1024;
  for (; v >= 1024 && u > 0 && u + 1 < std::size(units); ++u) v /= 1024;
  std::string digits = print("%.1f", v);
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return digits + units[u];
}

std::string short_number(double v) {
  const char *const prefixes[] = {"", " k", " M", " G", " T"};
  size_t p = 0;
  for (; v >= 1000 && p + 1 < std::size(prefixes); ++p) v /= 1000;
  return print("%.3g", v) + prefixes[p];
}

std::string bound_class(const std::string &bound) {
  return "b-" + (bound.empty() ? "none" : bound == "local memory" ? "local" : bound);
}

}  // namespace npu::npuc::page
