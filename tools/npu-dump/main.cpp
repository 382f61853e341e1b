// SPDX-License-Identifier: MIT
// npu-dump: what the driver has dumped, readable. Ends with 0, 1 for a dump that is none or cut off (or where there is
// none), 2 for bad usage.
#include <dirent.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/npu-dump/dump.h"

namespace {

constexpr char kUsage[] =
    "usage: npu-dump [FILE]             show a dump; without FILE the one that the kernel has\n"
    "       npu-dump --commands [FILE]  what the job was doing: its commands where each stream stood\n"
    "       npu-dump --raw              the kernel's dump as it is\n"
    "       npu-dump --discard          make room for the next one\n"
    "       npu-dump --version          version of this program\n"
    "       npu-dump --help             this text\n";
constexpr char kFolder[] = "/sys/class/devcoredump";

int fail(const std::string &file, const char *what) {
  std::fprintf(stderr, "npu-dump: %s: %s\n", file.c_str(), what);
  return 1;
}

bool read(const std::string &name, std::string &text) {
  std::ifstream in(name, std::ios::binary);
  if (!in) return false;
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) {
    errno = EISDIR;
    return false;  // reading from it would throw
  }
  text.assign(std::istreambuf_iterator<char>(in), {});
  return !in.bad();
}

/// The file of a dump of ours that the kernel keeps; empty where there is none.
std::string find_dump() {
  DIR *folder = opendir(kFolder);
  std::string found, text;
  while (const dirent *entry = folder ? readdir(folder) : nullptr) {
    const std::string name = std::string(kFolder) + "/" + entry->d_name + "/data";
    if (entry->d_name[0] != '.' && read(name, text) && text.starts_with("npu-coredump ")) found = name;
  }
  if (folder) closedir(folder);
  return found;
}

int show(const std::string &name, bool raw, npu::dump::Part part) {
  std::string text, readable;
  if (!read(name, text)) return fail(name, std::strerror(errno));
  const npu::Status decoded = npu::dump::decode(text, readable, part);
  std::fputs((raw ? text : readable).c_str(), stdout);
  return decoded.ok() ? 0 : fail(name, decoded.message().c_str());
}

int discard(const std::string &name) {
  std::ofstream out(name);
  out << '1';
  out.close();
  return out ? 0 : fail(name, std::strerror(errno));
}

}  // namespace

int main(int argc, char **argv) {
  const std::string word = argc == 2 ? argv[1] : "";
  if (word == "--version") {
    std::puts("npu-dump " NPU_VERSION);
    return 0;
  }
  const bool raw = word == "--raw", drop = word == "--discard",
             commands = argc > 1 && !std::strcmp(argv[1], "--commands");
  if (argc > 2 + commands || (word.starts_with("-") && !raw && !drop && !commands)) {
    std::fputs(kUsage, word == "--help" ? stdout : stderr);
    return word == "--help" ? 0 : 2;
  }
  const auto part = commands ? npu::dump::Part::kCommands : npu::dump::Part::kAll;
  const std::string file = argc == 2 + commands && !raw && !drop ? argv[argc - 1] : "";
  if (!file.empty()) return show(file, false, part);
  const std::string name = find_dump();
  if (name.empty()) return fail(kFolder, "there is no dump of an NPU");
  return drop ? discard(name) : show(name, raw, part);
}
