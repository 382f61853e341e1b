// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstdio>

#include "report.h"

namespace npu::smi {
namespace {

std::string format(const char *format, ...) __attribute__((format(printf, 1, 2)));

std::string format(const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

unsigned long long mib(uint64_t bytes) { return (bytes + (1 << 19)) >> 20; }

const char *or_dash(const std::string &text) { return text.empty() ? "-" : text.c_str(); }

const char kRule[] =
    "+------+---------+--------------+-------+------------------+---------+---------+--------------------+------+------"
    "-+\n";
const char kClientRule[] =
    "+------+---------+------------------+-----------------+-----------------+------------+----------------------------"
    "-+\n";

std::string card_row(const Card &c) {
  return format(
      "| %4u | %-7s | %-12s | %5u | %7.0f MHz%s | %5.1f C | %5.1f W | %6llu / %-5llu MiB | %3u %% | %2u/%-2u |\n",
      c.index, c.chip.c_str(), or_dash(c.bus), c.info.cores, c.status.clock_khz / 1e3,
      c.status.core_busy ? " busy" : " idle", c.status.temperature_mc / 1e3, c.status.power_mw / 1e3,
      mib(c.memory.card_total - c.memory.card_free), mib(c.memory.card_total), c.utilisation, c.status.ecc_corrected,
      c.status.ecc_uncorrected);
}

std::string client_row(const Card &card, const Client &c) {
  return format("| %4u | %7ld | %-16.16s | %11.1f MiB | %11.1f MiB | %10llu | %24.3f ms |\n", card.index, c.pid,
                c.process.c_str(), static_cast<double>(c.card_bytes) / (1 << 20),
                static_cast<double>(c.system_bytes) / (1 << 20), static_cast<unsigned long long>(c.jobs),
                static_cast<double>(c.engine_ns) / 1e6);
}

std::string table(const Report &report, const std::string &version) {
  std::string out = "npu-smi " + version;
  for (const Card &c : report.cards)
    out += format(
        "\ncard %u: driver %s, transport %s, resets %u (of cores %u), jobs aborted %u, fan %u rpm, local memory %llu "
        "KiB a core, %u queues",
        c.index, c.driver.c_str(), c.transport.c_str(), c.status.resets, c.status.core_resets, c.status.aborted_jobs,
        c.status.fan_rpm, static_cast<unsigned long long>(c.info.lmem_bytes >> 10), c.info.queues);
  out += "\n" + std::string(kRule);
  out +=
      "| Card | Chip    | Bus          | Cores | Clock            | Temp    | Power   | Memory used        | Util | "
      "ECC   |\n";
  out += kRule;
  size_t clients = 0;
  for (const Card &c : report.cards) {
    out += card_row(c);
    clients += c.clients.size();
  }
  out += kRule + std::string("\n") + kClientRule;
  out +=
      "| Card |     PID | Process          |     Card memory |   System memory |       Jobs | Modelled engine time     "
      "   |\n";
  out += kClientRule;
  for (const Card &c : report.cards)
    for (const Client &client : c.clients) out += client_row(c, client);
  if (!clients) out += format("| %-112s |\n", "no process has a card open");
  return out + kClientRule;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += format("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

std::string member(const char *name, const std::string &value) { return "\"" + std::string(name) + "\": " + value; }
std::string member(const char *name, uint64_t value) { return member(name, std::to_string(value)); }

std::string object(const std::vector<std::string> &members) {
  std::string out = "{";
  for (const std::string &m : members) out += (out.size() > 1 ? ", " : "") + m;
  return out + "}";
}

std::string array(const std::vector<std::string> &items) {
  std::string out = "[";
  for (const std::string &item : items) out += (out.size() > 1 ? ", " : "") + item;
  return out + "]";
}

std::string client_json(const Client &c) {
  return object({member("pid", static_cast<uint64_t>(c.pid)), member("process", quoted(c.process)),
                 member("card_bytes", c.card_bytes), member("system_bytes", c.system_bytes), member("jobs", c.jobs),
                 member("engine_ns", c.engine_ns)});
}

std::string card_json(const Card &c) {
  std::vector<std::string> clients, cycles, jobs;
  for (const Client &client : c.clients) clients.push_back(client_json(client));
  for (uint32_t i = 0; i < c.info.cores && i < DRM_NPU_MAX_CORES; i++) {
    cycles.push_back(std::to_string(c.status.busy_cycles[i]));
    jobs.push_back(std::to_string(c.status.jobs[i]));
  }
  return object({member("card", c.index),
                 member("chip", quoted(c.chip)),
                 member("transport", quoted(c.transport)),
                 member("driver", quoted(c.driver)),
                 member("bus", quoted(c.bus)),
                 member("cores", c.info.cores),
                 member("queues", c.info.queues),
                 member("lmem_bytes", c.info.lmem_bytes),
                 member("clock_khz", c.status.clock_khz),
                 member("temperature_mc", std::to_string(c.status.temperature_mc)),
                 member("power_mw", c.status.power_mw),
                 member("voltage_mv", c.status.voltage_mv),
                 member("memory_total", c.memory.card_total),
                 member("memory_free", c.memory.card_free),
                 member("memory_largest", c.memory.card_largest),
                 member("utilisation", c.utilisation),
                 member("ecc_corrected", c.status.ecc_corrected),
                 member("ecc_uncorrected", c.status.ecc_uncorrected),
                 member("resets", c.status.resets),
                 member("core_resets", c.status.core_resets),
                 member("aborted_jobs", c.status.aborted_jobs),
                 member("thermal_events", c.status.thermal_events),
                 member("fan_rpm", c.status.fan_rpm),
                 member("busy_cycles", array(cycles)),
                 member("jobs", array(jobs)),
                 member("processes", array(clients))});
}

std::string json(const Report &report, const std::string &version) {
  std::vector<std::string> cards;
  for (const Card &c : report.cards) cards.push_back(card_json(c));
  return object({member("version", quoted(version)), member("cards", array(cards))}) + "\n";
}

}  // namespace

const std::vector<Format> &formats() {
  static const std::vector<Format> all = {{nullptr, table}, {"--json", json}};
  return all;
}

}  // namespace npu::smi
