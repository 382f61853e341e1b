// SPDX-License-Identifier: MIT
#include "libnpu/src/strict.h"

#include <npu_regs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libnpu/src/shadow.h"

namespace npu {
namespace {

struct Bo {
  uint64_t va = 0, size = 0, mmap_offset = 0;
  bool sealed = false;
  unsigned int uncached = 0;       // mappings past the cache that the program has
  std::unique_ptr<Shadow> shadow;  // while the program has a mapping
};

constexpr uint64_t kNotYet = UINT64_MAX;  // number of a job while a call decides on it

/// A write by the chip that may be going on: of a job, or of a copy past the cache, which has no context.
struct Pending {
  uint32_t handle;
  Extent extent;
  uint32_t context;
  uint64_t seqno;
  const void *call;  // submission or end of the context that is in progress, of kNotYet
};

struct Context {
  npu_transport_context made;  // as the transport made it
  uint64_t generation = 0;     // differs from that of an earlier context of the same id
  uint64_t waited = 0;         // last job that a call has seen the end of
};

using Reports = std::vector<std::string>;

/// An open file and what stands behind it. Reports are written when no lock is held.
struct StrictFile {
  npu_device *device;
  const npu_transport *inner;
  npu_transport_file *file;
  bool aborts;  // the first report ends the process
  std::mutex mutex;
  std::map<uint32_t, Bo> bos;            // by handle, under mutex
  std::map<uint32_t, Context> contexts;  // by id, under mutex
  uint64_t generations = 0;              // contexts made so far, under mutex
  std::vector<Pending> pending;          // under mutex

