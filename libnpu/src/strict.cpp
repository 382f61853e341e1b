// SPDX-License-Identifier: MIT
#include "libnpu/src/strict.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libnpu/src/revoke.h"
#include "libnpu/src/shadow.h"

namespace npu {
namespace {

struct Bo {
  uint64_t va = 0, size = 0, mmap_offset = 0;
  bool sealed = false;
  std::unique_ptr<Shadow> shadow;  // while the program has a mapping
  void *memory = nullptr;          // what the shadow is a copy of
  void *revoked = nullptr;         // the mapping of a buffer that was sealed
};

using Reports = std::vector<std::string>;

/// Of the file behind it. Reports are told when no lock is held.
struct StrictFile {
  npu_device *device;
  const npu_transport *inner;
  npu_transport_file *file;
  std::mutex mutex;
  std::map<uint32_t, Bo> bos;  // by handle, under mutex

  Bo *find(uint32_t handle) {
    const auto it = bos.find(handle);
    return it == bos.end() ? nullptr : &it->second;
  }
};

StrictFile &of(npu_transport_file *file) { return *reinterpret_cast<StrictFile *>(file); }

void tell_all(const Reports &reports) {
  for (const std::string &text : reports) tell(NPU_LOG_WARNING, text.c_str());
}

std::string name_of(const Bo &bo) {
  char text[96];
  snprintf(text, sizeof(text), "buffer at %#llx of %llu bytes", static_cast<unsigned long long>(bo.va),
           static_cast<unsigned long long>(bo.size));
  return text;
}

std::string name_of(uint64_t seqno, uint32_t context) {
  return "job " + std::to_string(seqno) + " of context " + std::to_string(context);
}

/// The memory of a buffer as the chip sees it: past caches that it does not see.
int map_memory(const StrictFile &s, uint32_t handle, const Bo &bo, void **memory) {
  const uint64_t offset = bo.mmap_offset | (s.device->coherent ? 0 : DRM_NPU_MMAP_WC);
  return s.inner->map(s.file, handle, offset, bo.size, memory);
}

// ---- jobs ----

template <typename T>
T element(uint64_t array, uint32_t stride, uint32_t i) {
  T value{};
  memcpy(&value, reinterpret_cast<const uint8_t *>(static_cast<uintptr_t>(array)) + size_t{i} * stride,
         std::min<size_t>(sizeof(value), stride));
  return value;
}

drm_npu_job job_of(const drm_npu_submit &args, uint32_t i) {
  return element<drm_npu_job>(args.jobs, args.job_stride, i);
}

drm_npu_region region_of(const drm_npu_job &job, uint32_t i) {
  return element<drm_npu_region>(job.regions, job.region_stride, i);
}

/// Bytes that a job is going to read, and that were not flushed.
struct Finding {
  uint32_t job, region;
  uint64_t region_offset;
  std::string buffer;
  Difference dirty;
};

/// The bytes of a buffer as the chip sees them; false: not known.
bool peek(StrictFile &s, uint32_t handle, uint64_t offset, std::vector<uint8_t> &out) {
  uint64_t va;
  {
    std::lock_guard lock(s.mutex);
    const Bo *bo = s.find(handle);
    if (!bo || offset > bo->size || out.size() > bo->size - offset) return false;
    va = bo->va;
    if (!bo->sealed) {
      void *memory = nullptr;
      if (map_memory(s, handle, *bo, &memory)) return false;
      memcpy(out.data(), static_cast<const uint8_t *>(memory) + offset, out.size());
      s.inner->unmap(s.file, handle, memory, bo->size);
      return true;
    }
  }
  // Only the card can read it.
  npu_bo *bo = nullptr;
  if (npu_bo_find(s.device, va, &bo, nullptr)) return false;
  const int err = npu_read(bo, offset, out.data(), out.size());
  npu_bo_unref(bo);
  return !err;
}

/// " (GDMA command 3)": the first copy of a job that reads this offset of a region, or " (commands)" where its commands
/// are; "" if neither.
std::string reader_of(StrictFile &s, const drm_npu_job &job, uint32_t region, uint64_t offset) {
  const auto within = [&](uint32_t count, uint32_t code, uint64_t start) {
    return count && code == region && offset >= start && offset - start < uint64_t{count} * kCommandBytes;
  };
  for (uint32_t i = 0; i < job.stream_count; i++) {
    const auto stream = element<drm_npu_stream>(job.streams, job.stream_stride, i);
    if (within(stream.gdma_count, stream.gdma_region, stream.gdma_offset) ||
        within(stream.tiu_count, stream.tiu_region, stream.tiu_offset))
      return " (commands)";
    if (!stream.gdma_count || stream.gdma_region >= job.region_count) continue;
    const drm_npu_region code = region_of(job, stream.gdma_region);
    std::vector<uint8_t> commands(size_t{stream.gdma_count} * kCommandBytes);
    if (!peek(s, code.handle, code.offset + stream.gdma_offset, commands)) continue;
    for (uint32_t k = 0; k < stream.gdma_count; k++)
      if (copy_reads(commands.data() + size_t{k} * kCommandBytes, region, offset))
        return (job.stream_count > 1 ? " (core " + std::to_string(i) + ", " : std::string(" (")) + "GDMA command " +
               std::to_string(k) + ")";
  }
  return "";
}

std::vector<Finding> find_unflushed(StrictFile &s, const drm_npu_submit &args) {
  std::vector<Finding> found;
  std::lock_guard lock(s.mutex);
  for (uint32_t i = 0; i < args.job_count; i++) {
    const drm_npu_job job = job_of(args, i);
    for (uint32_t k = 0; k < job.region_count; k++) {
      const drm_npu_region r = region_of(job, k);
      const Bo *bo = r.access & DRM_NPU_REGION_READ ? s.find(r.handle) : nullptr;
      if (!bo || !bo->shadow || r.offset > bo->size || r.size > bo->size - r.offset) continue;
      const Difference dirty = bo->shadow->dirty(r.offset, r.size);
      if (dirty.count) found.push_back({i, k, r.offset, name_of(*bo), dirty});
    }
  }
  return found;
}

void note_writes(StrictFile &s, const drm_npu_submit &args) {
  std::lock_guard lock(s.mutex);
  for (uint32_t i = 0; i < args.job_count; i++) {
    const drm_npu_job job = job_of(args, i);
    for (uint32_t k = 0; k < job.region_count; k++) {
      const drm_npu_region r = region_of(job, k);
      const Bo *bo = r.access & DRM_NPU_REGION_WRITE ? s.find(r.handle) : nullptr;
      if (bo && bo->shadow) bo->shadow->wrote({r.offset, r.size, args.ctx_id, job.seqno});
    }
  }
}

int submit(StrictFile &s, drm_npu_submit *args) {
  const std::vector<Finding> found = find_unflushed(s, *args);
  std::vector<std::string> readers;
  for (const Finding &x : found)
    readers.push_back(reader_of(s, job_of(*args, x.job), x.region, x.dirty.first - x.region_offset));
  if (int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_SUBMIT, args)) return err;
  note_writes(s, *args);
  Reports reports;
  for (size_t i = 0; i < found.size(); i++) {
    const Finding &x = found[i];
    reports.push_back("cache: " + name_of(job_of(*args, x.job).seqno, args->ctx_id) + " reads region " +
                      std::to_string(x.region) + readers[i] + ", " + x.buffer + ", but " + text_of(x.dirty) +
                      " were written by the program and not flushed");
  }
  tell_all(reports);
  return 0;
}

// ---- buffers ----

/// A mapping ends: what it and the memory never told each other. The mutex is held.
void check_end(const Bo &bo, Reports &reports) {
  if (!bo.shadow) return;
  const Difference dirty = bo.shadow->dirty(0, bo.size), stale = bo.shadow->stale(0, bo.size);
  if (dirty.count)
    reports.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(dirty) +
                      " were written by the program and never flushed");
  if (!stale.count) return;
  const Writer *writer = bo.shadow->writer_of(stale.first);
  reports.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(stale) + " were written by " +
                    (writer ? name_of(writer->seqno, writer->context) : "a copy") +
                    " and never invalidated: a program that read them there saw what was there before");
}

