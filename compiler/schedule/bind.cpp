// SPDX-License-Identifier: MIT
#include "compiler/schedule/bind.h"

#include <algorithm>

namespace npu::compiler {
namespace {

constexpr int64_t kAlign = 64;
constexpr size_t kCodeRegions = 2;  // the runtime appends them
constexpr size_t kGroup = 128;      // storages at most that are passed together when a place is looked for

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

class Binder {
 public:
  Binder(const Lowered &lowered, std::vector<Command> &commands, Bound &out)
      : lowered_(lowered),
        commands_(commands),
        out_(out),
        lives_(lowered.storages.size()),
        offsets_(lowered.storages.size()),
        regions_(lowered.storages.size()) {}

  Status run() {
    for (size_t i = 0; i < commands_.size(); ++i) {
      touch(commands_[i].src_storage, i);
      touch(commands_[i].dst_storage, i);
    }
    plan_ctx();
    NPU_TRY(make_regions());
    for (Command &c : commands_) std::visit([&](auto &body) { bind(body, c); }, c.body);
    return {};
  }

 private:
  bool is_temp(size_t s) const { return lowered_.storages[s].kind == StorageKind::Temp; }

  void touch(int storage, size_t at) {
    if (storage < 0 || static_cast<size_t>(storage) >= lives_.size()) return;
    Lifetime &l = lives_[static_cast<size_t>(storage)];
    l.first = std::min(l.first, at);
    l.last = std::max(l.last, at);
  }

  /// Largest first, each at the lowest place that no storage alive at the same time has.
  void plan_ctx() {
    std::vector<size_t> order;
    for (size_t s = 0; s < lives_.size(); ++s)
      if (lives_[s].used() && is_temp(s)) order.push_back(s);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return lowered_.storages[a].elements > lowered_.storages[b].elements; });
    Placed placed;
    for (size_t s : order) {
      const int64_t bytes = lowered_.storages[s].bytes();
      const int64_t at = offsets_[s] = placed.lowest(lives_[s], bytes);
      const int64_t end = (at + bytes + kAlign - 1) / kAlign * kAlign;
      placed.add(lives_[s], at, end);
      out_.ctx_bytes = std::max(out_.ctx_bytes, static_cast<uint64_t>(end));
    }
  }

  Status make_regions() {
    const auto add = [&](StorageKind kind, int index, uint64_t bytes) {
      out_.regions.push_back({kind, index, bytes, true, kind == StorageKind::Temp || kind == StorageKind::Output});
      return static_cast<uint8_t>(out_.regions.size() - 1);
    };
    if (lowered_.coeff.end()) coeff_ = add(StorageKind::Const, 0, static_cast<uint64_t>(lowered_.coeff.end()));
    const uint8_t ctx = out_.ctx_bytes ? add(StorageKind::Temp, 0, out_.ctx_bytes) : 0;
    size_t tensors = 0;
    for (StorageKind kind : {StorageKind::Input, StorageKind::Output})
      for (size_t s = 0; s < lowered_.storages.size(); ++s) {
        const Storage &st = lowered_.storages[s];
        if (st.kind != kind) continue;
        if (++tensors + 2 + kCodeRegions > NPU_MAX_REGIONS)
          return Status::error("the network has more than " + std::to_string(NPU_MAX_REGIONS - 2 - kCodeRegions) +
                               " inputs and outputs");
        regions_[s] = add(kind, st.index, static_cast<uint64_t>(st.bytes()));
      }
    for (size_t s = 0; s < lowered_.storages.size(); ++s) {
      if (lowered_.storages[s].kind == StorageKind::Temp) regions_[s] = ctx;
      if (lowered_.storages[s].kind == StorageKind::Const) regions_[s] = coeff_;
    }
    return {};
  }

  /// Region and offset of one side of a transfer.
  void side(int storage, uint8_t &region, uint64_t &offset) const {
    if (storage < 0) return;
    if (static_cast<size_t>(storage) >= regions_.size()) {  // the coefficients themselves
      region = coeff_;
      return;
    }
    region = regions_[static_cast<size_t>(storage)];
    offset += static_cast<uint64_t>(offsets_[static_cast<size_t>(storage)]);
  }

  /// Regions and offsets of a command's operands.
  void bind(npu_cmd_copy &c, const Command &command) const {
    side(command.src_storage, c.src_region, c.src_offset);
    side(command.dst_storage, c.dst_region, c.dst_offset);
  }
  void bind(npu_cmd_fill &c, const Command &command) const { side(command.dst_storage, c.dst_region, c.dst_offset); }
  void bind(npu_cmd_conv &c, const Command &) const { bind_coefficients(c); }
  void bind(npu_cmd_matmul &c, const Command &) const { bind_coefficients(c); }
  // These touch only local memory.
  void bind(npu_cmd_pool &, const Command &) const {}
  void bind(npu_cmd_eltwise &, const Command &) const {}
  void bind(npu_cmd_unary &, const Command &) const {}
  void bind(npu_cmd_softmax &, const Command &) const {}

  /// Until now the coefficients have a provisional number.
  template <class T>
  void bind_coefficients(T &c) const {
    if (c.wgt_region != NPU_REGION_LOCAL) c.wgt_region = coeff_;
    if (c.flags & NPU_CONV_BIAS) c.param_region = coeff_;
  }

  const Lowered &lowered_;
  std::vector<Command> &commands_;
  Bound &out_;
  std::vector<Lifetime> lives_;
  std::vector<int64_t> offsets_;
  std::vector<uint8_t> regions_;
  uint8_t coeff_ = 0;
};

}  // namespace

Status bind_memory(const Lowered &lowered, std::vector<Command> &commands, Bound &out) {
  return Binder(lowered, commands, out).run();
}

}  // namespace npu::compiler