  Bo *find(uint32_t handle) {
    const auto it = bos.find(handle);
    return it == bos.end() ? nullptr : &it->second;
  }
};

StrictFile &of(npu_transport_file *file) { return *reinterpret_cast<StrictFile *>(file); }

void tell_all(const StrictFile &s, const Reports &reports) {
  for (const std::string &text : reports) tell(NPU_LOG_WARNING, text.c_str());
  if (s.aborts && !reports.empty()) abort();
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

Extent whole(const Bo &bo) { return {0, bo.size}; }

// ---- attribution ----

/// Notes what has changed in a buffer's extent. The mutex is held, as in all functions of this section.
void look(StrictFile &s, uint32_t handle, Bo &bo, const Extent &extent) {
  if (!bo.shadow) return;
  std::vector<Extent> chip;
  // Stores through a mapping past the cache look like the chip's.
  if (bo.uncached) chip.push_back(whole(bo));
  for (const Pending &p : s.pending)
    if (p.handle == handle) chip.push_back(p.extent);
  bo.shadow->look(extent, chip);
}

bool has_ended(const StrictFile &s, const Pending &p) {
  if (!p.context || p.seqno == kNotYet) return false;
  const auto context = s.contexts.find(p.context);
  if (context == s.contexts.end()) return true;
  return p.seqno <= context->second.waited || p.seqno <= read_fence_page(context->second.made.fence_page).seqno;
}

/// Notes what jobs have written that have ended: what the program writes there from now on is its own.
void settle(StrictFile &s) {
  std::vector<bool> ended;
  // Before the look: then all that they have written is in it.
  for (const Pending &p : s.pending) ended.push_back(has_ended(s, p));
  for (size_t i = 0; i < ended.size(); i++) {
    Bo *bo = ended[i] ? s.find(s.pending[i].handle) : nullptr;
    if (bo) look(s, s.pending[i].handle, *bo, s.pending[i].extent);
  }
  size_t i = 0;
  std::erase_if(s.pending, [&](const Pending &) { return ended[i++]; });
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

/// The memory of a buffer as the chip sees it: past caches that it does not see.
int map_memory(const StrictFile &s, uint32_t handle, const Bo &bo, void **memory) {
  const uint64_t offset = bo.mmap_offset | (s.device->coherent ? 0 : DRM_NPU_MMAP_WC);
  return s.inner->map(s.file, handle, offset, bo.size, memory);
}

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

/// Before the jobs of a submission can write: what the program has written so far is its own, and what they may write
/// is pending from now on. Returns what they are going to read and was not flushed.
std::vector<Finding> announce(StrictFile &s, const drm_npu_submit &args) {
  std::vector<Finding> found;
  std::lock_guard lock(s.mutex);
  settle(s);
  for (uint32_t i = 0; i < args.job_count; i++) {
    const drm_npu_job job = job_of(args, i);
    for (uint32_t k = 0; k < job.region_count; k++) {
      const drm_npu_region r = region_of(job, k);
      const Extent extent{r.offset, r.size};
      Bo *bo = s.find(r.handle);
      if (!bo || r.offset > bo->size || r.size > bo->size - r.offset) continue;
      look(s, r.handle, *bo, extent);
      if (bo->shadow && r.access & DRM_NPU_REGION_READ)
        if (const Difference dirty = bo->shadow->dirty(extent); dirty.count)
          found.push_back({i, k, r.offset, name_of(*bo), dirty});
      if (r.access & DRM_NPU_REGION_WRITE) s.pending.push_back({r.handle, extent, args.ctx_id, kNotYet, &args});
    }
  }
  return found;
}

/// The driver has taken the jobs, and they have numbers; or it has refused them.
void number_pending(StrictFile &s, const drm_npu_submit &args, bool taken) {
  std::lock_guard lock(s.mutex);
  size_t at = 0;
  const auto next = [&] {
    while (at < s.pending.size() && (s.pending[at].call != &args || s.pending[at].seqno != kNotYet)) at++;
    return at < s.pending.size() ? &s.pending[at] : nullptr;
  };
  if (!taken) {
    std::erase_if(s.pending, [&](const Pending &p) { return p.call == &args && p.seqno == kNotYet; });
    return;
  }
  // In the order of announce().
  for (uint32_t i = 0; i < args.job_count; i++) {
    const drm_npu_job job = job_of(args, i);
    for (uint32_t k = 0; k < job.region_count; k++) {
      const drm_npu_region r = region_of(job, k);
      Pending *const p = r.access & DRM_NPU_REGION_WRITE ? next() : nullptr;
      if (!p || p->handle != r.handle || p->extent.offset != r.offset || p->extent.size != r.size) continue;
      p->seqno = job.seqno;
      p->call = nullptr;
      if (const Bo *bo = s.find(r.handle); bo && bo->shadow) bo->shadow->wrote({p->extent, args.ctx_id, job.seqno});
    }
  }
}

int submit(StrictFile &s, drm_npu_submit *args) {
  const std::vector<Finding> found = announce(s, *args);
  std::vector<std::string> readers;
  for (const Finding &x : found)
    readers.push_back(reader_of(s, job_of(*args, x.job), x.region, x.dirty.first - x.region_offset));
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_SUBMIT, args);
  number_pending(s, *args, !err);
  if (err) return err;
  Reports reports;
  for (size_t i = 0; i < found.size(); i++) {
    const Finding &x = found[i];
    reports.push_back("cache: " + name_of(job_of(*args, x.job).seqno, args->ctx_id) + " reads region " +
                      std::to_string(x.region) + readers[i] + ", " + x.buffer + ", but " + text_of(x.dirty) +
                      " were written by the program and not flushed");
  }
  tell_all(s, reports);
  return 0;
}

/// Names a context across an ioctl: meanwhile it may be destroyed, and another one may get its id.
struct ContextKey {
  uint32_t id;
  uint64_t generation;  // 0: there is no such context
};

/// The mutex is held.
ContextKey key_of(const StrictFile &s, uint32_t id) {
  const auto it = s.contexts.find(id);
  return {id, it == s.contexts.end() ? 0 : it->second.generation};
}

/// A call has shown the end of a job, and so of those before it in its context. The mutex is held.
void saw_end(StrictFile &s, const ContextKey &key, uint64_t seqno) {
  const auto it = s.contexts.find(key.id);
  if (it == s.contexts.end() || it->second.generation != key.generation) return;
  it->second.waited = std::max(it->second.waited, seqno);
}

ContextKey lock_key_of(StrictFile &s, uint32_t id) {
  std::lock_guard lock(s.mutex);
  return key_of(s, id);
}

int wait(StrictFile &s, drm_npu_wait *args) {
  const ContextKey key = lock_key_of(s, args->ctx_id);
  const uint64_t seqno = args->seqno;
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_WAIT, args);
  std::lock_guard lock(s.mutex);
  if (!err) saw_end(s, key, seqno);
  settle(s);
  return err;
}

int bo_wait(StrictFile &s, drm_npu_bo_wait *args) {
  std::vector<std::pair<ContextKey, uint64_t>> writers;  // jobs
  {
    std::lock_guard lock(s.mutex);
    for (const Pending &p : s.pending)
      if (p.handle == args->handle && p.context && p.seqno != kNotYet)
        writers.emplace_back(key_of(s, p.context), p.seqno);
  }
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_WAIT, args);
  std::lock_guard lock(s.mutex);
  for (const auto &[key, seqno] : writers)
    if (!err) saw_end(s, key, seqno);
  settle(s);
  return err;
}

int ctx_query(StrictFile &s, drm_npu_ctx_query *args) {
  const ContextKey key = lock_key_of(s, args->ctx_id);
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_CTX_QUERY, args);
  std::lock_guard lock(s.mutex);
  if (!err) saw_end(s, key, args->completed);
  settle(s);
  return err;
}

