// SPDX-License-Identifier: MIT
// What a program can ask about devices.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "../src/private.h"
#include "handle.h"

using namespace npu::bm;

namespace {

int to_mib(uint64_t bytes) { return static_cast<int>(std::min<uint64_t>(bytes >> 20, INT32_MAX)); }

int stat_of(npu_device *device, bm_dev_stat_t *stat) {
  drm_npu_memory_info memory{};
  drm_npu_status_info status{};
  drm_npu_dev_info info{};
  if (int err = npu_device_memory(device, &memory)) return err;
  if (int err = npu_device_status(device, &status)) return err;
  if (int err = npu_device_info(device, &info)) return err;
  *stat = {};
  stat->mem_total = to_mib(memory.card_total);
  stat->mem_used = to_mib(memory.card_total - memory.card_free);
  stat->tpu_util = 100 * std::popcount(status.core_busy) / std::max(1, static_cast<int>(info.cores));
  stat->heap_num = 1;
  stat->heap_stat[0].mem_total = static_cast<unsigned int>(stat->mem_total);
  stat->heap_stat[0].mem_avail = static_cast<unsigned int>(to_mib(memory.card_free));
  stat->heap_stat[0].mem_used = static_cast<unsigned int>(stat->mem_used);
  return 0;
}

int misc_of(npu_device *device, bm_misc_info *misc) {
  drm_npu_dev_info info{};
  int version[3] = {};
  char name[32];
  if (int err = npu_device_info(device, &info)) return err;
  if (int err = npu_private_driver(device, version, name, sizeof(name))) return err;
  *misc = {};
  misc->ddr0a_size = static_cast<long long>(info.ddr_bytes);
  misc->chipid = info.chip_id;
  misc->driver_version = static_cast<unsigned int>(version[0] << 16 | version[1] << 8 | version[2]);
  misc->domain_bdf =
      static_cast<int>(info.pci_domain << 16 | info.pci_bus << 8 | info.pci_device << 3 | info.pci_function);
  misc->board_version = static_cast<int>(info.hw_version);
  return 0;
}

}  // namespace

bm_status_t bm_dev_getcount(int *count) {
  if (!count) return npu_bm_status(fail(-EINVAL, "no place for the number"), __func__);
  const int found = npu_device_count();
  *count = std::max(found, 0);
  return npu_bm_status(std::min(found, 0), __func__);
}

bm_status_t bm_dev_query(int devid) {
  const int found = npu_device_count();
  if (found < 0) return npu_bm_status(found, __func__);
  return devid >= 0 && devid < found ? BM_SUCCESS : BM_ERR_DEVNOTREADY;
}

int bm_get_devid(bm_handle_t handle) {
  const auto h = find(handle);
  return h ? h->devid() : -1;
}

bm_status_t bm_get_stat(bm_handle_t handle, bm_dev_stat_t *stat) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  return npu_bm_status(stat ? stat_of(h->npu(), stat) : fail(-EINVAL, "no place for the answer"), __func__);
}

bm_status_t bm_get_misc_info(bm_handle_t handle, struct bm_misc_info *pmisc_info) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  return npu_bm_status(pmisc_info ? misc_of(h->npu(), pmisc_info) : fail(-EINVAL, "no place for the answer"), __func__);
}

bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid) {
  bm_misc_info misc{};
  if (!p_chipid) return npu_bm_status(fail(-EINVAL, "no place for the answer"), __func__);
  const bm_status_t status = bm_get_misc_info(handle, &misc);
  if (status == BM_SUCCESS) *p_chipid = misc.chipid;
  return status;
}
