// SPDX-License-Identifier: MIT
// What a program can ask about devices.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "libnpu/bmlib/memory.h"
#include "libnpu/src/private.h"

using namespace npu::bm;

namespace {

/// How long the first bm_get_stat() of a handle looks.
constexpr std::chrono::milliseconds kFirstLook{10};

int to_mib(uint64_t bytes) { return static_cast<int>(std::min<uint64_t>(bytes >> 20, INT32_MAX)); }

/// Memory that buffers can be made of.
struct Heap {
  uint64_t total, available;
};

/// A line of /proc/meminfo, in bytes; 0: there is none.
uint64_t meminfo(const std::string &key) {
  std::ifstream file("/proc/meminfo");
  uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == key && file >> kib) return kib << 10;
  return 0;
}

/// The machine's, for a device without memory of its own: what the driver lets new buffers have of it
/// (docs/reference/uapi.md, "Buffers": seven eighths of three quarters), and what of that neither we nor others have.
Heap heap_of_machine(uint64_t ours) {
  const uint64_t total = meminfo("MemTotal:") / 32 * 21;
  return {total, std::min(total - std::min(total, ours), meminfo("MemAvailable:"))};
}

int heap_of(npu_device *device, Heap *heap) {
  drm_npu_memory_info memory{};
  if (int err = npu_device_memory(device, &memory)) return err;
  *heap = memory.card_total ? Heap{memory.card_total, memory.card_free} : heap_of_machine(memory.file_system);
  return 0;
}

/// The mean of the cores' utilisation since the handle was asked before; the first time of a short while.
int utilisation_of(Handle &handle, unsigned int cores, int *percent) {
  std::lock_guard lock(handle.asked_mutex);
  drm_npu_status_info &before = handle.asked, now{};
  if (!before.card_ns) {
    if (int err = npu_device_status(handle.npu(), &before)) return err;
    std::this_thread::sleep_for(kFirstLook);
  }
  if (int err = npu_device_status(handle.npu(), &now)) return err;
  int sum = 0;
  for (unsigned int core = 0; core < cores; core++) sum += std::max(0, npu_utilisation(&before, &now, core));
  *percent = sum / std::max(1, static_cast<int>(cores));
  before = now;
  return 0;
}

int stat_of(Handle &handle, bm_dev_stat_t *stat) {
  npu_device *device = handle.npu();
  drm_npu_dev_info info{};
  Heap heap{};
  int percent = 0;
  if (int err = heap_of(device, &heap)) return err;
  if (int err = npu_device_info(device, &info)) return err;
  if (int err = utilisation_of(handle, info.cores, &percent)) return err;
  *stat = {};
  stat->mem_total = to_mib(heap.total);
  stat->mem_used = to_mib(heap.total - heap.available);
  stat->tpu_util = percent;
  stat->heap_num = 1;
  stat->heap_stat[0].mem_total = static_cast<unsigned int>(stat->mem_total);
  stat->heap_stat[0].mem_avail = static_cast<unsigned int>(to_mib(heap.available));
  stat->heap_stat[0].mem_used = static_cast<unsigned int>(stat->mem_used);
  return 0;
}

int misc_of(npu_device *device, bm_misc_info *misc) {
  drm_npu_dev_info info{};
  int version[3] = {};
  char name[32];
  Heap heap{};
  if (int err = npu_device_info(device, &info)) return err;
  if (int err = heap_of(device, &heap)) return err;
  if (int err = npu_private_driver(device, version, name, sizeof(name))) return err;
  *misc = {};
  misc->pcie_soc_mode = info.bus == DRM_NPU_BUS_PLATFORM;
  misc->ddr0a_size = static_cast<long long>(info.ddr_bytes ? info.ddr_bytes : heap.total);
  misc->chipid = info.chip_id;
  misc->driver_version = static_cast<unsigned int>(version[0] << 16 | version[1] << 8 | version[2]);
  misc->domain_bdf =
      static_cast<int>(info.pci_domain << 16 | info.pci_bus << 8 | info.pci_device << 3 | info.pci_function);
  misc->board_version = static_cast<int>(info.hw_version);
  return 0;
}

