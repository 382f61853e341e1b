// SPDX-License-Identifier: MIT
#include "compiler/schedule/bind.h"

#include <algorithm>
#include <map>

#include "compiler/graph/partition.h"

namespace npu::compiler {
namespace {

constexpr int64_t kAlign = 64;
constexpr size_t kGroup = 128;  // storages at most that are passed together when a place is looked for

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// Commands between which a storage's memory is in use.
struct Lifetime {
  size_t first = SIZE_MAX, last = 0;
  bool used() const { return first != SIZE_MAX; }
  bool meets(const Lifetime &b) const { return first <= b.last && b.first <= last; }
};

/// Storages with their places, by offset, in groups. A group of which all are alive with a new storage and between
/// which it has no room, or none is alive with it, is passed at once.
class Placed {
 public:
  /// The lowest place for `bytes` that no storage alive at the same time has.
  int64_t lowest(const Lifetime &life, int64_t bytes) const {
    int64_t at = 0;
    for (const Group &g : groups_) {
      if (!g.any.meets(life)) continue;
      if (g.all.first <= life.last && life.first <= g.all.last && g.items[0].offset < at + bytes && g.gap < bytes) {
        at = std::max(at, g.end);
        continue;
      }
      for (const Item &i : g.items) {
        if (!i.life.meets(life)) continue;
        if (i.offset >= at + bytes) return at;
        at = std::max(at, i.end);
      }
    }
    return at;
  }

  /// `end`: where the next storage can begin.
  void add(const Lifetime &life, int64_t offset, int64_t end) {
    const auto below = [](int64_t v, const auto &x) { return v < x.offset; };
    auto g = std::upper_bound(groups_.begin(), groups_.end(), offset,
                              [&](int64_t v, const Group &x) { return below(v, x.items[0]); });
    if (g != groups_.begin()) --g;
    if (groups_.empty()) g = groups_.emplace(g);
    g->items.insert(std::upper_bound(g->items.begin(), g->items.end(), offset, below), {life, offset, end});
    if (g->items.size() > kGroup) {
      const auto half = g->items.begin() + kGroup / 2;
      Group upper;
      upper.items.assign(half, g->items.end());
      upper.sum_up();
      g->items.erase(half, g->items.end());
      g = groups_.insert(g + 1, std::move(upper)) - 1;
    }
    g->sum_up();
  }

 private:
  struct Item {
    Lifetime life;
    int64_t offset, end;
  };

  struct Group {
    std::vector<Item> items;
    Lifetime any;     ///< from the first begin of a storage to the last end
    Lifetime all;     ///< from the last begin to the first end, which may be the wrong way round
    int64_t gap = 0;  ///< the largest gap between them
    int64_t end = 0;  ///< where what follows all of them can begin

    void sum_up() {
      any = {};
      all = {0, SIZE_MAX};
      gap = 0;
      end = items[0].end;
      for (const Item &i : items) {
        any = {std::min(any.first, i.life.first), std::max(any.last, i.life.last)};
        all = {std::max(all.first, i.life.first), std::min(all.last, i.life.last)};
        gap = std::max(gap, i.offset - end);
        end = std::max(end, i.end);
      }
    }
  };

  std::vector<Group> groups_;
};

/// The storages of a core: when they are in use, and where.
struct CorePlan {
  const Lowered &lowered;
  std::vector<Lifetime> lives;
  std::vector<int64_t> offsets;
  std::vector<uint8_t> regions;

  explicit CorePlan(const Lowered &from)
      : lowered(from), lives(from.storages.size()), offsets(from.storages.size()), regions(from.storages.size()) {}

  void touch(int storage, size_t at) {
    if (storage < 0 || static_cast<size_t>(storage) >= lives.size()) return;
    Lifetime &l = lives[static_cast<size_t>(storage)];
    l.first = std::min(l.first, at);
    l.last = std::max(l.last, at);
  }

  /// Largest first, each at the lowest place that no storage alive at the same time has. Returns the end.
  int64_t place(int64_t from) {
    std::vector<size_t> order;
    for (size_t s = 0; s < lives.size(); ++s)
      if (lives[s].used() && lowered.storages[s].kind == StorageKind::Temp) order.push_back(s);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return lowered.storages[a].elements > lowered.storages[b].elements; });
    Placed placed;
    int64_t all = from;
    for (size_t s : order) {
      const int64_t at = placed.lowest(lives[s], lowered.storages[s].bytes());
      const int64_t end = aligned(at + lowered.storages[s].bytes());
      placed.add(lives[s], at, end);
      offsets[s] = from + at;
      all = std::max(all, from + end);
    }
    return all;
  }
};

class Binder {
 public:
  Binder(const std::vector<Lowered> &cores, const std::vector<int64_t> &exchanges, int64_t coeff_bytes,
         std::vector<Command> &commands, Bound &out)
      : cores_(cores.begin(), cores.end()),
        exchanges_(exchanges),
        coeff_bytes_(coeff_bytes),
        commands_(commands),
        out_(out) {}

  Status run() {
    for (size_t i = 0; i < commands_.size(); ++i) {
      cores_[commands_[i].core].touch(commands_[i].src_storage, i);
      cores_[commands_[i].core].touch(commands_[i].dst_storage, i);
    }
    plan_ctx();
    for (const CorePlan &core : cores_) out_.offsets.push_back(core.offsets);
    NPU_TRY(make_regions());
    for (Command &c : commands_) {
      std::visit([&](auto &body) { bind(body, c); }, c.body);
      if (c.meeting.exchange >= 0) bind(c.meeting);
    }
    return {};
  }

