// SPDX-License-Identifier: MIT
// Which nodes of a graph can run as one, given which can run at all.
#ifndef NPU_ORT_PARTITION_H
#define NPU_ORT_PARTITION_H

#include <cstddef>
#include <vector>

namespace npu::ort {

struct PartitionNode {
  std::vector<size_t> reads;  ///< nodes in front of it
  bool wanted = false;
};

/// Connected groups of wanted nodes, in the order of their first ones. No way leads from a group out of it and back, so
/// each can be replaced by one node.
std::vector<std::vector<size_t>> find_groups(const std::vector<PartitionNode> &nodes);

}  // namespace npu::ort

#endif  // NPU_ORT_PARTITION_H
