#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of snapshots (docs/exact.md): a board that is saved in the middle of a job and goes on in another process, once
# beside busy processes, has the console, output, trace and count of instructions of one that was never saved.
#
# Needs QEMU, the stock kernel and the module. Ends with "N passed, N failed".

NPU_STEP=test-snapshot
# shellcheck source=tests/env/exact.sh
. "$(dirname "$0")/exact.sh"

mkdir -p "$WORK/share"
"$NPU_BUILD/bin/npuc" "$NPU_TOP/networks/digits/digits.onnx" -o "$WORK/share/digits.bmodel" >"$WORK/npuc.log" ||
    die "npuc failed" "$(cat "$WORK/npuc.log")"
# What a snapshot could lose: numbers and order of files, a folder that is being read, files that are open to be read
# and written, random numbers, the port of the machine, and a job.
cat >"$WORK/script" <<'SH'
exec 2>&1
for i in 3 1 2; do echo $i >"file$i"; done; ls -fi
exec 4<script 5>>written 6<>"$NPU_MACHINE"
read -r first <&4; echo "$first" >&5
mkdir many; for i in $(seq 1 300); do : >"many/$i"; done
(while :; do ls -fi many | cksum; cat /proc/sys/kernel/random/uuid; od -An -N 8 -x /dev/urandom; sleep 0.01; done) &
for i in 1 2 3 4 5 6; do
    bmrt_test --bmodel digits.bmodel
    read -r next <&4; echo "$i $next" >&5
    echo '{"execute": "query-status"}' >&6; read -r answer <&6; echo "$answer"
done
kill $!
rm file1; echo again >file4; stat -c '%n %i %s %Y' file* written; cat written; cat /proc/interrupts /proc/uptime
SH

share() {
    rm -rf "$WORK/share/"[!d]*
    cp "$WORK/script" "$WORK/share/script"
    touch -d 2020-01-01 "$WORK/share"/* "$WORK/share"
}

# board NAME OPTION...: what it leaves goes to $WORK/NAME.
board() {
    local name=$1
    shift
    mkdir -p "$WORK/$name"
    "$VM" --share "$WORK/share" --console "$WORK/$name/console" --trace "$WORK/$name/trace" \
        --report "$WORK/$name/report" "$@" >"$WORK/$name/out" 2>"$WORK/$name/err" </dev/null
    echo $? >"$WORK/$name/status"
}

# The nanosecond at which the board named $1 is in the middle of its job $2, which takes 1313 cycles of at least one.
instant_of_job() {
    echo $(($(sed -n 's/.*job_start:.* at \([0-9]*\) ns$/\1/p' "$WORK/$1/trace" | sed -n "$2p") + 600))
}

# continued NAME: the saved board and NAME together are the board that was never saved.
continued() {
    local what
    for what in out console trace; do
        cat "$WORK/saved/$what" "$WORK/$1/$what" >"$WORK/$1/whole"
        check "$TITLE: $1: $what is the same" cmp "$WORK/whole/$what" "$WORK/$1/whole"
    done
    check "$TITLE: $1: report is the same" cmp "$WORK/whole/report" "$WORK/$1/report"
    check "$TITLE: $1: status is the same" cmp "$WORK/whole/status" "$WORK/$1/status"
    check "$TITLE: $1: the files are the same" diff -r "$WORK/whole.files" "$WORK/share"
}

# goes_on OPTION...
goes_on() {
    local instant
    TITLE=$*
    share
    board whole --time exact --control "$@" -- sh script
    check "$TITLE: the command ends well" grep -qx 0 "$WORK/whole/status"
    grep -qx 0 "$WORK/whole/status" || { sed 's/^/# /' "$WORK/whole/err" && return; }
    cp -rp "$WORK/share" "$WORK/whole.files"
    instant=$(instant_of_job whole 3)
    share
    board saved --time exact --control "$@" --save "$WORK/snapshot" --save-at "$instant" -- sh script
    check "$TITLE: it is saved" grep -qx 0 "$WORK/saved/status"
    grep -qx 0 "$WORK/saved/status" || { sed 's/^/# /' "$WORK/saved/err" && return; }
    check "$TITLE: in the middle of a job" test "$(grep -c job_start "$WORK/saved/trace")" -gt \
        "$(grep -c job_done "$WORK/saved/trace")"
    cp -rp "$WORK/share" "$WORK/saved.files"
    sed -i '$d' "$WORK/saved/trace"  # that it was switched off
    board loaded --load "$WORK/snapshot"
    continued loaded
    rm -rf "$WORK/share"
    cp -rp "$WORK/saved.files" "$WORK/share"
    busy
    board busy --load "$WORK/snapshot" --control "$@" -- sh script
    at_ease
    continued busy
    rm -rf "$WORK/whole.files" "$WORK/saved.files"
}

# refused TEXT OPTION...: npu-vm ends with 125 and says TEXT.
refused() {
    local text=$1
    shift
    board refused "$@"
    check "refused: $text" sh -c "grep -qx 125 $WORK/refused/status && grep -qF -- '$text' $WORK/refused/err"
    grep -qF -- "$text" "$WORK/refused/err" || sed 's/^/# /' "$WORK/refused/err"
}

goes_on --smp 1
goes_on --smp 2 --seed 7 --device cores=2

echo nonsense >"$WORK/nonsense"
sed '1,/^{/ s/"version": 1/"version": 9/' "$WORK/snapshot" >"$WORK/future"
sed '1,/^{/ s/"QEMU": "[0-9a-f]*"/"QEMU": "0123456789abcdef"/' "$WORK/snapshot" >"$WORK/other"
head -c 30000000 "$WORK/snapshot" >"$WORK/short"
refused "this is no snapshot of a board" --load "$WORK/nonsense"
refused "--load $WORK/missing: No such file or directory" --load "$WORK/missing"
refused "the snapshot has version 9, this npu-vm reads 1" --load "$WORK/future"
refused "the snapshot is of another board: QEMU 0123456789abcdef, here it is " --load "$WORK/other"
refused "is of a board with --smp 2, not --smp 1" --load "$WORK/snapshot" --smp 1
refused "is of a board with --device cores=2, not --device cores=1" --load "$WORK/snapshot" --device cores=1
refused "is of a board with the command sh script, not the command true" --load "$WORK/snapshot" -- true
refused "QEMU ended with status 1" --load "$WORK/short"
refused "the command ended with status 0 before it stopped" --time exact --save "$WORK/never" \
    --save-at 999999999999 -- true
check "a board that was not saved leaves no file" test ! -e "$WORK/never"

# What cannot be saved; the command stops the machine itself.
stopped() {
    cat >"$WORK/share/stopped" <<SH
$1
exec 3<>"\$NPU_MACHINE"; echo '{"execute": "stop"}' >&3; read -r answer <&3
SH
    refused "$2" --time exact --control --save "$WORK/never" "${@:3}" -- sh stopped
}

stopped 'exec 4>gone; rm gone' "is open and was removed"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
