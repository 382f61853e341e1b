// SPDX-License-Identifier: MIT
// Copies and fills.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <vector>

#include "libnpu/bmlib/memory.h"

namespace npu::bm {

int copy_in(Handle &handle, const Memory &dst, const void *src, uint64_t size, uint64_t offset) {
  Place place;
  if (int err = place.find(handle, dst, offset, size)) return err;
  const Timer timer(handle, handle.profile.to_device);
  return npu_write(place.bo, place.offset, src, size);
}

int copy_out(Handle &handle, void *dst, const Memory &src, uint64_t size, uint64_t offset) {
  Place place;
  if (int err = place.find(handle, src, offset, size)) return err;
  const Timer timer(handle, handle.profile.from_device);
  return npu_read(place.bo, place.offset, dst, size);
}

namespace {

bm_status_t to_device(const char *where, bm_handle_t handle, const Memory &dst, const void *src, uint64_t size,
                      uint64_t offset) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_in(*h, dst, src, size, offset), where) : bad_handle(where);
}

bm_status_t from_device(const char *where, bm_handle_t handle, void *dst, const Memory &src, uint64_t size,
                        uint64_t offset) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_out(*h, dst, src, size, offset), where) : bad_handle(where);
}

int copy_within(const Handle &handle, const Memory &dst, uint64_t dst_offset, const Memory &src, uint64_t src_offset,
                uint64_t size) {
  Place to, from;
  if (int err = to.find(handle, dst, dst_offset, size)) return err;
  if (int err = from.find(handle, src, src_offset, size)) return err;
  return npu_copy(to.bo, to.offset, from.bo, from.offset, size);
}

bm_status_t within(const char *where, bm_handle_t handle, const Memory &dst, uint64_t dst_offset, const Memory &src,
                   uint64_t src_offset, uint64_t size) {
  const auto h = find(handle);
  return h ? npu_bm_status(copy_within(*h, dst, dst_offset, src, src_offset, size), where) : bad_handle(where);
}

// ---- pieces ----

struct Piece {
  void *pointer;
  uint64_t bytes;
};

/// The arguments of a gather or scatter, checked; negative errno.
int pieces_of(int argc, va_list args, const Memory &mem, std::vector<Piece> &pieces) {
  if (argc < 0 || argc % 2) return fail(-EINVAL, "argc %d: expected pairs of a pointer and a length", argc);
  uint64_t sum = 0;
  for (int i = 0; i < argc / 2; i++) {
    void *pointer = va_arg(args, void *);
    const uint64_t bytes = va_arg(args, unsigned long long);
    if (__builtin_add_overflow(sum, bytes, &sum) || sum > mem.size)
      return fail(-EINVAL, "piece %d: the lengths up to here are more than the descriptor's %llu bytes", i,
                  static_cast<unsigned long long>(mem.size));
    if (bytes && !pointer) return fail(-EINVAL, "piece %d: no memory", i);
    pieces.push_back({pointer, bytes});
  }
  return 0;
}

template <typename Copy>
int each_piece(const std::vector<Piece> &pieces, Copy copy) {
  uint64_t offset = 0;
  for (const Piece &piece : pieces) {
    if (int err = copy(piece, offset)) return err;
    offset += piece.bytes;
  }
  return 0;
}

// ---- strides ----

constexpr uint64_t kChunk = 64 << 10;  // elements at a time

/// dst[i * dst_stride] = src[i * src_stride], element by element in the process: the card's DMA has no such command
/// for strides that count from a descriptor's address.
template <typename Element>
int strided(Handle &handle, const Memory &dst, uint64_t dst_stride, const Memory &src, uint64_t src_stride,
            uint64_t count) {
  std::vector<Element> from, to;
  for (uint64_t done = 0; done < count;) {
    const uint64_t piece = std::min(std::max<uint64_t>(kChunk / std::max(src_stride, dst_stride), 1), count - done);
    const uint64_t in = (piece - 1) * src_stride + 1, out = (piece - 1) * dst_stride + 1;
    from.resize(in);
    to.resize(out);
    if (int err = copy_out(handle, from.data(), src, in * sizeof(Element), done * src_stride * sizeof(Element)))
      return err;
    const uint64_t at = done * dst_stride * sizeof(Element);
    // What lies between the written elements stays.
    if (dst_stride > 1)
      if (int err = copy_out(handle, to.data(), dst, out * sizeof(Element), at)) return err;
    for (uint64_t i = 0; i < piece; i++) to[i * dst_stride] = from[i * src_stride];
    if (int err = copy_in(handle, dst, to.data(), out * sizeof(Element), at)) return err;
    done += piece;
  }
  return 0;
}

