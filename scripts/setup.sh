#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the Debian 12 packages that building, running and testing need. Does nothing (in milliseconds)
# when all are there. What is not a package of the system goes to the cache: docs/environment.md.
#
#   setup.sh           install what is missing (as root, or with sudo)
#   setup.sh --check   only list what is missing; status 1 if something is
#   setup.sh --list    print all packages with their purpose
#   setup.sh --train   also what is needed to train the example network again

NPU_STEP=setup
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# package | what it is for
packages() {
    cat <<'LIST'
build-essential|C and C++ compilers, make
cmake|builds libraries, tools and tests
ccache|keeps compiled files between builds and checkouts
ninja-build|runs the builds of QEMU and CMake
pkg-config|finds libraries
libdrm-dev|DRM headers for libnpu and the guest tests
liburing-dev|asynchronous submission through io_uring
libcmocka-dev|unit tests of the C interfaces
libgtest-dev|unit tests in C++
libgmock-dev|unit tests in C++
libdnnl-dev|fast compute back end of the chip model (oneDNN)
libonnx-dev|ONNX format, for the compiler
protobuf-compiler|ONNX format, for the compiler
libprotobuf-dev|ONNX format, for the compiler
flatbuffers-compiler|bmodel format
libflatbuffers-dev|bmodel format
libmd-dev|checksums in bmodel files
libncurses-dev|live view of npu-smi
libmicrohttpd-dev|exporter of npu-smi
libonnx-testdata|ONNX conformance tests, for the oracle of our tests
libpng-dev|samples for calibration and inputs (PNG)
libjpeg-dev|samples for calibration and inputs (JPEG)
libcli11-dev|command lines of the tools
nlohmann-json3-dev|JSON output of the tools
gcc-multilib|32-bit tests of the ABI
g++-multilib|32-bit tests of the ABI
clang|sanitizers and fuzzers; 32-bit programs of arm64 boards
libclang-rt-14-dev|sanitizers and fuzzers
lld|links what sanitizers are in, in a quarter of the time; 32-bit programs of arm64 boards
llvm-14|readable stacks in sanitizer reports
clang-format|source style
busybox-static|user space of the emulated board
cpio|initial file system of the emulated board
kmod|modules of the emulated board
xz-utils|kernel packages
dwarves|kernel module build
binutils-aarch64-linux-gnu|programs and kernel modules of arm64 boards; scripts/sysroot-arm64.sh has the compiler
bison|kernel and QEMU build
flex|kernel and QEMU build
bc|kernel build
libelf-dev|kernel build
libssl-dev|kernel build
sparse|static checks of the driver
coccinelle|static checks of the driver
ocaml|scripts in the semantic patches of Linux, which coccinelle runs
seabios|firmware of the emulated board
qemu-system-data|firmware of the emulated board
python3|generators, npu-vm, QEMU build
python3-venv|QEMU build
python3-numpy|reference results in tests; arrays of the package qnpu
python3-dev|native module of the package qnpu
pybind11-dev|native module of the package qnpu
python3-setuptools|the package qnpu by pip
python3-wheel|the package qnpu by pip
python3-pip|tests of the package qnpu
python3-mypy|types of the package qnpu
python3-pyte|terminal in which the live view of npu-smi is tested
tmux|likewise, one that people use
python3-jsonschema|JSON of tools is held against its schemas
python3-prometheus-client|reads what the exporter of npu-smi writes
libglib2.0-dev|QEMU build
libpixman-1-dev|QEMU build
zlib1g-dev|QEMU build; samples for calibration and inputs (.npz)
libattr1-dev|shared folders of the emulated board (9p)
libcap-ng-dev|shared folders of the emulated board (9p)
libfdt-dev|QEMU build
device-tree-compiler|tests of the device tree of boards
dt-schema|checks that device trees keep to the driver's binding
debhelper|Debian packages
dh-python|Debian package of the package qnpu
dh-dkms|Debian package of the driver
lintian|checks of Debian packages
mmdebstrap|clean systems in which Debian packages are tried; the image
LIST
    # Debian's and that of others bring them differently; scripts/onnxruntime.sh calls the program.
    command -v node >/dev/null || echo 'nodejs|tests of ONNX Runtime in JavaScript'
    command -v npm >/dev/null || echo 'npm|fetches ONNX Runtime for the tests of its plug-in'
    [ "$TRAIN" = no ] || echo 'python3-sklearn|training of the example network'
}

missing() {
    local installed
    installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '$1 == "ii" { print $2 }')
    packages | awk -F'|' 'NR == FNR { have[$1] = 1; next } !($1 in have)' <(echo "$installed") -
}

install_them() {
    local list=$1 names root=()
    mapfile -t names < <(cut -d'|' -f1 <<<"$list")
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "packages are missing and this user cannot install them" \
            "as root: apt-get install ${names[*]}"
        root=(sudo)
    fi
    say "installing ${#names[@]} packages; log: $NPU_CACHE/logs/setup.log"
    logged "$NPU_CACHE/logs/apt-update.log" "${root[@]}" apt-get -q update
    logged "$NPU_CACHE/logs/setup.log" "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
        --no-install-recommends "${names[@]}"
}

main() {
    local mode=install list
    TRAIN=no
    for argument in "$@"; do
        case $argument in
            --check | --list) mode=${argument#--} ;;
            --train) TRAIN=yes ;;
            *) die "unknown argument: $argument" "known: --check --list --train" ;;
        esac
    done
    [ "$mode" != list ] || { packages | column -t -s'|'; return; }
    command -v dpkg-query >/dev/null || die "this set-up is made for Debian 12, and dpkg is not here"
    list=$(missing)
    if [ -z "$list" ]; then
        say "all packages are installed"
        return
    fi
    say "missing packages:"
    awk -F'|' '{ printf "  %-22s %s\n", $1, $2 }' <<<"$list" >&2
    [ "$mode" != check ] || exit 1
    install_them "$list"
    list=$(missing)
    [ -z "$list" ] || die "still missing after the installation: $(cut -d'|' -f1 <<<"$list" | xargs)"
    say "all packages are installed"
}

main "$@"
