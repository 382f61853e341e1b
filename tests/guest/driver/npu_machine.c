/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/npu_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const faults[] = {
    "hang",          "stuck-abort",     "stuck-core",      "stuck-device", "hang-after", "corrupt-id", "corrupt-status",
    "corrupt-phase", "lost-interrupts", "ecc-uncorrected", "temperature",  "fatal",      "dead"};

static void read_line(int fd, char *line, size_t size) {
  size_t n = 0;

  for (;;) {
    char c;
    ssize_t got = read(fd, &c, 1);

    if (got < 0 && errno == EINTR) continue;
    if (got != 1) fail_msg("no answer from the machine: %s", got ? strerror(errno) : "closed");
    if (c == '\n') break;
    if (n + 1 < size) line[n++] = c;
  }
  line[n] = 0;
}

void machine_command(const char *command, const char *arguments, char *answer, size_t size) {
  const char *port = getenv("NPU_MACHINE");
  char line[1024];
  int n, fd;

  if (!port) fail_msg("$NPU_MACHINE is not set: this test needs npu-vm --control");
  fd = open(port, O_RDWR | O_CLOEXEC);
  if (fd < 0) fail_msg("%s: %s", port, strerror(errno));
  n = snprintf(line, sizeof(line), "{\"execute\": \"%s\", \"arguments\": {%s}}\n", command, arguments);
  assert_true(n > 0 && (size_t)n < sizeof(line));
  assert_int_equal(write(fd, line, (size_t)n), n);
  read_line(fd, line, sizeof(line));
  close(fd);
  if (strstr(line, "\"error\"")) fail_msg("%s %s: %s", command, arguments, line);
  if (answer) snprintf(answer, size, "%s", line);
}

#define NPU0 "\"path\": \"/machine/peripheral/npu0\", \"property\": \"fault-%s\""

void fault_set(const char *name, uint64_t value) {
  char text[256];

  snprintf(text, sizeof(text), NPU0 ", \"value\": %llu", name, (unsigned long long)value);
  machine_command("qom-set", text, NULL, 0);
}

uint64_t fault_left(const char *name) {
  char text[256], answer[256];
  const char *value;

  snprintf(text, sizeof(text), NPU0, name);
  machine_command("qom-get", text, answer, sizeof(answer));
  value = strstr(answer, "\"return\":");
  assert_non_null(value);
  return strtoull(value + strlen("\"return\":"), NULL, 0);
}

void fault_wait(const char *name) {
  for (int tries = 0; tries < 2000; tries++) {
    if (!fault_left(name)) return;
    usleep(10000);
  }
  fail_msg("the fault %s is not taken", name);
}

void faults_clear(void) {
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) fault_set(faults[i], 0);
}

uint32_t ctx_create_patient(int fd, const struct drm_npu_ctx_create *args) {
  struct drm_npu_ctx_create own = {.priority = DRM_NPU_PRIORITY_NORMAL};

  if (args) own = *args;
  set_parameter("timeout_ms", PATIENT_MS);
  assert_int_equal(raw_ctx_create(fd, &own), 0);
  set_parameter("timeout_ms", DEFAULT_TIMEOUT_MS);
  return own.ctx_id;
}

void hold_next_job(void) {
  fault_set("hang-after", 0);
  fault_set("hang", 1);
}

void wait_held(void) { fault_wait("hang"); }

void held_go_on(void) { fault_set("hang", 0); }

uint64_t submit_held(int fd, uint32_t ctx, struct job *job) {
  uint64_t seqno;

  hold_next_job();
  seqno = submit(fd, ctx, job);
  wait_held();
  return seqno;
}

int try_write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) ret = -errno;
  if (fd >= 0) close(fd);
  return ret;
}

void write_file(const char *path, const char *text) {
  int ret = try_write_file(path, text);

  if (ret) fail_msg("%s: %s", path, strerror(-ret));
}

/* Folders of the bound devices, on any bus. */
#define BOUND "/sys/bus/*/drivers/qnpu/*/accel"

/* That folder; a device that is not bound now was bound before. */
static const char *driver_folder(void) {
  static char folder[64];
  glob_t found;

  if (folder[0]) return folder;
  if (glob(BOUND, 0, NULL, &found)) fail_msg("the driver is bound to no device");
  snprintf(folder, sizeof(folder), "%s", dirname(dirname(found.gl_pathv[0])));
  globfree(&found);
  return folder;
}

const char *card_address(void) {
  static char address[32];
  glob_t found;

  driver_folder();
  if (glob(BOUND, 0, NULL, &found)) fail_msg("the driver is bound to no device");
  snprintf(address, sizeof(address), "%s", basename(dirname(found.gl_pathv[0])));
  globfree(&found);
  return address;
}

