// SPDX-License-Identifier: MIT
// npu-smi: what the cards of this machine are and do, once, again and again, or live.
#include <npu.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "common/command_line.h"
#include "common/standard_output.h"
#include "tools/npu-smi/report.h"

namespace {

using npu::smi::Format;
using npu::smi::Look;
using npu::smi::Report;

constexpr int kNoDevice = 1;
constexpr unsigned int kHeadEvery = 20;  // lines of a stream

const char kTitle[] = "npu-smi " NPU_VERSION;

volatile sig_atomic_t interrupted = 0;

struct Arguments {
  const Format *format = nullptr;  ///< one that was asked for
  std::vector<size_t> columns;     ///< of --query
  int card = -1;
  int loop = -1;       ///< seconds; negative: once
  int count = -1;      ///< of reports; negative: no end
  std::string listen;  ///< address of the exporter; "": it does not serve
  bool live = false, reset = false, no_head = false;
  bool list_columns = false;  ///< --query=help
};

/// A value of --query; returns the expected form, or an empty text.
std::string take_columns(const std::string &value, Arguments &a) {
  std::string bad;
  if (value == "help") return a.list_columns = true, "";
  if (npu::smi::parse_columns(value, a.columns, bad)) return "";
  return "columns with commas between them; there is no column '" + npu::printable(bad) +
         "' (npu-smi --query=help lists them)";
}

/// Returns the reason why arguments do not go together; empty: they do.
std::string check(const Arguments &a, size_t forms) {
  if (forms > 1) return "one of the forms is expected, and " + std::to_string(forms) + " are given";
  if (forms && !a.columns.empty())
    return std::string("--query with ") + (a.live ? "live" : a.format->option) +
           ": --query writes CSV, and one form is expected";
  if (a.reset && a.card < 0) return "--reset needs -i NUMBER, the card to reset";
  if (!a.listen.empty() && (a.live || std::string(a.format->option ? a.format->option : "") != "exporter"))
    return "--listen is for npu-smi exporter";
  if (!a.listen.empty() && a.card >= 0) return "--listen serves all cards: no -i";
  return "";
}

/// The exit status if the program is to end: after --help, --version or a wrong command line.
std::optional<int> parse(int argc, char **argv, Arguments &a) {
  npu::CommandLine line("npu-smi", NPU_VERSION, "[live | dmon | pmon | exporter] [OPTION...]",
                        "Shows the NPUs of this machine, cards or blocks of a SoC: driver, chip, memory, clock, "
                        "temperature, power, utilisation, errors, processes. Without a form: as a table, once.");
  std::deque<bool> chosen;
  line.flag("live", a.live, "the whole screen, until q is pressed; h shows its keys");
  for (const Format &f : npu::smi::formats())
    if (f.option) line.flag(f.option, chosen.emplace_back(), f.help);
  line.value(
      "--query", "COLUMN,...", [&a](const std::string &value) { return take_columns(value, a); },
      "CSV with these columns; --query=help lists them");
  line.flag("--no-head", a.no_head, "no line of heads above CSV, dmon and pmon");
  line.number("-i", "NUMBER", a.card, 0, INT_MAX, "this one only");
  line.number("--loop", "SECONDS", a.loop, 0, INT_MAX / 1000,
              "again and again, with so much time between (live, dmon, pmon: 1)");
  line.number("--count", "N", a.count, 0, INT_MAX, "at most so many times");
  line.text("--listen", "ADDRESS", a.listen,
            "exporter: serves http://ADDRESS/metrics until it is interrupted; ADDRESS is 127.0.0.1:9400, [::1]:9400, "
            "or a port of 127.0.0.1; port 0: any");
  line.flag("--reset", a.reset, "resets a card (with -i; needs root): jobs on its cores are lost, all else stays");
  line.epilog(
      "Exit status: 0, 1 when there is no card or it cannot be used, 2 for a wrong option.\n"
      "NPU_DEVICE=sim shows the simulator's cards, anything else the driver's. NO_COLOR: live without "
      "colours.\ncolumns of --query:\n" +
      npu::smi::describe_columns());
  if (const auto status = line.parse(argc, argv)) return status;
  size_t forms = a.live;
  a.format = &npu::smi::formats().front();
  const std::vector<Format> &formats = npu::smi::formats();
  for (size_t i = 0, option = 0; i < formats.size(); ++i) {
    if (!formats[i].option || !chosen[option++]) continue;
    a.format = &formats[i];
    ++forms;
  }
  if (const std::string wrong = check(a, forms); !wrong.empty()) return line.refuse(wrong);
  return std::nullopt;
}

/// Says what there is; returns whether all cards could tell.
bool tell(const Arguments &a, const Report &report, unsigned int lines) {
  const bool head = !a.no_head && lines % kHeadEvery == 0;
  std::string text;
  if (!a.columns.empty())
    text = (!a.no_head && !lines ? npu::smi::csv_head(a.columns) : "") + npu::smi::csv(report, a.columns);
  else
    text = (head && a.format->head ? a.format->head() : "") + a.format->write(report, NPU_VERSION);
  fputs(text.c_str(), stdout);
  if (npu::written(0, "npu-smi") != 0) exit(1);  // at once: the reason is lost later
  bool all = true;
  for (const npu::smi::Card &card : report.cards) {
    if (card.lost.empty()) continue;
    all = false;
    fprintf(stderr, "npu-smi: %s: %s\n", npu::smi::name_of(card).c_str(), card.lost.c_str());
  }
  return all;
}

int fail(const npu::Status &status) {
  fprintf(stderr, "npu-smi: %s\n", status.message().c_str());
  return kNoDevice;
}

int tell_often(const Arguments &a, Look look) {
  const bool stream = a.format->head != nullptr;
  const int seconds = a.loop >= 0 ? a.loop : stream ? 1 : -1;
  const int count = a.count >= 0 ? a.count : seconds >= 0 ? -1 : 1;
  unsigned int lines = 0;
  bool all = true;
  look.stop = [] { return interrupted != 0; };
  // A stream tells of the time between its lines, all else of a short while.
  if (stream && seconds > 0) look.window_ms = 1000u * static_cast<unsigned int>(seconds);
  for (int i = 0; (count < 0 || i < count) && !interrupted; i++) {
    if (i && !stream && seconds > 0) sleep(static_cast<unsigned int>(seconds));
    Report report;
    if (const npu::Status status = npu::smi::collect(look, report); !status.ok()) return fail(status);
    if (interrupted && i) break;
    all = tell(a, report, lines);
    lines += static_cast<unsigned int>(report.cards.size());
  }
  return all ? 0 : kNoDevice;
}

/// Asks the PCI core for a reset of the card's function.
int reset(int index) {
  Report report;
  const Look now{.only = index, .window_ms = 0, .stop = {}};
  if (const npu::Status status = npu::smi::collect(now, report); !status.ok()) return fail(status);
  const npu::smi::Card &card = report.cards.front();
  const std::string &bus = card.bus, path = "/sys/bus/pci/devices/" + bus + "/reset";
  if (bus.empty() || card.info.bus == DRM_NPU_BUS_PLATFORM) {
    fprintf(stderr, "npu-smi: %s is no PCI card: only these can be reset\n", npu::smi::name_of(card).c_str());
    return kNoDevice;
  }
  std::ofstream file(path);
  file << "1" << std::flush;
  if (!file) {
    fprintf(stderr, "npu-smi: %s: %s\n", path.c_str(), strerror(errno));
    return kNoDevice;
  }
  printf("card %d (%s) was reset\n", index, bus.c_str());
  return 0;
}

/// Whether the simulator's cards are asked for: who is not asked must not show a card that nobody has.
bool simulator_is_asked_for() {
  const char *device = getenv("NPU_DEVICE");
  return device && !strcmp(device, "sim");
}

void stop_at(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };  // without SA_RESTART: it ends what waits
  sigaction(signal, &action, nullptr);
}

