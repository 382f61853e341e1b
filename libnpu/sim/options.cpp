// SPDX-License-Identifier: MIT
// The environment's NPU_SIM: "cores=2,lmem=8M,ddr=2G,queues=64,backend=auto,cards=1,check=races", all optional.
#include <npu_regs.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "libnpu/sim/chip.h"
#include "libnpu/sim/host_memory.h"

namespace npu::sim {
namespace {

/// A number with an optional suffix K, M or G.
bool parse_size(std::string_view text, uint64_t &value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  const std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (suffix.empty()) return true;
  if (suffix.size() != 1) return false;
  unsigned shift = 0;
  switch (std::toupper(static_cast<unsigned char>(suffix[0]))) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      return false;
  }
  if (value > UINT64_MAX >> shift) return false;
  value <<= shift;
  return true;
}

struct NumberOption {
  std::string_view key;
  uint64_t low, high, multiple;
  void (*set)(Options &, uint64_t);
};

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMaxCards = 32;

const NumberOption kNumbers[] = {
    {"cores", 1, NPU_MAX_CORES, 1, [](Options &o, uint64_t v) { o.cores = static_cast<uint32_t>(v); }},
    {"queues", 1, NPU_MAX_QUEUES, 1, [](Options &o, uint64_t v) { o.queues = static_cast<uint32_t>(v); }},
    {"cards", 1, kMaxCards, 1, [](Options &o, uint64_t v) { o.cards = static_cast<uint32_t>(v); }},
    {"lmem", kPage, 256 * kMiB, kPage, [](Options &o, uint64_t v) { o.lmem_bytes = static_cast<uint32_t>(v); }},
    {"ddr", 4 * kMiB, 1024 * 1024 * kMiB, kPage, [](Options &o, uint64_t v) { o.ddr_bytes = v; }},
};

Status set_option(std::string_view key, std::string_view value, Options &options) {
  if (key == "backend") {
    options.backend = value;
    return {};
  }
  if (key == "check") {
    options.check_races = value == "races";
    if (options.check_races) return {};
    return Status::error("NPU_SIM: check=" + std::string(value) + ": expected races");
  }
  for (const NumberOption &n : kNumbers) {
    if (key != n.key) continue;
    uint64_t number = 0;
    if (parse_size(value, number) && number >= n.low && number <= n.high && number % n.multiple == 0) {
      n.set(options, number);
      return {};
    }
    return Status::error("NPU_SIM: " + std::string(key) + "=" + std::string(value) + ": expected a number from " +
                         std::to_string(n.low) + " to " + std::to_string(n.high) +
                         (n.multiple > 1 ? ", a multiple of " + std::to_string(n.multiple) : ""));
  }
  return Status::error("NPU_SIM: unknown key \"" + std::string(key) +
                       "\"; there are cores, lmem, ddr, queues, backend, cards, check");
}

}  // namespace

Status parse_options(const char *text, Options &options) {
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string_view value = equals == item.npos ? "" : item.substr(equals + 1);
    NPU_TRY(set_option(item.substr(0, equals), value, options));
  }
  if (options.ddr_bytes == 0) options.ddr_bytes = default_ddr_bytes(host_memory(), options.cards);
  return {};
}

}  // namespace npu::sim
