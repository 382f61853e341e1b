// SPDX-License-Identifier: MIT
// --query: chosen columns of each card as CSV.
#include <cstring>

#include "report.h"

namespace npu::smi {
namespace {

struct Column {
  const char *name, *unit, *help;
  std::string (*value)(const Card &card);
};

std::string text(uint64_t value) { return std::to_string(value); }

std::string joined(const std::vector<unsigned int> &values) {
  std::string out;
  for (const unsigned int value : values) out += (out.empty() ? "" : " ") + std::to_string(value);
  return out;
}

/// A field of CSV (RFC 4180).
std::string field(const std::string &value) {
  if (value.find_first_of(",\"\n\r") == value.npos) return value;
  std::string out = "\"";
  for (const char c : value) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

const Column kColumns[] = {
    {"index", "", "number of the card", [](const Card &c) { return text(c.index); }},
    {"chip", "", "name of the chip", [](const Card &c) { return c.chip; }},
    {"bus", "", "address on the bus", [](const Card &c) { return c.bus; }},
    {"driver", "", "driver and its version", [](const Card &c) { return c.driver; }},
    {"cores", "", "cores", [](const Card &c) { return text(c.info.cores); }},
    {"queues", "", "contexts that can exist at once", [](const Card &c) { return text(c.info.queues); }},
    {"utilisation", "%", "of all cores", [](const Card &c) { return text(c.utilisation); }},
    {"utilisation.cores", "%", "of each core", [](const Card &c) { return joined(c.core_util); }},
    {"memory.total", "MiB", "card memory", [](const Card &c) { return text(mib(c.memory.card_total)); }},
    {"memory.used", "MiB", "of it, taken",
     [](const Card &c) { return text(mib(c.memory.card_total - c.memory.card_free)); }},
    {"memory.free", "MiB", "of it, free", [](const Card &c) { return text(mib(c.memory.card_free)); }},
    {"memory.evicted", "MiB", "card buffers that are in system memory",
     [](const Card &c) { return text(mib(c.memory.card_evicted)); }},
    {"temperature", "mC", "of the chip", [](const Card &c) { return std::to_string(c.status.temperature_mc); }},
    {"power", "mW", "of the card", [](const Card &c) { return text(c.status.power_mw); }},
    {"voltage", "mV", "of the chip", [](const Card &c) { return text(c.status.voltage_mv); }},
    {"fan", "rpm", "its speed", [](const Card &c) { return text(c.status.fan_rpm); }},
    {"clock", "kHz", "present clock", [](const Card &c) { return text(c.status.clock_khz); }},
    {"clock.max", "kHz", "highest clock", [](const Card &c) { return text(c.info.clock_khz); }},
    {"ecc.corrected", "", "memory errors", [](const Card &c) { return text(c.status.ecc_corrected); }},
    {"ecc.uncorrected", "", "memory errors", [](const Card &c) { return text(c.status.ecc_uncorrected); }},
    {"jobs.aborted", "", "by the driver's watchdog", [](const Card &c) { return text(c.status.aborted_jobs); }},
    {"resets", "", "of the card", [](const Card &c) { return text(c.status.resets); }},
    {"resets.cores", "", "of single cores", [](const Card &c) { return text(c.status.core_resets); }},
    {"processes", "", "that have the card open", [](const Card &c) { return text(c.clients.size()); }},
};

}  // namespace

bool parse_columns(const std::string &list, std::vector<size_t> &columns, std::string &bad) {
  columns.clear();
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, comma - at);
    size_t i = 0;
    while (i < std::size(kColumns) && name != kColumns[i].name) i++;
    if (i == std::size(kColumns)) {
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
    const Column &c = kColumns[i];
    out += (out.empty() ? "" : ",") + std::string(c.name) + (*c.unit ? " [" + std::string(c.unit) + "]" : "");
  }
  return out + "\n";
}

std::string csv(const Report &report, const std::vector<size_t> &columns) {
  std::string out;
  for (const Card &card : report.cards) {
    for (size_t i = 0; i < columns.size(); i++) {
      const Column &column = kColumns[columns[i]];
      const bool known = card.lost.empty() || !strcmp(column.name, "index");
      out += (i ? "," : "") + (known ? field(column.value(card)) : "lost");
    }
    out += "\n";
  }
  return out;
}

std::string describe_columns() {
  std::string out;
  for (const Column &c : kColumns) out += format("  %-18s %-4s %s\n", c.name, c.unit, c.help);
  return out;
}

}  // namespace npu::smi