int serve(const std::string &address) {
  stop_at(SIGTERM);
  const npu::Status status = npu::smi::serve(address, NPU_VERSION, [] { return interrupted != 0; });
  if (status.ok()) return 0;
  fail(status);
  return status.code() == -EINVAL ? npu::kUsageStatus : kNoDevice;
}

int run(int argc, char **argv) {
  if (!simulator_is_asked_for()) npu_require_transport("drm");
  Arguments a;
  if (const auto status = parse(argc, argv, a)) return *status;
  if (a.list_columns) {
    fputs(npu::smi::describe_columns().c_str(), stdout);
    return 0;
  }
  if (a.reset) return reset(a.card);
  Look look{.only = a.card, .window_ms = 100, .stop = {}};
  if (a.live) {
    look.window_ms = a.loop > 0 ? 1000u * static_cast<unsigned int>(a.loop) : 1000;
    const npu::Status status = npu::smi::live(look, kTitle);
    return status.ok() ? 0 : fail(status);
  }
  stop_at(SIGINT);
  if (!a.listen.empty()) return serve(a.listen);
  return tell_often(a, look);
}

}  // namespace

int main(int argc, char **argv) try {
  return npu::written(run(argc, argv), "npu-smi");
} catch (const std::exception &e) {
  fprintf(stderr, "npu-smi: %s\n", e.what());
  return kNoDevice;
}
