// SPDX-License-Identifier: MIT
// The live view without a terminal: what has been seen, how it is arranged, and what stands in each line.
#ifndef NPU_SMI_VIEW_H
#define NPU_SMI_VIEW_H

#include <deque>
#include <map>

#include "tools/npu-smi/report.h"

namespace npu::smi {

/// How a piece of a line looks; a terminal without colours shows some of them alike.
enum class Style { Plain, Title, Head, Chosen, Faint, Low, Middle, High };

struct Span {
  std::string text;  ///< in the locale's encoding, without control characters
  Style style = Style::Plain;
};
using Line = std::vector<Span>;

/// What graphs are drawn with: anything, half blocks (all that a console's font has), eighths of blocks.
enum class Glyphs { Ascii, Halves, Eighths };
/// By the locale (setlocale() has been called) and the kind of terminal.
Glyphs choose_glyphs(const std::string &terminal);

/// Columns of the processes by which they can be sorted.
enum class Order { Engine, Jobs, CardMemory, SystemMemory, Pid, User, Command, End };

enum class Key { Sort, Reverse, Help, Up, Down, PageUp, PageDown, First, Last, Other };

/// Columns that a text takes in the terminal.
size_t width_of(const std::string &text);
/// Its beginning, as much as there is room for; what cannot be shown is a question mark.
std::string fitting(const std::string &text, size_t columns);

class View {
 public:
  View(std::string title, Glyphs glyphs) : title_(std::move(title)), glyphs_(glyphs) {}

  /// Shows this from now on; the graphs grow by one column.
  void add(const Report &report);
  /// Whether anything has changed.
  bool press(Key key);
  /// At most `rows` lines, each of at most `columns` columns.
  std::vector<Line> lines(size_t rows, size_t columns) const;

 private:
  static constexpr size_t kHistory = 1024;  // values of a graph, more than any terminal has columns
  using History = std::deque<int>;          // percent, the newest last

  struct Graphs {
    std::vector<History> cores;
    History memory;
  };

  Line title(size_t columns) const;
  void add_card(const Card &card, size_t height, size_t columns, std::vector<Line> &lines) const;
  void add_bar(const std::string &name, int percent, const std::string &text, const History *history, size_t height,
               size_t columns, std::vector<Line> &lines) const;
  void add_processes(size_t rows, size_t columns, std::vector<Line> &lines) const;
  std::vector<std::string> graph(const History &history, size_t width, size_t height) const;
  size_t graph_height(size_t rows) const;

  const std::string title_;
  const Glyphs glyphs_;
  Report report_;
  std::map<std::string, Graphs> graphs_;  ///< by card
  Order order_ = Order::Engine;
  bool reversed_ = false;
  bool help_ = false;
  mutable size_t first_ = 0;  ///< process in the first line; no further than there are any
  mutable size_t page_ = 1;   ///< processes that the last screen had room for
};

}  // namespace npu::smi

#endif  // NPU_SMI_VIEW_H
