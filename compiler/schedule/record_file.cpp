// SPDX-License-Identifier: MIT
// The file of records: read, and replaced as a whole by a new one.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "compiler/schedule/records.h"

namespace npu::compiler {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  ///< of a file: some hundred thousand records
constexpr auto kLockWait = std::chrono::milliseconds(20);
constexpr int kLockTries = 1500;  ///< half a minute

Status failed(const std::string &what, const std::string &path) {
  return Status::error(-errno, "cannot " + what + " " + path + ": " + std::strerror(errno));
}

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

std::string folder_of(const std::string &path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Holds off others that write into the same folder. The file itself cannot be locked, as it is replaced.
class FolderLock {
 public:
  explicit FolderLock(const std::string &folder)
      : folder_(folder), fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

  Status take() {
    if (fd_.get() < 0) return failed("open", folder_);
    for (int i = 0; i < kLockTries; ++i) {
      if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return {};
      if (errno != EWOULDBLOCK && errno != EINTR) return failed("lock", folder_);
      std::this_thread::sleep_for(kLockWait);
    }
    return Status::error("the folder " + folder_ + " has been locked by another process for half a minute");
  }

 private:
  const std::string folder_;
  const Descriptor fd_;
};

/// What does not exist yet begins with a comment.
constexpr const char *kFirstLine = "# Schedules that npuc --optimize has found: docs/compiler.md, \"Search\".\n";

/// The file itself, where the path is a link to it. What exists has to be a file: something else would be replaced by
/// one, or never end.
Status resolve(const std::string &path, bool may_miss, std::string &file, bool &exists) {
  struct stat found {};
  exists = ::stat(path.c_str(), &found) == 0;
  if (!exists) {
    const bool is_link = std::filesystem::is_symlink(std::filesystem::symlink_status(path));
    file = path;
    return errno == ENOENT && may_miss && !is_link ? Status() : failed("open", path);
  }
  if (!S_ISREG(found.st_mode)) return Status::error(path + " is no file");
  if (static_cast<size_t>(found.st_size) > kMostBytes)
    return Status::error(path + " has " + std::to_string(found.st_size) + " bytes, a file of schedules has at most " +
                         std::to_string(kMostBytes));
  std::error_code error;
  file = std::filesystem::canonical(path, error).string();
  return error ? Status::error("cannot open " + path + ": " + error.message()) : Status();
}

Status read(const std::string &file, const std::string &shown, Records &out) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return failed("open", shown);
  std::string text;
  char piece[1 << 16];
  ssize_t n;
  while ((n = ::read(fd.get(), piece, sizeof piece)) > 0 && text.size() <= kMostBytes)
    text.append(piece, static_cast<size_t>(n));
  return n < 0 ? failed("read", shown) : out.parse(text, shown);
}

bool write_all(int fd, const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return false;
    at += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return true;
}

/// A new file beside another one, with the mode and, as far as that is allowed, the owner of that.
class Replacement {
 public:
  explicit Replacement(const std::string &file) : file_(file), fd_(create(file, path_)) {}
  ~Replacement() {
    if (!kept_ && fd_.get() >= 0) ::unlink(path_.c_str());
  }

  Status open() const {
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

  Status keep(const std::string &text) {
    kept_ = write_all(fd_.get(), text) && std::rename(path_.c_str(), file_.c_str()) == 0;
    return kept_ ? Status() : failed("write", file_);
  }

 private:
  /// Under the folder's lock names of other processes are those of killed ones.
  static int create(const std::string &file, std::string &path) {
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; ++i) {
      path = file + ".new" + std::to_string(::getpid()) + (i ? "-" + std::to_string(i) : "");
      fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
  }

  const std::string file_;
  std::string path_;
  const Descriptor fd_;
  bool kept_ = false;
};

}  // namespace

Status read_records(const std::string &path, bool will_be_written, Records &out) {
  std::string file;
  bool exists;
  NPU_TRY(resolve(path, will_be_written, file, exists));
  // Before a long search it is known whether its result can be kept.
  if (will_be_written) {
    FolderLock lock(folder_of(file));
    NPU_TRY(lock.take());
    NPU_TRY(Replacement(file).open());
  }
  return exists ? read(file, path, out) : out.parse(kFirstLine, path);
}

Status write_record(const std::string &path, const RecordKey &key, const Record &record, const Record *wrong) {
  std::string file;
  bool exists;
  NPU_TRY(resolve(path, true, file, exists));
  FolderLock lock(folder_of(file));
  NPU_TRY(lock.take());
  NPU_TRY(resolve(path, true, file, exists));  // somebody may have made it
  Records records;
  NPU_TRY(exists ? read(file, path, records) : records.parse(kFirstLine, path));
  if (wrong) records.remove(key, *wrong);
  records.add(key, Record(record));
  Replacement fresh(file);
  NPU_TRY(fresh.open());
  return fresh.keep(records.text());
}

}  // namespace npu::compiler
