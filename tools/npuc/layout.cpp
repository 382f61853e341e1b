// SPDX-License-Identifier: MIT
// The steps are those of Sugiyama, Tagawa and Toda (1981): rows by longest paths, dummies where a net passes a row,
// orders by barycentres, positions by least squares.
#include "tools/npuc/layout.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace npu::npuc {
namespace {

constexpr double kGap = 24, kDummyGap = 10, kDummyWidth = 6, kRowGap = 44, kMargin = 16;
constexpr int kSweeps = 12;
/// Rows that a net passes at most. Longer ones are drawn without a way of their own.
constexpr size_t kLongestNet = 400;
/// The most rows that all nets together pass. Nets beyond are drawn without a way of their own.
constexpr size_t kMostDummies = 200'000;
constexpr size_t kNone = SIZE_MAX;

/// A box, or a dummy of a net.
struct Item {
  size_t box = kNone, net = kNone;
  double width = kDummyWidth;
  double x = 0;  ///< the middle
  std::vector<size_t> above, below;

  bool dummy() const { return box == kNone; }
};

class Layers {
 public:
  Layers(std::vector<LayoutBox> &boxes, const std::vector<LayoutEdge> &edges) : boxes_(boxes), edges_(edges) {}

  Layout run() {
    turn_cycles();
    assign_rows();
    add_items();
    order_rows();
    place_items();
    return result();
  }

 private:
  /// Edges that close a cycle are turned around.
  void turn_cycles() {
    std::vector<std::vector<size_t>> out(boxes_.size());
    for (size_t e = 0; e < edges_.size(); ++e) out[edges_[e].from].push_back(e);
    std::vector<char> state(boxes_.size(), 0);  // 1: on the path, 2: done
    std::vector<std::pair<size_t, size_t>> path;
    for (size_t root = 0; root < boxes_.size(); ++root) {
      if (state[root]) continue;
      path.emplace_back(root, 0);
      state[root] = 1;
      while (!path.empty()) {
        auto &[box, next] = path.back();
        if (next == out[box].size()) {
          state[box] = 2;
          path.pop_back();
          continue;
        }
        LayoutEdge &e = edges_[out[box][next++]];
        if (state[e.to] == 1) {
          std::swap(e.from, e.to);
        } else if (!state[e.to]) {
          state[e.to] = 1;
          path.emplace_back(e.to, 0);
        }
      }
    }
  }

  void assign_rows() {
    std::vector<size_t> waiting(boxes_.size(), 0), ready;
    std::vector<std::vector<size_t>> out(boxes_.size());
    for (const LayoutEdge &e : edges_) {
      if (e.from == e.to) continue;
      ++waiting[e.to];
      out[e.from].push_back(e.to);
    }
    std::vector<bool> first(boxes_.size());
    for (size_t b = 0; b < boxes_.size(); ++b) {
      boxes_[b].row = 0;
      first[b] = waiting[b] == 0;
      if (first[b]) ready.push_back(b);
    }
    for (size_t i = 0; i < ready.size(); ++i)
      for (const size_t to : out[ready[i]]) {
        boxes_[to].row = std::max(boxes_[to].row, boxes_[ready[i]].row + 1);
        if (--waiting[to] == 0) ready.push_back(to);
      }
    // A box without predecessors stands directly above its first reader.
    for (size_t b = 0; b < boxes_.size(); ++b) {
      if (!first[b] || out[b].empty()) continue;
      size_t row = kNone;
      for (const size_t to : out[b]) row = std::min(row, boxes_[to].row);
      boxes_[b].row = row - 1;
    }
    for (const LayoutBox &b : boxes_) rows_.resize(std::max(rows_.size(), b.row + 1));
  }

  void link(size_t upper, size_t lower) {
    if (std::find(items_[upper].below.begin(), items_[upper].below.end(), lower) != items_[upper].below.end()) return;
    items_[upper].below.push_back(lower);
    items_[lower].above.push_back(upper);
  }

