#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds everything and runs every test: what `make check` does. Each step writes its output to a log and counts its
# tests; a step that ends badly counts as failed whatever it printed, and a step that ran no test has failed. The last
# line is "N passed, N failed".
#
#   check.sh              all steps
#   check.sh NAME...      only the steps whose names contain one of these words
#   check.sh --deep       what takes hours instead (make check-deep): all of what a check takes a tenth of; fuzzers
#                         for $MINUTES (60) each
#   check.sh --steps      names the steps
#
# A check takes one tenth of what is too long for it, another one with each commit: $NPU_TENTH, 0 to 9, by default the
# last digit of the commit's number.
#
# Long steps that passed on this machine are not run again until a file that they could see changes; the output says so.
# With ALL=1 they always run.

NPU_STEP=check
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
set +e
cd "$NPU_TOP" || exit 1

LOGS=$NPU_BUILD/check
JOBS=$(nproc)
MODE=check
case ${1:-} in
    --deep) MODE=deep && shift ;;
    --steps)
        sed -nE 's/^ *(must|step|(keep )?(step|aside)) ([a-z0-9-]+) .*/\4/p' scripts/check.sh | sort -u
        exit 0
        ;;
esac
WANTED=("$@")
NPU_TENTH=${NPU_TENTH:-$((0x0$(git rev-parse --short=6 HEAD 2>/dev/null) % 10))}
export NPU_TENTH
passed=0
failed=0
number=0
failures=()
logs=()
asides=()
aside_logs=()
declare -A records=() unseen_by=()
kept=()
mkdir -p "$LOGS" "$NPU_CACHE/passed"
started=$SECONDS

