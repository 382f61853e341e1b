#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of tools/npu-vm: what goes in and comes out, and that a sick or silent board is noticed.
#
#   test_npu_vm.sh           the launcher itself, then with the NPU and its driver, on the stock kernel
#   test_npu_vm.sh launcher  only the launcher
#   test_npu_vm.sh card      only with the NPU and its driver
#   test_npu_vm.sh debug     what only the debug kernel notices
#
# Needs QEMU, the kernel and (card) the module. Ends with "N passed, N failed".

NPU_STEP=test-npu-vm
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"
set +e

VM=$NPU_TOP/tools/npu-vm
HERE=$NPU_TOP/tests/env
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
passed=0
failed=0

# check NAME CONDITION...: one test; on failure shows what the last board said.
check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
        echo "# was: $*"
        { echo "status $STATUS; stdout:"; head -c 1000 "$WORK/out"; echo; echo "stderr:"; head -c 4000 "$WORK/err"; } |
            sed 's/^/# /'
    fi
}

# board OPTION... -- COMMAND...: runs it with output in $WORK/out, $WORK/err and status in STATUS.
board() {
    "$VM" --console "$WORK/console" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    STATUS=$?
}

# A board without card and driver: tests of the launcher alone.
bare() { board --no-module --cards 0 "$@"; }

is() { [ "$1" = "$2" ]; }
says() { grep -qE -- "$1" "$WORK/err"; }
prints() { grep -qE -- "$1" "$WORK/out"; }
# The board failed, as opposed to the command, and says why.
fails() { is "$STATUS" 125 && says "^npu-vm: $1"; }
not() { ! "$@"; }