/// Shows no end of a job: the program learns it from calls, which settle().
const npu_fence kNoJob{};

int ctx_create(npu_transport_file *f, drm_npu_ctx_create *args, npu_transport_context *context) {
  StrictFile &s = of(f);
  if (int err = s.inner->ctx_create(s.file, args, context)) return err;
  std::lock_guard lock(s.mutex);
  s.contexts[context->id] = {*context, ++s.generations};
  context->fence_page = &kNoJob;
  return 0;
}

void ctx_destroy(npu_transport_file *f, const npu_transport_context *context) {
  StrictFile &s = of(f);
  npu_transport_context made;
  {
    std::lock_guard lock(s.mutex);
    made = s.contexts[context->id].made;
    // Before the transport: the next context may get the same number at once.
    s.contexts.erase(context->id);
    for (Pending &p : s.pending) {
      if (p.context != context->id) continue;
      p.seqno = kNotYet;
      p.call = &made;
    }
  }
  s.inner->ctx_destroy(s.file, &made);
  std::lock_guard lock(s.mutex);
  for (Pending &p : s.pending) {
    if (p.call != &made) continue;
    p.seqno = 0;  // ended, in whichever context has the number now
    p.call = nullptr;
  }
  settle(s);
}

// ---- buffers ----

/// True once the device is gone: its mappings show dummy pages.
bool is_lost(const StrictFile &s) {
  drm_npu_status_info status{};
  drm_npu_dev_query args{};
  args.type = DRM_NPU_QUERY_STATUS;
  args.size = sizeof(status);
  args.pointer = reinterpret_cast<uintptr_t>(&status);
  return s.inner->ioctl(s.file, DRM_IOCTL_NPU_DEV_QUERY, &args) == -ENODEV;
}