wanted() {
    local word
    [ ${#WANTED[@]} -eq 0 ] && return 0
    for word in "${WANTED[@]}"; do case $1 in *"$word"*) return 0 ;; esac; done
    return 1
}

# Counts of a log: the sum of its "N passed, N failed" lines; where it has none, of the closing lines of ctest and
# unittest.
counts() {
    awk '
        match($0, /[0-9]+ passed, [0-9]+ failed/) {
            split(substr($0, RSTART, RLENGTH), w, /[ ,]+/); plain_p += w[1]; plain_f += w[3] }
        /tests passed, [0-9]+ tests failed out of [0-9]+/ {
            match($0, /[0-9]+ tests failed out of [0-9]+/); split(substr($0, RSTART, RLENGTH), w, " ")
            f += w[1]; p += w[6] - w[1] }
        /^Ran [0-9]+ tests? in/ { ran = $2 }
        /^OK/ && ran { p += ran; ran = 0 }
        /^FAILED \(/ && ran { n = 0; while (match($0, /(failures|errors)=[0-9]+/)) {
            split(substr($0, RSTART, RLENGTH), w, "="); n += w[2]; $0 = substr($0, RSTART + RLENGTH) }
            f += n; p += ran - n; ran = 0 }
        END { if (plain_p + plain_f) print plain_p, plain_f; else print p + 0, f + 0 }' "$1"
}

# run LOG SECONDS COMMAND...: a step's command, with its output in a log; prints its status, passed and failed tests,
# seconds, and seconds of processors. SECONDS are for what hangs: many times what it takes on a quiet host.
run() {
    local log=$1 limit=$2 status p f begun=$SECONDS TIMEFORMAT='%U %S'
    shift 2
    { time timeout --kill-after=30 "$limit" bash -c '"$@"' bash "$@" >"$log" 2>&1 </dev/null; } 2>"$log.processors"
    status=$?
    read -r p f < <(counts "$log")
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $((p + f)) -eq 0 ]; then f=1; echo "no test ran" >>"$log"; fi
    echo "$status $p $f $((SECONDS - begun)) $(tail -n 1 "$log.processors" | awk '{ printf "%.0f", $1 + $2 }')"
}

# report NAME LOG STATUS PASSED FAILED SECONDS PROCESSOR-SECONDS: adds up, and shows the end of the log of what failed.
report() {
    passed=$((passed + $4))
    failed=$((failed + $5))
    printf '%-34s %5d passed, %d failed  (%d s, processors %d s)\n' "$1" "$4" "$5" "$6" "$7"
    if [ "$5" -ne 0 ]; then
        failures+=("$1 (status $3): $2")
        logs+=("$2")
        tail -n 30 "$2" | sed 's/^/    | /'
    elif [ -n "${records[$1]:-}" ] &&
        [ "$NPU_CACHE/passed/$1-$(fingerprint "${unseen_by[$1]}")" = "${records[$1]}" ]; then
        { echo "${@:3}" && cat "$2"; } >"${records[$1]}.new" && mv "${records[$1]}.new" "${records[$1]}"
    fi
}

# fingerprint UNSEEN: what a step could see: every file but those, the packages, the kernels and QEMU of the cache, the
# processors, the environment. Without git: nothing is known.
fingerprint() {
    local files
    files=$(git ls-files --cached --others --exclude-standard 2>/dev/null | grep -vE "$1" | sort)
    if [ -z "$files" ]; then
        echo unknown-$$
        return
    fi
    {
        tr '\n' '\0' <<<"$files" | xargs -0 sha256sum
        dpkg-query -W
        ls "$NPU_CACHE"/{arm64,qemu,kernel-stock,kernel-debug,kernel-newest}
        nproc
        grep -h '^CMAKE_BUILD_TYPE' "$NPU_BUILD/CMakeCache.txt"
        env | grep '^NPU_' | grep -v '^NPU_TENTH=' | sort
    } 2>&1 | hash_of
}

new_log() {
    number=$((number + 1))
    log=$LOGS/$(printf '%02d' "$number")-$1.log
}

# step NAME SECONDS COMMAND...: a test step.
step() {
    local log name=$1 result
    wanted "$name" || return 0
    new_log "$name"
    [ ! -t 1 ] || printf '%s...\r' "$name"
    read -ra result < <(run "$log" "${@:2}")
    report "$name" "$log" "${result[@]}"
}

# aside NAME SECONDS COMMAND...: a test step beside the following ones, and after earlier ones of its kind: boards that
# boot and wait leave a core to others.
aside() {
    local log name=$1
    wanted "$name" || return 0
    new_log "$name"
    asides+=("$name")
    aside_logs+=("$log")
    (
        flock 8
        run "$log" "${@:2}" >"$log.result"
    ) 8>"$LOGS/.aside" &
}

# together: waits for the steps aside, and reports them.
together() {
    local i result
    wait
    for i in "${!asides[@]}"; do
        read -ra result <"${aside_logs[$i]}.result"
        report "${asides[$i]}" "${aside_logs[$i]}" "${result[@]}"
    done
    asides=()
    aside_logs=()
}

# keep step|aside NAME SECONDS COMMAND...: a step whose result is kept until a file that it could see (all but $UNSEEN)
# changes.
keep() {
    local record result
    wanted "$2" || return 0
    record=$NPU_CACHE/passed/$2-$(fingerprint "$UNSEEN")
    if [ -z "${ALL:-}" ] && [ -e "$record" ]; then
        read -ra result <"$record"
        passed=$((passed + result[1]))
        kept+=("$2")
        printf '%-34s %5d passed, 0 failed  (unchanged since it passed: %s)\n' "$2" "${result[1]}" \
            "$(date -r "$record" '+%F %H:%M')"
        return 0
    fi
    records[$2]=$record
    unseen_by[$2]=$UNSEEN
    "$@"
}

# must NAME SECONDS COMMAND...: something that later steps need; counts as one test.
must() { step "$1" "$2" succeeds "${@:3}"; }

# succeeds COMMAND...: one test.
succeeds() { "$@" && echo "1 passed, 0 failed"; }

run_ctest() { scripts/run_ctest.py "$@"; }

# culprits LOG: the lines that name what failed, a few of them, for whoever sees only the end of the output.
culprits() {
    local signs='^not ok|FAILED|^FAIL|^(FAIL|ERROR):|npu-vm: |\*\*\*Failed|\*\*\*Timeout|kernel reported|[^a-z]error: '
    grep -nE "$signs|AddressSanitizer|ThreadSanitizer" "$1" | cut -c1-200 | head -n 12 | sed 's/^/    | /'
}

# sanitized DIR SANITIZERS TARGET... -- CTEST-ARGUMENT...: builds these targets once more and runs their tests. By clang
# and with -O1 (tests -O0), because the compiler's time is half of this step.
sanitized() {
    local dir=$1 sanitizers=$2 targets=()
    shift 2
    while [ "$1" != -- ]; do targets+=("$1") && shift; done
    shift
    CC=clang CXX=clang++ cmake -S . -B "$dir" -G Ninja -DNPU_SANITIZE="$sanitizers" \
        -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" &&
        ninja -C "$dir" "${targets[@]}" && run_ctest "$dir" "$@"
}

qemu_device() { NPU_QEMU=$(qemu-device/qemu/build.sh --print) "$NPU_PYTHON" tests/qemu/test_device.py; }

packages() { scripts/deb.sh --quick && scripts/test-deb.sh; }
image() { make -s image && scripts/image.sh --test; }

export -f succeeds run_ctest sanitized qemu_device packages image
export JOBS NPU_PYTHON

# Programs of the tests with the label "thread", and what these load.
THREAD_TARGETS=(npu-sim npu_model_test npu_command_test npu_libnpu_test npu_runtime_test npu_shapes_test npu_quant_test
    npu_runtime_c_test npu_bmrt_test_test npu_python_test bmrt_test bmodel_seeds fuzz_chip_thread)

# Of the programs that run in four parts, a check takes one part under ASan, another one with each commit that has it;
# all of them run without it in every check.
sanitize_address() {
    local others=none
    if [ "$MODE" = check ]; then
        others=$(seq 0 3 | grep -vx $((NPU_TENTH / 2 % 4)) | paste -sd '|')
    fi
    keep step sanitize-address 7200 sanitized "$NPU_BUILD-asan" address,undefined unit_programs -- \
        -LE 'abi|documents|install|fork' -E "^npu_(compiler|model|compute)_test\.($others)\$"
}
sanitize_thread() {
    keep step sanitize-thread 7200 sanitized "$NPU_BUILD-tsan" thread "${THREAD_TARGETS[@]}" -- -L thread
}

# Where the archives of ONNX Runtime cannot be reached, its plug-in is not built, and the output says so. Anything else
# that keeps it from being built is a failure.
not_built=
onnxruntime() {
    local log
    wanted onnxruntime || wanted unit || wanted guest-ort || return 0
    new_log onnxruntime-fetch
    timeout --kill-after=30 1200 scripts/onnxruntime.sh >"$log" 2>&1 </dev/null
    [ $? -ne 75 ] || \
        not_built="plug-in for ONNX Runtime (ort in unit, guest-ort), which cannot be fetched: $log"
    if [ -z "$not_built" ]; then
        must onnxruntime 1200 make -s onnxruntime
    else
        printf '%-34s not built\n' onnxruntime
        tail -n 5 "$log" | sed 's/^/    | /'
    fi
}

prepare() {
    must setup 4800 make -s setup SET=full
    onnxruntime
    must build 7200 make -s build
    must qemu 7200 make -s qemu
    must kernel-stock 3600 make -s kernel-stock
    must kernel-debug 9600 make -s kernel-debug
    must module 2400 make -s module
    must module-debug 2400 make -s module-debug
    must kernel-stock-arm64 3600 make -s kernel-stock-arm64
    must build-arm64 7200 make -s build-arm64
    must module-arm64 2400 make -s module-arm64
    must kernel-debug-arm64 9600 make -s kernel-debug-arm64
    must module-debug-arm64 2400 make -s module-debug-arm64
}

check() {
    prepare
    must generated-files 240 uapi/hw/generate.py --check
    must kernel-newest 3600 make -s kernel-newest
    step files 480 tests/static/spdx.sh
    step format 2400 scripts/format.sh --check
    step lines 480 tests/static/lines.py
    step races 240 scripts/plant.py --check
    step checkers 480 tests/static/test_checkers.sh

    find "$NPU_CACHE/passed" -type f -mtime +30 -delete
    UNSEEN='^(docs|man|README|CONTRIBUTING|LICENSE|examples|networks|runtime|compiler'
    UNSEEN+='|tests/(bench|conformance|oracle|install|unit|fuzz|mutation))'
    keep aside npu-vm 7200 tests/env/test_npu_vm.sh
    keep aside exact 7200 tests/env/test_exact.sh
    aside bench-counts 7200 tests/bench/counts.py
    keep aside snapshot 4800 tests/env/test_snapshot.sh
    keep aside driver-static 3600 tests/static/driver.sh
    step arrows 480 tests/static/arrows.py "$NPU_BUILD"
    step unit 7200 run_ctest "$NPU_BUILD" ${not_built:+-LE '^ort$'}
    step cycles 1200 tests/bench/cycles.py
    step oracle 2400 env NPU_ONNX_TESTDATA=/usr/share/libonnx-testdata/data \
        "$NPU_PYTHON" -W error -m unittest discover -s tests/oracle
    step networks-sim 3600 "$NPU_PYTHON" tests/conformance/run_nets.py --quick
    step demo-sim 1200 succeeds make -s demo BOARD=sim
    step qemu-device 3600 qemu_device
    step demo 2400 succeeds make -s demo
    UNSEEN='^(qemu-device/qemu/|scripts/npuvm/|tools/npu-vm|tests/(abi|bench|conformance|env|fuzz|guest|install|mutation'
    UNSEEN+='|qemu|races|static|unit)/)'
    # They are of the last commit: of other files nothing is known.
    if [ -z "$(git status --porcelain)" ]; then
        keep step packages 7200 packages
    else
        step packages 7200 packages
    fi
    aside guest-runtime 3600 tools/npu-vm --timeout 3500 -- "$NPU_TOP/tests/guest/runtime.sh"
    # Other sizes of local memory are other programs, which networks-sim compares; the driver does not see a difference.
    aside guest-networks 4800 "$NPU_PYTHON" tests/conformance/run_nets.py --quick --guest --lmem default
    aside guest-python 2400 tools/npu-vm --timeout 2300 -- "$NPU_TOP/python/tests/board.sh"
    aside guest-documents 3600 tests/documents/commands.py --board
    aside guest-decode 2400 "$NPU_PYTHON" tests/conformance/run_decode.py --guest
    if [ -z "$not_built" ]; then
        aside guest-ort 3600 ort/tests/board.sh
    fi
    UNSEEN='^(man/|README|CONTRIBUTING|LICENSE|kernel/|tests/(env|guest|qemu)/)'
    # Compiling for one of them takes as long as all boards: a check has the one or the other.
    if [ $((NPU_TENTH % 2)) -eq 0 ]; then sanitize_address; else sanitize_thread; fi
    together

    # Two boards at a time, and no compiler beside them. Of the documents they read uapi.md.
    UNSEEN='^(docs/([^r]|reference/[^u])|man/|README|CONTRIBUTING|LICENSE'
    UNSEEN+='|examples/|networks/|tools/npuc/|compiler/|python/|ort/|debian/'
    UNSEEN+='|tests/(bench|conformance|oracle|static|install|env|mutation|unit/compiler)/)'
    keep aside guest-debug-use 6300 tests/guest/check.sh debug-use
    keep aside guest-iommu 6300 tests/guest/check.sh iommu
    keep aside guest-cards 6300 tests/guest/check.sh cards
    keep step guest-debug-break 6300 tests/guest/check.sh debug-break
    keep step guest-stock 6300 tests/guest/check.sh stock
    together
    keep aside guest-virt 6300 tests/guest/check.sh virt
    keep aside guest-soc-debug 6300 tests/guest/check.sh soc-debug
    UNSEEN='^(docs/|man/|README|CONTRIBUTING|LICENSE|python/|ort/|debian/'
    UNSEEN+='|tests/(bench|conformance|oracle|static|install|env|mutation|unit)/)'
    keep step guest-soc 6300 tests/guest/check.sh soc
    together
}

# fuzzer NAME SECONDS: one test, which keeps what it finds beside the build.
fuzzer() {
    ninja -C "$NPU_BUILD" "fuzz_$1"
    (cd "$NPU_BUILD" && "$NPU_TOP/tests/fuzz/run.sh" "$NPU_BUILD/bin" "$1" "$2" "$NPU_BUILD/corpus-$1") &&
        echo "1 passed, 0 failed"
}
# Random networks for so many seconds; those that fail are left beside the build.
random_networks() {
    ninja -C "$NPU_BUILD" fuzz_nets &&
        "$NPU_BUILD/bin/fuzz_nets" --seconds "$1" --salt "$(date)" --out "$NPU_BUILD" &&
        echo "1 passed, 0 failed"
}
export -f fuzzer random_networks

deep() {
    local seconds=$((${MINUTES:-60} * 60))
    prepare
    UNSEEN='^(man/|README|CONTRIBUTING|LICENSE|kernel/|tests/(env|guest|qemu)/)'
    sanitize_address
    sanitize_thread
    step deep-networks 7200 "$NPU_PYTHON" tests/conformance/run_nets.py --full
    step deep-networks-guest 7200 "$NPU_PYTHON" tests/conformance/run_nets.py --full --guest
    step deep-exact 14400 tests/env/test_exact.sh deep
    step deep-debug 14400 tests/guest/check.sh deep
    step deep-stock 7200 tests/guest/check.sh deep-stock
    step deep-iommu 7200 tests/guest/check.sh deep-iommu
    step deep-virt 7200 tests/guest/check.sh deep-virt
    step deep-soc 14400 tests/guest/check.sh deep-soc
    step deep-soc-networks 7200 "$NPU_PYTHON" tests/conformance/run_nets.py --quick --guest --board soc
    step deep-pages 14400 tests/guest/check.sh deep-pages
    step deep-fuzz-bmodel $((seconds + 600)) fuzzer bmodel "$seconds"
    step deep-fuzz-onnx $((seconds + 1800)) fuzzer onnx "$seconds"
    step deep-fuzz-nets $((seconds + 600)) random_networks "$seconds"
    step deep-fuzz-chip $((seconds + 600)) fuzzer chip "$seconds"
    step deep-fuzz-kernel $((seconds + 1200)) make -s fuzz-kernel SECONDS="$seconds"
    step deep-image 10800 image
    step deep-tidy 7200 scripts/tidy.sh
    step deep-mutants 14400 scripts/mutate.py --since "${SINCE:-HEAD~1}"
}

$MODE

echo
for i in "${!failures[@]}"; do
    echo "failed: ${failures[$i]}"
    culprits "${logs[$i]}"
done
[ ${#kept[@]} -eq 0 ] || echo "not run again (make check ALL=1 does): ${kept[*]}; their output: $NPU_CACHE/passed"
[ -z "$not_built" ] || echo "not built: $not_built"
echo "logs: $LOGS, $((SECONDS - started)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
