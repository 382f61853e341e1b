#!/bin/sh
# SPDX-License-Identifier: MIT
# COUNT networks that follow from the commit, so that each commit has others, and half as many quantized ones.
# run.sh BIN_DIR COUNT
set -eu
here=$(dirname "$(readlink -f "$0")")
commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || echo none)
echo "the commit: $commit"
"$1/fuzz_nets" --quantized --fresh $(($2 / 2)) --salt "$commit"
exec "$1/fuzz_nets" --fresh "$2" --salt "$commit"
