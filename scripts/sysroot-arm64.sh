#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Puts into the cache what arm64 boards need, unpacked, not installed: a system root of the arm64 packages of this
# host's release, with which programs are compiled and whose /usr is the board's, and the compiler. Debian's package of
# that cannot be installed beside gcc-multilib; its assembler and linker can.
# Prints the path of an env file: SYSROOT, COMPILER (folder of aarch64-linux-gnu-gcc and -g++).
#
#   sysroot-arm64.sh [--host]        fetch what is missing, print the env file's path
#   sysroot-arm64.sh [--host] --env  only print the path; fails where it is not in the cache
#
# --host: a system root for arm64 hosts, which also has what the compiler and the chip model are compiled with.

NPU_STEP=sysroot-arm64
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/arm64
TRIPLET=aarch64-linux-gnu
GCC=$(gcc_version)
KIND=board
SUFFIX= # the end of the target's name in the Makefile

# package | what it is for; what they depend on comes along
board_packages() {
    cat <<'LIST'
libc6-dev|C library
libstdc++6|C++ library
libdrm-dev|DRM headers for libnpu and the guest tests
liburing-dev|asynchronous submission through io_uring
libcmocka-dev|unit tests of the C interfaces
libgtest-dev|unit tests in C++
libgmock-dev|unit tests in C++
libflatbuffers-dev|bmodel format
libmd-dev|checksums in bmodel files
libncurses-dev|live view of npu-smi
libmicrohttpd-dev|exporter of npu-smi
nlohmann-json3-dev|JSON output of the tools
libpng-dev|inputs as pictures (PNG)
libjpeg-dev|inputs as pictures (JPEG)
zlib1g-dev|inputs as archives (.npz)
busybox-static|user space of the board
bash|scripts on the board
coreutils|programs that tests call by their paths
util-linux|tests of npu-smi: users, terminals
bsdutils|tests of npu-smi: terminals
ncurses-base|terminals of the board
sysvinit-utils|ends what a command leaves running
python3|scripts on the board
python3-pyte|terminal in which the live view of npu-smi is tested
LIST
}

# package | what it is for, beside the above
host_packages() {
    cat <<'LIST'
libonnx-dev|ONNX format, for the compiler
libprotobuf-dev|ONNX format, for the compiler
LIST
}

# package | what it is for; without what they depend on, which the native compiler has installed
compiler_packages() {
    cat <<LIST
gcc-$GCC-aarch64-linux-gnu|C compiler
cpp-$GCC-aarch64-linux-gnu|its preprocessor
g++-$GCC-aarch64-linux-gnu|C++ compiler
libgcc-$GCC-dev-arm64-cross|compiler's own library
libgcc-s1-arm64-cross|compiler's own library
libstdc++-$GCC-dev-arm64-cross|headers of the C++ library
libstdc++6-arm64-cross|C++ library
LIST
}

names() { "$1" | cut -d'|' -f1; }

# The lists above, what is done with them, and the release that they come from.
key() { { cat "$0" && host_release && echo "$KIND"; } | hash_of; }

# /bin, /lib and /sbin are links into /usr, as on an installed system, and links do not lead out of the folder.
settle() {
    local root=$1 name link target
    mkdir -p "$root"/usr/{bin,lib,sbin}
    for name in bin lib sbin; do
        [ ! -L "$root/$name" ] || continue
        [ ! -d "$root/$name" ] || cp -al "$root/$name/." "$root/usr/$name/"
        rm -rf "${root:?}/$name"
        ln -s "usr/$name" "$root/$name"
    done
    find "$root" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
        ln -sfnr "$root$target" "$link"
    done
}

# The compiler looks for these beside itself.
link_binutils() {
    local bin=$1 name
    mkdir -p "$bin"
    for name in ar as ld ld.bfd nm objcopy objdump ranlib strip; do
        ln -sfn "$(command -v "$TRIPLET-$name")" "$bin/$name"
    done
}

fetch_board() {
    local root=$1 wanted packages
    mapfile -t wanted < <(names board_packages && { [ $KIND = board ] || names host_packages; })
    mapfile -t packages < <(NPU_APT_ARCH=arm64 apt_closure "${wanted[@]}")
    [ ${#packages[@]} -gt 0 ] || die "the archive does not have all of these for arm64: ${wanted[*]}"
    NPU_APT_ARCH=arm64 apt_unpack "$root" "${packages[@]}"
    settle "$root"
    # What an installation does: the board cannot, and its interpreter would compile each module at each start.
    logged "$NPU_CACHE/logs/sysroot-python.log" "$NPU_PYTHON" -m compileall -q -s "$root" \
        "$root"/usr/lib/python3.[0-9]* "$root/usr/lib/python3"
    # Of no use on a board, and half of it.
    rm -rf "$root"/usr/share/{doc,man,info,locale,i18n} "$root"/usr/src
}

fetch_compiler() {
    local root=$1 name wanted
    mapfile -t wanted < <(names compiler_packages)
    NPU_APT_ARCH='' apt_unpack "$root" "${wanted[@]}" # they run here
    link_binutils "$root/usr/$TRIPLET/bin"
    for name in gcc g++; do ln -sfn "$TRIPLET-$name-$GCC" "$root/usr/bin/$TRIPLET-$name"; done
    rm -rf "$root"/usr/share/{doc,man}
}

fetch() {
    local root=$1
    rm -rf "$root"
    need_space 800 "$root"
    mkdir -p "$root"
    fetch_board "$root/sysroot"
    fetch_compiler "$root/compiler"
    printf 'SYSROOT=%s\nCOMPILER=%s\n' "$root/sysroot" "$root/compiler/usr/bin" |
        write_whole "$root/npu.env"
    # other checkouts may use others; each may have one for boards and one for hosts
    ls -dt "$BASE"/*/ | tail -n +6 | xargs -r rm -rf
    say "system root and compiler are in $root"
}

main() {
    local root
    [ "${1:-}" != --host ] || { KIND=host SUFFIX=-host && shift; }
    root=$BASE/$(key)
    if [ ! -e "$root/npu.env" ]; then
        [ "${1:-}" != --env ] || die "the arm64 system root is not in the cache" "run: make build-arm64$SUFFIX"
        need_program "$TRIPLET-as"
        cache_lock arm64
        [ -e "$root/npu.env" ] || fetch "$root"
    fi
    echo "$root/npu.env"
}

main "$@"
