// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/save_io.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace npurt {

namespace {

std::mutex files_mutex;  // a file is one launch's

Status trouble(const char *file, const std::string &what) {
  return Status::error(std::string("BMRT_SAVE_IO_TENSORS: ") + file + ": " + what);
}

}  // namespace

bool saves_io() {
  const char *value = std::getenv("BMRT_SAVE_IO_TENSORS");
  return value && std::atoi(value) != 0;
}

Status save_io(const char *file, std::span<const Card> cards, std::span<const unsigned> devices,
               const std::vector<TensorInfo> &infos, std::span<const bm_tensor_t> tensors) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t at = bytes.size();
    bytes.resize(at + infos[i].bytes);
    if (bm_memcpy_d2s_partial(cards[devices[i]].handle, bytes.data() + at, tensors[i].device_mem,
                              static_cast<unsigned int>(infos[i].bytes)) != BM_SUCCESS)
      return trouble(file, npu_last_error());
  }
  std::lock_guard lock(files_mutex);
  std::FILE *const out = std::fopen(file, "wb");
  if (!out) return trouble(file, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
  return std::fclose(out) == 0 && written ? Status() : trouble(file, "cannot be written");
}

}  // namespace npurt