/// The mutex is held.
void end_mapping(StrictFile &s, uint32_t handle, Bo &bo, Reports &reports) {
  check_end(bo, reports);
  bo.shadow.reset();
  if (bo.memory) s.inner->unmap(s.file, handle, bo.memory, bo.size);
  bo.memory = nullptr;
}

int bo_create(StrictFile &s, drm_npu_bo_create *args) {
  if (int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_CREATE, args)) return err;
  std::lock_guard lock(s.mutex);
  Bo &bo = s.bos[args->handle];
  bo.va = args->va;
  bo.size = args->size;
  bo.mmap_offset = args->mmap_offset;
  return 0;
}

int bo_close(StrictFile &s, drm_gem_close *args) {
  Reports reports;
  {
    std::lock_guard lock(s.mutex);
    if (Bo *bo = s.find(args->handle)) end_mapping(s, args->handle, *bo, reports);
    s.bos.erase(args->handle);
  }
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_GEM_CLOSE, args);
  tell_all(reports);
  return err;
}

int map_uncached(npu_transport_file *f, uint32_t handle, uint64_t mmap_offset, uint64_t size, void **ptr) {
  StrictFile &s = of(f);
  return s.inner->map(s.file, handle, mmap_offset, size, ptr);
}

int map(npu_transport_file *f, uint32_t handle, uint64_t, uint64_t size, void **ptr) {
  StrictFile &s = of(f);
  std::lock_guard lock(s.mutex);
  Bo *bo = s.find(handle);
  if (!bo || size != bo->size) return bo ? -EINVAL : -ENOENT;
  if (bo->shadow || bo->revoked) return -EBUSY;
  void *memory = nullptr;
  if (int err = map_memory(s, handle, *bo, &memory)) return err;
  bo->shadow = Shadow::create(static_cast<uint8_t *>(memory), size);
  if (!bo->shadow) {
    s.inner->unmap(s.file, handle, memory, size);
    return -ENOMEM;
  }
  bo->memory = memory;
  *ptr = bo->shadow->mapping();
  return 0;
}

