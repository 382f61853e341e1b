// SPDX-License-Identifier: MIT
// The file of records: read, and replaced as a whole by a new one.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "compiler/schedule/records.h"
#include "compiler/schedule/replacement.h"

namespace npu::compiler {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  ///< of a file: some hundred thousand records
constexpr auto kLockWait = std::chrono::milliseconds(20);
constexpr int kLockTries = 1500;  ///< half a minute

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
constexpr const char *kFirstLine =
    "# Schedules that npuc --optimize has found: docs/reference/compiler.md, \"Search\".\n";

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
  NPU_TRY(fresh.write(records.text()));
  return fresh.keep();
}

}  // namespace npu::compiler
