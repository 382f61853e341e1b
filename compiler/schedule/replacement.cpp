// SPDX-License-Identifier: MIT
#include "compiler/schedule/replacement.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace npu::compiler {

Status failed(const std::string &what, const std::string &path) {
  return Status::error(-errno, "cannot " + what + " " + path + ": " + std::strerror(errno));
}

Replacement::Replacement(const std::string &file) : file_(file), fd_(create(file, path_)) {}

Replacement::~Replacement() {
  if (!kept_ && fd_.get() >= 0) ::unlink(path_.c_str());
}

Status Replacement::open() const {
  if (fd_.get() < 0) return failed("write into the folder of", file_);
  struct stat old {};
  const bool exists = ::stat(file_.c_str(), &old) == 0;
  if (exists && !(old.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)))
    return Status::error("cannot write " + file_ + ": it is for reading only");
  if (exists && ::access(file_.c_str(), W_OK) != 0) return failed("write", file_);
  if (exists && ::fchmod(fd_.get(), old.st_mode & 07777) != 0) return failed("write", file_);
  if (exists && ::fchown(fd_.get(), old.st_uid, old.st_gid) != 0) errno = 0;  // not everybody may
  return {};
}

Status Replacement::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return failed("write", file_);
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return {};
}

Status Replacement::keep() {
  kept_ = std::rename(path_.c_str(), file_.c_str()) == 0;
  return kept_ ? Status() : failed("write", file_);
}

/// Names of other processes are not waited for: the next one is tried.
int Replacement::create(const std::string &file, std::string &path) {
  int fd = -1;
  for (int i = 0; i < 100 && fd < 0; ++i) {
    path = file + ".new" + std::to_string(::getpid()) + (i ? "-" + std::to_string(i) : "");
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  return fd;
}

}  // namespace npu::compiler
