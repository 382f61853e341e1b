/* SPDX-License-Identifier: MIT */
#ifndef BMLIB_RUNTIME_H_
#define BMLIB_RUNTIME_H_

/*
 * BMLIB: device handles, device memory, copies and synchronisation, as programs for the BM168x family know them, over
 * libnpu (npu.h). Names, values and layouts are those of the vendor's library, so that sources compile unchanged and
 * object files link. docs/reference/libnpu.md has a table of what every function does here; those that have no meaning
 * on this card are in bmlib_not_supported.h, which this header includes, and say BM_NOT_SUPPORTED.
 *
 * Errors: functions return a bm_status_t; npu_last_error() (npu.h) and the log (bmlib_log_set_level()) have the reason
 * as text. Nothing aborts. Threads: everything may be called by any number of threads at once; a handle must not be
 * freed while another thread uses it. Ownership: a descriptor (bm_device_mem_t) is a plain value, an address and a
 * size; copies and descriptors of parts of an allocation are as good as the original. Memory belongs to the device file
 * that all handles of one device in this process share. It is freed by address: the descriptor must carry the address
 * that bm_malloc_device_*() gave; anything else is refused and logged, whatever its dmabuf_fd says. bm_dev_free() of a
 * device's last handle frees what is left.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BMLIB_API __attribute__((visibility("default")))

/* Empty, as other headers of the vendor's define them again: bmcv_api_ext.h, programs' own. */
#define DECL_EXPORT
#define DECL_IMPORT

