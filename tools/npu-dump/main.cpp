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

#include "common/command_line.h"
#include "common/standard_output.h"
#include "tools/npu-dump/dump.h"

namespace {

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
    if (entry->d_name[0] != '.' && read(name, text) && text.starts_with("qnpu-coredump ")) found = name;
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

int run(int argc, char **argv) {
  std::vector<std::string> files;
  bool raw = false, drop = false, commands = false;
  npu::CommandLine line("npu-dump", NPU_VERSION, "[--commands] [FILE]\n--raw|--discard",
                        "Shows the dump of a failed job or card: that of FILE, or the one that the kernel has.");
  line.operands("FILE", 1, files, "dump to show; default: the kernel's");
  line.flag("--commands", commands, "show what the job was doing: its commands where each stream stood");
  npu::Option &as_it_is = line.flag("--raw", raw, "print the kernel's dump as it is");
  npu::Option &discards =
      line.flag("--discard", drop, "make room for the kernel's next dump: it keeps one at a time").excludes(as_it_is);
  if (const auto status = line.parse(argc, argv)) return *status;
  if (!files.empty() && (raw || drop))
    return line.refuse((discards.given() ? "--discard is" : "--raw is") +
                       std::string(" for the kernel's dump: no FILE"));
  if (commands && (raw || drop))
    return line.refuse("--commands shows a dump: neither --raw nor --discard goes with it");
  const auto part = commands ? npu::dump::Part::kCommands : npu::dump::Part::kAll;
  if (!files.empty()) return show(files[0], false, part);
  const std::string name = find_dump();
  if (name.empty()) return fail(kFolder, "there is no dump of an NPU");
  return drop ? discard(name) : show(name, raw, part);
}

}  // namespace

int main(int argc, char **argv) try {
  return npu::written(run(argc, argv), "npu-dump");
} catch (const std::exception &e) {
  std::fprintf(stderr, "npu-dump: %s\n", e.what());
  return 1;
}
