// SPDX-License-Identifier: MIT
#include "compiler/schedule/check_sync.h"

#include <algorithm>
#include <array>
#include <map>

#include "compiler/schedule/accesses.h"
#include "compiler/schedule/schedule.h"

namespace npu::compiler {
namespace {

constexpr const char *kEngines[] = {"TIU", "GDMA"};
constexpr size_t kMaxEngines = size_t{2} * NPU_MAX_CORES;

/// Of each engine, numbered core * 2 + NPU_ENGINE_, how many commands have certainly retired.
using Clock = std::array<uint32_t, kMaxEngines>;

void join(Clock &a, const Clock &b) {
  for (size_t e = 0; e < a.size(); ++e) a[e] = std::max(a[e], b[e]);
}

/// A command of an engine.
struct CommandPlace {
  size_t engine = 0, index = 0;
};

struct Stream {
  std::vector<Command> commands;
  std::vector<Clock> clocks;  ///< when each command begins
};

/// The last command of each engine (numbered from 1) that read and that wrote a byte. Since an engine retires its
/// commands in order, whatever is ordered after that one is ordered after all of them.
struct Touched {
  Clock read{}, write{};
};

class SyncSpace {
 public:
  /// Calls f(touched, low) for every part of the range, which it may change.
  template <class F>
  void visit(int64_t low, int64_t high, F f) {
    cut(low);
    cut(high);
    for (auto it = parts_.lower_bound(low); it != parts_.end() && it->first < high; ++it) f(it->second, it->first);
  }

 private:
  void cut(int64_t at) {
    auto it = parts_.upper_bound(at);
    if (it != parts_.begin() && std::prev(it)->first == at) return;
    const Touched before = it == parts_.begin() ? Touched{} : std::prev(it)->second;
    parts_.emplace_hint(it, at, before);
  }
  std::map<int64_t, Touched> parts_;
};

class SyncChecker {
 public:
  SyncChecker(size_t cores, std::span<const uint8_t> exact) : streams_(cores * 2), spaces_(256 + cores) {
    for (uint8_t region : exact) exact_[region] = true;
  }

  Status run(std::span<const EncodedCore> cores) {
    for (size_t c = 0; c < cores.size(); ++c) {
      NPU_TRY(decode_stream(cores[c].tiu, c * 2 + NPU_ENGINE_TIU));
      NPU_TRY(decode_stream(cores[c].gdma, c * 2 + NPU_ENGINE_GDMA));
    }
    NPU_TRY(find_signals());
    find_written();
    std::vector<CommandPlace> order;
    NPU_TRY(find_order(order));
    for (const CommandPlace &p : order) {
      set_clock(p);
      NPU_TRY(check(p));
    }
    return {};
  }

 private:
  std::string name(size_t engine) const {
    const std::string core = streams_.size() > 2 ? "core " + std::to_string(engine / 2) + "'s " : "";
    return core + kEngines[engine % 2];
  }

  const Command &command(const CommandPlace &p) const { return streams_[p.engine].commands[p.index]; }

  Status decode_stream(std::span<const uint8_t> bytes, size_t engine) {
    Stream &s = streams_[engine];
    for (size_t at = 0; at < bytes.size(); at += NPU_CMD_BYTES) {
      CommandBytes encoded;
      std::copy_n(bytes.data() + at, encoded.size(), encoded.begin());
      const auto body = decode(encoded);
      if (!body)
        return Status::error(name(engine) + " command " + std::to_string(at / NPU_CMD_BYTES) + " has opcode " +
                             std::to_string(encoded[0]) + ", which is none of the compiler's");
      s.commands.push_back({*body});
    }
    s.clocks.resize(s.commands.size());
    return {};
  }

  /// The command with which each semaphore reaches each value.
  Status find_signals() {
    for (size_t e = 0; e < streams_.size(); ++e)
      for (size_t i = 0; i < streams_[e].commands.size(); ++i) {
        const auto *signal = std::get_if<npu_cmd_sem_signal>(&streams_[e].commands[i].body);
        if (!signal) continue;
        auto &reached = signals_[signal->sem];
        if (!reached.empty() && reached.begin()->second.engine != e)
          return Status::error("semaphore " + std::to_string(signal->sem) + " is signalled by " + name(e) + " and by " +
                               name(reached.begin()->second.engine));
        const uint64_t before = reached.empty() ? 0 : reached.rbegin()->first;
        reached[before + signal->value] = {e, i};
      }
    return {};
  }

