// SPDX-License-Identifier: MIT
#include "compiler/api/schedule_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "compiler/schedule/accesses.h"

namespace npu::compiler {
namespace {

/// A command by its engine (core * 2 + engine) and its place in the stream.
struct At {
  size_t engine = 0, index = 0;
};

class CriticalPath {
 public:
  explicit CriticalPath(const Streams &streams) : streams_(streams) {
    for (size_t core = 0; core < streams.cores.size(); ++core)
      for (size_t i = 0; i < streams.cores[core].gdma.size(); ++i)
        if (const auto *signal = std::get_if<npu_cmd_sem_signal>(&streams.cores[core].gdma[i].body))
          signals_[{signal->sem, span({2 * core + NPU_ENGINE_GDMA, i}).end}] = {2 * core + NPU_ENGINE_GDMA, i};
  }

  std::vector<Critical> run() const {
    std::vector<Critical> path;
    for (std::optional<At> at = last(); at; at = before(*at))
      path.push_back({&command(*at), span(*at).end - span(*at).start});
    return path;
  }

 private:
  const std::vector<Command> &stream(size_t engine) const {
    const CoreStreams &core = streams_.cores[engine / 2];
    return engine % 2 == NPU_ENGINE_TIU ? core.tiu : core.gdma;
  }
  const Command &command(At at) const { return stream(at.engine)[at.index]; }
  const hw::Span &span(At at) const { return streams_.timeline.spans[at.engine][at.index]; }

  std::optional<At> last() const {
    std::optional<At> out;
    for (size_t e = 0; e < 2 * streams_.cores.size(); ++e) {
      if (stream(e).empty()) continue;
      const At at{e, stream(e).size() - 1};
      if (!out || span(at).end > span(*out).end) out = at;
    }
    return out;
  }

  /// The command whose end let this one begin; none for one that begins with the program.
  std::optional<At> before(At at) const {
    const uint64_t start = span(at).start;
    if (at.index > 0 && span({at.engine, at.index - 1}).end == start) return At{at.engine, at.index - 1};
    const uint32_t wait = command(at).wait();
    if (wait > 0 && span({at.engine ^ 1, wait - 1}).end == start) return At{at.engine ^ 1, wait - 1};
    const auto *semaphore = std::get_if<npu_cmd_sem_wait>(&command(at).body);
    const auto signal = semaphore ? signals_.find({semaphore->sem, start}) : signals_.end();
    if (signal != signals_.end()) return signal->second;
    return std::nullopt;
  }

  const Streams &streams_;
  std::map<std::pair<uint32_t, uint64_t>, At> signals_;  ///< by semaphore and end
};

/// Cycles in which at least one of these is at work.
uint64_t covered(std::vector<hw::Span> &spans) {
  std::sort(spans.begin(), spans.end(), [](const auto &a, const auto &b) { return a.start < b.start; });
  uint64_t cycles = 0, to = 0;
  for (const hw::Span &s : spans) {
    if (s.end > to) cycles += s.end - std::max(s.start, to);
    to = std::max(to, s.end);
  }
  return cycles;
}

/// What a program holds in memory, and when its commands touch it.
class MemoryMap {
 public:
  MemoryMap(const Program &program, std::span<const size_t> layer_of, Report &report)
      : program_(program), layer_of_(layer_of), from_(report.cycles), out_(report.memory) {}

  void add() {
    for (size_t core = 0; core < program_.streams.cores.size(); ++core) {
      list_commands(core);
      add_local(core);
      add_storages(core);
      add_coefficients(core);
    }
  }

 private:
  struct Timed {
    const Command *command = nullptr;
    hw::Span span;
  };

  /// When a piece of memory is touched first and last.
  struct Use {
    uint64_t from = UINT64_MAX, to = 0;
    void add(const hw::Span &span) {
      from = std::min(from, span.start);
      to = std::max(to, span.end);
    }
  };

  void list_commands(size_t core) {
    commands_.clear();
    for (size_t e = 2 * core; e < 2 * core + 2; ++e) {
      const CoreStreams &streams = program_.streams.cores[core];
      const std::vector<Command> &stream = e % 2 == NPU_ENGINE_TIU ? streams.tiu : streams.gdma;
      for (size_t i = 0; i < stream.size(); ++i)
        if (stream[i].place != Command::kNoPlace)
          commands_.push_back({&stream[i], program_.streams.timeline.spans[e][i]});
    }
    std::sort(commands_.begin(), commands_.end(),
              [](const Timed &a, const Timed &b) { return a.command->place < b.command->place; });
  }

