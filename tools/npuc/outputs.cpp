// SPDX-License-Identifier: MIT
#include "tools/npuc/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "compiler/schedule/replacement.h"

namespace npu::npuc {
namespace {

namespace fs = std::filesystem;

/// What may be replaced: a regular file, of which `file` is the path without links, or nothing yet.
bool is_replaced(const std::string &path, std::string &file) {
  std::error_code failed;
  const fs::file_type type = fs::status(path, failed).type();
  if (type == fs::file_type::not_found && fs::symlink_status(path, failed).type() == fs::file_type::not_found) {
    file = path;
    return true;
  }
  if (type != fs::file_type::regular) return false;
  file = fs::canonical(path, failed).string();
  return !failed;
}

/// Devices and pipes are never the same: what is written to them does not get lost.
bool same_file(const std::string &a, const std::string &b) {
  std::string file_a, file_b;
  if (!is_replaced(a, file_a) || !is_replaced(b, file_b)) return false;
  std::error_code ignored;
  return fs::equivalent(file_a, file_b, ignored) ||
         fs::weakly_canonical(fs::absolute(file_a), ignored) == fs::weakly_canonical(fs::absolute(file_b), ignored);
}

Status check_place(const std::string &path) {
  std::string file;
  if (path.empty()) return Status::error("a file to write has a name");
  if (is_replaced(path, file)) return compiler::Replacement(file).open();
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return Status::error("cannot write " + path + ": it is a folder");
  // A link to nothing is written by making what it names.
  if (!fs::exists(path, ignored) || ::access(path.c_str(), W_OK) == 0) return {};
  return Status::error("cannot write " + path + ": " + std::strerror(errno));
}

Status write_in_place(const Output &output) {
  errno = 0;
  std::ofstream file(output.path, std::ios::binary | std::ios::trunc);
  file.write(output.bytes.data(), static_cast<std::streamsize>(output.bytes.size()));
  file.close();
  if (file) return {};
  return Status::error("cannot write " + output.path + (errno ? std::string(": ") + std::strerror(errno) : ""));
}

}  // namespace

Status check_outputs(const std::vector<NamedFile> &outputs, const std::vector<NamedFile> &others) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<NamedFile> rest(outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, outputs.end());
    rest.insert(rest.end(), others.begin(), others.end());
    for (const NamedFile &other : rest)
      if (same_file(outputs[i].path, other.path))
        return Status::error(outputs[i].what + " and " + other.what + " are the same file, " + outputs[i].path);
  }
  for (const NamedFile &output : outputs) NPU_TRY(check_place(output.path).within(output.what));
  return {};
}

Status write_outputs(const std::vector<Output> &outputs) {
  std::vector<std::unique_ptr<compiler::Replacement>> files;
  for (const Output &output : outputs) {
    std::string file;
    if (!is_replaced(output.path, file)) {
      NPU_TRY(write_in_place(output));
      continue;
    }
    files.push_back(std::make_unique<compiler::Replacement>(file));
    NPU_TRY(files.back()->open());
    NPU_TRY(files.back()->write(output.bytes));
  }
  for (const auto &file : files) NPU_TRY(file->keep());
  return {};
}

}  // namespace npu::npuc
