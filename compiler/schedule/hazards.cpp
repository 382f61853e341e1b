// SPDX-License-Identifier: MIT
#include "compiler/schedule/hazards.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/accesses.h"

namespace npu::compiler {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

/// So many predecessors of one kind are told apart. A read that has more of them counts as a write: what comes later
/// follows the read and, through it, all of them. Without that bound, thousands of strided reads of what thousands of
/// commands have written need lists whose length is the product of both.
constexpr uint32_t kMany = 256;

/// The last writer of each byte of a space and who has read it since.
class Space {
 public:
  void read(uint32_t command, bool gdma, int64_t low, int64_t high, std::vector<uint32_t> &after) {
    cut(low);
    cut(high);
    if (has_many(low, high)) {
      write(command, low, high, after);
      return;
    }
    for (auto it = segments_.lower_bound(low); it != segments_.end() && it->first < high; ++it) {
      Segment &s = it->second;
      if (s.writer != kNobody) after.push_back(s.writer);
      if (gdma) {
        readers_.push_back({command, s.gdma_readers, kNobody, readers_of(s) + 1});
        s.gdma_readers = static_cast<uint32_t>(readers_.size() - 1);
      } else {
        s.tiu_reader = command;
      }
    }
  }

  void write(uint32_t command, int64_t low, int64_t high, std::vector<uint32_t> &after) {
    cut(low);
    cut(high);
    auto it = segments_.lower_bound(low);
    while (it != segments_.end() && it->first < high) {
      for (uint32_t c : {it->second.writer, it->second.tiu_reader})
        if (c != kNobody) after.push_back(c);
      // Where parts of a segment have been read on their own, the older readers of all parts are the same ones.
      for (uint32_t r = it->second.gdma_readers; r != kNobody && readers_[r].seen_by != command;
           r = readers_[r].older) {
        after.push_back(readers_[r].command);
        readers_[r].seen_by = command;
      }
      it = segments_.erase(it);
    }
    segments_[low] = {.writer = command};
  }

 private:
  /// A list of readers, in which an index stands for one reader and all older ones.
  struct Reader {
    uint32_t command, older;
    uint32_t seen_by;  ///< the last writer that follows them
    uint32_t count;    ///< how many they are
  };

  struct Segment {
    uint32_t writer = kNobody;
    uint32_t tiu_reader = kNobody;    ///< the last one: the TIU keeps its order
    uint32_t gdma_readers = kNobody;  ///< index in readers_
  };

  uint32_t readers_of(const Segment &s) const { return s.gdma_readers == kNobody ? 0 : readers_[s.gdma_readers].count; }

  bool has_many(int64_t low, int64_t high) const {
    uint32_t segments = 0;
    for (auto it = segments_.lower_bound(low); it != segments_.end() && it->first < high; ++it)
      if (++segments > kMany || readers_of(it->second) >= kMany) return true;
    return false;
  }

  /// Makes `at` the start of a segment. Segments cover everything: each reaches to the next.
  void cut(int64_t at) {
    auto it = segments_.upper_bound(at);
    const Segment before = it == segments_.begin() ? Segment{} : std::prev(it)->second;
    if (it != segments_.begin() && std::prev(it)->first == at) return;
    segments_.emplace_hint(it, at, before);
  }

  std::map<int64_t, Segment> segments_;
  std::vector<Reader> readers_;
};

}  // namespace

std::vector<std::vector<uint32_t>> find_hazards(const std::vector<Command> &program) {
  std::vector<Space> spaces(256);
  std::vector<bool> written(256);
  std::vector<std::vector<Access>> accesses;
  std::map<std::pair<int, int>, uint32_t> signals;  // exchange, core -> the command
  for (uint32_t i = 0; i < program.size(); ++i) {
    accesses.push_back(accesses_of(program[i]));
    for (const Access &a : accesses.back()) written[a.region] = written[a.region] || a.write;
    if (program[i].is_signal()) signals[{program[i].meeting.exchange, program[i].core}] = i;
  }
  std::vector<std::vector<uint32_t>> after(program.size());
  for (uint32_t i = 0; i < program.size(); ++i) {
    if (i > 0 && program[i].core != program[i - 1].core) spaces.assign(256, {});
    if (program[i].is_wait()) after[i].push_back(signals.at({program[i].meeting.exchange, program[i].meeting.from}));
    for (const Access &a : accesses[i])
      if (!a.write && written[a.region]) spaces[a.region].read(i, program[i].gdma(), a.low, a.high, after[i]);
    for (const Access &a : accesses[i])
      if (a.write) spaces[a.region].write(i, a.low, a.high, after[i]);
    std::vector<uint32_t> &list = after[i];
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    std::erase(list, i);  // reads what it also writes
  }
  return after;
}

}  // namespace npu::compiler
