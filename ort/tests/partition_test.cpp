// SPDX-License-Identifier: MIT
// What makes groups of nodes, against every graph of a few nodes: nothing else would find a way that leads round.
#include "ort/ep/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace npu::ort {
namespace {

using Groups = std::vector<std::vector<size_t>>;

/// Whether the graph still has an order when each group is one node.
bool has_order(const std::vector<PartitionNode> &nodes, const Groups &groups) {
  std::vector<size_t> of(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) of[n] = n;
  for (const auto &group : groups)
    for (size_t n : group) of[n] = group.front();
  std::set<size_t> done;
  for (size_t round = 0; round < nodes.size(); ++round)
    for (size_t at = 0; at < nodes.size(); ++at) {
      bool ready = true;
      for (size_t n = 0; n < nodes.size(); ++n)
        for (size_t p : nodes[n].reads) ready = ready && (of[n] != at || of[p] == at || done.count(of[p]));
      if (ready) done.insert(at);
    }
  return done.size() == nodes.size();
}

/// Whether two groups that one node connects could be one, all others as they are.
bool could_join(const std::vector<PartitionNode> &nodes, Groups groups, size_t a, size_t b) {
  bool connected = false;
  const auto in = [&](size_t n, size_t g) { return std::count(groups[g].begin(), groups[g].end(), n) > 0; };
  for (size_t n = 0; n < nodes.size(); ++n)
    for (size_t p : nodes[n].reads) connected = connected || (in(n, a) && in(p, b)) || (in(n, b) && in(p, a));
  if (!connected) return false;
  groups[a].insert(groups[a].end(), groups[b].begin(), groups[b].end());
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(b));
  return has_order(nodes, groups);
}

TEST(Partition, OfEveryGraphOfFiveNodes) {
  constexpr size_t kNodes = 5, kEdges = kNodes * (kNodes - 1) / 2;
  for (unsigned code = 0; code < 1u << (kNodes + kEdges); ++code) {
    std::vector<PartitionNode> nodes(kNodes);
    unsigned rest = code;
    for (PartitionNode &n : nodes) {
      n.wanted = rest & 1;
      rest >>= 1;
    }
    for (size_t n = 1; n < kNodes; ++n)
      for (size_t p = 0; p < n; ++p, rest >>= 1)
        if (rest & 1) nodes[n].reads.push_back(p);
    const Groups groups = find_groups(nodes);
    std::set<size_t> members;
    for (const auto &group : groups)
      for (size_t n : group) ASSERT_TRUE(nodes[n].wanted && members.insert(n).second) << code;
    ASSERT_EQ(members.size(), static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(),
                                                                [](const PartitionNode &n) { return n.wanted; })));
    ASSERT_TRUE(has_order(nodes, groups)) << code;
    for (size_t a = 0; a < groups.size(); ++a)
      for (size_t b = a + 1; b < groups.size(); ++b) ASSERT_FALSE(could_join(nodes, groups, a, b)) << code;
  }
}

TEST(Partition, AWayThatLeadsRoundSplits) {
  // 0 -> 1 -> 2, 0 -> 2, and 1 is not wanted.
  const Groups groups = find_groups({{{}, true}, {{0}, false}, {{0, 1}, true}});
  EXPECT_EQ(groups, (Groups{{0}, {2}}));
}

TEST(Partition, AllThatIsConnectedIsOne) {
  EXPECT_EQ(find_groups({{{}, true}, {{}, true}, {{0, 1}, true}, {{}, true}}), (Groups{{0, 1, 2}, {3}}));
}

}  // namespace
}  // namespace npu::ort