/// A mapping ends: what was never flushed or invalidated. The mutex is held.
void check_end(StrictFile &s, uint32_t handle, Bo &bo, Reports &reports) {
  if (!bo.shadow || is_lost(s)) return;
  settle(s);
  look(s, handle, bo, whole(bo));
  const Difference dirty = bo.shadow->dirty(whole(bo)), stale = bo.shadow->stale(whole(bo));
  if (dirty.count)
    reports.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(dirty) +
                      " were written by the program and never flushed");
  if (!stale.count) return;
  const Writer *writer = bo.shadow->writer_of(stale.first);
  reports.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(stale) + " were written by " +
                    (writer && writer->context ? name_of(writer->seqno, writer->context) : "a copy") +
                    " and never invalidated: with caches that are not coherent, a program that reads them there sees "
                    "what was there before");
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
    if (Bo *bo = s.find(args->handle)) check_end(s, args->handle, *bo, reports);
    s.bos.erase(args->handle);
    // The number may be another buffer's next.
    std::erase_if(s.pending, [&](const Pending &p) { return p.handle == args->handle; });
  }
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_GEM_CLOSE, args);
  tell_all(s, reports);
  return err;
}

int map(npu_transport_file *f, uint32_t handle, uint64_t, uint64_t size, void **ptr) {
  StrictFile &s = of(f);
  std::lock_guard lock(s.mutex);
  Bo *bo = s.find(handle);
  if (!bo || size != bo->size) return bo ? -EINVAL : -ENOENT;
  if (bo->shadow) return -EBUSY;
  void *memory = nullptr;
  if (int err = map_memory(s, handle, *bo, &memory)) return err;
  bo->shadow = Shadow::create(static_cast<const uint8_t *>(memory), size);
  if (!bo->shadow) {
    s.inner->unmap(s.file, handle, memory, size);
    return -ENOMEM;
  }
  *ptr = memory;
  return 0;
}

void unmap(npu_transport_file *f, uint32_t handle, void *ptr, uint64_t size) {
  StrictFile &s = of(f);
  Reports reports;
  {
    std::lock_guard lock(s.mutex);
    Bo *bo = s.find(handle);
    if (bo && bo->shadow && bo->shadow->mapping() == ptr) {
      check_end(s, handle, *bo, reports);
      bo->shadow.reset();
    }
    s.inner->unmap(s.file, handle, ptr, size);
  }
  tell_all(s, reports);
}

int bo_sync(StrictFile &s, drm_npu_bo_sync *args) {
  Reports reports;
  int err;
  {
    std::lock_guard lock(s.mutex);
    settle(s);
    err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_SYNC, args);
    Bo *bo = err ? nullptr : s.find(args->handle);
    if (bo && bo->shadow) {
      const Extent extent{args->offset, args->size};
      look(s, args->handle, *bo, extent);
      const Difference lost = bo->shadow->dirty(extent);
      if (lost.count && !(args->direction & DRM_NPU_SYNC_TO_DEVICE))
        reports.push_back("cache: an invalidation of " + name_of(*bo) + " discards " + text_of(lost) +
                          ", written by the program and not flushed");
      // A flush alone leaves what the chip wrote where the program wrote nothing: it was meant as an invalidation.
      if (lost.count || args->direction & DRM_NPU_SYNC_FROM_DEVICE) bo->shadow->synchronize(extent);
    }
  }
  tell_all(s, reports);
  return err;
}

int bo_seal(StrictFile &s, drm_npu_bo_seal *args) {
  Reports reports;
  {
    std::lock_guard lock(s.mutex);
    Bo *bo = s.find(args->handle);
    if (bo) check_end(s, args->handle, *bo, reports);  // sealed, the memory cannot be looked at any more
    if (int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_SEAL, args)) return err;
    if (bo) {
      bo->sealed = true;
      bo->shadow.reset();
    }
  }
  tell_all(s, reports);
  return 0;
}

// ---- past the cache ----

int map_uncached(npu_transport_file *f, uint32_t handle, uint64_t mmap_offset, uint64_t size, void **ptr) {
  return of(f).inner->map(of(f).file, handle, mmap_offset, size, ptr);
}

