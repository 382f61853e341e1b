#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the packages of `make deb` in a clean Debian of this release and uses them as a stranger would: tools on the
# simulated chip, programs by pkg-config and CMake, the emulated board, the driver by DKMS for Debian's Linux 6.12; then
# upgrades them over themselves, and purges them. As root, or where users may have namespaces. Prints "N passed, N
# failed".
#
#   test-deb.sh            all of it
#   test-deb.sh --in ROOT  what mmdebstrap calls, with the new system

NPU_STEP=test-deb
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=scripts/clean-system.sh
. "$(dirname "$0")/clean-system.sh"

HERE=tmp/qnpu # in the new system

shell() {
    inside sh -ec "cd /$HERE; export NPU_DEVICE=sim EXAMPLES=/usr/share/doc/qnpu-doc/examples
        export DIGITS=\$EXAMPLES/networks/digits; $1"
}
apt() { inside apt-get -q -y -o APT::Keep-Downloaded-Packages=true --no-install-recommends "$@"; }
ours() { (cd "$ROOT" && for name; do ls $HERE/debs/"$name"_*.deb; done) | sed 's|^|/|'; }

# install [OPTION...] -- PACKAGE...: of ours, with what they depend on from Debian. One line a file: no name has blanks.
install() {
    local options=() files
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    mapfile -t files < <(ours "$@")
    [ ${#files[@]} -eq $# ] && apt "${options[@]}" install "${files[@]}"
}

all_packages() { (cd "$ROOT/$HERE/debs" && for file in *.deb; do echo "${file%%_*}"; done); }

# Prints the paths of our files in the system. root's cache is left out: it belongs to the user, not to the packages.
files_of_ours() {
    find "$ROOT" -xdev \( -path "$ROOT/$HERE" -o -path "$ROOT/var/cache" -o -path "$ROOT/var/log" -o \
        -path "$ROOT/root/.cache" \) -prune -o -print | sed "s|^$ROOT||" |
        grep -E '(/|q|lib)npu|bmlib|bmrt|sophon' | sort
}

test_tools() {
    is "libraries and tools are installed" install -- libnpu1 libbmlib0 libbmrt0 libnpumodel1 libnpu-sim libnpuc \
        qnpu-tools qnpu-doc
    is "libraries are in the multiarch folder" shell 'test -e /usr/lib/x86_64-linux-gnu/libnpu.so.1'
    # No compiler is there: what the compiler as a program and as a module need came with them.
    is "npuc compiles the demo's network" shell 'npuc -q $DIGITS/digits.onnx -o digits.bmodel'
    is "bmrt_test runs it" shell 'bmrt_test --bmodel digits.bmodel'
    is "with oneDNN, which is asked for" shell 'NPU_SIM=backend=onednn bmrt_test --bmodel digits.bmodel'
    is "npu-smi shows the simulated card" shell 'npu-smi --json | grep -q utilisation'
    is "a dynamic network is compiled at its launch" shell 'npuc -q open.onnx --shape x0=2,5,7,9 --dynamic \
        -o open.bmodel; bmrt_test --bmodel open.bmodel --net_idx 0 --shapes "[1,3,2,2]"'
    for tool in npuc npu-smi bmrt_test tpu_model npu-asm npu-dump; do
        is "$tool has the version of its package" shell "$tool --version | grep -qx '$tool $VERSION'"
        is "$tool has a page" shell "test -s /usr/share/man/man1/$tool.1.gz"
    done
}

test_programs() {
    is "headers are installed" install -- libqnpu-dev
    is "compilers are installed" apt install gcc g++ cmake make pkg-config
    is "the first program builds with pkg-config" shell 'gcc -Wall -Werror digit.c $(pkg-config --cflags --libs \
        npurt) -o digit'
    # Programs of the guide name files by their paths in a checkout.
    is "and reads a digit" shell 'mkdir networks work; ln -s $DIGITS networks/digits; cp digits.bmodel work/
        ./digit | grep -c "^[0-9]: [01][.]" | grep -qx 10'
    for package in npu bmlib npurt bmrt; do
        is "pkg-config knows $package" shell "pkg-config --modversion $package | grep -qx '$VERSION'"
    done
    is "the examples build with find_package(qnpu)" shell 'cmake -S $EXAMPLES -B examples && cmake --build examples -j2'
    is "the demo reads digits" shell 'examples/digits/digits digits.bmodel $DIGITS >out; grep -q "pictures right" out'
    for sample in context launch_data launch_tensor launch_tensor_ex mapped one_runtime send_api many_runtimes; do
        is "sample $sample reads a digit" shell "label=\$(od -An -tu1 -j23 -N1 \$DIGITS/test_labels.bin | tr -d ' ')
            [ -n \"\$label\" ] && [ \"\$(examples/api/sample_$sample digits.bmodel \$DIGITS/test_images.bin 7)\" = \
            \"\$label\" ]"
    done
    is "a C program builds with find_package(libsophon)" shell 'mkdir sophon; cp digit.c sophon/; cp sophon.cmake \
        sophon/CMakeLists.txt; cmake -S sophon -B sophon/build; cmake --build sophon/build; sophon/build/digit'
    is "the C program of pkg-config also builds for C++, with the standard library" shell 'printf "%s\n" \
        "#include <cstdlib>" "#include <npu_async.hpp>" "int main() { return npu_device_count() < 0; }" >a.cpp
        g++ -std=c++20 a.cpp $(pkg-config --cflags --libs npu) -o a && ./a'
}

test_python() {
    is "the package for Python is installed" install -- python3-qnpu
    is "it compiles the network of digits, and reads them" shell 'python3 classify.py >out
        [ "$(grep -c "^label \([0-9]\): read as \1," out)" -ge 9 ]'
    is "it is in the folder of Debian's Python" shell '[ "$(python3 -c "import qnpu; print(qnpu.__file__)")" = \
        /usr/lib/python3/dist-packages/qnpu/__init__.py ]'
    is "it has the version of its package" shell "python3 -c 'import qnpu; print(qnpu.__version__)' | grep -qx $VERSION"
    is "sophon.sail is there" shell 'python3 -c "import sophon.sail"'
}

# ONNX Runtime comes with programs: without one, the plug-in loads and has its functions. It is one of the packages only
# where the headers were there (scripts/deb.sh).
test_plug_in() {
    ls "$NPU_BUILD"/deb/libqnpu-ep_*.deb >/dev/null 2>&1 || return 0
    is "the plug-in for ONNX Runtime is installed" install -- libqnpu-ep
    is "it loads, and has a provider's functions" shell 'python3 -c "import ctypes, glob
folder, = glob.glob(\"/usr/lib/*/qnpu\")
library = ctypes.CDLL(folder + \"/libqnpu_ep.so\")
library.CreateEpFactories, library.ReleaseEpFactory
ctypes.CDLL(folder + \"/libqnpu_ort.so\")"'
}

# The emulated board boots in the new system. It is one of the packages only where its parts were built.
test_board() {
    ls "$NPU_BUILD"/deb/qnpu-board_*.deb >/dev/null 2>&1 || {
        say "qnpu-board is none of the packages: the emulated board is not tested (make qemu kernel-stock module)"
        return 0
    }
    is "the emulated board is installed" install -- qnpu-board
    is "npu-vm has the version of its package" shell "npu-vm --version | grep -qx 'npu-vm $VERSION'"
    is "it boots, and npu-smi shows the card" shell 'npu-vm -- npu-smi --json | grep -q utilisation'
    is "a user without privileges does, too" shell 'chmod 777 . && runuser -u nobody -- env HOME=$PWD/nobody \
        npu-vm --env NPU_DEVICE=drm -- npu-smi'
    is "the demo reads digits by the driver" shell 'qnpu-demo >demo.log && grep -q "by transport drm" demo.log &&
        grep -q "pictures right" demo.log'
    is "another board is refused with the reason" shell 'npu-vm --board virt -- true 2>err && exit 1
        grep -q "the package qnpu-board has no" err'
    for page in npu-vm qnpu-demo; do is "$page has a page" shell "test -s /usr/share/man/man1/$page.1.gz"; done
}

# The module that DKMS has built for the only kernel that has headers here and can have the driver.
module() {
    shell "set -- \$(ls /lib/modules/*/updates/dkms/qnpu.ko* | grep -v cloud); [ -s \"\$1\" ] && $1"
}

test_driver() {
    local headers=linux-headers-amd64 # those of Linux 6.12
    [ "$(host_release)" != bookworm ] || headers=linux-headers-6.12-amd64
    is "Debian's headers of Linux 6.12 are installed" apt install $headers
    is "the driver's package builds it" install -- npu-dkms
    is "DKMS has it installed" shell 'dkms status qnpu | grep -q "qnpu/.*6\.12.*installed"'
    is "it is a module for that kernel and this card" module 'modinfo -F vermagic "$1" | grep -q "^6\.12\..* " &&
        modinfo -F alias "$1" | grep -q ^pci:'
    # Without DRM_ACCEL, and of Debian 12 also before 6.12: a module that says so, and no failure.
    is "headers of a kernel without it are installed" apt install linux-headers-cloud-amd64
    is "that kernel has a module, too" shell 'set -- /lib/modules/*cloud*/updates/dkms/qnpu.ko*
        modinfo -F description "$1" | grep -q "not for this kernel"'
    is "no package is half configured" shell '[ -z "$(dpkg --audit)" ] && apt-get -q -y -f install'
    is "one udev rule" shell '[ "$(find /usr/lib/udev /etc/udev -name "*npu*.rules" ! -name "*input*")" = \
        /usr/lib/udev/rules.d/60-qnpu.rules ]'
}

test_life() {
    local packages
    mapfile -t packages < <(all_packages)
    is "all packages upgrade over themselves" install --reinstall -- "${packages[@]}"
    is "nothing of theirs is missing or changed" shell "dpkg -V ${packages[*]}"
    is "a program that was linked before runs" shell './digit'
    is "the driver is there again" module true
    is "all packages are purged" apt purge "${packages[@]}"
    is "nothing of theirs is left" sh -c "[ -z '$(files_of_ours)' ] || { echo '$(files_of_ours)'; exit 1; }"
}

# The same commit makes the same bytes, also in another checkout.
test_dist() {
    local first other=$NPU_BUILD/test-deb.clone
    first=$("$NPU_TOP/scripts/dist.sh") || return 1
    cp "$first" "$NPU_BUILD/test-deb.tar.xz"
    rm -rf "$other"
    git clone -q --no-hardlinks "$NPU_TOP" "$other"
    is "make dist makes the same bytes twice, and elsewhere" sh -c "'$NPU_TOP/scripts/dist.sh' &&
        cmp '$first' '$NPU_BUILD/test-deb.tar.xz' && cd '$other' && NPU_BUILD='$other/build' scripts/dist.sh &&
        cmp build/dist/*.tar.xz '$first'"
    rm -rf "$other" "$NPU_BUILD/test-deb.tar.xz"
}

# ROOT: the new system, with nothing but Debian's smallest set of packages.
run_inside() {
    ROOT=$1
    VERSION=$("$NPU_TOP/scripts/dist.sh" --version)
    mkdir -p "$ROOT/$HERE/debs"
    cp "$NPU_BUILD"/deb/*.deb "$ROOT/$HERE/debs/"
    rm -f "$ROOT/$HERE"/debs/*-dbgsym_*
    cp "$NPU_BUILD/test-deb"/* "$ROOT/$HERE/"
    chmod -R a+rX "$ROOT/$HERE"
    bring_archives
    [ -z "$(files_of_ours)" ] || die "the new system is not clean:" "$(files_of_ours)"
    test_dist
    test_tools
    test_programs
    test_python
    test_plug_in
    test_board
    test_driver
    test_life
    inside apt-get autoclean >/dev/null
    keep_archives
    echo "$passed passed, $failed failed" >"$NPU_BUILD/test-deb.result"
}

# What is used in the new system: programs and networks that no package has.
prepare() {
    local work=$NPU_BUILD/test-deb page=docs/guide/first-program.md name
    rm -rf "$work"
    mkdir -p "$work"
    for name in digit.c classify.py; do
        awk -v "end=/$name" '/^```/ { on = index($2, end) && 1; next } on' "$NPU_TOP/$page" >"$work/$name"
        [ -s "$work/$name" ] || die "$page has no program $name"
    done
    cat >"$work/sophon.cmake" <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(digit C)
find_package(libsophon REQUIRED)
include_directories(${LIBSOPHON_INCLUDE_DIRS})
add_executable(digit digit.c)
target_link_libraries(digit ${the_libbmrt.so} ${the_libbmlib.so})
CMAKE
    "$NPU_PYTHON" "$NPU_TOP/tests/oracle/gen_nets.py" "$work/nets" --only 'relu_*' >/dev/null
    cp "$work/nets/relu_1x5x7x9/open.onnx" "$work/"
    rm -rf "$work/nets"
}

main() {
    if [ "${1:-}" = --in ]; then
        set +e
        run_inside "$2"
        return
    fi
    "$NPU_TOP/scripts/deb.sh" --print >/dev/null
    prepare
    in_clean_system "$(host_release)" "$NPU_BUILD/test-deb.result" "$NPU_TOP/scripts/test-deb.sh"
}

main "$@"
