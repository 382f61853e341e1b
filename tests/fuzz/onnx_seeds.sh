#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes the seeds of fuzz_onnx into a directory: the small ones of the oracle's networks. onnx_seeds.sh DIR
set -eu
here=$(dirname "$(readlink -f "$0")")
cases=$(mktemp -d)
trap 'rm -rf "$cases"' EXIT
/usr/bin/python3 "$here/../oracle/gen_nets.py" "$cases" --quick --extra >/dev/null
find "$cases" -name '*.onnx' -size -64k | while read -r file; do
  cp "$file" "$1/$(echo "${file#"$cases"/}" | tr / -)"
done