void begin_uncached(npu_transport_file *f, uint32_t handle, uint64_t offset, uint64_t size) {
  StrictFile &s = of(f);
  std::lock_guard lock(s.mutex);
  settle(s);
  if (Bo *bo = s.find(handle)) look(s, handle, *bo, {offset, size});
  s.pending.push_back({handle, {offset, size}, 0, 0, nullptr});
}

int sync_uncached(npu_transport_file *f, drm_npu_bo_sync *args) {
  StrictFile &s = of(f);
  const int err = s.inner->ioctl(s.file, DRM_IOCTL_NPU_BO_SYNC, args);
  if (!(args->direction & DRM_NPU_SYNC_TO_DEVICE)) return err;
  std::lock_guard lock(s.mutex);
  const auto copy = std::find_if(s.pending.begin(), s.pending.end(), [&](const Pending &p) {
    return !p.context && p.handle == args->handle && p.extent.offset == args->offset && p.extent.size == args->size;
  });
  if (copy == s.pending.end()) return err;
  if (Bo *bo = s.find(args->handle); bo && bo->shadow) {
    look(s, args->handle, *bo, copy->extent);
    bo->shadow->wrote({copy->extent, 0, 0});
  }
  s.pending.erase(copy);
  return err;
}

void share_uncached(npu_transport_file *f, uint32_t handle, bool begins) {
  StrictFile &s = of(f);
  std::lock_guard lock(s.mutex);
  Bo *bo = s.find(handle);
  if (!bo) return;
  settle(s);
  look(s, handle, *bo, whole(*bo));
  bo->uncached = begins ? bo->uncached + 1 : bo->uncached - 1;
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
  bool aborts = false;
  {
    std::lock_guard lock(open_files().mutex);
    for (StrictFile *s : open_files().files) {
      if (s->device->pid != getpid()) continue;
      std::lock_guard file_lock(s->mutex);
      for (auto &[handle, bo] : s->bos) check_end(*s, handle, bo, reports);
      aborts = aborts || s->aborts;
    }
  }
  for (const std::string &text : reports) tell(NPU_LOG_WARNING, text.c_str());
  if (aborts && !reports.empty()) abort();
}

void close(npu_transport_file *f) {
  StrictFile *s = &of(f);
  Reports reports;
  {
    std::lock_guard lock(open_files().mutex);
    open_files().files.erase(s);
  }
  {
    std::lock_guard lock(s->mutex);
    for (auto &[handle, bo] : s->bos) check_end(*s, handle, bo, reports);
  }
  s->inner->close(s->file);
  tell_all(*s, reports);
  delete s;
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
    case DRM_IOCTL_NPU_WAIT:
      return wait(s, static_cast<drm_npu_wait *>(args));
    case DRM_IOCTL_NPU_BO_WAIT:
      return bo_wait(s, static_cast<drm_npu_bo_wait *>(args));
    case DRM_IOCTL_NPU_CTX_QUERY:
      return ctx_query(s, static_cast<drm_npu_ctx_query *>(args));
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
    ctx_create,
    ctx_destroy,
    map_uncached,
    sync_uncached,
    nullptr,  // jobs that go through a ring could not be looked at
    begin_uncached,
    share_uncached,
};

}  // namespace

int cache_choice(Cache *cache) {
  const char *text = getenv("NPU_CACHE");
  const std::string wish = text && *text ? text : "coherent";
  const struct {
    const char *name;
    Cache cache;
  } all[] = {{"coherent", Cache::kCoherent}, {"strict", Cache::kStrict}, {"abort", Cache::kAbort}};
  for (const auto &known : all) {
    if (wish != known.name) continue;
    *cache = known.cache;
    return 0;
  }
  return fail(-EINVAL, "NPU_CACHE=%s: expected coherent, strict or abort", wish.c_str());
}

void make_strict(npu_device *device, bool aborts) {
  auto *s = new StrictFile;
  s->device = device;
  s->inner = device->transport;
  s->file = device->file;
  s->aborts = aborts;
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
