/* SPDX-License-Identifier: MIT */
/* The card's page tables run out: what the ioctl, the library and BMLIB say, and that all is well afterwards. */
#include <bmlib_runtime.h>
#include <errno.h>
#include <npu.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

static void page_tables_that_run_out_are_named(void **state) {
  bm_device_mem_t memory;
  npu_device *device;
  bm_handle_t handle;
  uint64_t made = 0;
  struct bo bo;
  int fd, ret;
  npu_bo *own;

  (void)state;
  assert_int_equal(bm_dev_request(&handle, 0), BM_SUCCESS);
  assert_int_equal(npu_device_open(0, &device), 0);
  fd = npu_open();
  while (!(ret = raw_bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &bo))) made++;
  assert_int_equal(ret, -EXFULL);
  assert_true(made > 1000);

  /* Two MiB of addresses are one table: no file finds a place for this in those that it has. */
  assert_int_equal(npu_bo_create(device, MIB(5), DRM_NPU_BO_SYSTEM, &own), -EXFULL);
  assert_non_null(strstr(npu_last_error(), "no page table left"));
  assert_non_null(strstr(npu_last_error(), "fewer, larger ones"));
  assert_int_not_equal(bm_malloc_device_byte(handle, &memory, MIB(5)), BM_SUCCESS);
  assert_non_null(strstr(npu_last_error(), "no page table left"));

  close(fd);
  assert_int_equal(bm_malloc_device_byte(handle, &memory, MIB(5)), BM_SUCCESS);
  bm_free_device(handle, memory);
  npu_device_close(device);
  bm_dev_free(handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(page_tables_that_run_out_are_named)};

  return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