  HeldReport held(const Use &use, uint64_t address, uint64_t bytes, size_t layer, size_t core) const {
    HeldReport h;
    h.core = core;
    h.address = address;
    h.bytes = bytes;
    h.from = from_ + use.from;
    h.to = from_ + use.to;
    h.layer = layer_of_[layer];
    return h;
  }

  /// Holds by address: those that are alive at once are apart, or a result has the place of its operand.
  using Alive = std::multimap<int64_t, size_t>;

  /// Local memory: what codegen has had in a place while commands ran, from their first to their last access.
  void add_local(size_t core) {
    const std::vector<Hold> &holds = program_.holds[core];
    std::vector<size_t> by_start(holds.size());
    for (size_t i = 0; i < holds.size(); ++i) by_start[i] = i;
    std::stable_sort(by_start.begin(), by_start.end(),
                     [&](size_t a, size_t b) { return holds[a].first < holds[b].first; });
    std::vector<Use> uses(holds.size());
    Alive alive;
    std::multimap<size_t, Alive::iterator> ends;
    size_t next = 0;
    for (const Timed &t : commands_) {
      for (; !ends.empty() && ends.begin()->first <= t.command->place; ends.erase(ends.begin()))
        alive.erase(ends.begin()->second);
      for (; next < by_start.size() && holds[by_start[next]].first <= t.command->place; ++next) {
        const Hold &h = holds[by_start[next]];
        if (h.end > t.command->place) ends.emplace(h.end, alive.emplace(h.addr, by_start[next]));
      }
      for (const Access &a : accesses_of(*t.command))
        if (a.region == NPU_REGION_LOCAL) touch(a, t.span, holds, alive, uses);
    }
    for (size_t i = 0; i < holds.size(); ++i) {
      if (uses[i].to == 0) continue;
      HeldReport h = held(uses[i], static_cast<uint64_t>(holds[i].addr), static_cast<uint64_t>(holds[i].bytes),
                          holds[i].layer, core);
      h.kind = holds[i].storage == Hold::kWeights      ? "weights"
               : holds[i].storage == Hold::kTileBuffer ? "tile buffer"
                                                       : "tensor";
      if (holds[i].storage >= 0)
        h.name = program_.lowered.cores[core].storages[static_cast<size_t>(holds[i].storage)].name;
      out_.local.push_back(std::move(h));
    }
  }

  static void touch(const Access &a, const hw::Span &span, const std::vector<Hold> &holds, const Alive &alive,
                    std::vector<Use> &uses) {
    auto it = alive.upper_bound(a.low);
    if (it != alive.begin()) it = alive.lower_bound(std::prev(it)->first);
    for (; it != alive.end() && it->first < a.high; ++it)
      if (const Hold &h = holds[it->second]; h.addr + h.bytes > a.low) uses[it->second].add(span);
  }

  /// Activation memory, inputs and outputs: tensors, from the first transfer to the last.
  void add_storages(size_t core) {
    const std::vector<Storage> &storages = program_.lowered.cores[core].storages;
    std::vector<Use> uses(storages.size());
    std::vector<uint32_t> layers(storages.size(), 0);
    for (const Timed &t : commands_)
      for (int s : {t.command->dst_storage, t.command->src_storage}) {
        if (s < 0 || static_cast<size_t>(s) >= storages.size()) continue;
        if (uses[static_cast<size_t>(s)].to == 0) layers[static_cast<size_t>(s)] = t.command->layer();
        uses[static_cast<size_t>(s)].add(t.span);
      }
    for (size_t s = 0; s < storages.size(); ++s) {
      const Storage &st = storages[s];
      if (uses[s].to == 0 || st.kind == StorageKind::Const) continue;
      const bool outside = st.kind == StorageKind::Input || st.kind == StorageKind::Output;
      const uint64_t at = outside ? 0 : static_cast<uint64_t>(program_.bound.offsets[core][s]);
      HeldReport h = held(uses[s], at, static_cast<uint64_t>(st.bytes()), layers[s], core);
      h.kind = st.kind == StorageKind::Input      ? "input"
               : st.kind == StorageKind::Output   ? "output"
               : st.kind == StorageKind::Exchange ? "exchange"
                                                  : "tensor";
      h.name = st.name;
      (outside ? out_.outside : out_.activations).push_back(std::move(h));
    }
  }