  void find_written() {
    for (const Stream &s : streams_)
      for (const Command &c : s.commands)
        for (const Access &a : accesses_of(c)) written_[a.region] = written_[a.region] || a.write;
  }

  /// What a command touches. What nobody writes is left out.
  std::vector<Access> accesses_to_check(const Command &c) const {
    std::vector<Access> list;
    for (const Access &a : accesses_of(c)) {
      if (!written_[a.region]) continue;
      if (!exact_[a.region]) {
        list.push_back(a);
        continue;
      }
      const std::vector<Access> runs = runs_of(c, a.region);
      list.insert(list.end(), runs.begin(), runs.end());
    }
    return list;
  }

  /// One order in which the commands may begin; whatever two commands nothing orders can also begin the other way
  /// round.
  Status find_order(std::vector<CommandPlace> &order) {
    std::vector<CoreStreams> cores(streams_.size() / 2);
    for (size_t c = 0; c < cores.size(); ++c)
      cores[c] = {streams_[c * 2 + NPU_ENGINE_TIU].commands, streams_[c * 2 + NPU_ENGINE_GDMA].commands};
    const hw::Timeline timeline = hw::simulate(timed(cores), {});
    if (timeline.deadlock) return Status::error("the engines wait for each other for ever");
    for (size_t e = 0; e < streams_.size(); ++e)
      for (size_t i = 0; i < streams_[e].commands.size(); ++i) order.push_back({e, i});
    std::sort(order.begin(), order.end(), [&](const CommandPlace &a, const CommandPlace &b) {
      const auto key = [&](const CommandPlace &p) {
        return std::array<uint64_t, 3>{timeline.spans[p.engine][p.index].start, p.engine, p.index};
      };
      return key(a) < key(b);
    });
    return {};
  }

  /// Everything that has certainly retired when a command has.
  void join_command(Clock &clock, const CommandPlace &p) const {
    join(clock, streams_[p.engine].clocks[p.index]);
    clock[p.engine] = std::max(clock[p.engine], static_cast<uint32_t>(p.index) + 1);
  }

  void set_clock(const CommandPlace &p) {
    Clock &clock = streams_[p.engine].clocks[p.index];
    if (p.index > 0) join_command(clock, {p.engine, p.index - 1});
    if (const uint32_t wait = command(p).wait()) join_command(clock, {p.engine ^ 1, wait - size_t{1}});
    if (const auto *wait = std::get_if<npu_cmd_sem_wait>(&command(p).body))
      join_command(clock, signals_[wait->sem].lower_bound(wait->value)->second);
  }

  SyncSpace &space(size_t engine, const Access &a) {
    return spaces_[a.region == NPU_REGION_LOCAL ? 256 + engine / 2 : a.region];
  }

  Status check(const CommandPlace &p) {
    const Clock &clock = streams_[p.engine].clocks[p.index];
    const std::vector<Access> list = accesses_to_check(command(p));
    std::string problem;
    for (const Access &a : list)
      space(p.engine, a).visit(a.low, a.high, [&](Touched &t, int64_t at) {
        for (size_t other = 0; other < streams_.size() && problem.empty(); ++other) {
          const uint32_t conflict = std::max(t.write[other], a.write ? t.read[other] : 0);
          if (other != p.engine && conflict > clock[other])
            problem = name(p.engine) + " command " + std::to_string(p.index) + (a.write ? " writes " : " reads ") +
                      where(a, at) + ", which " + name(other) + " command " + std::to_string(conflict - 1) +
                      " touches, and no wait orders the two";
        }
      });
    if (!problem.empty()) return Status::error(problem);
    for (const Access &a : list)
      space(p.engine, a).visit(a.low, a.high, [&](Touched &t, int64_t) {
        (a.write ? t.write : t.read)[p.engine] = static_cast<uint32_t>(p.index) + 1;
      });
    return {};
  }

  static std::string where(const Access &a, int64_t at) {
    const std::string memory = a.region == NPU_REGION_LOCAL ? "local memory" : "region " + std::to_string(a.region);
    return memory + " at byte " + std::to_string(at);
  }

  std::vector<Stream> streams_;
  std::vector<SyncSpace> spaces_;  ///< first those of the regions, then those of the local memories
  std::array<bool, 256> written_{}, exact_{};
  std::map<uint32_t, std::map<uint64_t, CommandPlace>> signals_;
};

}  // namespace

Status check_sync(std::span<const EncodedCore> cores, std::span<const uint8_t> exact) {
  return SyncChecker(cores.size(), exact).run(cores);
}

}  // namespace npu::compiler
