// SPDX-License-Identifier: MIT
// npu-smi: what the cards of this machine are and do, once.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "report.h"

namespace {

constexpr int kNoDevice = 1;
constexpr int kUsage = 2;

const char kHelp[] =
    "usage: npu-smi [--json] [-i CARD] [--version] [--help]\n"
    "Shows the NPU cards of this machine, once: driver, chip, memory, clock, temperature, power, utilisation, "
    "processes.\n"
    "  --json      for programs\n"
    "  -i CARD     this card only\n"
    "  --version   version of this program\n"
    "Exit status: 0, 1 when there is no card or it cannot be used, 2 for a wrong option.\n"
    "NPU_DEVICE=drm|sim|auto chooses between the driver and the simulator.\n";

struct Arguments {
  const npu::smi::Format *format = &npu::smi::formats().front();
  int card = -1;
  bool help = false;
  bool version = false;
};

bool parse_card(const char *text, int &card) {
  const char *end = text + strlen(text);
  const auto [rest, error] = std::from_chars(text, end, card);
  return error == std::errc() && rest == end && card >= 0;
}

/// False: the option at *bad is not understood.
bool parse(int argc, char **argv, Arguments &arguments, const char **bad) {
  for (int i = 1; i < argc; i++) {
    *bad = argv[i];
    bool known = false;
    for (const auto &format : npu::smi::formats()) {
      if (!format.option || strcmp(argv[i], format.option)) continue;
      arguments.format = &format;
      known = true;
    }
    if (!strcmp(argv[i], "--help")) known = arguments.help = true;
    if (!strcmp(argv[i], "--version")) known = arguments.version = true;
    if (!strcmp(argv[i], "-i") && i + 1 < argc) known = parse_card(argv[++i], arguments.card);
    if (!known) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  const char *bad = nullptr;
  if (!parse(argc, argv, arguments, &bad)) {
    fprintf(stderr, "npu-smi: %s: not understood\n%s", bad, kHelp);
    return kUsage;
  }
  if (arguments.help || arguments.version) {
    printf("%s", arguments.help ? kHelp : "npu-smi " NPU_VERSION "\n");
    return 0;
  }
  npu::smi::Report report;
  std::string why;
  if (npu::smi::collect(arguments.card, report, why)) {
    fprintf(stderr, "npu-smi: %s\n", why.c_str());
    return kNoDevice;
  }
  fputs(arguments.format->write(report, NPU_VERSION).c_str(), stdout);
  return 0;
}
