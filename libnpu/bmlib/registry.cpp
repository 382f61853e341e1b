// SPDX-License-Identifier: MIT
// Which handles exist. A handle is a number in a pointer's clothes that is never used twice: a stale one is always
// recognised.
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "../src/private.h"
#include "handle.h"

namespace npu::bm {
namespace {

struct Entry {
  std::shared_ptr<Handle> handle;
  bool open;          // bm_dev_free() was not called
  unsigned int refs;  // of npu_bm_ref()
};

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, Entry> handles;             // under mutex
  std::map<int, std::weak_ptr<Device>> devices;  // by number, under mutex
  uint64_t next = 1;                             // under mutex
};

// Never destroyed: programs free handles in destructors of static objects.
Registry &registry() {
  static auto *const r = new Registry;
  return *r;
}

// Handles look like pointers into a page that is never mapped: odd, and far above any small integer that a program may
// pass by mistake.
constexpr uint64_t kPattern = 0x424d000000000001ull;

uint64_t id_of(bm_handle_t handle) {
  const uint64_t value = reinterpret_cast<uintptr_t>(handle);
  return (value & kPattern) == kPattern ? (value & ~kPattern) >> 4 : 0;
}

bm_handle_t handle_of(uint64_t id) { return reinterpret_cast<bm_handle_t>(static_cast<uintptr_t>(kPattern | id << 4)); }

std::shared_ptr<Handle> look_up(bm_handle_t handle, bool freed_too) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  const auto it = r.handles.find(id_of(handle));
  if (it != r.handles.end() && (it->second.open || freed_too)) return it->second.handle;
  fail(-EINVAL, "%p is not a device handle, or it was freed", static_cast<void *>(handle));
  return nullptr;
}

/// The process' Device number devid; registry().mutex is held.
std::shared_ptr<Device> shared_device(int devid) {
  Registry &r = registry();
  if (auto device = r.devices[devid].lock(); device && device->pid() == getpid()) return device;
  npu_device *opened = nullptr;
  if (npu_device_open(static_cast<unsigned int>(devid), &opened)) return nullptr;
  auto device = std::make_shared<Device>(opened);
  r.devices[devid] = device;
  return device;
}

/// Takes a handle out when nobody uses it; its destructor must run without the lock.
std::shared_ptr<Handle> take_if_unused(Registry &r, uint64_t id) {
  const auto it = r.handles.find(id);
  if (it == r.handles.end() || it->second.open || it->second.refs) return nullptr;
  auto handle = std::move(it->second.handle);
  r.handles.erase(it);
  return handle;
}

}  // namespace

std::shared_ptr<Handle> find(bm_handle_t handle) { return look_up(handle, false); }

std::shared_ptr<Handle> find_referenced(bm_handle_t handle) { return look_up(handle, true); }

std::vector<std::shared_ptr<Handle>> handles_of(const Device &device) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::shared_ptr<Handle>> found;
  for (const auto &[id, entry] : r.handles)
    if (&entry.handle->device() == &device) found.push_back(entry.handle);
  return found;
}

int fail(int error, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return npu_private_fail(error, text);
}

}  // namespace npu::bm

using namespace npu::bm;

bm_status_t bm_dev_request(bm_handle_t *handle, int devid) {
  if (!handle || devid < 0)
    return npu_bm_status(fail(-EINVAL, "device %d: expected a number from 0 and a place for the handle", devid),
                         __func__);
  *handle = nullptr;
  Registry &r = registry();
  std::unique_lock lock(r.mutex);
  auto device = shared_device(devid);
  if (!device) {
    lock.unlock();
    npu_bm_status(-ENODEV, __func__);
    return BM_ERR_DEVNOTREADY;
  }
  const uint64_t id = r.next++;
  r.handles[id] = {std::make_shared<Handle>(std::move(device), devid, id), true, 0};
  *handle = handle_of(id);
  return BM_SUCCESS;
}

void bm_dev_free(bm_handle_t handle) {
  if (!handle) return;
  const auto found = find(handle);
  if (!found) {
    bad_handle(__func__);
    return;
  }
  // Errors that nobody asked for end here.
  while (found->reap(true)) continue;
  Registry &r = registry();
  std::shared_ptr<Handle> last;
  {
    std::lock_guard lock(r.mutex);
    const auto it = r.handles.find(found->id());
    if (it == r.handles.end()) return;
    it->second.open = false;
    last = take_if_unused(r, found->id());
  }
}

int npu_bm_ref(bm_handle_t handle) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  const auto it = r.handles.find(id_of(handle));
  if (it == r.handles.end()) return fail(-EINVAL, "npu_bm_ref: not a device handle");
  it->second.refs++;
  return 0;
}

void npu_bm_unref(bm_handle_t handle) {
  Registry &r = registry();
  std::shared_ptr<Handle> last;
  std::unique_lock lock(r.mutex);
  const auto it = r.handles.find(id_of(handle));
  if (it == r.handles.end() || !it->second.refs) return;
  it->second.refs--;
  const auto handle_object = it->second.handle;
  const bool done = !it->second.open && !it->second.refs;
  lock.unlock();
  if (!done) return;
  while (handle_object->reap(true)) continue;
  lock.lock();
  last = take_if_unused(r, handle_object->id());
  lock.unlock();
}
