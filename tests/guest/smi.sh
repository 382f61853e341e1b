#!/bin/sh
# SPDX-License-Identifier: MIT
#
# smi.sh BIN: npu-smi beside a program that uses the card, on a card that is reset, and on one that goes away. Prints
# lines as cmocka's programs do.

bin=$1
here=$(dirname "$(readlink -f "$0")")
out=/tmp/smi
passed=0
failed=0
mkdir -p $out
export NPU_DEVICE=drm

# is NAME COMMAND...: one test.
is() {
	name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "[  FAILED  ] $name"
		find $out -maxdepth 1 -type f -exec tail -n 20 {} +
	fi
}

# has FILE PATTERN
has() { grep -Eq "$2" $out/"$1"; }

# ends STATUS COMMAND...
ends() {
	wanted=$1
	shift
	timeout 300 "$@" >$out/last 2>&1
	[ $? -eq "$wanted" ]
}

"$bin/bmodel_seeds" $out/seeds >$out/seeds.log || exit 1
model=$out/seeds/sample.bmodel

# One process that outlives both: pmon tells a process's share from two looks at it.
"$bin/bmrt_test" --bmodel $model --loopnum 1000000000 >/dev/null 2>&1 &
user=$!
"$bin/npu-smi" dmon --count=5 >$out/dmon 2>&1
"$bin/npu-smi" pmon --count=5 >$out/pmon 2>&1
"$bin/npu-smi" exporter >$out/exporter 2>&1
"$bin/npu-smi" --json >$out/json 2>&1
"$bin/npu-smi" >$out/table 2>&1
# The process is hidden, and not denied: another user, another PID namespace, no /proc at all.
other="/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups"
$other "$bin/npu-smi" >$out/other-user 2>&1
$other "$bin/npu-smi" --json >$out/other-user.json 2>&1
/usr/bin/unshare --pid --fork --mount-proc "$bin/npu-smi" >$out/namespace 2>&1
/usr/bin/unshare --mount sh -c "mount -t tmpfs none /proc && exec '$bin/npu-smi'" >$out/no-proc 2>&1
is "the program still runs" kill $user
wait $user
is "dmon sees jobs" has dmon '^ +0 .* [1-9][0-9]*$'
is "pmon sees the process, its jobs and busy time" has pmon \
    '^ +0 +[0-9]+ .* [1-9][0-9]* +[0-9.]*[1-9][0-9.]* +[0-9.]+  bmrt_test'
is "the exporter sees cores at work" has exporter '^npu_core_busy_seconds_total\{card="0",.*\} [0-9.]*[1-9]'
is "and whose process that is" has exporter \
    '^npu_process_jobs_total\{card="0",.*,process="bmrt_test",user="[^"]+"\} [1-9]'
is "JSON has the process with its arguments" has json '"arguments":"[^"]*bmrt_test --bmodel [^"]* --loopnum 1000000000"'
is "and utilisation is known" has json '"utilisation":[0-9]+,"core_utilisation":\[[0-9]+,[0-9]+\]'
if [ -e /sys/class/accel/accel0/device/reset ]; then
	is "a card is called one" has table '^card 0: driver qnpu 1\.'
	is "and has memory" has json '"memory_total":[1-9]'
else
	is "a block of a SoC is not called a card" has table '^NPU 0: driver qnpu 1\.'
	is "and has no memory of its own" has json '"memory_total":null'
fi
for who in other-user namespace no-proc; do
	is "$who: the process is not visible" has $who '1 open file is not visible to you'
done
is "and null in JSON" has other-user.json '"hidden_files":1,"processes":null'
is "root sees it" sh -c "! grep -q 'not visible' $out/table"
is "pmon does not list itself" sh -c "! grep -q npu-smi $out/pmon"

# On the terminal that the board has: TERM=linux.
is "live fills a terminal of the board" ends 0 env NPU_TEST_TERM=linux /usr/bin/python3 \
    "$here/../unit/libnpu/smi_live_test.py" "$bin/npu-smi"

chmod 755 $out
is "anybody may look" ends 0 /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/npu-smi" -q
if [ -e /sys/class/accel/accel0/device/reset ]; then
	is "only root may reset" ends 1 /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups \
	    "$bin/npu-smi" --reset -i 0
	is "the reason is told" has last 'reset: Permission denied'
	is "root may reset" ends 0 "$bin/npu-smi" --reset -i 0
else
	is "nobody resets a block of a SoC" ends 1 "$bin/npu-smi" --reset -i 0
fi
is "the card works afterwards" ends 0 "$bin/bmrt_test" --bmodel $model

device=$(basename "$(readlink -f /sys/class/accel/accel0/device)")
driver=$(readlink -f /sys/class/accel/accel0/device/driver)
(
	timeout 300 env -u NPU_DEVICE "$bin/npu-smi" dmon
	echo "status $?"
) >$out/vanish 2>&1 &
user=$!
# Nothing in the environment chooses the driver: the view must not go on with a card of the simulator.
(
	timeout 300 env -u NPU_DEVICE TERM=linux /usr/bin/script -qec "$bin/npu-smi live" /dev/null </dev/null
	echo "status $?"
) >$out/live 2>&1 &
live=$!
# Nor must any other program be given one.
timeout 300 env -u NPU_DEVICE /usr/bin/python3 -c '
import ctypes, os, sys, time
npu = ctypes.CDLL(sys.argv[1])
print("before", npu.npu_device_count(), flush=True)
while os.path.exists("/dev/accel/accel0"):
    time.sleep(0.05)
print("after", npu.npu_device_count())
' "$bin/../lib/libnpu.so" >$out/count 2>&1 &
count=$!
until { has live QNPU1 && [ -s $out/vanish ] && has count before; } || ! kill -0 $live; do sleep 0.1; done
echo "$device" >"$driver"/unbind
wait $user
wait $live
wait $count
is "no simulated card takes its place" [ "$(xargs <$out/count)" = "before 1 after 0" ]
is "live ends, too" has live 'status 1'
is "and says why" has live 'npu-smi: '
is "a machine without a card shows none" ends 1 env -u NPU_DEVICE "$bin/npu-smi"
is "a card that goes away ends it" has vanish '^status 1$'
is "and it says so" has vanish '^npu-smi: '
echo "$device" >"$driver"/bind
is "and it is there again" ends 0 "$bin/npu-smi"

rm -rf $out
[ $failed -eq 0 ] || echo "[  FAILED  ] $failed test(s), listed above"
echo "[  PASSED  ] $passed test(s)."
[ $failed -eq 0 ]