static const char *driver_file(const char *name) {
  static char path[128];

  snprintf(path, sizeof(path), "%s/%s", driver_folder(), name);
  return path;
}

bool card_is_bound(const char *address) { return !access(driver_file(address), F_OK); }

int try_card_unbind(const char *address) { return try_write_file(driver_file("unbind"), address); }
int try_card_bind(const char *address) { return try_write_file(driver_file("bind"), address); }

void card_unbind(const char *address) { write_file(driver_file("unbind"), address); }

/* A node has the number of the device's folder, which is 0 only if no process has the old device open. */
static bool card_has_node(const char *address) {
  char path[160];
  glob_t found;
  bool there;

  snprintf(path, sizeof(path), "%s/%s/accel/accel[0-9]*", driver_folder(), address);
  if (glob(path, 0, NULL, &found)) return false;
  snprintf(path, sizeof(path), "/dev/accel/%s", basename(found.gl_pathv[0]));
  there = !access(path, R_OK);
  globfree(&found);
  return there;
}

void card_bind(const char *address) {
  write_file(driver_file("bind"), address);
  for (int tries = 0; !card_has_node(address); tries++) {
    if (tries > FOREVER_MS / 10) fail_msg("bind: %s has no node in /dev/accel", address);
    usleep(10000);
  }
}

static uint32_t resets(int fd) {
  struct drm_npu_status_info status;

  npu_status(fd, &status);
  return status.resets;
}

void card_reset(int fd) {
  char path[96];
  uint32_t had;

  if (is_card(fd)) {
    device_path(fd, "reset", path, sizeof(path));
    write_file(path, "1");
    return;
  }
  had = resets(fd);
  fault_set("fatal", 1);
  for (int tries = 0; resets(fd) == had; tries++) {
    if (tries > FOREVER_MS / 10) fail_msg("a fatal error does not reset the device");
    usleep(10000);
  }
}

/*
 * The kernel's pciehp (6.12) takes two of its locks in both orders when a card is removed. Lockdep would report it and
 * then stop, so it is disabled meanwhile. Unbinding the card tests the driver's removal.
 */
static void prove_locking(bool on) {
  const char *path = "/proc/sys/kernel/prove_locking";

  if (!access(path, W_OK)) write_file(path, on ? "1" : "0");
}

/* The machine's description of the cards, which the next ones repeat. */
static const char *const properties[] = {"ddr", "ddr-bw", "clock-khz"};
#define PROPERTIES (sizeof(properties) / sizeof(properties[0]))
static uint64_t values[2][PROPERTIES];

void machine_pull(int card) {
  char arguments[128], answer[256];

  for (size_t i = 0; i < PROPERTIES; i++) {
    snprintf(arguments, sizeof(arguments), "\"path\": \"/machine/peripheral/npu%d\", \"property\": \"%s\"", card,
             properties[i]);
    machine_command("qom-get", arguments, answer, sizeof(answer));
    assert_int_equal(sscanf(answer, "{\"return\": %" SCNu64, &values[card][i]), 1);
  }
  prove_locking(false);
  snprintf(arguments, sizeof(arguments), "\"id\": \"npu%d\"", card);
  machine_command("device_del", arguments, NULL, 0);
}

static size_t cards_bound(void) {
  glob_t found = {0};
  size_t count;

  glob(BOUND, 0, NULL, &found);
  count = found.gl_pathc;
  globfree(&found);
  return count;
}

void machine_plug(int card) {
  char arguments[256], name[16];
  size_t before;
  int length;

  snprintf(name, sizeof(name), "\"npu%d\"", card);
  for (int tries = 0;; tries++) {
    char list[1024];

    /* The port is empty once QEMU has released the old card. */
    machine_command("qom-list", "\"path\": \"/machine/peripheral\"", list, sizeof(list));
    if (!strstr(list, name)) break;
    if (tries > 3000) fail_msg("card %d does not leave its slot", card);
    usleep(10000);
  }
  length =
      snprintf(arguments, sizeof(arguments), "\"driver\": \"npu\", \"id\": \"npu%d\", \"bus\": \"rp%d\"", card, card);
  for (size_t i = 0; i < PROPERTIES; i++)
    length += snprintf(arguments + length, sizeof(arguments) - (size_t)length, ", \"%s\": %" PRIu64, properties[i],
                       values[card][i]);
  before = cards_bound();
  machine_command("device_add", arguments, NULL, 0);
  for (int tries = 0; cards_bound() == before; tries++) {
    if (tries > 3000) fail_msg("the driver does not see card %d", card);
    usleep(10000);
  }
  prove_locking(true);
}
