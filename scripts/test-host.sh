#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Uses the last commit as a new user of a release would: in a clean system (mmdebstrap) root runs the set-up, then a
# user clones, builds and tries it. As root, or where users may have namespaces. Prints "N passed, N failed".
#
#   test-host.sh RELEASE [STEP...]   bookworm (Debian 12) or trixie (Debian 13); default: sim units
#   test-host.sh --in ROOT ...       what mmdebstrap calls, with the new system
#
# Steps: sim    make demo BOARD=sim
#        units  make build, and every unit test
#        check  make check
#        board  make demo: QEMU, kernel, driver and a boot
#        deb    make deb

NPU_STEP=test-host
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/clean-system.sh
. "$(dirname "$0")/clean-system.sh"

RELEASES=(bookworm trixie)
STEPS=(sim units check board deb)
CLONE=/srv/user/qnpu # in the new system
LOGS=$NPU_BUILD/test-host

# Root installs the packages of these sets before a step.
set_of() {
    case $1 in
        sim) echo sim ;;
        units | check) echo check ;;
        board) echo board ;;
        deb) echo package ;;
    esac
}

set_up() { inside env HOME=/root "$CLONE/scripts/setup.sh" "$1"; }

# As a user who is not root, in the clone.
user() {
    inside chroot --userspec=user:user / env PATH=/usr/local/bin:/usr/bin:/bin HOME=/srv/user \
        NPU_JOBS="$NPU_JOBS" bash -ec "TIMEFORMAT='%R s, %U + %S processor seconds'; cd $CLONE; $1"
}

clone() {
    git clone -q --depth 1 "file://$NPU_TOP" "$ROOT$CLONE"
    inside chown -R user:user /srv/user
}

step_sim() {
    is "the demo needs no root and says nothing of an error" user '
        { time make demo BOARD=sim >../demo.log 2>&1; } 2>../demo.time ||
        { tail -n 30 ../demo.log; exit 1; }; ! grep -iE "error|warning" ../demo.log'
    is "it reads digits" user 'grep -q "[0-9] of [0-9]* .*right" ../demo.log || { tail -n 30 ../demo.log; exit 1; }'
    is "a second demo builds nothing" user 'make demo BOARD=sim >../again.log 2>&1
        ! grep -E "Building|Linking" ../again.log'
    is "the checkout stays clean" user '[ -z "$(git status --porcelain)" ] || { git status --short; exit 1; }'
}

shows_and_fails() { tail -n 40 "$1" && false; }

# Each unit test counts as one.
step_units() {
    local line log=$LOGS/$RELEASE-units.log
    is "all tests are built" user '{ time make build >../build.log 2>&1; } 2>../build.time ||
        { tail -n 30 ../build.log; exit 1; }'
    # The tests with the label ort need ONNX Runtime, which is not a package of Debian.
    user 'ctest --test-dir build -j"$NPU_JOBS" -LE "^ort$" --output-on-failure' >"$log" 2>&1 </dev/null || true
    line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$log") ||
        { is "the unit tests run" shows_and_fails "$log" && return; }
    read -r _ _ _ bad _ _ _ _ all <<<"${line//,/}"
    passed=$((passed + all - bad)) failed=$((failed + bad))
    [ "$bad" -eq 0 ] || sed -n '/^The following tests FAILED/,$p' "$log"
}

# Its own tests are counted.
step_check() {
    local line log=$LOGS/$RELEASE-check.log
    user '{ time make check >../check.log 2>&1; } 2>../check.time || true; cat ../check.log ../check.time' \
        >"$log" 2>&1 </dev/null || true
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    [ -n "$line" ] || { is "make check comes to its end" shows_and_fails "$log" && return; }
    read -r good _ bad _ <<<"$line"
    passed=$((passed + good)) failed=$((failed + bad))
    [ "$bad" -eq 0 ] || tail -n 60 "$log"
}

step_board() {
    is "the demo boots the board and reads digits" user '{ time make demo >../board.log 2>&1; } 2>../board.time ||
        { tail -n 40 ../board.log; exit 1; }; grep -q "[0-9] of [0-9]* .*right" ../board.log'
}

step_deb() {
    is "Debian packages are built, without errors of lintian" user 'make deb >../deb.log 2>&1 ||
        { tail -n 40 ../deb.log; exit 1; }'
}

run_inside() {
    ROOT=$1 RELEASE=$2
    shift 2
    bring_archives
    inside useradd --create-home --home-dir /srv/user user
    # The checkout of a user who clones it.
    is "git is installed" inside sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install git'
    clone
    for step; do
        is "the set-up installs what '$step' needs" set_up "$(set_of "$step")"
        keep_archives
        "step_$step"
    done
    # Prints the time of each command.
    (cd "$ROOT/srv/user" && grep -H . /dev/null ./*.time) || true
    echo "$passed passed, $failed failed" >"$NPU_BUILD/test-host-$RELEASE.result"
}

main() {
    if [ "${1:-}" = --in ]; then
        set +e
        run_inside "${@:2}"
        return
    fi
    local release=${1:-} step
    [[ " ${RELEASES[*]} " = *" $release "* ]] || die "unknown release: '$release'" "known: ${RELEASES[*]}"
    shift
    [ $# -gt 0 ] || set -- sim units
    for step; do
        [[ " ${STEPS[*]} " = *" $step "* ]] || die "unknown step: '$step'" "known: ${STEPS[*]}"
    done
    mkdir -p "$LOGS"
    in_clean_system "$release" "$NPU_BUILD/test-host-$release.result" "$NPU_TOP/scripts/test-host.sh" "$release" "$@"
}

main "$@"
