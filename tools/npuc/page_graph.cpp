// SPDX-License-Identifier: MIT
// The network's graph as a drawing: nodes in rows, with operator, name, shape, engine and cycles.
#include <algorithm>
#include <map>
#include <set>

#include "tools/npuc/layout.h"
#include "tools/npuc/page.h"

namespace npu::npuc::page {
namespace {

using compiler::EdgeReport;
using compiler::LayerReport;
using compiler::Report;

constexpr size_t kMostNodes = 10000;  ///< largest drawing
constexpr size_t kLineColumns = 34;   ///< letters of a line, about
// The font of the drawing is monospaced, 11 px; a letter of the fonts named in the style takes at most 6.7 px.
constexpr double kMonoWidth = 6.8, kLine = 15, kSide = 10, kTop = 7, kShareHeight = 4;

/// One box of the drawing.
struct Node {
  size_t layer = EdgeReport::kOutside;  ///< none for an input or output of the network
  std::string kind;                     ///< class of the style
  std::string op, label;                ///< first line; text for search and readers
  std::vector<std::string> lines;       ///< below the first one
  double share = 0;                     ///< part of the network's cycles
  std::set<size_t> in, out;             ///< nets
};

/// Columns of a monospaced font: characters from East Asia take two.
size_t columns(const std::string &text) {
  size_t out = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80) out += byte >= 0xe1 ? 2 : 1;
  }
  return out;
}

/// A name in lines, broken behind its separators where there are some.
void add_lines(const std::string &name, std::vector<std::string> &lines) {
  std::string line, piece;
  const auto end_piece = [&] {
    if (!line.empty() && columns(line) + columns(piece) > kLineColumns) {
      lines.push_back(line);
      line.clear();
    }
    line += piece;
    piece.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    piece += name[i];
    const bool next_is_whole = i + 1 == name.size() || (static_cast<unsigned char>(name[i + 1]) & 0xc0) != 0x80;
    if (!next_is_whole) continue;
    if (std::string_view("/._:- ").find(name[i]) != std::string_view::npos || columns(piece) >= kLineColumns)
      end_piece();
  }
  end_piece();
  if (!line.empty()) lines.push_back(line);
}

std::string type_text(const graph::TensorKind &kind) {
  return std::string(graph::dtype_name(kind.dtype)) + " " + graph::shape_text(kind.shape);
}

class Drawing {
 public:
  explicit Drawing(const Report &r) : report_(r) {}

  std::string text(size_t stage) {
    if (report_.edges.empty()) return "";
    add_nodes();
    if (nodes_.size() > kMostNodes)
      return "<h2>Graph</h2>\n<p class=\"sub\">The graph of " + grouped(nodes_.size()) +
             " nodes is too large for a drawing. The report as JSON has its edges.</p>\n";
    return frame(stage);
  }

 private:
  size_t node_of(size_t layer) {
    const auto [known, fresh] = by_layer_.try_emplace(layer, nodes_.size());
    if (fresh) nodes_.push_back(layer_node(layer));
    return known->second;
  }

  Node layer_node(size_t layer) const {
    const LayerReport &l = report_.layers[layer];
    Node n;
    n.layer = layer;
    n.op = l.type;
    n.kind = l.on_cpu ? "cpu" : l.commands ? "chip" : "free";
    add_lines(l.name, n.lines);
    n.label = l.type + " " + l.name;
    for (const graph::TensorKind &kind : l.outputs) {
      if (&kind - l.outputs.data() < 3) n.lines.push_back(type_text(kind));
      n.label += ", " + type_text(kind);
    }
    if (l.outputs.size() > 3) n.lines.push_back(std::to_string(l.outputs.size()) + " results");
    std::string place = l.where;
    if (l.commands) place += ", " + grouped(l.cycles) + (l.cycles ? " cycles" : " cycles: hidden");
    if (report_.cycles && l.cycles) {
      n.share = static_cast<double>(l.cycles) / static_cast<double>(report_.cycles);
      place += print(", %.1f %%", 100 * n.share);
    }
    add_lines(place, n.lines);
    n.label += ", " + place;
    if (!l.bound().empty()) n.label += ", bound by " + l.bound();
    return n;
  }

  /// An input or output of the network.
  size_t outside(const EdgeReport &e, const char *what) {
    const auto [known, fresh] = outside_.try_emplace({what, e.tensor}, nodes_.size());
    if (!fresh) return known->second;
    Node n;
    n.kind = "outside";
    n.op = what;
    add_lines(e.tensor, n.lines);
    n.lines.push_back(type_text(e.kind));
    n.label = std::string(what) + " " + e.tensor + ", " + type_text(e.kind);
    nodes_.push_back(std::move(n));
    return nodes_.size() - 1;
  }

  void add_nodes() {
    std::map<std::pair<size_t, std::string>, size_t> nets;
    for (const EdgeReport &e : report_.edges) {
      const size_t from = e.from == EdgeReport::kOutside ? outside(e, "input") : node_of(e.from);
      const size_t to = e.to == EdgeReport::kOutside ? outside(e, "output") : node_of(e.to);
      // An output has a name of its own: its line is another net than that of the same tensor's readers.
      const size_t net = nets.try_emplace({from, e.tensor}, nets.size()).first->second;
      edges_.push_back({from, to, net});
      nodes_[from].out.insert(net);
      nodes_[to].in.insert(net);
    }
    for (const Node &n : nodes_) {
      largest_share_ = std::max(largest_share_, n.share);
      size_t most = columns(n.op);
      for (const std::string &line : n.lines) most = std::max(most, columns(line));
      boxes_.push_back({static_cast<double>(most) * kMonoWidth + 2 * kSide,
                        static_cast<double>(n.lines.size() + 1) * kLine + 2 * kTop, 0, 0, 0});
    }
  }