#ifdef __cplusplus
extern "C" {
#endif

#define BM_MEM_ADDR_NULL (0xfffffffff)

#ifndef BM_MEM_DESC_T_
#define BM_MEM_DESC_T_

typedef enum {
  BM_SUCCESS = 0,
  BM_ERR_DEVNOTREADY = 1, /* no such device, or it is gone */
  BM_ERR_FAILURE = 2,     /* a job failed, or what no other code says */
  BM_ERR_TIMEOUT = 3,     /* not finished in the time given */
  BM_ERR_PARAM = 4,       /* bad argument: handle, address, size, range */
  BM_ERR_NOMEM = 5,       /* not enough device or system memory */
  BM_ERR_DATA = 6,        /* data is damaged */
  BM_ERR_BUSY = 7,        /* in use */
  BM_ERR_NOFEATURE = 8,   /* this card does not have it */
  BM_NOT_SUPPORTED = 9    /* has no meaning here */
} bm_status_t;

typedef enum {
  BM_MEM_TYPE_DEVICE = 0,
  BM_MEM_TYPE_HOST = 1,
  BM_MEM_TYPE_SYSTEM = 2,
  BM_MEM_TYPE_INT8_DEVICE = 3,
  BM_MEM_TYPE_INVALID = 4
} bm_mem_type_t;

typedef union {
  struct {
    __extension__ bm_mem_type_t mem_type : 3;
    unsigned int gmem_heapid : 3;
    unsigned int reserved : 26;
  } u;
  unsigned int rawflags;
} bm_mem_flags_t;

/* uint64_t is unsigned long where the vendor's ABI exists (x86-64, arm64); 32-bit programs see the same 24 bytes. */
typedef struct bm_mem_desc {
  union {
    struct {
      uint64_t device_addr;
      unsigned int reserved;
      int dmabuf_fd;
    } device;
    struct {
      void *system_addr;
      unsigned int reserved0;
      int reserved1;
    } system;
  } u;
  bm_mem_flags_t flags;
  unsigned int size; /* bytes */
} bm_mem_desc_t;

typedef struct bm_mem_desc bm_device_mem_t;
typedef struct bm_mem_desc bm_system_mem_t;

/* The same for more than 4 GiB. */
typedef struct sg_mem_desc {
  union {
    struct {
      uint64_t device_addr;
      unsigned int reserved;
      int dmabuf_fd;
    } device;
    struct {
      void *system_addr;
      unsigned int reserved0;
      int reserved1;
    } system;
  } u;
  bm_mem_flags_t flags;
  unsigned long long size __attribute__((aligned(8)));
} sg_mem_desc_t;

typedef struct sg_mem_desc sg_device_mem_t;
typedef struct sg_mem_desc sg_system_mem_t;

/* Likewise; a type of its own for C++. */
typedef struct bm_mem_desc_u64 {
  union {
    struct {
      uint64_t device_addr;
      unsigned int reserved;
      int dmabuf_fd;
    } device;
    struct {
      void *system_addr;
      unsigned int reserved0;
      int reserved1;
    } system;
  } u;
  bm_mem_flags_t flags;
  unsigned long long size __attribute__((aligned(8)));
} bm_mem_desc_u64_t;

typedef struct bm_mem_desc_u64 bm_device_mem_u64_t;
typedef struct bm_mem_desc_u64 bm_system_mem_u64_t;

#endif /* BM_MEM_DESC_T_ */

struct bm_context;
typedef struct bm_context *bm_handle_t;

/* ---- devices ---- */

/* Valid device numbers are 0 to *count - 1; none is no error. */
BMLIB_API bm_status_t bm_dev_getcount(int *count);
/* BM_SUCCESS: there is a device devid that this process may use. */
BMLIB_API bm_status_t bm_dev_query(int devid);
/* Opens device devid; every request gives a handle of its own that has to be freed. */
BMLIB_API bm_status_t bm_dev_request(bm_handle_t *handle, int devid);
/* Waits for the handle's own unfinished launches, then frees it. NULL is allowed, a stale handle is logged and ignored.
 */
BMLIB_API void bm_dev_free(bm_handle_t handle);
/* The device number, -1 for what is not a handle. */
BMLIB_API int bm_get_devid(bm_handle_t handle);

/* ---- descriptors ---- */

/* The descriptor's type: BM_MEM_TYPE_DEVICE, BM_MEM_TYPE_SYSTEM, ... */
BMLIB_API bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem);
BMLIB_API bm_mem_type_t sg_mem_get_type(struct sg_mem_desc mem);
BMLIB_API bm_mem_type_t bm_mem_get_type_u64(struct bm_mem_desc_u64 mem);
/* The address field as it stands: BM_MEM_ADDR_NULL in bm_mem_null(). */
BMLIB_API unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem);
BMLIB_API unsigned long long sg_mem_get_device_addr(struct sg_mem_desc mem);
BMLIB_API unsigned long long bm_mem_get_device_addr_u64(struct bm_mem_desc_u64 mem);
/* Sets the address; the descriptor is one of device memory from now on. */
BMLIB_API void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr);
BMLIB_API void sg_mem_set_device_addr(struct sg_mem_desc *pmem, unsigned long long addr);
BMLIB_API void bm_mem_set_device_addr_u64(struct bm_mem_desc_u64 *pmem, unsigned long long addr);
/* Bytes. bm_mem_get_size() is another name. */
BMLIB_API unsigned int bm_mem_get_device_size(struct bm_mem_desc mem);
BMLIB_API unsigned long long sg_mem_get_device_size(struct sg_mem_desc mem);
BMLIB_API unsigned long long bm_mem_get_device_size_u64(struct bm_mem_desc_u64 mem);
BMLIB_API unsigned int bm_mem_get_size(struct bm_mem_desc mem);
/* Sets the size, bytes; allocates nothing. */
BMLIB_API void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size);
BMLIB_API void sg_mem_set_device_size(struct sg_mem_desc *pmem, unsigned long long size);
BMLIB_API void bm_mem_set_device_size_u64(struct bm_mem_desc_u64 *pmem, unsigned long long size);
/* Fills in a descriptor of device memory: *pmem = bm_mem_from_device(addr, size). */
BMLIB_API void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr);
BMLIB_API void sg_set_device_mem(sg_device_mem_t *pmem, unsigned long long size, unsigned long long addr);
BMLIB_API void bm_set_device_mem_u64(bm_device_mem_u64_t *pmem, unsigned long long size, unsigned long long addr);
/* A descriptor of len bytes at a device address, which may lie anywhere inside an allocation. */
BMLIB_API bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len);
BMLIB_API sg_device_mem_t sg_mem_from_device(unsigned long long device_addr, unsigned long long len);
BMLIB_API bm_device_mem_u64_t bm_mem_from_device_u64(unsigned long long device_addr, unsigned long long len);
/* The pointer of a descriptor of system memory. */
BMLIB_API void *bm_mem_get_system_addr(struct bm_mem_desc mem);
BMLIB_API void *sg_mem_get_system_addr(struct sg_mem_desc mem);
BMLIB_API void *bm_mem_get_system_addr_u64(struct bm_mem_desc_u64 mem);
/* Sets the pointer; the descriptor is one of system memory from now on. */
BMLIB_API void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr);
BMLIB_API void sg_mem_set_system_addr(struct sg_mem_desc *pmem, void *addr);
BMLIB_API void bm_mem_set_system_addr_u64(struct bm_mem_desc_u64 *pmem, void *addr);
/* A descriptor of system memory, of size 0. */
BMLIB_API bm_system_mem_t bm_mem_from_system(void *system_addr);
/* A descriptor of type BM_MEM_TYPE_INVALID. */
BMLIB_API bm_device_mem_t bm_mem_null(void);
#define BM_MEM_NULL (bm_mem_null())

