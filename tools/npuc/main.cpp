// SPDX-License-Identifier: MIT
// npuc: compiles an ONNX network to a .bmodel.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "npuc.h"
#include "text.h"

namespace {

using npu::Status;

struct Arguments {
  std::string model, output, lmem = "8M", name, asm_file;
  std::vector<std::string> shapes;
  bool quiet = false;
};

int fail(const std::string &message) {
  std::fprintf(stderr, "npuc: %s\n", message.c_str());
  return 1;
}

Status write_file(const std::string &path, const void *data, size_t bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  file.close();
  return file ? Status() : Status::error("cannot write " + path);
}

Status run(const Arguments &args) {
  npu::compiler::Options options;
  options.name = args.name;
  if (!npu::compiler::parse_size(args.lmem, options.lmem_bytes))
    return Status::error("--lmem " + args.lmem + ": a size such as 262144, 256K or 8M is expected");
  for (const std::string &s : args.shapes) NPU_TRY(npu::compiler::parse_shape(s, options.shapes));
  npu::compiler::Compiled compiled;
  NPU_TRY(npu::compiler::compile_onnx_file(args.model, options, compiled));
  std::vector<uint8_t> bytes;
  NPU_TRY(npu::compiler::write_bmodel(compiled, bytes));
  NPU_TRY(write_file(args.output, bytes.data(), bytes.size()));
  if (!args.asm_file.empty()) {
    const auto &stage = compiled.net.stages[0];
    const std::string text = npu::compiler::disassemble(stage.tiu, stage.gdma, stage.layers);
    NPU_TRY(write_file(args.asm_file, text.data(), text.size()));
  }
  if (!args.quiet) std::fputs(compiled.report.text().c_str(), stdout);
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  Arguments args;
  CLI::App app("Compiles an ONNX network to a .bmodel for QNPU1.");
  app.add_option("model", args.model, "network, ONNX")->required();
  app.add_option("-o,--output", args.output, "file to write")->required();
  app.add_option("--lmem", args.lmem, "local memory of the card's cores: 64K to 256M")->capture_default_str();
  app.add_option("--name", args.name, "name of the network in the file; else the graph's");
  app.add_option("--shape", args.shapes,
                 "NAME=D0,D1,...: shape of an input whose dimensions the file leaves open; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--dump-asm", args.asm_file, "write the commands as text to this file");
  app.add_flag("-q,--quiet", args.quiet, "no report");
  CLI11_PARSE(app, argc, argv);
  const Status status = run(args);
  return status.ok() ? 0 : fail(status.message());
}
