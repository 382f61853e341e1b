// SPDX-License-Identifier: MIT
#include <npu.h>
#include <npu_regs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "libnpu/src/private.h"
#include "tools/npu-smi/report.h"

namespace npu::smi {
namespace {

/// Between two looks at the keyboard.
constexpr std::chrono::milliseconds kStep{20};

struct Close {
  void operator()(npu_device *device) const { npu_device_close(device); }
};
using Device = std::unique_ptr<npu_device, Close>;

/// "QNPU1" from the identity registers: the ID spells the family, the major version follows.
std::string chip_name(const drm_npu_dev_info &info) {
  std::string name;
  for (int i = 0; i < 4; i++) {
    const char c = static_cast<char>(info.chip_id >> 8 * i);
    name += c >= ' ' && c <= '~' ? c : '?';
  }
  return name + std::to_string(info.hw_version >> 16);
}

std::string bus_name(const drm_npu_dev_info &info) {
  char text[48];
  if (info.bus == DRM_NPU_BUS_PLATFORM) return "soc";
  if (!(info.pci_domain | info.pci_bus | info.pci_device | info.pci_function)) return "";
  snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", info.pci_domain, info.pci_bus, info.pci_device, info.pci_function);
  return text;
}

/// A card that only this process can reach: there is no other to ask.
Client myself(const Card &card) {
  Client client;
  client.pid = getpid();
  describe_process("/proc/self", client);
  client.card_bytes = card.memory.file_card;
  client.system_bytes = card.memory.file_system;
  return client;
}

/// A card that is looked at.
struct Watched {
  Device device;
  Card card;
  drm_npu_status_info before{};  ///< the window
};

unsigned int cores_of(const Card &card) { return std::min<unsigned int>(card.info.cores, DRM_NPU_MAX_CORES); }

uint64_t all_jobs(const Card &card, const drm_npu_status_info &status) {
  uint64_t sum = 0;
  for (unsigned int i = 0; i < cores_of(card); i++) sum += status.jobs[i];
  return sum;
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(since).count() % 1000;
  tm utc{};
  char text[32];
  gmtime_r(&seconds, &utc);
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return format("%s.%03dZ", text, static_cast<int>(rest));
}

int identify(unsigned int index, Watched &w) {
  npu_device *opened = nullptr;
  int version[3] = {};
  char driver[64] = "";
  Card &card = w.card;
  card.index = index;
  if (int err = npu_device_open(index, &opened)) return err;
  w.device.reset(opened);
  card.transport = npu_device_transport(opened);
  if (int err = npu_private_driver(opened, version, driver, sizeof(driver))) return err;
  if (int err = npu_device_info(opened, &card.info)) return err;
  if (int err = npu_device_status(opened, &card.status)) return err;
  card.driver = std::string(driver) + " " + std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
                std::to_string(version[2]);
  card.chip = chip_name(card.info);
  card.bus = bus_name(card.info);
  w.before = card.status;
  return 0;
}

/// Whether an error says that a card is gone or does not answer, and nothing about who asks.
bool is_of_a_card(int err) { return err == -ENODEV || err == -ENXIO || err == -EIO || err == -ETIMEDOUT; }

/// Busy time in steps of 0.1 s needs a longer window to give a percentage.
constexpr unsigned int kCoarseWindowMs = 1000;

/// Waits until the window is over, and reads the counters again; returns how long it was.
unsigned int watch(const Look &look, std::vector<Watched> &cards) {
  using Clock = std::chrono::steady_clock;
  const bool coarse = std::any_of(cards.begin(), cards.end(), [](const Watched &w) { return is_coarse(w.card); });
  const unsigned int window_ms = coarse ? std::max(look.window_ms, kCoarseWindowMs) : look.window_ms;
  const auto begin = Clock::now(), end = begin + std::chrono::milliseconds(window_ms);
  while (Clock::now() < end && !(look.stop && look.stop()))
    std::this_thread::sleep_for(std::min<Clock::duration>(kStep, end - Clock::now()));
  for (Watched &w : cards)
    if (w.card.lost.empty() && npu_device_status(w.device.get(), &w.card.status)) w.card.lost = npu_last_error();
  return static_cast<unsigned int>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count());
}

/// What clients have done since they were seen before.
void subtract(const std::vector<Client> &before, std::vector<Client> &now) {
  for (Client &c : now)
    for (const Client &b : before) {
      if (b.client != c.client || b.bus != c.bus || b.pid != c.pid) continue;
      c.window_ns = c.busy_ns - std::min(b.busy_ns, c.busy_ns);
      c.window_modelled_ns = c.modelled_ns - std::min(b.modelled_ns, c.modelled_ns);
      c.window_jobs = c.jobs - std::min(b.jobs, c.jobs);
    }
}

/// A SoC has one block, and its files name no bus.
bool is_of(const Client &client, const Card &card) {
  return client.bus == (card.info.bus == DRM_NPU_BUS_PLATFORM ? "" : card.bus);
}

/// Files come and go while processes are looked at: one that was open before and afterwards was open meanwhile.
uint32_t files_of(const Watched &w) {
  drm_npu_status_info now{};
  return npu_device_status(w.device.get(), &now) ? w.card.status.files : std::min(w.card.status.files, now.files);
}

void finish(const std::vector<Client> &clients, bool complete, Watched &w) {
  Card &card = w.card;
  if (card.lost.empty() && npu_device_memory(w.device.get(), &card.memory)) card.lost = npu_last_error();
  if (!card.lost.empty()) return;
  // A driver that does not know the question has no watch.
  if (npu_device_watch(w.device.get(), &card.watch)) card.watch = {};
  int sum = 0, known = 0;
  for (unsigned int core = 0; core < cores_of(card); core++) {
    const int util = npu_utilisation(&w.before, &card.status, core);
    card.core_util.push_back(util);
    sum += std::max(util, 0);
    known += util >= 0;
  }
  if (known) card.utilisation = sum / known;
  const uint64_t before = all_jobs(card, w.before), now = all_jobs(card, card.status);
  card.window_jobs = now - std::min(before, now);
  if (card.bus.empty()) card.clients.push_back(myself(card));
  for (const Client &client : clients)
    if (!card.bus.empty() && is_of(client, card) && client.pid != getpid()) card.clients.push_back(client);
  if (!card.bus.empty()) card.hidden = count_hidden(files_of(w), card.clients, complete);
}

}  // namespace