/* ---- device memory: zeroed, page aligned ---- */

/* On failure *pmem is bm_mem_null(); the text says requested, free and largest block. */
BMLIB_API bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size);
BMLIB_API bm_status_t sg_malloc_device_byte(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long size);
BMLIB_API bm_status_t bm_malloc_device_byte_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long size);
/* The card has one heap: heap_id 0 to 2 are the same memory. */
BMLIB_API bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id,
                                                 unsigned int size);
BMLIB_API bm_status_t sg_malloc_device_byte_heap(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id,
                                                 unsigned long long size);
BMLIB_API bm_status_t bm_malloc_device_byte_heap_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, int heap_id,
                                                     unsigned long long size);
/* Bit n of the mask allows heap n; one of the bits 0 to 2 is needed. */
BMLIB_API bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                                      unsigned int size);
BMLIB_API bm_status_t sg_malloc_device_byte_heap_mask(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id_mask,
                                                      unsigned long long size);
BMLIB_API bm_status_t bm_malloc_device_byte_heap_mask_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem,
                                                          int heap_id_mask, unsigned long long size);
/* count times 4 bytes. */
BMLIB_API bm_status_t bm_malloc_device_dword(bm_handle_t handle, bm_device_mem_t *pmem, int count);
BMLIB_API bm_status_t sg_malloc_device_dword(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long count);
BMLIB_API bm_status_t bm_malloc_device_dword_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem,
                                                 unsigned long long count);
/* Room for a tensor of this shape with 4 bytes an element. */
BMLIB_API bm_status_t bm_malloc_neuron_device(bm_handle_t handle, bm_device_mem_t *pmem, int n, int c, int h, int w);
BMLIB_API bm_status_t sg_malloc_neuron_device(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long n,
                                              unsigned long long c, unsigned long long h, unsigned long long w);
BMLIB_API bm_status_t bm_malloc_neuron_device_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long n,
                                                  unsigned long long c, unsigned long long h, unsigned long long w);
/* Without a descriptor: *paddr gets the device address, 0 on failure. Free it with bm_free_device_mem(). */
BMLIB_API bm_status_t bm_malloc_device_mem(bm_handle_t handle, unsigned long long *paddr, int heap_id,
                                           unsigned long long size);
BMLIB_API bm_status_t bm_malloc_device_mem_mask(bm_handle_t handle, unsigned long long *paddr, int heap_id_mask,
                                                unsigned long long size);
/* The memory goes when no unfinished launch uses it any more. */
BMLIB_API void bm_free_device(bm_handle_t handle, bm_device_mem_t mem);
BMLIB_API void sg_free_device(bm_handle_t handle, sg_device_mem_t mem);
BMLIB_API void bm_free_device_u64(bm_handle_t handle, bm_device_mem_u64_t mem);
/* Likewise by address. */
BMLIB_API void bm_free_device_mem(bm_handle_t handle, unsigned long long paddr);

/* ---- copies: synchronous, any alignment; a copy waits for launches that use the memory ---- */

/* System to device memory; size defaults to the descriptor's; copies beyond the descriptor are BM_ERR_PARAM. */
BMLIB_API bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src);
BMLIB_API bm_status_t sg_memcpy_s2d(bm_handle_t handle, sg_device_mem_t dst, void *src);
BMLIB_API bm_status_t bm_memcpy_s2d_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src);
BMLIB_API bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size);
BMLIB_API bm_status_t sg_memcpy_s2d_partial(bm_handle_t handle, sg_device_mem_t dst, void *src,
                                            unsigned long long size);
