#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Configures the build folder ($NPU_BUILD) where that is needed: a new folder, another checkout (one that was copied or
# moved has its old paths in it), or options that are not in it yet.
#
#   configure.sh [-DNAME=VALUE...]
#
# CONFIG and UNITY of the environment are CMAKE_BUILD_TYPE and NPU_UNITY; where they are empty, the folder's stay.

NPU_STEP=configure
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

cache=$NPU_BUILD/CMakeCache.txt
options=("$@")
# CMake takes any word, and keeps it.
case ${CONFIG:-} in
    '' | Release | RelWithDebInfo | Debug) ;;
    *) die "CONFIG is '$CONFIG'" "known: Release, RelWithDebInfo, Debug" ;;
esac
case ${UNITY:-} in
    '' | ON | OFF) ;;
    *) die "UNITY is '$UNITY'" "known: ON, OFF" ;;
esac
[ -z "${CONFIG:-}" ] || options+=("-DCMAKE_BUILD_TYPE=$CONFIG")
[ -z "${UNITY:-}" ] || options+=("-DNPU_UNITY=$UNITY")

# has NAME=VALUE: true where the folder is configured with it.
has() { grep -qE "^${1%%=*}:[A-Z]+=${1#*=}\$" "$cache"; }

home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache" 2>/dev/null || true)
built=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$cache" 2>/dev/null || true)
# Paths by symbolic links are the same folder.
if [ -n "$home" ] && ! { [ "$home" -ef "$NPU_TOP" ] && [ "$built" -ef "$NPU_BUILD" ]; }; then
    if [ "$built" -ef "$NPU_BUILD" ] && [ -d "$home" ]; then
        die "$NPU_BUILD is the build folder of another checkout, $home" "set NPU_BUILD to a folder of this checkout"
    fi
    say "$NPU_BUILD was copied or moved from $built, of the checkout $home: configuring from nothing"
    # Objects name the old paths, too.
    find "$NPU_BUILD" -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
fi
# CMake answers this question with the files and tests of each target, for scripts/test.py.
query=$NPU_BUILD/.cmake/api/v1/query/codemodel-v2
if [ -e "$NPU_BUILD/build.ninja" ] && [ -e "$query" ]; then
    changed=no
    for option in "${options[@]}"; do has "${option#-D}" || changed=yes; done
    [ "$changed" = yes ] || exit 0
fi
mkdir -p "${query%/*}"
: >"$query"
say "configuring $NPU_BUILD ${options[*]}"
logged "$NPU_BUILD/configure.log" cmake -S "$NPU_TOP" -B "$NPU_BUILD" -G Ninja -DNPU_WERROR=ON "${options[@]}"
