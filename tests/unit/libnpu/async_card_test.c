/* SPDX-License-Identifier: MIT */
/* Asynchronous launches on a card that is reset, or goes away. For the emulated board: takes the card from the driver
 * and gives it back. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

enum { CONTEXTS = 3, LAUNCHES = 200, ROUNDS = 3 };

struct flight {
  npu_device *device;
  npu_context *contexts[CONTEXTS];
  npu_async *queue;
  struct program program;
  npu_bo *bo;
  unsigned calls[LAUNCHES];
  int errors[LAUNCHES];
};

static struct flight flight;

static void note(void *arg, const struct npu_completion *completion) {
  const size_t i = (size_t)((unsigned *)arg - flight.calls);

  flight.calls[i]++;
  flight.errors[i] = completion->error;
}

/* The board's only device, its name on its bus, and its driver, as they are while the driver is bound to it. */
#define DEVICE "/sys/class/accel/accel0/device"

static char address[64], driver[PATH_MAX];

static int find_the_card(void **state) {
  char device[PATH_MAX];

  (void)state;
  if (!realpath(DEVICE, device) || !realpath(DEVICE "/driver", driver)) return -1;
  snprintf(address, sizeof(address), "%s", strrchr(device, '/') + 1);
  return 0;
}

static void write_sysfs(const char *folder, const char *file, const char *text) {
  char path[PATH_MAX + 16];

  snprintf(path, sizeof(path), "%s/%s", folder, file);
  const int fd = open(path, O_WRONLY);

  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail_msg("%s: %s", path, strerror(errno));
  close(fd);
}

/* Launches that keep the card busy for a while: `copies` of half a MiB each. */
static void start(int copies) {
  memset(&flight, 0, sizeof(flight));
  flight.device = must_open();
  MUST(npu_async_create(flight.device, NPU_ASYNC_AUTO, &flight.queue));
  for (int i = 0; i < CONTEXTS; i++) flight.contexts[i] = must_context(flight.device);
  flight.bo = must_create(flight.device, MIB, DRM_NPU_BO_CARD);
  program_init(&flight.program, flight.device);
  program_long(&flight.program, MIB / 2);
  program_flush(&flight.program);
  struct npu_job_region regions[] = {
      {.bo = flight.program.bo, .size = npu_bo_size(flight.program.bo), .access = DRM_NPU_REGION_READ},
      {.bo = flight.bo, .size = MIB, .access = DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE}};
  struct drm_npu_stream stream = {.gdma_count = (uint32_t)copies};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};
  for (int i = 0; i < LAUNCHES; i++)
    MUST(npu_async_submit(flight.queue, flight.contexts[i % CONTEXTS], &job, 1, note, &flight.calls[i]));
}

static void process_all(void) {
  while (npu_async_unfinished(flight.queue)) assert_true(npu_async_process(flight.queue, 0, LONG_TIME) > 0);
}

static void end(void) {
  npu_async_destroy(flight.queue);
  for (int i = 0; i < CONTEXTS; i++) npu_context_destroy(flight.contexts[i]);
  program_free(&flight.program);
  npu_bo_unref(flight.bo);
  npu_device_close(flight.device);
}

static void assert_card_works(void) {
  npu_device *device = must_open();
  npu_context *context = must_context(device);

  assert_works(device, context);
  npu_context_destroy(context);
  npu_device_close(device);
}

/* Whether the queue ends before or after its launches have ended. */
static void lose_the_card(bool process) {
  unsigned lost = 0;

  start(PROGRAM_COMMANDS);
  write_sysfs(driver, "unbind", address);
  if (process) process_all();
  end();
  for (int i = 0; i < LAUNCHES; i++) {
    assert_int_equal(flight.calls[i], 1);
    if (flight.errors[i] == -ENODEV || (!process && flight.errors[i] == -ECANCELED))
      lost++;
    else if (flight.errors[i])
      fail_msg("launch %d ended with %d", i, flight.errors[i]);
  }
  /* Those that the card never got are among them. */
  assert_true(lost >= LAUNCHES - CONTEXTS * 64);
  write_sysfs(driver, "bind", address);
  assert_card_works();
}

static void a_card_that_goes_ends_every_launch(void **state) {
  (void)state;
  for (int i = 0; i < ROUNDS; i++) lose_the_card(true);
}

static void a_queue_ends_without_its_card(void **state) {
  (void)state;
  for (int i = 0; i < ROUNDS; i++) lose_the_card(false);
}

/* What was on a core is lost, the rest runs. */
static void a_card_that_is_reset_goes_on(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    unsigned lost = 0;

    start(40);
    write_sysfs(DEVICE, "reset", "1");
    process_all();
    for (int i = 0; i < LAUNCHES; i++) {
      assert_int_equal(flight.calls[i], 1);
      if (flight.errors[i] == -ECANCELED)
        lost++;
      else if (flight.errors[i])
        fail_msg("launch %d ended with %d", i, flight.errors[i]);
    }
    assert_true(lost <= CONTEXTS);
    end();
    assert_card_works();
  }
}

int async_card_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_card_that_is_reset_goes_on),
      cmocka_unit_test(a_card_that_goes_ends_every_launch),
      cmocka_unit_test(a_queue_ends_without_its_card),
  };
  const struct CMUnitTest of_a_block[] = {tests[1], tests[2]};

  if (!access(DEVICE "/reset", F_OK)) return cmocka_run_group_tests_name("async_card", tests, find_the_card, NULL);
  printf("== async_card: a_card_that_is_reset_goes_on is for a card: nobody resets a block\n");
  return cmocka_run_group_tests_name("async_card", of_a_block, find_the_card, NULL);
}
