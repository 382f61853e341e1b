// SPDX-License-Identifier: MIT
#include "check_sync.h"

#include <algorithm>
#include <array>
#include <map>

#include "accesses.h"
#include "npu_cost.hpp"

namespace npu::compiler {
namespace {

constexpr const char *kEngines[] = {"TIU", "GDMA"};

struct Decoded {
  std::vector<std::vector<Access>> accesses;
  std::vector<uint32_t>
      ordered_after;  ///< commands of the other engine that have retired for certain when this one begins
  std::vector<hw::TimedCommand> timed;
  std::vector<uint8_t> opcodes;
};

Decoded decode_stream(std::span<const uint8_t> stream, bool gdma) {
  Decoded d;
  uint32_t certain = 0;
  for (size_t at = 0; at < stream.size(); at += NPU_CMD_BYTES) {
    uint8_t bytes[NPU_CMD_BYTES];
    std::copy_n(stream.data() + at, sizeof bytes, bytes);
    const uint32_t wait = hw::decode<npu_cmd>(bytes).wait;
    certain = std::max(certain, wait);  // a stream begins its commands in order
    d.accesses.push_back(accesses_of(bytes));
    d.ordered_after.push_back(certain);
    d.timed.push_back({hw::command_cost(bytes, gdma, {}), wait});
    d.opcodes.push_back(bytes[0]);
  }
  return d;
}

/// Who touched each byte last: ids (from 1) a engine. Since each engine retires in order, being ordered after its last
/// access is being ordered after all.
struct Touched {
  std::array<uint32_t, 2> read{}, write{};
};

class Space {
 public:
  /// Calls f(touched, low, high) for every part of the range, which it may change.
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

std::string place(const Access &a, int64_t at) {
  const std::string where = a.region == NPU_REGION_LOCAL ? "local memory" : "region " + std::to_string(a.region);
  return where + " at byte " + std::to_string(at);
}

}  // namespace

Status check_sync(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma) {
  const Decoded streams[2] = {decode_stream(tiu, false), decode_stream(gdma, true)};
  std::vector<hw::TimedCore> cores(1);
  for (int e = 0; e < 2; ++e) cores[0].stream[e] = streams[e].timed;
  const hw::Timeline timeline = hw::simulate(cores, {});
  if (timeline.deadlock) return Status::error("the engines wait for each other for ever");
  // One order in which the commands may begin; whatever two commands no wait orders can also begin the other way round.
  std::vector<std::array<uint64_t, 3>> order;
  for (uint64_t e = 0; e < 2; ++e)
    for (uint64_t i = 0; i < streams[e].timed.size(); ++i) order.push_back({timeline.spans[e][i].start, e, i});
  std::sort(order.begin(), order.end());
  std::vector<Space> spaces(256);
  for (const auto &command : order) {
    const uint64_t engine = command[1], index = command[2];
    const Decoded &own = streams[engine];
    const uint64_t other = 1 - engine;
    const uint32_t certain = own.ordered_after[index];
    for (const Access &a : own.accesses[index]) {
      std::string problem;
      spaces[a.region].visit(a.low, a.high, [&](Touched &t, int64_t at) {
        const uint32_t conflict = std::max(t.write[other], a.write ? t.read[other] : 0);
        if (conflict > certain && problem.empty())
          problem = std::string(kEngines[engine]) + " command " + std::to_string(index) +
                    (a.write ? " writes " : " reads ") + place(a, at) + ", which " + kEngines[other] + " command " +
                    std::to_string(conflict - 1) + " touches, and no wait orders the two";
      });
      if (!problem.empty()) return Status::error(problem);
    }
    for (const Access &a : own.accesses[index])
      spaces[a.region].visit(a.low, a.high, [&](Touched &t, int64_t) {
        (a.write ? t.write : t.read)[engine] = static_cast<uint32_t>(index) + 1;
      });
  }
  return {};
}

}  // namespace npu::compiler
