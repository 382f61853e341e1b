#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a fuzzer from its seeds and from the inputs that once failed (corpus/NAME): run.sh BIN_DIR NAME SECONDS [CORPUS_DIR]
# With CORPUS_DIR what it finds is kept there; a failing input is left in the current directory, and its path printed.
set -eu
if [ $# -lt 3 ]; then
  echo "usage: run.sh BIN_DIR NAME SECONDS [CORPUS_DIR]" >&2
  exit 2
fi
here=$(dirname "$0")
known=$here/corpus/$2
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
case $2 in
  onnx) "$here/onnx_seeds.sh" "$seeds" ;;
  *) "$1/$2_seeds" "$seeds" ;;
esac
[ $# -lt 4 ] || mkdir -p "$4"
# Without CORPUS_DIR new inputs go to the first directory, which is the temporary one.
"$1/fuzz_$2" -max_total_time="$3" -max_len=65536 -timeout=20 -print_final_stats=1 ${4:+"$4"} "$seeds" "$known"
