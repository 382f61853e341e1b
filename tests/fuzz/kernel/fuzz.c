/* SPDX-License-Identifier: MIT */
/*
 * A stateful fuzzer of the driver's interface, to be run inside of the board: many processes with random, mostly
 * meaningful, calls in random order, which now and then are spoiled, killed or run out of memory, while the card is
 * reset, taken from the driver and given back, and, in a board that survives it (npu-vm --sleep), put to sleep.
 * Afterwards nothing may be left in use and the card must work; the kernel log is for the caller to look at.
 *
 *   fuzz SECONDS [SEED [PROCESSES]]
 *
 * The seed is printed. With the same seed each thread makes the same choices; in which order the threads' calls meet is
 * up to the scheduler.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fuzz/kernel/random.h"
#include "tests/fuzz/kernel/worker.h"
#include "tests/guest/driver/alloc_fail.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define MAX_PROCESSES 64
/* One process lives so long; then another takes its place. */
#define LIFE_MS 4000
/* What a process may take to end: jobs are limited, and the watchdog is set to be quick. */
#define END_MS 120000

static int64_t seconds = 10;
static uint64_t seed;
static int processes = 6;
static bool may_sleep; /* the board does, without losing its own devices */
static unsigned binds, sleeps;
static volatile uint64_t *total; /* calls, shared with the workers */

static void write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);

  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) fprintf(stderr, "%s: %s\n", path, strerror(errno));
  close(fd);
}

static struct worker worker; /* what each process begins with */

static pid_t start(uint64_t worker_seed) {
  pid_t pid = fork();

  if (pid) return pid;
  worker.seed = worker_seed;
  worker.end_ms = now_ms() + LIFE_MS;
  __atomic_fetch_add(total, worker_run(&worker), __ATOMIC_RELAXED);
  _exit(0);
}

/* The worker's kernel stacks, for a process that does not end. */
static void show_stack(pid_t pid) {
  char command[128];

  write_text("/proc/sysrq-trigger", "l"); /* who runs, into the log */
  snprintf(command, sizeof(command), "cat /proc/%d/task/*/comm /proc/%d/task/*/stack >&2", (int)pid, (int)pid);
  if (system(command)) fprintf(stderr, "no stack of %d\n", (int)pid);
}

/* Ends with a failure if the process does not end in time, or was ended by a signal that nobody sent. */
static void collect(pid_t pid, int killed) {
  int64_t end = now_ms() + END_MS;
  int status;

  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (now_ms() > end) {
      show_stack(pid);
      fail_msg("seed %llu: process %d does not end", (unsigned long long)seed, (int)pid);
    }
    usleep(10000);
  }
  if (!killed && !(WIFEXITED(status) && !WEXITSTATUS(status)))
    fail_msg("seed %llu: process %d ended with status %#x", (unsigned long long)seed, (int)pid, status);
}

static char address[32];     /* the card's name on its bus */
static char reset[PATH_MAX]; /* of a card; "": nobody else resets it */

/* A block of a SoC has a reason to be, if the board can give it one. */
static void reset_the_card(void) {
  if (*reset)
    write_text(reset, "1");
  else if (getenv("NPU_MACHINE"))
    fault_set("fatal", 1);
}

/* Under those that use it; they go on with what they have, which is no use any more, and open it again. */
static void unbind_and_bind(struct random *r) {
  int ret;

  if (one_in(r, 2)) reset_the_card();
  ret = try_card_unbind(address);
  if (ret) fprintf(stderr, "unbind: %s\n", strerror(-ret));
  usleep((unsigned)below(r, 200000));
  ret = try_card_bind(address);
  if (ret) fprintf(stderr, "bind: %s\n", strerror(-ret));
  binds++;
}

static void find_the_card(void) {
  char link[96];
  int fd = npu_open();

  snprintf(address, sizeof(address), "%s", card_address());
  device_path(fd, "reset", link, sizeof(link));
  if (is_card(fd)) assert_non_null(realpath(link, reset));
  device_path(fd, "", link, sizeof(link));
  assert_non_null(realpath(link, worker.device));
  worker.memory = bo_place(fd, DRM_NPU_BO_CARD);
  close(fd);
}

