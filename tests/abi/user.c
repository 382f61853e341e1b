/* SPDX-License-Identifier: MIT */
/*
 * A program as users of BMLIB write them, in the words of C99 and of C++11 alike: it has to compile without a warning
 * and to link. What the calls do is tested elsewhere (tests/unit/libnpu).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmlib_runtime.h"

/* Other headers define them, too: empty, as here. */
#define DECL_EXPORT
#define DECL_IMPORT

/* Not in bmlib_runtime.h: programs declare it in their own words. */
#ifdef __cplusplus
extern "C"
#endif
    bm_status_t
    bm_send_api(bm_handle_t handle, unsigned int api_id, const void *api, size_t size);

static void log_line(const char *tag, int level, const char *fmt, va_list args) {
  printf("%s %d: ", tag, level);
  vprintf(fmt, args);
}

static bm_status_t use_memory(bm_handle_t handle) {
  unsigned char data[64];
  unsigned long long address = 0;
  void *pointer = NULL;
  bm_device_mem_t mem, copy, part;
  bm_device_mem_u64_t wide;
  sg_device_mem_t sg;

  memset(data, 1, sizeof(data));
  BM_CHECK_RET(bm_malloc_device_byte(handle, &mem, sizeof(data)));
  BM_CHECK_RET(bm_malloc_device_byte_heap(handle, &copy, 0, sizeof(data)));
  BM_CHECK_RET(bm_malloc_device_byte_u64(handle, &wide, sizeof(data)));
  BM_CHECK_RET(sg_malloc_device_byte(handle, &sg, sizeof(data)));
  BM_CHECK_RET(bm_memcpy_s2d(handle, mem, data));
  BM_CHECK_RET(bm_memcpy_s2d_u64(handle, wide, data));
  BM_CHECK_RET(sg_memcpy_s2d(handle, sg, data));
  BM_CHECK_RET(bm_memcpy_s2d_gather(handle, mem, 4, (void *)data, 32ULL, (void *)(data + 32), 32ULL));
  BM_CHECK_RET(bm_memcpy_d2d_byte(handle, copy, 0, mem, 0, sizeof(data)));
  part = bm_mem_from_device(bm_mem_get_device_addr(mem) + 16, 16);
  BM_CHECK_RET(bm_memset_device(handle, 0, part));
  BM_CHECK_RET(bm_memcpy_d2s_partial_offset(handle, data, copy, 16, 16));
  /* Both ways in which programs pass the place for an address. */
  BM_CHECK_RET(bm_mem_mmap_device_mem(handle, &mem, &address));
  BM_CHECK_RET(bm_mem_invalidate_device_mem(handle, &mem));
  BM_CHECK_RET(bm_mem_flush_partial_device_mem(handle, &mem, 0, 16));
  BM_CHECK_RET(bm_mem_unmap_device_mem(handle, (void *)(size_t)address, sizeof(data)));
  BM_CHECK_RET(bm_mem_mmap_device_mem(handle, &mem, (uint64_t *)&pointer));
  BM_CHECK_RET(bm_mem_unmap_device_mem(handle, pointer, sizeof(data)));
  BM_CHECK_RET(bm_mem_mmap_device_mem_no_cache(handle, &mem, (uint64_t *)&pointer));
  BM_CHECK_RET(bm_mem_unmap_device_mem(handle, pointer, sizeof(data)));
  bm_free_device(handle, mem);
  bm_free_device(handle, copy);
  bm_free_device_u64(handle, wide);
  sg_free_device(handle, sg);
  return BM_SUCCESS;
}

static bm_status_t ask(bm_handle_t handle) {
  struct bm_misc_info misc;
  bm_dev_stat_t stat;
  bm_heap_stat_byte_t heap;
  bm_profile_t profile;
  unsigned int cores = 0;
  unsigned long corrected = 0; /* the vendor's type */

  BM_CHECK_RET(bm_get_misc_info(handle, &misc));
  BM_CHECK_RET(bm_get_stat(handle, &stat));
  BM_CHECK_RET(bm_get_gmem_heap_stat_byte_by_id(handle, &heap, 0));
  BM_CHECK_RET(bm_get_profile(handle, &profile));
  BM_CHECK_RET(bm_get_tpu_core_num(handle, &cores));
  BM_CHECK_RET(bm_get_ecc_correct_num(handle, &corrected));
  return bmcpu_reset_cpu(handle) == BM_NOT_SUPPORTED ? BM_SUCCESS : BM_ERR_FAILURE;
}

int main(void) {
  bm_handle_t handle;
  bm_status_t status;

  bmlib_log_set_callback(log_line);
  status = bm_dev_request(&handle, 0);
  if (status != BM_SUCCESS) return 1;
  status = use_memory(handle);
  if (status == BM_SUCCESS) status = ask(handle);
  if (status == BM_SUCCESS) status = bm_thread_sync(handle);
  bm_dev_free(handle);
  printf("%s\n", status == BM_SUCCESS ? "ok" : "failed");
  return status == BM_SUCCESS ? 0 : 1;
}
