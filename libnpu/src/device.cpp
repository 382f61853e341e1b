// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "libnpu/src/internal.h"
#include "libnpu/src/strict.h"
#include "libnpu/src/transports.h"

namespace npu {
namespace {

/// Open devices of this process, one file each. Never destroyed.
struct Registry {
  Registry();
  std::mutex mutex;
  std::map<unsigned int, npu_device *> open;  // under mutex
};

Registry &registry() {
  static auto *const r = new Registry;
  return *r;
}

// After fork() a child has neither the simulator's threads nor a part in its parent's address space on the card, but it
// does share the parent's device file: what it closed there would be gone for the parent. So in a child the parent's
// devices lead here, where calls fail and ends do nothing.

int of_parent() { return -ESTALE; }

int parents_ioctl(npu_transport_file *, unsigned long, void *) { return of_parent(); }
int parents_driver(npu_transport_file *, int[3], char *, size_t) { return of_parent(); }
int parents_map(npu_transport_file *, uint32_t, uint64_t, uint64_t, void **) { return of_parent(); }
int parents_context(npu_transport_file *, drm_npu_ctx_create *, npu_transport_context *) { return of_parent(); }
int parents_sync(npu_transport_file *, drm_npu_bo_sync *) { return of_parent(); }

constexpr npu_transport kParents = {
    .abi = kNpuTransportAbi,
    .bytes = sizeof(npu_transport),
    .name = "parent",
    .count = [](char *, size_t) { return 0; },
    .open = [](unsigned int, npu_transport_file **, char *, size_t) { return of_parent(); },
    .close = [](npu_transport_file *) {},
    .driver = parents_driver,
    .ioctl = parents_ioctl,
    .map = parents_map,
    .unmap = [](npu_transport_file *, uint32_t, void *, uint64_t) {},
    .ctx_create = parents_context,
    .ctx_destroy = [](npu_transport_file *, const npu_transport_context *) {},
    .map_uncached = parents_map,
    .sync_uncached = parents_sync,
    .node = [](npu_transport_file *) { return of_parent(); },
    .begin_uncached = [](npu_transport_file *, uint32_t, uint64_t, uint64_t) {},
    .share_uncached = [](npu_transport_file *, uint32_t, bool) {},
};

// Nobody opens or closes a device while the process is copied.
void before_fork() { registry().mutex.lock(); }
void after_fork() { registry().mutex.unlock(); }
void in_child() {
  Registry &r = registry();
  for (const auto &[index, device] : r.open) device->transport = &kParents;
  r.open.clear();
  r.mutex.unlock();
}

Registry::Registry() { pthread_atfork(before_fork, after_fork, in_child); }

int no_device(unsigned int index, const npu_transport *transport, int count) {
  if (count) return fail(-ENODEV, "no NPU device %u: this machine has %d", index, count);
  return fail(-ENODEV, "no NPU device: %s",
              !strcmp(transport->name, "drm")
                  ? "there is no /dev/accel/accel* node of the qnpu driver (is qnpu.ko loaded, is the card there?)"
                  : "the simulator is not available");
}

/// A device that does not answer (it is just leaving) counts as a card.
void look_at_memory(npu_device *d) {
  drm_npu_dev_info info{};
  const bool known = npu_device_info(d, &info) == 0;
  d->own_memory = !known || info.ddr_bytes != 0;
  d->coherent = !known || !(info.flags & DRM_NPU_INFO_NONCOHERENT);
}

/// registry().mutex is held.
int open_locked(unsigned int index, npu_device **device) {
  Registry &r = registry();
  if (const auto it = r.open.find(index); it != r.open.end()) {
    it->second->refs++;
    *device = it->second;
    return 0;
  }
  const npu_transport *transport = nullptr;
  int count = 0;
  if (int err = choose_transport(&transport, &count)) return err;
  Cache cache = Cache::kCoherent;
  if (int err = cache_choice(&cache)) return err;
  if (index >= static_cast<unsigned int>(count)) return no_device(index, transport, count);
  char why[256] = "unknown reason";
  npu_transport_file *file = nullptr;
  if (int err = transport->open(index, &file, why, sizeof(why)))
    return fail(err, "cannot open NPU device %u (%s): %s", index, transport->name, why);
  auto *d = new npu_device;
  d->transport = transport;
  d->file = file;
  d->name = transport->name;
  d->checked = cache != Cache::kCoherent;
  if (d->checked) make_strict(d, cache == Cache::kAbort);
  look_at_memory(d);
  d->index = index;
  d->pid = getpid();
  d->refs = 1;
  r.open[index] = d;
  *device = d;
  log(NPU_LOG_INFO, "opened device %u by transport %s", index, transport->name);
  return 0;
}

}  // namespace

int device_with(uint64_t address, const npu_device *but) {
  std::lock_guard lock(registry().mutex);
  for (const auto &[index, device] : registry().open) {
    std::lock_guard bos_lock(device->bos_mutex);
    const auto it = device->bos.upper_bound(address);
    if (device == but || it == device->bos.begin()) continue;
    const npu_bo *const bo = std::prev(it)->second;
    if (address - bo->va < bo->size) return static_cast<int>(index);
  }
  return -1;
}

void device_unref(npu_device *device) {
  {
    std::lock_guard lock(registry().mutex);
    if (--device->refs) return;
    // Closed with the lock held: whoever opens the same device next gets a file that is not in the way of this one.
    auto &open = registry().open;
    if (const auto it = open.find(device->index); it != open.end() && it->second == device) open.erase(it);
    device->engine.reset();
    device->transport->close(device->file);
  }
  delete device;
}

}  // namespace npu

int npu_device_count(void) {
  const npu_transport *transport = nullptr;
  int count = 0;
  const int err = npu::choose_transport(&transport, &count);
  return err ? err : count;
}

int npu_device_open(unsigned int index, npu_device **device) {
  if (!device) return npu::fail(-EINVAL, "npu_device_open: no place for the device");
  *device = nullptr;
  std::lock_guard lock(npu::registry().mutex);
  return npu::open_locked(index, device);
}

int npu_require_transport(const char *name) {
  std::lock_guard lock(npu::registry().mutex);
  const bool known = name && (!strcmp(name, "drm") || !strcmp(name, "sim"));
  for (const auto &[index, device] : npu::registry().open)
    if (known && strcmp(device->name, name))
      return npu::fail(-EBUSY, "npu_require_transport: device %u is open by transport %s", index, device->name);
  return npu::require_transport(name);
}

npu_device *npu_device_ref(npu_device *device) {
  std::lock_guard lock(npu::registry().mutex);
  device->refs++;
  return device;
}

void npu_device_close(npu_device *device) {
  if (device) npu::device_unref(device);
}

const char *npu_device_transport(const npu_device *device) { return device->name; }

int npu_device_query(npu_device *device, uint32_t query, void *answer, size_t bytes) {
  if (!device || !answer) return npu::fail(-EINVAL, "npu_device_query: no device or no place for answer %u", query);
  if (bytes > UINT32_MAX) return npu::fail(-EINVAL, "npu_device_query: %zu bytes for answer %u", bytes, query);
  drm_npu_dev_query args{};
  args.type = query;
  args.size = static_cast<uint32_t>(bytes);
  args.pointer = reinterpret_cast<uintptr_t>(answer);
  if (int err = npu::call(device, DRM_IOCTL_NPU_DEV_QUERY, &args))
    return npu::fail(err, "npu_device_query: device %u, answer %u: %s", device->index, query, strerror(-err));
  return 0;
}
