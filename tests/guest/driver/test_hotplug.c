/* SPDX-License-Identifier: MIT */
/* The card goes while it works: pulled, dead, reset by others, or cut off by an error of the bus. Argument: rounds (3). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "npu_machine.h"
#include "npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define NODE "/dev/accel/accel0"
#define USERS 4

static int rounds = 3;

static int set_up(void **state) {
  uint32_t ctx;
  int fd;

  (void)state;
  faults_clear();
  fd = npu_open();
  ctx = ctx_create(fd);
  calibrate(fd, ctx);
  return close(fd);
}

/* A file with jobs on the way and memory mapped. */
struct user {
  int fd;
  uint32_t ctx;
  uint64_t first, last;
  struct bo card;
  struct stream stream;
};

static void user_start(struct user *user, uint32_t ms) {
  struct job job;

  user->fd = npu_open();
  user->ctx = ctx_create(user->fd);
  bo_create_mapped(user->fd, MIB(3), DRM_NPU_BO_CARD, &user->card);
  memset(user->card.map, 0x5a, 4096);
  stream_create(user->fd, 1, &user->stream);
  stream_slow_copy(&user->stream, 1, ms);
  job_init(&job);
  job_gdma(&job, &user->stream);
  job_region(&job, &user->card, RW);
  job.args.budget = UINT64_MAX;
  user->first = submit(user->fd, user->ctx, &job);
  for (int i = 0; i < 8; i++) user->last = submit(user->fd, user->ctx, &job);
}

static void user_end(struct user *user) {
  bo_unmap(&user->card);
  bo_unmap(&user->stream.bo);
  close(user->fd);
}

static void users_start(struct user users[USERS], uint32_t ms) {
  for (int i = 0; i < USERS; i++) user_start(&users[i], ms);
  usleep(100000);
}

/* All of their calls and jobs fail, nothing hangs, nothing is killed. */
static void users_have_lost(struct user users[USERS]) {
  for (int i = 0; i < USERS; i++) {
    struct drm_npu_dev_query query = {.type = DRM_NPU_QUERY_DEV};
    struct drm_npu_wait wait;

    assert_int_equal(raw_ioctl(users[i].fd, DRM_IOCTL_NPU_DEV_QUERY, &query), -ENODEV);
    assert_int_equal(raw_wait(users[i].fd, users[i].ctx, users[i].last, 0, &wait), -ENODEV);
    *(volatile uint8_t *)users[i].card.map = 1;
    user_end(&users[i]);
  }
}

static void wait_node(bool there) {
  for (int tries = 0; tries < 3000; tries++) {
    if (!access(NODE, F_OK) == there) return;
    usleep(10000);
  }
  fail_msg("%s is %s", NODE, there ? "not coming back" : "still there");
}

static void pull(void) { machine_command("device_del", "\"id\": \"npu0\"", NULL, 0); }

static void plug(void) {
  for (int tries = 0;; tries++) {
    char list[1024];

    /* QEMU has let the old card go when the port is empty. */
    machine_command("qom-list", "\"path\": \"/machine/peripheral\"", list, sizeof(list));
    if (!strstr(list, "npu0")) break;
    if (tries > 3000) fail_msg("the card does not leave its slot");
    usleep(10000);
  }
  machine_command("device_add", "\"driver\": \"npu\", \"id\": \"npu0\", \"bus\": \"rp0\"", NULL, 0);
  /* The node is there a moment before it can be opened. */
  wait_node(true);
  for (int tries = 0, fd = -1; tries < 500; tries++) {
    if (npu_try_open(&fd)) {
      close(fd);
      break;
    }
    usleep(10000);
  }
}

static void works(void) {
  int fd = npu_open();

  run_nop(fd, ctx_create(fd));
  close(fd);
}

static void pulled_under_load(void **state) {
  struct user users[USERS];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users, FOREVER_MS);
    pull();
    wait_node(false);
    users_have_lost(users);
    plug();
    works();
  }
}

/* As it is when somebody pulls it without asking: it is gone before anybody is told. */
static void dead_then_pulled(void **state) {
  struct user users[USERS];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users, FOREVER_MS);
    fault_set("dead", 1);
    if (i & 1) usleep(2000000);
    pull();
    wait_node(false);
    users_have_lost(users);
    plug();
    works();
  }
}

static void unbound_with_everything_open(void **state) {
  struct user users[USERS];
  char address[32];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users, FOREVER_MS);
    snprintf(address, sizeof(address), "%s", card_address());
    card_unbind(address);
    users_have_lost(users);
    card_bind(address);
    works();
  }
}

/* Whatever was on a core is lost, the rest runs; memory keeps its contents. */
static void users_go_on(struct user users[USERS], uint64_t least) {
  uint64_t lost = 0;

  for (int i = 0; i < USERS; i++) {
    struct drm_npu_ctx_query query;
    struct drm_npu_wait wait;

    for (uint64_t seqno = users[i].first; seqno <= users[i].last; seqno++) {
      wait_result(users[i].fd, users[i].ctx, seqno, &wait);
      if (wait.error) assert_int_equal(wait.error, -ECANCELED);
    }
    ctx_query(users[i].fd, users[i].ctx, &query);
    assert_int_equal(query.errors, 0);
    lost += query.victims;
    assert_int_equal(users[i].card.map[100], 0x5a);
    user_end(&users[i]);
  }
  assert_in_range(lost, least, 2);
}

static void reset_under_load(void **state) {
  struct user users[USERS];
  char path[128];

  (void)state;
  for (int i = 0; i < rounds; i++) {
    users_start(users, 200);
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", card_address());
    write_file(path, "1");
    users_go_on(users, 1);
    works();
  }
}

static void inject(const char *error) {
  char text[256];

  snprintf(text, sizeof(text), "\"command-line\": \"pcie_aer_inject_error %s\"", error);
  machine_command("human-monitor-command", text, NULL, 0);
}

static uint32_t resets(void) {
  struct drm_npu_status_info info;
  struct drm_npu_dev_query args = {
      .type = DRM_NPU_QUERY_STATUS, .size = sizeof(info), .pointer = (uintptr_t)&info};
  int fd = npu_open();

  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args), 0);
  close(fd);
  return info.resets;
}

static void an_error_of_the_bus(const char *error) {
  uint32_t had = resets();
  struct user users[USERS];

  users_start(users, 200);
  inject(error);
  for (int tries = 0; resets() == had && tries < 1000; tries++) usleep(10000);
  assert_int_equal(resets(), had + 1);
  users_go_on(users, 0); /* on a busy host the jobs may end before the error arrives */
  works();
}

static void errors_of_the_bus(void **state) {
  (void)state;
  for (int i = 0; i < rounds; i++) {
    an_error_of_the_bus("npu0 COMP_TIME");   /* not fatal */
    an_error_of_the_bus("npu0 MALF_TLP");    /* fatal: the link is reset */
  }
  inject("-c npu0 BAD_TLP"); /* corrected: nothing happens */
  works();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reset_under_load),
      cmocka_unit_test(errors_of_the_bus),
      cmocka_unit_test(unbound_with_everything_open),
      cmocka_unit_test(pulled_under_load),
      cmocka_unit_test(dead_then_pulled),
  };

  if (argc > 1) rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("hotplug", tests, set_up, NULL);
}