int check_strides(const Memory &dst, uint64_t dst_stride, const Memory &src, uint64_t src_stride, uint64_t count,
                  int bytes) {
  if (bytes != 1 && bytes != 2 && bytes != 4) return fail(-EINVAL, "format_size %d: expected 1, 2 or 4", bytes);
  if (!src_stride || (dst_stride != 1 && !(dst_stride == 4 && src_stride == 1 && bytes == 1)))
    return fail(-EINVAL,
                "strides %llu and %llu: expected a destination stride of 1, or of 4 with source stride 1 and bytes",
                static_cast<unsigned long long>(dst_stride), static_cast<unsigned long long>(src_stride));
  for (const auto &[mem, stride] : {std::pair{&dst, dst_stride}, {&src, src_stride}}) {
    uint64_t last = 0;
    if (count && (!multiply(count - 1, stride, last) || !multiply(last + 1, static_cast<uint64_t>(bytes), last) ||
                  last > mem->size))
      return fail(-EINVAL, "%llu elements %llu apart are more than the descriptor's %llu bytes",
                  static_cast<unsigned long long>(count), static_cast<unsigned long long>(stride),
                  static_cast<unsigned long long>(mem->size));
  }
  return 0;
}

int copy_strided(Handle &handle, const Memory &dst, uint64_t dst_stride, const Memory &src, uint64_t src_stride,
                 uint64_t count, int bytes) {
  if (int err = check_strides(dst, dst_stride, src, src_stride, count, bytes)) return err;
  if (bytes == 1) return strided<uint8_t>(handle, dst, dst_stride, src, src_stride, count);
  if (bytes == 2) return strided<uint16_t>(handle, dst, dst_stride, src, src_stride, count);
  return strided<uint32_t>(handle, dst, dst_stride, src, src_stride, count);
}

// ---- between cards ----

int copy_between(Handle &to, const Memory &dst, Handle &from, const Memory &src, uint64_t size) {
  if (&to.device() == &from.device()) return copy_within(to, dst, 0, src, 0, size);
  constexpr uint64_t kPiece = 4 << 20;
  // Both ends before the first byte.
  Place check_dst, check_src;
  if (int err = check_dst.find(to, dst, 0, size)) return err;
  if (int err = check_src.find(from, src, 0, size)) return err;
  std::vector<uint8_t> buffer(std::min(size, kPiece));
  for (uint64_t done = 0; done < size;) {
    const uint64_t piece = std::min(kPiece, size - done);
    if (int err = copy_out(from, buffer.data(), src, piece, done)) return err;
    if (int err = copy_in(to, dst, buffer.data(), piece, done)) return err;
    done += piece;
  }
  return 0;
}

bm_status_t between(const char *where, bm_handle_t dst_handle, const Memory &dst, bm_handle_t src_handle,
                    const Memory &src, uint64_t size) {
  const auto to = find(dst_handle);
  if (!to) return bad_handle(where);
  const auto from = find(src_handle);
  return from ? npu_bm_status(copy_between(*to, dst, *from, src, size), where) : bad_handle(where);
}

// ---- fills ----

/// Three bytes are no element of the chip: the pattern is written.
int fill_three(const Place &place, uint64_t size, const uint8_t *value) {
  uint8_t pattern[3 * 1024];
  for (size_t i = 0; i < sizeof(pattern); i++) pattern[i] = value[i % 3];
  for (uint64_t done = 0; done < size; done += sizeof(pattern)) {
    const uint64_t piece = std::min<uint64_t>(sizeof(pattern), size - done);
    if (int err = npu_write(place.bo, place.offset + done, pattern, piece)) return err;
  }
  return 0;
}

int fill(const Handle &handle, const Memory &mem, const void *value, int mode) {
  if (!value || mode < 1 || mode > 4) return fail(-EINVAL, "mode %d: expected a value of 1 to 4 bytes", mode);
  if (mem.size % static_cast<unsigned int>(mode))
    return fail(-EINVAL, "%llu bytes are not a multiple of mode %d", static_cast<unsigned long long>(mem.size), mode);
  Place place;
  if (int err = place.find(handle, mem, 0, mem.size)) return err;
  if (mode == 3) return fill_three(place, mem.size, static_cast<const uint8_t *>(value));
  uint32_t word = 0;
  memcpy(&word, value, static_cast<size_t>(mode));
  return npu_fill(place.bo, place.offset, mem.size, word, static_cast<unsigned int>(mode));
}

