// SPDX-License-Identifier: MIT
#include <curses.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "report.h"

namespace npu::smi {
namespace {

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
  }
  ~Terminal() {
    if (!screen_) return;
    endwin();
    delscreen(screen_);
  }
  Terminal(const Terminal &) = delete;
  Terminal &operator=(const Terminal &) = delete;

  bool known() const { return screen_ != nullptr; }

  void show(const Report &report, const std::string &title) {
    erase();
    int row = 0;
    for (const std::string &line :
         screen(report, title, static_cast<size_t>(LINES), static_cast<size_t>(COLS)))
      mvaddnstr(row++, 0, line.c_str(), COLS);
    refresh();
  }

 private:
  SCREEN *screen_;  ///< nullptr: a terminal that is not known
};

}  // namespace

int live(Look look, const std::string &title, std::string &why) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    why = "the live view needs a terminal; dmon and --loop write to files";
    return 1;
  }
  Terminal view;
  if (!view.known()) {
    const char *terminal = getenv("TERM");
    why = std::string("the terminal TERM=") + (terminal ? terminal : "") + " is not known";
    return 1;
  }
  bool end = false;
  int failed = 0;
  Report report;
  look.stop = [&] {
    const int key = getch();
    if (key == KEY_RESIZE) view.show(report, title);
    end = end || key == 'q' || key == 'Q' || key == 3;
    return end;
  };
  const unsigned int window = look.window_ms;
  look.window_ms = 100;  // something to see soon
  while (!end && !failed) {
    failed = collect(look, report, why);
    if (!failed) view.show(report, title);
    look.window_ms = window;
  }
  return failed ? 1 : 0;
}

}  // namespace npu::smi
