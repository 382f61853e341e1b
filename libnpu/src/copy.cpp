// SPDX-License-Identifier: MIT
// Copies: small ones through a mapping, large ones by whatever was measured to be faster, sealed buffers only by the
// card's DMA.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libnpu/src/internal.h"

namespace npu {
namespace {

constexpr uint64_t kLarge = 256 << 10;   // smaller copies are never worth a job
constexpr uint64_t kLine = 64;           // of a cache
constexpr uint64_t kSample = 512 << 10;  // measured piece
// Buffers up to this size stay mapped for later copies: faults cost more than addresses, where there are enough of
// them.
constexpr uint64_t kKeepMapped = sizeof(void *) == 8 ? UINT64_MAX : 4 << 20;

/// The CPU side of a copy between a buffer and the process.
struct Side {
  npu_bo *bo;
  uint64_t offset;
  const uint8_t *from;  // write
  uint8_t *to;          // read
  uint64_t size;

  Side part(uint64_t start, uint64_t bytes) const {
    return {bo, offset + start, from ? from + start : nullptr, to ? to + start : nullptr, bytes};
  }
};

/// A mapping for one access; holds the shared lock, so that nobody seals meanwhile.
class Mapping {
 public:
  int open(npu_bo *bo) {
    bo_ = bo;
    if (bo->device->checked) return open_uncached();
    lock_ = std::shared_lock(bo->map_mutex);
    if (bo->ptr && !bo->sealed) return 0;
    lock_.unlock();
    void *ptr;
    if (int err = npu_bo_map(bo, &ptr)) return err;
    counted_ = true;
    if (bo->size <= kKeepMapped) {
      std::unique_lock unique(bo->map_mutex);
      bo->kept = !bo->sealed;
    }
    lock_.lock();
    return bo->sealed ? fail(-EACCES, "the buffer was sealed") : 0;
  }
  ~Mapping() {
    if (lock_.owns_lock()) lock_.unlock();
    if (counted_) npu_bo_unmap(bo_);
  }
  uint8_t *data() const { return static_cast<uint8_t *>(bo_->device->checked ? bo_->uncached : bo_->ptr); }
  /// Before a write of the extent; sync() ends it.
  void begin_write(uint64_t offset, uint64_t size) const {
    if (bo_->device->checked) begin_uncached(bo_, offset, size);
  }
  /// Around the accesses.
  int sync(uint64_t offset, uint64_t size, uint32_t direction) const {
    return bo_->device->checked ? sync_uncached(bo_, offset, size, direction)
                                : npu_bo_sync(bo_, offset, size, direction);
  }

 private:
  /// Like the card's DMA, a copy goes past the cache.
  int open_uncached() {
    {
      std::unique_lock unique(bo_->map_mutex);
      if (bo_->sealed) return fail(-EACCES, "the buffer was sealed");
      if (int err = map_uncached_locked(bo_)) return err;
    }
    lock_ = std::shared_lock(bo_->map_mutex);
    return bo_->sealed ? fail(-EACCES, "the buffer was sealed") : 0;
  }

