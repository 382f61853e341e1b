#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs the driver's tests inside the emulated board, and prints "N passed, N failed" at the end.
#
#   run.sh           everything, as often as it takes to find leaks and races
#   run.sh --debug   everything, a few times each, and a part of the failing allocations, for the debug kernel, which
#                    makes them ten to twenty times as
#                    long; --debug-use: the half that uses the card, --debug-break: the half that breaks it
#   run.sh --quick   everything, a few times each; --quick-dma: of that what depends on how the card reaches memory;
#                    --quick-soc: of that what is not the same on every board
#   run.sh --brief   everything, as little of it as makes sense, for boards on which it runs again and again
#   run.sh NAME...   only these tests
#
# Before these: --exact for what the check runs on exact boards (docs/explanation/exact.md), --host for the rest.
#
# With NPU_TESTS=PATTERN only the tests with such names run in those programs of the driver's that have any (* and ?);
# with NPU_ROUNDS=N each program runs so often, or until it fails.
#
# Some tests break the card or let the board sleep: they need npu-vm --control --sleep.
# Needs root, the module loaded or its path in $NPU_KO, the board's programs on PATH, and tests/guest beside them.

here=$(dirname "$(readlink -f "$0")")
bin=${NPU_GUEST_TESTS:-$(dirname "$(command -v npu-smi)")/tests/guest}
passed=0
failed=0
kills=200 buffers=10000 removals=25 plugs=5 loads=50 unwinds=300 evictions=2 reuses=40 spots=1 seals=2000 fuzz=60 \
    classes=200 contexts=10000 fails=1 flood=4096
ways="uring threads" launches=2000 tables=yes
half= now=use third= part= without=
soc=$(find /sys/bus/platform/devices/ -name '*.npu')
# Where nothing can be late, and the host has little to compute; docs/develop/testing.md has the others' reasons.
exact="device uapi_examples observe buffers jobs submit_args fences uring syncfile priority gang faults watchdog"
exact="$exact fairness isolation prime userptr compat tables attack bugclass recovery coredump reset hotplug suspend"
exact="$exact modules"
case ${1:-} in
--exact | --host) part=${1#--} && shift ;;
esac
case ${1:-} in
--debug-*) half=${1#--debug-} && shift && set -- --debug "$@" ;;
esac
case $half in
"" | use | break) ;;
*) echo "run.sh: --debug-$half: neither --debug-use nor --debug-break" >&2 && exit 2 ;;
esac
case ${1:-} in
--quick-soc)
	shift
	# These are about queues, fences and times, which no bus and no cache changes.
	without=" uapi_examples fences uring syncfile priority gang watchdog long_commands fairness tables quota "
	without="$without stress bugclass "
	set -- --quick "$@"
	;;
--quick-dma)
	shift
	set -- --quick device buffers jobs submit_args faults isolation eviction prime userptr compat memory_reuse \
		kill uring hotplug removal modules \
		libnpu-bo libnpu-copy libnpu-bm_memory libnpu-async_card-uring
	;;
esac
case ${1:-} in
--quick) kills=20 buffers=1000 removals=5 plugs=1 loads=5 evictions=1 reuses=12 seals=400 fuzz=8 classes=40 \
    contexts=500 && shift ;;
--brief)
	kills=5 buffers=400 removals=2 plugs=1 loads=1 unwinds=10 evictions=1 reuses=3 spots=16 seals=50 fuzz=2
	classes=10 contexts=50 fails=20 flood=512 launches=64
	shift
	;;
--debug)
	kills=20 buffers=1000 removals=3 plugs=1 loads=3 unwinds=60 evictions=1 reuses=6 spots=16 seals=200 fuzz=12 \
		classes=20 contexts=100 fails=20 flood=512
	ways=uring launches=100 tables=
	shift
	;;
esac
wanted=" $* "
# A check runs a third of the library's groups on the debug kernel, another one with each commit; on Debian's kernel
# all.
[ -z "$half" ] || third=$((${NPU_TENTH:-0} % 3))
skipped=0

# Is a suite for exact boards?
is_exact() {
	case $1 in
	libnpu-threads) false ;;
	libnpu-*) true ;;
	*) case " $exact " in *" $1 "*) ;; *) false ;; esac ;;
	esac
}

# run NAME COMMAND...: a cmocka or GoogleTest program, or a script that prints the same lines at its end.
run() {
	[ "${half:-$now}" = "$now" ] || return
	case $wanted in "  ") case $without in *" $1 "*) return ;; esac ;; *" $1 "*) ;; *) return ;; esac
	case $part in
	exact) is_exact "$1" || return ;;
	host) ! is_exact "$1" || return ;;
	esac
	failed_before=$failed
	for round in $(seq "${NPU_ROUNDS:-1}"); do
		run_once "$@"
		[ $failed -eq $failed_before ] || break
	done
}

# On a SoC: the cache watch has nothing to report of what our programs, libraries and driver do, but where a suite is
# about mistakes. Memory of nobody is that of an exporter like udmabuf, which begins without a look at caches.
forget_reports() { for file in /sys/kernel/debug/accel/*/cache_watch; do [ ! -e "$file" ] || echo 0 >"$file"; done; }
reports() {
	case $name in
	# The second one writes commands while they run, the third one does what comes to its mind.
	coherency | libnpu-fault | fuzz) return 1 ;;
	esac
	grep -h '^kind=' /sys/kernel/debug/accel/*/cache_watch 2>/dev/null | grep -v ' place=unknown '
}

