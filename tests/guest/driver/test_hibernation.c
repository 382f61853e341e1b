/* SPDX-License-Identifier: MIT */
/*
 * The freeze phase of hibernation: a card with buffers in its memory refuses, a card without buffers freezes and thaws.
 *
 * Freezing would break the board's shared folders: when they thaw, Linux resets their devices and does not initialize
 * them again. So one card always refuses, and both cards freeze before all other devices. Linux freezes the last added
 * device first, so set_up() removes and rescans the cards. Needs two cards.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/trace.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define BOUND "/sys/bus/pci/drivers/qnpu/*:*"
#define SIZE (MIB(1) + KIB(64))
#define JOBS 8

/* A card, with a file and a context. The second one is frozen first. */
struct card {
  char device[32]; /* PCI address */
  int fd;
  uint32_t ctx;
};

static struct card cards[2];

static bool card_try_open(struct card *card) {
  for (int number = 0; number < 64; number++) {
    char path[64], device[32];

    snprintf(path, sizeof(path), "/dev/accel/accel%d", number);
    card->fd = open(path, O_RDWR | O_CLOEXEC);
    if (card->fd < 0) continue;
    device_name(card->fd, device, sizeof(device));
    if (!strcmp(device, card->device)) return true;
    close(card->fd);
  }
  return false;
}

static void card_open(struct card *card) {
  for (int tries = 0; !card_try_open(card); tries++) {
    if (tries > FOREVER_MS / 10) fail_msg("%s has no node in /dev/accel", card->device);
    usleep(10000);
  }
  card->ctx = ctx_create(card->fd);
}

/* Lets devices freeze one after another: the second card, the first card, all others. */
static int set_up(void **state) {
  char path[80];
  glob_t found;

  (void)state;
  write_file("/sys/power/pm_async", "0");
  write_file("/sys/power/pm_test", "devices"); /* writes no image, even if no card refuses */
  assert_int_equal(glob(BOUND, 0, NULL, &found), 0);
  if (found.gl_pathc != 2) fail_msg("there are %zu cards: this test needs npu-vm --cards 2", found.gl_pathc);
  for (int i = 0; i < 2; i++)
    snprintf(cards[i].device, sizeof(cards[i].device), "%s", basename(found.gl_pathv[i])); /* sorted, as the bus is */
  globfree(&found);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", cards[i].device);
    write_file(path, "1");
  }
  write_file("/sys/bus/pci/rescan", "1");
  for (int i = 0; i < 2; i++) card_open(&cards[i]);
  calibrate(cards[0].fd, cards[0].ctx);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) close(cards[i].fd);
  write_file("/sys/power/pm_test", "none");
  write_file("/sys/power/pm_async", "1");
  return 0;
}

/* All devices were frozen, so the board has lost its shared folders and would hang until npu-vm's timeout. */
static void end_board(void) {
  try_write_file("/dev/kmsg", "test_hibernation: no card has refused to be frozen\n");
  try_write_file("/proc/sysrq-trigger", "c");
}

/* Starts a hibernation, which this card must refuse. */
static void hibernate_until(const struct card *card) {
  int ret = try_write_file("/sys/power/state", "disk");
  char name[64] = "";
  FILE *file;

  if (!ret) end_board();
  assert_int_equal(ret, -EBUSY);
  file = fopen("/sys/power/suspend_stats/last_failed_dev", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%63s", name), 1);
  fclose(file);
  assert_string_equal(name, card->device);
}

static void fill(uint8_t *map, uint64_t size, int seed) {
  for (uint64_t i = 0; i < size; i++) map[i] = (uint8_t)(i * 31 + (i >> 12) + (uint64_t)seed);
}

static void expect_fill(const uint8_t *map, uint64_t from, uint64_t size, int seed) {
  for (uint64_t i = from; i < size; i++) assert_int_equal(map[i], (uint8_t)(i * 31 + (i >> 12) + (uint64_t)seed));
}

static uint32_t resets(const struct card *card) {
  struct drm_npu_status_info status;

  npu_status(card->fd, &status);
  return status.resets;
}

/* On either card, since one of them freezes first. */
static void buffers_on_the_card_are_not_lost(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct card *card = &cards[i];
    struct bo bo, other;

    bo_create_mapped(card->fd, SIZE, DRM_NPU_BO_CARD, &bo);
    fill(bo.map, bo.size, i);
    hibernate_until(card);
    expect_fill(bo.map, 0, bo.size, i);
    bo_create_mapped(card->fd, SIZE, DRM_NPU_BO_CARD, &other);
    assert_int_equal(raw_fill(card->fd, card->ctx, &other, 0x31), 0);
    assert_true(is_filled(other.map, other.size, 0x31));
    expect_fill(bo.map, 0, bo.size, i);
    bo_destroy(card->fd, &other);
    bo_destroy(card->fd, &bo);
  }
}

