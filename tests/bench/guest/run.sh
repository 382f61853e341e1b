#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Inside the emulated board: all figures of bench_driver, one line each. Needs root, the module loaded, its path in $NPU_KO, debugfs, and the NVMe
# device that tests/bench/guest.py gives the board.

bench=$(dirname "$(readlink -f "$0")")/../../../build/bin/tests/guest/bench_driver
bench=${NPU_GUEST_BENCH:-$bench}
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || exit 1
for what in irq latency rate irq buffers nvme; do
	"$bench" $what || exit 1
done
"$bench" insmod "$NPU_KO"
