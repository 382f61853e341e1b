// SPDX-License-Identifier: MIT
// A device handle and a runtime for each test, and short ways to launch.
#ifndef TEST_RUNTIME_FIXTURE_H
#define TEST_RUNTIME_FIXTURE_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bmlib_internal.h"
#include "bmruntime_interface.h"
#include "npu.h"
#include "tests/unit/runtime/models.h"

namespace test_runtime {

/// Device memory of a test: filled from floats, read back as floats, freed at the end.
class DeviceFloats {
 public:
  DeviceFloats(bm_handle_t handle, const std::vector<float> &values);
  ~DeviceFloats() { bm_free_device(handle_, mem_); }
  DeviceFloats(const DeviceFloats &) = delete;
  DeviceFloats &operator=(const DeviceFloats &) = delete;

  const bm_device_mem_t &mem() const { return mem_; }
  std::vector<float> read() const;
  /// A descriptor of part of it, as programs make them.
  bm_device_mem_t part(unsigned int offset, unsigned int bytes) const;

 private:
  bm_handle_t handle_;
  bm_device_mem_t mem_;
};

bm_tensor_t tensor(const bm_device_mem_t &mem, const std::vector<int> &dims, bm_data_type_t dtype = BM_FLOAT32);
bm_shape_t shape(const std::vector<int> &dims);
std::vector<float> read(bm_handle_t handle, const bm_device_mem_t &mem);

using Floats = std::vector<float>;
Floats plus_each(Floats values, float constant);

bool contains(const std::string &text, const std::string &part);

/// Bytes that this process' tensors, coefficients and commands take: of the card, or of the system if there is none.
uint64_t held_by_process(npu_device *device);
bool has_own_memory(npu_device *device);

class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Loads from memory; false leaves the reason in bmrt_last_error().
  bool load(const std::vector<uint8_t> &bytes);
  /// One input tensor, one output in memory of the caller.
  bool launch(const char *net, const bm_tensor_t &in, bm_tensor_t &out, bool user_mem = true);
  /// Loads the sample and checks that "plus" gives the right result: the device is fit for use.
  void expect_working();
  uint64_t held() const { return held_by_process(device); }

  bm_handle_t handle = nullptr;
  void *p_bmrt = nullptr;
  npu_device *device = nullptr;
};

/// A runtime on two cards: the simulator's, or those of npu-vm --cards 2.
class TwoCards : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  bm_handle_t handles[2] = {};
  void *p_bmrt = nullptr;
};

}  // namespace test_runtime

#endif  // TEST_RUNTIME_FIXTURE_H
