# SPDX-License-Identifier: MIT
"""What needs no board: the console reader tells a sick kernel's lines from a healthy one's, and a program that the
board does not have brings a hint."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from npuvm import guest  # noqa: E402
from npuvm.console import Console  # noqa: E402

SICK = [
    "[    3.1] ------------[ cut here ]------------",
    "[    3.515323] Kernel panic - not syncing: sysrq triggered crash",
    "[   12.000001] WARNING: CPU: 0 PID: 81 at drivers/accel/x.c:12 f+0x1/0x2 [qnpu]",
    "[   12.000001] WARNING: possible circular locking dependency detected",
    "[   12.000001] WARNING: suspicious RCU usage",
    "[   12.000001][   T81] BUG: KASAN: slab-use-after-free in f+0x1/0x2 [qnpu]",
    "[   12.000001] BUG: sleeping function called from invalid context at a.c:1",
    "[   12.000001] BUG: unable to handle page fault for address: ffffc90000",
    "[   12.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "[   12.000001] BUG kmalloc-64 (Tainted: G           O      ): Object already free",
    "[   12.000001] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "[   12.000001] Oops: general protection fault, probably for non-canonical address",
    "[   12.000001] UBSAN: array-index-out-of-bounds in qnpu_job.c:12:3",
    "[  243.1] INFO: task test:81 blocked for more than 120 seconds.",
    "[   63.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
    "[   63.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [test:81]",
    "[   63.1] ODEBUG: free active (active state 0) object: 0 object type: timer_list",
    "[   63.1] refcount_t: underflow; use-after-free.",
    "[   63.1] list_add corruption. prev->next should be next (0), but was 1.",
    "[   63.1] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "[   63.1] DMA-API: qnpu 0000:01:00.0: device driver frees DMA memory it has not allocated",
    "[   63.1] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 30s!",
    "[   63.1] INFO: trying to register non-static key.",
    "[   63.1] qnpu 0000:01:00.0: WARNING: a driver's own words count too",
]

RACES = [
    "[   12.000001] BUG: KCSAN: data-race in f [qnpu] / g [qnpu]",
    "[   12.000001] BUG: KCSAN: data-race in dma_fence_init / f [qnpu]",
    "[   12.000001] BUG: KCSAN: data-race in f+0x1/0x2 [qnpu]",
]

HEALTHY = [
    "WARNING: not from the kernel, it has no time stamp",
    "[    0.1] Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on",
    "[    0.1] Linux version 6.12.117 (gcc) #1 SMP PREEMPT_DYNAMIC BUGFREE",
    "[    1.0] kmemleak: Kernel memory leak detector disabled",
    "[    1.0] ** NOTICE: this is a debug kernel: lockdep, KASAN **",
    "[    1.0] rcu: Preemptible hierarchical RCU implementation.",
    "[    1.0] DMA-API: preallocated 65536 debug entries",
    "[    2.0] kasan: KernelAddressSanitizer initialized (generic)",
    "[    2.0] qnpu: loading out-of-tree module taints kernel.",
    "[    2.0] qnpu 0000:01:00.0: job 7 was ended: budget",
    "[    2.0] [drm:qnpu_job_timedout [qnpu]] *ERROR* core 0 does not move",
    "[    9.0] ACPI: PM: Preparing to enter system sleep state S5",
    "[    9.0] reboot: Power down",
    "[    9.0] FAULT_INJECTION: forcing a failure.",
    "[   12.000001] BUG: KCSAN: data-race in shmem_fault / shmem_getattr",
    "[   12.000001] BUG: KCSAN: data-race in drm_file_alloc+0x1/0x2",
]


class ConsoleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.console = Console(os.path.join(self.folder.name, "log"))

    def tearDown(self):
        self.console.close()
        self.folder.cleanup()

    def test_every_sign_of_sickness_is_seen(self):
        for line in SICK:
            self.console.splat = None
            self.console.feed(line.encode() + b"\r\n")
            self.assertEqual(self.console.splat, line)

    def test_a_healthy_kernel_is_left_alone(self):
        for line in HEALTHY:
            self.console.feed(line.encode() + b"\r\n")
            self.assertIsNone(self.console.splat, line)
            self.assertIsNone(self.console.race, line)

    def test_a_data_race_in_a_module_ends_no_board(self):
        for line in RACES:
            self.console.race = None
            self.console.feed(line.encode() + b"\r\n")
            self.assertEqual(self.console.race, line)
            self.assertIsNone(self.console.splat)

    def test_the_reason_replaces_the_ornament_before_it(self):
        self.console.feed(b"[    3.1] ------------[ cut here ]------------\r\n[    3.1] WARNING: CPU: 0 at x\r\n")
        self.assertEqual(self.console.splat, "[    3.1] WARNING: CPU: 0 at x")

    def test_lines_that_arrive_in_pieces(self):
        for byte in b"[    3.1] WARNING: CPU: 0 at x\r\n":
            self.console.feed(bytes([byte]))
        self.assertEqual(self.console.splat, "[    3.1] WARNING: CPU: 0 at x")

    def test_the_log_keeps_every_byte(self):
        data = b"\x00\xff\r\nabc\n"
        self.console.feed(data)
        with open(self.console.path, "rb") as file:
            self.assertEqual(file.read(), data)


class HintTest(unittest.TestCase):
    def test_a_program_that_is_not_in_the_board_is_named_with_what_helps(self):
        text = guest.hint(127, ["./a program", "--share"], None)
        self.assertIn("'./a program', or a program that it runs, is not in the board", text)
        self.assertIn("--share DIR", text)

    def test_all_else_has_none(self):
        for status, share in ((0, None), (1, None), (126, None), (128, None), (127, "."), (0, ".")):
            self.assertEqual(guest.hint(status, ["true"], share), "", (status, share))


if __name__ == "__main__":
    unittest.main()
