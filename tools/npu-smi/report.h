// SPDX-License-Identifier: MIT
// What npu-smi knows about this machine's cards, and how it tells.
#ifndef NPU_SMI_REPORT_H
#define NPU_SMI_REPORT_H

#include <npu_accel.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/status.h"

namespace npu::smi {

/// A device file that a process has open.
struct Client {
  long pid = 0;
  std::string process;    ///< name, as in /proc/PID/comm
  std::string arguments;  ///< the whole command line, a space between arguments; "" where it is not known
  long uid = -1;          ///< whose process it is; -1: not known
  std::string user;       ///< the user's name, or the number where it has none
  std::string bus;        ///< PCI address of the card; "" where it has none
  uint64_t client = 0;    ///< the driver's number of the file
  uint64_t card_bytes = 0;
  uint64_t system_bytes = 0;
  uint64_t busy_ns = 0;      ///< time that cores were busy with its jobs, all cores together
  uint64_t modelled_ns = 0;  ///< time of the chip itself that these jobs took
  uint64_t submissions = 0;  ///< each of one job or more
  uint64_t jobs = 0;
  uint64_t window_ns = 0;           ///< busy time of the last window
  uint64_t window_modelled_ns = 0;  ///< modelled time of the last window
  uint64_t window_jobs = 0;         ///< jobs of the last window
};

struct Card {
  unsigned int index = 0;
  std::string lost;  ///< why there is nothing to tell (the card went away), "" normally
  std::string transport;
  std::string driver;  ///< "qnpu 1.0.0"
  std::string bus;     ///< "0000:01:00.0", "soc" for a block of a SoC, "" where there is no bus
  std::string chip;    ///< "QNPU1"
  drm_npu_dev_info info{};
  drm_npu_memory_info memory{};
  drm_npu_status_info status{};
  drm_npu_watch_info watch{};  ///< of caches; zero where there is no watch
  int utilisation = -1;        ///< mean of the cores; -1: not known
  std::vector<int> core_util;  ///< of each core in the window: npu_utilisation()
  uint64_t window_jobs = 0;    ///< jobs that all cores have finished in the window
  std::vector<Client> clients;
  int hidden = 0;  ///< open files of other processes that /proc does not show to this user; -1: not known
};

/// The driver hides what others run from this user: no jobs and cycles, busy time in steps of 0.1 s.
inline bool is_coarse(const Card &card) { return card.status.flags & DRM_NPU_STATUS_COARSE; }

struct Report {
  std::vector<Card> cards;
  unsigned int window_ms = 0;  ///< how long was looked
  std::string time;            ///< when that ended: RFC 3339, UTC, milliseconds
};

struct Look {
  int only = -1;                 ///< this card, or all
  unsigned int window_ms = 100;  ///< how long to look: counters are read before and after
  std::function<bool()> stop;    ///< asked now and then; true ends the window early
  bool all_lost = false;         ///< cards of which none answers are a report, too, and no error
};

/// Looks at the cards for a while. A card that goes away meanwhile is in the report as lost. An error:
/// there is no card at all, or nobody may open one.
Status collect(const Look &look, Report &report);

/// Files of the qnpu driver that processes have open, from proc (normally "/proc"). What cannot be read is left out,
/// and *complete is false then.
std::vector<Client> find_clients(const std::string &proc, bool *complete = nullptr);
/// Card::hidden, from the driver's count of open files (0: not known) and the clients of other processes.
int count_hidden(uint32_t files, const std::vector<Client> &clients, bool complete);
/// Fills in process, arguments and user from a folder like /proc/PID.
void describe_process(const std::string &folder, Client &client);

/// One way of telling; the table of them is formats().
struct Format {
  const char *option;  ///< "--json", nullptr for the default
  const char *help;
  std::string (*write)(const Report &report, const std::string &version);
  std::string (*head)();  ///< of a stream of lines, which goes on until it is stopped; nullptr for the others
};
const std::vector<Format> &formats();

/// Columns of --query, as CSV. False: `bad` is none of them.
bool parse_columns(const std::string &list, std::vector<size_t> &columns, std::string &bad);
std::string csv_head(const std::vector<size_t> &columns);
std::string csv(const Report &report, const std::vector<size_t> &columns);
/// A line for each column: name, unit, meaning.
std::string describe_columns();

/// Shows cards and processes in the terminal until q is pressed (view.h). An error: there is no card any more, or no
/// terminal.
Status live(Look look, const std::string &title);

/// Prometheus' text format, version 0.0.4.
std::string metrics(const Report &report, const std::string &version);
/// Serves that over HTTP, on an address like "127.0.0.1:9400", until stop() is true; says on standard error where. A
/// status with code -EINVAL: that is no address.
Status serve(const std::string &address, const std::string &version, const std::function<bool()> &stop);

/// printf to a string.
std::string format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/// What others have chosen, for a terminal: without control characters.
std::string harmless(std::string text);
uint64_t mib(uint64_t bytes);
/// For %llu.
inline unsigned long long ull(uint64_t value) { return value; }
/// "card 0"; a block of a SoC, which is on no card, is "NPU 0".
std::string name_of(const Card &card);
/// What the cache watch has counted, by the driver's names; "" where there is none.
std::string cache_mistakes(const Card &card);
/// Card memory in MiB, with so many digits after the point; "-" where there is none.
std::string card_mib(const Card &card, uint64_t bytes, int digits);
/// "50", or "-" where it is not known.
std::string percent(int value);
/// System memory of all clients; not all of it where some are hidden.
uint64_t system_bytes(const Card &card);
/// "2 open files are not visible to you"; "" where all are.
std::string hidden_text(const Card &card);

}  // namespace npu::smi

#endif  // NPU_SMI_REPORT_H
