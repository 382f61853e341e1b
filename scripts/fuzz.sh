#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# One fuzzer for $MINUTES (60); counts as one test. What it finds lies in the build folder.
#
#   fuzz.sh bmodel|onnx|chip|nets|kernel

NPU_STEP=fuzz
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"
[[ ${MINUTES:-60} =~ ^[1-9][0-9]*$ ]] || die "MINUTES is '$MINUTES'" "expected: a number of minutes, 1 or more"
seconds=$((${MINUTES:-60} * 60))

case ${1:-} in
    bmodel | onnx | chip)
        scripts/build.sh "fuzz_$1"
        (cd "$NPU_BUILD" && "$NPU_TOP/tests/fuzz/run.sh" "$NPU_BUILD/bin" "$1" "$seconds" "$NPU_BUILD/corpus-$1")
        ;;
    nets)
        scripts/build.sh fuzz_nets
        for kind in "" --quantized --calibrated --reals; do
            # shellcheck disable=SC2086 # none of them is an argument, too
            "$NPU_BUILD/bin/fuzz_nets" $kind --seconds $((seconds / 4)) --salt "$(date)" --out "$NPU_BUILD"
        done
        ;;
    kernel) make -s fuzz-kernel SECONDS="$seconds" ;;
    *) die "usage: fuzz.sh bmodel|onnx|chip|nets|kernel" ;;
esac
echo "1 passed, 0 failed"
