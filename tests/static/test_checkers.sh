#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A checker that cannot do its work has failed: each is run here without the tool or the files that it needs.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# test_of NAME COMMAND...: the command has to succeed.
test_of() {
    if "${@:2}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1" >&2
    fi
}
not() { ! "$@"; }

# without PROGRAM COMMAND...: with a program of that name which only fails.
without() {
    printf '#!/bin/sh\nexit 127\n' >"$work/$1"
    chmod +x "$work/$1"
    PATH=$work:$PATH "${@:2}" >/dev/null 2>&1
    local status=$?
    rm "$work/$1"
    return $status
}

test_of "spdx.py needs git" not without git tests/static/spdx.py
test_of "format.sh needs git" not without git scripts/format.sh --check
# Status 75 stands for another version, which is no failure: what does not run has to end with another status.
ends_with() { "${@:2}"; [ $? -eq "$1" ]; }
test_of "format.sh needs clang-format" ends_with 1 without clang-format-14 scripts/format.sh --check

# A build folder in which every object needs nothing but libc, so that only ldd makes a difference.
mkdir -p "$work/build/bin" "$work/build/lib"
objects=$(sed -nE 's/^ *\("((bin|lib)\/[^"]+)", .*/\1/p' tests/static/arrows.py)
for object in $objects; do ln -s "$(type -P true)" "$work/build/$object"; done
test_of "arrows.py reads the objects of a build" tests/static/arrows.py "$work/build" >/dev/null
test_of "arrows.py needs ldd" not without ldd tests/static/arrows.py "$work/build"
rm "$work/build/lib/libqnpu_ep.so" "$work/build/lib/libqnpu_ort.so"
test_of "arrows.py wants the plug-in" not tests/static/arrows.py "$work/build" >/dev/null
touch "$work/build/build.ninja"
test_of "arrows.py: a build without ONNX Runtime" tests/static/arrows.py "$work/build" >/dev/null
ln -sf "$PWD/LICENSE" "$work/build/bin/npuc"
test_of "arrows.py refuses what is no program" not tests/static/arrows.py "$work/build" >/dev/null

# In a folder without any checker: the shell's only line about each is shown.
mkdir -p "$work/tests/static"
cp tests/static/all.sh "$work/tests/static/"
test_of "all.sh shows an error of one line" \
    grep -q 'tests/static/spdx.py: ' <<<"$("$work/tests/static/all.sh" 2>/dev/null)"

# shellcheck source=tests/static/newest.sh
. tests/static/newest.sh
complaints() { [ -n "$("$@" 2>/dev/null)" ]; }
mkdir -p "$work/scripts/coccinelle"
KSOURCE=$work
test_of "no semantic patch is not counted" not complaints newest_coccicheck
printf 'virtual report\n' >"$work/scripts/coccinelle/one.cocci"
coccicheck_one() { :; }
test_of "a semantic patch is counted" [ "$(newest_coccicheck)" = "semantic patches: 1" ]
CHECKPATCH=$work/absent
test_of "checkpatch that is not there is a complaint" complaints checkpatch kernel/qnpu_mmu.c
printf 'exit 0;\n' >"$work/silent"
CHECKPATCH=$work/silent
test_of "checkpatch that says nothing is a complaint" complaints checkpatch kernel/qnpu_mmu.c

test_of "expect.sh: status and text" tests/expect.sh 3 'a b' sh -c 'echo a; echo b; exit 3' >/dev/null
test_of "expect.sh: another status" not tests/expect.sh 0 'a b' sh -c 'echo a; echo b; exit 3' >/dev/null
test_of "expect.sh: another text" not tests/expect.sh 0 'b a' sh -c 'echo a; echo b' >/dev/null

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
