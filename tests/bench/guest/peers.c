/* SPDX-License-Identifier: MIT */
/* Workloads: what others can do on the same board, to compare jobs with; and loading the module. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/nvme_ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/guest/workloads.h"

/* ---- the interrupt-test register ---- */

static int irq_file;

static void open_irq(void) {
  glob_t found;

  must(!glob("/sys/kernel/debug/accel/*/irq_test", 0, NULL, &found), "debugfs", "there is no irq_test");
  irq_file = open(found.gl_pathv[0], O_RDONLY);
  if (irq_file < 0) die(found.gl_pathv[0]);
  globfree(&found);
}

static void run_irq(int times) {
  char text[32];

  for (int i = 0; i < times; i++)
    if (pread(irq_file, text, sizeof(text), 0) <= 0) die("irq_test");
}

/* ---- NVMe passthrough: reads of one block from a disk without a medium ---- */

static int disk, nsid;

static void open_nvme(void) {
  disk = open("/dev/ng0n1", O_RDWR);
  nsid = disk < 0 ? -1 : ioctl(disk, NVME_IOCTL_ID);
  if (nsid <= 0) die("/dev/ng0n1");
  open_ring(IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
}

static void push_read(uint64_t slot) {
  static uint8_t blocks[DEPTH][512] __attribute__((aligned(4096)));
  struct io_uring_sqe *sqe = next_sqe();
  const struct nvme_uring_cmd cmd = {
      .opcode = 0x02, .nsid = (uint32_t)nsid, .addr = (uintptr_t)blocks[slot], .data_len = 512};

  memset(sqe, 0, 2 * sizeof(*sqe));
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, disk, NULL, 0, 0);
  sqe->cmd_op = NVME_URING_CMD_IO;
  sqe->user_data = slot;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &cmd, sizeof(cmd));
}

static void run_nvme(int times) { turns(push_read, times, 1); }
static void run_nvme_lazy(int times) { turns(push_read, times, DEPTH / 2); }

const struct workload peer_workloads[] = {
    {"irq", "the interrupt-test register, to the woken thread", NULL, JOBS, 1, open_irq, run_irq},
    {"nvme", "NVMe passthrough, 64 in flight, turns of at least one", NULL, JOBS, DEPTH, open_nvme, run_nvme},
    {"nvme-lazy", "NVMe passthrough, 64 in flight, turns of at least 32", NULL, JOBS, DEPTH, open_nvme, run_nvme_lazy},
    {0},
};

/* ---- the module ---- */

static int module_file;

static void open_module(void) {
  const char *path = getenv("NPU_KO");

  must(path != NULL, "NPU_KO", "the path of the module is expected in this variable");
  module_file = open(path, O_RDONLY | O_CLOEXEC);
  if (module_file < 0) die(path);
}

static void run_module(int times) {
  for (int i = 0; i < times; i++) {
    if (syscall(SYS_delete_module, "qnpu", 0)) die("delete_module");
    if (syscall(SYS_finit_module, module_file, "", 0)) die("finit_module");
  }
}

const struct workload module_workloads[] = {
    {"module", "delete_module and finit_module of qnpu.ko, with one card", NULL, 8, 1, open_module, run_module},
    {0},
};
