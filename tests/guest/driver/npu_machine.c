/* SPDX-License-Identifier: MIT */
#include "npu_machine.h"

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

#define DRIVER "/sys/bus/pci/drivers/npu/"

static const char *const faults[] = {"hang",       "stuck-abort",    "stuck-core",    "stuck-device",    "hang-after",
                                     "corrupt-id", "corrupt-status", "corrupt-phase", "lost-interrupts", "ecc-uncorrected",
                                     "temperature", "fatal",         "dead"};

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

const char *card_address(void) {
  static char address[32];
  glob_t found;

  if (glob(DRIVER "0000:*", 0, NULL, &found)) fail_msg("the driver is bound to no card");
  snprintf(address, sizeof(address), "%s", basename(found.gl_pathv[0]));
  globfree(&found);
  return address;
}

void card_unbind(const char *address) { write_file(DRIVER "unbind", address); }

void card_bind(const char *address) {
  write_file(DRIVER "bind", address);
  for (int tries = 0; access("/dev/accel/accel0", R_OK) && tries < 1000; tries++) usleep(10000);
}
