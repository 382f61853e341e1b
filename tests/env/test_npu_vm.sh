#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of tools/npu-vm: what goes in and comes out, and that a sick or silent board is noticed.
#
#   test_npu_vm.sh           all of these
#   test_npu_vm.sh launcher  only the launcher
#   test_npu_vm.sh card      only with the NPU and its driver
#   test_npu_vm.sh virt      only what is different on a board with another processor
#   test_npu_vm.sh debug     that what only the debug kernel notices (KASAN, lockdep, kmemleak) fails a board
#
# Needs QEMU, the kernels, (card, virt) the modules and (virt) the arm64 programs. Ends with "N passed, N failed".

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

# What one board can show is shown by one: a boot takes as long as all the rest.
test_streams() {
    { printf 'a\r\nb\nc\r\0\001\377'; seq 1 2000000; printf 'no newline'; } >"$WORK/expected"
    bare -- sh -c 'printf "a\r\nb\nc\r\0\001\377"; seq 1 2000000; printf "no newline"; echo to-stderr >&2; exit 7'
    check "the command's status is passed through" is "$STATUS" 7
    check "stdout arrives byte for byte, and whole" cmp -s "$WORK/expected" "$WORK/out"
    check "stderr arrives apart from stdout" is "$(cat "$WORK/err")" to-stderr
    check "the console has a log of its own" grep -q 'Linux version' "$WORK/console"
}

# Arguments, variables, memory, folders, machine control, sleep, and processes that are left behind.
test_command() {
    local folder="$WORK/a folder, with comma"
    mkdir "$folder"
    echo from-host >"$folder/in"
    cp "$WORK/sick/sick.ko" "$folder"
    cat >"$folder/script" <<'SH'
printf "%s|" "$@" "$GREETING"; nproc; pwd; free -m | head -2 | tail -1
type python3; echo "$PATH"
cat in; echo from-guest >out; mkdir deep; head -c 3000000 /dev/urandom >deep/big; sha256sum <deep/big
touch "$TOP/written-by-guest" /usr/written-by-guest
insmod sick.ko kind=nothing && echo healthy
exec 3<>"$NPU_MACHINE"
for c in query-status no-such-command query-name; do
    echo "{\"execute\": \"$c\"}" >&3; read -r answer <&3; echo "answer $answer"
done
echo nonsense >&3; read -r answer <&3; echo "answer $answer"
echo devices >/sys/power/pm_test; echo 0 >/sys/module/suspend/parameters/pm_test_delay
echo mem >/sys/power/state && cat /usr/share/common-licenses/GPL-2 >/dev/null && echo "awake with $NPU_SLEEP"
sleep 1000 &
setsid sleep 1000 &
echo done
SH
    bare --smp 3 --memory 1G --share "$folder" --control --sleep --timeout 300 --env "TOP=$NPU_TOP" --env \
        'GREETING=a b  "c"' -- \
        sh script 'one two' "it's" '$HOME' ''
    check "processes that are left behind do not hold the board" is "$STATUS-$(tail -n 1 "$WORK/out")" 0-done
    check "arguments and variables arrive unchanged" prints '^one two\|it.s\|\$HOME\|\|a b  "c"\|3$'
    check "--memory is the board's memory" awk '/^Mem:/ { ok = $2 > 700 && $2 <= 1024 } END { exit !ok }' "$WORK/out"
    check "the build's programs come first on PATH" prints "^$NPU_BUILD/bin:"
    check "programs of the host are there" prints '/usr/bin/python3'
    check "the command starts in the shared folder" prints '^/mnt/share$'
    check "the guest reads what the host wrote" prints '^from-host$'
    check "the host reads what the guest wrote" is "$(cat "$folder/out")" from-guest
    check "large files come back whole" prints "^$(sha256sum <"$folder/deep/big")$"
    check "checkout and /usr are read-only" is "$(grep -c 'Read-only file system' "$WORK/err")" 2
    check "a module that does nothing wrong is fine" prints '^healthy$'
    check "the command controls the machine" prints '^answer .*"status": "running"'
    check "what QEMU refuses is answered, too" prints '^answer .*"class": "CommandNotFound"'
    check "a line that is no JSON is answered" prints '^answer .*this is not a line of JSON'
    check "each line has one answer" is "$(grep -c '^answer .' "$WORK/out")" 4
    check "a board's folders and ports survive sleep" prints 'awake with 1'
    bare --share "$WORK/absent" -- true
    check "a folder that is not there is named" fails '.*absent: there is no such folder'
}

