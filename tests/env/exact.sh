# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the tests of exact boards share; sourced. Makes $WORK, which is gone at the end.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
set +e

VM=$NPU_TOP/tools/npu-vm
WORK=$(mktemp -d)
BUSY=()
trap 'at_ease; rm -rf "$WORK"' EXIT
passed=0
failed=0

check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
    fi
}

busy() {
    for _ in 1 2 3 4; do
        sh -c 'while :; do :; done' &
        BUSY+=($!)
    done
}

at_ease() {
    [ ${#BUSY[@]} -eq 0 ] || kill "${BUSY[@]}"
    BUSY=()
}