BMLIB_API bm_status_t bm_memcpy_s2d_partial_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src,
                                                unsigned long long size);
/* offset counts in the DEVICE memory: src[0, size) goes to dst[offset, offset + size). */
BMLIB_API bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src,
                                                   unsigned int size, unsigned int offset);
BMLIB_API bm_status_t sg_memcpy_s2d_partial_offset(bm_handle_t handle, sg_device_mem_t dst, void *src,
                                                   unsigned long long size, unsigned long long offset);
BMLIB_API bm_status_t bm_memcpy_s2d_partial_offset_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src,
                                                       unsigned long long size, unsigned long long offset);
/* Several pieces of system memory, one after another: argc arguments follow, pairs of void *src and unsigned long long
 * length. An odd argc, or more bytes than dst has, is BM_ERR_PARAM before anything is copied. */
BMLIB_API bm_status_t bm_memcpy_s2d_gather(bm_handle_t handle, bm_device_mem_t dst, int argc, ...);
/* Device to system memory. */
BMLIB_API bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src);
BMLIB_API bm_status_t sg_memcpy_d2s(bm_handle_t handle, void *dst, sg_device_mem_t src);
BMLIB_API bm_status_t bm_memcpy_d2s_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src);
BMLIB_API bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size);
BMLIB_API bm_status_t sg_memcpy_d2s_partial(bm_handle_t handle, void *dst, sg_device_mem_t src,
                                            unsigned long long size);
BMLIB_API bm_status_t bm_memcpy_d2s_partial_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src,
                                                unsigned long long size);
/* src[offset, offset + size) goes to dst[0, size). */
BMLIB_API bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src,
                                                   unsigned int size, unsigned int offset);
BMLIB_API bm_status_t sg_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, sg_device_mem_t src,
                                                   unsigned long long size, unsigned long long offset);
BMLIB_API bm_status_t bm_memcpy_d2s_partial_offset_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src,
                                                       unsigned long long size, unsigned long long offset);
/* The other way of bm_memcpy_s2d_gather(): argc arguments, pairs of void *dst and unsigned long long length. */
BMLIB_API bm_status_t bm_memcpy_d2s_scatter(bm_handle_t handle, bm_device_mem_t src, int argc, ...);
/* Within a device: offsets in bytes, len in dwords (4 bytes). */
BMLIB_API bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                                    int src_offset, int len);
BMLIB_API bm_status_t bm_memcpy_d2d_u64(bm_handle_t handle, bm_device_mem_u64_t dst, unsigned long long dst_offset,
                                        bm_device_mem_u64_t src, unsigned long long src_offset, unsigned long long len);
/* All in bytes. */
BMLIB_API bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset,
                                         bm_device_mem_t src, size_t src_offset, size_t size);
BMLIB_API bm_status_t bm_memcpy_d2d_byte_u64(bm_handle_t handle, bm_device_mem_u64_t dst, unsigned long long dst_offset,
                                             bm_device_mem_u64_t src, unsigned long long src_offset,
                                             unsigned long long size);
/* Likewise, by a core of the caller's choice: the card copies without one, so core_id is checked and then nothing. */
BMLIB_API bm_status_t bm_memcpy_d2d_with_core(bm_handle_t handle, bm_device_mem_t dst, int dst_offset,
                                              bm_device_mem_t src, int src_offset, int len, int core_id);
BMLIB_API bm_status_t bm_memcpy_d2d_byte_with_core(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset,
                                                   bm_device_mem_t src, size_t src_offset, size_t size, int core_id);
/*
 * count elements of format_size (1, 2 or 4) bytes: element i goes from src[i * src_stride] to dst[i * dst_stride];
 * strides count elements. dst_stride is 1, or 4 with src_stride 1 and format_size 1.
 */
BMLIB_API bm_status_t bm_memcpy_d2d_stride(bm_handle_t handle, bm_device_mem_t dst, int dst_stride, bm_device_mem_t src,
                                           int src_stride, int count, int format_size);
BMLIB_API bm_status_t bm_memcpy_d2d_stride_u64(bm_handle_t handle, bm_device_mem_u64_t dst,
                                               unsigned long long dst_stride, bm_device_mem_u64_t src,
                                               unsigned long long src_stride, unsigned long long count,
                                               int format_size);
