// SPDX-License-Identifier: MIT
#include "compiler/schedule/schedule.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/hazards.h"

namespace npu::compiler {
namespace {

constexpr size_t kWindow = 64;  ///< GDMA commands that are looked at for the next place in the stream

bool is_store(const Command &c) { return c.dst_storage >= 0; }

/// The GDMA commands of each core in order.
using Orders = std::vector<std::vector<uint32_t>>;

/// Chooses the order of the GDMA streams by playing the program through: of the commands whose predecessors are placed,
/// the one that can begin first; among equals loads, which the TIU waits for, before stores. Weights that come ahead of
/// their time keep their own order and step back behind what the TIU waits for earlier.
class ListScheduler {
 public:
  ListScheduler(const std::vector<Command> &program, const std::vector<std::vector<uint32_t>> &after, size_t cores)
      : program_(program),
        after_(after),
        cores_(cores),
        end_(program.size()),
        placed_(program.size()),
        ready_(program.size()) {
    bool any_ahead = false;
    for (uint32_t i = 0; i < program.size(); ++i) {
      Core &core = cores_[program[i].core];
      (program[i].ahead ? core.ahead : program[i].gdma() ? core.others : core.tiu).push_back(i);
      any_ahead = any_ahead || program[i].ahead;
    }
    if (any_ahead) find_needs();
  }

  Orders run() {
    Orders orders(cores_.size());
    for (Core &core : cores_) look(core);
    while (true) {
      size_t first = 0;
      for (size_t c = 1; c < cores_.size(); ++c)
        if (cores_[c].next.start < cores_[first].next.start) first = c;
      Core &core = cores_[first];
      if (core.next.start == kNever) return orders;
      const uint32_t c = core.next.command;
      if (program_[c].ahead)
        ++core.next_ahead;
      else
        std::erase(core.waiting, c);
      place(c, core.gdma_free);
      orders[first].push_back(c);
      look(core);
      if (program_[c].is_signal())
        for (Core &other : cores_) look(other);
    }
  }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  struct Next {
    uint32_t command = 0;
    uint64_t start = kNever;
  };

  struct Core {
    std::vector<uint32_t> tiu, ahead, others;
    std::vector<uint32_t> waiting;  ///< the first of the others that are not placed
    size_t next_tiu = 0, next_ahead = 0, next_other = 0;
    uint64_t tiu_free = 0, gdma_free = 0;
    Next next;  ///< the next command of the GDMA
  };

  /// Whether all predecessors of a command are placed, and when the last of them ends.
  bool ready(uint32_t c, uint64_t &at) {
    Ready &r = ready_[c];
    for (; r.known < after_[c].size(); ++r.known) {
      const uint32_t p = after_[c][r.known];
      if (!placed_[p]) return false;
      r.at = std::max(r.at, end_[p]);
    }
    at = r.at;
    return true;
  }

  void place(uint32_t c, uint64_t &engine_free) {
    uint64_t at = 0;
    ready(c, at);
    end_[c] = engine_free = std::max(at, engine_free) + duration_of(program_[c]);
    placed_[c] = true;
  }

  /// Moves a core on to the next choice of its GDMA: kNever if it has no command, or waits for another core.
  void look(Core &core) {
    uint64_t at;
    while (core.next_tiu < core.tiu.size() && ready(core.tiu[core.next_tiu], at))
      place(core.tiu[core.next_tiu++], core.tiu_free);
    while (core.waiting.size() < kWindow && core.next_other < core.others.size())
      core.waiting.push_back(core.others[core.next_other++]);
    core.next = choose(core);
    if (goes_ahead(core, core.next, at)) core.next = {core.ahead[core.next_ahead], at};
  }

  /// The first command of the TIU that each command of its core is in the way of.
  void find_needs() {
    need_.assign(program_.size(), UINT32_MAX);
    for (uint32_t i = static_cast<uint32_t>(program_.size()); i-- > 0;)
      for (uint32_t p : after_[i])
        if (program_[p].core == program_[i].core) need_[p] = std::min(need_[p], program_[i].gdma() ? need_[i] : i);
  }

  /// Whether the next weights are brought now, beginning at `at`, and not `other`.
  bool goes_ahead(const Core &core, const Next &other, uint64_t &at) {
    if (core.next_ahead == core.ahead.size() || !ready(core.ahead[core.next_ahead], at)) return false;
    at = std::max(at, core.gdma_free);
    const uint32_t c = core.ahead[core.next_ahead];
    if (other.start == kNever || need_[c] < need_[other.command]) return at <= other.start;
    // What is needed earlier is delayed by no more than the memory would stand idle otherwise.
    const uint64_t end = at + duration_of(program_[c]);
    return end <= other.start || (at < other.start && other.start - at >= end - other.start);
  }

