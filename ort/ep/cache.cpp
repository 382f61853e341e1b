// SPDX-License-Identifier: MIT
#include "ort/ep/cache.h"

#include <bmruntime_interface.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "ort/ep/group.h"

namespace npu::ort {
namespace {

constexpr size_t kDigits = 64;  // of the checksum in front of a .bmodel

}  // namespace

bool read_file(const std::string &path, std::vector<uint8_t> &out) {
  // A folder can be opened, too, and would have a size.
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) return false;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return false;
  const std::streamoff size = file.tellg();
  if (size < 0) return false;
  out.resize(static_cast<size_t>(size));
  file.seekg(0);
  return static_cast<bool>(file.read(reinterpret_cast<char *>(out.data()), size));
}

Status write_file(const std::string &path, const std::vector<uint8_t> &bytes) {
  static thread_local unsigned count = 0;
  const std::string next = path + "." + std::to_string(getpid()) + "." + std::to_string(++count) + "." +
                           std::to_string(reinterpret_cast<uintptr_t>(&count));
  std::ofstream file(next, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(next, path, failed);
  if (file && !failed) return {};
  std::filesystem::remove(next, failed);
  return Status::error("cannot write " + path + ": " + std::strerror(errno));
}

std::string Cache::entry(const std::string &key, const std::vector<uint8_t> &network) const {
  if (folder_.empty()) return {};
  const std::string both = key + digest(network.data(), network.size());
  return folder_ + "/" + digest(both.data(), both.size()) + ".qnpu";
}

bool Cache::find(const std::string &entry, std::vector<uint8_t> &bmodel) const {
  std::vector<uint8_t> bytes;
  if (folder_.empty() || !read_file(entry, bytes) || bytes.size() <= kDigits) return false;
  const std::string sum = digest(bytes.data() + kDigits, bytes.size() - kDigits);
  if (std::memcmp(sum.data(), bytes.data(), kDigits) != 0) return false;
  mem_info_t sizes{};
  if (!bmrt_get_bmodel_data_info(bytes.data() + kDigits, bytes.size() - kDigits, &sizes)) return false;
  bmodel.assign(bytes.begin() + kDigits, bytes.end());
  return true;
}

Status Cache::prepare() const {
  if (folder_.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) return Status::error("option cache=" + folder_ + ": cannot make the folder: " + failed.message());
  if (access(folder_.c_str(), R_OK | W_OK | X_OK) != 0)
    return Status::error("option cache=" + folder_ + ": " + std::strerror(errno));
  return {};
}

void Cache::keep(const std::string &entry, const std::vector<uint8_t> &bmodel) const {
  if (folder_.empty()) return;
  const std::string sum = digest(bmodel.data(), bmodel.size());
  std::vector<uint8_t> bytes(sum.begin(), sum.end());
  bytes.insert(bytes.end(), bmodel.begin(), bmodel.end());
  (void)write_file(entry, bytes);
}

}  // namespace npu::ort
