#!/bin/sh
# SPDX-License-Identifier: MIT
# What each check runs: COUNT networks that follow from the commit, so that each commit has others, and the corpus.
# run.sh BIN_DIR COUNT [--corpus]
set -eu
here=$(dirname "$(readlink -f "$0")")
commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || echo none)
echo "the commit: $commit"
"$1/fuzz_nets" --quantized --fresh $(($2 / 2)) --salt "$commit"
[ "${3:-}" != --corpus ] || set -- "$1" "$2" --corpus "$here/corpus.txt"
bin=$1
count=$2
shift 2
exec "$bin/fuzz_nets" --fresh "$count" --salt "$commit" "$@"
