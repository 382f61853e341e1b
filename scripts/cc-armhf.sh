#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Makes 32-bit programs for arm64 boards: the system's clang and lld, with the headers and static libraries of the
# host release's packages for armhf, which are unpacked into the cache the first time. The board needs nothing of them.
#
#   cc-armhf.sh ARGUMENT...    clang's

NPU_STEP=cc-armhf
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/armhf

# package | what it is for; for any machine, without what they depend on
packages() {
    cat <<LIST
libc6-dev-armhf-cross|C library
linux-libc-dev-armhf-cross|headers of the kernel
libgcc-$(gcc_version)-dev-armhf-cross|what compiled code and its start call
LIST
}

# The list above, what is done with it, and the release that it comes from.
key() { { cat "$0" && host_release; } | hash_of; }

fetch() {
    local root=$1 wanted
    rm -rf "$root"
    mapfile -t wanted < <(packages | cut -d'|' -f1)
    apt_unpack "$root" "${wanted[@]}"
    rm -rf "${root:?}"/usr/share "$root"/usr/lib/gcc-cross/*/*/lib{asan,ubsan,gomp}*
    touch "$root/complete"
    # other checkouts may use others
    ls -dt "$BASE"/*/ | tail -n +4 | xargs -r rm -rf
    say "headers and libraries are in $root"
}

main() {
    local root
    root=$BASE/$(key)
    need_program clang
    need_program ld.lld
    if [ ! -e "$root/complete" ]; then
        cache_lock armhf
        [ -e "$root/complete" ] || fetch "$root"
    fi
    exec clang --target=arm-linux-gnueabihf --sysroot="$root" -fuse-ld=lld -static "$@"
}

main "$@"
