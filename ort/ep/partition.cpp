// SPDX-License-Identifier: MIT
#include "ort/ep/partition.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace npu::ort {
namespace {

/// Nodes that have become one are told by one of them, their root.
class Grouping {
 public:
  explicit Grouping(const std::vector<PartitionNode> &nodes)
      : nodes_(nodes), parent_(nodes.size()), members_(nodes.size()), seen_(nodes.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t n = 0; n < nodes.size(); ++n) members_[n] = {n};
  }

  std::vector<std::vector<size_t>> run() {
    for (size_t n = 0; n < nodes_.size(); ++n)
      for (size_t p : nodes_[n].reads)
        if (nodes_[n].wanted && nodes_[p].wanted) join(root(p), root(n));
    std::map<size_t, std::vector<size_t>> found;  // by the first node
    for (size_t n = 0; n < nodes_.size(); ++n) {
      std::vector<size_t> group = members_[n];
      if (group.empty() || !nodes_[n].wanted) continue;
      std::sort(group.begin(), group.end());
      found[group.front()] = std::move(group);
    }
    std::vector<std::vector<size_t>> out;
    for (auto &[first, group] : found) out.push_back(std::move(group));
    return out;
  }

 private:
  size_t root(size_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  void join(size_t a, size_t b) {
    if (a == b || goes_around(a, b) || goes_around(b, a)) return;
    parent_[b] = a;
    members_[a].insert(members_[a].end(), members_[b].begin(), members_[b].end());
    members_[b].clear();
  }

  /// Whether a way leads from one to the other by a third.
  bool goes_around(size_t from, size_t to) {
    ++round_;
    std::vector<size_t> open{to};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (size_t n : members_[at])
        for (size_t p : nodes_[n].reads) {
          const size_t next = root(p);
          if (next == from && at != to) return true;
          if (next == from || next == to || seen_[next] == round_) continue;
          seen_[next] = round_;
          open.push_back(next);
        }
    }
    return false;
  }

  const std::vector<PartitionNode> &nodes_;
  std::vector<size_t> parent_;
  std::vector<std::vector<size_t>> members_;  // of roots
  std::vector<size_t> seen_;                  // in which round
  size_t round_ = 0;
};

}  // namespace

std::vector<std::vector<size_t>> find_groups(const std::vector<PartitionNode> &nodes) { return Grouping(nodes).run(); }

}  // namespace npu::ort
