#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# All static checks that need no build. Each prints its failures; the last line is "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
names=()

# run NAME COMMAND...: one check; its own count is added where it has one.
run() {
    local output status last
    output=$("${@:2}" 2>&1)
    status=$?
    if [ $status -eq 75 ]; then
        echo "not available here: $output"
        return
    fi
    last=$(tail -n 1 <<<"$output")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        [ $status -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
        output=${output%"$last"} output=${output%$'\n'}
    elif [ $status -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    [ $status -ne 0 ] || return 0
    echo "== $1 failed: ${*:2}"
    echo "$output"
    names+=("failed: static.$1: ${*:2}")
}

run generated-files uapi/hw/generate.py --check
run licences tests/static/spdx.py
run includes tests/static/includes.py
run format scripts/format.sh --check
run lines tests/static/lines.py
run figures tests/static/figures.py
run races scripts/plant.py --check
run site scripts/site.py --check
run steps tests/static/steps.py
run step-table scripts/check.py table
run checkers tests/static/test_checkers.sh
run setup tests/static/test_setup.py
run upstream tests/static/test_upstream.py
run syzkaller tests/static/syzkaller.py
[ ${#names[@]} -eq 0 ] || printf '%s\n' "${names[@]}"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
