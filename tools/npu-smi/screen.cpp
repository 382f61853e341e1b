// SPDX-License-Identifier: MIT
// The live view: cards with bars, and processes, those that do most first.
#include <algorithm>

#include "tools/npu-smi/report.h"

namespace npu::smi {
namespace {

constexpr size_t kBarWidth = 24;

/// "[########      ]"
std::string bar(uint64_t part, uint64_t whole, size_t width) {
  const size_t full = whole ? static_cast<size_t>(std::min(part, whole) * width / whole) : 0;
  return "[" + std::string(full, '#') + std::string(width - full, ' ') + "]";
}

void add_card(const Card &c, std::vector<std::string> &lines) {
  if (!c.lost.empty()) {
    lines.push_back(format("card %u lost: ", c.index) + c.lost);
    return;
  }
  const uint64_t used = c.memory.card_total - c.memory.card_free;
  lines.push_back(format("card %u  %s  %s  %s  %.0f MHz  %.1f C  %.1f W  fan %u rpm", c.index, c.chip.c_str(),
                         c.bus.empty() ? "-" : c.bus.c_str(), c.driver.c_str(), c.status.clock_khz / 1e3,
                         c.status.temperature_mc / 1e3, c.status.power_mw / 1e3, c.status.fan_rpm));
  for (size_t i = 0; i < c.core_util.size(); i++)
    lines.push_back(format("  core %zu  %s %3u %%", i, bar(c.core_util[i], 100, kBarWidth).c_str(), c.core_util[i]));
  if (c.memory.card_total)
    lines.push_back(format("  memory  %s %llu of %llu MiB", bar(used, c.memory.card_total, kBarWidth).c_str(),
                           static_cast<unsigned long long>(mib(used)),
                           static_cast<unsigned long long>(mib(c.memory.card_total))));
  else
    lines.push_back(format("  memory  %llu MiB of the system", static_cast<unsigned long long>(mib(system_bytes(c)))));
  lines.push_back(format("  errors  memory %u corrected, %u not; jobs aborted %u; resets %u of cores, %u of the card",
                         c.status.ecc_corrected, c.status.ecc_uncorrected, c.status.aborted_jobs, c.status.core_resets,
                         c.status.resets));
  if (c.watch.flags & DRM_NPU_WATCH_PRESENT)
    lines.push_back(format("  cache lines  not cleaned %u, not invalidated %u, cleaned too late %u, thrown away %u",
                           c.watch.uncleaned, c.watch.stale, c.watch.overwritten, c.watch.discarded));
}

struct Row {
  unsigned int card;
  const Client *client;
};

void add_clients(const Report &report, std::vector<std::string> &lines) {
  std::vector<Row> rows;
  for (const Card &card : report.cards)
    for (const Client &client : card.clients) rows.push_back({card.index, &client});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row &a, const Row &b) { return a.client->window_ns > b.client->window_ns; });
  lines.push_back(
      format("%4s %8s %10s %10s %8s %10s  %s", "card", "PID", "card MiB", "system MiB", "jobs/s", "engine", "process"));
  const double seconds = std::max(report.window_ms, 1u) / 1e3;
  for (const Row &r : rows)
    lines.push_back(format("%4u %8ld %10llu %10llu %8.0f %8.1f %%  %s", r.card, r.client->pid,
                           static_cast<unsigned long long>(mib(r.client->card_bytes)),
                           static_cast<unsigned long long>(mib(r.client->system_bytes)),
                           static_cast<double>(r.client->window_jobs) / seconds,
                           static_cast<double>(r.client->window_ns) / 1e7 / seconds, r.client->process.c_str()));
  if (rows.empty()) lines.push_back("     no process has a card open");
}

}  // namespace

std::vector<std::string> screen(const Report &report, const std::string &title, size_t rows, size_t columns) {
  std::vector<std::string> lines = {title, ""};
  for (const Card &card : report.cards) {
    add_card(card, lines);
    lines.push_back("");
  }
  add_clients(report, lines);
  if (lines.size() > rows && rows > 0) {
    const size_t hidden = lines.size() - rows + 1;
    lines.resize(rows - 1);
    lines.push_back(format("... %zu more lines", hidden));
  }
  for (std::string &line : lines) {
    for (char &c : line)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';  // names of processes can have anything in them
    if (line.size() > columns) line.resize(columns);
  }
  return lines;
}

}  // namespace npu::smi
