#!/bin/sh
# SPDX-License-Identifier: MIT
#
# On a board whose NPU does not see the processors' caches: the cache watch finds each mistake of the sample `caches`,
# says whose and where it is, and finds none where there is none; nor in what our own programs do. And no more is
# maintained than has to be. Prints "N passed, N failed" at the end. Needs root.
#
#   caches.sh [FILE.bmodel...]    launches these networks, too

passed=0
failed=0
watch=$(ls /sys/kernel/debug/accel/*/cache_watch | head -n 1)

ok() { passed=$((passed + 1)) && echo "ok      $1"; }
not_ok() {
	failed=$((failed + 1))
	echo "not ok  $1: $2"
	head -n 5 "$watch" | sed 's/^/        /'
}

# Reports since the last clear that have all these keys.
reports() {
	grep '^kind=' "$watch" >/tmp/reports
	for key in "$@"; do
		grep -E "(^| )$key( |\$)" /tmp/reports >/tmp/some
		mv /tmp/some /tmp/reports
	done
	wc -l </tmp/reports
}

clear_reports() { echo 0 >"$watch"; }

# clean NAME COMMAND...: ends well and makes no mistake.
clean() {
	name=$1
	shift
	clear_reports
	"$@" >/tmp/output 2>&1 </dev/null
	status=$?
	if [ $status -ne 0 ]; then
		not_ok "$name" "status $status: $(tail -n 1 /tmp/output)"
	elif [ "$(reports)" -ne 0 ]; then
		not_ok "$name" "$(reports) reports of the cache watch"
	else
		ok "$name"
	fi
}

# mistake NAME KIND: the sample with it.
mistake() {
	clear_reports
	before=$(sed -n "1s/.* $2=\([0-9]*\).*/\1/p" "$watch")
	caches "$1" >/tmp/output 2>&1 || { not_ok "$1" "status $?: $(tail -n 1 /tmp/output)" && return; }
	after=$(sed -n "1s/.* $2=\([0-9]*\).*/\1/p" "$watch")
	if [ "$(reports "kind=$2" place=buffer comm=caches owner=caches size=0x100000)" -eq 0 ]; then
		not_ok "$1" "no report of it"
	elif [ "$(reports)" -ne "$(reports "kind=$2" place=buffer comm=caches)" ]; then
		not_ok "$1" "reports of something else"
	elif [ "$after" -le "$before" ]; then
		not_ok "$1" "the counter stays at $after"
	else
		ok "$1 ($2: $((after - before)) lines)"
	fi
}

# maintained WORKLOAD TIMES: bytes of caches that the kernel maintains for the NPU meanwhile.
maintained() {
	echo >$events/trace
	echo 1 >$events/events/dma/enable
	NPU_BENCH_MODEL=$model "$workloads" "$1" "$2" >/dev/null 2>/tmp/output || cat /tmp/output >&2
	echo 0 >$events/events/dma/enable
	awk '/dma_sync/ && /\.npu / { sub(/.*size=/, ""); sum += $1 } END { print sum + 0 }' $events/trace
}

# costs WORKLOAD BYTES: each time exactly so many bytes. It warms up by an eighth of what it does, and once more.
costs() {
	few=$(maintained "$1" 64) many=$(maintained "$1" 128)
	each=$(((many - few) / 72))
	[ $((many - few)) -eq $((72 * $2)) ] && ok "$1 maintains $2 bytes" ||
		not_ok "$1 maintains $2 bytes" "64 times $few, 128 times $many: $each each"
}

[ -e "$watch" ] || { echo "this board has no cache watch" && echo "0 passed, 1 failed" && exit 1; }
if grep -q 'enabled=1' "$watch"; then ok "the watch is on"; else not_ok "the watch is on" "it is not"; fi
clean "no mistake" caches none
caches none | grep -q '^0 of' && ok "the result is right" || not_ok "the result is right" "$(caches none)"
caches --list >/tmp/mistakes
while read -r name kind; do mistake "$name" "$kind"; done </tmp/mistakes
for net in "$@"; do clean "$(basename "$net")" bmrt_test --bmodel "$net"; done
clean "npu-smi" npu-smi
# What it shows is what the driver has counted.
columns=$(npu-smi --query=cache.uncleaned,cache.stale,cache.overwritten,cache.discarded --no-head | tr , ' ')
counted=$(head -n 1 "$watch" | tr ' ' '\n' | grep -E '^(uncleaned|stale|overwritten|discarded)=' | cut -d= -f2 | xargs)
[ -n "$counted" ] && [ "$columns" = "$counted" ] && ok "npu-smi shows the counters: $columns" ||
	not_ok "npu-smi shows the counters" "it says $columns, the driver $counted"
clean "no mistake, after all of them" caches none

events=/sys/kernel/tracing
workloads=$(dirname "$(command -v npu-smi)")/tests/guest/workloads
model=${1:-}
mount -t tracefs none $events 2>/dev/null
echo 16384 >$events/buffer_size_kb
# What the counter sees: a copy to the device, and one back.
costs s2d 4096
costs d2s 4096
costs clean-1m 1048576
# The inputs of a launch are where the NPU, or a copy, has put them; commands and fences are past the caches.
costs submit 0
[ -z "$model" ] || costs launch 0
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