void unmap(npu_transport_file *f, uint32_t handle, void *ptr, uint64_t size) {
  StrictFile &s = of(f);
  Reports reports;
  {
    std::lock_guard lock(s.mutex);
    Bo *bo = s.find(handle);
    if (bo && bo->shadow && bo->shadow->mapping() == ptr) {
      end_mapping(s, handle, *bo, reports);
    } else if (bo && bo->revoked == ptr) {
      munmap(ptr, size);
      bo->revoked = nullptr;
    } else {
      s.inner->unmap(s.file, handle, ptr, size);
    }
  }
  tell_all(reports);
}

int sync_uncached(npu_transport_file *f, drm_npu_bo_sync *args) {
  return of(f).inner->ioctl(of(f).file, DRM_IOCTL_NPU_BO_SYNC, args);
}

int bo_sync(StrictFile &s, drm_npu_bo_sync *args) {
  constexpr uint32_t kBoth = DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE;
  Reports reports;
  int err;
  {
    std::lock_guard lock(s.mutex);
    const Bo *bo = s.find(args->handle);
    const bool known = bo && bo->shadow && !(args->direction & ~kBoth);
    if (known && args->direction & DRM_NPU_SYNC_TO_DEVICE) bo->shadow->flush(args->offset, args->size);
    err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_SYNC, args);
    if (!err && known && args->direction & DRM_NPU_SYNC_FROM_DEVICE) {
      const Difference lost = bo->shadow->invalidate(args->offset, args->size);
      if (lost.count)
        reports.push_back("cache: an invalidation of " + name_of(*bo) + " has discarded " + text_of(lost) +
                          ", written by the program and not flushed");
    }
  }
  tell_all(reports);
  return err;
}

