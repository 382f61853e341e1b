/* SPDX-License-Identifier: MIT */
/* BMLIB: heaps, sensors, numbers of the card, counters; each against what npu.h says. */
#include <bmlib_runtime.h>
#include <npu_bm_internal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/groups.h"

static bm_handle_t handle;
static npu_device *device;

#define OK(call) assert_int_equal(call, BM_SUCCESS)

static void quiet(const char *tag, int level, const char *fmt, va_list args) {
  (void)tag;
  (void)level;
  (void)fmt;
  (void)args;
}

static int set_up(void **state) {
  (void)state;
  bmlib_log_set_callback(quiet);
  device = must_open();
  return bm_dev_request(&handle, 0);
}

static int tear_down(void **state) {
  (void)state;
  bm_dev_free(handle);
  npu_device_close(device);
  bmlib_log_set_callback(NULL);
  return 0;
}

static void the_heap_in_bytes(void **state) {
  bm_heap_stat_byte_t before, after;
  bm_device_mem_t mem;
  unsigned int heaps = 0;

  (void)state;
  OK(bm_get_gmem_total_heap_num(handle, &heaps));
  assert_int_equal(heaps, 1);
  OK(bm_get_gmem_heap_stat_byte_by_id(handle, &before, 0));
  OK(bm_malloc_device_byte(handle, &mem, 1 << 20));
  OK(bm_get_gmem_heap_stat_byte_by_id(handle, &after, 0));
  assert_int_equal(after.heap_id, 0);
  assert_int_equal(after.mem_total, before.mem_total);
  assert_int_equal(after.mem_used + after.mem_avail, after.mem_total);
  assert_true(after.mem_used >= 1 << 20);
  assert_true(bm_mem_get_device_addr(mem) >= after.mem_start_addr);
  bm_free_device(handle, mem);
  assert_int_equal(bm_get_gmem_heap_stat_byte_by_id(handle, &after, 1), BM_ERR_PARAM);
  assert_int_equal(bm_get_gmem_heap_stat_byte_by_id(handle, NULL, 0), BM_ERR_PARAM);
  assert_int_equal(bm_get_gmem_heap_stat_byte_by_id((bm_handle_t)1, &after, 0), BM_ERR_PARAM);
  assert_int_equal(bm_get_gmem_total_heap_num(handle, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_get_gmem_total_heap_num((bm_handle_t)1, &heaps), BM_ERR_PARAM);
}

/* The sensors move: the call's answer lies between two readings. */
#define BETWEEN(value, low, high) \
  assert_true((value) >= ((low) < (high) ? (low) : (high)) && (value) <= ((low) < (high) ? (high) : (low)))

static void sensors_are_the_cards(void **state) {
  struct drm_npu_status_info a, b;
  unsigned int temperature = 0, power = 0, volt = 0, fan = 0;
  uint64_t ecc = 99;
  int clock = 0, status = 99;

  (void)state;
  MUST(npu_device_status(device, &a));
  OK(bm_get_chip_temp(handle, &temperature));
  OK(bm_get_board_power(handle, &power));
  OK(bm_get_tpu_volt(handle, &volt));
  OK(bm_get_fan_speed(handle, &fan));
  OK(bm_get_clk_tpu_freq(handle, &clock));
  OK(bm_get_ecc_correct_num(handle, &ecc));
  OK(bm_get_status(handle, &status));
  MUST(npu_device_status(device, &b));
  BETWEEN((int)temperature, (a.temperature_mc + 500) / 1000, (b.temperature_mc + 500) / 1000);
  BETWEEN(power, (a.power_mw + 500) / 1000, (b.power_mw + 500) / 1000);
  BETWEEN(volt, a.voltage_mv, b.voltage_mv);
  BETWEEN(fan, a.fan_rpm, b.fan_rpm);
  BETWEEN((unsigned int)clock, a.clock_khz / 1000, b.clock_khz / 1000);
  BETWEEN(ecc, a.ecc_corrected, b.ecc_corrected);
  assert_int_equal(status, 0);
}

static void numbers_of_the_card(void **state) {
  struct drm_npu_dev_info info;
  struct bm_misc_info misc;
  unsigned int cores = 0, cards = 0, card = 99, chips = 0, first = 99, most = 0, least = 0;
  int version = 0, count = 0;
  char name[16] = "";

  (void)state;
  MUST(npu_device_info(device, &info));
  OK(bm_get_misc_info(handle, &misc));
  OK(bm_get_driver_version(handle, &version));
  assert_int_equal(version, misc.driver_version);
  OK(bm_get_board_name(handle, name));
  assert_string_equal(name, "QNPU1");
  OK(bm_get_tpu_core_num(handle, &cores));
  assert_int_equal(cores, info.cores);
  OK(bm_get_tpu_maxclk(handle, &most));
  OK(bm_get_tpu_minclk(handle, &least));
  assert_int_equal(most, info.clock_khz / 1000);
  assert_int_equal(least, info.clock_khz / 4000);
  OK(bm_dev_getcount(&count));
  OK(bm_get_card_num(&cards));
  assert_int_equal(cards, count);
  OK(bm_get_card_id(handle, &card));
  assert_int_equal(card, 0);
  OK(bm_get_chip_num_from_card(cards - 1, &chips, &first));
  assert_int_equal(chips, 1);
  assert_int_equal(first, cards - 1);
  assert_int_equal(bm_get_chip_num_from_card(cards, &chips, &first), BM_ERR_PARAM);
}

static void answers_need_a_place_and_a_handle(void **state) {
  const bm_handle_t bad = (bm_handle_t)1;
  unsigned int u;
  uint64_t l;
  int i;
  char name[16];
  bm_profile_t profile;

  (void)state;
#define ASKS(call, place)                             \
  assert_int_equal(call(handle, NULL), BM_ERR_PARAM); \
  assert_int_equal(call(bad, place), BM_ERR_PARAM)
  ASKS(bm_get_chip_temp, &u);
  ASKS(bm_get_board_power, &u);
  ASKS(bm_get_tpu_volt, &u);
  ASKS(bm_get_fan_speed, &u);
  ASKS(bm_get_clk_tpu_freq, &i);
  ASKS(bm_get_tpu_maxclk, &u);
  ASKS(bm_get_tpu_minclk, &u);
  ASKS(bm_get_ecc_correct_num, &l);
  ASKS(bm_get_status, &i);
  ASKS(bm_get_driver_version, &i);
  ASKS(bm_get_board_name, name);
  ASKS(bm_get_tpu_scalar_num, &u);
  ASKS(bm_get_card_id, &u);
  ASKS(bm_get_profile, &profile);
  ASKS(bm_get_last_api_process_time_us, &l);
  assert_int_equal(bm_get_card_num(NULL), BM_ERR_PARAM);
  assert_int_equal(bm_get_chip_num_from_card(0, NULL, &u), BM_ERR_PARAM);
  assert_int_equal(bm_get_chip_num_from_card(0, &u, NULL), BM_ERR_PARAM);
}

static void counters_count(void **state) {
  enum { LAUNCHES = 3, BYTES = 1 << 20 };
  struct drm_npu_dev_info info;
  bm_profile_t profile;
  bm_device_mem_t mem;
  uint64_t seqno, cycles = 0, us = 0;
  npu_context *context = NULL;
  npu_bo *bo = must_create(device, 2 * BYTES, DRM_NPU_BO_CARD);
  uint8_t *data = must_alloc(BYTES);
  struct npu_result result;
  struct program p;

  (void)state;
  OK(bm_get_profile(handle, &profile));
  assert_int_equal(profile.cdma_in_counter + profile.cdma_out_counter + profile.sent_api_counter, 0);
  assert_int_equal(bm_get_last_api_process_time_us(handle, &us), BM_ERR_PARAM);
  OK(bm_malloc_device_byte(handle, &mem, BYTES));
  fill_pattern(data, BYTES, 1);
  for (int i = 0; i < 2; i++) OK(bm_memcpy_s2d(handle, mem, data));
  OK(bm_memcpy_d2s(handle, data, mem));
  program_init(&p, device);
  program_copy(&p, 0, 0, BYTES);
  MUST(npu_bm_thread_context(handle, &context));
  for (int i = 0; i < LAUNCHES; i++) {
    MUST(submit_program(context, &p, bo, bo, &seqno));
    MUST(npu_bm_record(handle, context, seqno));
    result = must_wait(context, seqno);
    assert_int_equal(result.error, 0);
    cycles += result.cycles;
  }
  OK(bm_get_profile(handle, &profile));
  assert_int_equal(profile.sent_api_counter, LAUNCHES);
  assert_int_equal(profile.completed_api_counter, 0);
  OK(bm_thread_sync(handle));
  OK(bm_get_profile(handle, &profile));
  /* "Out" is out of the host. */
  assert_int_equal(profile.cdma_out_counter, 2);
  assert_int_equal(profile.cdma_in_counter, 1);
  assert_true(profile.cdma_out_time > 0);
  assert_int_equal(profile.completed_api_counter, LAUNCHES);
  MUST(npu_device_info(device, &info));
  assert_int_equal(profile.tpu_process_time, cycles * 1000 / info.clock_khz);
  assert_int_equal(profile.tpu1_process_time, 0);
  OK(bm_get_last_api_process_time_us(handle, &us));
  assert_int_equal(us, result.cycles * 1000 / info.clock_khz);
  program_free(&p);
  npu_bo_unref(bo);
  bm_free_device(handle, mem);
  free(data);
}

/* The trace is a thread's own, and has what happened while it was enabled, oldest first. */
static void copies_and_launches_are_traced(void **state) {
  struct bm_trace_item_data item, items[3];
  uint8_t data[64] = {0};
  npu_context *context = NULL;
  bm_device_mem_t mem;
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD);
  long long number = -1;
  struct program p;
  uint64_t seqno;

  (void)state;
  OK(bm_malloc_device_byte(handle, &mem, sizeof(data)));
  OK(bm_memcpy_s2d(handle, mem, data)); /* not yet */
  OK(bm_trace_enable(handle));
  OK(bm_memcpy_s2d(handle, mem, data));
  OK(bm_memcpy_d2s(handle, data, mem));
  program_init(&p, device);
  program_copy(&p, 0, 0, sizeof(data));
  MUST(npu_bm_thread_context(handle, &context));
  MUST(submit_program(context, &p, bo, bo, &seqno));
  MUST(npu_bm_record(handle, context, seqno));
  OK(bm_thread_sync(handle));
  OK(bm_memcpy_s2d(handle, mem, data));
  OK(bm_trace_disable(handle));
  OK(bm_memcpy_s2d(handle, mem, data)); /* no more */
  OK(bm_traceitem_number(handle, &number));
  assert_int_equal(number, 4);
  OK(bm_trace_dump(handle, &item));
  assert_int_equal(item.trace_type, 0);
  assert_int_equal(item.cdma_dir, 0);
  OK(bm_traceitem_number(handle, &number));
  assert_int_equal(number, 3);
  OK(bm_trace_dump_all(handle, items));
  assert_int_equal(items[0].cdma_dir, 1);
  assert_int_equal(items[1].trace_type, 1);
  assert_int_equal(items[2].trace_type, 0);
  for (int i = 0; i < 3; i++) assert_true(items[i].sent_time <= items[i].start_time);
  for (int i = 0; i < 3; i++) assert_true(items[i].start_time <= items[i].end_time);
  assert_true(item.end_time <= items[0].start_time && items[0].end_time <= items[1].start_time);
  assert_int_equal(bm_trace_dump(handle, &item), BM_ERR_PARAM);
  assert_text(npu_last_error(), "no record");
  assert_int_equal(bm_trace_dump(handle, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_trace_enable((bm_handle_t)1), BM_ERR_PARAM);
  program_free(&p);
  npu_bo_unref(bo);
  bm_free_device(handle, mem);
}

static void an_idle_core_is_named(void **state) {
  struct drm_npu_status_info status;
  npu_context *context = NULL;
  npu_bo *bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  struct program p;
  uint64_t seqno;
  int core = -1;

  (void)state;
  MUST(npu_bo_wait(bo, LONG_TIME)); /* the driver clears the new buffer by a job */
  do MUST(npu_device_status(device, &status));
  while (status.core_busy);
  OK(bmdev_get_idle_coreid(handle, &core));
  assert_int_equal(core, 0);
  program_init(&p, device);
  program_long(&p, 4 * MIB);
  MUST(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 1, &context));
  submit_long_job(context, &p, bo, &seqno);
  do MUST(npu_device_status(device, &status));
  while (!status.core_busy);
  OK(bmdev_get_idle_coreid(handle, &core));
  assert_int_equal(core, 1);
  npu_context_destroy(context);
  assert_int_equal(bmdev_get_idle_coreid(handle, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_reset_tpu(handle), BM_NOT_SUPPORTED);
  program_free(&p);
  npu_bo_unref(bo);
}

static void syncs_of_a_core(void **state) {
  (void)state;
  OK(bm_thread_sync_from_core(handle, 0));
  OK(bm_handle_sync_from_core(handle, 0));
  bm_flush(handle);
  assert_int_equal(bm_thread_sync_from_core(handle, -1), BM_ERR_PARAM);
  assert_int_equal(bm_thread_sync_from_core(handle, DRM_NPU_MAX_CORES), BM_ERR_PARAM);
  assert_int_equal(bm_handle_sync_from_core(handle, DRM_NPU_MAX_CORES), BM_ERR_PARAM);
  assert_int_equal(bm_handle_sync_from_core((bm_handle_t)1, 0), BM_ERR_PARAM);
  assert_int_equal(bm_thread_sync_from_core((bm_handle_t)1, 0), BM_ERR_PARAM);
  bm_flush((bm_handle_t)1);
}

int bm_sensor_tests(void) {
#define BM_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      BM_TEST(the_heap_in_bytes),
      BM_TEST(sensors_are_the_cards),
      BM_TEST(numbers_of_the_card),
      BM_TEST(answers_need_a_place_and_a_handle),
      BM_TEST(counters_count),
      BM_TEST(syncs_of_a_core),
      BM_TEST(copies_and_launches_are_traced),
      BM_TEST(an_idle_core_is_named),
  };
  return cmocka_run_group_tests_name("bm_sensor", tests, NULL, NULL);
}
