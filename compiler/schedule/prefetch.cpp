// SPDX-License-Identifier: MIT
#include "compiler/schedule/prefetch.h"

#include <algorithm>
#include <map>

#include "compiler/kernels/lmem.h"

namespace npu::compiler {
namespace {

constexpr size_t kBucket = 64;       ///< commands for which holds are listed together
constexpr size_t kLookBack = 8192;   ///< commands by which a copy comes ahead at most
constexpr size_t kMaxPlaces = 4096;  ///< different pieces of local memory that are looked at for one block

/// The weights that a command streams from the coefficients.
struct Streamed {
  uint64_t offset = 0;
  int64_t bytes = 0;
  uint8_t dtype = NPU_DTYPE_F32;
};

Streamed weights_of(const npu_cmd_conv &c) {
  if (c.wgt_region == NPU_REGION_LOCAL) return {};
  const int64_t numbers = int64_t{c.oc} * c.kh * c.kw * (c.ic / c.groups);
  return {c.wgt_offset, numbers * hw::arith::dtype_bytes(c.wgt_dtype), c.wgt_dtype};
}
Streamed weights_of(const npu_cmd_matmul &c) {
  if (c.wgt_region == NPU_REGION_LOCAL || c.b_batch_stride) return {};
  return {c.wgt_offset, int64_t{c.k} * c.n * hw::arith::dtype_bytes(c.wgt_dtype), c.wgt_dtype};
}
template <class T>
Streamed weights_of(const T &) {
  return {};
}

template <class T>
void read_locally(T &c, int64_t addr) {
  if constexpr (std::is_same_v<T, npu_cmd_conv> || std::is_same_v<T, npu_cmd_matmul>) {
    c.wgt_region = NPU_REGION_LOCAL;
    c.wgt_offset = static_cast<uint64_t>(addr);
  }
}

/// What is held in local memory, found by command. The buckets of a level are twice as long as those of the level below
/// it, and a hold is in the few of them that make up its length.
class Holds {
 public:
  explicit Holds(size_t commands) {
    for (size_t n = commands / kBucket + 1; levels_.empty() || levels_.back().size() > 1; n = (n + 1) / 2)
      levels_.emplace_back(n);
  }

  void add(const Hold &h) {
    size_t first = h.first / kBucket, end = (h.end - 1) / kBucket + 1;
    for (size_t l = 0; first < end; ++l, first /= 2, end /= 2) {
      if (first % 2) levels_[l][first++].push_back(h);
      if (first < end && end % 2) levels_[l][--end].push_back(h);
    }
  }

  /// Calls f for all holds that meet commands [first, end), for long ones more than once, until it returns false.
  template <class F>
  void visit(size_t first, size_t end, F f) const {
    for (size_t l = 0; l < levels_.size(); ++l)
      for (size_t b = (first / kBucket) >> l; b <= ((end - 1) / kBucket) >> l; ++b)
        for (const Hold &h : levels_[l][b])
          if (h.first < end && h.end > first && !f(h)) return;
  }

 private:
  std::vector<std::vector<std::vector<Hold>>> levels_;
};

class Prefetcher {
 public:
  Prefetcher(const Generated &from, int64_t lmem_bytes, const PrefetchPolicy &policy)
      : from_(from), lmem_bytes_(lmem_bytes), policy_(policy), holds_(from.commands.size()) {}

  Prefetched run() {
    find_candidates();
    if (users_.empty()) return without_prefetch(from_);
    for (const Hold &h : from_.holds) holds_.add(h);
    find_latest_starts();
    place_blocks();
    return assemble();
  }

 private:
  static constexpr int64_t kStreamed = -1;

  struct Candidate {
    Streamed weights;
    uint64_t streamed = 0, local = 0;  ///< cycles of the command either way
    uint64_t load = 0;                 ///< cycles of the copies
    bool gains() const { return local < streamed; }
  };

  struct Block {
    size_t at = 0;    ///< the command in front of which the copies come
    size_t last = 0;  ///< the last command that reads it
    uint32_t layer = 0;
    Streamed weights;
    int64_t addr = 0;
  };

  const Command &command(size_t i) const { return from_.commands[i]; }

  uint64_t load_cycles(int64_t bytes) const {
    const auto pieces = static_cast<uint64_t>((bytes + policy_.piece_bytes - 1) / policy_.piece_bytes);
    constexpr hw::CostParams p;
    return pieces * (p.gdma_fixed + p.ddr_latency) + (static_cast<uint64_t>(bytes) + p.ddr_bw - 1) / p.ddr_bw;
  }

  Ahead ahead(size_t i) const {
    const auto it = policy_.layers.find(command(i).layer());
    return it == policy_.layers.end() ? Ahead::Judged : it->second;
  }

  bool wanted(size_t i, const Candidate &c) const {
    const Ahead how = ahead(i);
    return how == Ahead::Always || (how == Ahead::Judged && (policy_.all || c.gains()));
  }