  /// A chain of dummies for each net, down to its last reader.
  void add_items() {
    for (size_t b = 0; b < boxes_.size(); ++b) {
      items_.push_back({b, kNone, boxes_[b].width, 0, {}, {}});
      rows_[boxes_[b].row].push_back(b);
    }
    std::map<std::pair<size_t, size_t>, std::vector<size_t>> chains;  // (net, first box) -> items from there on
    for (const LayoutEdge &e : edges_) {
      const size_t from = boxes_[e.from].row, to = boxes_[e.to].row;
      if (from >= to) continue;
      if (to - from > kLongestNet || items_.size() > boxes_.size() + kMostDummies) {
        direct_.push_back(e);
        continue;
      }
      std::vector<size_t> &chain = chains[{e.net, e.from}];
      if (chain.empty()) chain.push_back(e.from);
      while (chain.size() < to - from) {
        items_.push_back({kNone, e.net, kDummyWidth, 0, {}, {}});
        rows_[from + chain.size()].push_back(items_.size() - 1);
        link(chain.back(), items_.size() - 1);
        chain.push_back(items_.size() - 1);
      }
      link(chain[to - from - 1], e.to);
      link_nets_[{chain[to - from - 1], e.to}].push_back(e.net);
    }
  }

  /// Crossings of the links between a row and the next one: inversions, counted by a Fenwick tree.
  size_t crossings(const std::vector<std::vector<size_t>> &rows) const {
    std::vector<size_t> at(items_.size());
    for (const auto &row : rows)
      for (size_t i = 0; i < row.size(); ++i) at[row[i]] = i;
    size_t count = 0;
    for (size_t r = 0; r + 1 < rows.size(); ++r) {
      std::vector<size_t> tree(rows[r + 1].size() + 1, 0), ends;
      size_t added = 0;
      for (const size_t item : rows[r]) {
        ends.clear();
        for (const size_t to : items_[item].below) ends.push_back(at[to]);
        for (const size_t end : ends) {
          size_t before = 0;
          for (size_t i = end + 1; i > 0; i -= i & (~i + 1)) before += tree[i];
          count += added - before;
        }
        for (const size_t end : ends)
          for (size_t i = end + 1; i < tree.size(); i += i & (~i + 1)) ++tree[i];
        added += ends.size();
      }
    }
    return count;
  }

  void sort_row(std::vector<size_t> &row, std::vector<double> &at, bool down) {
    std::vector<std::pair<double, size_t>> keys;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::vector<size_t> &others = down ? items_[row[i]].above : items_[row[i]].below;
      double sum = 0;
      for (const size_t o : others) sum += at[o];
      keys.emplace_back(others.empty() ? at[row[i]] : sum / static_cast<double>(others.size()), row[i]);
    }
    std::stable_sort(keys.begin(), keys.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    for (size_t i = 0; i < row.size(); ++i) row[i] = keys[i].second;
    number(row, at);
  }

  /// Positions from 0 to 1, so that rows of different lengths compare.
  static void number(const std::vector<size_t> &row, std::vector<double> &at) {
    for (size_t i = 0; i < row.size(); ++i)
      at[row[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
  }

  void order_rows() {
    std::vector<double> at(items_.size());
    for (const auto &row : rows_) number(row, at);
    std::vector<std::vector<size_t>> best = rows_;
    size_t least = crossings(rows_);
    for (int sweep = 0; sweep < kSweeps && least > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t i = 0; i < rows_.size(); ++i) sort_row(rows_[down ? i : rows_.size() - 1 - i], at, down);
      const size_t count = crossings(rows_);
      if (count >= least) continue;
      least = count;
      best = rows_;
    }
    rows_ = std::move(best);
  }

  double distance(const Item &a, const Item &b) const {
    return (a.width + b.width) / 2 + (a.dummy() || b.dummy() ? kDummyGap : kGap);
  }

  /// Moves a row's items as near as possible to where their neighbours want them: least squares with fixed order and
  /// distances, by pooling adjacent violators.
  void place_row(const std::vector<size_t> &row, bool up, bool down) {
    struct Pool {
      double sum, weight;
      size_t count;
    };
    std::vector<Pool> pools;
    std::vector<double> offsets;
    double offset = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const Item &item = items_[row[i]];
      if (i) offset += distance(items_[row[i - 1]], item);
      offsets.push_back(offset);
      double sum = 0, weight = 0;
      const auto add = [&](const std::vector<size_t> &others) {
        for (const size_t o : others) {
          const double w = item.dummy() && items_[o].dummy() ? 8 : item.dummy() || items_[o].dummy() ? 2 : 1;
          sum += w * items_[o].x;
          weight += w;
        }
      };
      if (up) add(item.above);
      if (down) add(item.below);
      if (weight == 0) sum = item.x * (weight = 0.01);
      pools.push_back({sum - weight * offset, weight, 1});
      while (pools.size() > 1) {
        Pool &last = pools.back(), &other = pools[pools.size() - 2];
        if (other.sum / other.weight <= last.sum / last.weight) break;
        other.sum += last.sum;
        other.weight += last.weight;
        other.count += last.count;
        pools.pop_back();
      }
    }
    size_t i = 0;
    for (const Pool &p : pools)
      for (size_t k = 0; k < p.count; ++k, ++i) items_[row[i]].x = p.sum / p.weight + offsets[i];
  }

