// SPDX-License-Identifier: MIT
// npu-asm: text to commands and back. Ends with 0, 1 for bad input (or a program that text cannot express exactly), 2
// for bad usage.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "uapi/hw/asm/assembler.h"

namespace {

constexpr char kUsage[] =
    "usage: npu-asm FILE -o OUT    assemble FILE to OUT\n"
    "       npu-asm -d FILE        disassemble FILE to standard output\n"
    "       npu-asm --version      version of this program\n"
    "       npu-asm --help         this text\n";

int fail(const char *file, const char *what) {
  std::fprintf(stderr, "npu-asm: %s: %s\n", file, what);
  return 1;
}

bool read(const char *name, std::vector<uint8_t> &bytes) {
  std::ifstream in(name, std::ios::binary);
  if (!in) return false;
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) {
    errno = EISDIR;
    return false;  // reading from it would throw
  }
  bytes.assign(std::istreambuf_iterator<char>(in), {});
  return !in.bad();
}

int assemble(const char *name, const char *out_name) {
  std::vector<uint8_t> text;
  if (!read(name, text)) return fail(name, std::strerror(errno));
  npu::assembly::Program program;
  const auto error = npu::assembly::assemble({reinterpret_cast<const char *>(text.data()), text.size()}, program);
  if (error) {
    std::fprintf(stderr, "%s:%u:%u: %s\n", name, error->line, error->column, error->message.c_str());
    return 1;
  }
  const std::vector<uint8_t> file = to_file(program);
  std::ofstream out(out_name, std::ios::binary);
  out.write(reinterpret_cast<const char *>(file.data()), static_cast<std::streamsize>(file.size()));
  out.close();
  return out ? 0 : fail(out_name, std::strerror(errno));
}

int disassemble(const char *name) {
  std::vector<uint8_t> file;
  if (!read(name, file)) return fail(name, std::strerror(errno));
  npu::assembly::Program program;
  if (const auto error = from_file(file, program)) return fail(name, error->c_str());
  bool exact;
  std::fputs(disassemble(program, exact).c_str(), stdout);
  return exact ? 0 : fail(name, "some commands are not valid: see the comments");
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 4 && !std::strcmp(argv[2], "-o")) return assemble(argv[1], argv[3]);
  if (argc == 4 && !std::strcmp(argv[1], "-o")) return assemble(argv[3], argv[2]);
  if (argc == 3 && !std::strcmp(argv[1], "-d")) return disassemble(argv[2]);
  if (argc == 2 && !std::strcmp(argv[1], "--version")) {
    std::puts("npu-asm " NPU_VERSION);
    return 0;
  }
  const bool help = argc == 2 && !std::strcmp(argv[1], "--help");
  std::fputs(kUsage, help ? stdout : stderr);
  return help ? 0 : 2;
}
