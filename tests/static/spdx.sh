#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every file has its SPDX line, with the licence of its folder; no file names a path or host of somebody's machine.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
files=$(git ls-files) && [ -n "$files" ] || { echo "FAIL: git does not list the files of this checkout"; exit 1; }
fail() { echo "FAIL $*"; failed=$((failed + 1)); }

while read -r file; do
    case $file in
        LICENSES/* | *.onnx | *.bin | *.dat | .gitignore | */corpus/*) continue ;;
        debian/changelog | debian/source/format) continue ;; # formats without comments
        kernel/* | tests/races/driver/*) want='GPL-2.0-only' ;;
        qemu-device/qemu/*) want='GPL-2.0-or-later' ;;
        *) want='MIT' ;;
    esac
    if ! head -n 5 "$file" | grep -Eq "SPDX-License-Identifier: ($want)( |$)|\"spdx\": \"$want\""; then
        fail "$file: no SPDX line for $want"
    else
        passed=$((passed + 1))
    fi
done <<<"$files"

git grep -nE '/(root|home|work)/[a-z]' -- ':!tests/static/spdx.sh' ':!*.onnx'
case $? in
    0) fail "a path of somebody's machine (above)" ;;
    1) passed=$((passed + 1)) ;; # none; another status is git's own failure
    *) fail "git grep does not work" ;;
esac
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
