// SPDX-License-Identifier: MIT
// The live view: cards with bars and graphs, and processes, those that do most first.
#include <langinfo.h>

#include <algorithm>
#include <cstring>
#include <cwchar>
#include <cwctype>
#include <utility>

#include "tools/npu-smi/view.h"

namespace npu::smi {
namespace {

constexpr size_t kNameWidth = 10;   // "  core 0  "
constexpr size_t kLabelWidth = 20;  // " 504 of 504 MiB "
constexpr size_t kMinBar = 10, kMaxBar = 40;
constexpr size_t kMaxGraph = 4;          // rows
constexpr size_t kMinProcesses = 8;      // rows that graphs leave to them
constexpr int kMiddle = 50, kHigh = 85;  // percent

Style style_of(int percent) { return percent >= kHigh ? Style::High : percent >= kMiddle ? Style::Middle : Style::Low; }

/// The next character of a text; an incomplete or wrong one is '?' of one byte.
struct Character {
  size_t bytes = 1;
  size_t width = 1;
  bool shown = false;
};

Character character_at(const std::string &text, size_t at, mbstate_t &state) {
  wchar_t wide = 0;
  const size_t bytes = mbrtowc(&wide, text.data() + at, text.size() - at, &state);
  if (bytes == 0 || bytes == static_cast<size_t>(-1) || bytes == static_cast<size_t>(-2)) {
    state = {};
    return {};
  }
  const int width = wcwidth(wide);
  if (width <= 0 || !iswprint(static_cast<wint_t>(wide))) return {bytes, 1, false};
  return {bytes, static_cast<size_t>(width), true};
}

/// "[########      ]"
std::string bar(int percent, size_t width) {
  const size_t full = static_cast<size_t>(std::clamp(percent, 0, 100)) * width / 100;
  return "[" + std::string(full, '#') + std::string(width - full, ' ') + "]";
}

size_t bar_width(size_t columns) { return std::clamp(columns / 4, kMinBar, kMaxBar); }

std::string padded(const std::string &text, size_t columns) {
  const std::string shown = fitting(text, columns);
  return shown + std::string(columns - width_of(shown), ' ');
}

/// No longer than the terminal is wide.
void cut(Line &line, size_t columns) {
  for (Span &span : line) {
    span.text = fitting(span.text, columns);
    columns -= width_of(span.text);
  }
}

std::string key_of(const Card &card) { return std::to_string(card.index) + " " + card.bus; }

struct Row {
  const Card *card;
  const Client *client;
};

const std::string &command_of(const Client &client) {
  return client.arguments.empty() ? client.process : client.arguments;
}

/// What is greater comes first; of text what is less.
bool comes_before(const Client &a, const Client &b, Order order) {
  switch (order) {
    case Order::Jobs:
      return a.window_jobs > b.window_jobs;
    case Order::CardMemory:
      return a.card_bytes > b.card_bytes;
    case Order::SystemMemory:
      return a.system_bytes > b.system_bytes;
    case Order::Pid:
      return a.pid < b.pid;
    case Order::User:
      return a.user < b.user;
    case Order::Command:
      return command_of(a) < command_of(b);
    default:
      return a.window_ns > b.window_ns;
  }
}

/// A column of the processes, as wide as its head.
struct Column {
  const char *head;
  Order order;
};
const Column kColumns[] = {
    {" NPU", Order::End},
    {"     PID", Order::Pid},
    {"USER    ", Order::User},
    {"card MiB", Order::CardMemory},
    {"sys. MiB", Order::SystemMemory},
    {"  jobs/s", Order::Jobs},
    {" engine %", Order::Engine},
    {"COMMAND", Order::Command},
};

const char *name_of(Order order) {
  for (const Column &column : kColumns)
    if (column.order == order) return column.head + strspn(column.head, " ");
  return "";
}

const char *const kHelp[] = {
    "h, ?                  this help, and back",
    "q                     end",
    "s                     sort processes by the next column",
    "r                     reverse the order",
    "arrows, PgUp, PgDn,   go through the processes",
    "Home, End",
    "",
    "A core's bar is its utilisation: the share of the time since the last look in",
    "which a job was on the core. A graph has a column for each look, newest last,",
    "and is full at 100 %. Memory is that of the card, and what of it is taken.",
    "card MiB, sys. MiB    memory of the process on the card, and of the machine",
    "jobs/s                jobs of the process that ended",
    "engine %              time that cores were busy with its jobs; 100: one core, always",
};

/// What a cell looks like in which one, two, ... steps are filled.
std::vector<std::string> steps_of(Glyphs glyphs) {
  switch (glyphs) {
    case Glyphs::Eighths:
      return {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    case Glyphs::Halves:
      return {"▄", "█"};
    default:
      return {".", ":", "#"};
  }
}

}  // namespace

Glyphs choose_glyphs(const std::string &terminal) {
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) return Glyphs::Ascii;
  return terminal == "linux" ? Glyphs::Halves : Glyphs::Eighths;
}

size_t width_of(const std::string &text) {
  mbstate_t state{};
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at, state);
    width += c.width;
    at += c.bytes;
  }
  return width;
}

