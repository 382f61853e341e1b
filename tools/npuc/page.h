// SPDX-License-Identifier: MIT
// Pieces of the pages that npuc writes: frame, text, numbers, drawings.
#ifndef NPU_NPUC_PAGE_H
#define NPU_NPUC_PAGE_H

#include <cstdio>
#include <string>

#include "compiler/api/npuc.h"

namespace npu::npuc::page {

/// printf into a string of at most 1023 characters.
template <class... T>
std::string print(const char *format, T... args) {
  char text[1024];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

/// A page up to its content, and behind it: the style, and the scripts of tables and graphs, are part of it.
std::string begin_page(const std::string &title);
std::string end_page();

/// Replaces bytes that are no UTF-8.
std::string valid(const std::string &text);
/// Text of a page: valid UTF-8 without control characters, markup and quotes escaped.
std::string escaped(const std::string &text);
/// "1 234 567", with narrow blanks that do not break.
std::string grouped(uint64_t number);
/// "9216 B", "1.5 MiB", "8 MiB"
std::string size_text(uint64_t bytes);
/// Three digits and a prefix: "12.3 M".
std::string short_number(double v);

/// The class of a node's bound in the page's style: "b-compute".
std::string bound_class(const std::string &bound);

/// The network's graph, with zoom and search; empty where the report has none. A node's row is in the table
/// "nodesSTAGE".
std::string network_graph(const compiler::Report &report, size_t stage);

/// MACs a byte against MACs a cycle, with what the chip can do.
std::string roofline(const compiler::Report &report);

/// A drawing in SVG: its size and the margins around what is drawn, in pixels.
struct Frame {
  double width, height, left, right, top, bottom;
};

/// One picture of a memory: addresses against cycles.
struct MapPicture {
  std::string title;
  uint64_t bytes = 0;   ///< of the memory that is shown
  uint64_t cycles = 0;  ///< of the network
};
std::string memory_map(const MapPicture &picture, const std::vector<compiler::HeldReport> &held,
                       const std::vector<compiler::LayerReport> &layers);

/// All pictures of a report.
std::string memory_maps(const compiler::Report &report);

}  // namespace npu::npuc::page

#endif  // NPU_NPUC_PAGE_H
