// SPDX-License-Identifier: MIT
// npu-asm: text to commands and back. Ends with 0, 1 for bad input (or a program that text cannot express exactly), 2
// for bad usage.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/command_line.h"
#include "common/standard_output.h"
#include "uapi/hw/asm/assembler.h"

namespace {

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
    std::fprintf(stderr, "npu-asm: %s:%u:%u: %s\n", name, error->line, error->column, error->message.c_str());
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

int run(int argc, char **argv) {
  std::string file, out;
  bool text = false;
  npu::CommandLine line("npu-asm", NPU_VERSION, "FILE -o OUT\n-d FILE",
                        "Assembles commands of the NPU, and disassembles them to standard output.");
  line.operand("FILE", file, "text, or with -d a file of commands");
  npu::Option &output = line.text("-o", "OUT", out, "assemble FILE to OUT");
  npu::Option &disassembles = line.flag("-d", text, "disassemble FILE to standard output").excludes(output);
  if (const auto status = line.parse(argc, argv)) return *status;
  if (!output.given() && !disassembles.given()) return line.refuse("-o OUT or -d is needed");
  return text ? disassemble(file.c_str()) : assemble(file.c_str(), out.c_str());
}

}  // namespace

int main(int argc, char **argv) try {
  return npu::written(run(argc, argv), "npu-asm");
} catch (const std::exception &e) {
  std::fprintf(stderr, "npu-asm: %s\n", e.what());
  return 1;
}
