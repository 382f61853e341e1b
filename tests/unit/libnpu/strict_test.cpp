// SPDX-License-Identifier: MIT
// NPU_CACHE=strict in front of a transport of this test, whose calls last until the test lets them end: while one
// blocks, its context is destroyed and another one gets the same id.
#include "libnpu/src/strict.h"

#include <gtest/gtest.h>
#include <npu_regs.h>

#include <functional>
#include <utility>

#include "libnpu/src/internal.h"

namespace {

std::string told;  // by strict.cpp

}  // namespace

namespace npu {

void tell(int, const char *text) { told += std::string(text) + "\n"; }
int fail(int error, const char *, ...) { return error; }
CopyLane::~CopyLane() = default;  // devices of this test have none
bool copy_reads(const void *, uint32_t, uint64_t) { return false; }

}  // namespace npu

namespace {

constexpr uint32_t kHandle = 5;
constexpr uint64_t kBytes = 4096;

/// The transport: one buffer, and contexts that all have the id 1.
struct Fake {
  uint8_t memory[kBytes] = {};
  npu_fence fence = {};  // shows no end of a job: only calls do
  uint64_t last_job = 0;
  std::function<void()> blocked;  // runs inside the next call that waits
};
Fake fake;

int fake_ioctl(npu_transport_file *, unsigned long request, void *args) {
  switch (request) {
    case DRM_IOCTL_NPU_BO_CREATE:
      static_cast<drm_npu_bo_create *>(args)->handle = kHandle;
      return 0;
    case DRM_IOCTL_NPU_SUBMIT: {
      const auto *submit = static_cast<drm_npu_submit *>(args);
      reinterpret_cast<drm_npu_job *>(static_cast<uintptr_t>(submit->jobs))->seqno = ++fake.last_job;
      return 0;
    }
    case DRM_IOCTL_NPU_CTX_QUERY:
      static_cast<drm_npu_ctx_query *>(args)->completed = fake.last_job;
      break;
    case DRM_IOCTL_NPU_WAIT:
    case DRM_IOCTL_NPU_BO_WAIT:
      break;
    default:
      return 0;
  }
  if (const auto run = std::exchange(fake.blocked, nullptr)) run();
  return 0;
}

npu_transport fake_transport() {
  npu_transport t{};
  t.ioctl = fake_ioctl;
  t.close = [](npu_transport_file *) {};
  t.map = [](npu_transport_file *, uint32_t, uint64_t, uint64_t, void **ptr) { return *ptr = fake.memory, 0; };
  t.unmap = [](npu_transport_file *, uint32_t, void *, uint64_t) {};
  t.ctx_create = [](npu_transport_file *, drm_npu_ctx_create *, npu_transport_context *context) {
    fake.last_job = 0;
    *context = {1, 0, &fake.fence, 1};
    return 0;
  };
  t.ctx_destroy = [](npu_transport_file *, const npu_transport_context *) {};
  return t;
}

class Strict : public testing::TestWithParam<unsigned long> {
 protected:
  Strict() {
    fake = {};
    told.clear();
    device.transport = &inner;
    device.coherent = true;
    npu::make_strict(&device, false);
    drm_npu_bo_create create{};
    create.size = kBytes;
    EXPECT_EQ(ioctl(DRM_IOCTL_NPU_BO_CREATE, &create), 0);
    EXPECT_EQ(device.transport->map(device.file, kHandle, 0, kBytes, &mapping), 0);
    make_context();
  }
  ~Strict() override { device.transport->close(device.file); }

  int ioctl(unsigned long request, void *args) { return device.transport->ioctl(device.file, request, args); }

  void make_context() {
    drm_npu_ctx_create args{};
    EXPECT_EQ(device.transport->ctx_create(device.file, &args, &context), 0);
  }

  /// Submits a job that may write the whole buffer.
  void submit() {
    drm_npu_region region{};
    region.handle = kHandle;
    region.size = kBytes;
    region.access = DRM_NPU_REGION_WRITE;
    drm_npu_job job{};
    job.regions = reinterpret_cast<uintptr_t>(&region);
    job.region_count = 1;
    job.region_stride = sizeof(region);
    drm_npu_submit args{};
    args.ctx_id = context.id;
    args.jobs = reinterpret_cast<uintptr_t>(&job);
    args.job_count = 1;
    args.job_stride = sizeof(job);
    EXPECT_EQ(ioctl(DRM_IOCTL_NPU_SUBMIT, &args), 0);
  }

  /// Waits for job 1 by the call that is tested.
  void wait() {
    drm_npu_wait job{};
    job.ctx_id = context.id;
    job.seqno = 1;
    drm_npu_bo_wait buffer{};
    buffer.handle = kHandle;
    drm_npu_ctx_query query{};
    query.ctx_id = context.id;
    void *const args = GetParam() == DRM_IOCTL_NPU_WAIT      ? static_cast<void *>(&job)
                       : GetParam() == DRM_IOCTL_NPU_BO_WAIT ? static_cast<void *>(&buffer)
                                                             : static_cast<void *>(&query);
    EXPECT_EQ(ioctl(GetParam(), args), 0);
  }

  void unmap() { device.transport->unmap(device.file, kHandle, mapping, kBytes); }

  const npu_transport inner = fake_transport();
  npu_device device{};
  npu_transport_context context{};
  void *mapping = nullptr;
};

TEST_P(Strict, JobThatEndedBelongsToItsContextAndNotToTheNextOneOfTheSameId) {
  submit();
  fake.blocked = [&] {
    device.transport->ctx_destroy(device.file, &context);
    make_context();
    submit();
  };
  wait();
  fake.memory[100] = 1;  // by job 1 of the new context, which still runs
  unmap();
  EXPECT_NE(told.find("written by job 1 of context 1 and never invalidated"), std::string::npos) << told;
  EXPECT_EQ(told.find("by the program"), std::string::npos) << told;
}

TEST_P(Strict, StoresAfterTheEndOfAJobAreThoseOfTheProgram) {
  submit();
  wait();
  fake.memory[100] = 1;
  unmap();
  EXPECT_NE(told.find("written by the program and never flushed"), std::string::npos) << told;
}

INSTANTIATE_TEST_SUITE_P(Calls, Strict,
                         testing::Values(DRM_IOCTL_NPU_WAIT, DRM_IOCTL_NPU_BO_WAIT, DRM_IOCTL_NPU_CTX_QUERY));

}  // namespace
