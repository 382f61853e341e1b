// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "tools/npu-smi/values.h"

namespace npu::smi {

std::string format(const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

std::string harmless(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

std::string percent(int value) { return value < 0 ? "-" : std::to_string(value); }

std::string name_of(const Card &card) {
  return format("%s %u", card.info.bus == DRM_NPU_BUS_PLATFORM ? "NPU" : "card", card.index);
}

std::string cache_mistakes(const Card &card) {
  if (!(card.watch.flags & DRM_NPU_WATCH_PRESENT)) return "";
  return format("cache lines uncleaned %u, stale %u, overwritten %u, discarded %u", card.watch.uncleaned,
                card.watch.stale, card.watch.overwritten, card.watch.discarded);
}

std::string card_mib(const Card &card, uint64_t bytes, int digits) {
  return card.memory.card_total ? format("%.*f", digits, static_cast<double>(bytes) / (1 << 20)) : "-";
}

uint64_t mib(uint64_t bytes) { return (bytes + (1 << 19)) >> 20; }

uint64_t system_bytes(const Card &card) {
  uint64_t sum = 0;
  for (const Client &client : card.clients) sum += client.system_bytes;
  return sum;
}

std::string hidden_text(const Card &card) {
  if (card.hidden < 0) return "processes of other users are not visible to you";
  if (!card.hidden) return "";
  return format("%d open file%s not visible to you", card.hidden, card.hidden == 1 ? " is" : "s are");
}

namespace {

const char *or_dash(const std::string &text) { return text.empty() ? "-" : text.c_str(); }

const char kRule[] =
    "+------+---------+--------------+-------+------------------+---------+---------+--------------------+------+------"
    "-+\n";
const char kClientRule[] =
    "+------+---------+------------------+-------------+-------------+-------------+------------+---------------+"
    "---------------+\n";
const char kLegend[] =
    "A launch of a network is one submission or more, a submission one job or more. Busy: time that cores were busy\n"
    "with these jobs. Modelled: time that they take the chip itself.\n";

std::string memory_cell(const Card &c) {
  if (!c.memory.card_total)
    return format("%7s MiB system", c.hidden ? "-" : std::to_string(mib(system_bytes(c))).c_str());
  return format("%6llu / %-5llu MiB", ull(mib(c.memory.card_total - c.memory.card_free)),
                ull(mib(c.memory.card_total)));
}

std::string card_row(const Card &c) {
  if (!c.lost.empty()) return format("| %4u | %-105.105s |\n", c.index, ("lost: " + c.lost).c_str());
  return format("| %4u | %-7s | %-12s | %5u | %7.0f MHz%s | %5.1f C | %5.1f W | %s | %3s %% | %2u/%-2u |\n", c.index,
                c.chip.c_str(), or_dash(c.bus), c.info.cores, c.status.clock_khz / 1e3,
                is_coarse(c)         ? "     "
                : c.status.core_busy ? " busy"
                                     : " idle",
                c.status.temperature_mc / 1e3, c.status.power_mw / 1e3, memory_cell(c).c_str(),
                percent(c.utilisation).c_str(), c.status.ecc_corrected, c.status.ecc_uncorrected);
}

std::string client_row(const Card &card, const Client &c) {
  return format("| %4u | %7ld | %-16.16s | %7s MiB | %7.1f MiB | %11llu | %10llu | %10.3f ms | %10.3f ms |\n",
                card.index, c.pid, harmless(c.process).c_str(), card_mib(card, c.card_bytes, 1).c_str(),
                static_cast<double>(c.system_bytes) / (1 << 20), ull(c.submissions), ull(c.jobs),
                static_cast<double>(c.busy_ns) / 1e6, static_cast<double>(c.modelled_ns) / 1e6);
}

/// A row that is one text.
std::string client_text(const std::string &text) { return format("| %-120.120s |\n", text.c_str()); }

std::string client_table(const Report &report) {
  std::string rows;
  for (const Card &c : report.cards) {
    for (const Client &client : c.clients) rows += client_row(c, client);
    if (const std::string hidden = hidden_text(c); !hidden.empty())
      rows += client_text(format("%4u   ", c.index) + hidden);
  }
  if (rows.empty()) rows = client_text("no process has an NPU open");
  return kClientRule +
         std::string(
             "|  NPU |     PID | Process          | Card memory | Sys. memory | Submissions |       Jobs |          "
             "Busy |"
             "      Modelled |\n") +
         kClientRule + rows + kClientRule + kLegend;
}

std::string table(const Report &report, const std::string &version) {
  std::string out = "npu-smi " + version;
  for (const Card &c : report.cards) {
    if (!c.lost.empty()) continue;
    out += format(
        "\n%s: driver %s, transport %s, resets %u (of cores %u), jobs aborted %u, fan %u rpm, local memory %llu "
        "KiB a core, %u queues",
        name_of(c).c_str(), c.driver.c_str(), c.transport.c_str(), c.status.resets, c.status.core_resets,
        c.status.aborted_jobs, c.status.fan_rpm, ull(c.info.lmem_bytes >> 10), c.info.queues);
    if (const std::string mistakes = cache_mistakes(c); !mistakes.empty()) out += "\n" + name_of(c) + ": " + mistakes;
  }
  out += "\n" + std::string(kRule);
  out +=
      "|  NPU | Chip    | Bus          | Cores | Clock            | Temp    | Power   | Memory used        | Util | "
      "ECC   |\n";
  out += kRule;
  for (const Card &c : report.cards) out += card_row(c);
  return out + kRule + "\n" + client_table(report);
}

/// Of npu-smi.schema.json: the first number changes when programs that knew it would misunderstand, the second one when
/// there are more members.
constexpr char kSchemaVersion[] = "2.0";

Json client_json(const Client &c) {
  Json out = {
      {"pid", c.pid},   {"process", c.process},       {"arguments", c.arguments},       {"uid", c.uid},
      {"user", c.user}, {"card_bytes", c.card_bytes}, {"system_bytes", c.system_bytes}, {"submissions", c.submissions},
      {"jobs", c.jobs}, {"busy_ns", c.busy_ns},       {"modelled_ns", c.modelled_ns}};
  if (c.uid < 0) out["uid"] = nullptr;
  return out;
}

Json card_json(const Card &c) {
  if (!c.lost.empty()) return {{"card", c.index}, {"lost", c.lost}};
  Json out = Json::object(), clients = Json::array();
  for (const Value &v : values())
    if (v.member) out[v.member] = v.get(c);
  for (const Client &client : c.clients) clients.push_back(client_json(client));
  if (clients.empty() && c.hidden)
    out["processes"] = nullptr;
  else
    out["processes"] = std::move(clients);
  return out;
}

std::string json(const Report &report, const std::string &version) {
  Json cards = Json::array();
  for (const Card &c : report.cards) cards.push_back(card_json(c));
  // Names of processes can be any bytes.
  return Json{{"schema_version", kSchemaVersion},
              {"version", version},
              {"time", report.time},
              {"window_ms", report.window_ms},
              {"cards", std::move(cards)}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

// ---- details ----

std::string entry(int depth, const std::string &name, const std::string &value) {
  return std::string(static_cast<size_t>(4 * depth), ' ') + format("%-*s : ", 36 - 4 * depth, name.c_str()) + value +
         "\n";
}

std::string details_of_cores(const Card &c) {
  std::string out = "    Cores\n";
  for (size_t i = 0; i < c.core_util.size(); i++)
    out += entry(2, format("Core %zu", i),
                 is_coarse(c) ? format("%s %%, jobs and cycles need CAP_PERFMON", percent(c.core_util[i]).c_str())
                              : format("%s %%, %llu jobs, %llu modelled cycles", percent(c.core_util[i]).c_str(),
                                       ull(c.status.jobs[i]), ull(c.status.busy_cycles[i])));
  return out;
}

std::string details_of_clients(const Card &c) {
  std::string out = "    Processes\n";
  for (const Client &p : c.clients)
    out +=
        entry(2, format("PID %ld", p.pid),
              format("%s (user %s), card %s MiB, system %llu MiB, %llu submissions, %llu jobs, busy %.3f ms, modelled "
                     "%.3f ms",
                     harmless(p.process).c_str(), or_dash(harmless(p.user)), card_mib(c, p.card_bytes, 0).c_str(),
                     ull(mib(p.system_bytes)), ull(p.submissions), ull(p.jobs), static_cast<double>(p.busy_ns) / 1e6,
                     static_cast<double>(p.modelled_ns) / 1e6));
  if (const std::string hidden = hidden_text(c); !hidden.empty())
    out += entry(2, "Others", hidden);
  else if (c.clients.empty())
    out += entry(2, "None", "no process has it open");
  return out;
}

std::string details_of(const Card &c) {
  std::string out = name_of(c) + "\n";
  if (!c.lost.empty()) return out + entry(1, "Lost", c.lost);
  std::string_view section;
  for (const Value &v : values()) {
    if (!v.section) continue;
    if (v.section != section) out += "    " + std::string(v.section) + "\n";
    section = v.section;
    out += entry(section.empty() ? 1 : 2, v.label, in_words(v, c));
  }
  return out + details_of_cores(c) + details_of_clients(c);
}

std::string details(const Report &report, const std::string &) {
  std::string out;
  for (const Card &c : report.cards) out += details_of(c);
  return out;
}

// ---- streams ----

double per_second(uint64_t count, const Report &report) {
  return report.window_ms ? 1e3 * static_cast<double>(count) / report.window_ms : 0;
}

std::string dmon_head() {
  return "#  NPU  util  mem   temp  power  clock    fan  ecc   jobs\n"
         "#  idx     %    %      C      W    MHz    rpm  c+u    1/s\n";
}

std::string dmon(const Report &report, const std::string &) {
  std::string out;
  for (const Card &c : report.cards) {
    if (!c.lost.empty()) {
      out += format("%6u  lost: %s\n", c.index, c.lost.c_str());
      continue;
    }
    const uint64_t total = c.memory.card_total, used = total - c.memory.card_free;
    const std::string jobs = is_coarse(c) ? "-" : format("%.0f", per_second(c.window_jobs, report));
    out += format("%6u %5s %4s %6.1f %6.1f %6.0f %6u %4u %6s\n", c.index, percent(c.utilisation).c_str(),
                  percent(total ? static_cast<int>(100 * used / total) : -1).c_str(), c.status.temperature_mc / 1e3,
                  c.status.power_mw / 1e3, c.status.clock_khz / 1e3, c.status.fan_rpm,
                  c.status.ecc_corrected + c.status.ecc_uncorrected, jobs.c_str());
  }
  return out;
}

std::string pmon_head() {
  return "#  NPU      pid   card  system    jobs    busy   model  command\n"
         "#  idx        #    MiB     MiB     1/s    ms/s    ms/s  name\n";
}

std::string pmon(const Report &report, const std::string &) {
  std::string out;
  for (const Card &c : report.cards) {
    if (!c.lost.empty()) out += format("%6u  lost: %s\n", c.index, c.lost.c_str());
    const std::string hidden = hidden_text(c);
    if (c.lost.empty() && (c.clients.empty() || !hidden.empty()))
      out += format("%6u        -      -       -       -       -       -  %s\n", c.index, or_dash(hidden));
    for (const Client &p : c.clients)
      out += format("%6u %8ld %6s %7llu %7.0f %7.1f %7.1f  %s\n", c.index, p.pid, card_mib(c, p.card_bytes, 0).c_str(),
                    ull(mib(p.system_bytes)), per_second(p.window_jobs, report), per_second(p.window_ns, report) / 1e6,
                    per_second(p.window_modelled_ns, report) / 1e6, harmless(p.process).c_str());
  }
  return out;
}

// ---- list ----

std::string list(const Report &report, const std::string &) {
  std::string out;
  for (const Card &c : report.cards) {
    const std::string name = format("NPU %u: ", c.index);
    if (!c.lost.empty()) {
      out += name + "lost: " + c.lost + "\n";
      continue;
    }
    out += name + format("%s (bus %s, driver %s, %u core%s, %s)\n", c.chip.c_str(), or_dash(c.bus), c.driver.c_str(),
                         c.info.cores, c.info.cores == 1 ? "" : "s",
                         c.memory.card_total ? format("%llu MiB", ull(mib(c.memory.card_total))).c_str()
                                             : "no memory of its own");
  }
  return out;
}

}  // namespace

const std::vector<Format> &formats() {
  static const std::vector<Format> all = {
      {nullptr, "a table", table, nullptr},
      {"--json", "for programs", json, nullptr},
      {"-q", "everything, a line each", details, nullptr},
      {"-L", "the NPUs, a line each", list, nullptr},
      {"dmon", "a line an NPU, again and again", dmon, dmon_head},
      {"pmon", "a line a process, again and again", pmon, pmon_head},
      {"exporter", "Prometheus' text format, once, or served (--listen)", metrics, nullptr},
  };
  return all;
}

}  // namespace npu::smi
