#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What the driver's KUnit suites said when the module was loaded. Prints a line like cmocka's.

passed=0
failed=0
suites="qnpu_mmu qnpu_ring qnpu_submit qnpu_job"
[ -z "$NPU_WATCH_KO" ] || suites="$suites qnpu_watch"
for suite in $suites; do
	results=/sys/kernel/debug/kunit/$suite/results
	if [ -e "$results" ]; then
		cat "$results"
		passed=$((passed + $(grep -c '^ \+ok ' "$results")))
		failed=$((failed + $(grep -c '^ \+not ok ' "$results")))
		grep -q '^ok ' "$results" || grep -q '^ \+not ok ' "$results" || failed=$((failed + 1))
	else
		echo "suite $suite has not run"
		failed=$((failed + 1))
	fi
done
echo "[  PASSED  ] $passed test(s)."
[ $failed -eq 0 ] || echo "[  FAILED  ] $failed test(s)"
[ $failed -eq 0 ]