/* All devices, and on; a job that takes too long may keep them awake. */
static void let_it_sleep(void) {
  if (try_write_file("/sys/power/state", "mem") == 0) sleeps++;
}

static void many_processes_break_nothing(void **state) {
  static struct {
    pid_t pid;
    int killed;
    int64_t end;
  } slots[MAX_PROCESSES];
  char before[USAGE_BYTES], after[USAGE_BYTES];
  int64_t end = now_ms() + seconds * 1000;
  uint64_t started = 0;
  struct random r;

  (void)state;
  printf("seed %llu, %lld s, %d processes\n", (unsigned long long)seed, (long long)seconds, processes);
  fflush(stdout);
  random_seed(&r, seed);
  usage_begin(before);
  while (now_ms() < end) {
    for (int i = 0; i < processes; i++) {
      if (!slots[i].pid) {
        slots[i].pid = start(seed * 1000 + started++);
        slots[i].killed = one_in(&r, 3);
        slots[i].end = now_ms() + (slots[i].killed ? (int64_t)below(&r, LIFE_MS) : LIFE_MS);
        assert_true(slots[i].pid > 0);
      } else if (now_ms() > slots[i].end) {
        if (slots[i].killed) kill(slots[i].pid, SIGKILL);
        collect(slots[i].pid, slots[i].killed);
        slots[i].pid = 0;
      }
    }
    if (one_in(&r, 500)) reset_the_card();
    if (one_in(&r, 150)) unbind_and_bind(&r);
    if (may_sleep && one_in(&r, 250)) let_it_sleep();
    usleep(20000);
  }
  for (int i = 0; i < processes; i++)
    if (slots[i].pid) collect(slots[i].pid, slots[i].killed);
  for (int tries = 0; tries < 200; tries++) {
    usage_take(after);
    if (!strcmp(before, after)) break;
    usleep(100000);
  }
  printf("%llu processes, %llu calls of those that were not killed, bound %u times, slept %u times\n",
         (unsigned long long)started, (unsigned long long)*total, binds, sleeps);
  if (strcmp(before, after)) fail_msg("seed %llu: before:\n%safter:\n%s", (unsigned long long)seed, before, after);
  assert_true(*total > 0);
}

static void the_card_still_works(void **state) {
  int fd = npu_open();
  uint32_t ctx = ctx_create(fd);

  (void)state;
  for (int i = 0; i < 10; i++) run_nop(fd, ctx);
  ctx_destroy(fd, ctx);
  close(fd);
}

static int set_up(void **state) {
  (void)state;
  find_the_card();
  if (access("/sys/kernel/debug/accel", F_OK)) mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
  total = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(total != MAP_FAILED);
  if (may_sleep) {
    write_file("/sys/power/pm_test", "devices");
    write_file("/sys/module/suspend/parameters/pm_test_delay", "0");
  }
  alloc_fail_begin(); /* workers make them fail, where the kernel can */
  set_parameter("timeout_ms", 500);
  set_parameter("job_limit_ms", 3000);
  set_parameter("budget_ms", 20);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  set_parameter("timeout_ms", 5000);
  set_parameter("job_limit_ms", 600000);
  set_parameter("budget_ms", 60000);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_processes_break_nothing),
      cmocka_unit_test(the_card_still_works),
  };

  seed = (uint64_t)time(NULL);
  if (argc > 1) seconds = atoll(argv[1]);
  if (argc > 2 && strcmp(argv[2], "-")) seed = strtoull(argv[2], NULL, 0);
  if (argc > 3) processes = atoi(argv[3]);
  may_sleep = getenv("NPU_SLEEP") != NULL;
  if (seconds < 1 || processes < 1 || processes > MAX_PROCESSES) {
    fprintf(stderr, "usage: %s SECONDS [SEED [PROCESSES]]\n", argv[0]);
    return 2;
  }
  return cmocka_run_group_tests_name("fuzz", tests, set_up, tear_down);
}
