// SPDX-License-Identifier: MIT
#include "tools/npu-smi/values.h"

#include <span>
#include <string_view>

namespace npu::smi {
namespace {

/// Counters of the card's own cores.
Json of_cores(const Card &card, const __u64 (&counters)[DRM_NPU_MAX_CORES]) {
  Json out = Json::array();
  for (uint32_t i = 0; i < card.info.cores && i < DRM_NPU_MAX_CORES; i++) out.push_back(counters[i]);
  return out;
}

/// A counter of the cache watch; null where there is none.
Json of_watch(const Card &card, uint32_t count) {
  return card.watch.flags & DRM_NPU_WATCH_PRESENT ? Json(count) : Json();
}

/// Card memory; null where there is none.
Json of_memory(const Card &card, uint64_t bytes) { return card.memory.card_total ? Json(bytes) : Json(); }

/// A percentage; null where it is not known.
Json known(int percent) { return percent < 0 ? Json() : Json(percent); }

std::string plain(const Json &json) {
  if (json.is_null()) return "";
  return json.is_string() ? json.get<std::string>() : json.dump();
}

/// A unit that stands for a larger one in -q.
struct Words {
  const char *unit;
  const char *format;
  double divisor;
};

const Words kWords[] = {
    {"mC", "%.1f C", 1e3},    {"mW", "%.1f W", 1e3},  {"mV", "%.3f V", 1e3},
    {"kHz", "%.0f MHz", 1e3}, {"rpm", "%.0f rpm", 1},
};

const Value kCard[] = {
    {"card", "index", nullptr, nullptr, "", "number of the NPU", [](const Card &c) -> Json { return c.index; }},
    {"chip", "chip", "", "Chip", "", "name of the chip", [](const Card &c) -> Json { return c.chip; }},
    {nullptr, nullptr, "", "Hardware version", "", "",
     [](const Card &c) -> Json { return format("%u.%u", c.info.hw_version >> 16, c.info.hw_version & 0xffff); }},
    {nullptr, nullptr, "", "Instruction set version", "", "", [](const Card &c) -> Json { return c.info.isa_version; }},
    {"driver", "driver", "", "Driver", "", "driver and its version", [](const Card &c) -> Json { return c.driver; }},
    {"transport", nullptr, "", "Transport", "", "", [](const Card &c) -> Json { return c.transport; }},
    {"bus", "bus", "", "Bus", "", "address on the bus", [](const Card &c) -> Json { return c.bus; }},
    {"cores", "cores", nullptr, nullptr, "", "cores", [](const Card &c) -> Json { return c.info.cores; }},
    {"queues", "queues", "", "Queues", "", "queues of the chip for contexts",
     [](const Card &c) -> Json { return c.info.queues; }},
    {"lmem_bytes", nullptr, "", "Local memory of a core", "KiB", "",
     [](const Card &c) -> Json { return c.info.lmem_bytes; }},
    {"utilisation", "utilisation", nullptr, nullptr, "%", "of all cores",
     [](const Card &c) { return known(c.utilisation); }},
    {"core_utilisation", "utilisation.cores", nullptr, nullptr, "%", "of each core",
     [](const Card &c) {
       Json out = Json::array();
       for (const int util : c.core_util) out.push_back(known(util));
       return out;
     }},
    {"busy_ns", nullptr, nullptr, nullptr, "", "",
     [](const Card &c) -> Json {
       // A driver before 1.4 does not tell.
       return c.status.card_ns ? of_cores(c, c.status.busy_ns) : Json();
     }},
    {"busy_cycles", nullptr, nullptr, nullptr, "", "",
     [](const Card &c) -> Json { return is_coarse(c) ? Json() : of_cores(c, c.status.busy_cycles); }},
    {"jobs", nullptr, nullptr, nullptr, "", "",
     [](const Card &c) -> Json { return is_coarse(c) ? Json() : of_cores(c, c.status.jobs); }},
};

const Value kMemory[] = {
    {"memory_total", "memory.total", "Memory", "Total", "MiB", "card memory",
     [](const Card &c) { return of_memory(c, c.memory.card_total); }},
    {nullptr, "memory.used", "Memory", "Used", "MiB", "of it, taken",
     [](const Card &c) { return of_memory(c, c.memory.card_total - c.memory.card_free); }},
    {"memory_free", "memory.free", "Memory", "Free", "MiB", "of it, free",
     [](const Card &c) { return of_memory(c, c.memory.card_free); }},
    {"memory_largest", nullptr, "Memory", "Largest free block", "MiB", "",
     [](const Card &c) { return of_memory(c, c.memory.card_largest); }},
    {"memory_evicted", "memory.evicted", "Memory", "Evicted to system memory", "MiB",
     "card buffers that are in system memory", [](const Card &c) { return of_memory(c, c.memory.card_evicted); }},
    {"evictions", nullptr, "Memory", "Evictions", "", "",
     [](const Card &c) { return of_memory(c, c.memory.evictions); }},
    {"memory_system", "memory.system", "Memory", "System memory of processes", "MiB",
     "memory of the system, of all processes",
     [](const Card &c) -> Json { return c.hidden ? Json() : Json(system_bytes(c)); }},
};

const Value kSensors[] = {
    {"temperature_mc", "temperature", "Sensors", "Temperature", "mC", "of the chip",
     [](const Card &c) -> Json { return c.status.temperature_mc; }},
    {"power_mw", "power", "Sensors", "Power", "mW", "of the card",
     [](const Card &c) -> Json { return c.status.power_mw; }},
    {"voltage_mv", "voltage", "Sensors", "Voltage", "mV", "of the chip",
     [](const Card &c) -> Json { return c.status.voltage_mv; }},
    {"fan_rpm", "fan", "Sensors", "Fan", "rpm", "its speed", [](const Card &c) -> Json { return c.status.fan_rpm; }},
    {"clock_khz", "clock", "Sensors", "Clock", "kHz", "present clock",
     [](const Card &c) -> Json { return c.status.clock_khz; }},
    {"clock_max_khz", "clock.max", "Sensors", "Highest clock", "kHz", "highest clock",
     [](const Card &c) -> Json { return c.info.clock_khz; }},
};

const Value kErrors[] = {
    {"ecc_corrected", "ecc.corrected", "Errors", "Memory, corrected", "", "memory errors",
     [](const Card &c) -> Json { return c.status.ecc_corrected; }},
    {"ecc_uncorrected", "ecc.uncorrected", "Errors", "Memory, uncorrected", "", "memory errors",
     [](const Card &c) -> Json { return c.status.ecc_uncorrected; }},
    {"aborted_jobs", "jobs.aborted", "Errors", "Jobs aborted", "", "by the driver's watchdog",
     [](const Card &c) -> Json { return c.status.aborted_jobs; }},
    {"core_resets", "resets.cores", "Errors", "Core resets", "", "of single cores",
     [](const Card &c) -> Json { return c.status.core_resets; }},
    {"resets", "resets", "Errors", "Resets", "", "of the whole chip",
     [](const Card &c) -> Json { return c.status.resets; }},
    {"thermal_events", nullptr, "Errors", "Thermal events", "", "",
     [](const Card &c) -> Json { return c.status.thermal_events; }},
    {"cache_uncleaned", "cache.uncleaned", "Errors", "Cache lines uncleaned", "",
     "that the chip read before they were cleaned", [](const Card &c) { return of_watch(c, c.watch.uncleaned); }},
    {"cache_stale", "cache.stale", "Errors", "Cache lines stale", "",
     "that a processor read before they were invalidated", [](const Card &c) { return of_watch(c, c.watch.stale); }},
    {"cache_overwritten", "cache.overwritten", "Errors", "Cache lines overwritten", "",
     "cleaned over what the chip had written", [](const Card &c) { return of_watch(c, c.watch.overwritten); }},
    {"cache_discarded", "cache.discarded", "Errors", "Cache lines discarded", "",
     "invalidated before they were cleaned", [](const Card &c) { return of_watch(c, c.watch.discarded); }},
    {nullptr, "processes", nullptr, nullptr, "",
     "files of it that processes have open, empty where not all are visible",
     [](const Card &c) -> Json { return c.hidden ? Json() : Json(c.clients.size()); }},
    {"hidden_files", nullptr, nullptr, nullptr, "", "", [](const Card &c) -> Json { return known(c.hidden); }},
};

}  // namespace

const std::vector<Value> &values() {
  static const std::vector<Value> all = [] {
    std::vector<Value> sections;
    for (const std::span<const Value> section : {std::span<const Value>(kCard), std::span<const Value>(kMemory),
                                                 std::span<const Value>(kSensors), std::span<const Value>(kErrors)})
      sections.insert(sections.end(), section.begin(), section.end());
    return sections;
  }();
  return all;
}

std::string in_column(const Value &value, const Card &card) {
  const Json json = value.get(card);
  if (json.is_array()) {
    std::string out;
    for (const Json &one : json) out += (out.empty() ? "" : " ") + plain(one);
    return out;
  }
  if (json.is_null()) return "";
  if (std::string_view(value.unit) == "MiB") return std::to_string(mib(json.get<uint64_t>()));
  if (std::string_view(value.unit) == "KiB") return std::to_string(json.get<uint64_t>() >> 10);
  return plain(json);
}

std::string in_words(const Value &value, const Card &card) {
  const std::string column = in_column(value, card);
  for (const Words &words : kWords)
    if (std::string_view(value.unit) == words.unit)
      return format(words.format, value.get(card).get<double>() / words.divisor);
  if (column.empty()) return "-";
  return *value.unit ? column + " " + value.unit : column;
}

}  // namespace npu::smi