  npu_bo *bo_ = nullptr;
  std::shared_lock<std::shared_mutex> lock_;
  bool counted_ = false;
};

/// Before a write: what the chip has written into the same lines of the cache as its first and its last byte must not
/// be destroyed when these are cleaned.
int fetch_edges(const Mapping &mapping, const npu_device *device, uint64_t offset, uint64_t size) {
  const uint64_t end = offset + size, first_line = offset / kLine * kLine, last_line = (end - 1) / kLine * kLine;
  if (device->coherent) return 0;
  if (first_line != offset)
    if (int err = mapping.sync(offset, std::min(end, first_line + kLine) - offset, DRM_NPU_SYNC_FROM_DEVICE))
      return err;
  if (last_line + kLine == end || (last_line == first_line && first_line != offset)) return 0;
  return mapping.sync(last_line, end - last_line, DRM_NPU_SYNC_FROM_DEVICE);
}

int by_mapping(const Side &s) {
  // Jobs that were submitted before come first. Before the lock: others map and copy meanwhile.
  if (int err = bo_wait(s.bo, s.from ? 0 : DRM_NPU_BO_WAIT_WRITERS, -1)) return err;
  Mapping mapping;
  if (int err = mapping.open(s.bo)) return err;
  if (s.from) {
    if (int err = fetch_edges(mapping, s.bo->device, s.offset, s.size)) return err;
    mapping.begin_write(s.offset, s.size);
    memcpy(mapping.data() + s.offset, s.from, s.size);
    return mapping.sync(s.offset, s.size, DRM_NPU_SYNC_TO_DEVICE);
  }
  if (int err = mapping.sync(s.offset, s.size, DRM_NPU_SYNC_FROM_DEVICE)) return err;
  memcpy(s.to, mapping.data() + s.offset, s.size);
  return 0;
}

int by_dma(CopyEngine *engine, const Side &s) {
  return s.from ? engine->write(s.bo, s.offset, s.from, s.size) : engine->read(s.bo, s.offset, s.to, s.size);
}

bool is_sealed(npu_bo *bo) {
  std::shared_lock lock(bo->map_mutex);
  return bo->sealed;
}

/// Both ways on a piece each; the rest is the caller's.
int measure(CopyEngine *engine, const Side &s, CopyRates &rates, CopyRates::Direction direction) {
  const int64_t start = now_ns();
  if (int err = by_dma(engine, s.part(0, kSample))) return err;
  const int64_t middle = now_ns();
  if (int err = by_mapping(s.part(kSample, kSample))) return err;
  rates.measured(direction, middle - start, now_ns() - middle);
  return 0;
}

int transfer(const Side &s) {
  if (!s.size) return 0;
  npu_device *device = s.bo->device;
  const bool sealed = is_sealed(s.bo);
  if (sealed && s.from) return fail(-EACCES, "the buffer is sealed: its contents cannot change any more");
  if (!sealed && (s.size < kLarge || s.bo->flags & DRM_NPU_BO_SYSTEM)) return by_mapping(s);
  CopyEngine *engine = copy_engine(device);
  if (!engine) return sealed ? -ENOSPC : by_mapping(s);
  if (sealed) return by_dma(engine, s);

  const auto direction = s.from ? CopyRates::kWrite : CopyRates::kRead;
  uint64_t done = 0;
  if (s.size >= 2 * kSample && device->rates.due(direction)) {
    if (int err = measure(engine, s, device->rates, direction)) return err;
    done = 2 * kSample;
  }
  const Side rest = s.part(done, s.size - done);
  if (!rest.size) return 0;
  return device->rates.map_faster(direction) ? by_mapping(rest) : by_dma(engine, rest);
}

int check_range(const char *what, const npu_bo *bo, uint64_t offset, uint64_t size) {
  if (!bo) return fail(-EINVAL, "%s: no buffer", what);
  if (offset > bo->size || size > bo->size - offset)
    return fail(-EINVAL, "%s: offset %#llx size %#llx is beyond the buffer's %#llx bytes", what,
                (unsigned long long)offset, (unsigned long long)size, (unsigned long long)bo->size);
  return 0;
}

/// Through the process, piece by piece, in an order that suits overlapping ranges; for small copies, and where the card
/// cannot do it.
int copy_by_cpu(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size) {
  const uint64_t most = std::min<uint64_t>(size, 1 << 20);
  const std::unique_ptr<uint8_t[]> buffer(new (std::nothrow) uint8_t[most]);
  if (!buffer) return fail(-ENOMEM, "npu_copy: no memory for a buffer of %s", bytes_text(most).c_str());
  const bool backwards = dst == src && dst_offset > src_offset;
  for (uint64_t done = 0; done < size;) {
    const uint64_t piece = std::min(most, size - done);
    const uint64_t at = backwards ? size - done - piece : done;
    if (int err = transfer({src, src_offset + at, nullptr, buffer.get(), piece})) return err;
    if (int err = transfer({dst, dst_offset + at, buffer.get(), nullptr, piece})) return err;
    done += piece;
  }
  return 0;
}

int fill_by_mapping(npu_bo *bo, uint64_t offset, uint64_t size, uint64_t value, unsigned int value_bytes) {
  if (int err = bo_wait(bo, 0, -1)) return err;
  Mapping mapping;
  if (int err = mapping.open(bo)) return err;
  if (int err = fetch_edges(mapping, bo->device, offset, size)) return err;
  mapping.begin_write(offset, size);
  uint8_t *to = mapping.data() + offset;
  for (uint64_t i = 0; i < size; i += value_bytes) memcpy(to + i, &value, value_bytes);
  return mapping.sync(offset, size, DRM_NPU_SYNC_TO_DEVICE);
}

}  // namespace
}  // namespace npu

int npu_write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size) {
  if (int err = npu::check_range("npu_write", bo, offset, size)) return err;
  if (size && !data) return npu::fail(-EINVAL, "npu_write: no data");
  return npu::transfer({bo, offset, static_cast<const uint8_t *>(data), nullptr, size});
}

int npu_read(npu_bo *bo, uint64_t offset, void *data, uint64_t size) {
  if (int err = npu::check_range("npu_read", bo, offset, size)) return err;
  if (size && !data) return npu::fail(-EINVAL, "npu_read: no place for the data");
  return npu::transfer({bo, offset, nullptr, static_cast<uint8_t *>(data), size});
}

int npu_copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size) {
  if (int err = npu::check_range("npu_copy: destination", dst, dst_offset, size)) return err;
  if (int err = npu::check_range("npu_copy: source", src, src_offset, size)) return err;
  if (dst->device != src->device) return npu::fail(-EINVAL, "npu_copy: the buffers belong to two devices");
  if (npu::is_sealed(dst)) return npu::fail(-EACCES, "npu_copy: the destination is sealed");
  if (!size || (dst == src && dst_offset == src_offset)) return 0;
  const uint64_t distance = dst_offset > src_offset ? dst_offset - src_offset : src_offset - dst_offset;
  const bool overlap = dst == src && distance < size;
  npu::CopyEngine *engine = size < npu::kLarge || overlap ? nullptr : npu::copy_engine(dst->device);
  return engine ? engine->copy(dst, dst_offset, src, src_offset, size)
                : npu::copy_by_cpu(dst, dst_offset, src, src_offset, size);
}

int npu_fill(npu_bo *bo, uint64_t offset, uint64_t size, uint64_t value, unsigned int value_bytes) {
  if (int err = npu::check_range("npu_fill", bo, offset, size)) return err;
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8)
    return npu::fail(-EINVAL, "npu_fill: a value of %u bytes: expected 1, 2, 4 or 8", value_bytes);
  if (size % value_bytes)
    return npu::fail(-EINVAL, "npu_fill: %llu bytes are not a multiple of the value's %u", (unsigned long long)size,
                     value_bytes);
  if (npu::is_sealed(bo)) return npu::fail(-EACCES, "npu_fill: the buffer is sealed");
  if (!size) return 0;
  npu::CopyEngine *engine = size < npu::kLarge ? nullptr : npu::copy_engine(bo->device);
  return engine ? engine->fill(bo, offset, size / value_bytes, value, value_bytes)
                : npu::fill_by_mapping(bo, offset, size, value, value_bytes);
}