  /// Coefficients: for each layer all that it reads of them, as one piece.
  void add_coefficients(size_t core) {
    struct Piece {
      Use use;
      int64_t low = INT64_MAX, high = 0;
    };
    std::map<uint32_t, Piece> pieces;
    for (const Timed &t : commands_)
      for (const Access &a : accesses_of(*t.command)) {
        if (a.region == NPU_REGION_LOCAL || program_.bound.regions[a.region].kind != StorageKind::Const) continue;
        Piece &p = pieces[t.command->layer()];
        p.use.add(t.span);
        p.low = std::min(p.low, a.low);
        p.high = std::max(p.high, a.high);
      }
    for (const auto &[layer, p] : pieces) {
      HeldReport h = held(p.use, static_cast<uint64_t>(p.low), static_cast<uint64_t>(p.high - p.low), layer, core);
      h.kind = "coefficients";
      out_.coefficients.push_back(std::move(h));
    }
  }

  const Program &program_;
  const std::span<const size_t> layer_of_;
  const uint64_t from_;
  MemoryReport &out_;
  std::vector<Timed> commands_;  ///< of a core, in the order of its sequential program
};

}  // namespace

std::vector<Critical> critical_path(const Streams &streams) { return CriticalPath(streams).run(); }

Spent spent_by(const Command &command, uint64_t cycles) {
  const hw::CostParams chip;
  const hw::Cost cost = cost_of(command);
  Spent out;
  if (command.gdma()) {
    out.latency = cost.flow_bytes || command.is_signal() || command.is_wait() ? cost.cycles : chip.gdma_fixed;
    (cost.flow_bytes ? out.memory : out.local_memory) = cycles - out.latency;
    return out;
  }
  hw::CostParams other = chip;
  other.lmem_bw = std::numeric_limits<uint32_t>::max();
  const uint64_t without_local = cost_of(command, other).cycles;
  out.latency = chip.tiu_fixed;
  out.compute = without_local - chip.tiu_fixed;
  out.local_memory = cost.cycles - without_local;
  out.memory = cycles - cost.cycles;
  return out;
}

void report_schedule(const Program &program, std::span<const size_t> layer_of, bool maps, Report &r) {
  const Streams &s = program.streams;
  std::map<size_t, std::vector<hw::Span>> spans;
  std::map<size_t, std::array<uint64_t, 2>> busy;
  for (size_t e = 0; e < 2 * s.cores.size(); ++e) {
    const std::vector<Command> &stream = e % 2 == NPU_ENGINE_TIU ? s.cores[e / 2].tiu : s.cores[e / 2].gdma;
    for (size_t i = 0; i < stream.size(); ++i) {
      const size_t layer = layer_of[stream[i].layer()];
      const hw::Cost cost = cost_of(stream[i]);
      const hw::Span span = s.timeline.spans[e][i];
      spans[layer].push_back(span);
      busy[layer][e % 2] += span.end - span.start;
      LayerReport &l = r.layers[layer];
      l.macs += cost.macs;
      l.mac_rate = std::max(l.mac_rate, mac_rate(stream[i]));
      l.bytes += cost.flow_bytes;
      ++l.commands;
      (e % 2 == NPU_ENGINE_TIU ? r.tiu_busy : r.gdma_busy) += span.end - span.start;
    }
    (e % 2 == NPU_ENGINE_TIU ? r.tiu_commands : r.gdma_commands) += stream.size();
  }
  for (auto &[layer, list] : spans) {
    LayerReport &l = r.layers[layer];
    const auto &[tiu, gdma] = busy[layer];
    l.active += covered(list);
    l.tiu_busy += tiu;
    l.gdma_busy += gdma;
    l.on_tiu = l.on_tiu || tiu;
    l.on_gdma = l.on_gdma || gdma;
  }
  for (const Critical &c : critical_path(s)) {
    LayerReport &l = r.layers[layer_of[c.command->layer()]];
    l.cycles += c.cycles;
    l.spent.add(spent_by(*c.command, c.cycles));
  }
  if (maps) MemoryMap(program, layer_of, r).add();
  r.cycles += s.timeline.cycles;
}

}  // namespace npu::compiler