/* Likewise; core_id as in bm_memcpy_d2d_with_core(). */
BMLIB_API bm_status_t bm_memcpy_d2d_stride_with_core(bm_handle_t handle, bm_device_mem_t dst, int dst_stride,
                                                     bm_device_mem_t src, int src_stride, int count, int format_size,
                                                     int core_id);
/* Between two devices (or within one), through system memory: dst's size in bytes, which src must have. */
BMLIB_API bm_status_t bm_memcpy_p2p(bm_handle_t handle_src, bm_device_mem_t src, bm_handle_t handle_dst,
                                    bm_device_mem_t dst);
/* Likewise, src's size in bytes, for which dst must have room; force_dst_cdma has no meaning here. */
BMLIB_API bm_status_t bm_memcpy_c2c(bm_handle_t src_handle, bm_handle_t dst_handle, bm_device_mem_t src,
                                    bm_device_mem_t dst, bool force_dst_cdma);
/* Fills with a 32-bit value; the descriptor's size is a multiple of 4. */
BMLIB_API bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem);
/* Fills with the first mode (1 to 4) bytes at value; the descriptor's size is a multiple of mode. */
BMLIB_API bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem);
BMLIB_API bm_status_t bm_memset_device_ext_u64(bm_handle_t handle, void *value, int mode, bm_device_mem_u64_t mem);

/*
 * Allocates device memory for sys_mem's data and, with need_copy, copies them. The caller frees *dev_mem; on failure
 * nothing is allocated. neuron: n * c * h * w elements, coeff: coeff_count elements; of 4 bytes, _byte: of 1.
 */
BMLIB_API bm_status_t bm_mem_convert_system_to_device_neuron(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                             struct bm_mem_desc sys_mem, bool need_copy, int n, int c,
                                                             int h, int w);
BMLIB_API bm_status_t bm_mem_convert_system_to_device_neuron_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                                  struct bm_mem_desc sys_mem, bool need_copy, int n,
                                                                  int c, int h, int w);
BMLIB_API bm_status_t bm_mem_convert_system_to_device_coeff(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                            struct bm_mem_desc sys_mem, bool need_copy,
                                                            int coeff_count);
BMLIB_API bm_status_t bm_mem_convert_system_to_device_coeff_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                                 struct bm_mem_desc sys_mem, bool need_copy,
                                                                 int coeff_count);

/* ---- device memory in the process ---- */

/*
 * *vmem gets the address of the descriptor's first byte. Works for every card, not only SoC boards. Each mapping is
 * undone by one bm_mem_unmap_device_mem() with that address; size is the descriptor's. Between the program and the chip
 * there may be a cache: flush what the program wrote, invalidate before it reads what the chip wrote.
 */
BMLIB_API bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem);
BMLIB_API bm_status_t sg_mem_mmap_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long *vmem);
BMLIB_API bm_status_t bm_mem_mmap_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                 unsigned long long *vmem);
/* A mapping without a cache: neither flush nor invalidate is needed. Reading it may be slow. */
BMLIB_API bm_status_t bm_mem_mmap_device_mem_no_cache(bm_handle_t handle, bm_device_mem_t *dmem,
                                                      unsigned long long *vmem);
BMLIB_API bm_status_t sg_mem_mmap_device_mem_no_cache(bm_handle_t handle, sg_device_mem_t *dmem,
                                                      unsigned long long *vmem);
BMLIB_API bm_status_t bm_mem_mmap_device_mem_no_cache_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                          unsigned long long *vmem);
/* vmem is an address that one of the calls above gave. */
BMLIB_API bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size);
BMLIB_API bm_status_t sg_mem_unmap_device_mem(bm_handle_t handle, void *vmem, unsigned long long size);
BMLIB_API bm_status_t bm_mem_unmap_device_mem_u64(bm_handle_t handle, void *vmem, unsigned long long size);
/* The device address behind an address inside a mapping. */
BMLIB_API bm_status_t bm_mem_vir_to_phy(bm_handle_t handle, unsigned long long vmem, unsigned long long *device_mem);
/* The chip wrote, the program is going to read. */
BMLIB_API bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
BMLIB_API bm_status_t sg_mem_invalidate_device_mem(bm_handle_t handle, sg_device_mem_t *dmem);
BMLIB_API bm_status_t bm_mem_invalidate_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem);
BMLIB_API bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem,
                                                           unsigned int offset, unsigned int len);