# See qemu-device/qemu/patches/tcg-stale-code.patch.
test_processors() {
    bare -- "$NPU_BUILD/bin/tests/guest/stale_code" 20000
    check "a processor runs the code that another one has changed" is "$STATUS-$(cat "$WORK/out")" \
        "0-0 of 20000 changes of code were not seen"
}

test_input() {
    seq 1 100000 >"$WORK/in"
    "$VM" --no-module --cards 0 -- sh -c 'sha256sum; cat; echo end' <"$WORK/in" >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "the command reads what npu-vm reads, to its end" is \
        "$(xargs <"$WORK/out")" "$(sha256sum <"$WORK/in" | xargs) end"
    "$VM" --no-module --cards 0 -- echo done >"$WORK/out" 2>"$WORK/err" < <(yes)
    STATUS=$?
    check "a command need not read its input" is "$STATUS-$(cat "$WORK/out")" 0-done
    bare -- cat
    check "no input is its end" is "$STATUS-$(cat "$WORK/out")" 0-
    "$VM" --no-module --cards 0 -- cat >"$WORK/out" 2>"$WORK/err" <&-
    STATUS=$?
    check "a closed input is its end" is "$STATUS-$(cat "$WORK/out" "$WORK/err")" 0-
}

test_interactive() {
    printf 'tty; stty size | wc -w; exit 5\n' | "$VM" --no-module --cards 0 --interactive --timeout 120 >"$WORK/out" \
        2>"$WORK/err"
    STATUS=$?
    check "a shell on a terminal passes its status on" is "$STATUS" 5
    check "a shell on a terminal has a terminal" prints '^/dev/hvc0'
    board --no-module --cards 0 --interactive --timeout 120
    check "a shell without input ends" is "$STATUS-$(grep -c Traceback "$WORK/err")" 0-0
}

