// SPDX-License-Identifier: MIT
// Reading a model's file by io_uring: what comes short is taken from the mapping.
#include "runtime/launch/memory/upload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kBytes = (5 << 20) + 1234;

/// A file that has only the first `bytes` bytes of the contents, as one that was cut off after it was mapped.
class ShortFile {
 public:
  ShortFile(const std::vector<uint8_t> &contents, size_t bytes) : fd_(mkstemp(path_)) {
    if (fd_ < 0 || write(fd_, contents.data(), bytes) != static_cast<ssize_t>(bytes)) std::abort();
    unlink(path_);
  }
  ~ShortFile() { close(fd_); }
  int fd() const { return fd_; }

 private:
  char path_[32] = "/tmp/npu-upload-XXXXXX";
  const int fd_;
};

TEST(Upload, TakesFromTheMappingWhatAReadDoesNotBring) {
  std::vector<uint8_t> contents(kBytes);
  for (size_t i = 0; i < kBytes; ++i) contents[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  npu_device *device;
  ASSERT_EQ(npu_device_open(0, &device), 0) << npu_last_error();
  setenv("NPU_LOAD", "uring", 1);
  // Nothing, the middle of a chunk, all but a byte, all.
  for (const size_t there : {size_t{0}, (size_t{2} << 20) + 77, kBytes - 1, kBytes}) {
    const ShortFile file(contents, there);
    npu_bo *bo;
    ASSERT_EQ(npu_bo_create(device, kBytes, DRM_NPU_BO_CARD, &bo), 0) << npu_last_error();
    EXPECT_EQ(npurt::upload(bo, 0, contents, {file.fd(), contents}).message(), "");
    std::vector<uint8_t> got(kBytes);
    EXPECT_EQ(npu_read(bo, 0, got.data(), kBytes), 0) << npu_last_error();
    EXPECT_TRUE(got == contents) << there << " bytes in the file";
    npu_bo_unref(bo);
  }
  unsetenv("NPU_LOAD");
  npu_device_close(device);
}

}  // namespace
