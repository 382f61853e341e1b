#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# clang-tidy with the checks of .clang-tidy over the sources that the build compiles (tests excepted). The last line is
# "N passed, N failed".
#
#   tidy.sh             all
#   tidy.sh --tenth N   each tenth file, from the N-th on (0 to 9)
#   tidy.sh FILE...     these

NPU_STEP=tidy
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"
need_program clang-tidy
[ -e "$NPU_BUILD/compile_commands.json" ] || die "no $NPU_BUILD/compile_commands.json" "run: make build"

tenth=
[ "${1:-}" != --tenth ] || { tenth=$2 && shift 2; }
if [ $# -gt 0 ]; then
    files=$(printf '%s\n' "$@")
else
    files=$(git ls-files -- 'qemu-device/model/*.cpp' 'libnpu/*.cpp' 'runtime/*.cpp' 'compiler/*.cpp' 'tools/*.cpp' |
        grep -v '/qemu/')
    [ -z "$tenth" ] || files=$(awk -v tenth="$tenth" 'NR % 10 == tenth' <<<"$files")
fi
[ -n "$files" ] || die "no files"

one() {
    local output
    output=$(clang-tidy --quiet -p "$1" "$2" 2>/dev/null) || { printf 'FAIL %s\n%s\n' "$2" "$output"; }
}
export -f one
result=$(xargs -P "$(nproc)" -I{} bash -c 'one "$0" {}' "$NPU_BUILD" <<<"$files")
echo "$result"
bad=$(grep -c '^FAIL ' <<<"$result" || true)
echo "$(($(wc -l <<<"$files") - bad)) passed, $bad failed"
[ "$bad" -eq 0 ]
