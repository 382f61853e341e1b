#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Formats all C and C++ but what follows another style (kernel/, qemu-device/qemu/, uapi/drm/) or is generated.
#
#   format.sh                     formats the files
#   format.sh --check [FILE...]   only names those that differ; the last line is "N passed, N failed"

NPU_STEP=format
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

# Versions format differently. Status 75: another one is here than the sources are formatted with.
VERSION=14
program=clang-format-$VERSION
type "$program" >/dev/null 2>&1 || program=clang-format
need_program "$program"
found=$("$program" --version) || die "$program does not run"
grep -q " version $VERSION\." <<<"$found" || {
    echo "[format] clang-format $VERSION is needed (that of Debian 12), this is: $found" >&2
    exit 75
}

sources() {
    git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' |
        grep -vE '^(kernel|qemu-device/qemu|uapi/drm|tests/env/sick)/' |
        grep -vE '^uapi/hw/npu_(isa\.hp?p?|regs\.h|operands\.hpp|hw_params\.h)$' |
        while read -r file; do [ ! -e "$file" ] || echo "$file"; done
}

files=$(sources) || die "git does not list the sources of this checkout"
[ -n "$files" ] || die "no sources to format"
if [ "${1:-}" != --check ]; then
    xargs "$program" -i <<<"$files"
    exit 0
fi
shift
# Only those of the files that were named.
[ $# -eq 0 ] || files=$(grep -xF -f <(printf '%s\n' "$@") <<<"$files" || true)
# A complaint begins with FILE:LINE:COLUMN. A clang-format that does not run has no complaints, and is a failure.
complaints=$(xargs -r -P "$(nproc)" -n 40 "$program" --dry-run -Werror <<<"$files" 2>&1) && status=0 || status=$?
differing=$(sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: error: .*/\1/p' <<<"$complaints" | sort -u)
[ "$status" -eq 0 ] || [ -n "$differing" ] || die "clang-format ended with status $status" "$complaints"
for file in $differing; do echo "FAIL $file is not formatted: make format"; done
bad=$(grep -c . <<<"$differing" || true)
echo "$(($(grep -c . <<<"$files" || true) - bad)) passed, $bad failed"
[ "$bad" -eq 0 ]