std::string fitting(const std::string &text, size_t columns) {
  mbstate_t state{};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at, state);
    if (c.width > columns) break;
    out += c.shown ? text.substr(at, c.bytes) : "?";
    columns -= c.width;
    at += c.bytes;
  }
  return out;
}

void View::add(const Report &report) {
  report_ = report;
  const auto push = [](History &history, int percent) {
    history.push_back(std::max(percent, 0));
    if (history.size() > kHistory) history.pop_front();
  };
  for (const Card &card : report.cards) {
    if (!card.lost.empty()) continue;
    Graphs &graphs = graphs_[key_of(card)];
    graphs.cores.resize(card.core_util.size());
    for (size_t i = 0; i < card.core_util.size(); i++) push(graphs.cores[i], card.core_util[i]);
    const uint64_t total = card.memory.card_total;
    if (total) push(graphs.memory, static_cast<int>(100 * (total - card.memory.card_free) / total));
  }
}

bool View::press(Key key) {
  const size_t none = 0, all = SIZE_MAX / 2;
  if (key == Key::Help) return help_ = !help_, true;
  if (help_) return std::exchange(help_, false);
  switch (key) {
    case Key::Sort:
      order_ = static_cast<Order>(static_cast<int>(order_) + 1);
      if (order_ == Order::End) order_ = Order::Engine;
      return true;
    case Key::Reverse:
      return reversed_ = !reversed_, true;
    case Key::Up:
      return first_ -= std::min<size_t>(first_, 1), true;
    case Key::Down:
      return first_++, true;
    case Key::PageUp:
      return first_ -= std::min(first_, page_), true;
    case Key::PageDown:
      return first_ += page_, true;
    case Key::First:
      return first_ = none, true;
    case Key::Last:
      return first_ = all, true;
    default:
      return false;
  }
}

Line View::title(size_t columns) const {
  const std::string left =
      title_ + format("   h: help  s: sort (%s%s)  q: quit", name_of(order_), reversed_ ? ", reversed" : "");
  const size_t used = width_of(left), time = report_.time.size();
  if (used + time + 2 > columns) return {{padded(left, columns), Style::Title}};
  return {{left + std::string(columns - used - time, ' ') + report_.time, Style::Title}};
}

/// Rows from top to bottom, each as wide as it may be; the newest value is at the right.
std::vector<std::string> View::graph(const History &history, size_t width, size_t height) const {
  const std::vector<std::string> steps = steps_of(glyphs_);
  const int per_cell = static_cast<int>(steps.size()), whole = per_cell * static_cast<int>(height);
  const size_t count = std::min(width, history.size());
  std::vector<std::string> rows(height, std::string(width - count, ' '));
  for (size_t i = history.size() - count; i < history.size(); i++) {
    const int value = std::clamp(history[i], 0, 100);
    // What is not nothing is seen.
    const int filled = value ? std::max(1, (value * whole + 50) / 100) : 0;
    for (size_t row = 0; row < height; row++) {
      const int here = std::min(per_cell, filled - per_cell * static_cast<int>(height - 1 - row));
      rows[row] += here > 0 ? steps[static_cast<size_t>(here - 1)] : " ";
    }
  }
  return rows;
}

void View::add_bar(const std::string &name, int percent, const std::string &text, const History *history, size_t height,
                   size_t columns, std::vector<Line> &lines) const {
  const size_t bar_columns = bar_width(columns);
  Line line = {{padded(name, kNameWidth)}, {bar(percent, bar_columns), style_of(percent)}, {padded(text, kLabelWidth)}};
  const size_t left = kNameWidth + bar_columns + 2 + kLabelWidth;
  if (!history || left >= columns) {
    lines.push_back(std::move(line));
    return;
  }
  for (const std::string &row : graph(*history, columns - left, height)) {
    line.push_back({row, style_of(percent)});
    lines.push_back(std::move(line));
    line = {{std::string(left, ' ')}};
  }
}

