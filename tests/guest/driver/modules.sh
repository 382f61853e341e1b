#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Loads and unloads the module, binds and unbinds the card, and looks whether it works afterwards.
#
#   modules.sh [ROUNDS]
#
# Prints the same closing line as the other tests.

rounds=${1:-50}
bin=${NPU_GUEST_TESTS:-$(dirname "$(command -v npu-smi)")/tests/guest}
ko=${NPU_KO:?}
passed=0
failed=0

check() {
	if "$@" >/tmp/npu-modules.log 2>&1; then
		passed=$((passed + 1))
	else
		cat /tmp/npu-modules.log
		echo "FAILED: $*"
		failed=$((failed + 1))
	fi
}

# The first device that the driver is bound to, and its driver: of whatever bus they are.
card() { readlink -f /sys/class/accel/accel0/device; }
driver() { readlink -f /sys/class/accel/accel0/device/driver; }
works() { "$bin/device"; }

# The kernel's messages after this line are those of a load: test_device.c looks at them.
mark() { echo "npu-test: load" >/dev/kmsg; }

# The module of the cache watch, where there is one, uses the driver.
unload_watch() { ! grep -q '^qnpu_watch ' /proc/modules || rmmod qnpu_watch; }
load_watch() { [ -z "$NPU_WATCH_KO" ] || insmod "$NPU_WATCH_KO"; }

watch_comes_and_goes() {
	i=0
	while [ $i -lt "$rounds" ]; do
		unload_watch && load_watch || return 1
		[ -z "$NPU_WATCH_KO" ] || grep -q enabled=1 /sys/kernel/debug/accel/*/cache_watch || return 1
		i=$((i + 1))
	done
	works
}

# A file that is open holds the module.
busy_while_open() {
	exec 5</dev/accel/accel0
	rmmod qnpu 2>/dev/null && return 1
	exec 5<&-
	works
}

load_and_unload() {
	i=0
	while [ $i -lt "$rounds" ]; do
		rmmod qnpu || return 1
		[ ! -e /dev/accel/accel0 ] || return 1
		mark
		insmod "$ko" job_limit_ms=600000 || return 1
		[ -e /dev/accel/accel0 ] || return 1
		i=$((i + 1))
	done
	works
}

bind_and_unbind() {
	address=$(basename "$(card)")
	driver=$(driver)
	i=0
	while [ $i -lt "$rounds" ]; do
		echo "$address" >"$driver"/unbind || return 1
		[ ! -e /dev/accel/accel0 ] || return 1
		mark
		echo "$address" >"$driver"/bind || return 1
		[ -e /dev/accel/accel0 ] || return 1
		i=$((i + 1))
	done
	works
}

remove_and_rescan() {
	echo 1 >"$(card)/remove" || return 1
	[ ! -e /dev/accel/accel0 ] || return 1
	mark
	echo 1 >/sys/bus/pci/rescan || return 1
	[ -e /dev/accel/accel0 ] || return 1
	works
}

check watch_comes_and_goes
check unload_watch
check load_and_unload
check busy_while_open
check load_watch
check bind_and_unbind
if [ -e "$(card)/remove" ]; then
	check remove_and_rescan
else
	echo "== modules: remove_and_rescan is for a card"
fi

if [ $failed -gt 0 ]; then
	echo "[  FAILED  ] $failed test(s)"
fi
echo "[  PASSED  ] $passed test(s)"
[ $failed -eq 0 ]
