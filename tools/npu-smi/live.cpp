// SPDX-License-Identifier: MIT
#include <curses.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tools/npu-smi/report.h"

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
    for (const std::string &line : screen(report, title, static_cast<size_t>(LINES), static_cast<size_t>(COLS)))
      mvaddnstr(row++, 0, line.c_str(), COLS);
    refresh();
  }

 private:
  SCREEN *screen_;  ///< nullptr: a terminal that is not known
};

}  // namespace

Status live(Look look, const std::string &title) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    return Status::error("the live view needs a terminal; dmon and --loop write to files");
  Terminal view;
  if (!view.known()) {
    const char *terminal = getenv("TERM");
    return Status::error(std::string("the terminal TERM=") + (terminal ? terminal : "") + " is not known");
  }
  bool end = false;
  Status status;
  Report report;
  look.stop = [&] {
    const int key = getch();
    if (key == KEY_RESIZE) view.show(report, title);
    end = end || key == 'q' || key == 'Q' || key == 3;
    return end;
  };
  const unsigned int window = look.window_ms;
  look.window_ms = 100;  // something to see soon
  while (!end && status.ok()) {
    status = collect(look, report);
    if (status.ok()) view.show(report, title);
    look.window_ms = window;
  }
  return status;
}

}  // namespace npu::smi
