// SPDX-License-Identifier: MIT
// Layered layout of a directed graph: boxes in rows, edges downwards from row to row.
#ifndef NPU_NPUC_LAYOUT_H
#define NPU_NPUC_LAYOUT_H

#include <cstddef>
#include <vector>

namespace npu::npuc {

struct LayoutBox {
  double width = 0, height = 0;
  double x = 0, y = 0;  ///< left and top; results
  size_t row = 0;       ///< result
};

/// Edges of the same net, a tensor with several readers, share their way.
struct LayoutEdge {
  size_t from = 0, to = 0, net = 0;
};

/// A piece of an edge, from one row to the next or through a row.
struct LayoutWire {
  size_t net = 0;
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

struct Layout {
  double width = 0, height = 0;
  std::vector<LayoutWire> wires;
};

/// Sets positions of the boxes. Boxes do not overlap; an edge of an acyclic graph leads to a later row. The same graph
/// has the same layout.
Layout lay_out(std::vector<LayoutBox> &boxes, const std::vector<LayoutEdge> &edges);

}  // namespace npu::npuc

#endif  // NPU_NPUC_LAYOUT_H