build_sick() {
    local env
    env=$("$NPU_TOP/scripts/kernel-$1.sh" --env) || return 1
    mkdir -p "$WORK/sick"
    cp "$HERE"/sick/* "$WORK/sick/"
    # shellcheck source=/dev/null
    (. "$env" && PATH=$PATH:/usr/sbin:/sbin make -C "$KDIR" M="$WORK/sick" modules) >"$WORK/sick.log" 2>&1 ||
        { cat "$WORK/sick.log" >&2; die "tests/env/sick does not build"; }
}

# --- bytes, status, environment ----------------------------------------------------------------------

test_streams() {
    cat >"$WORK/expected" < <(printf 'a\r\nb\nc\r\0\001\377 no newline')
    bare -- sh -c 'printf "a\r\nb\nc\r\0\001\377 no newline"; echo to-stderr >&2; exit 7'
    check "the command's status is passed through" is "$STATUS" 7
    check "stdout arrives byte for byte" cmp -s "$WORK/expected" "$WORK/out"
    check "stderr arrives apart from stdout" is "$(cat "$WORK/err")" to-stderr
    check "the console has a log of its own" grep -q 'Linux version' "$WORK/console"
}

test_arguments() {
    bare --smp 3 --memory 1G --env 'GREETING=a b  "c"' -- sh -c 'printf "%s|" "$@" "$GREETING"; nproc; pwd; free -m | head -2 | tail -1
        echo > /dev/stdout; type python3; echo $PATH' sh 'one two' "it's" '$HOME' ''
    check "arguments and variables arrive unchanged" prints '^one two\|it.s\|\$HOME\|\|a b  "c"\|3$'
    check "--memory is the board's memory" awk '/^Mem:/ { ok = $2 > 700 && $2 <= 1024 } END { exit !ok }' "$WORK/out"
    check "the build's programs come first on PATH" prints "^$NPU_BUILD/bin:"
    check "programs of the host are there" prints '/usr/bin/python3'
    bare -- no-such-program
    check "an unknown program is the shell's status 127" is "$STATUS" 127
}

test_large_output() {
    bare -- sh -c 'seq 1 2000000'
    check "a large output arrives whole" is "$(sha256sum <"$WORK/out")" "$(seq 1 2000000 | sha256sum)"
}

test_share() {
    local folder="$WORK/a folder, with comma"
    mkdir "$folder"
    echo from-host >"$folder/in"
    bare --share "$folder" -- sh -c 'pwd; cat in; echo from-guest > out; mkdir deep; head -c 3000000 /dev/urandom > deep/big; sha256sum < deep/big'
    check "the command starts in the shared folder" prints '^/mnt/share$'
    check "the guest reads what the host wrote" prints '^from-host$'
    check "the host reads what the guest wrote" is "$(cat "$folder/out")" from-guest
    check "large files come back whole" prints "^$(sha256sum <"$folder/deep/big")$"
    bare -- touch "$NPU_TOP/written-by-guest" /usr/written-by-guest
    check "checkout and /usr are read-only" is "$STATUS-$(grep -c 'Read-only file system' "$WORK/err")" 1-2
    bare --share "$WORK/absent" -- true
    check "a folder that is not there is named" fails '.*absent: there is no such folder'
}

test_interactive() {
    printf 'tty; stty size | wc -w; exit 5\n' | "$VM" --no-module --cards 0 --interactive --timeout 120 >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "a shell on a terminal passes its status on" is "$STATUS" 5
    check "a shell on a terminal has a terminal" prints '^/dev/hvc0'
}

test_leftovers() {
    bare --timeout 100 -- sh -c 'sleep 1000 & setsid sleep 1000 & echo done'
    check "processes that are left behind do not hold the board" is "$STATUS-$(cat "$WORK/out")" 0-done
}

test_qmp() {
    "$VM" --no-module --cards 0 --qmp "$WORK/qmp" --timeout 100 -- sh -c 'echo up; sleep 1000' >"$WORK/out" 2>"$WORK/err" &
    local vm=$! tries=0
    until grep -q up "$WORK/out" || [ $tries -gt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
    "$NPU_PYTHON" - "$WORK/qmp" >"$WORK/answer" <<'PY'
import socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
stream = link.makefile("rw")
for line in ('{"execute":"qmp_capabilities"}', '{"execute":"query-status"}'):
    stream.readline()
    stream.write(line)
    stream.flush()
print(stream.readline())
PY
    check "QMP answers on the socket" grep -q running "$WORK/answer"
    kill -TERM "$vm"
    wait "$vm"
    STATUS=$?
    check "SIGTERM ends npu-vm" is "$STATUS" 143
    check "no QEMU is left behind" not pgrep -f "unix:$WORK/qmp"
}

test_control() {
    bare --control -- sh -c 'exec 3<>$NPU_MACHINE; for c in query-status no-such-command query-name; do echo "{\"execute\": \"$c\"}" >&3; read -r answer <&3; echo "$answer"; done; echo nonsense >&3; head -n 1 <&3'
    check "the command controls the machine" prints '"status": "running"'
    check "what QEMU refuses is answered, too" prints '"class": "CommandNotFound"'
    check "a line that is no JSON is answered" prints 'this is not a line of JSON'
    check "each line has one answer" is "$(wc -l <"$WORK/out")" 4
}

test_sleep() {
    bare --sleep -- sh -c 'echo devices >/sys/power/pm_test; echo 0 >/sys/module/suspend/parameters/pm_test_delay
        echo mem >/sys/power/state && cat /usr/share/common-licenses/GPL-2 >/dev/null && echo "awake with $NPU_SLEEP"'
    check "a board's folders and ports survive sleep" prints 'awake with 1'
}

# --- sick boards -----------------------------------------------------------------------------------

# sick KERNEL KIND PATTERN NAME: the module makes the kernel sick, the command itself ends well.
sick() {
    bare --kernel "$1" --share "$WORK/sick" -- insmod sick.ko kind="$2"
    check "$4 is an error with its reason" fails "the kernel reported: .*$3"
    check "$4: the console is shown and kept" grep -qE "$3" "$WORK/console"
}

test_sickness_stock() {
    build_sick stock || die "the stock kernel is not there; run: make kernel-stock"
    bare --share "$WORK/sick" -- insmod sick.ko kind=nothing
    check "a module that does nothing wrong is fine" is "$STATUS" 0
    sick stock warn 'WARNING: ' "a warning"
    sick stock oops '(BUG: |Oops)' "an oops"
}

test_panic() {
    bare -- sh -c 'echo before; echo c > /proc/sysrq-trigger; sleep 1000'
    check "a panic is an error with its reason" fails 'the kernel reported: .*sysrq triggered crash'
    check "a panic: output before it is there" prints '^before$'
}

test_hang() {
    bare --timeout 10 -- sh -c 'echo before; sleep 1000'
    check "a hang is an error with its limit" fails 'the command did not end within 10 s'
    check "a hang: output before it is there" prints '^before$'
    bare --timeout 200 -- poweroff -f
    check "a board that switches itself off is an error" fails 'QEMU ended with status 0 before the command did'
}

test_usage() {
    NPU_BUILD=$WORK/nothing board -- true
    check "a missing driver is an error with the target that builds it" fails '.*npu.ko is missing; run: make module$'
    "$VM" --kernel other -- true >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "a wrong option is a usage error" is "$STATUS" 2
    "$VM" >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "no command is a usage error" is "$STATUS" 2
    bare --module no_such_module -- true
    check "an unknown module is named" fails '.*no module no_such_module'
    bare --qemu-arg -no-such-option -- true
    check "what QEMU complains about is told" fails 'QEMU ended.*no-such-option'
}

test_iommu() {
    bare --iommu -- sh -c 'ls /sys/kernel/iommu_groups | wc -l; ls /sys/class/iommu'
    check "--iommu puts devices behind an IOMMU" prints '^dmar'
}

# --- groups ----------------------------------------------------------------------------------------

group_launcher() {
    STATUS=0
    "$NPU_PYTHON" "$HERE/test_console.py" >"$WORK/out" 2>"$WORK/err"
    check "the console reader tells sick from healthy" is $? 0
    test_usage
    test_streams
    test_arguments
    test_large_output
    test_share
    test_interactive
    test_leftovers
    test_qmp
    test_control
    test_sleep
    test_iommu
    test_panic
    test_hang
    test_sickness_stock
}

group_debug() {
    build_sick debug || die "the debug kernel is not there; run: make kernel-debug"
    bare --kernel debug --kmemleak --share "$WORK/sick" -- insmod sick.ko kind=nothing
    check "the debug kernel has nothing to complain about by itself" is "$STATUS" 0
    sick debug use-after-free 'BUG: KASAN: slab-use-after-free' "a use after free"
    sick debug lock-order 'WARNING: possible circular locking' "a lock inversion"
    sick debug sleep-in-atomic 'BUG: sleeping function' "sleeping under a spinlock"
    bare --kernel debug --kmemleak --share "$WORK/sick" -- insmod sick.ko kind=leak
    check "a leak is an error" fails 'the kernel reported: .*kmemleak: 1 new suspected'
    check "a leak: the console has its stack" grep -q 'sick_leak' "$WORK/console"
}

group_card() {
    board -- sh -c 'stat -c %a /dev/accel/accel*; lsmod | grep -c "^npu "; ls -d "$NPU_KO"'
    check "the driver is loaded and its node is open to all" is "$(head -n 2 "$WORK/out" | xargs)" "666 1"
    check "the command can find the module" prints 'npu.ko$'
    board --cards 2 --node-mode 0600 -- sh -c 'stat -c %a /dev/accel/accel*'
    check "--cards and --node-mode do what they say" is "$(xargs <"$WORK/out")" "600 600"
    board --no-module -- sh -c 'ls /dev/accel; insmod "$NPU_KO" && sleep 1 && ls /dev/accel'
    check "--no-module leaves the module to the command" is "$(xargs <"$WORK/out")" accel0
    board --device nonsense=1 -- true
    check "an unknown property of the card is told" fails 'QEMU ended.*nonsense'
    board --module-args nonsense_parameter=1 -- true
    check "parameters reach the module" grep -q "unknown parameter 'nonsense_parameter'" "$WORK/console"
    board -- sh -c 'setsid sleep 1000 </dev/accel/accel0 & sleep 0.5; echo held'
    check "an open node of a left process does not keep the module" is "$STATUS-$(cat "$WORK/out")" 0-held
}

main() {
    case ${1:-all} in
        all) group_launcher; group_card ;;
        launcher | debug | card) "group_$1" ;;
        *) die "unknown group '$1'" "known: launcher, card, debug" ;;
    esac
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

main "$@"
