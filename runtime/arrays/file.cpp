// SPDX-License-Identifier: MIT
#include "runtime/arrays/file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace npu::arrays {

Status read_file(const std::string &path, std::string &out) {
  constexpr size_t kPiece = 1 << 20;
  out.clear();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::error("cannot read " + path + ": it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::error("cannot read " + path + ": " + std::strerror(errno));
  std::vector<char> piece(kPiece);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    out.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  return file.bad() ? Status::error("cannot read " + path) : Status();
}

}  // namespace npu::arrays