/* Queues jobs, which must finish before the freeze. Returns the seqno of the last one. */
static uint64_t start_jobs(const struct card *card, const struct bo *bo) {
  struct stream stream;
  uint64_t last = 0;
  struct job job;

  stream_create(card->fd, 2, &stream);
  stream_slow_copy(&stream, 1, 20);
  stream_fill(&stream, 1, 0, 1, 0x7e);
  for (int i = 0; i < JOBS; i++) {
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, bo, RW);
    job.args.budget = UINT64_MAX;
    last = submit(card->fd, card->ctx, &job);
  }
  stream_destroy(card->fd, &stream);
  return last;
}

static void works_as_before(const struct card *card, const struct bo *system) {
  struct bo bo;

  expect_fill(system->map, 2, system->size, 41);
  assert_int_equal(system->map[0], 0x7e); /* by the last job; the slow copies take this byte to the next */
  assert_int_equal(raw_fill(card->fd, card->ctx, system, 0x19), 0);
  assert_true(is_filled(system->map, system->size, 0x19));
  bo_create_mapped(card->fd, SIZE, DRM_NPU_BO_CARD, &bo);
  assert_true(is_filled(bo.map, bo.size, 0));
  assert_int_equal(raw_fill(card->fd, card->ctx, &bo, 0x5c), 0);
  assert_true(is_filled(bo.map, bo.size, 0x5c));
  bo_destroy(card->fd, &bo);
}

/* Returns true if the trace shows one of these PM callbacks of the card. */
static bool was_called(const char *text, const struct card *card, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (trace_find(text, card->device, names[i], NULL)) return true;
  return false;
}

static void a_card_without_buffers_freezes_and_goes_on(void **state) {
  static const char *const begin[] = {"[freeze]"}, *const end[] = {
                                                       "[thaw]", "[recover]",
                                                       "[restore]"}; /* Linux 6.12 restores after a refusal */
  static const char *const events[] = {"power/device_pm_callback_start"};
  struct card *idle = &cards[1], *refuses = &cards[0];
  uint32_t had = resets(idle);
  struct drm_npu_memory_info memory;
  struct drm_npu_ctx_query query;
  struct bo system, keeps;
  uint64_t last;
  char *text;

  (void)state;
  npu_memory(idle->fd, &memory);
  expect_card_free(idle->fd, memory.card_total);
  bo_create_mapped(idle->fd, SIZE, DRM_NPU_BO_SYSTEM, &system);
  fill(system.map, system.size, 41);
  bo_create(refuses->fd, SIZE, DRM_NPU_BO_CARD, &keeps);
  last = start_jobs(idle, &system);
  trace_begin(events, 1);
  hibernate_until(refuses);
  text = trace_end();
  assert_true(was_called(text, idle, begin, 1));
  assert_true(was_called(text, idle, end, 3));
  free(text);

  ctx_query(idle->fd, idle->ctx, &query);
  assert_int_equal(query.submitted, last);
  assert_int_equal(query.completed, last);
  assert_int_equal(query.errors + query.victims, 0);
  assert_int_equal(resets(idle), had); /* a freeze is no reset */
  works_as_before(idle, &system);
  run_nop(refuses->fd, refuses->ctx);
  bo_destroy(refuses->fd, &keeps);
  bo_destroy(idle->fd, &system);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_on_the_card_are_not_lost),
      cmocka_unit_test(a_card_without_buffers_freezes_and_goes_on),
  };

  return cmocka_run_group_tests_name("hibernation", tests, set_up, tear_down);
}