 private:
  void plan_ctx() {
    int64_t end = 0;
    for (CorePlan &core : cores_) end = core.place(end);
    for (int64_t bytes : exchanges_) {
      exchange_offsets_.push_back(end);
      end = aligned(end + bytes);
    }
    for (CorePlan &core : cores_)
      for (size_t s = 0; s < core.offsets.size(); ++s)
        if (const Storage &st = core.lowered.storages[s]; st.kind == StorageKind::Exchange)
          core.offsets[s] = exchange_offsets_[static_cast<size_t>(st.index)];
    out_.ctx_bytes = static_cast<uint64_t>(end);
  }

  Status make_regions() {
    const auto add = [&](StorageKind kind, int index, uint64_t bytes) {
      out_.regions.push_back({kind, index, bytes, true, kind == StorageKind::Temp || kind == StorageKind::Output});
      return static_cast<uint8_t>(out_.regions.size() - 1);
    };
    if (coeff_bytes_) coeff_ = add(StorageKind::Const, 0, static_cast<uint64_t>(coeff_bytes_));
    ctx_ = out_.ctx_bytes ? add(StorageKind::Temp, 0, out_.ctx_bytes) : uint8_t{0};
    // Inputs that no command reads have no region.
    std::map<std::pair<StorageKind, int>, uint8_t> tensors;
    for (StorageKind kind : {StorageKind::Input, StorageKind::Output})
      for (CorePlan &core : cores_)
        for (size_t s = 0; s < core.regions.size(); ++s) {
          const Storage &st = core.lowered.storages[s];
          if (st.kind != kind || !core.lives[s].used()) continue;
          const auto [known, is_new] = tensors.try_emplace({kind, st.index});
          if (is_new && tensors.size() > graph::kMaxPartTensors)
            return Status::error("the program has more than " + std::to_string(graph::kMaxPartTensors) +
                                 " inputs and outputs");
          if (is_new) known->second = add(kind, st.index, static_cast<uint64_t>(st.bytes()));
          core.regions[s] = known->second;
        }
    for (CorePlan &core : cores_)
      for (size_t s = 0; s < core.regions.size(); ++s) {
        const StorageKind kind = core.lowered.storages[s].kind;
        if (kind != StorageKind::Input && kind != StorageKind::Output)
          core.regions[s] = kind == StorageKind::Const ? coeff_ : ctx_;
      }
    return {};
  }

  /// Region and offset of one side of a transfer.
  void side(const CorePlan &core, int storage, uint8_t &region, uint64_t &offset) const {
    if (storage < 0) return;
    if (static_cast<size_t>(storage) >= core.regions.size()) {  // the coefficients themselves
      region = coeff_;
      return;
    }
    region = core.regions[static_cast<size_t>(storage)];
    offset += static_cast<uint64_t>(core.offsets[static_cast<size_t>(storage)]);
  }

  void bind(Meeting &m) const {
    const auto e = static_cast<size_t>(m.exchange);
    m.region = ctx_;
    m.low = exchange_offsets_[e];
    m.high = m.low + exchanges_[e];
  }

  /// Regions and offsets of a command's operands.
  void bind(npu_cmd_copy &c, const Command &command) const {
    side(cores_[command.core], command.src_storage, c.src_region, c.src_offset);
    side(cores_[command.core], command.dst_storage, c.dst_region, c.dst_offset);
  }
  void bind(npu_cmd_fill &c, const Command &command) const {
    side(cores_[command.core], command.dst_storage, c.dst_region, c.dst_offset);
  }
  void bind(npu_cmd_conv &c, const Command &) const { bind_coefficients(c); }
  void bind(npu_cmd_matmul &c, const Command &) const { bind_coefficients(c); }
  void bind(npu_cmd_lut &c, const Command &) const { c.param_region = coeff_; }
  // These touch only local memory, or none.
  void bind(npu_cmd_pool &, const Command &) const {}
  void bind(npu_cmd_eltwise &, const Command &) const {}
  void bind(npu_cmd_unary &, const Command &) const {}
  void bind(npu_cmd_softmax &, const Command &) const {}
  void bind(npu_cmd_requant &, const Command &) const {}
  void bind(npu_cmd_sem_signal &, const Command &) const {}
  void bind(npu_cmd_sem_wait &, const Command &) const {}

  /// Until now the coefficients have a provisional number.
  template <class T>
  void bind_coefficients(T &c) const {
    if (c.wgt_region != NPU_REGION_LOCAL) c.wgt_region = coeff_;
    if (c.flags & (NPU_CONV_BIAS | NPU_CONV_REQUANT)) c.param_region = coeff_;
  }

  std::vector<CorePlan> cores_;
  const std::vector<int64_t> &exchanges_;
  const int64_t coeff_bytes_;
  std::vector<Command> &commands_;
  Bound &out_;
  std::vector<int64_t> exchange_offsets_;
  uint8_t coeff_ = 0, ctx_ = 0;
};

}  // namespace

Status bind_memory(const std::vector<Lowered> &cores, const std::vector<int64_t> &exchanges, int64_t coeff_bytes,
                   std::vector<Command> &commands, Bound &out) {
  return Binder(cores, exchanges, coeff_bytes, commands, out).run();
}

}  // namespace npu::compiler