Status collect(const Look &look, Report &report) {
  const int count = npu_device_count();
  if (count <= 0 || look.only >= count) {
    // Opening has the sentence for each of these.
    npu_device *device = nullptr;
    const int err = npu_device_open(look.only < 0 ? 0 : static_cast<unsigned int>(look.only), &device);
    npu_device_close(device);
    return Status::error(err ? err : -ENODEV, npu_last_error());
  }
  const std::vector<Client> before = find_clients("/proc");
  std::vector<Watched> cards;
  Status last;
  for (int i = 0; i < count; i++) {
    if (look.only >= 0 && i != look.only) continue;
    Watched &w = cards.emplace_back();
    if (const int err = identify(static_cast<unsigned int>(i), w)) {
      w.card.lost = npu_last_error();
      last = Status::error(err, w.card.lost);
    }
  }
  const bool lost = std::all_of(cards.begin(), cards.end(), [](const Watched &w) { return !w.card.lost.empty(); });
  if (lost && !(look.all_lost && is_of_a_card(last.code()))) return last;
  report.window_ms = watch(look, cards);
  report.time = rfc3339(std::chrono::system_clock::now());
  bool complete = true;
  std::vector<Client> clients = find_clients("/proc", &complete);
  subtract(before, clients);
  report.cards.clear();
  for (Watched &w : cards) {
    finish(clients, complete, w);
    report.cards.push_back(std::move(w.card));
  }
  return {};
}

}  // namespace npu::smi
