#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh LARGE.bmodel SMALL.bmodel: inside the emulated board, all figures of bench_driver and bench_runtime, one line
# each. Needs root, the module loaded, its path in $NPU_KO, debugfs, and the NVMe device that tests/bench/guest.py gives
# the board.

programs=$(dirname "$(readlink -f "$0")")/../../../build/bin/tests/guest
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || exit 1
for what in irq latency rate irq buffers nvme; do
	"$programs/bench_driver" $what || exit 1
done
"$programs/bench_runtime" copies || exit 1
"$programs/bench_runtime" async || exit 1
"$programs/bench_runtime" load "$1" || exit 1
"$programs/bench_runtime" launch "$2" || exit 1
"$programs/bench_driver" insmod "$NPU_KO"
