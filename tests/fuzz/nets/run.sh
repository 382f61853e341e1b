#!/bin/sh
# SPDX-License-Identifier: MIT
# COUNT networks of the sample ($NPU_SAMPLE, by default 0), half as many quantized ones, and as many in 16 bits.
# run.sh BIN_DIR COUNT
set -eu
salt="sample ${NPU_SAMPLE:-0}"
echo "$salt"
"$1/fuzz_nets" --quantized --fresh $(($2 / 2)) --salt "$salt"
"$1/fuzz_nets" --reals --fresh $(($2 / 2)) --salt "$salt"
exec "$1/fuzz_nets" --fresh "$2" --salt "$salt"
