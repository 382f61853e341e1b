#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the Debian packages that a purpose needs. Does nothing (in milliseconds) when all of them are installed.
# Everything that is not a package of the system goes to the cache: docs/develop/environment.md.
#
#   setup.sh [SET...]           install the missing packages (as root, or with sudo); without a set: check
#   setup.sh --missing SET...   only list the missing packages; status 1 if there are any
#   setup.sh --list [SET...]    print packages and their purpose
#   setup.sh --sets             print the sets: name, number of packages, purpose
#
# Sets: sim, board, build, check, full, wheel, package, site, train. Each of the first five contains those before it.

NPU_STEP=setup
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# set | purpose | the sets that it contains
sets() {
    cat <<'LIST'
sim|libraries, compiler, tools and the chip model in the process (make demo BOARD=sim)|
board|QEMU and the driver for the emulated board (make demo)|sim
build|all tests are compiled (make build)|sim board
check|all tests of make check run|sim board build wheel
full|sanitizers, debug kernels, arm64 boards, packages (make check-full)|sim board build check wheel package site
wheel|the self-contained wheel (make wheel)|sim
package|Debian packages, wheels and images (make deb, make release)|sim wheel
site|the documentation as web pages (make site)|
train|training of the example network|
LIST
}

# package | set | purpose; A/B: the first that the release has; A/-: a release that does not have A does without
packages() {
    cat <<'LIST'
build-essential|sim|C and C++ compilers, make
cmake|sim|configures libraries, tools and tests
ninja-build|sim|runs the builds of CMake and QEMU
pkg-config|sim|finds libraries
libdrm-dev|sim|DRM headers for libnpu and the guest tests
liburing-dev|sim|asynchronous submission through io_uring
libdnnl-dev|sim|fast compute back end of the chip model (oneDNN)
libonnx-dev|sim|ONNX format, for the compiler
protobuf-compiler|sim|ONNX format, for the compiler
libprotobuf-dev|sim|ONNX format, for the compiler
flatbuffers-compiler|sim|bmodel format
libflatbuffers-dev|sim|bmodel format
libmd-dev|sim|checksums in bmodel files
libncurses-dev|sim|live view of npu-smi
libmicrohttpd-dev|sim|exporter of npu-smi
libpng-dev|sim|samples for calibration and inputs (PNG)
libjpeg-dev|sim|samples for calibration and inputs (JPEG)
zlib1g-dev|sim|samples for calibration and inputs (.npz)
nlohmann-json3-dev|sim|JSON output of the tools
python3|sim|generators, npu-vm, QEMU build
python3-dev|sim|native module of the package qnpu
pybind11-dev|sim|native module of the package qnpu
python3-numpy|sim|arrays of the package qnpu; reference results in tests
python3-venv|board|QEMU build
libglib2.0-dev|board|QEMU build
libpixman-1-dev|board|QEMU build
libfdt-dev|board|QEMU build
libattr1-dev|board|shared folders of the emulated board (9p)
libcap-ng-dev|board|shared folders of the emulated board (9p)
seabios|board|firmware of the emulated board
qemu-system-data|board|firmware of the emulated board
busybox-static|board|user space of the emulated board
cpio|board|initial file system of the emulated board
kmod|board|modules of the emulated board
xz-utils|board|archives of QEMU and kernels
zstd|board|kernel images of Debian 13
bc|board|build of the driver
libelf-dev|board|build of the driver
ccache|build|keeps compiled files between build folders and checkouts
git|build|finds changed files
libcmocka-dev|build|unit tests of the C interfaces
libgtest-dev|build|unit tests in C++
libgmock-dev|build|unit tests in C++
gcc-multilib|build|32-bit tests of the ABI
g++-multilib|build|32-bit tests of the ABI
clang|build|fuzzers
libclang-rt-dev/libclang-rt-14-dev|build|fuzzers
clang-format|check|source style
libonnx-testdata|check|conformance tests of ONNX
python3-setuptools|wheel|the package qnpu by pip
python3-wheel|wheel|the package qnpu by pip
python3-pip|wheel|the package qnpu by pip
patchelf|wheel|run paths of the files of a wheel and of the package qnpu-board
python3-mypy|check|types of the package qnpu
python3-pyte|check|terminal in which the live view of npu-smi is tested
tmux|check|terminal in which the live view of npu-smi is tested
python3-jsonschema|check|schemas of the tools' JSON output
python3-prometheus-client|check|reads the output of npu-smi's exporter
python3-yaml|check|reads the examples in YAML of the documentation
lld|full|links sanitizer builds in a quarter of the time; 32-bit programs of arm64 boards
llvm|full|readable stacks in sanitizer reports
dwarves|full|debug kernels
gdb|full|debugging session of the driver (npu-vm --gdb)
gcovr|full|coverage of the driver (make coverage)
bison|full|debug kernels
flex|full|debug kernels
libssl-dev|full|debug kernels
binutils-aarch64-linux-gnu|full|programs and modules of arm64 boards; scripts/sysroot-arm64.sh has the compiler
qemu-user|full|unit tests of programs for arm64 hosts
clang-tidy|full|static checks of the C++ sources (make nightly)
sparse|full|static checks of the driver
coccinelle|full|static checks of the driver
ocaml|full|scripts in Linux's semantic patches, which coccinelle runs
device-tree-compiler|full|tests of the device tree of boards
dt-schema/-|full|checks device trees against the driver's binding
debhelper|package|Debian packages
dh-python|package|Debian package of the package qnpu
dh-dkms|package|Debian package of the driver
lintian|package|checks of Debian packages
mmdebstrap|package|clean systems in which packages are tested; the image
python3-sklearn|train|training of the example network
python3-sphinx|site|the documentation as web pages
python3-myst-parser|site|Markdown of the documentation
furo|site|theme of the documentation's pages
chromium|site|opens the documentation's pages in a test
LIST
    # Debian and others package these two differently; scripts/onnxruntime.sh calls the program.
    command -v node >/dev/null || echo 'nodejs|check|tests of ONNX Runtime in JavaScript'
    command -v npm >/dev/null || echo 'npm|check|downloads ONNX Runtime for the tests of its plug-in'
}