test_qmp() {
    "$VM" --no-module --cards 0 --qmp "$WORK/qmp" --timeout 100 -- sh -c 'echo up; sleep 1000' >"$WORK/out" \
        2>"$WORK/err" &
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

# --- sick boards -----------------------------------------------------------------------------------

# sick KERNEL KIND PATTERN NAME: the module makes the kernel sick, the command itself ends well.
sick() {
    bare --kernel "$1" --share "$WORK/sick" -- insmod sick.ko kind="$2"
    check "$4 is an error with its reason" fails "the kernel reported: .*$3"
    check "$4: the console is shown and kept" grep -qE "$3" "$WORK/console"
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
    check "a missing driver is an error with the target that builds it" fails '.*qnpu.ko is missing; run: make module$'
    "$VM" --kernel other -- true >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "a wrong option is a usage error" is "$STATUS" 2
    "$VM" >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "no command is a usage error" is "$STATUS" 2
    board echo hello
    check "a command without -- is a usage error" is "$STATUS" 2
    check "and the right call is shown" says \
        'echo: the command comes after --: npu-vm .OPTION\.\.\.. -- echo hello; see npu-vm --help$'
    for size in 64M 2x ''; do
        board --memory "$size" -- true
        check "--memory '$size' is a usage error" is "$STATUS" 2
        check "--memory '$size': what is expected is told" says \
            "--memory $size: expected a size like 512M or 2G, at least 256M"
    done
    board --version
    check "--version tells the version" prints '^npu-vm [0-9]+\.[0-9]+\.[0-9]+$'
    usage() {
        local said=$1
        shift
        board "$@" -- true
        check "$* is a usage error" is "$STATUS" 2
        check "$*: the reason is printed" says "^npu-vm: $said"
    }
    usage '--seed needs --time exact' --seed 1
    usage '--report needs --time exact' --report "$WORK/report"
    usage '--save needs --time exact' --time host --save "$WORK/saved"
    usage '--save-at needs --time exact' --save-at ready
    usage '--load needs --time exact' --time host --load "$WORK/saved"
    usage '--seed x: expected a number' --time exact --seed x
    usage '--seed -1: expected a number' --time exact --seed=-1
    usage '--smp 9: with --time exact there are at most 8' --time exact --smp 9
    usage '--interactive needs --time host' --time exact --interactive
    usage '--qemu-arg -accel: --time exact decides' --time exact --qemu-arg -accel --qemu-arg kvm
    usage '--qemu-arg -enable-kvm: --time exact decides' --time exact --qemu-arg -enable-kvm
    usage '--qemu-arg q35,accel=kvm: --time exact decides' --time exact --qemu-arg -machine --qemu-arg q35,accel=kvm
    usage "--save-at ٣: expected nanoseconds" --time exact --save "$WORK/saved" --save-at ٣
    usage '--time exact: the board virt cannot; .*boards that can: pc\)' --board virt --time exact
    usage '--kernel newest: the board virt has these: stock, debug, debug-16K, debug-64K, kcsan, gcov' --board virt \
        --kernel newest
    usage '--cards 2: the board soc has at most 1' --board soc --cards 2
    usage "argument --board: invalid choice: 'nix' \(choose from 'pc', 'virt', 'soc'\)" --board nix
    usage '--save: expected a path' --time exact --save-at ready --save ''
    usage '--timeout nan: expected seconds' --timeout nan
    usage '--timeout -5: expected seconds' --timeout=-5
    NPU_QEMU=$WORK/no-qemu bare -- true
    check "a QEMU that is not there is named" fails "NPU_QEMU=$WORK/no-qemu: there is no such program"
    bare --module no_such_module -- true
    check "an unknown module is named" fails '.*no module no_such_module'
    bare --qemu-arg -no-such-option -- true
    check "what QEMU complains about is told" fails 'QEMU ended.*no-such-option'
}

# What npu-vm writes: a link is followed, a device is written to, and what cannot be written is named.
test_outputs() {
    local link="$WORK/link" mode
    mkdir "$WORK/outputs"
    for option in trace report console save; do
        board --time exact --cards 0 --no-module --save-at ready --save "$WORK/saved" --$option "$WORK/outputs" -- true
        check "--$option of a folder is an error" fails ".*$option $WORK/outputs: "
        board --time exact --cards 0 --no-module --save-at ready --save "$WORK/saved" --$option "$WORK/no/file" -- true
        check "--$option in a folder that is not there is an error" fails ".*$option $WORK/no/file: No such file"
        check "--$option: there is no traceback" not says Traceback
    done
    board --time exact --cards 0 --no-module --save-at ready --save "$WORK/err/file" -- true
    check "--save below a file is an error" fails '.*save .*err/file: Not a directory'
    mknod "$WORK/null" c 1 3
    mknod "$WORK/full" c 1 7
    ln -s "$WORK/real" "$link"
    board --time exact --cards 0 --no-module --save-at ready --save "$WORK/null" -- true
    check "--save onto a device is an error" fails '.*null: this is no regular file'
    board --time exact --cards 0 --no-module --trace "$WORK/null" --report "$link" -- true
    check "a trace may go to a device" is "$STATUS-$(stat -c %F "$WORK/null")" "0-character special file"
    check "a link is followed" is "$(stat -c %F "$link")-$(cut -d ' ' -f 1 "$WORK/real" | xargs)" \
        "symbolic link-instructions virtual_ns"
    board --time exact --cards 0 --no-module --save-at ready --save "$link" -- true
    check "a snapshot is saved through a link" is "$(stat -c %F "$link")-$(head -n 1 "$WORK/real")" \
        "symbolic link-QNPU board"
    board --time exact --cards 0 --no-module --report "$WORK/full" -- true
    check "a report onto a full device is an error" fails '.*report .*full: No space left'
    board --cards 0 --no-module --console "$WORK/full" -- true
    check "a console onto a full device is an error" fails '.*console .*full: No space left'
    board --no-module --trace "$WORK/full" -- true
    check "a trace onto a full device is an error" fails '.*the trace could not be written: No space left'
    "$VM" --no-module --cards 0 -- seq 1 1000 2>"$WORK/err" >/dev/full
    STATUS=$?
    check "output onto a full device is an error" fails '.*stdout.*: No space left'
    mode=$("$VM" --no-module --cards 0 -- sh -c 'yes; true' 2>"$WORK/err" | head -n 1; echo "${PIPESTATUS[0]}")
    check "a reader that goes away ends it as a pipe does" is "$(xargs <<<"$mode")-$(wc -c <"$WORK/err")" "y 141-0"
}

test_iommu() {
    bare --iommu -- no-such-program
    check "an unknown program is the shell's status 127" is "$STATUS" 127
    check "an unknown program has a hint" says '^npu-vm: status 127: no-such-program, .*--share DIR shows a folder'
    check "--iommu puts devices behind an IOMMU" grep -q 'DMAR: Intel(R) Virtualization Technology for Directed I/O' \
        "$WORK/console"
}

# A board with another processor has programs, a driver and a /usr of its own.
test_virt() {
    local folder=$WORK/virt
    mkdir "$folder"
    cat >"$folder/script" <<'SH'
uname -m; head -c 5 /proc/self/exe | od -An -c | xargs; echo "$PATH"; echo "$LD_LIBRARY_PATH"; pwd
readlink -f "$(command -v npu-smi)"
/usr/bin/python3 -c 'import platform; print("python", platform.machine())'
bash -c 'echo "bash $BASH_VERSION"'
cat >out; touch "$TOP/written-by-guest" /usr/written-by-guest; nproc
ls /dev/accel | xargs; npu-smi >/dev/null && echo works; ls "$NPU_KO"
exec 3<>"$NPU_MACHINE"; echo '{"execute": "query-status"}' >&3; read -r answer <&3; echo "answer $answer"
sleep 1000 &
exit 7
SH
    seq 1 1000 | "$VM" --board virt --console "$WORK/console" --cards 2 --smp 3 --iommu --share "$folder" --control \
        --env "TOP=$NPU_TOP" --timeout 300 -- sh script >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "virt: the command's status is passed through" is "$STATUS" 7
    check "virt: the processor is another one" is "$(head -n 1 "$WORK/out")" aarch64
    check "virt: its programs come first on PATH" prints "^$NPU_BUILD/arm64/bin:"
    check "virt: and its libraries" prints "^$NPU_BUILD/arm64/lib$"
    check "virt: they are found" prints "^$NPU_BUILD/arm64/bin/npu-smi$"
    check "virt: python3 of its own" prints '^python aarch64$'
    check "virt: bash of its own" prints '^bash [0-9]'
    check "virt: input arrives, and output in the shared folder" cmp -s "$folder/out" <(seq 1 1000)
    check "virt: checkout and /usr are read-only" is "$(grep -c 'Read-only file system' "$WORK/err")" 2
    check "virt: --smp" prints '^3$'
    check "virt: --cards" prints '^accel0 accel1$'
    check "virt: the cards work" prints '^works$'
    check "virt: its driver" prints "^$NPU_BUILD/kernel/arm64/qnpu.ko$"
    check "virt: the command controls the machine" prints '^answer .*"status": "running"'
    check "virt: --iommu puts the cards behind an IOMMU" grep -qE 'qnpu 0000:.*: Adding to iommu group' "$WORK/console"
    board --board virt --no-module --cards 0 -- sh -c 'echo before; echo c > /proc/sysrq-trigger; sleep 1000'
    check "virt: a panic is an error with its reason" fails 'the kernel reported: .*sysrq triggered crash'
    check "virt: a panic: output before it is there" prints '^before$'
    NPU_BUILD=$WORK/nothing board --board virt -- true
    check "virt: a missing driver is an error with the target that builds it" fails \
        '.*arm64/qnpu.ko is missing; run: make module-arm64$'
}

# --- groups ----------------------------------------------------------------------------------------

group_launcher() {
    STATUS=0
    "$NPU_PYTHON" "$HERE/test_console.py" >"$WORK/out" 2>"$WORK/err"
    check "the console reader tells sick from healthy, and hints are right" is $? 0
    build_sick stock || die "the stock kernel is not there; run: make kernel-stock"
    test_usage
    test_outputs
    test_streams
    test_command
    test_processors
    test_input
    test_interactive
    test_qmp
    test_iommu
    test_panic
    test_hang
    # Which lines are a reason is tested without a board (test_console.py).
    sick stock warn 'WARNING: ' "a warning"
}

group_debug() {
    build_sick debug || die "the debug kernel is not there; run: make kernel-debug"
    sick debug use-after-free 'BUG: KASAN: slab-use-after-free' "a use after free"
    bare --kernel debug --share "$WORK/sick" -- sh -c \
        'insmod sick.ko kind=lock-order; rmmod sick; insmod sick.ko kind=sleep-in-atomic'
    check "a lock inversion is an error with its reason" fails \
        'the kernel reported: .*WARNING: possible circular locking'
    check "sleeping under a spinlock is in the console as well" grep -q 'BUG: sleeping function' "$WORK/console"
    bare --kernel debug --kmemleak --share "$WORK/sick" -- insmod sick.ko kind=leak
    check "a leak is an error" fails 'the kernel reported: .*kmemleak: 1 new suspected'
    check "a leak: the console has its stack" grep -q 'sick_leak' "$WORK/console"
}

group_card() {
    board -- sh -c 'stat -c %a /dev/accel/accel*; lsmod | grep -c "^qnpu "; ls -d "$NPU_KO"
        setsid sh -c "echo held >held; sleep 1000" </dev/accel/accel0 &
        until [ -s held ]; do sleep 0.1; done; echo held'
    check "the driver is loaded and its node is open to all" is "$(head -n 2 "$WORK/out" | xargs)" "666 1"
    check "the command can find the module" prints 'qnpu.ko$'
    check "an open node of a left process does not keep the module" is "$STATUS-$(tail -n 1 "$WORK/out")" 0-held
    board --cards 2 --node-mode 0600 --module-args nonsense_parameter=1 -- sh -c 'stat -c %a /dev/accel/accel*'
    check "--cards and --node-mode do what they say" is "$(xargs <"$WORK/out")" "600 600"
    check "parameters reach the module" grep -q "unknown parameter 'nonsense_parameter'" "$WORK/console"
    board --no-module -- sh -c \
        'ls /dev/accel; insmod "$NPU_KO" && until [ -e /dev/accel/accel0 ]; do sleep 0.1; done; ls /dev/accel
        chmod 666 /dev/accel/accel0; exec "'"${NPU_BUILD:-$NPU_TOP/build}"'/bin/tests/guest/long_commands" stay'
    check "--no-module leaves the module to the command" is "$(xargs <"$WORK/out")" accel0
    check "a board ends while a user has commands of hours on all cores" is "$STATUS" 0
    "$NPU_BUILD/bin/npuc" "$NPU_TOP/networks/digits/digits.onnx" -o "$WORK/digits.bmodel" -q
    NPU_TEST_SHARE=$WORK "$NPU_PYTHON" "$HERE/terminal_test.py" "$VM" >"$WORK/out" 2>"$WORK/err"
    STATUS=$?
    check "npu-smi live on the board's terminal, as large as the window" is "$STATUS" 0
    board --device nonsense=1 -- true
    check "an unknown property of the card is told" fails 'QEMU ended.*nonsense'
}

group_virt() { test_virt; }

main() {
    case ${1:-all} in
        all) group_launcher; group_card; group_virt; group_debug ;;
        launcher | debug | card | virt) "group_$1" ;;
        *) die "unknown group '$1'" "known: launcher, card, virt, debug" ;;
    esac
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

main "$@"