BMLIB_API bm_status_t sg_mem_invalidate_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem,
                                                           unsigned long long offset, unsigned long long len);
BMLIB_API bm_status_t bm_mem_invalidate_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                               unsigned long long offset, unsigned long long len);
/* The program wrote, the chip is going to read. */
BMLIB_API bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
BMLIB_API bm_status_t sg_mem_flush_device_mem(bm_handle_t handle, sg_device_mem_t *dmem);
BMLIB_API bm_status_t bm_mem_flush_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem);
BMLIB_API bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                      unsigned int len);
BMLIB_API bm_status_t sg_mem_flush_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem,
                                                      unsigned long long offset, unsigned long long len);
BMLIB_API bm_status_t bm_mem_flush_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem,
                                                          unsigned long long offset, unsigned long long len);

/* ---- synchronisation ---- */

/* Waits for what the calling thread launched on this handle and reports the first error of it, once. Nothing launched:
 * BM_SUCCESS at once. */
BMLIB_API bm_status_t bm_thread_sync(bm_handle_t handle);
/* Likewise. The launches of a thread run in one order, whatever their cores: it waits for all of them. BM_ERR_PARAM:
 * the card has no core core_id. */
BMLIB_API bm_status_t bm_thread_sync_from_core(bm_handle_t handle, int core_id);
/* Likewise for all threads' launches on this handle; other threads still get their errors from their own
 * bm_thread_sync(). */
BMLIB_API bm_status_t bm_handle_sync(bm_handle_t handle);
BMLIB_API bm_status_t bm_handle_sync_from_core(bm_handle_t handle, int core_id);
/* Likewise for all handles of this process on the device. */
BMLIB_API bm_status_t bm_device_sync(bm_handle_t handle);
/* bm_handle_sync() for those who do not want to know; an error is logged. */
BMLIB_API void bm_flush(bm_handle_t handle);
/* Longest time that the calls above wait, milliseconds; 0 or less: no limit (the default). A timeout is forgotten with
 * the call that met it. */
BMLIB_API bm_status_t bm_set_sync_timeout(bm_handle_t handle, int timeout);

/* ---- facts ---- */

typedef struct bm_heap_stat {
  unsigned int mem_total; /* MiB */
  unsigned int mem_avail;
  unsigned int mem_used;
} bm_heap_stat_t;

typedef struct bm_heap_stat_byte {
  unsigned int heap_id;
  unsigned long long mem_total __attribute__((aligned(8))); /* bytes */
  unsigned long long mem_avail __attribute__((aligned(8)));
  unsigned long long mem_used __attribute__((aligned(8)));
  unsigned long long mem_start_addr __attribute__((aligned(8))); /* lowest device address that an allocation can have */
} bm_heap_stat_byte_t;

typedef struct bm_dev_stat {
  int mem_total; /* MiB */
  int mem_used;
  int tpu_util; /* utilisation (npu.h, npu_utilisation()) of all cores since the handle's bm_get_stat() before this one;
                   the first one looks for 10 ms */
  int heap_num; /* 1 */
  bm_heap_stat_t heap_stat[4];
} bm_dev_stat_t;

/* Memory, now, and utilisation. */
BMLIB_API bm_status_t bm_get_stat(bm_handle_t handle, bm_dev_stat_t *stat);
/* 1: the card's memory. */
BMLIB_API bm_status_t bm_get_gmem_total_heap_num(bm_handle_t handle, unsigned int *heap_num);
/* heap_id is 0. */
BMLIB_API bm_status_t bm_get_gmem_heap_stat_byte_by_id(bm_handle_t handle, bm_heap_stat_byte_t *pheap_byte,
                                                       unsigned int heap_id);
/* 0 for all memory of this process on the device; BM_ERR_PARAM for other addresses. */
BMLIB_API bm_status_t bm_get_gmem_heap_id(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int *heapid);
BMLIB_API bm_status_t sg_get_gmem_heap_id(bm_handle_t handle, sg_device_mem_t *pmem, unsigned int *heapid);
BMLIB_API bm_status_t bm_get_gmem_heap_id_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned int *heapid);

