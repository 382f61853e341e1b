// SPDX-License-Identifier: MIT
#include "compiler/api/dump.h"

#include <fstream>

#include "compiler/graph/print.h"

namespace npu::compiler {
namespace {

Status write_text(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  return file.flush() ? Status() : Status::error("cannot write " + path);
}

}  // namespace

Status dump(const graph::Graph &g, const Options &options, size_t number, const std::string &name) {
  if (options.dump_folder.empty()) return {};
  const std::string path = options.dump_folder + "/" + (number < 10 ? "0" : "") + std::to_string(number) + "-" + name;
  NPU_TRY(write_text(path + ".txt", graph::to_text(g, true)));
  return write_text(path + ".dot", graph::to_dot(g, true));
}

}  // namespace npu::compiler
