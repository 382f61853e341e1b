// SPDX-License-Identifier: MIT
// Launches that come as data: get_bmodel_api_info_c() makes them, bm_send_api() sends them.
#include <cerrno>
#include <cstring>

#include "libnpu/bmlib/handle.h"

using namespace npu::bm;

namespace {

/// A submission's regions, each with a reference of its buffer.
class Regions {
 public:
  Regions() = default;
  ~Regions() {
    for (const npu_job_region &r : list) npu_bo_unref(r.bo);
  }
  Regions(const Regions &) = delete;
  Regions &operator=(const Regions &) = delete;

  int add(npu_device *device, const npu_bm_api_region &r) {
    npu_bo *bo;
    uint64_t offset;
    if (r.reserved) return fail(-EINVAL, "region %zu: its reserved word is not zero", list.size());
    if (int err = npu_bo_find(device, r.address, &bo, &offset)) return err;
    list.push_back({bo, offset, r.bytes, r.access, 0});
    const uint64_t left = npu_bo_size(bo) - offset;
    if (r.bytes == 0 || r.bytes > left)
      return fail(-EINVAL, "region %zu: %llu bytes, the memory has %llu behind its address", list.size() - 1,
                  static_cast<unsigned long long>(r.bytes), static_cast<unsigned long long>(left));
    return 0;
  }

  std::vector<npu_job_region> list;
};

int read_header(int api_id, const unsigned char *api, unsigned int size, npu_bm_api &header) {
  if (api_id != NPU_BM_API_LAUNCH)
    return fail(-EOPNOTSUPP, "not supported: api %d; the chip runs compiled networks only (api %d)", api_id,
                NPU_BM_API_LAUNCH);
  if (!api || size < sizeof(header)) return fail(-EINVAL, "%u bytes are no launch", size);
  std::memcpy(&header, api, sizeof(header));
  if (header.magic != NPU_BM_API_MAGIC) return fail(-EINVAL, "this is not what get_bmodel_api_info_c() made");
  if (size != sizeof(header) + uint64_t{header.stream_count} * sizeof(drm_npu_stream) +
                  uint64_t{header.region_count} * sizeof(npu_bm_api_region))
    return fail(-EINVAL, "%u bytes with %u streams and %u regions", size, header.stream_count, header.region_count);
  return 0;
}

int send(Handle &handle, int api_id, const unsigned char *api, unsigned int size) {
  npu_bm_api header;
  if (int err = read_header(api_id, api, size, header)) return err;
  std::vector<drm_npu_stream> streams(header.stream_count);
  const size_t stream_bytes = streams.size() * sizeof(drm_npu_stream);
  if (stream_bytes) std::memcpy(streams.data(), api + sizeof(header), stream_bytes);
  Regions regions;
  for (uint32_t i = 0; i < header.region_count; i++) {
    npu_bm_api_region r;
    std::memcpy(&r, api + sizeof(header) + stream_bytes + i * sizeof(r), sizeof(r));
    if (int err = regions.add(handle.npu(), r)) return err;
  }
  npu_job_desc job{};
  job.regions = regions.list.data();
  job.region_count = header.region_count;
  job.streams = streams.data();
  job.stream_count = header.stream_count;
  job.core_mask = header.core_mask;
  npu_context *context;
  uint64_t seqno;
  if (int err = handle.thread_context(&context)) return err;
  if (int err = npu_submit(context, &job, 1, &seqno)) return err;
  return handle.record(context, seqno, nullptr, nullptr);
}

}  // namespace

bm_status_t bm_send_api(bm_handle_t handle, int api_id, const unsigned char *api, unsigned int size) {
  const auto h = find(handle);
  return h ? npu_bm_status(send(*h, api_id, api, size), __func__) : bad_handle(__func__);
}

bm_status_t bm_send_api_to_core(bm_handle_t handle, int api_id, const unsigned char *api, unsigned int size,
                                int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_send_api(handle, api_id, api, size) : status;
}

bm_status_t bm_sync_api(bm_handle_t handle) { return bm_thread_sync(handle); }
