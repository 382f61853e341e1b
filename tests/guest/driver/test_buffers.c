/* SPDX-License-Identifier: MIT */
/* Buffers: zeroed, mapped, addressed, sealed, waited for, refused when there is no room. */
#include <drm.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/card_tests.h"
#include "tests/guest/driver/npu_raw.h"

static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};
static int fd;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return close(fd);
}

static void new_memory_is_zero_even_where_it_was_used(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    for (int round = 0; round < 4; round++) {
      bo_create_mapped(fd, MIB(3) + 4096, kinds[k], &bo);
      assert_true(is_filled(bo.map, bo.size, 0));
      memset(bo.map, 0xa5, bo.size);
      assert_true(is_filled(bo.map, bo.size, 0xa5));
      bo_destroy(fd, &bo);
    }
  }
}

static void size_is_rounded_up_to_pages(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create(fd, 1, kinds[k], &bo);
    assert_int_equal(bo.size, 4096);
    bo_destroy(fd, &bo);
    bo_create(fd, 4097, kinds[k], &bo);
    assert_int_equal(bo.size, 8192);
    bo_destroy(fd, &bo);
  }
}

static void addresses_are_aligned_apart_and_in_range(void **state) {
  struct drm_npu_dev_info info;
  struct bo bos[24];
  const size_t n = sizeof(bos) / sizeof(bos[0]);

  (void)state;
  npu_info(fd, &info);
  for (size_t i = 0; i < n; i++) {
    bo_create(fd, i % 3 == 2 ? MIB(2) + 4096 * i : 4096 * (i + 1), kinds[i & 1], &bos[i]);
    assert_int_equal(bos[i].va % KIB(64), 0);
    if (bos[i].size >= MIB(2)) assert_int_equal(bos[i].va % MIB(2), 0);
    assert_true(bos[i].va >= info.va_start && bos[i].va + bos[i].size <= info.va_end);
  }
  /* A gap of at least 64 KiB behind each. */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++)
      if (i != j) assert_true(bos[i].va + bos[i].size + KIB(64) <= bos[j].va || bos[j].va < bos[i].va);
  for (size_t i = 0; i < n; i++) bo_destroy(fd, &bos[i]);
}

static void info_repeats_what_create_said(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    struct drm_npu_bo_info info = {0};

    bo_create(fd, 12345, kinds[k], &bo);
    info.handle = bo.handle;
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
    assert_int_equal(info.flags, bo_place(fd, kinds[k]));
    assert_int_equal(info.size, bo.size);
    assert_int_equal(info.va, bo.va);
    assert_int_equal(info.mmap_offset, bo.mmap_offset);
    assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
    assert_int_equal(info.flags, bo_place(fd, kinds[k]) | DRM_NPU_BO_SEALED);
    bo_destroy(fd, &bo);
  }
}

static void wrong_create_arguments_are_refused(void **state) {
  static const uint32_t flags[] = {0, DRM_NPU_BO_CARD | DRM_NPU_BO_SYSTEM, 4, DRM_NPU_BO_CARD | 0x100, ~0u};
  struct bo bo;

  (void)state;
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
    assert_int_equal(raw_bo_create(fd, 4096, flags[i], &bo), -EINVAL);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(raw_bo_create(fd, 0, kinds[k], &bo), -EINVAL);
    assert_true(raw_bo_create(fd, UINT64_MAX, kinds[k], &bo) < 0);
    assert_true(raw_bo_create(fd, UINT64_MAX - 4094, kinds[k], &bo) < 0);
    assert_true(raw_bo_create(fd, 1ull << 63, kinds[k], &bo) < 0);
  }
}

static void a_full_card_says_no_space_and_recovers(void **state) {
  struct drm_npu_memory_info before, full, after;
  struct bo bos[64], one;
  int n = 0, ret = 0;

  (void)state;
  npu_memory_settled(fd, &before);
  assert_true(before.card_total >= before.card_free && before.card_free >= before.card_largest);
  assert_int_equal(before.file_card, 0);
  assert_int_equal(raw_bo_create(fd, before.card_total + 4096, DRM_NPU_BO_CARD, &one), -ENOSPC);

  while (n < 64 && !ret) {
    ret = raw_bo_create(fd, MIB(48), DRM_NPU_BO_CARD, &bos[n]);
    if (!ret) n++;
  }
  assert_int_equal(ret, -ENOSPC);
  assert_true(n >= 1);
  npu_memory(fd, &full);
  assert_true(full.card_free < MIB(48));
  assert_int_equal(full.card_free, before.card_free - n * MIB(48));
  assert_int_equal(full.file_card, n * MIB(48));
  assert_int_equal(full.file_largest, MIB(48));
  assert_true(full.card_largest <= full.card_free);
  if (full.card_largest) {
    bo_create(fd, full.card_largest, DRM_NPU_BO_CARD, &one);
    bo_destroy(fd, &one);
  }

  for (int i = 0; i < n; i++) bo_destroy(fd, &bos[i]);
  npu_memory_settled(fd, &after);
  assert_memory_equal(&before, &after, sizeof(before));
}

static void system_memory_has_a_limit(void **state) {
  struct drm_npu_memory_info info;
  struct bo bo;

  (void)state;
  assert_int_equal(raw_bo_create(fd, 1ull << 39, DRM_NPU_BO_SYSTEM, &bo), -ENOMEM);
  bo_create(fd, MIB(1), DRM_NPU_BO_SYSTEM, &bo);
  npu_memory(fd, &info);
  assert_int_equal(info.file_system, MIB(1));
  bo_destroy(fd, &bo);
  npu_memory(fd, &info);
  assert_int_equal(info.file_system, 0);
}

