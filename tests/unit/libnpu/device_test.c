/* SPDX-License-Identifier: MIT */
/* Devices: finding, opening, sharing, asking. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

static void there_is_a_device(void **state) {
  (void)state;
  assert_true(npu_device_count() >= 1);
}

static void opens_of_one_device_share_it(void **state) {
  npu_device *a = must_open(), *b = must_open(), *c = npu_device_ref(a);

  (void)state;
  assert_ptr_equal(a, b);
  assert_ptr_equal(a, c);
  npu_device_close(a);
  npu_device_close(b);
  /* One reference is left: it works. */
  struct drm_npu_dev_info info;
  MUST(npu_device_info(c, &info));
  npu_device_close(c);
}

static void a_buffer_keeps_its_device(void **state) {
  npu_device *device = must_open();
  npu_bo *bo = must_create(device, 100, DRM_NPU_BO_CARD);
  uint8_t value = 5, got = 0;

  (void)state;
  npu_device_close(device);
  MUST(npu_write(bo, 99, &value, 1));
  MUST(npu_read(bo, 99, &got, 1));
  assert_int_equal(got, 5);
  npu_bo_unref(bo);
}

static void a_device_can_be_opened_again(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) {
    npu_device *device = must_open();
    npu_context *context = must_context(device);
    assert_works(device, context);
    npu_context_destroy(context);
    npu_device_close(device);
  }
}

static void a_device_that_is_not_there(void **state) {
  npu_device *device = (npu_device *)1;

  (void)state;
  MUST_FAIL(npu_device_open(1000, &device), ENODEV, "no NPU device 1000");
  assert_null(device);
  MUST_FAIL(npu_device_open(0, NULL), EINVAL, "npu_device_open");
}

static void wrong_choice_of_transport(void **state) {
  const char *before = getenv("NPU_DEVICE");
  char kept[32];

  (void)state;
  snprintf(kept, sizeof(kept), "%s", before ? before : "");
  setenv("NPU_DEVICE", "fpga", 1);
  MUST_FAIL(npu_device_count(), EINVAL, "NPU_DEVICE=fpga: expected drm, sim or auto");
  if (before)
    setenv("NPU_DEVICE", kept, 1);
  else
    unsetenv("NPU_DEVICE");
}

static void wrong_choice_of_cache(void **state) {
  const char *before = getenv("NPU_CACHE");
  npu_device *device;
  char kept[32];

  (void)state;
  snprintf(kept, sizeof(kept), "%s", before ? before : "");
  setenv("NPU_CACHE", "write-back", 1);
  MUST_FAIL(npu_device_open(0, &device), EINVAL, "NPU_CACHE=write-back: expected coherent, strict or abort");
  if (before)
    setenv("NPU_CACHE", kept, 1);
  else
    unsetenv("NPU_CACHE");
}

static void the_answer_fits_old_and_new_programs(npu_device *device, const struct drm_npu_dev_info *info) {
  struct {
    struct drm_npu_dev_info info;
    uint64_t more;
  } later;
  struct drm_npu_dev_info earlier;

  memset(&earlier, 0x55, sizeof(earlier));
  MUST(npu_device_query(device, DRM_NPU_QUERY_DEV, &earlier, 8));
  assert_memory_equal(&earlier, info, 8);
  assert_int_equal(((uint8_t *)&earlier)[8], 0x55);
  memset(&later, 0x55, sizeof(later));
  MUST(npu_device_query(device, DRM_NPU_QUERY_DEV, &later, sizeof(later)));
  assert_memory_equal(&later.info, info, sizeof(*info));
  assert_int_equal(later.more, 0);
}

static void info_is_plausible(void **state) {
  npu_device *device = must_open();
  struct drm_npu_dev_info info;

  (void)state;
  MUST(npu_device_info(device, &info));
  assert_int_equal(info.chip_id, NPU_CHIP_ID);
  assert_int_equal(info.isa_version, NPU_ISA_VERSION);
  assert_in_range(info.cores, 1, NPU_MAX_CORES);
  assert_in_range(info.queues, 1, NPU_MAX_QUEUES);
  assert_true(info.lmem_bytes >= 4096 && info.lmem_bytes % 4096 == 0);
  if (info.bus == DRM_NPU_BUS_PLATFORM)
    assert_int_equal(info.ddr_bytes, 0);
  else
    assert_true(info.ddr_bytes >= 4 * MIB);
  assert_true(info.va_start > 0 && info.va_start < info.va_end && info.va_end <= 1ull << NPU_VA_BITS);
  assert_true(info.clock_khz > 0);
  assert_int_equal(info.max_regions, NPU_MAX_REGIONS);
  assert_true(info.max_jobs >= 1 && info.max_in_flight >= info.max_jobs);
  MUST_FAIL(npu_device_info(device, NULL), EINVAL, "npu_device_query: no device or no place for answer 0");
  MUST_FAIL(npu_device_query(device, 77, &info, sizeof(info)), EINVAL, "device 0, answer 77");
  the_answer_fits_old_and_new_programs(device, &info);
  npu_device_close(device);
}

