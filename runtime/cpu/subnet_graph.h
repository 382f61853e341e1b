// SPDX-License-Identifier: MIT
// Sub-networks for the CPU that are graphs (NPU_CPU_GRAPH), between the tensors of a .bmodel.
#ifndef NPU_CPU_SUBNET_GRAPH_H
#define NPU_CPU_SUBNET_GRAPH_H

#include "runtime/cpu/host_graph.h"

namespace npu::cpu {

/// How a tensor of a graph is stored in a .bmodel: its type by its number of bm_data_type_t, and its shape. Types that
/// a .bmodel does not have (bool, int64, uint64, float64) are stored as bytes (uint8), in one dimension.
struct StoredKind {
  uint32_t bm_type = 0;
  Shape shape;
};
StoredKind stored_kind(const TensorKind &kind);

/// Whether a tensor of a .bmodel holds one of a graph: the same type and number of elements, or as many bytes.
bool holds(const TensorKind &stored, const TensorKind &kind);

/// Reads a graph and checks that it is one between these tensors; data is not looked at.
Status read_subnet_graph(std::span<const uint8_t> bytes, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs, HostGraph &graph);

/// Computes. read_subnet_graph() has passed for these tensors; inputs have their data, outputs get theirs.
Status run_subnet_graph(const HostGraph &graph, std::span<const Tensor> inputs, std::span<Tensor> outputs);

}  // namespace npu::cpu

#endif  // NPU_CPU_SUBNET_GRAPH_H