  void find_candidates() {
    bool any = false;
    candidates_.resize(from_.commands.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate &c = candidates_[i];
      c.weights = std::visit([](const auto &body) { return weights_of(body); }, command(i).body);
      c.streamed = c.local = duration_of(command(i));
      if (c.weights.bytes > lmem_bytes_) c.weights.bytes = 0;
      if (c.weights.bytes == 0) continue;
      Command local = command(i);
      std::visit([](auto &body) { read_locally(body, 0); }, local.body);
      c.local = duration_of(local);
      c.load = load_cycles(c.weights.bytes);
      if (c.local > c.streamed || !wanted(i, c)) {
        c.weights.bytes = 0;
        c.local = c.streamed;
        continue;
      }
      any = any || c.gains();
      users_[c.weights.offset].push_back(i);
    }
    if (!any) users_.clear();
  }

  /// When the copies for each command have to begin so that none comes late, if the memory had nothing else to do than
  /// what the commands have it do; and when each command would begin at the earliest.
  void find_latest_starts() {
    const size_t n = from_.commands.size();
    std::vector<uint64_t> start(n + 1);
    for (size_t i = 0; i < n; ++i) start[i + 1] = start[i] + (command(i).gdma() ? 0 : candidates_[i].local);
    latest_.assign(n, 0);
    uint64_t memory = UINT64_MAX;
    const auto take = [&](uint64_t deadline, uint64_t cycles) {
      memory = std::min(memory, deadline);
      memory -= std::min(memory, cycles);
    };
    for (size_t i = n; i-- > 0;) {
      const Candidate &c = candidates_[i];
      if (c.weights.bytes && users_[c.weights.offset].front() == i)
        take(start[i], c.load + c.load * static_cast<uint64_t>(policy_.slack) / 64);
      else if (command(i).gdma())
        take(start[i], c.streamed);
      else if (!c.weights.bytes)
        take(start[i + 1], cost_of(command(i)).flow_bytes / hw::CostParams{}.ddr_bw);
      latest_[i] = memory;
    }
    start_ = std::move(start);
  }

  /// The last command that would begin by a time.
  size_t command_at(uint64_t time) const {
    const auto it = std::upper_bound(start_.begin(), start_.end() - 1, time);
    return it == start_.begin() ? 0 : static_cast<size_t>(it - start_.begin()) - 1;
  }

  /// Goes through the program and gives each block of weights a place, in the order of their readers, as long as it
  /// comes early enough to be of use.
  void place_blocks() {
    const size_t n = from_.commands.size();
    addr_.assign(n, kStreamed);
    spare_.assign(n, 0);
    uint64_t now = 0, busy = 0;
    for (size_t i = 0; i < n; ++i) {
      const Candidate &c = candidates_[i];
      spare_[i] = now;
      if (command(i).gdma()) {
        busy += c.streamed;  // the TIU is at work on what came before, or waits
        continue;
      }
      if (c.weights.bytes && addr_[i] == kStreamed) try_block(i, now);
      uint64_t time = c.local;
      if (addr_[i] == kStreamed) {
        time = c.streamed;
        busy += cost_of(command(i)).flow_bytes / hw::CostParams{}.ddr_bw;
      }
      now += time - std::min(time, busy);
      busy = 0;
    }
  }

  /// `now`: the cycles that memory has had to spare until the command begins.
  void try_block(size_t i, uint64_t &now) {
    const Candidate &c = candidates_[i];
    const std::vector<size_t> &users = users_[c.weights.offset];
    const size_t from = std::max(last_at_, std::max(std::min(command_at(latest_[i]), i), i - std::min(i, kLookBack)));
    for (size_t last : {users.back(), i}) {
      Block b{from, last, command(i).layer(), c.weights, 0};
      if (last - i > kLookBack || !find_place(i, last, b)) continue;
      const uint64_t done = std::max(loaded_, spare_[b.at]) + c.load;
      const uint64_t late = done > now ? done - now : 0;
      if (policy_.judge && ahead(i) == Ahead::Judged && (c.gains() ? late + c.local >= c.streamed : late > 0)) continue;
      loaded_ = done;
      now += late;
      last_at_ = b.at;
      blocks_.push_back(b);
      holds_.add({b.addr, LmemAllocator::rounded(c.weights.bytes), b.at, last + 1});
      for (size_t user : users)
        if (user >= i && user <= last) addr_[user] = b.addr;
      return;
    }
  }

