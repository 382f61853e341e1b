// SPDX-License-Identifier: MIT
// Processes with a card open: the drm keys in /proc/PID/fdinfo.
#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "tools/npu-smi/report.h"

namespace npu::smi {
namespace {

namespace fs = std::filesystem;

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// "64 MiB", "5 KiB", "123", "77 ns"
uint64_t number(std::string_view text) {
  uint64_t value = 0;
  text = trim(text);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const std::string_view unit = trim(std::string_view(rest, static_cast<size_t>(text.data() + text.size() - rest)));
  return unit == "KiB" ? value << 10 : unit == "MiB" ? value << 20 : value;
}

using Keys = std::map<std::string, std::string, std::less<>>;

uint64_t sum_of_cores(const Keys &keys, const std::string &prefix) {
  uint64_t sum = 0;
  for (auto at = keys.lower_bound(prefix); at != keys.end() && at->first.starts_with(prefix); ++at)
    sum += number(at->second);
  return sum;
}

/// True when the file belongs to the qnpu driver.
bool read_fdinfo(const fs::path &path, Client &client) {
  std::ifstream in(path);
  Keys keys;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon != line.npos) keys[line.substr(0, colon)] = trim(std::string_view(line).substr(colon + 1));
  }
  if (keys["drm-driver"] != "qnpu") return false;
  client.bus = keys["drm-pdev"];
  client.client = number(keys["drm-client-id"]);
  client.card_bytes = number(keys["drm-resident-card"]);
  client.system_bytes = number(keys["drm-resident-system"]);
  client.busy_ns = sum_of_cores(keys, "drm-engine-core");
  client.modelled_ns = sum_of_cores(keys, "qnpu-modelled-core");
  client.submissions = number(keys["qnpu-submissions"]);
  client.jobs = number(keys["qnpu-jobs"]);
  return true;
}

constexpr size_t kMaxArguments = 4096;  // bytes of a command line

std::string process_name(const fs::path &process) {
  std::ifstream in(process / "comm");
  std::string name;
  std::getline(in, name);
  return name;
}

/// Arguments end with a zero byte each.
std::string process_arguments(const fs::path &process) {
  std::ifstream in(process / "cmdline", std::ios::binary);
  std::string text(kMaxArguments, 0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  while (!text.empty() && !text.back()) text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

/// The effective one: the second number of the line.
long process_uid(const fs::path &process) {
  std::ifstream in(process / "status");
  for (std::string word; in >> word;) {
    long real, effective;
    if (word == "Uid:" && in >> real >> effective) return effective;
  }
  return -1;
}

std::string user_name(long uid) {
  char text[4096];
  passwd entry{}, *found = nullptr;
  if (uid < 0) return "";
  getpwuid_r(static_cast<uid_t>(uid), &entry, text, sizeof(text), &found);
  return found ? found->pw_name : std::to_string(uid);
}

/// False: this user may not look.
bool add_process(const fs::path &process, long pid, std::vector<Client> &clients) {
  std::error_code error;
  const size_t before = clients.size();
  for (const auto &entry : fs::directory_iterator(process / "fdinfo", error)) {
    Client client;
    if (!read_fdinfo(entry.path(), client)) continue;
    // A duplicated descriptor is the same file.
    const bool known = std::any_of(clients.begin() + static_cast<std::ptrdiff_t>(before), clients.end(),
                                   [&](const Client &c) { return c.client == client.client && c.bus == client.bus; });
    if (known) continue;
    client.pid = pid;
    describe_process(process.string(), client);
    clients.push_back(std::move(client));
  }
  // A process that has ended meanwhile has no files.
  return error != std::errc::permission_denied;
}

}  // namespace

void describe_process(const std::string &folder, Client &client) {
  const fs::path process = folder;
  client.process = process_name(process);
  client.arguments = process_arguments(process);
  client.uid = process_uid(process);
  client.user = user_name(client.uid);
}

std::vector<Client> find_clients(const std::string &proc, bool *complete) {
  std::vector<Client> clients;
  std::error_code error;
  bool all = true;
  for (const auto &entry : fs::directory_iterator(proc, error)) {
    const std::string name = entry.path().filename().string();
    long pid = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad == std::errc() && rest == name.data() + name.size()) all = add_process(entry.path(), pid, clients) && all;
  }
  if (complete) *complete = all && !error;
  std::sort(clients.begin(), clients.end(),
            [](const Client &a, const Client &b) { return a.pid != b.pid ? a.pid < b.pid : a.client < b.client; });
  return clients;
}

int count_hidden(uint32_t files, const std::vector<Client> &clients, bool complete) {
  if (!files) return complete ? 0 : -1;
  // Processes can share a file.
  std::set<uint64_t> numbers;
  for (const Client &client : clients) numbers.insert(client.client);
  const size_t own = 1, seen = own + numbers.size();
  return files > seen ? static_cast<int>(files - seen) : 0;
}

}  // namespace npu::smi
