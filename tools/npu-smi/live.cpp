// SPDX-License-Identifier: MIT
// The live view in a terminal, by curses.
#include <curses.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "tools/npu-smi/view.h"

namespace npu::smi {
namespace {

constexpr int kControlC = 3;

struct Appearance {
  Style style;
  short color;  ///< COLOR_; -1: the terminal's own
  attr_t attributes;
};

/// A colour is never all that tells styles apart that matter: bars and words say the same.
const Appearance kAppearances[] = {
    {Style::Plain, -1, A_NORMAL},
    {Style::Title, -1, A_REVERSE},
    {Style::Head, COLOR_CYAN, A_BOLD},
    {Style::Chosen, COLOR_CYAN, A_BOLD | A_REVERSE},
    {Style::Faint, -1, A_DIM},
    {Style::Low, COLOR_GREEN, A_NORMAL},
    {Style::Middle, COLOR_YELLOW, A_NORMAL},
    {Style::High, COLOR_RED, A_BOLD},
};

/// https://no-color.org: set and not empty.
bool colors_are_wanted() {
  const char *no = getenv("NO_COLOR");
  return !no || !*no;
}

/// The terminal, for as long as the view is shown.
class Terminal {
 public:
  Terminal() : screen_(newterm(nullptr, stdout, stdin)) {
    if (!screen_) return;
    cbreak();
    noecho();
    curs_set(0);
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    colors_ = colors_are_wanted() && has_colors() && start_color() == OK && use_default_colors() == OK;
    for (const Appearance &a : kAppearances)
      if (colors_ && a.color >= 0) init_pair(pair_of(a.style), a.color, -1);
  }
  ~Terminal() {
    if (!screen_) return;
    endwin();
    delscreen(screen_);
  }
  Terminal(const Terminal &) = delete;
  Terminal &operator=(const Terminal &) = delete;

  bool known() const { return screen_ != nullptr; }

  void show(const View &view) {
    erase();
    int row = 0;
    for (const Line &line : view.lines(static_cast<size_t>(LINES), static_cast<size_t>(COLS))) {
      move(row++, 0);
      for (const Span &span : line) {
        choose(span.style);
        addstr(span.text.c_str());
      }
    }
    refresh();
  }

 private:
  static short pair_of(Style style) { return static_cast<short>(1 + static_cast<int>(style)); }

  void choose(Style style) {
    for (const Appearance &a : kAppearances)
      if (a.style == style) attr_set(a.attributes, colors_ && a.color >= 0 ? pair_of(style) : short{0}, nullptr);
  }

  SCREEN *screen_;  ///< nullptr: a terminal that is not known
  bool colors_ = false;
};

Key key_of(int key) {
  const struct {
    int code;
    Key key;
  } keys[] = {{'s', Key::Sort},       {'r', Key::Reverse},   {'h', Key::Help},         {'?', Key::Help},
              {KEY_UP, Key::Up},      {KEY_DOWN, Key::Down}, {KEY_PPAGE, Key::PageUp}, {KEY_NPAGE, Key::PageDown},
              {KEY_HOME, Key::First}, {KEY_END, Key::Last}};
  for (const auto &k : keys)
    if (k.code == key) return k.key;
  return Key::Other;
}

}  // namespace

Status live(Look look, const std::string &title) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    return Status::error("the live view needs a terminal; dmon and --loop write to files");
  setlocale(LC_CTYPE, "");
  Terminal terminal;
  const char *name = getenv("TERM");
  if (!terminal.known()) return Status::error(std::string("the terminal TERM=") + (name ? name : "") + " is not known");
  View view(title, choose_glyphs(name ? name : ""));
  bool end = false;
  Status status;
  Report report;
  look.stop = [&] {
    bool changed = false;
    for (int key; (key = getch()) != ERR;) {
      end = end || key == 'q' || key == 'Q' || key == kControlC;
      changed = view.press(key_of(key)) || key == KEY_RESIZE || changed;
    }
    if (changed) terminal.show(view);
    return end;
  };
  const unsigned int window = look.window_ms;
  look.window_ms = 100;  // something to see soon
  while (!end && status.ok()) {
    status = collect(look, report);
    if (status.ok()) {
      view.add(report);
      terminal.show(view);
    }
    look.window_ms = window;
  }
  return status;
}

}  // namespace npu::smi