  static std::string numbers(const std::set<size_t> &nets) {
    std::string out;
    for (const size_t net : nets) out += (out.empty() ? "" : " ") + std::to_string(net);
    return out;
  }

  std::string node_text(const Node &n, const LayoutBox &b, bool first) const {
    std::string out = "<g class=\"node " + n.kind + "\" role=\"button\" tabindex=\"" + (first ? "0" : "-1") + "\"";
    out += print(" transform=\"translate(%.1f %.1f)\" data-r=\"%zu\"", b.x, b.y, b.row);
    if (n.layer != EdgeReport::kOutside) out += " data-i=\"" + std::to_string(n.layer) + "\"";
    out += " data-in=\"" + numbers(n.in) + "\" data-out=\"" + numbers(n.out) + "\" aria-label=\"" + escaped(n.label) +
           "\">";
    out += print("<rect class=\"box\" width=\"%.1f\" height=\"%.1f\" rx=\"4\"/>", b.width, b.height);
    if (n.share > 0)
      out += print("<rect class=\"share\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", b.height - kShareHeight,
                   std::max(1.0, b.width * n.share / largest_share_), kShareHeight);
    out +=
        print("<text><tspan class=\"op\" x=\"%.0f\" y=\"%.0f\">", kSide, kTop + kLine - 4) + escaped(n.op) + "</tspan>";
    for (const std::string &line : n.lines)
      out += print("<tspan x=\"%.0f\" dy=\"%.0f\">", kSide, kLine) + escaped(line) + "</tspan>";
    return out + "</text></g>\n";
  }

  static std::string wire_text(const LayoutWire &w) {
    const double middle = (w.y1 + w.y2) / 2;
    if (w.x1 == w.x2)
      return print("<path class=\"w\" data-n=\"%zu\" d=\"M%.1f %.1fV%.1f\"/>\n", w.net, w.x1, w.y1, w.y2);
    return print("<path class=\"w\" data-n=\"%zu\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", w.net, w.x1,
                 w.y1, w.x1, middle, w.x2, middle, w.x2, w.y2);
  }

  static std::string controls() {
    std::string out =
        "<div class=\"tools\"><label>find <input type=\"search\" placeholder=\"name, operator, shape, CPU\"/></label>";
    for (const auto &[action, label] :
         std::initializer_list<std::pair<const char *, const char *>>{{"previous", "previous"}, {"next", "next"}})
      out += "<button type=\"button\" data-do=\"" + std::string(action) + "\">" + label + "</button>";
    out += "<output aria-live=\"polite\"></output>";
    for (const auto &[action, label] : std::initializer_list<std::pair<const char *, const char *>>{
             {"in", "zoom in"}, {"out", "zoom out"}, {"full", "100 %"}, {"fit", "fit"}})
      out += "<button type=\"button\" data-do=\"" + std::string(action) + "\">" + label + "</button>";
    return out + "</div>\n";
  }

  std::string frame(size_t stage) {
    const Layout layout = lay_out(boxes_, edges_);
    std::string out = "<h2>Graph</h2>\n<div class=\"stage-graph\" data-table=\"nodes" + std::to_string(stage) + "\">\n";
    out += controls();
    out += "<div class=\"graph\" role=\"group\" tabindex=\"0\" aria-label=\"graph of the network\">";
    out += print("<svg width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"group\">\n", layout.width,
                 layout.height, layout.width, layout.height);
    for (const LayoutWire &w : layout.wires) out += wire_text(w);
    for (size_t i = 0; i < nodes_.size(); ++i) out += node_text(nodes_[i], boxes_[i], i == 0);
    out +=
        "</svg></div>\n<p class=\"details\" aria-live=\"polite\">Choose a node to see its figures and to mark its "
        "tensors.</p></div>\n";
    out +=
        "<p class=\"sub\">Boxes with a thin border run on the NPU, with a thick one on the CPU; dashed ones need "
        "no command. Bars compare the nodes' cycles. Keys: +, - and 0 zoom, arrows go from node to node; "
        "the wheel zooms with Ctrl.";
    const size_t drawn = by_layer_.size();
    if (drawn < report_.layers.size())
      out += " " + grouped(report_.layers.size() - drawn) +
             " nodes of the table are not drawn: constants, and copies at the borders of parts.";
    return out + "</p>\n";
  }

  const Report &report_;
  double largest_share_ = 0;
  std::vector<Node> nodes_;
  std::vector<LayoutBox> boxes_;
  std::vector<LayoutEdge> edges_;
  std::map<size_t, size_t> by_layer_;
  std::map<std::pair<std::string, std::string>, size_t> outside_;
};

}  // namespace

std::string network_graph(const Report &report, size_t stage) { return Drawing(report).text(stage); }

}  // namespace npu::npuc::page
