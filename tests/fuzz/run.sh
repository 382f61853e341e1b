#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a fuzzer from its seeds and from the inputs that once failed (corpus/NAME): run.sh BIN_DIR NAME SECONDS
# [CORPUS_DIR] NAME: bmodel, onnx, chip (ASan and UBSan), chip_thread (TSan). With CORPUS_DIR what it finds is kept
# there; a failing input is left in the current directory, and its path printed.
set -eu
if [ $# -lt 3 ]; then
  echo "usage: run.sh BIN_DIR NAME SECONDS [CORPUS_DIR]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
kind=${2%_thread}
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
length=65536
case $kind in
  onnx) "$here/onnx_seeds.sh" "$seeds" ;;
  chip) "$1/chip_seeds" "$seeds" && length=4096 ;;
  *) "$1/${kind}_seeds" "$seeds" ;;
esac
[ ! -e "$here/$2.supp" ] || export TSAN_OPTIONS="suppressions=$here/$2.supp ${TSAN_OPTIONS:-}"
# The chip looks for its fast back end beside itself and here.
export NPU_MODEL_LIBDIR="${NPU_MODEL_LIBDIR:-$1/../lib}"
[ $# -lt 4 ] || mkdir -p "$4"
# Without CORPUS_DIR new inputs go to the first directory, which is the temporary one.
"$1/fuzz_$2" -max_total_time="$3" -max_len=$length -len_control=0 -timeout=60 -print_final_stats=1 ${4:+"$4"} "$seeds" \
    "$here/corpus/$kind"
