// SPDX-License-Identifier: MIT
// Which handles exist. A handle is a number in a pointer's clothes that is never used twice: a stale one is always
// recognised.
#include <pthread.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <shared_mutex>

#include "libnpu/bmlib/handle.h"
#include "libnpu/src/private.h"

namespace npu::bm {
namespace {

struct Entry {
  std::shared_ptr<Handle> handle;
  bool open;          // bm_dev_free() was not called
  unsigned int refs;  // of npu_bm_ref()
};

/// Handles are spread over these by their numbers, so that calls on different handles do not meet; calls on one
/// share its lock.
struct Shard {
  std::shared_mutex mutex;
  std::map<uint64_t, Entry> handles;  // under mutex
};

struct Registry {
  static constexpr size_t kShards = 64;
  Shard shards[kShards];
  Registry(uint64_t first_id, const Registry *parents) : first(first_id), parent(parents), next(first_id) {}
  const uint64_t first;          // lower numbers are handles of the process that this one was forked from
  const Registry *const parent;  // of that process: not used, and not lost
  std::atomic<uint64_t> next;
  std::mutex devices_mutex;                      // opening a device takes its time: no look-up waits for that
  std::map<int, std::weak_ptr<Device>> devices;  // by number, under devices_mutex
};

Registry *&current() {
  static auto *r = new Registry(1, nullptr);
  return r;
}

// Never destroyed: programs free handles in destructors of static objects. A child process begins with an empty one: it
// has no part in its parent's devices, and another thread may have held any of the locks.
Registry &registry() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { current() = new Registry(current()->next.load(), current()); });
  (void)registered;
  return *current();
}

Shard &shard_of(uint64_t id) { return registry().shards[id % Registry::kShards]; }

// Handles look like pointers into a page that is never mapped: odd, and far above any small integer that a program may
// pass by mistake.
constexpr uint64_t kPattern = 0x424d000000000001ull;

uint64_t id_of(bm_handle_t handle) {
  const uint64_t value = reinterpret_cast<uintptr_t>(handle);
  return (value & kPattern) == kPattern ? (value & ~kPattern) >> 4 : 0;
}

bm_handle_t handle_of(uint64_t id) { return reinterpret_cast<bm_handle_t>(static_cast<uintptr_t>(kPattern | id << 4)); }

bool of_parent(uint64_t id) { return id && id < registry().first; }

int not_found(bm_handle_t handle) {
  return fail(-EINVAL,
              of_parent(id_of(handle)) ? "%p is a device handle of the process that this one was forked from: a child "
                                         "needs one of its own"
                                       : "%p is not a device handle, or it was freed",
              static_cast<void *>(handle));
}

std::shared_ptr<Handle> look_up(bm_handle_t handle, bool freed_too) {
  const uint64_t id = id_of(handle);
  Shard &shard = shard_of(id);
  {
    std::shared_lock lock(shard.mutex);
    const auto it = shard.handles.find(id);
    if (it != shard.handles.end() && (it->second.open || freed_too)) return it->second.handle;
  }
  not_found(handle);
  return nullptr;
}

/// The process' Device number devid; nullptr with npu_last_error().
std::shared_ptr<Device> shared_device(int devid) {
  Registry &r = registry();
  std::lock_guard lock(r.devices_mutex);
  if (auto device = r.devices[devid].lock()) return device;
  npu_device *opened = nullptr;
  if (npu_device_open(static_cast<unsigned int>(devid), &opened)) return nullptr;
  auto device = std::make_shared<Device>(opened);
  r.devices[devid] = device;
  return device;
}

/// Takes a handle out when nobody uses it; its destructor must run without the lock, which is held here.
std::shared_ptr<Handle> take_if_unused(Shard &shard, uint64_t id) {
  const auto it = shard.handles.find(id);
  if (it == shard.handles.end() || it->second.open || it->second.refs) return nullptr;
  auto handle = std::move(it->second.handle);
  shard.handles.erase(it);
  return handle;
}

}  // namespace

std::shared_ptr<Handle> find(bm_handle_t handle) { return look_up(handle, false); }

std::shared_ptr<Handle> find_referenced(bm_handle_t handle) { return look_up(handle, true); }

std::vector<std::shared_ptr<Handle>> handles_of(const Device &device) {
  std::vector<std::shared_ptr<Handle>> found;
  for (Shard &shard : registry().shards) {
    std::shared_lock lock(shard.mutex);
    for (const auto &[id, entry] : shard.handles)
      if (&entry.handle->device() == &device) found.push_back(entry.handle);
  }
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
  auto device = shared_device(devid);
  if (!device) {
    npu_bm_status(-ENODEV, __func__);
    return BM_ERR_DEVNOTREADY;
  }
  const uint64_t id = registry().next++;
  auto created = std::make_shared<Handle>(std::move(device), devid, id);
  Shard &shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  shard.handles[id] = {std::move(created), true, 0};
  *handle = handle_of(id);
  return BM_SUCCESS;
}

void bm_dev_free(bm_handle_t handle) {
  if (!handle || of_parent(id_of(handle))) return;
  const auto found = find(handle);
  if (!found) {
    bad_handle(__func__);
    return;
  }
  // Errors that nobody asked for end here.
  while (found->reap(true)) continue;
  Shard &shard = shard_of(found->id());
  std::shared_ptr<Handle> last;
  {
    std::lock_guard lock(shard.mutex);
    const auto it = shard.handles.find(found->id());
    if (it == shard.handles.end()) return;
    it->second.open = false;
    last = take_if_unused(shard, found->id());
  }
}

int npu_bm_ref(bm_handle_t handle) {
  const uint64_t id = id_of(handle);
  Shard &shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  const auto it = shard.handles.find(id);
  if (it == shard.handles.end()) return not_found(handle);
  it->second.refs++;
  return 0;
}

void npu_bm_unref(bm_handle_t handle) {
  const uint64_t id = id_of(handle);
  Shard &shard = shard_of(id);
  std::shared_ptr<Handle> object, last;
  {
    std::lock_guard lock(shard.mutex);
    const auto it = shard.handles.find(id);
    if (it == shard.handles.end() || !it->second.refs) return;
    if (--it->second.refs || it->second.open) return;
    object = it->second.handle;
  }
  while (object->reap(true)) continue;
  std::lock_guard lock(shard.mutex);
  last = take_if_unused(shard, id);
}
