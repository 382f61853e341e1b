#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The runtime's tests inside the emulated board, over the driver: the programs that pass over the simulator on the host.
# Prints "N passed, N failed" at the end. Needs the board's programs on PATH.

here=$(dirname "$(readlink -f "$0")")
bin=$(dirname "$(command -v npu-smi)")
export NPU_DEVICE=drm
passed=0
failed=0

# run COMMAND...: a GoogleTest or cmocka program.
run() {
	echo "== $*"
	timeout 600 "$@" >/tmp/runtime.log 2>&1
	status=$?
	p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' /tmp/runtime.log | tail -n 1)
	f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' /tmp/runtime.log | tail -n 1)
	p=${p:-0} f=${f:-0}
	[ "$f" -gt 0 ] || [ $status -eq 0 ] || f=1
	[ $((p + f)) -gt 0 ] || f=1
	[ "$f" -eq 0 ] || cat /tmp/runtime.log
	passed=$((passed + p))
	failed=$((failed + f))
}

# Two cards: run.sh.
run "$bin/npu_runtime_test" --gtest_filter='-TwoCards*'
run env NPU_CACHE=strict "$bin/npu_runtime_test" --gtest_filter='LaunchTest*:LoadTest*'
run "$bin/npu_upload_test"
# With a compiler in them.
if [ -e "$bin/npuc" ]; then
	run env NPU_TEST_PLUGIN_FILE="$bin/../lib/libnpu_test_plugin.so" "$bin/npu_shapes_test"
	run "$bin/npu_quant_test"
else
	echo "== npu_shapes_test and npu_quant_test are for boards with the compiler"
	# What passes on the host, on the board's processor.
	run "$bin/npu_bmodel_test"
	run "$bin/npu_cpu_test"
fi
run "$bin/npu_bmrt_test_test"
run "$here/smi.sh" "$bin"
"$bin/bmodel_seeds" /tmp/seeds >/dev/null || failed=$((failed + 1))
run "$bin/npu_runtime_c_test" /tmp/seeds/sample.bmodel
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