run_once() {
	name=$1
	shift
	echo "== $name"
	[ -z "$soc" ] || forget_reports
	begun=$(date +%s)
	timeout 5400 "$@" >/tmp/npu-test.log 2>&1
	status=$?
	cat /tmp/npu-test.log
	echo "== $name took $(($(date +%s) - begun)) s"
	p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' /tmp/npu-test.log | tail -n 1)
	f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' /tmp/npu-test.log | tail -n 1)
	p=${p:-0} f=${f:-0}
	# A program that dies, hangs or runs nothing has failed, whatever it printed before.
	[ "$f" -gt 0 ] || [ $status -eq 0 ] || f=1
	[ $((p + f)) -gt 0 ] || f=1
	if [ -n "$soc" ] && reports >/tmp/npu-reports; then
		echo "the cache watch has $(wc -l </tmp/npu-reports) reports:" && head -n 5 /tmp/npu-reports
		f=$((f + 1))
	fi
	passed=$((passed + p))
	failed=$((failed + f))
	[ "$f" -eq 0 ] || echo "FAILED: $name (status $status)"
}

of_this_third() {
	skipped=$((skipped + 1))
	[ -z "$third" ] || [ $((skipped % 3)) -eq "$third" ]
}

run device "$bin/device"
run uapi_examples "$bin/uapi_examples"
run observe "$bin/observe"
run buffers "$bin/buffers"
run jobs "$bin/jobs"
run submit_args "$bin/submit_args"
run fences "$bin/fences"
run uring "$bin/uring" $flood
run syncfile "$bin/syncfile"
run priority "$bin/priority"
run gang "$bin/gang"
run faults "$bin/faults"
run watchdog "$bin/watchdog"
run long_commands "$bin/long_commands"
run fairness "$bin/fairness"
run isolation "$bin/isolation"
if [ -z "$soc" ]; then
	run eviction "$bin/eviction" $evictions $spots
else
	echo "== eviction is for a card with memory"
fi
run prime "$bin/prime"
run userptr "$bin/userptr"
# busybox would take a program that the kernel does not execute for a script.
if bash -c 'exec "$0" --bits' "$bin/compat" 2>&1 | grep -q 'Exec format error'; then
	echo "== compat: this kernel runs no 32-bit programs"
else
	run compat "$bin/compat"
fi
if [ -n "$soc" ]; then
	run coherency "$bin/coherency"
else
	echo "== coherency is for a SoC: npu-vm --board soc (check.sh soc)"
fi
run quota "$bin/quota"
# Tens of thousands of buffers, one after another.
[ -z "$tables" ] || run tables env NPU_DEVICE=drm "$bin/tables"
run memory_reuse "$bin/memory_reuse" $reuses
run kill "$bin/kill" $kills
run stress "$bin/stress" $buffers
# The library: the program that passes over the simulator on the host passes over the driver.
for group in device bo job fault copy threads process bm_memory bm_cache bm_launch bm_wide bm_sensor bm_not_supported \
	cache; do
	of_this_third || continue
	run libnpu-$group env NPU_DEVICE=drm "$bin/../../npu_libnpu_test" $group
done
# And with a cache that only flush and invalidate keep coherent.
for group in cache bo copy bm_memory; do
	of_this_third || continue
	run libnpu-$group-strict env NPU_DEVICE=drm NPU_CACHE=strict "$bin/../../npu_libnpu_test" $group
done
# Asynchronous launches both ways; neither falls back. On the debug kernel by rings only: threads make the calls that
# the rest of the library makes.
for way in $ways; do
	[ $way = uring ] || launches=$((launches / 4))
	for group in async async_fork async_coroutine async_card; do
		run libnpu-$group-$way env NPU_DEVICE=drm NPU_ASYNC=$way NPU_ASYNC_LAUNCHES=$launches \
			"$bin/../../npu_libnpu_test" $group
	done
done
now=break
run attack "$bin/attack" $contexts
run bugclass "$bin/bugclass" $classes
run fuzz "$bin/fuzz" $fuzz
run recovery "$bin/recovery"
run coredump "$bin/coredump"
# Asks for the board that check.sh has for it: every other test is about one card. Nodes do not tell how many there are:
# one card's is accel1 if something held the old node when the driver was bound again.
if [ "$(find /sys/bus/pci/drivers/npu/ -type l -name '*:*:*' | wc -l)" -gt 1 ]; then
	run two_cards "$bin/two_cards" $seals
	run runtime_two_cards env NPU_DEVICE=drm "$bin/../../npu_runtime_test" --gtest_filter='TwoCards*'
else
	echo "== two_cards and runtime_two_cards are for a board with two: npu-vm --cards 2 (check.sh cards)"
fi
run reset "$bin/reset"
run hotplug "$bin/hotplug" $plugs
run removal "$bin/removal" $removals
# Elsewhere the board's own devices do not come back.
if [ -n "${NPU_SLEEP:-}" ]; then
	run suspend "$bin/suspend"
else
	echo "== suspend needs npu-vm --sleep"
fi
# Allocations can only be made to fail by a kernel that is built for it.
if [ -d /sys/kernel/debug/failslab ]; then
	run unwind "$bin/unwind" $unwinds
	run fail_nth "$bin/fail_nth" $fails
else
	echo "== unwind and fail_nth are for the debug kernel"
fi
# Built into the module where the kernel can run them.
if [ -d /sys/kernel/debug/kunit ]; then
	run kunit "$here/driver/kunit.sh"
else
	echo "== kunit is for the debug kernel"
fi
run modules "$here/driver/modules.sh" $loads

# A warning of the kernel is a failure, even if every test was content.
if dmesg | grep -E 'WARNING:|BUG:|KASAN|possible circular|INFO: task .* blocked' >/tmp/npu-splat; then
	cat /tmp/npu-splat
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
