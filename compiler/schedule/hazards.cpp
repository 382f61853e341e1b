// SPDX-License-Identifier: MIT
#include "compiler/schedule/hazards.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/accesses.h"

namespace npu::compiler {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

/// The last writer of each byte of a space and who has read it since.
class Space {
 public:
  void read(uint32_t command, int64_t low, int64_t high, std::vector<uint32_t> &after) {
    cut(low);
    cut(high);
    for (auto it = segments_.lower_bound(low); it != segments_.end() && it->first < high; ++it) {
      if (it->second.writer != kNobody) after.push_back(it->second.writer);
      it->second.readers.push_back(command);
    }
  }

  void write(uint32_t command, int64_t low, int64_t high, std::vector<uint32_t> &after) {
    cut(low);
    cut(high);
    auto it = segments_.lower_bound(low);
    while (it != segments_.end() && it->first < high) {
      if (it->second.writer != kNobody) after.push_back(it->second.writer);
      after.insert(after.end(), it->second.readers.begin(), it->second.readers.end());
      it = segments_.erase(it);
    }
    segments_[low] = {command, {}};
  }

 private:
  struct Segment {
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers;
  };

  /// Makes `at` the start of a segment. Segments cover everything: each reaches to the next.
  void cut(int64_t at) {
    auto it = segments_.upper_bound(at);
    const Segment before = it == segments_.begin() ? Segment{} : std::prev(it)->second;
    if (it != segments_.begin() && std::prev(it)->first == at) return;
    segments_.emplace_hint(it, at, before);
  }

  std::map<int64_t, Segment> segments_;
};

}  // namespace

std::vector<std::vector<uint32_t>> find_hazards(const std::vector<Command> &program) {
  std::vector<Space> spaces(256);
  std::vector<bool> written(256);
  std::vector<std::vector<Access>> accesses;
  for (const Command &c : program) {
    accesses.push_back(accesses_of(c.body));
    for (const Access &a : accesses.back()) written[a.region] = written[a.region] || a.write;
  }
  std::vector<std::vector<uint32_t>> after(program.size());
  for (uint32_t i = 0; i < program.size(); ++i) {
    for (const Access &a : accesses[i])
      if (!a.write && written[a.region]) spaces[a.region].read(i, a.low, a.high, after[i]);
    for (const Access &a : accesses[i])
      if (a.write) spaces[a.region].write(i, a.low, a.high, after[i]);
    std::vector<uint32_t> &list = after[i];
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    if (!list.empty() && list.back() == i) list.pop_back();  // reads what it also writes
  }
  return after;
}

}  // namespace npu::compiler
