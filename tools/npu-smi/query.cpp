// SPDX-License-Identifier: MIT
// --query: chosen columns of each card as CSV.
#include <algorithm>
#include <cstring>

#include "tools/npu-smi/values.h"

namespace npu::smi {
namespace {

/// A field of CSV (RFC 4180).
std::string field(const std::string &value) {
  if (value.find_first_of(",\"\n\r") == value.npos) return value;
  std::string out = "\"";
  for (const char c : value) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

bool parse_columns(const std::string &list, std::vector<size_t> &columns, std::string &bad) {
  const std::vector<Value> &all = values();
  columns.clear();
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, comma - at);
    size_t i = 0;
    while (i < all.size() && !(all[i].column && name == all[i].column)) i++;
    if (i == all.size()) {
      bad = name;
      return false;
    }
    columns.push_back(i);
    at = comma + 1;
  }
  return true;
}

std::string csv_head(const std::vector<size_t> &columns) {
  std::string out;
  for (const size_t i : columns) {
    const Value &v = values()[i];
    out += (out.empty() ? "" : ",") + std::string(v.column) + (*v.unit ? " [" + std::string(v.unit) + "]" : "");
  }
  return out + "\n";
}

std::string csv(const Report &report, const std::vector<size_t> &columns) {
  std::string out;
  for (const Card &card : report.cards) {
    for (size_t i = 0; i < columns.size(); i++) {
      const Value &value = values()[columns[i]];
      const bool known = card.lost.empty() || !strcmp(value.column, "index");
      out += (i ? "," : "") + (known ? field(in_column(value, card)) : "lost");
    }
    out += "\n";
  }
  return out;
}

std::string describe_columns() {
  std::string out;
  for (const Value &v : values())
    if (v.column) out += format("  %-18s %-4s %s\n", v.column, v.unit, v.help);
  return out;
}

}  // namespace npu::smi
