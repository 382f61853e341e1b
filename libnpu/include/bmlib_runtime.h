/* SPDX-License-Identifier: MIT */
#ifndef BMLIB_RUNTIME_H_
#define BMLIB_RUNTIME_H_

/*
 * BMLIB: device handles, device memory, copies and synchronisation, as programs for the BM168x family know them, over
 * libnpu (npu.h). Names, values and layouts are those of the vendor's library, so that sources compile unchanged and
 * object files link.
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

#define DECL_EXPORT __attribute__((visibility("default")))

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
DECL_EXPORT bm_status_t bm_dev_getcount(int *count);
/* BM_SUCCESS: there is a device devid that this process may use. */
DECL_EXPORT bm_status_t bm_dev_query(int devid);
/* Opens device devid; every request gives a handle of its own that has to be freed. */
DECL_EXPORT bm_status_t bm_dev_request(bm_handle_t *handle, int devid);
/* Waits for the handle's own unfinished launches, then frees it. NULL is allowed, a stale handle is logged and ignored.
 */
DECL_EXPORT void bm_dev_free(bm_handle_t handle);
/* The device number, -1 for what is not a handle. */
DECL_EXPORT int bm_get_devid(bm_handle_t handle);

/* ---- descriptors ---- */

DECL_EXPORT bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem);
/* The address field as it stands: BM_MEM_ADDR_NULL in bm_mem_null(). */
DECL_EXPORT unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem);
DECL_EXPORT void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr);
DECL_EXPORT unsigned int bm_mem_get_device_size(struct bm_mem_desc mem);
DECL_EXPORT void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size);
DECL_EXPORT unsigned int bm_mem_get_size(struct bm_mem_desc mem);
DECL_EXPORT void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr);
DECL_EXPORT bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len);
DECL_EXPORT void *bm_mem_get_system_addr(struct bm_mem_desc mem);
DECL_EXPORT void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr);
DECL_EXPORT bm_system_mem_t bm_mem_from_system(void *system_addr);
/* A descriptor of type BM_MEM_TYPE_INVALID. */
DECL_EXPORT bm_device_mem_t bm_mem_null(void);
#define BM_MEM_NULL (bm_mem_null())

/* ---- device memory: zeroed, page aligned ---- */

/* On failure *pmem is bm_mem_null(); the text says requested, free and largest block. */
DECL_EXPORT bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size);
/* The card has one heap: heap_id 0 to 2 are the same memory. */
DECL_EXPORT bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id,
                                                   unsigned int size);
DECL_EXPORT bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                                        unsigned int size);
/* The memory goes when no unfinished launch uses it any more. */
DECL_EXPORT void bm_free_device(bm_handle_t handle, bm_device_mem_t mem);

/* ---- copies: synchronous, any alignment; a copy waits for launches that use the memory ---- */

/* size defaults to the descriptor's; copies beyond the descriptor are BM_ERR_PARAM. */
DECL_EXPORT bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src);
DECL_EXPORT bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size);
/* offset counts in the DEVICE memory: src[0, size) goes to dst[offset, offset + size). */
DECL_EXPORT bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src,
                                                     unsigned int size, unsigned int offset);
DECL_EXPORT bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src);
DECL_EXPORT bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size);
/* src[offset, offset + size) goes to dst[0, size). */
DECL_EXPORT bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src,
                                                     unsigned int size, unsigned int offset);
/* Offsets in bytes, len in dwords (4 bytes). */
DECL_EXPORT bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                                      int src_offset, int len);
/* All in bytes. */
DECL_EXPORT bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset,
                                           bm_device_mem_t src, size_t src_offset, size_t size);
/* Fills with a 32-bit value; the descriptor's size is a multiple of 4. */
DECL_EXPORT bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem);
/* Fills with the first mode (1 to 4) bytes at value; the descriptor's size is a multiple of mode. */
DECL_EXPORT bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem);

/* ---- device memory in the process ---- */

/*
 * *vmem gets the address of the descriptor's first byte. Works for every card, not only SoC boards. Each mapping is
 * undone by one bm_mem_unmap_device_mem() with that address; size is the descriptor's.
 */
