#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of exact boards (docs/exact.md): the same command twice, the second time beside busy processes and with a reader
# that does not read for a while, has the same console, output, trace, and count of instructions, byte for byte.
#
# Needs QEMU, the stock kernel and the module. Ends with "N passed, N failed".

NPU_STEP=test-exact
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"
set +e

VM=$NPU_TOP/tools/npu-vm
WORK=$(mktemp -d)
BUSY=()
trap 'at_ease; rm -rf "$WORK"' EXIT
passed=0
failed=0

check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
    fi
}

busy() {
    for _ in 1 2 3 4; do
        sh -c 'while :; do :; done' &
        BUSY+=($!)
    done
}

at_ease() {
    [ ${#BUSY[@]} -eq 0 ] || kill "${BUSY[@]}"
    BUSY=()
}

# What a command can see of the host's time, and what it does: files, their numbers, times, order and space; how often
# pages were looked up in the page tables; interrupts; random numbers; order of two processors; commands to the machine.
cat >"$WORK/script" <<'SH'
look() { stat -c '%n %i %s %b %X %Y %Z %h' "$@"; }
exec 2>&1
date; cat /proc/uptime; cat
df /usr /mnt/share; look /usr /usr/bin/env /mnt/share
for i in 3 1 2; do echo $i >"file$i"; mkdir "folder$i"; ln -s x "link$i"; done
ls -f; look *; rm file1; echo again >file4; look file*; rm -r folder*; ls -fi
cat /proc/interrupts; od -N 16 -x /dev/urandom; cat /proc/sys/kernel/random/uuid
(for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3; do echo "$i $j" >>order; done) & done; wait); cat order
python3 - <<'PY'
import mmap, re
pages = 3000
memory = mmap.mmap(-1, pages * 4096)
def touch(step):
    for page in range(0, pages, step):
        memory[page * 4096] = page & 255
for turn in range(30):
    touch(1)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("1")
    touch(1 + turn % 7)
    with open("/proc/self/smaps") as file:
        print(turn, sum(map(int, re.findall(r"Referenced: *(\d+)", file.read()))))
PY
exec 3<>"$NPU_MACHINE"
for c in '{"execute": "query-status"}' '{"execute": "no-such"}' nonsense; do
    echo "$c" >&3; read -r answer <&3; echo "$answer"
done
seq 1 400000
cat /proc/uptime
SH

# Empties what is left to the reader only after a while.
slowly() { sleep 3; cat; }

# board NAME READER OPTION...: the script's run; all that it leaves goes to $WORK/NAME.
board() {
    local name=$1 reader=$2
    shift 2
    mkdir -p "$WORK/$name" "$WORK/share"
    cp "$WORK/script" "$WORK/share"
    touch -d 2020-01-01 "$WORK/share"/* "$WORK/share"
    seq 1 1000 | "$VM" --time exact --share "$WORK/share" --control --console "$WORK/$name/console" \
        --trace "$WORK/$name/trace" --report "$WORK/$name/report" "$@" -- sh script 2>"$WORK/$name/err" |
        "$reader" >"$WORK/$name/out"
    echo "${PIPESTATUS[1]}" >"$WORK/$name/status"
    rm -rf "$WORK/share"
}

same() {
    cmp "$WORK/1/$1" "$WORK/2/$1" && return
    diff --text "$WORK/1/$1" "$WORK/2/$1" | head -n 12 | sed 's/^/# /'
    return 1
}

# twice OPTION...
twice() {
    local what
    board 1 cat "$@"
    busy
    board 2 slowly "$@"
    at_ease
    check "$*: the command ends well" grep -qx 0 "$WORK/1/status"
    check "$*: it did what it should" test "$(wc -l <"$WORK/1/out")" -gt 400000
    for what in status out err console trace report; do
        check "$*: $what is the same" same "$what"
    done
    rm -rf "$WORK/2" "$WORK/before"
    mv "$WORK/1" "$WORK/before"
}

twice --smp 1 --cards 0
twice --smp 2 --iommu --seed 7
board 1 cat --smp 2 --iommu --seed 8
check "another seed is another run" test "$(cat "$WORK/1/report")" != "$(cat "$WORK/before/report")"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