#define BM1682_CHIPID_BIT_MASK (0X1 << 0)
#define BM1684_CHIPID_BIT_MASK (0X1 << 1)
#define BM1686_CHIPID_BIT_MASK (0X1 << 2)

struct bm_misc_info {
  int pcie_soc_mode; /* 0: PCIe, 1: a block of a SoC */
  int ddr_ecc_enable;
  long long ddr0a_size __attribute__((aligned(8))); /* device memory, bytes; the other three are 0 */
  long long ddr0b_size __attribute__((aligned(8)));
  long long ddr1_size __attribute__((aligned(8)));
  long long ddr2_size __attribute__((aligned(8)));
  unsigned int chipid;
  uint64_t chipid_bit_mask __attribute__((aligned(8))); /* 0: none of the vendor's chips */
  unsigned int driver_version;                          /* major << 16 | minor << 8 | patch */
  int domain_bdf;                                       /* domain << 16 | bus << 8 | device << 3 | function */
  int board_version;
  int a53_enable;
  int dyn_enable;
};

/* What never changes. */
BMLIB_API bm_status_t bm_get_misc_info(bm_handle_t handle, struct bm_misc_info *pmisc_info);
/* The chip's own ID register, "QNPU" = 0x55504e51: none of the vendor's numbers. */
BMLIB_API bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid);
/* driver_version of struct bm_misc_info. */
BMLIB_API bm_status_t bm_get_driver_version(bm_handle_t handle, int *driver_version);
/* "QNPU1"; name has room for 16 bytes. */
BMLIB_API bm_status_t bm_get_board_name(bm_handle_t handle, char *name);
/* Cores of the card. */
BMLIB_API bm_status_t bm_get_tpu_scalar_num(bm_handle_t handle, unsigned int *core_num);
#define bm_get_tpu_core_num bm_get_tpu_scalar_num
/* Every card has one chip: the card's number is the device's. */
BMLIB_API bm_status_t bm_get_card_id(bm_handle_t handle, unsigned int *card_id);
BMLIB_API bm_status_t bm_get_card_num(unsigned int *card_num);
BMLIB_API bm_status_t bm_get_chip_num_from_card(unsigned int card_id, unsigned int *chip_num,
                                                unsigned int *dev_start_index);

/* ---- sensors ---- */

/* Degrees Celsius, rounded; 0 below zero. */
BMLIB_API bm_status_t bm_get_chip_temp(bm_handle_t handle, unsigned int *chip_temp);
/* Watts of the whole board, rounded. */
BMLIB_API bm_status_t bm_get_board_power(bm_handle_t handle, unsigned int *boardp);
/* Core voltage, millivolts. */
BMLIB_API bm_status_t bm_get_tpu_volt(bm_handle_t handle, unsigned int *tpu_volt);
/* Turns a minute. */
BMLIB_API bm_status_t bm_get_fan_speed(bm_handle_t handle, unsigned int *fan);
/* Present and nominal clock, MHz; the clock's lowest state is a quarter of the nominal one. */
BMLIB_API bm_status_t bm_get_clk_tpu_freq(bm_handle_t handle, int *freq);
BMLIB_API bm_status_t bm_get_tpu_maxclk(bm_handle_t handle, unsigned int *tpu_maxclk);
BMLIB_API bm_status_t bm_get_tpu_minclk(bm_handle_t handle, unsigned int *tpu_minclk);
/* Corrected memory errors since power-on. */
BMLIB_API bm_status_t bm_get_ecc_correct_num(bm_handle_t handle, uint64_t *ecc_correct_num);
/* Bit 1: the card is gone. The other bits of the vendor's (hang, temperature) are never set: a hanging job is killed,
 * and the card has no fixed limit that a program could know. */
BMLIB_API bm_status_t bm_get_status(bm_handle_t handle, int *status);

/* ---- profile ---- */

/* Of a handle since bm_dev_request(). Times in microseconds: of copies as the program waited, of launches as the chip
 * counts (modelled cycles at the nominal clock). Launches count as completed when a sync call noticed. */