int bo_seal(StrictFile &s, drm_npu_bo_seal *args) {
  Reports reports;
  {
    std::lock_guard lock(s.mutex);
    Bo *bo = s.find(args->handle);
    if (bo) check_end(*bo, reports);  // sealed, the memory cannot be looked at any more
    if (int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_SEAL, args)) return err;
    if (bo) bo->sealed = true;
    if (bo && bo->shadow) {
      bo->revoked = bo->shadow->release();
      revoke(bo->revoked, bo->size);
      bo->shadow.reset();
      s.inner->unmap(s.file, args->handle, bo->memory, bo->size);
      bo->memory = nullptr;
    }
  }
  tell_all(reports);
  return 0;
}

// Files that are open, for the end of a process that closes nothing. Never destroyed.
struct Open {
  std::mutex mutex;
  std::set<StrictFile *> files;  // under mutex
};

Open &open_files() {
  static auto *const open = new Open;
  return *open;
}

void at_exit() {
  Reports reports;
  {
    std::lock_guard lock(open_files().mutex);
    for (StrictFile *s : open_files().files) {
      if (s->device->pid != getpid()) continue;
      std::lock_guard file_lock(s->mutex);
      for (const auto &[handle, bo] : s->bos) check_end(bo, reports);
    }
  }
  tell_all(reports);
}

void close(npu_transport_file *f) {
  StrictFile *s = &of(f);
  Reports reports;
  {
    std::lock_guard lock(open_files().mutex);
    open_files().files.erase(s);
  }
  for (auto &[handle, bo] : s->bos) end_mapping(*s, handle, bo, reports);
  s->inner->close(s->file);
  delete s;
  tell_all(reports);
}

// ---- what has no cache in it ----

/// Only files that are open get here.
int count(char *, size_t) { return 0; }
int open(unsigned int, npu_transport_file **, char *, size_t) { return -EINVAL; }

template <auto member, typename... Args>
auto pass(npu_transport_file *f, Args... args) {
  return (of(f).inner->*member)(of(f).file, args...);
}

int ioctl(npu_transport_file *f, unsigned long request, void *args) {
  StrictFile &s = of(f);
  switch (request) {
    case DRM_IOCTL_NPU_BO_CREATE:
      return bo_create(s, static_cast<drm_npu_bo_create *>(args));
    case DRM_IOCTL_GEM_CLOSE:
      return bo_close(s, static_cast<drm_gem_close *>(args));
    case DRM_IOCTL_NPU_BO_SYNC:
      return bo_sync(s, static_cast<drm_npu_bo_sync *>(args));
    case DRM_IOCTL_NPU_BO_SEAL:
      return bo_seal(s, static_cast<drm_npu_bo_seal *>(args));
    case DRM_IOCTL_NPU_SUBMIT:
      return submit(s, static_cast<drm_npu_submit *>(args));
    default:
      return s.inner->ioctl(s.file, request, args);
  }
}

const npu_transport kTable = {
    kNpuTransportAbi,
    sizeof(npu_transport),
    "strict",
    count,
    open,
    close,
    pass<&npu_transport::driver>,
    ioctl,
    map,
    unmap,
    pass<&npu_transport::ctx_create>,
    pass<&npu_transport::ctx_destroy>,
    map_uncached,
    sync_uncached,
    nullptr,  // jobs that go through a ring could not be looked at
};

}  // namespace

int cache_choice(bool *strict) {
  const char *text = getenv("NPU_CACHE");
  const std::string wish = text && *text ? text : "coherent";
  *strict = wish == "strict";
  if (*strict || wish == "coherent") return 0;
  return fail(-EINVAL, "NPU_CACHE=%s: expected coherent or strict", wish.c_str());
}

void make_strict(npu_device *device) {
  auto *s = new StrictFile;
  s->device = device;
  s->inner = device->transport;
  s->file = device->file;
  {
    static const int registered = atexit(at_exit);
    (void)registered;
    std::lock_guard lock(open_files().mutex);
    open_files().files.insert(s);
  }
  device->transport = &kTable;
  device->file = reinterpret_cast<npu_transport_file *>(s);
}

}  // namespace npu