  /// Where a block can lie from the earliest command not before `b.at` until its last reader; the lowest such place.
  bool find_place(size_t reader, size_t last, Block &b) const {
    const int64_t bytes = LmemAllocator::rounded(b.weights.bytes);
    // For each piece of local memory the command from which on it is free; SIZE_MAX: never in time.
    std::map<int64_t, size_t> free_from{{0, b.at}, {lmem_bytes_, SIZE_MAX}};
    const auto cut = [&](int64_t at) {
      const auto it = std::prev(free_from.upper_bound(at));
      return it->first == at ? it : free_from.emplace(at, it->second).first;
    };
    holds_.visit(b.at, last + 1, [&](const Hold &h) {
      if (free_from.size() > kMaxPlaces) return false;
      if (h.addr >= lmem_bytes_) return true;
      auto it = cut(h.addr);
      const auto to = cut(std::min(h.addr + h.bytes, lmem_bytes_));
      for (; it != to; ++it) it->second = std::max(it->second, h.end > reader ? SIZE_MAX : h.end);
      return true;
    });
    if (free_from.size() > kMaxPlaces) return false;
    size_t best = SIZE_MAX;
    for (auto it = free_from.begin(); it->first + bytes <= lmem_bytes_; ++it) {
      size_t from = 0;
      for (auto piece = it; piece->first < it->first + bytes && from < best; ++piece)
        from = std::max(from, piece->second);
      if (from >= best) continue;
      best = from;
      b.addr = it->first;
    }
    if (best == SIZE_MAX) return false;
    b.at = best;
    return true;
  }

  void emit_copies(const Block &b, std::vector<Command> &out) const {
    for (int64_t at = 0; at < b.weights.bytes; at += policy_.piece_bytes) {
      const int64_t bytes = std::min(policy_.piece_bytes, b.weights.bytes - at);
      auto c = hw::make<npu_cmd_copy>();
      c.src_dtype = c.dst_dtype = b.weights.dtype;
      c.src_region = kRegionCoeff;
      c.src_offset = b.weights.offset + static_cast<uint64_t>(at);
      c.dst_region = NPU_REGION_LOCAL;
      c.dst_offset = static_cast<uint64_t>(b.addr + at);
      std::fill(std::begin(c.dims), std::end(c.dims), 1u);
      c.dims[5] = static_cast<uint32_t>(bytes / hw::arith::dtype_bytes(b.weights.dtype));
      c.src_stride[5] = c.dst_stride[5] = 1;
      c.layer = b.layer;
      Command command{c, kCoefficients};
      command.ahead = true;
      out.push_back(command);
    }
  }

  Prefetched assemble() const {
    Prefetched out;
    out.blocks = blocks_.size();
    out.lmem_bytes = from_.lmem_bytes;
    int64_t used_to = from_.buffers_to;
    size_t next = 0;
    std::vector<size_t> place;  // of each command, and the end, with the copies in front of it
    for (size_t i = 0; i < from_.commands.size(); ++i) {
      place.push_back(out.commands.size());
      for (; next < blocks_.size() && blocks_[next].at == i; ++next) {
        const Block &b = blocks_[next];
        emit_copies(b, out.commands);
        const int64_t end = b.addr + LmemAllocator::rounded(b.weights.bytes);
        out.lmem_bytes = std::max(out.lmem_bytes, end);
        if (b.addr < from_.tensors_from) used_to = std::max(used_to, end);
      }
      out.commands.push_back(command(i));
      if (addr_[i] != kStreamed)
        std::visit([&](auto &body) { read_locally(body, addr_[i]); }, out.commands.back().body);
    }
    out.gap_bytes = std::max<int64_t>(from_.tensors_from - used_to, 0);
    place.push_back(out.commands.size());
    add_holds(place, out);
    return out;
  }

  /// Those of the program that it was made from, and of the blocks.
  void add_holds(const std::vector<size_t> &place, Prefetched &out) const {
    for (Hold h : from_.holds) {
      h.first = place[h.first];
      h.end = place[h.end];
      out.holds.push_back(h);
    }
    for (const Block &b : blocks_)
      out.holds.push_back(
          {b.addr, LmemAllocator::rounded(b.weights.bytes), place[b.at], place[b.last + 1], Hold::kWeights, b.layer});
  }

  const Generated &from_;
  const int64_t lmem_bytes_;
  const PrefetchPolicy policy_;
  Holds holds_;
  std::vector<Candidate> candidates_;
  std::map<uint64_t, std::vector<size_t>> users_;  ///< offset of a block in the coefficients -> commands that read it
  std::vector<uint64_t> start_, latest_;           ///< in an ideal run: begin of each command, of its copies
  std::vector<uint64_t> spare_;                    ///< cycles that memory has to spare until a command begins
  uint64_t loaded_ = 0;                            ///< those of them that blocks so far have taken
  std::vector<int64_t> addr_;                      ///< of each command's weights in local memory
  std::vector<Block> blocks_;
  size_t last_at_ = 0;
};

}  // namespace

Prefetched prefetch(const Generated &from, int64_t lmem_bytes, const PrefetchPolicy &policy) {
  return Prefetcher(from, lmem_bytes, policy).run();
}

Prefetched without_prefetch(const Generated &from) {
  return {from.commands, 0, from.lmem_bytes, std::max<int64_t>(from.tensors_from - from.buffers_to, 0), from.holds};
}

}  // namespace npu::compiler
