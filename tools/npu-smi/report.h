// SPDX-License-Identifier: MIT
// What npu-smi knows about this machine's cards, and how it tells.
#ifndef NPU_SMI_REPORT_H
#define NPU_SMI_REPORT_H

#include <npu_accel.h>

#include <cstdint>
#include <string>
#include <vector>

namespace npu::smi {

/// A device file that a process has open.
struct Client {
  long pid = 0;
  std::string process;  ///< name, as in /proc/PID/comm
  std::string bus;      ///< of the card; "" where there is no bus
  uint64_t client = 0;  ///< the driver's number of the file
  uint64_t card_bytes = 0;
  uint64_t system_bytes = 0;
  uint64_t engine_ns = 0;  ///< modelled time
  uint64_t jobs = 0;
};

struct Card {
  unsigned int index = 0;
  std::string transport;
  std::string driver;  ///< "npu 1.0.0"
  std::string bus;     ///< "0000:01:00.0", "" where there is no bus
  std::string chip;    ///< "QNPU1"
  drm_npu_dev_info info{};
  drm_npu_memory_info memory{};
  drm_npu_status_info status{};
  unsigned int utilisation = 0;  ///< percent of the cores at work, sampled
  std::vector<Client> clients;
};

struct Report {
  std::vector<Card> cards;
};

/// Looks at all cards, or at one (only >= 0). Takes a tenth of a second a card. 0, or a negative errno with a sentence
/// in `why`.
int collect(int only, Report &report, std::string &why);

/// Files of the npu driver that processes have open, from proc (normally "/proc"); what cannot be read is left out.
std::vector<Client> find_clients(const std::string &proc);

/// One way of telling; the table of them is formats().
struct Format {
  const char *option;  ///< "--json", nullptr for the default
  std::string (*write)(const Report &report, const std::string &version);
};
const std::vector<Format> &formats();

}  // namespace npu::smi

#endif  // NPU_SMI_REPORT_H
