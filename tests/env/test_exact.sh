#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of exact boards (docs/explanation/exact.md): the same command twice, the second time beside busy processes and
# with a reader that does not read for a while, has the same console, output, trace, and count of instructions, byte for
# byte.
#
#   test_exact.sh         a script that looks at what could let the host's time in; launches by the guest's clock
#   test_exact.sh deep    the demo; plugging and unplugging under load; the driver's suites, on one card and on two, and
#                         on the debug kernel: an hour and more
#
# Needs QEMU, the kernel and the module. Ends with "N passed, N failed".

NPU_STEP=test-exact
# shellcheck source=tests/env/exact.sh
. "$(dirname "$0")/exact.sh"

RUN=$NPU_TOP/tests/guest/run.sh
CHECK=$NPU_TOP/tests/guest/check.py
DEBUG=(--kernel debug --memory 3G --device ddr=128M,ddr-bw=1 --append kunit.enable=1)
# What a comparison gives npu-vm, whatever it runs.
EXACT=()

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
PAGES, FEW = 3000, 64
memory, scratch = mmap.mmap(-1, PAGES * 4096), mmap.mmap(-1, FEW * 4096)
def touch():
    memory[::4096] = bytes(PAGES)
def flush():
    """Takes so many pages back that a processor forgets all."""
    scratch[::4096] = bytes(FEW)
    scratch.madvise(mmap.MADV_DONTNEED)
def looked_up():
    """KiB that are looked up again when they have been a moment ago."""
    touch()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("1")
    touch()
    with open("/proc/self/smaps") as file:
        return sum(map(int, re.findall(r"Referenced: *(\d+)", file.read())))
for turn in range(32):
    for _ in range(6):
        touch()
        flush()
    for _ in range(turn * 8):
        flush()
    print(turn, looked_up())
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

# A folder to share that is the same each time.
fresh() {
    rm -rf "$WORK/share"
    mkdir "$WORK/share"
    [ $# -eq 0 ] || cp "$@" "$WORK/share"
    find "$WORK/share" -exec touch -d 2020-01-01 {} +
}

# What is run twice; arguments are more of npu-vm's.
script() {
    fresh "$WORK/script"
    seq 1 1000 | "$VM" "${EXACT[@]}" --share "$WORK/share" --control "$@" -- sh script
}

demo() { "$NPU_TOP/scripts/demo.sh" pc "${EXACT[@]}"; }

# suites CHECK-ARGUMENTS NPU-VM-OPTION...: the suites that these arguments of check.py choose.
suites() {
    # shellcheck disable=SC2086 # several arguments
    "$CHECK" $1 --plan "$WORK/plan" || return 1
    fresh "$WORK/plan"
    "$VM" "${EXACT[@]}" --share "$WORK/share" --control --sleep --timeout 7000 "${@:2}" -- "$RUN" /mnt/share/plan
}

# board NAME READER COMMAND...: all that the board leaves goes to $WORK/NAME.
board() {
    local dir=$WORK/$1 reader=$2
    shift 2
    mkdir -p "$dir"
    EXACT=(--time exact --console "$dir/console" --trace "$dir/trace" --report "$dir/report")
    "$@" 2>"$dir/err" | "$reader" >"$dir/out"
    echo "${PIPESTATUS[0]}" >"$dir/status"
}

same() {
    cmp "$WORK/1/$1" "$WORK/2/$1" && return
    diff --text "$WORK/1/$1" "$WORK/2/$1" | head -n 12 | sed 's/^/# /'
    return 1
}

# Is there something to compare?
whole() {
    local what
    for what in out console report; do [ -s "$WORK/1/$what" ] || return 1; done
    grep -qx 0 "$WORK/1/status"
}

# twice NAME COMMAND...
twice() {
    local name=$1 what
    shift
    rm -rf "$WORK/1" "$WORK/2"
    board 1 cat "$@"
    busy
    board 2 slowly "$@"
    at_ease
    check "$name: it ends well" whole
    for what in status out err console trace report; do
        check "$name: $what is the same" same "$what"
    done
    echo "# $name: $(paste -sd ' ' "$WORK/1/report")"
}

# one_axis: launches at two rates of the clock, for exact_axis.py. The governor would choose rates of its own.
one_axis() {
    local khz cycles boards=() share=$WORK/axis
    mkdir -p "$share"
    cycles=$("$NPU_BUILD/bin/npuc" "$NPU_TOP/networks/digits/digits.onnx" -o "$share/digits.bmodel" |
        awk '$1 == "cycles" { print $2 }')
    for khz in 10000 1000; do
        "$VM" --time exact --device clock-khz=$khz --share "$share" -- sh -c '
            cd /sys/class/devfreq/* && cat max_freq >min_freq && cd /mnt/share || exit 1
            bmrt_test --bmodel digits.bmodel --loopnum 5 >"$1.out" &&
            BMRUNTIME_PROFILE_FILE=$1.json bmrt_test --bmodel digits.bmodel --loopnum 5 --profile' sh $khz \
            >"$share/log" || return 1
        boards+=("$khz:$share/$khz.out:$share/$khz.json")
    done
    "$NPU_PYTHON" "$NPU_TOP/tests/env/exact_axis.py" "$cycles" "${boards[@]}" >"$share/results"
    sed 's/^/# /' "$share/results"
    tail -n 1 "$share/results" | grep -q '^[1-9][0-9]* passed, 0 failed'
}

case ${1:-} in
    "")
        twice "one processor" script --smp 1 --cards 0
        twice "two behind an IOMMU" script --smp 2 --iommu --seed 7
        check "it did what it should" test "$(wc -l <"$WORK/1/out")" -gt 400000
        board 2 cat script --smp 2 --iommu --seed 8
        check "another seed is another run" test "$(cat "$WORK/1/report")" != "$(cat "$WORK/2/report")"
        check "host and card share one exact time (tests/env/exact_axis.py)" one_axis
        ;;
    deep)
        twice "demo" demo
        twice "removal" suites "--suite hotplug" --seed 3 --device ddr-bw=1
        twice "driver" suites exact --device ddr=256M,ddr-bw=1
        twice "two cards" suites "--suite two_cards,runtime_two_cards --board cards" --iommu --cards 2 \
            --device ddr=128M,ddr-bw=1
        twice "debug kernel" suites exact-debug "${DEBUG[@]}"
        twice "two cards on the debug kernel" suites "--suite two_cards,runtime_two_cards --board cards-debug" \
            "${DEBUG[@]}" --cards 2
        ;;
    *) die "test_exact.sh $1" "expected nothing, or: deep" ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
