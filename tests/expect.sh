#!/bin/sh
# SPDX-License-Identifier: MIT
# Passes when a command ends with a status and its output, with a space for each line feed, has an extended regular
# expression: expect.sh STATUS PATTERN COMMAND...
if [ $# -lt 3 ]; then
  echo "usage: expect.sh STATUS PATTERN COMMAND..." >&2
  exit 2
fi
wanted=$1
pattern=$2
shift 2
output=$("$@" 2>&1 </dev/null)
status=$?
printf '%s\n' "$output"
if [ "$status" -ne "$wanted" ]; then
  echo "FAIL: status $status, expected $wanted"
  exit 1
fi
printf '%s\n' "$output" | tr '\n' ' ' | grep -Eq -- "$pattern" && exit 0
echo "FAIL: no match for: $pattern"
exit 1