static void memory_is_counted(void **state) {
  npu_device *device = must_open();
  struct drm_npu_memory_info before, with, after;

  (void)state;
  MUST(npu_device_memory(device, &before));
  assert_true(before.card_free <= before.card_total && before.card_largest <= before.card_free);
  npu_bo *card = must_create(device, 3 * MIB + 1, DRM_NPU_BO_CARD),
         *system = must_create(device, MIB, DRM_NPU_BO_SYSTEM);
  MUST(npu_device_memory(device, &with));
  /* Without memory of its own the device has the system's. */
  const uint64_t moved = has_own_memory(device) ? 0 : npu_bo_size(card);
  assert_int_equal(with.file_card - before.file_card, npu_bo_size(card) - moved);
  assert_int_equal(with.file_system - before.file_system, npu_bo_size(system) + moved);
  assert_true(before.card_free - with.card_free >= npu_bo_size(card) - moved);
  assert_true(with.file_largest >= npu_bo_size(card));
  npu_bo_unref(card);
  npu_bo_unref(system);
  /* A driver may free a moment later. */
  for (int i = 0; i < 1000; i++) {
    MUST(npu_device_memory(device, &after));
    if (after.card_free >= before.card_free && after.file_system == before.file_system) break;
    usleep(10000);
  }
  /* More is no loss: memory of an earlier process may still have been on its way back before. */
  assert_true(after.card_free >= before.card_free);
  assert_int_equal(after.file_card, before.file_card);
  assert_int_equal(after.file_system, before.file_system);
  npu_device_close(device);
}

static void both_clocks_are_looked_at_together(void **state) {
  npu_device *device = must_open();
  struct drm_npu_time_info first, second;

  (void)state;
  MUST(npu_device_time(device, &first));
  MUST(npu_device_time(device, &second));
  assert_true(first.card_ns < second.card_ns);
  assert_true(first.monotonic_ns + first.window_ns / 2 <= second.monotonic_ns);
  npu_device_close(device);
}

static void a_transport_can_be_required(void **state) {
  npu_device *device = must_open(), *second = NULL;
  const char *mine = npu_device_transport(device), *other = strcmp(mine, "sim") ? "sim" : "drm";

  (void)state;
  MUST_FAIL(npu_require_transport("card"), EINVAL, "\"card\": expected drm or sim");
  MUST_FAIL(npu_require_transport(other), EBUSY, "device 0 is open by transport");
  MUST(npu_require_transport(mine));
  assert_true(npu_device_count() >= 1);
  npu_device_close(device);
  MUST(npu_require_transport(other));
  MUST_FAIL(npu_device_open(0, &second), EINVAL, "npu_require_transport() allows");
  MUST_FAIL(npu_device_count(), EINVAL, "npu_require_transport() allows");
  assert_null(second);
  MUST(npu_require_transport(NULL));
  setenv("NPU_REQUIRE", other, 1);
  MUST_FAIL(npu_device_open(0, &second), EINVAL, "but NPU_REQUIRE allows");
  setenv("NPU_REQUIRE", "card", 1);
  MUST_FAIL(npu_device_open(0, &second), EINVAL, "NPU_REQUIRE=card: expected drm or sim");
  setenv("NPU_REQUIRE", mine, 1);
  second = must_open();
  npu_device_close(second);
  unsetenv("NPU_REQUIRE");
}

static void status_counts_jobs(void **state) {
  npu_device *device = must_open();
  npu_context *context = must_context(device);
  struct drm_npu_status_info before, after;
  uint64_t jobs = 0, cycles = 0, busy = 0;

  (void)state;
  MUST(npu_device_status(device, &before));
  assert_true(before.temperature_mc > -50000 && before.temperature_mc < 150000);
  assert_true(before.clock_khz > 0);
  assert_works(device, context);
  MUST(npu_device_status(device, &after));
  for (int i = 0; i < DRM_NPU_MAX_CORES; i++) {
    jobs += after.jobs[i] - before.jobs[i];
    cycles += after.busy_cycles[i] - before.busy_cycles[i];
    busy += after.busy_ns[i] - before.busy_ns[i];
    assert_in_range(npu_utilisation(&before, &after, (unsigned int)i), 0, 100);
  }
  assert_true(after.card_ns > before.card_ns);
  assert_in_range(busy, 1, (after.card_ns - before.card_ns) * DRM_NPU_MAX_CORES);
  assert_true(jobs >= 1);
  assert_true(cycles >= 1);
  npu_context_destroy(context);
  npu_device_close(device);
}

static int lines;
static void count_line(void *arg, int level, const char *text) {
  assert_ptr_equal(arg, &lines);
  assert_true(level >= NPU_LOG_DEBUG && level <= NPU_LOG_ERROR);
  assert_true(*text && !strchr(text, '\n'));
  lines++;
}

static void the_log_goes_where_asked(void **state) {
  npu_bo *bo = NULL;

  (void)state;
  npu_set_log(NPU_LOG_DEBUG, count_line, &lines);
  MUST_FAIL(npu_bo_create(NULL, 1, DRM_NPU_BO_CARD, &bo), EINVAL, "no device");
  assert_int_equal(lines, 1);
  npu_set_log(NPU_LOG_OFF, NULL, NULL);
  MUST_FAIL(npu_bo_create(NULL, 1, DRM_NPU_BO_CARD, &bo), EINVAL, "no device");
  assert_int_equal(lines, 1);
}

static void null_is_allowed_where_promised(void **state) {
  (void)state;
  npu_device_close(NULL);
  npu_bo_unref(NULL);
  npu_bo_unmap(NULL);
  npu_context_destroy(NULL);
}

int device_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_is_a_device),           cmocka_unit_test(opens_of_one_device_share_it),
      cmocka_unit_test(a_buffer_keeps_its_device),   cmocka_unit_test(a_device_can_be_opened_again),
      cmocka_unit_test(a_device_that_is_not_there),  cmocka_unit_test(wrong_choice_of_transport),
      cmocka_unit_test(a_transport_can_be_required), cmocka_unit_test(wrong_choice_of_cache),
      cmocka_unit_test(info_is_plausible),           cmocka_unit_test(memory_is_counted),
      cmocka_unit_test(status_counts_jobs),          cmocka_unit_test(both_clocks_are_looked_at_together),
      cmocka_unit_test(the_log_goes_where_asked),    cmocka_unit_test(null_is_allowed_where_promised),
  };
  return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
