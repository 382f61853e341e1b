// SPDX-License-Identifier: MIT
#include <npu.h>
#include <npu_regs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "../../libnpu/src/private.h"
#include "report.h"

namespace npu::smi {
namespace {

constexpr unsigned int kSamples = 20;
constexpr unsigned int kSampleUs = 5000;

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
  if (!(info.pci_domain | info.pci_bus | info.pci_device | info.pci_function)) return "";
  snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", info.pci_domain, info.pci_bus, info.pci_device, info.pci_function);
  return text;
}

/// Share of the cores that were at work over a tenth of a second.
int sample_utilisation(npu_device *device, Card &card) {
  unsigned int busy = 0;
  for (unsigned int i = 0; i < kSamples; i++) {
    if (int err = npu_device_status(device, &card.status)) return err;
    busy += static_cast<unsigned int>(std::popcount(card.status.core_busy));
    if (i + 1 < kSamples) usleep(kSampleUs);
  }
  card.utilisation = card.info.cores ? 100 * busy / (kSamples * card.info.cores) : 0;
  return 0;
}

/// A card that only this process can reach: there is no other to ask.
Client myself(const Card &card) {
  Client client;
  client.pid = getpid();
  client.process = "npu-smi";
  client.card_bytes = card.memory.file_card;
  client.system_bytes = card.memory.file_system;
  return client;
}

int collect_card(unsigned int index, const std::vector<Client> &clients, Card &card) {
  npu_device *opened = nullptr;
  if (int err = npu_device_open(index, &opened)) return err;
  const Device device(opened);
  int version[3] = {};
  char driver[64] = "";
  card.index = index;
  card.transport = npu_device_transport(device.get());
  if (int err = npu_private_driver(device.get(), version, driver, sizeof(driver))) return err;
  if (int err = npu_device_info(device.get(), &card.info)) return err;
  if (int err = npu_device_memory(device.get(), &card.memory)) return err;
  card.driver = std::string(driver) + " " + std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
                std::to_string(version[2]);
  card.chip = chip_name(card.info);
  card.bus = bus_name(card.info);
  if (card.bus.empty()) card.clients.push_back(myself(card));
  for (const Client &client : clients)
    if (!card.bus.empty() && client.bus == card.bus) card.clients.push_back(client);
  return sample_utilisation(device.get(), card);
}

}  // namespace

int collect(int only, Report &report, std::string &why) {
  const int count = npu_device_count();
  if (count < 0 || count == 0 || only >= count) {
    // Opening has the sentence for each of these.
    npu_device *device = nullptr;
    const int err = npu_device_open(only < 0 ? 0 : static_cast<unsigned int>(only), &device);
    npu_device_close(device);
    why = npu_last_error();
    return err ? err : -ENODEV;
  }
  // Before our own files are open.
  const std::vector<Client> clients = find_clients("/proc");
  for (int i = 0; i < count; i++) {
    if (only >= 0 && i != only) continue;
    Card card;
    if (int err = collect_card(static_cast<unsigned int>(i), clients, card)) {
      why = npu_last_error();
      return err;
    }
    report.cards.push_back(std::move(card));
  }
  return 0;
}

}  // namespace npu::smi
