#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every file has its SPDX line, with the licence of its folder; no file names a path or host of somebody's machine.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
fail() { echo "FAIL $*"; failed=$((failed + 1)); }

while read -r file; do
    case $file in
        *.onnx | *.bin | *.dat | .gitignore | */corpus/*) continue ;;
        kernel/debug.config | kernel/*) want='GPL-2.0-only' ;;
        qemu-device/qemu/*) want='GPL-2.0-or-later' ;;
        *) want='MIT' ;;
    esac
    if ! head -n 5 "$file" | grep -Eq "SPDX-License-Identifier: ($want)( |$)|\"spdx\": \"$want\""; then fail "$file: no SPDX line for $want"; else passed=$((passed + 1)); fi
done < <(git ls-files)

if git grep -nE '/(root|home|work)/[a-z]' -- ':!tests/static/spdx.sh' ':!*.onnx'; then fail "a path of somebody's machine (above)"; else passed=$((passed + 1)); fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
