// SPDX-License-Identifier: MIT
// npu-smi: what the cards of this machine are and do, once, again and again, or live.
#include <npu.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "common/standard_output.h"
#include "tools/npu-smi/report.h"

namespace {

using npu::smi::Format;
using npu::smi::Look;
using npu::smi::Report;

constexpr int kNoDevice = 1;
constexpr int kUsage = 2;
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
  bool live = false, reset = false, head = true, help = false, version = false;
};

std::string help() {
  std::string text =
      "usage: npu-smi [live | dmon | pmon | exporter] [OPTION...]\n"
      "Shows the NPUs of this machine, cards or blocks of a SoC: driver, chip, memory, clock, temperature, power, "
      "utilisation, errors, "
      "processes.\n"
      "  (nothing)          a table, once\n"
      "  live               the whole screen, until q is pressed; h shows its keys\n";
  for (const Format &f : npu::smi::formats())
    if (f.option) text += npu::smi::format("  %-18s %s\n", f.option, f.help);
  return text +
         "  --query=COLUMN,... CSV with these columns; --query=help lists them\n"
         "  --no-head          no line of heads above CSV, dmon and pmon\n"
         "  -i NUMBER          this one only\n"
         "  --loop=SECONDS     again and again, with so much time between (live, dmon, pmon: 1)\n"
         "  --count=N          at most so many times\n"
         "  --listen=ADDRESS   exporter: serves http://ADDRESS/metrics until it is interrupted; ADDRESS is "
         "127.0.0.1:9400, [::1]:9400, or a port of 127.0.0.1; port 0: any\n"
         "  --reset            resets a card (with -i; needs root): jobs on its cores are lost, all else stays\n"
         "  --version          version of this program\n"
         "  --help             this text\n"
         "Exit status: 0, 1 when there is no card or it cannot be used, 2 for a wrong option.\n"
         "NPU_DEVICE=sim shows the simulator's cards, anything else the driver's. NO_COLOR: live without colours.\n";
}

bool parse_number(const char *text, int &value) {
  const char *end = text + strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc() && rest == end && value >= 0;
}

/// The value of "--name=value", or nullptr.
const char *value_of(const char *argument, const char *name) {
  const size_t length = strlen(name);
  return strncmp(argument, name, length) ? nullptr : argument + length;
}

/// One argument without a value of its own.
bool parse_word(const char *word, Arguments &a) {
  for (const Format &format : npu::smi::formats()) {
    if (!format.option || strcmp(word, format.option)) continue;
    a.format = &format;
    return true;
  }
  const struct {
    const char *word;
    bool *flag;
  } flags[] = {{"live", &a.live}, {"--reset", &a.reset}, {"--help", &a.help}, {"--version", &a.version}};
  for (const auto &f : flags)
    if (!strcmp(word, f.word)) return *f.flag = true;
  if (strcmp(word, "--no-head")) return false;
  a.head = false;
  return true;
}

/// The arguments with each option and its value in one: "--count 1" is "--count=1", and "-i 0" is "-i=0".
std::vector<std::string> joined(int argc, char **argv) {
  const std::string_view with_value[] = {"--query", "--loop", "--count", "--listen", "-i"};
  std::vector<std::string> words;
  for (int i = 1; i < argc; i++) {
    words.emplace_back(argv[i]);
    if (i + 1 < argc && std::count(std::begin(with_value), std::end(with_value), argv[i]))
      words.back() += std::string("=") + argv[++i];
  }
  return words;
}

/// Empty, or what is wrong.
std::string parse(int argc, char **argv, Arguments &a) {
  for (const std::string &word : joined(argc, argv)) {
    const char *value;
    std::string bad;
    bool known;
    if ((value = value_of(word.c_str(), "-i="))) {
      known = parse_number(value, a.card);
      if (!known) return std::string("-i ") + value + ": the number of a card is expected, 0 or more\n";
    } else if ((value = value_of(word.c_str(), "--listen=")))
      known = !(a.listen = value).empty();
    else if ((value = value_of(word.c_str(), "--loop="))) {
      known = parse_number(value, a.loop);
      if (!known) return word + ": a number of whole seconds is expected, 0 or more\n";
    } else if ((value = value_of(word.c_str(), "--count="))) {
      known = parse_number(value, a.count);
      if (!known) return word + ": a number of reports is expected, 0 or more\n";
    } else if ((value = value_of(word.c_str(), "--query=")) && strcmp(value, "help")) {
      if (!npu::smi::parse_columns(value, a.columns, bad))
        return "--query: no column '" + bad + "'; the columns are\n" + npu::smi::describe_columns();
      known = true;
    } else if (value)
      known = a.help = true;
    else
      known = parse_word(word.c_str(), a);
    if (!known) return word + ": not understood; see npu-smi --help\n";
  }
  if (a.format && !a.columns.empty())
    return std::string("--query with ") + a.format->option + ": --query writes CSV, and one form is expected\n";
  if (!a.format) a.format = &npu::smi::formats().front();
  if (a.reset && a.card < 0) return "--reset: which card? (-i NUMBER)\n";
  if (!a.listen.empty() && strcmp(a.format->option ? a.format->option : "", "exporter") != 0)
    return "--listen is for npu-smi exporter\n";
  if (!a.listen.empty() && a.card >= 0) return "--listen serves all cards: no -i\n";
  return "";
}

/// Says what there is; returns whether all cards could tell.
bool tell(const Arguments &a, const Report &report, unsigned int lines) {
  const bool head = a.head && lines % kHeadEvery == 0;
  std::string text;
  if (!a.columns.empty())
    text = (a.head && !lines ? npu::smi::csv_head(a.columns) : "") + npu::smi::csv(report, a.columns);
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
  return status.code() == -EINVAL ? kUsage : kNoDevice;
}

int run(int argc, char **argv) {
  if (!simulator_is_asked_for()) npu_require_transport("drm");
  Arguments a;
  if (const std::string wrong = parse(argc, argv, a); !wrong.empty()) {
    fprintf(stderr, "npu-smi: %s", wrong.c_str());
    return kUsage;
  }
  if (a.help || a.version) {
    printf("%s", a.version ? "npu-smi " NPU_VERSION "\n"
                           : (help() + "columns of --query:\n" + npu::smi::describe_columns()).c_str());
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

int main(int argc, char **argv) { return npu::written(run(argc, argv), "npu-smi"); }
