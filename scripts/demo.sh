#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reads handwritten digits on the NPU: what `make demo` does. The first run installs packages, compiles the programs,
# builds QEMU and the driver, and downloads a kernel; later runs find all of it.
#
#   demo.sh [BOARD [OPTION...]]  an emulated board with Linux and qnpu.ko, and further options of npu-vm; default: pc
#   demo.sh sim                  the chip model in the process, no kernel and no QEMU
#
# After an interruption the next run continues where this one was.

NPU_STEP=demo
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"
set -m # each task is a process group, which can be ended as a whole

case ${1:-} in
    -h | --help)
        sed -n '/^# Reads/,/^$/s/^#[ ]\{0,1\}//p' "$0"
        exit 0
        ;;
esac
BOARD=${1:-pc}
WORK=$NPU_BUILD/demo
NET=$NPU_TOP/networks/digits
LOGS=$NPU_BUILD/demo/logs

# --- tasks: commands that run beside each other ------------------------------------------------------

number=0
declare -A pid=() log=() label=() begun=()

# headline TEXT: the line of a step that begins.
headline() {
    number=$((number + 1))
    printf '[%d/%d] %s\n' "$number" "$STEPS" "$1"
}

elapsed() { printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60)); }

# start NAME LABEL COMMAND...
start() {
    local name=$1
    label[$name]=$2 log[$name]=$LOGS/$name.log begun[$name]=$SECONDS
    "${@:3}" >"${log[$name]}" 2>&1 </dev/null &
    pid[$name]=$!
}

end_all() {
    local name
    for name in "${!pid[@]}"; do kill -TERM -- "-${pid[$name]}" 2>/dev/null || true; done
}
trap 'end_all; printf "\n[demo] interrupted; the next run continues here\n" >&2; exit 130' INT TERM HUP

# The part of a build that is done, as its log has it: 45/154.
progress() { tail -c 4000 "$1" 2>/dev/null | tr '\r' '\n' | sed -nE 's/.*\[([0-9]+\/[0-9]+)\].*/\1/p' | tail -n 1; }

status_line() {
    local name done text=
    for name in "${!pid[@]}"; do
        done=$(progress "${log[$name]}")
        text+="${text:+, }${label[$name]}${done:+ $done}"
    done
    printf '      %s  %s' "$(elapsed 0)" "$text"
}

# Waits for all tasks; one line for each that ends, and one for all that run, which a terminal sees change.
finish() {
    local name status shown=0
    while [ ${#pid[@]} -gt 0 ]; do
        for name in "${!pid[@]}"; do
            kill -0 "${pid[$name]}" 2>/dev/null && continue
            status=0
            wait "${pid[$name]}" || status=$?
            unset "pid[$name]"
            [ ! -t 1 ] || printf '\r\033[K'
            if [ "$status" -ne 0 ]; then
                end_all
                tail -n 25 "${log[$name]}" >&2
                die "${label[$name]} failed with status $status" "whole output: ${log[$name]}" \
                    "after the cause is removed, 'make demo' continues here"
            fi
            headline "${label[$name]}: done in $(elapsed "${begun[$name]}")"
        done
        if [ -t 1 ]; then
            printf '\r\033[K%s' "$(status_line)"
        elif [ $((SECONDS - shown)) -ge 20 ]; then
            status_line && echo
            shown=$SECONDS
        fi
        [ ${#pid[@]} -eq 0 ] || sleep 0.3
    done
    [ ! -t 1 ] || printf '\r\033[K'
}

# --- what is to be done ------------------------------------------------------------------------------

set_of_packages=sim
STEPS=4
SUFFIX= # the end of the names of make's targets for the board
case $BOARD in
    sim) [ $# -le 1 ] || die "options of npu-vm are for boards: ${*:2}" "sim has no board and no TIME" ;;
    pc) set_of_packages=board STEPS=6 ;; # a new system has no Python to ask
    *)
        known=$("$NPU_PYTHON" scripts/npuvm/boards.py "$BOARD" 2>&1) ||
            die "$known, and sim, the chip model in the process"
        eval "$known"
        set_of_packages=full STEPS=7
        ;;
esac

# The rest of the work in seconds of one processor, as measured (docs/develop/environment.md), and in megabytes.
seconds=2 space=0 downloads=
needs() { seconds=$((seconds + $1)) space=$((space + $2)); }
[ -e "$NPU_BUILD/bin/digits" ] || needs 300 300
if [ "$BOARD" != sim ]; then
    qemu-device/qemu/build.sh --print >/dev/null 2>&1 || { needs 300 1500 && downloads="QEMU's source"; }
    compgen -G "$NPU_CACHE/kernel-stock/*/npu.env" >/dev/null ||
        { needs 130 1200 && downloads+="${downloads:+ and }a kernel"; }
fi
[ "$BOARD" = sim ] || need_plain "$NPU_BUILD" "the driver"
need_space $((space + 50)) "$NPU_BUILD"
need_space $((space + 50)) "$NPU_CACHE"
[ -z "$downloads" ] || need_network "to download $downloads"
mkdir -p "$LOGS"
[ "$seconds" -lt 60 ] || printf 'This takes about %d minutes on %d processors, without packages and downloads.\n' \
    $(((seconds / $(nproc) + 89) / 60)) "$(nproc)"

scripts/setup.sh "$set_of_packages"
headline "packages: all installed"
programs=(demo)
[ "$BOARD" = sim ] || programs+=(npu-smi)
start programs "libraries, compiler, chip model" scripts/build.sh "${programs[@]}"
if [ "$BOARD" != sim ]; then
    start qemu "QEMU with the NPU" make -s "qemu$SUFFIX"
    start driver "Linux 6.12 of Debian and the driver qnpu.ko" \
        sh -c "make -s kernel-stock$SUFFIX && make -s module$SUFFIX"
fi
finish
if [ -n "$SUFFIX" ]; then
    start board-programs "libraries and tools for the board's processor" make -s "programs$SUFFIX"
    finish
fi

headline "compiling networks/digits/digits.onnx for the NPU"
"$NPU_BUILD/bin/npuc" "$NET/digits.onnx" -o "$WORK/digits.bmodel"
next="Next: your own network (docs/guide/onnx-file.md) or program (docs/guide/port-a-program.md)"
if [ "$BOARD" = sim ]; then
    headline "reading digits on the chip model in this process"
    NPU_DEVICE=sim "$NPU_BUILD/bin/digits" "$WORK/digits.bmodel" "$NET"
    echo "$next, or the same through the real driver on an emulated board: make demo"
    exit
fi

headline "booting the emulated board, and reading digits through the driver"
cp "$NET/test_images.bin" "$NET/test_labels.bin" "$WORK/"
cat >"$WORK/run.sh" <<'RUN'
set -e
dmesg -r | sed -n 's|^<6>||p' | grep -E 'qnpu( |:)' | head -n 4
npu-smi
digits digits.bmodel .
RUN
# The board sees when its files were written: always then, so that an exact board's demo can be repeated.
find "$WORK" -maxdepth 1 -exec touch -d 2020-01-01 {} +
tools/npu-vm --board "$BOARD" --share "$WORK" --timeout 600 "${@:2}" --env NPU_DEVICE=drm -- sh run.sh
echo "$next, or a shell on the board: tools/npu-vm --interactive"
