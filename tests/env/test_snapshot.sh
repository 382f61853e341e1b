#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of snapshots (docs/explanation/exact.md): a board that is saved in the middle of a job and goes on in another
# process, once beside busy processes, has the console, output, trace and count of instructions of one that was never
# saved.
#
# Needs QEMU, the stock kernel and the module. Ends with "N passed, N failed".

NPU_STEP=test-snapshot
# shellcheck source=tests/env/exact.sh
. "$(dirname "$0")/exact.sh"

mkdir -p "$WORK/share"
"$NPU_BUILD/bin/npuc" "$NPU_TOP/networks/digits/digits.onnx" -o "$WORK/share/digits.bmodel" >"$WORK/npuc.log" ||
    die "npuc failed" "$(cat "$WORK/npuc.log")"
# What a snapshot could lose: numbers and order of files, a folder that is being read, files that are open to be read
# and written, random numbers, the port of the machine, and a job. What was renamed, or has lost the name by which it
# was seen, is not looked at before it is saved.
cat >"$WORK/script" <<'SH'
exec 2>&1
for i in 3 1 2; do echo $i >"file$i"; done; ls -fi
exec 4<script 5>>written 6<>"$NPU_MACHINE"
read -r first <&4; echo "$first" >&5
mkdir folder; echo inside >folder/inside; stat -c '%n %i' folder/inside; mv file2 moved; mv folder renamed
ln file3 again3; stat -c '%n %i' again3; rm again3
mkdir many; for i in $(seq 1 300); do : >"many/$i"; done
(while :; do ls -fi many | cksum; cat /proc/sys/kernel/random/uuid; od -An -N 8 -x /dev/urandom; sleep 0.01; done) &
for i in 1 2 3 4 5 6; do
    bmrt_test --bmodel digits.bmodel
    read -r next <&4; echo "$i $next" >&5
    echo '{"execute": "query-status"}' >&6; read -r answer <&6; echo "$answer"
done
kill $!
rm file1; echo again >file4; stat -c '%n %i %s %Y' file* written moved renamed/inside
cat written; cat /proc/interrupts /proc/uptime
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

# The nanosecond at which the board named $1 is in the middle of its job $2, which takes 1057 cycles of at least one.
instant_of_job() {
    echo $(($(sed -n 's/.*job_start:.* at \([0-9]*\) ns$/\1/p' "$WORK/$1/trace" | sed -n "$2p") + 500))
}

# continued NAME...: the saved board and the NAMEs, one after another, are the board that was never saved.
continued() {
    local what last=${*: -1}
    for what in out console trace; do
        (cd "$WORK" && cat "saved/$what" "${@/%//$what}") >"$WORK/$last/whole"
        check "$TITLE: $*: $what is the same" cmp "$WORK/whole/$what" "$WORK/$last/whole"
    done
    check "$TITLE: $*: report is the same" cmp "$WORK/whole/report" "$WORK/$last/report"
    check "$TITLE: $*: status is the same" cmp "$WORK/whole/status" "$WORK/$last/status"
    check "$TITLE: $*: the files are the same" diff -r "$WORK/whole.files" "$WORK/share"
}