typedef struct bm_profile {
  uint64_t cdma_in_time __attribute__((aligned(8))); /* device to system: "in" and "out" are the host's */
  uint64_t cdma_in_counter __attribute__((aligned(8)));
  uint64_t cdma_out_time __attribute__((aligned(8))); /* system to device */
  uint64_t cdma_out_counter __attribute__((aligned(8)));
  uint64_t tpu_process_time __attribute__((aligned(8)));
  uint64_t tpu1_process_time __attribute__((aligned(8))); /* 0 */
  uint64_t sent_api_counter __attribute__((aligned(8)));  /* launches */
  uint64_t completed_api_counter __attribute__((aligned(8)));
} bm_profile_t;

/* The counters as they stand. */
BMLIB_API bm_status_t bm_get_profile(bm_handle_t handle, bm_profile_t *profile);
/* Modelled time of the calling thread's last launch that a sync call waited for, microseconds; BM_ERR_PARAM: there is
 * none. */
BMLIB_API bm_status_t bm_get_last_api_process_time_us(bm_handle_t handle, uint64_t *time_us);

/* ---- log ---- */

#define BMLIB_LOG_QUIET -8
#define BMLIB_LOG_PANIC 0
#define BMLIB_LOG_FATAL 8
#define BMLIB_LOG_ERROR 16
#define BMLIB_LOG_WARNING 24
#define BMLIB_LOG_INFO 32
#define BMLIB_LOG_VERBOSE 40
#define BMLIB_LOG_DEBUG 48
#define BMLIB_LOG_TRACE 56

/* Lines up to the level are shown; the default is BMLIB_LOG_ERROR, on standard error, and BMLIB_LOG_QUIET with
 * NPU_QUIET=1 in the environment. */
BMLIB_API int bmlib_log_get_level(void);
BMLIB_API void bmlib_log_set_level(int level);
/* Gets every line up to the level: tag, level, format, arguments. NULL: standard error again. */
BMLIB_API void bmlib_log_set_callback(void (*callback)(const char *tag, int level, const char *fmt, va_list args));
/* A line of the program's own, through level and callback. */
BMLIB_API void bmlib_log(const char *tag, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define BM_CHECK_RET(call)                                                                                            \
  do {                                                                                                                \
    bm_status_t bm_check_ret_ = (bm_status_t)(call);                                                                  \
    if (bm_check_ret_ != BM_SUCCESS) {                                                                                \
      bmlib_log("BM_CHECK", BMLIB_LOG_ERROR, "%s failed with %d in %s, %s:%d\n", #call, (int)bm_check_ret_, __func__, \
                __FILE__, __LINE__);                                                                                  \
      return bm_check_ret_;                                                                                           \
    }                                                                                                                 \
  } while (0)

#include "bmlib_not_supported.h"

#ifdef __cplusplus
}
#endif

/* Documentation shows (uint64_t *)&pointer, which is another type than unsigned long long * where long has 64 bits.
 * Both compile; before C11, which has no way to tell them apart, any pointer does. */
#if defined(__cplusplus) && __SIZEOF_LONG__ == 8
extern "C++" { /* also for programs that include this header in an extern "C" of their own */
static inline bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, uint64_t *vmem) {
  return bm_mem_mmap_device_mem(handle, dmem, reinterpret_cast<unsigned long long *>(vmem));
}
static inline bm_status_t bm_mem_mmap_device_mem_no_cache(bm_handle_t handle, bm_device_mem_t *dmem, uint64_t *vmem) {
  return bm_mem_mmap_device_mem_no_cache(handle, dmem, reinterpret_cast<unsigned long long *>(vmem));
}
}
#elif !defined(__cplusplus) && __SIZEOF_LONG__ == 8
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define BM_MAPPED_ADDRESS_(vmem) _Generic((vmem), uint64_t * : (unsigned long long *)(vmem), default : (vmem))
#else
#define BM_MAPPED_ADDRESS_(vmem) ((unsigned long long *)(void *)(vmem))
#endif
#define bm_mem_mmap_device_mem(handle, dmem, vmem) bm_mem_mmap_device_mem(handle, dmem, BM_MAPPED_ADDRESS_(vmem))
#define bm_mem_mmap_device_mem_no_cache(handle, dmem, vmem) \
  bm_mem_mmap_device_mem_no_cache(handle, dmem, BM_MAPPED_ADDRESS_(vmem))
#endif

#endif /* BMLIB_RUNTIME_H_ */