void View::add_card(const Card &c, size_t height, size_t columns, std::vector<Line> &lines) const {
  if (!c.lost.empty()) {
    lines.push_back({{name_of(c) + " lost: " + c.lost, Style::High}});
    return;
  }
  const auto found = graphs_.find(key_of(c));
  const Graphs *graphs = found == graphs_.end() ? nullptr : &found->second;
  lines.push_back({{format("%s  %s  %s  %s  %.0f MHz  %.1f C  %.1f W  fan %u rpm", name_of(c).c_str(), c.chip.c_str(),
                           c.bus.empty() ? "-" : c.bus.c_str(), c.driver.c_str(), c.status.clock_khz / 1e3,
                           c.status.temperature_mc / 1e3, c.status.power_mw / 1e3, c.status.fan_rpm),
                    Style::Head}});
  for (size_t i = 0; i < c.core_util.size(); i++)
    add_bar(format("  core %zu", i), c.core_util[i], format(" %3s %%", percent(c.core_util[i]).c_str()),
            graphs && i < graphs->cores.size() ? &graphs->cores[i] : nullptr, height, columns, lines);
  const uint64_t total = c.memory.card_total, used = total - c.memory.card_free;
  if (total)
    add_bar("  memory", static_cast<int>(100 * used / total),
            format(" %llu of %llu MiB", ull(mib(used)), ull(mib(total))), graphs ? &graphs->memory : nullptr, 1,
            columns, lines);
  else
    lines.push_back({{format("  memory  %llu MiB of the system", ull(mib(system_bytes(c))))}});
  const bool errors = c.status.ecc_uncorrected || c.status.aborted_jobs || c.status.core_resets || c.status.resets;
  lines.push_back({{format("  errors  memory %u corrected, %u not; jobs aborted %u; resets: cores %u, all %u",
                           c.status.ecc_corrected, c.status.ecc_uncorrected, c.status.aborted_jobs,
                           c.status.core_resets, c.status.resets),
                    errors                   ? Style::High
                    : c.status.ecc_corrected ? Style::Middle
                                             : Style::Plain}});
  if (const std::string mistakes = cache_mistakes(c); !mistakes.empty()) lines.push_back({{"  " + mistakes}});
}

void View::add_processes(size_t rows, size_t columns, std::vector<Line> &lines) const {
  std::vector<Row> all;
  for (const Card &card : report_.cards)
    for (const Client &client : card.clients) all.push_back({&card, &client});
  std::stable_sort(all.begin(), all.end(), [&](const Row &a, const Row &b) {
    return reversed_ ? comes_before(*b.client, *a.client, order_) : comes_before(*a.client, *b.client, order_);
  });
  Line head;
  for (const Column &column : kColumns) {
    head.push_back({column.head, column.order == order_ ? Style::Chosen : Style::Head});
    head.push_back({" ", Style::Head});
  }
  head.push_back({std::string(columns, ' '), Style::Head});
  lines.push_back(std::move(head));
  bool hidden = false;
  for (const Card &card : report_.cards) {
    const std::string text = hidden_text(card);
    if (!text.empty()) lines.push_back({{format("%4u ", card.index) + text, Style::Faint}});
    hidden = hidden || !text.empty();
  }
  if (all.empty() && !hidden) lines.push_back({{"     no process has an NPU open", Style::Faint}});
  const size_t room = rows > lines.size() ? rows - lines.size() : 0;
  page_ = std::max<size_t>(room, 2) - 1;
  // All of them, or a page and a line that says how many more there are.
  first_ = all.size() <= room ? 0 : std::min(first_, all.size() - page_);
  const double seconds = std::max(report_.window_ms, 1u) / 1e3;
  for (size_t i = first_; i < all.size(); i++) {
    const Client &c = *all[i].client;
    const bool works = c.window_jobs || c.window_ns;
    lines.push_back(
        {{format("%4u %8ld ", all[i].card->index, c.pid)},
         {padded(c.user.empty() ? "-" : c.user, 8)},
         {format(" %8s %8llu %8.0f ", card_mib(*all[i].card, c.card_bytes, 0).c_str(), ull(mib(c.system_bytes)),
                 static_cast<double>(c.window_jobs) / seconds)},
         {format("%9.1f ", static_cast<double>(c.window_ns) / 1e7 / seconds), works ? Style::Low : Style::Plain},
         {command_of(c)}});
  }
}

/// Graphs take what cards and a few processes leave.
size_t View::graph_height(size_t rows) const {
  size_t lines = 2 + kMinProcesses, cores = 0;
  for (const Card &card : report_.cards) {
    lines += 4 + card.core_util.size() + (card.watch.flags & DRM_NPU_WATCH_PRESENT ? 1 : 0);
    cores += card.core_util.size();
  }
  return cores && rows > lines ? std::min(kMaxGraph, 1 + (rows - lines) / cores) : 1;
}

std::vector<Line> View::lines(size_t rows, size_t columns) const {
  std::vector<Line> lines = {title(columns)};
  if (help_) {
    lines.emplace_back();
    for (const char *line : kHelp) lines.push_back({{line}});
  } else {
    const size_t height = graph_height(rows);
    for (const Card &card : report_.cards) {
      add_card(card, height, columns, lines);
      lines.emplace_back();
    }
    add_processes(rows, columns, lines);
  }
  if (lines.size() > rows && rows > 0) {
    const size_t hidden = lines.size() - rows + 1;
    lines.resize(rows - 1);
    lines.push_back({{format("... %zu more lines", hidden), Style::Faint}});
  }
  for (Line &line : lines) cut(line, columns);
  return lines;
}

}  // namespace npu::smi