  Next choose(const Core &core) {
    Next best;
    for (uint32_t c : core.waiting) {
      uint64_t at;
      if (!ready(c, at)) continue;
      const uint64_t start = std::max(at, core.gdma_free);
      if (start < best.start || (start == best.start && is_store(program_[best.command]) && !is_store(program_[c])))
        best = {c, start};
    }
    return best;
  }

  /// What is known of a command's predecessors: so many are placed, and the last of them ends then.
  struct Ready {
    size_t known = 0;
    uint64_t at = 0;
  };

  const std::vector<Command> &program_;
  const std::vector<std::vector<uint32_t>> &after_;
  std::vector<Core> cores_;
  std::vector<uint64_t> end_;
  std::vector<bool> placed_;
  std::vector<Ready> ready_;
  std::vector<uint32_t> need_;
};

/// Gives the semaphore commands of all streams their numbers: each core counts what it has written.
void number_semaphores(std::vector<CoreStreams> &cores) {
  std::map<std::pair<int, size_t>, uint32_t> count;  // exchange, core -> its place among the core's SEM_SIGNALs
  for (size_t core = 0; core < cores.size(); ++core) {
    uint32_t signals = 0;
    for (Command &c : cores[core].gdma)
      if (auto *signal = std::get_if<npu_cmd_sem_signal>(&c.body)) {
        signal->sem = static_cast<uint32_t>(core);
        signal->value = 1;
        count[{c.meeting.exchange, core}] = ++signals;
      }
  }
  for (CoreStreams &core : cores)
    for (Command &c : core.gdma)
      if (auto *wait = std::get_if<npu_cmd_sem_wait>(&c.body)) {
        wait->sem = static_cast<uint32_t>(c.meeting.from);
        wait->value = count.at({c.meeting.exchange, static_cast<size_t>(c.meeting.from)});
      }
}

/// Streams with waits for given orders of the GDMA commands.
Streams assemble(const std::vector<Command> &program, const std::vector<std::vector<uint32_t>> &after,
                 const Orders &gdma) {
  std::vector<uint32_t> ids(program.size());
  Streams s;
  s.cores.resize(gdma.size());
  std::vector<uint32_t> tiu(gdma.size());
  for (uint32_t i = 0; i < program.size(); ++i)
    if (!program[i].gdma()) ids[i] = ++tiu[program[i].core];
  for (const std::vector<uint32_t> &order : gdma)
    for (uint32_t k = 0; k < order.size(); ++k) ids[order[k]] = k + 1;
  const auto with_wait = [&](uint32_t i) {
    Command c = program[i];
    uint32_t wait = 0;
    for (uint32_t p : after[i])
      if (program[p].core == c.core && program[p].gdma() != c.gdma()) wait = std::max(wait, ids[p]);
    c.set_wait(wait);
    return c;
  };
  for (uint32_t i = 0; i < program.size(); ++i)
    if (!program[i].gdma()) s.cores[program[i].core].tiu.push_back(with_wait(i));
  for (size_t core = 0; core < gdma.size(); ++core)
    for (uint32_t i : gdma[core]) s.cores[core].gdma.push_back(with_wait(i));
  number_semaphores(s.cores);
  s.timeline = hw::simulate(timed(s.cores), {});
  return s;
}

hw::TimedCommand timed(const Command &c) {
  hw::TimedCommand out{cost_of(c), c.wait()};
  std::visit(
      [&](const auto &body) {
        if constexpr (kIsSemaphore<std::decay_t<decltype(body)>>) {
          out.opcode = body.opcode;
          out.sem = body.sem;
          out.value = body.value;
        }
      },
      c.body);
  return out;
}

}  // namespace

std::vector<hw::TimedCore> timed(const std::vector<CoreStreams> &cores) {
  std::vector<hw::TimedCore> out(cores.size());
  for (size_t core = 0; core < cores.size(); ++core) {
    for (const Command &c : cores[core].tiu) out[core].stream[NPU_ENGINE_TIU].push_back(timed(c));
    for (const Command &c : cores[core].gdma) out[core].stream[NPU_ENGINE_GDMA].push_back(timed(c));
  }
  return out;
}

Streams schedule(const std::vector<Command> &program, size_t cores) {
  const auto after = find_hazards(program);
  Orders in_order(cores);
  for (uint32_t i = 0; i < program.size(); ++i)
    if (program[i].gdma()) in_order[program[i].core].push_back(i);
  Streams plain = assemble(program, after, in_order);
  Streams ahead = assemble(program, after, ListScheduler(program, after, cores).run());
  if (ahead.timeline.deadlock) return plain;
  return ahead.timeline.cycles <= plain.timeline.cycles ? ahead : plain;
}

}  // namespace npu::compiler
