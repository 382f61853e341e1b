#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the samples on handwritten digits: each has to read three of them as their labels say. run.sh BIN_DIR DIGITS_DIR
# SAMPLE...
set -eu
bin=$1 digits=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/npuc" -q "$digits/digits.onnx" -o "$work/digits.bmodel"
failed=0
for sample; do
	for index in 0 7 23; do
		label=$(od -An -tu1 -j$((16 + index)) -N1 "$digits/test_labels.bin" | tr -d ' ')
		if ! answer=$("$bin/$sample" "$work/digits.bmodel" "$digits/test_images.bin" $index 2>"$work/log"); then
			cat "$work/log"
			answer=nothing
		fi
		[ "$answer" = "$label" ] && continue
		echo "$sample: picture $index is a $label, the answer was $answer"
		failed=1
	done
done
exit $failed
