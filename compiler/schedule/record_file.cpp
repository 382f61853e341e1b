// SPDX-License-Identifier: MIT
// The file of records: read, and replaced as a whole by a new one.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/schedule/records.h"

namespace npu::compiler {
namespace {

Status failed(const std::string &what, const std::string &path) {
  return Status::error(-errno, "cannot " + what + " " + path + ": " + std::strerror(errno));
}

/// Holds off others that write into the same folder. The file itself cannot be locked, as it is replaced.
class FolderLock {
 public:
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

  Status take(const std::string &folder) {
    fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) return failed("open", folder);
    int result;
    do {
      result = ::flock(fd_, LOCK_EX);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? failed("lock", folder) : Status();
  }

 private:
  int fd_ = -1;
};

std::string folder_of(const std::string &path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// What does not exist yet begins with a comment.
constexpr const char *kFirstLine = "# Schedules that npuc --optimize has found: docs/compiler.md, \"Search\".\n";

Status read(const std::string &path, bool may_miss, Records &out) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT && may_miss) return out.parse(kFirstLine, path);
  if (!file) return failed("open", path);
  file.peek();  // a folder opens, but cannot be read
  if (file.bad()) return failed("read", path);
  return out.parse({std::istreambuf_iterator<char>(file), {}}, path);
}

}  // namespace

Status read_records(const std::string &path, bool may_miss, Records &out) {
  if (!may_miss) return read(path, false, out);
  // Before a long search it is known whether its result can be kept.
  FolderLock lock;
  NPU_TRY(lock.take(folder_of(path)));
  return read(path, true, out);
}

Status write_record(const std::string &path, const RecordKey &key, const Record &record, const Record *wrong) {
  Records records;
  FolderLock lock;
  NPU_TRY(lock.take(folder_of(path)));
  NPU_TRY(read(path, true, records));
  if (wrong) records.remove(key, *wrong);
  records.add(key, Record(record));
  const std::string text = records.text(), fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const Status status = failed("write", path);
  std::remove(fresh.c_str());
  return status;
}

}  // namespace npu::compiler