# with_contained SET...: these sets and the sets that they contain, one a line.
with_contained() {
    local name
    for name; do
        sets | awk -F'|' -v name="$name" '$1 == name { found = 1; print $1; n = split($3, more, " ")
            for (i = 1; i <= n; i++) print more[i] } END { exit !found }' ||
            die "unknown set of packages: $name" "known: $(sets | cut -d'|' -f1 | xargs)"
    done | sort -u
}

# list_packages SET...: the packages of these sets, as lines "package|set|purpose".
list_packages() {
    local wanted
    wanted=$(with_contained "$@") || exit 1
    packages | awk -F'|' 'NR == FNR { want[$1] = 1; next } $2 in want' <(echo "$wanted") -
}

# The lines of packages none of whose alternatives is installed.
missing() {
    local installed list
    list=$(list_packages "$@") || exit 1
    installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '$1 == "ii" { print $2 }')
    awk -F'|' 'NR == FNR { have[$1] = 1; next }
        { n = split($1, names, "/"); for (i = 1; i <= n; i++) if (names[i] in have) next; print }' \
        <(echo "$installed") - <<<"$list"
}

# Reads lines of packages, and prints them with the alternative that apt's index has; without those that may be absent.
# An index that was never read has nothing: then the first alternative stands.
choose() {
    local list
    list=$(cat)
    [ -n "$list" ] || return 0
    awk -F'|' -v step="$NPU_STEP" '
        pass == 1 { known[$1] = read = 1; next }
        {
            n = split($1, names, "/")
            name = names[n] == "-" ? "" : names[1]
            for (i = n; i >= 1; i--) if (names[i] in known) name = names[i]
            if (!read) name = names[1]
            if (name != "") print name "|" $2 "|" $3
            else printf "[%s] this release has no package %s (%s)\n", step, names[1], $3 >"/dev/stderr"
        }' pass=1 <(apt-cache pkgnames 2>/dev/null) pass=2 - <<<"$list"
}

install_them() {
    local list=$1 names root=() size
    if [ "$(id -u)" -ne 0 ]; then
        mapfile -t names < <(cut -d'|' -f1 <<<"$list")
        command -v sudo >/dev/null || die "${#names[@]} packages are missing, and only root can install them" \
            "run as root: apt-get install --no-install-recommends ${names[*]}"
        root=(sudo)
    fi
    need_network "to install packages"
    logged "$NPU_CACHE/logs/apt-update.log" "${root[@]}" apt-get -q update
    mapfile -t names < <(choose <<<"$list" 2>/dev/null | cut -d'|' -f1)
    [ ${#names[@]} -gt 0 ] || return 0
    # Status 1: apt-get did not install them.
    size=$({ apt-get --assume-no --no-install-recommends install "${names[@]}" 2>/dev/null || true; } |
        sed -n 's/^Need to get \(.*\) of archives.*/, \1 to download/p')
    say "installing ${#names[@]} packages$size; log: $NPU_CACHE/logs/setup.log"
    logged "$NPU_CACHE/logs/setup.log" "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
        --no-install-recommends "${names[@]}"
}

main() {
    local mode=install list wanted=()
    for argument in "$@"; do
        case $argument in
            --missing | --list | --sets) mode=${argument#--} ;;
            -*) die "unknown argument: $argument" "known: --missing --list --sets, and names of sets" ;;
            *) wanted+=("$argument") ;;
        esac
    done
    if [ "$mode" = sets ]; then
        sets | while IFS='|' read -r name purpose _; do
            printf '%-8s %3d packages  %s\n' "$name" "$(list_packages "$name" | wc -l)" "$purpose"
        done
        return
    fi
    [ ${#wanted[@]} -gt 0 ] || wanted=(check)
    if [ "$mode" = list ]; then
        list_packages "${wanted[@]}" | awk -F'|' '{ printf "%-28s %-8s %s\n", $1, $2, $3 }'
        return
    fi
    command -v dpkg-query >/dev/null || die "this set-up needs a Debian or Ubuntu system: dpkg-query is not here" \
        "on other systems install what 'scripts/setup.sh --list' names, then use cmake"
    list=$(missing "${wanted[@]}" | choose) || exit 1
    if [ -z "$list" ]; then
        say "all packages are installed (${wanted[*]})"
        return
    fi
    say "missing packages (${wanted[*]}):"
    awk -F'|' '{ printf "  %-28s %s\n", $1, $3 }' <<<"$list" >&2
    [ "$mode" != missing ] || exit 1
    install_them "$list"
    list=$(missing "${wanted[@]}" | choose 2>/dev/null)
    [ -z "$list" ] || die "still missing after the installation: $(cut -d'|' -f1 <<<"$list" | xargs)"
    say "all packages are installed (${wanted[*]})"
}

main "$@"