static void a_mapping_outlives_its_handle(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create_mapped(fd, MIB(1), kinds[k], &bo);
    memset(bo.map, 0x3c, bo.size);
    assert_int_equal(raw_gem_close(fd, bo.handle), 0);
    assert_int_equal(raw_gem_close(fd, bo.handle), -EINVAL);
    assert_true(is_filled(bo.map, bo.size, 0x3c));
    bo_unmap(&bo);
  }
}

static void wrong_mappings_are_refused(void **state) {
  struct bo bo;

  (void)state;
  bo_create(fd, 8192, DRM_NPU_BO_SYSTEM, &bo);
  assert_ptr_equal(mmap(NULL, 12288, PROT_READ, MAP_SHARED, fd, bo.mmap_offset), MAP_FAILED);
  assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, bo.mmap_offset + (1ll << 36)), MAP_FAILED);
  assert_ptr_equal(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, bo.mmap_offset), MAP_FAILED);
  bo_destroy(fd, &bo);
}

static void foreign_offsets_cannot_be_mapped(void **state) {
  int other = npu_open();
  struct bo bo;

  (void)state;
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, bo.mmap_offset), MAP_FAILED);
  assert_int_equal(errno, EACCES);
  assert_int_equal(raw_bo_seal(other, bo.handle), -ENOENT);
  bo_destroy(fd, &bo);
  close(other);
}

static int sync_range(const struct bo *bo, uint32_t direction, uint64_t offset, uint64_t size) {
  struct drm_npu_bo_sync args = {.handle = bo->handle, .direction = direction, .offset = offset, .size = size};

  return raw_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &args);
}

static void sync_checks_its_range(void **state) {
  const uint32_t both = DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE;
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create(fd, 8192, kinds[k], &bo);
    assert_int_equal(sync_range(&bo, both, 0, 8192), 0);
    assert_int_equal(sync_range(&bo, DRM_NPU_SYNC_TO_DEVICE, 4097, 3), 0);
    assert_int_equal(sync_range(&bo, DRM_NPU_SYNC_FROM_DEVICE, 8192, 0), 0);
    assert_int_equal(sync_range(&bo, 0, 0, 8192), -EINVAL);
    assert_int_equal(sync_range(&bo, 4, 0, 8192), -EINVAL);
    assert_int_equal(sync_range(&bo, both, 1, 8192), -EINVAL);
    assert_int_equal(sync_range(&bo, both, 8193, 0), -EINVAL);
    assert_int_equal(sync_range(&bo, both, UINT64_MAX, 2), -EINVAL);
    assert_int_equal(sync_range(&bo, both, 2, UINT64_MAX), -EINVAL);
    bo_destroy(fd, &bo);
    assert_int_equal(sync_range(&bo, both, 0, 1), -ENOENT);
  }
}

/* Returns true if a read of the byte kills the reader. */
static bool read_is_sigbus(volatile uint8_t *p) {
  int status;
  pid_t pid = fork();

  if (!pid) {
    signal(SIGBUS, SIG_DFL);
    _exit(*p ? 1 : 0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void a_sealed_buffer_cannot_be_touched(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create_mapped(fd, MIB(2), kinds[k], &bo);
    memset(bo.map, 1, bo.size);
    assert_false(read_is_sigbus(bo.map));
    assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
    assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
    assert_true(read_is_sigbus(bo.map));
    assert_true(read_is_sigbus(bo.map + bo.size - 1));
    assert_ptr_equal(mmap(NULL, bo.size, PROT_READ, MAP_SHARED, fd, bo.mmap_offset), MAP_FAILED);
    assert_int_equal(errno, EACCES);
    bo_destroy(fd, &bo);
  }
}

static void seal_and_wait_check_their_arguments(void **state) {
  struct drm_npu_bo_seal seal = {0};
  struct drm_npu_bo_wait wait = {0};
  struct bo bo;

  (void)state;
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  seal = (struct drm_npu_bo_seal){.handle = bo.handle, .pad = 1};
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_SEAL, &seal), -EINVAL);
  wait = (struct drm_npu_bo_wait){.handle = bo.handle, .flags = 2};
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &wait), -EINVAL);
  wait.flags = DRM_NPU_BO_WAIT_WRITERS;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &wait), 0);
  wait.flags = 0;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &wait), 0);
  wait.handle = 0x7fffffff;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &wait), -ENOENT);
  assert_int_equal(raw_bo_seal(fd, 0x7fffffff), -ENOENT);
  bo_destroy(fd, &bo);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(new_memory_is_zero_even_where_it_was_used),
      cmocka_unit_test(size_is_rounded_up_to_pages),
      cmocka_unit_test(addresses_are_aligned_apart_and_in_range),
      cmocka_unit_test(info_repeats_what_create_said),
      cmocka_unit_test(wrong_create_arguments_are_refused),
      cmocka_unit_test(system_memory_has_a_limit),
      cmocka_unit_test(a_mapping_outlives_its_handle),
      cmocka_unit_test(wrong_mappings_are_refused),
      cmocka_unit_test(foreign_offsets_cannot_be_mapped),
      cmocka_unit_test(sync_checks_its_range),
      cmocka_unit_test(a_sealed_buffer_cannot_be_touched),
      cmocka_unit_test(seal_and_wait_check_their_arguments),
  };
  const struct CMUnitTest card_tests[] = {
      cmocka_unit_test(a_full_card_says_no_space_and_recovers),
  };

  return run_with_card_tests("buffers", tests, card_tests, set_up, tear_down);
}
