// SPDX-License-Identifier: MIT
// What there is to tell of cards in Prometheus' text format, version 0.0.4. Names and base units follow its
// conventions: bytes, seconds, degrees Celsius, counters that end in _total.
#include <cstring>
#include <map>

#include "tools/npu-smi/values.h"

namespace npu::smi {
namespace {

using Labels = std::vector<std::pair<const char *, std::string>>;

/// Other bytes than UTF-8, which names of processes may have, become U+FFFD.
std::string utf8(const std::string &text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::string escaped(const std::string &text) {
  std::string out;
  for (const char c : utf8(text)) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

/// Nanoseconds as seconds, all digits.
std::string seconds(uint64_t ns) { return format("%llu.%09llu", ull(ns / 1000000000), ull(ns % 1000000000)); }
std::string thousandth(int64_t value) { return format("%.10g", static_cast<double>(value) / 1e3); }
std::string whole(uint64_t value) { return std::to_string(value); }

/// The samples of one metric.
class Samples {
 public:
  void add(const Card &card, const Labels &more, const std::string &value) {
    Labels labels = {{"card", std::to_string(card.index)},
                     {"pci", card.info.bus == DRM_NPU_BUS_PLATFORM ? "" : card.bus},
                     {"id", id_of(card)}};
    labels.insert(labels.end(), more.begin(), more.end());
    text_ += name_;
    const char *before = "{";
    for (const auto &[label, content] : labels) {
      text_ += std::string(before) + label + "=\"" + escaped(content) + "\"";
      before = ",";
    }
    text_ += "} " + value + "\n";
  }
  void add_plain(const Labels &labels, const std::string &value) {
    text_ += name_;
    for (const auto &[label, content] : labels) text_ += std::string("{") + label + "=\"" + escaped(content) + "\"}";
    text_ += " " + value + "\n";
  }

  explicit Samples(const char *name) : name_(name) {}
  const std::string &text() const { return text_; }

 private:
  /// The chip has no serial number: a card is known by its place.
  static std::string id_of(const Card &card) {
    const std::string place = card.bus.empty() ? card.transport + std::to_string(card.index) : card.bus;
    return (card.chip.empty() ? "npu" : card.chip) + "@" + place;
  }

  const char *name_;
  std::string text_;
};

struct Metric {
  const char *name;
  const char *type;
  const char *help;
  /// Of a card that is there.
  void (*write)(const Card &card, Samples &samples);
};

template <typename Value>
void each_core(const Card &card, Samples &samples, Value value) {
  for (unsigned int core = 0; core < card.info.cores && core < DRM_NPU_MAX_CORES; core++)
    samples.add(card, {{"core", std::to_string(core)}}, value(core));
}

/// A process may have a card open several times.
template <typename Value>
void each_process(const Card &card, Samples &samples, Value value) {
  std::map<long, Client> sums;
  for (const Client &c : card.clients) {
    const auto [at, first] = sums.emplace(c.pid, c);
    if (first) continue;
    at->second.card_bytes += c.card_bytes;
    at->second.system_bytes += c.system_bytes;
    at->second.busy_ns += c.busy_ns;
    at->second.modelled_ns += c.modelled_ns;
    at->second.submissions += c.submissions;
    at->second.jobs += c.jobs;
  }
  for (const auto &[pid, c] : sums)
    samples.add(card, {{"pid", std::to_string(pid)}, {"process", c.process}, {"user", c.user}}, value(c));
}

#define OF_CARD(value) [](const Card &c, Samples &s) { s.add(c, {}, (value)); }
#define OF_CARD_MEMORY(value)                       \
  [](const Card &c, Samples &s) {                   \
    if (c.memory.card_total) s.add(c, {}, (value)); \
  }
#define OF_CORE(value) [](const Card &c, Samples &s) { each_core(c, s, [&](unsigned int core) { return (value); }); }
#define OF_CORE_EXACT(value)                                                        \
  [](const Card &c, Samples &s) {                                                   \
    if (!is_coarse(c)) each_core(c, s, [&](unsigned int core) { return (value); }); \
  }
#define OF_PROCESS(value) [](const Card &c, Samples &s) { each_process(c, s, [](const Client &p) { return (value); }); }

const Metric kMetrics[] = {
    {"npu_card_info", "gauge", "What the card is; always 1.",
     [](const Card &c, Samples &s) {
       s.add(c,
             {{"chip", c.chip},
              {"hardware_version", format("%u.%u", c.info.hw_version >> 16, c.info.hw_version & 0xffff)},
              {"driver", c.driver},
              {"transport", c.transport}},
             "1");
     }},
    {"npu_core_busy_seconds_total", "counter",
     "Time in which a job was on the core; its rate is the core's utilisation, from 0 to 1.",
     [](const Card &c, Samples &s) {
       // A driver before 1.4 does not tell.
       if (c.status.card_ns) each_core(c, s, [&](unsigned int core) { return seconds(c.status.busy_ns[core]); });
     }},
    {"npu_core_jobs_total", "counter", "Jobs that the core has completed; needs CAP_PERFMON.",
     OF_CORE_EXACT(whole(c.status.jobs[core]))},
    {"npu_core_modelled_cycles_total", "counter",
     "Cycles that the cost model charges for these jobs; needs CAP_PERFMON.",
     OF_CORE_EXACT(whole(c.status.busy_cycles[core]))},
    {"npu_card_memory_total_bytes", "gauge", "Memory of the card; a block of a SoC has none.",
     OF_CARD_MEMORY(whole(c.memory.card_total))},
    {"npu_card_memory_used_bytes", "gauge", "Of the card's memory, what is taken.",
     OF_CARD_MEMORY(whole(c.memory.card_total - c.memory.card_free))},
    {"npu_card_memory_largest_free_bytes", "gauge", "Of the card's memory, the largest free block.",
     OF_CARD_MEMORY(whole(c.memory.card_largest))},
    {"npu_card_memory_evicted_bytes", "gauge", "Card buffers that are in system memory.",
     OF_CARD_MEMORY(whole(c.memory.card_evicted))},
    {"npu_card_memory_evictions_total", "counter", "Buffers that were moved there.",
     OF_CARD_MEMORY(whole(c.memory.evictions))},
    {"npu_card_temperature_celsius", "gauge", "Temperature of the chip.", OF_CARD(thousandth(c.status.temperature_mc))},
    {"npu_card_power_watts", "gauge", "Power of the card.", OF_CARD(thousandth(c.status.power_mw))},
    {"npu_card_voltage_volts", "gauge", "Voltage of the chip.", OF_CARD(thousandth(c.status.voltage_mv))},
    {"npu_card_fan_rpm", "gauge", "Speed of the fan, turns a minute.", OF_CARD(whole(c.status.fan_rpm))},
    {"npu_card_clock_hertz", "gauge", "Present clock.", OF_CARD(whole(uint64_t{c.status.clock_khz} * 1000))},
    {"npu_card_clock_max_hertz", "gauge", "Highest clock.", OF_CARD(whole(uint64_t{c.info.clock_khz} * 1000))},
    {"npu_card_memory_errors_total", "counter", "Memory errors.",
     [](const Card &c, Samples &s) {
       s.add(c, {{"kind", "corrected"}}, whole(c.status.ecc_corrected));
       s.add(c, {{"kind", "uncorrected"}}, whole(c.status.ecc_uncorrected));
     }},
    {"npu_card_aborted_jobs_total", "counter", "Jobs that the driver's watchdog has aborted.",
     OF_CARD(whole(c.status.aborted_jobs))},
    {"npu_card_resets_total", "counter", "Resets, of single cores and of the card.",
     [](const Card &c, Samples &s) {
       s.add(c, {{"kind", "core"}}, whole(c.status.core_resets));
       s.add(c, {{"kind", "card"}}, whole(c.status.resets));
     }},
    {"npu_card_thermal_events_total", "counter", "How often the temperature limit was passed, either way.",
     OF_CARD(whole(c.status.thermal_events))},
    {"npu_card_cache_mistakes_total", "counter", "Cache lines whose maintenance was forgotten, where they are watched.",
     [](const Card &c, Samples &s) {
       if (!(c.watch.flags & DRM_NPU_WATCH_PRESENT)) return;
       s.add(c, {{"kind", "uncleaned"}}, whole(c.watch.uncleaned));
       s.add(c, {{"kind", "stale"}}, whole(c.watch.stale));
       s.add(c, {{"kind", "overwritten"}}, whole(c.watch.overwritten));
       s.add(c, {{"kind", "discarded"}}, whole(c.watch.discarded));
     }},
    {"npu_process_card_memory_bytes", "gauge", "Card memory that the process has.", OF_PROCESS(whole(p.card_bytes))},
    {"npu_process_system_memory_bytes", "gauge", "System memory that the process has buffers in.",
     OF_PROCESS(whole(p.system_bytes))},
    {"npu_process_jobs_total", "counter", "Jobs of the process that have ended, of its present files.",
     OF_PROCESS(whole(p.jobs))},
    {"npu_process_submissions_total", "counter", "Submissions of the process, each of one job or more.",
     OF_PROCESS(whole(p.submissions))},
    {"npu_process_busy_seconds_total", "counter", "Time that cores were busy with the process's jobs.",
     OF_PROCESS(seconds(p.busy_ns))},
    {"npu_process_modelled_seconds_total", "counter", "Time of the chip itself that these jobs took.",
     OF_PROCESS(seconds(p.modelled_ns))},
    {"npu_card_hidden_files", "gauge", "Open files whose process is not visible to the exporter.",
     [](const Card &c, Samples &s) {
       if (c.hidden >= 0) s.add(c, {}, std::to_string(c.hidden));
     }},
};

#undef OF_CARD
#undef OF_CARD_MEMORY
#undef OF_CORE
#undef OF_PROCESS

std::string head(const char *name, const char *type, const char *help) {
  return std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

}  // namespace

std::string metrics(const Report &report, const std::string &version) {
  Samples tool("npu_smi_info"), cards("npu_cards"), up("npu_card_up");
  tool.add_plain({{"version", version}}, "1");
  cards.add_plain({}, std::to_string(report.cards.size()));
  for (const Card &card : report.cards) up.add(card, {}, card.lost.empty() ? "1" : "0");
  std::string out = head("npu_smi_info", "gauge", "Version of the exporter; always 1.") + tool.text() +
                    head("npu_cards", "gauge", "Cards that the machine has.") + cards.text();
  if (!report.cards.empty()) out += head("npu_card_up", "gauge", "Whether the card answers.") + up.text();
  for (const Card &card : report.cards)
    if (!card.lost.empty()) out += format("# card %u: ", card.index) + harmless(utf8(card.lost)) + "\n";
  for (const Metric &metric : kMetrics) {
    Samples samples(metric.name);
    for (const Card &card : report.cards)
      if (card.lost.empty()) metric.write(card, samples);
    if (!samples.text().empty()) out += head(metric.name, metric.type, metric.help) + samples.text();
  }
  return out;
}

}  // namespace npu::smi