bm_status_t fill(const char *where, bm_handle_t handle, const Memory &mem, const void *value, int mode) {
  const auto h = find(handle);
  return h ? npu_bm_status(fill(*h, mem, value, mode), where) : bad_handle(where);
}

}  // namespace
}  // namespace npu::bm

using namespace npu::bm;

// ---- system to device ----

bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src) {
  return to_device(__func__, handle, memory_of(dst), src, dst.size, 0);
}
bm_status_t sg_memcpy_s2d(bm_handle_t handle, sg_device_mem_t dst, void *src) {
  return to_device(__func__, handle, memory_of(dst), src, dst.size, 0);
}
bm_status_t bm_memcpy_s2d_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src) {
  return to_device(__func__, handle, memory_of(dst), src, dst.size, 0);
}

bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size) {
  return to_device(__func__, handle, memory_of(dst), src, size, 0);
}
bm_status_t sg_memcpy_s2d_partial(bm_handle_t handle, sg_device_mem_t dst, void *src, unsigned long long size) {
  return to_device(__func__, handle, memory_of(dst), src, size, 0);
}
bm_status_t bm_memcpy_s2d_partial_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src, unsigned long long size) {
  return to_device(__func__, handle, memory_of(dst), src, size, 0);
}

bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size,
                                         unsigned int offset) {
  return to_device(__func__, handle, memory_of(dst), src, size, offset);
}
bm_status_t sg_memcpy_s2d_partial_offset(bm_handle_t handle, sg_device_mem_t dst, void *src, unsigned long long size,
                                         unsigned long long offset) {
  return to_device(__func__, handle, memory_of(dst), src, size, offset);
}
bm_status_t bm_memcpy_s2d_partial_offset_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src,
                                             unsigned long long size, unsigned long long offset) {
  return to_device(__func__, handle, memory_of(dst), src, size, offset);
}

bm_status_t bm_memcpy_s2d_gather(bm_handle_t handle, bm_device_mem_t dst, int argc, ...) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  std::vector<Piece> pieces;
  va_list args;
  va_start(args, argc);
  int err = pieces_of(argc, args, memory_of(dst), pieces);
  va_end(args);
  if (!err)
    err = each_piece(pieces, [&](const Piece &piece, uint64_t offset) {
      return copy_in(*h, memory_of(dst), piece.pointer, piece.bytes, offset);
    });
  return npu_bm_status(err, __func__);
}

// ---- device to system ----

bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src) {
  return from_device(__func__, handle, dst, memory_of(src), src.size, 0);
}
bm_status_t sg_memcpy_d2s(bm_handle_t handle, void *dst, sg_device_mem_t src) {
  return from_device(__func__, handle, dst, memory_of(src), src.size, 0);
}
bm_status_t bm_memcpy_d2s_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src) {
  return from_device(__func__, handle, dst, memory_of(src), src.size, 0);
}

bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size) {
  return from_device(__func__, handle, dst, memory_of(src), size, 0);
}
bm_status_t sg_memcpy_d2s_partial(bm_handle_t handle, void *dst, sg_device_mem_t src, unsigned long long size) {
  return from_device(__func__, handle, dst, memory_of(src), size, 0);
}
bm_status_t bm_memcpy_d2s_partial_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src, unsigned long long size) {
  return from_device(__func__, handle, dst, memory_of(src), size, 0);
}

bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                                         unsigned int offset) {
  return from_device(__func__, handle, dst, memory_of(src), size, offset);
}
bm_status_t sg_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, sg_device_mem_t src, unsigned long long size,
                                         unsigned long long offset) {
  return from_device(__func__, handle, dst, memory_of(src), size, offset);
}
bm_status_t bm_memcpy_d2s_partial_offset_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src,
                                             unsigned long long size, unsigned long long offset) {
  return from_device(__func__, handle, dst, memory_of(src), size, offset);
}

bm_status_t bm_memcpy_d2s_scatter(bm_handle_t handle, bm_device_mem_t src, int argc, ...) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  std::vector<Piece> pieces;
  va_list args;
  va_start(args, argc);
  int err = pieces_of(argc, args, memory_of(src), pieces);
  va_end(args);
  if (!err)
    err = each_piece(pieces, [&](const Piece &piece, uint64_t offset) {
      return copy_out(*h, piece.pointer, memory_of(src), piece.bytes, offset);
    });
  return npu_bm_status(err, __func__);
}