  void place_items() {
    for (const auto &row : rows_) {
      double x = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        if (i) x += distance(items_[row[i - 1]], items_[row[i]]);
        items_[row[i]].x = x;
      }
      for (const size_t item : row) items_[item].x -= x / 2;
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const bool down = sweep % 2 == 0, both = sweep + 2 >= kSweeps;
      for (size_t i = 0; i < rows_.size(); ++i)
        place_row(rows_[down ? i : rows_.size() - 1 - i], down || both, !down || both);
    }
  }

  Layout result() {
    Layout out;
    double left = 0;
    for (const Item &item : items_) left = std::min(left, item.x - item.width / 2);
    for (Item &item : items_) {
      item.x += kMargin - left;
      out.width = std::max(out.width, item.x + item.width / 2 + kMargin);
    }
    std::vector<double> tops, bottoms;
    double y = kMargin;
    for (const auto &row : rows_) {
      double height = 0;
      for (const size_t item : row)
        if (!items_[item].dummy()) height = std::max(height, boxes_[items_[item].box].height);
      for (const size_t item : row) {
        if (items_[item].dummy()) continue;
        LayoutBox &box = boxes_[items_[item].box];
        box.x = items_[item].x - box.width / 2;
        box.y = y + (height - box.height) / 2;
      }
      tops.push_back(y);
      bottoms.push_back(y + height);
      y += height + kRowGap;
    }
    out.height = y - kRowGap + kMargin;
    add_wires(tops, bottoms, out);
    return out;
  }

  void add_wires(const std::vector<double> &tops, const std::vector<double> &bottoms, Layout &out) const {
    for (size_t r = 0; r < rows_.size(); ++r)
      for (const size_t item : rows_[r]) {
        const Item &upper = items_[item];
        if (upper.dummy()) out.wires.push_back({upper.net, upper.x, tops[r], upper.x, bottoms[r]});
        const double y1 = upper.dummy() ? bottoms[r] : boxes_[upper.box].y + boxes_[upper.box].height;
        for (const size_t to : upper.below) {
          const Item &lower = items_[to];
          const double y2 = lower.dummy() ? tops[r + 1] : boxes_[lower.box].y;
          const auto nets = link_nets_.find({item, to});
          if (lower.dummy() || nets == link_nets_.end()) {
            out.wires.push_back({lower.net, upper.x, y1, lower.x, y2});
            continue;
          }
          for (const size_t net : nets->second) out.wires.push_back({net, upper.x, y1, lower.x, y2});
        }
      }
    for (const LayoutEdge &e : direct_) {
      const LayoutBox &from = boxes_[e.from], &to = boxes_[e.to];
      out.wires.push_back({e.net, from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y});
    }
  }

  std::vector<LayoutBox> &boxes_;
  std::vector<LayoutEdge> edges_;
  std::vector<Item> items_;
  std::vector<std::vector<size_t>> rows_;
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> link_nets_;  ///< nets of the links that end at a box
  std::vector<LayoutEdge> direct_;
};

}  // namespace

Layout lay_out(std::vector<LayoutBox> &boxes, const std::vector<LayoutEdge> &edges) {
  if (boxes.empty()) return {};
  return Layers(boxes, edges).run();
}

}  // namespace npu::npuc