DECL_EXPORT bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem);
DECL_EXPORT bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size);
/* The chip wrote, the program is going to read. */
DECL_EXPORT bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
DECL_EXPORT bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem,
                                                             unsigned int offset, unsigned int len);
/* The program wrote, the chip is going to read. */
DECL_EXPORT bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
DECL_EXPORT bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                        unsigned int len);

/* ---- synchronisation ---- */

/* Waits for what the calling thread launched on this handle and reports the first error of it, once. Nothing launched:
 * BM_SUCCESS at once. */
DECL_EXPORT bm_status_t bm_thread_sync(bm_handle_t handle);
/* Likewise for all threads' launches on this handle; other threads still get their errors from their own
 * bm_thread_sync(). */
DECL_EXPORT bm_status_t bm_handle_sync(bm_handle_t handle);
/* Likewise for all handles of this process on the device. */
DECL_EXPORT bm_status_t bm_device_sync(bm_handle_t handle);
/* Longest time that the calls above wait, milliseconds; 0 or less: no limit (the default). A timeout is forgotten with
 * the call that met it. */
DECL_EXPORT bm_status_t bm_set_sync_timeout(bm_handle_t handle, int timeout);

/* ---- facts ---- */

typedef struct bm_heap_stat {
  unsigned int mem_total; /* MiB */
  unsigned int mem_avail;
  unsigned int mem_used;
} bm_heap_stat_t;

typedef struct bm_dev_stat {
  int mem_total; /* MiB */
  int mem_used;
  int tpu_util; /* percent of the cores at work at this moment */
  int heap_num; /* 1 */
  bm_heap_stat_t heap_stat[4];
} bm_dev_stat_t;

DECL_EXPORT bm_status_t bm_get_stat(bm_handle_t handle, bm_dev_stat_t *stat);

struct bm_misc_info {
  int pcie_soc_mode; /* 0: PCIe */
  int ddr_ecc_enable;
  long long ddr0a_size __attribute__((aligned(8))); /* the card's memory, bytes; the other three are 0 */
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

DECL_EXPORT bm_status_t bm_get_misc_info(bm_handle_t handle, struct bm_misc_info *pmisc_info);
/* The chip's own ID register, "QNPU" = 0x55504e51: none of the vendor's numbers. */
DECL_EXPORT bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid);

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

/* Lines up to the level are shown; the default is BMLIB_LOG_ERROR, on standard error. */
DECL_EXPORT int bmlib_log_get_level(void);
DECL_EXPORT void bmlib_log_set_level(int level);
/* Gets every line up to the level: tag, level, format, arguments. NULL: standard error again. */
DECL_EXPORT void bmlib_log_set_callback(void (*callback)(const char *tag, int level, const char *fmt, va_list args));
DECL_EXPORT void bmlib_log(const char *tag, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define BM_CHECK_RET(call)                                                                                            \
  do {                                                                                                                \
    bm_status_t bm_check_ret_ = (bm_status_t)(call);                                                                  \
    if (bm_check_ret_ != BM_SUCCESS) {                                                                                \
      bmlib_log("BM_CHECK", BMLIB_LOG_ERROR, "%s failed with %d in %s, %s:%d\n", #call, (int)bm_check_ret_, __func__, \
                __FILE__, __LINE__);                                                                                  \
      return bm_check_ret_;                                                                                           \
    }                                                                                                                 \
  } while (0)

#ifdef __cplusplus
}
#endif

/* Documentation shows (uint64_t *)&pointer, which is another type than unsigned long long * where long has 64 bits.
 * Both compile. */
#if defined(__cplusplus) && __SIZEOF_LONG__ == 8
static inline bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, uint64_t *vmem) {
  return bm_mem_mmap_device_mem(handle, dmem, reinterpret_cast<unsigned long long *>(vmem));
}
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && __SIZEOF_LONG__ == 8
#define bm_mem_mmap_device_mem(handle, dmem, vmem) \
  bm_mem_mmap_device_mem(handle, dmem, _Generic((vmem), uint64_t * : (unsigned long long *)(vmem), default : (vmem)))
#endif

#endif /* BMLIB_RUNTIME_H_ */