// ---- within a device ----

bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size) {
  return within(__func__, handle, memory_of(dst), dst_offset, memory_of(src), src_offset, size);
}
bm_status_t bm_memcpy_d2d_byte_u64(bm_handle_t handle, bm_device_mem_u64_t dst, unsigned long long dst_offset,
                                   bm_device_mem_u64_t src, unsigned long long src_offset, unsigned long long size) {
  return within(__func__, handle, memory_of(dst), dst_offset, memory_of(src), src_offset, size);
}

bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src, int src_offset,
                          int len) {
  if (dst_offset < 0 || src_offset < 0 || len < 0)
    return npu_bm_status(
        fail(-EINVAL, "offsets %d and %d, %d dwords: expected no negative number", dst_offset, src_offset, len),
        __func__);
  constexpr uint64_t kDword = 4;
  return within(__func__, handle, memory_of(dst), static_cast<uint64_t>(dst_offset), memory_of(src),
                static_cast<uint64_t>(src_offset), kDword * static_cast<uint64_t>(len));
}
bm_status_t bm_memcpy_d2d_with_core(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                                    int src_offset, int len, int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_memcpy_d2d(handle, dst, dst_offset, src, src_offset, len) : status;
}
bm_status_t bm_memcpy_d2d_byte_with_core(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset,
                                         bm_device_mem_t src, size_t src_offset, size_t size, int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_memcpy_d2d_byte(handle, dst, dst_offset, src, src_offset, size) : status;
}
bm_status_t bm_memcpy_d2d_u64(bm_handle_t handle, bm_device_mem_u64_t dst, unsigned long long dst_offset,
                              bm_device_mem_u64_t src, unsigned long long src_offset, unsigned long long len) {
  uint64_t bytes = 0;
  if (!multiply(len, 4, bytes))
    return npu_bm_status(fail(-EINVAL, "%llu dwords are more bytes than a number can have", len), __func__);
  return within(__func__, handle, memory_of(dst), dst_offset, memory_of(src), src_offset, bytes);
}

bm_status_t bm_memcpy_d2d_stride(bm_handle_t handle, bm_device_mem_t dst, int dst_stride, bm_device_mem_t src,
                                 int src_stride, int count, int format_size) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (dst_stride < 0 || src_stride < 0 || count < 0)
    return npu_bm_status(
        fail(-EINVAL, "strides %d and %d, %d elements: expected no negative number", dst_stride, src_stride, count),
        __func__);
  return npu_bm_status(copy_strided(*h, memory_of(dst), static_cast<uint64_t>(dst_stride), memory_of(src),
                                    static_cast<uint64_t>(src_stride), static_cast<uint64_t>(count), format_size),
                       __func__);
}
bm_status_t bm_memcpy_d2d_stride_with_core(bm_handle_t handle, bm_device_mem_t dst, int dst_stride, bm_device_mem_t src,
                                           int src_stride, int count, int format_size, int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_memcpy_d2d_stride(handle, dst, dst_stride, src, src_stride, count, format_size)
                              : status;
}
bm_status_t bm_memcpy_d2d_stride_u64(bm_handle_t handle, bm_device_mem_u64_t dst, unsigned long long dst_stride,
                                     bm_device_mem_u64_t src, unsigned long long src_stride, unsigned long long count,
                                     int format_size) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  return npu_bm_status(copy_strided(*h, memory_of(dst), dst_stride, memory_of(src), src_stride, count, format_size),
                       __func__);
}

// ---- between devices ----

bm_status_t bm_memcpy_p2p(bm_handle_t handle_src, bm_device_mem_t src, bm_handle_t handle_dst, bm_device_mem_t dst) {
  return between(__func__, handle_dst, memory_of(dst), handle_src, memory_of(src), dst.size);
}

bm_status_t bm_memcpy_c2c(bm_handle_t src_handle, bm_handle_t dst_handle, bm_device_mem_t src, bm_device_mem_t dst,
                          bool) {
  return between(__func__, dst_handle, memory_of(dst), src_handle, memory_of(src), src.size);
}

// ---- fills ----

bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem) {
  return fill(__func__, handle, memory_of(mem), value, mode);
}
bm_status_t bm_memset_device_ext_u64(bm_handle_t handle, void *value, int mode, bm_device_mem_u64_t mem) {
  return fill(__func__, handle, memory_of(mem), value, mode);
}

bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem) {
  return fill(__func__, handle, memory_of(mem), &value, sizeof(value));
}
