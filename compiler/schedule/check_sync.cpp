// SPDX-License-Identifier: MIT
#include "compiler/schedule/check_sync.h"

#include <algorithm>
#include <array>
#include <map>

#include "compiler/schedule/accesses.h"

namespace npu::compiler {
namespace {

constexpr const char *kEngines[] = {"TIU", "GDMA"};

struct Stream {
  std::vector<std::vector<Access>> accesses;
  /// Commands of the other engine that have certainly retired when this one begins.
  std::vector<uint32_t> ordered_after;
  std::vector<hw::TimedCommand> timed;
};

Status decode_stream(std::span<const uint8_t> bytes, int engine, Stream &out) {
  uint32_t certain = 0;
  for (size_t at = 0; at < bytes.size(); at += NPU_CMD_BYTES) {
    CommandBytes encoded;
    std::copy_n(bytes.data() + at, encoded.size(), encoded.begin());
    const auto body = decode(encoded);
    if (!body)
      return Status::error(std::string(kEngines[engine]) + " command " + std::to_string(at / NPU_CMD_BYTES) +
                           " has opcode " + std::to_string(encoded[0]) + ", which is none of the compiler's");
    const Command command{*body};
    certain = std::max(certain, command.wait());  // a stream begins its commands in order
    out.accesses.push_back(accesses_of(*body));
    out.ordered_after.push_back(certain);
    out.timed.push_back({cost_of(command), command.wait()});
  }
  return {};
}

/// The last command of each engine (numbered from 1) that read and that wrote a byte. Since an engine retires its
/// commands in order, whatever is ordered after that one is ordered after all of them.
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
  Stream streams[2];
  NPU_TRY(decode_stream(tiu, NPU_ENGINE_TIU, streams[NPU_ENGINE_TIU]));
  NPU_TRY(decode_stream(gdma, NPU_ENGINE_GDMA, streams[NPU_ENGINE_GDMA]));
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
    const Stream &own = streams[engine];
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
