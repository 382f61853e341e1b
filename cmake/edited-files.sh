#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Adds the sources that differ from git's last commit, or that git does not have, to a list of paths. The list is
# written only if it grows: unity.cmake compiles its files alone. Without git the list stays as it is.
#
#   edited-files.sh CHECKOUT LIST

top=$1
list=$2
[ -e "$list" ] || : >"$list" || exit
now=$(cd "$top" && {
    git diff --relative --name-only HEAD -- '*.c' '*.cpp'
    git ls-files --others --exclude-standard -- '*.c' '*.cpp'
} 2>/dev/null)
new=$(printf '%s\n' "$now" | grep -v '^$' | grep -vxF -f "$list")
[ -z "$new" ] || printf '%s\n' "$new" >>"$list"