# restore: the files as they were when the board was saved.
restore() {
    rm -rf "$WORK/share"
    cp -rp "$WORK/saved.files" "$WORK/share"
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
    rm -rf "$WORK/saved.files"
    cp -rp "$WORK/share" "$WORK/saved.files"
    sed -i '$d' "$WORK/saved/trace"  # that it was switched off
    board loaded --load "$WORK/snapshot"
    continued loaded
    restore
    board first --load "$WORK/snapshot" --save "$WORK/later" --save-at "$(instant_of_job whole 5)"
    sed -i '$d' "$WORK/first/trace"
    board second --load "$WORK/later"
    continued first second
    restore
    busy
    board busy --load "$WORK/snapshot" --control "$@" -- sh script
    at_ease
    continued busy
    restore
    rm -rf "$WORK/whole.files"
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

# forged EXPRESSION FILE: the snapshot with another header, as if it had been saved so.
forged() {
    sed "1,/^{/ $1" "$WORK/snapshot" >"$2"
    "$NPU_PYTHON" - "$2" <<'PY'
import hashlib, sys
with open(sys.argv[1], "r+b") as file:
    file.readline()
    start = file.tell()
    file.readline()
    digest = hashlib.sha256(file.read()).hexdigest()
    file.seek(start)
    file.write(digest.encode())
PY
}

# damaged OFFSET FILE: the snapshot with another byte there.
damaged() {
    cp "$WORK/snapshot" "$2"
    printf '\xa5' | dd of="$2" bs=1 seek="$1" conv=notrunc status=none
}

echo nonsense >"$WORK/nonsense"
"$NPU_PYTHON" -c 'print("QNPU board\n" + 64 * "0" + "\n" + 60000 * "[")' >"$WORK/deep"
sed '1,/^{/ s/"version": 2/"version": 9/' "$WORK/snapshot" >"$WORK/future"
sed '1,/^{/ s/"cards": 1/"cards": 2/' "$WORK/snapshot" >"$WORK/edited"
forged 's/"QEMU": "[0-9a-f]*"/"QEMU": "0123456789abcdef"/' "$WORK/other"
head -c 30000000 "$WORK/snapshot" >"$WORK/short"
damaged 20000000 "$WORK/flipped"
mkfifo "$WORK/pipe"
rm -rf "$WORK/changed"
cp -rp "$WORK/share" "$WORK/changed"
rm "$WORK/changed/written"
mkdir "$WORK/changed/written"
refused "this is no snapshot of a board" --load "$WORK/nonsense"
refused "--load $WORK/missing: No such file or directory" --load "$WORK/missing"
refused "this is no snapshot of a board" --load "$WORK/deep"
refused "this is no regular file" --load "$WORK/pipe"
refused "this is no regular file" --load "$WORK"
for file in short flipped edited; do
    refused "--load $WORK/$file: the snapshot is damaged" --load "$WORK/$file"
done
refused "the snapshot has version 9, this npu-vm reads 2" --load "$WORK/future"
refused "the snapshot is of another board: QEMU 0123456789abcdef, here it is " --load "$WORK/other"
refused "is of a board with --smp 2, not --smp 1" --load "$WORK/snapshot" --smp 1
refused "is of a board with --device cores=2, not --device cores=1" --load "$WORK/snapshot" --device cores=1
refused "is of a board with the command sh script, not the command true" --load "$WORK/snapshot" -- true
refused "the snapshot has ./written open, which cannot be opened in the shared folder" --load "$WORK/snapshot" \
    --share "$WORK/changed"
refused "so early: its firmware is still reading the kernel" --time exact --save "$WORK/never" --save-at 30000000 \
    -- true
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

# A board goes on after the line that stopped it.
TITLE="lines after one that stops"
cat >"$WORK/share/lines" <<'SH'
exec 3<>"$NPU_MACHINE"
stop='{"execute": "stop"}' status='{"execute": "query-status"}'
printf '%s\n' "$status" "$stop" "$status" >&3
for i in 1 2 3; do read -r answer <&3; echo "$i $answer"; done
SH
board saved --time exact --control --save "$WORK/lines" -- sh lines
check "$TITLE: it is saved" grep -qx 0 "$WORK/saved/status"
board loaded --load "$WORK/lines"
cat "$WORK/saved/out" "$WORK/loaded/out" >"$WORK/lines.out"
check "$TITLE: each has its answer" test "$(grep -c '^[123] {"return": {' "$WORK/lines.out")" -eq 3
check "$TITLE: the last is obeyed when it runs" grep -q '^3 .*"status": "running"' "$WORK/loaded/out"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
