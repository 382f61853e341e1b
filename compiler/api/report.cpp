// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "compiler/api/npuc.h"

namespace npu::compiler {
namespace {

/// printf into a string.
template <class... T>
std::string print(const char *format, T... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

/// A name cut to a width, so that a table stays a table.
std::string fitted(const std::string &name, size_t width) {
  std::string out = name.size() <= width ? name : ".." + name.substr(name.size() - width + 2);
  for (char &c : out)
    if (static_cast<unsigned char>(c) < 32) c = '?';
  return out + std::string(width - out.size(), ' ');
}

std::string size_text(uint64_t bytes) {
  if (bytes < 10240) return print("%" PRIu64 " B", bytes);
  if (bytes < (10u << 20)) return print("%.1f KiB", static_cast<double>(bytes) / 1024);
  return print("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

double percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Which nodes take turns, and what that saves.
std::string turns_text(const TurnsReport &turns) {
  std::string out;
  for (const RunReport &r : turns.runs) {
    out += print("turns          %" PRId64 " along dimension %d, ", r.count, r.axis);
    if (r.repeats > 1) out += print("%" PRId64 " times, ", r.repeats);
    out += r.first + " to " + r.last + "\n";
  }
  if (!turns.runs.empty())
    out += print("               cycles %" PRIu64 " -> %" PRIu64 ", results through memory ", turns.plain_cycles,
                 turns.cycles) +
           size_text(turns.plain_bytes) + " -> " + size_text(turns.bytes) + "\n";
  return out;
}

/// What a search has found, or a file knew.
std::string search_text(const SearchReport &s) {
  if (s.tried == 0)
    return s.recorded ? print("search         schedules from the file: %" PRIu64 " of %" PRIu64 " programs\n",
                              s.recorded, s.programs)
                      : "";
  const auto before = static_cast<double>(s.plain_cycles), after = static_cast<double>(s.cycles);
  return print("search         %" PRIu64 " schedules tried in %.0f s, cycles %" PRIu64 " -> %" PRIu64 " (%+.1f %%)\n",
               s.tried, s.seconds, s.plain_cycles, s.cycles, 100 * (after - before) / std::max(before, 1.0));
}

}  // namespace

void Spent::add(const Spent &other) {
  compute += other.compute;
  local_memory += other.local_memory;
  memory += other.memory;
  latency += other.latency;
}

std::string Spent::most() const {
  const std::pair<uint64_t, const char *> all[] = {
      {compute, "compute"}, {local_memory, "local memory"}, {memory, "memory"}, {latency, "latency"}};
  const auto *const most =
      std::max_element(std::begin(all), std::end(all), [](const auto &a, const auto &b) { return a.first < b.first; });
  return most->first ? most->second : "";
}

std::string LayerReport::bound() const {
  if (commands == 0) return "";
  return cycles ? spent.most() : "hidden";
}

std::vector<size_t> Report::costliest(size_t most) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].cycles) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return layers[a].cycles > layers[b].cycles; });
  if (out.size() > most) out.resize(most);
  return out;
}

namespace {

/// The row of a node: cycles and active cycles as in the other forms of the report.
std::string row_text(const LayerReport &l) {
  std::string out = fitted(l.name, 32) + " " + fitted(l.type, 20) + " " + fitted(l.where, 24);
  if (l.commands) {
    out += print(" %8" PRId64 " %6" PRId64 " %11s %10" PRIu64 " %10" PRIu64 " %12" PRIu64, l.commands, l.tiles,
                 size_text(static_cast<uint64_t>(l.lmem_bytes)).c_str(), l.cycles, l.active, l.macs);
  } else {
    while (out.back() == ' ') out.pop_back();
  }
  return out + "\n";
}

std::string cycles_text(const Report &r) {
  if (!r.uses_chip()) return "cycles         none: the CPU computes the whole network, and its time is not modelled\n";
  std::string out = print("cycles         %" PRIu64 " (TIU at work %.0f %%, GDMA %.0f %%)\n", r.cycles,
                          percent(r.tiu_busy, r.cycles * r.cores), percent(r.gdma_busy, r.cycles * r.cores));
  out += print("lower bound    %" PRIu64 " (arithmetic %" PRIu64 ", memory %" PRIu64, r.bound(), r.mac_bound,
               r.memory_bound);
  if (r.order_bound) out += print(", weights in the operators' order %" PRIu64, r.order_bound);
  return out + print("): no program takes fewer cycles; it is %.0f %% of these\n", percent(r.bound(), r.cycles));
}

}  // namespace

std::string Report::text() const {
  std::string out;
  out += fitted("node", 32) + " " + fitted("operator", 20) + " " + fitted("runs on", 24) +
         print(" %8s %6s %11s %10s %10s %12s\n", "commands", "tiles", "local mem", "cycles", "active", "MACs");
  for (const LayerReport &l : layers) out += row_text(l);
  out += print("local memory   %s of %s\n", size_text(static_cast<uint64_t>(lmem_used)).c_str(),
               size_text(static_cast<uint64_t>(lmem_bytes)).c_str());
  out += print("memory         %s for a launch: ", size_text(launch_bytes()).c_str()) +
         print("coefficients %s, inputs and outputs %s, activations %s, ", size_text(coeff_bytes).c_str(),
               size_text(io_bytes).c_str(), size_text(ctx_bytes).c_str());
  if (between_bytes) out += print("tensors between parts %s, ", size_text(between_bytes).c_str());
  out += print("commands %s\n", size_text(code_bytes).c_str());
  out += print("commands       TIU %" PRIu64 ", GDMA %" PRIu64 "\n", tiu_commands, gdma_commands);
  if (host_parts)
    out += print("CPU            operators %" PRIu64 ", parts %" PRIu64 "; their time is not modelled\n", host_nodes,
                 host_parts);
  if (cores > 1) out += print("cores          %zu\n", cores);
  out += cycles_text(*this);
  out += turns_text(turns);
  out += search_text(search);
  for (const std::string &note : notes) out += note + "\n";
  return out;
}

}  // namespace npu::compiler
