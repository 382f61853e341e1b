// SPDX-License-Identifier: MIT
// A folder of compiled networks, for the next session that has the same. Any number of processes may share it.
#ifndef NPU_ORT_CACHE_H
#define NPU_ORT_CACHE_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace npu::ort {

/// The whole file. False: there is none, it is a folder, or it cannot be read.
bool read_file(const std::string &path, std::vector<uint8_t> &out);
/// Replaces the file when all of it has been written.
Status write_file(const std::string &path, const std::vector<uint8_t> &bytes);

class Cache {
 public:
  /// An empty folder: nothing is kept.
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}

  /// Makes the folder; an error where nothing can be written to it.
  Status prepare() const;
  /// The name under which a network is kept that was compiled for `key`.
  std::string entry(const std::string &key, const std::vector<uint8_t> &network) const;
  /// False as well where the file cannot be read, is damaged or has no .bmodel.
  bool find(const std::string &entry, std::vector<uint8_t> &bmodel) const;
  /// What cannot be kept will be compiled again.
  void keep(const std::string &entry, const std::vector<uint8_t> &bmodel) const;

 private:
  std::string folder_;
};

}  // namespace npu::ort

#endif  // NPU_ORT_CACHE_H
