// SPDX-License-Identifier: MIT
// A file that replaces another one as a whole: nobody ever sees half of it.
#ifndef NPU_COMPILER_REPLACEMENT_H
#define NPU_COMPILER_REPLACEMENT_H

#include <unistd.h>

#include <string>
#include <string_view>

#include "common/status.h"

namespace npu::compiler {

/// An open file or folder.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// "cannot WHAT PATH: " and what errno says.
Status failed(const std::string &what, const std::string &path);

/// A new file beside another one, which need not exist, with the mode and, as far as that is allowed, the owner of
/// that. It is gone with this object unless it is kept.
class Replacement {
 public:
  /// `file` is no link.
  explicit Replacement(const std::string &file);
  Replacement(const Replacement &) = delete;
  Replacement &operator=(const Replacement &) = delete;
  ~Replacement();

  /// Whether it could be made, and may replace the other one.
  Status open() const;
  Status write(std::string_view bytes);
  /// From now on it is the file.
  Status keep();

 private:
  static int create(const std::string &file, std::string &path);

  const std::string file_;
  std::string path_;
  const Descriptor fd_;
  bool kept_ = false;
};

}  // namespace npu::compiler

#endif  // NPU_COMPILER_REPLACEMENT_H