int heap_stat_of(npu_device *device, bm_heap_stat_byte_t *stat) {
  drm_npu_dev_info info{};
  Heap heap{};
  if (int err = heap_of(device, &heap)) return err;
  if (int err = npu_device_info(device, &info)) return err;
  *stat = {};
  stat->mem_total = heap.total;
  stat->mem_avail = heap.available;
  stat->mem_used = heap.total - heap.available;
  stat->mem_start_addr = info.va_start;
  return 0;
}

/// Whether memory is ours; then its heap is the only one.
template <typename Descriptor>
bm_status_t heap_id(const char *where, bm_handle_t handle, const Descriptor *pmem, unsigned int *heapid) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!pmem || !heapid) return npu_bm_status(fail(-EINVAL, "no descriptor or no place for the answer"), where);
  Place place;
  const int err = place.find(*h, memory_of(*pmem), 0, 0);
  if (!err) *heapid = 0;
  return npu_bm_status(err, where);
}

bm_status_t no_place(const char *where) { return npu_bm_status(fail(-EINVAL, "no place for the answer"), where); }

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
  return npu_bm_status(stat ? stat_of(*h, stat) : fail(-EINVAL, "no place for the answer"), __func__);
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

bm_status_t bm_get_gmem_total_heap_num(bm_handle_t handle, unsigned int *heap_num) {
  if (!find(handle)) return bad_handle(__func__);
  if (!heap_num) return no_place(__func__);
  *heap_num = 1;
  return BM_SUCCESS;
}

bm_status_t bm_get_gmem_heap_stat_byte_by_id(bm_handle_t handle, bm_heap_stat_byte_t *pheap_byte,
                                             unsigned int heap_id) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!pheap_byte) return no_place(__func__);
  if (heap_id) return npu_bm_status(fail(-EINVAL, "heap %u: there is one, number 0", heap_id), __func__);
  return npu_bm_status(heap_stat_of(h->npu(), pheap_byte), __func__);
}

bm_status_t bm_get_gmem_heap_id(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int *heapid) {
  return heap_id(__func__, handle, pmem, heapid);
}
bm_status_t sg_get_gmem_heap_id(bm_handle_t handle, sg_device_mem_t *pmem, unsigned int *heapid) {
  return heap_id(__func__, handle, pmem, heapid);
}
bm_status_t bm_get_gmem_heap_id_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned int *heapid) {
  return heap_id(__func__, handle, pmem, heapid);
}

bm_status_t bm_get_driver_version(bm_handle_t handle, int *driver_version) {
  bm_misc_info misc{};
  if (!driver_version) return no_place(__func__);
  const bm_status_t status = bm_get_misc_info(handle, &misc);
  if (status == BM_SUCCESS) *driver_version = static_cast<int>(misc.driver_version);
  return status;
}

bm_status_t bm_get_board_name(bm_handle_t handle, char *name) {
  if (!find(handle)) return bad_handle(__func__);
  if (!name) return no_place(__func__);
  constexpr char kName[] = "QNPU1";
  memcpy(name, kName, sizeof(kName));
  return BM_SUCCESS;
}

bm_status_t bm_get_tpu_scalar_num(bm_handle_t handle, unsigned int *core_num) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!core_num) return no_place(__func__);
  drm_npu_dev_info info{};
  const int err = npu_device_info(h->npu(), &info);
  if (!err) *core_num = info.cores;
  return npu_bm_status(err, __func__);
}

bm_status_t bm_get_card_id(bm_handle_t handle, unsigned int *card_id) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!card_id) return no_place(__func__);
  *card_id = static_cast<unsigned int>(h->devid());
  return BM_SUCCESS;
}

bm_status_t bm_get_card_num(unsigned int *card_num) {
  if (!card_num) return no_place(__func__);
  int count = 0;
  const bm_status_t status = bm_dev_getcount(&count);
  *card_num = static_cast<unsigned int>(count);
  return status;
}

bm_status_t bm_get_chip_num_from_card(unsigned int card_id, unsigned int *chip_num, unsigned int *dev_start_index) {
  if (!chip_num || !dev_start_index) return no_place(__func__);
  const int count = npu_device_count();
  if (count < 0) return npu_bm_status(count, __func__);
  if (card_id >= static_cast<unsigned int>(count))
    return npu_bm_status(fail(-EINVAL, "card %u: this machine has %d", card_id, count), __func__);
  *chip_num = 1;
  *dev_start_index = card_id;
  return BM_SUCCESS;
}
