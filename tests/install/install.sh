#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs a build below a temporary DESTDIR, and uses it from there as a stranger would: programs are compiled by
# pkg-config, and everything runs without the build tree and the checkout. Prints "N passed, N failed".
#
#   install.sh BUILD CHECKOUT TOOL...

build=$1 top=$2
shift 2
[ $# -gt 0 ] || { echo "install.sh: no tools are named"; exit 1; }
tools=("$@")
prefix=/opt/qnpu
dest=$(mktemp -d) || exit 1
trap 'rm -rf "$dest"' EXIT
passed=0 failed=0

# is WHAT COMMAND...
is() {
    local what=$1 out
    shift
    if out=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'not ok: %s\n%s\n' "$what" "$out"
    fi
}

DESTDIR=$dest cmake --install "$build" --prefix $prefix >"$dest.log" 2>&1 ||
    { cat "$dest.log"; rm -f "$dest.log"; echo "0 passed, 1 failed"; exit 1; }
rm -f "$dest.log"
root=$dest$prefix
export PKG_CONFIG_PATH=$root/lib/pkgconfig

# Nothing from the environment of the build: the simulator is what is installed, or nothing.
clean() { env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$root/lib" NPU_DEVICE=sim NPU_SIM=backend=reference "$@"; }

pages=("${tools[@]/#/share/man/man1/}")
for file in "${tools[@]/#/bin/}" "${pages[@]/%/.1}" include/bmlib_internal.h \
    lib/libbmrt.so.1.0 \
    lib/cmake/qnpu/qnpu-config.cmake lib/cmake/libsophon/libsophon-config.cmake \
    share/doc/qnpu/LICENSE share/qnpu/npu-smi.schema.json \
    share/doc/qnpu/LICENSES/GPL-2.0-only.txt include/bmlib_runtime.h include/bmlib_not_supported.h include/npu.h \
    include/npu_async.hpp include/npu_accel.h \
    include/bmruntime_interface.h include/bmruntime_legacy.h include/bmdef.h lib/libnpu.so lib/libnpu.so.1 \
    lib/libbmlib.so lib/libbmlib.so.0 lib/libnpurt.so lib/libnpurt.so.1 lib/libbmrt.so \
    lib/qnpu/libnpu-sim.so lib/qnpu/libnpu-onednn.so lib/qnpu/libnpuc.so lib/libnpumodel.so.1 \
    lib/pkgconfig/npu.pc lib/pkgconfig/bmlib.pc lib/pkgconfig/npurt.pc lib/pkgconfig/bmrt.pc \
    lib/udev/rules.d/60-qnpu.rules \
    share/doc/qnpu/CHANGELOG.md share/doc/qnpu/LICENSES/CC-BY-4.0.txt \
    share/man/man3/bm_memcpy_s2d.3 share/man/man3/npu_submit.3 share/man/man3/npu_async_submit.3 \
    share/man/man3/bmrt_launch_tensor_ex.3; do
    is "$file is installed" test -s "$root/$file"
done

# The tree holds nothing else that runs or could be linked with.
is "no test program, no static library" sh -c \
    "! find '$root' -name '*test*' ! -name 'bmrt_test*' ! -name '*.schema.json' ! -name testing.md -o -name '*.a' |
        grep ."
is "no internal header" sh -c "! find '$root/include' -name 'npu_*internal*' -o -name '*private*' | grep ."
is "no path of the build tree" sh -c \
    "! grep -rl --include='*.pc' --include='*.h' --include='*.3' -e '$build' -e '$top' '$root' | grep ."
is "no run path of the build tree" sh -c \
    "for f in '$root'/lib/*.so '$root'/lib/qnpu/*.so '$root'/bin/*; do
        readelf -d \"\$f\" | grep -E 'R(UN)?PATH' | grep -v '\\[\\\$ORIGIN'
    done | grep . && exit 1; exit 0"
is "links lead to what is there" sh -c "! find '$root' -xtype l | grep ."

# Names in the libraries: what programs record, and versions of symbols.
is "every library of the public folder has a soname" sh -c \
    "for f in '$root'/lib/*.so*; do
        readelf -d \"\$f\" | grep -q SONAME || echo \"\$f\"
    done | grep . && exit 1; exit 0"
is "a manual page for each program, and no others" sh -c \
    "ls '$root/bin' >'$dest/names' && ls '$root/share/man/man1' | sed 's/\.1\$//' | diff '$dest/names' -"
is "one udev rule" sh -c "[ \$(ls '$root/lib/udev/rules.d' | wc -l) = 1 ]"
soname() { readelf -d "$root/lib/$1" | grep -q "SONAME.*\[$2\]"; }
is "soname of libnpu" soname libnpu.so libnpu.so.1
is "soname of libbmlib" soname libbmlib.so libbmlib.so.0
is "soname of libbmrt" soname libbmrt.so libnpurt.so.1
for symbol in libnpu.so:npu_submit@@NPU_1.0 libbmlib.so:bm_memcpy_s2d@@BMLIB_1.0 libbmrt.so:bmrt_create@@NPURT_1.0; do
    is "${symbol#*:}" sh -c "nm -D '$root/lib/${symbol%%:*}' | grep -q ' T ${symbol#*:}\$'"
done

# A program in C and in C++, for BMLIB and for the runtime under both of its names.
cc=${CC:-cc} cxx=${CXX:-c++} strict='-Wall -Wextra -pedantic -Werror'
is "a C program compiles" sh -c \
    "$cc -std=c99 $strict '$top/tests/abi/user.c' -o '$dest/user-c' \$(pkg-config --cflags --libs bmlib)"
is "a C program runs" clean "$dest/user-c"
is "a C++ program compiles" sh -c \
    "$cxx -x c++ -std=c++11 $strict '$top/tests/abi/user.c' -o '$dest/user-c++' \$(pkg-config --cflags --libs bmlib)"
is "a C++ program runs" clean "$dest/user-c++"
cat >"$dest/rt.c" <<'C'
#include <bmruntime_interface.h>
int main(void) {
  bm_handle_t h;
  if (bm_dev_request(&h, 0)) return 1;
  void *rt = bmrt_create(h);
  bmrt_destroy(rt);
  bm_dev_free(h);
  return !rt;
}
C
for package in npurt bmrt; do
    is "a program of the runtime compiles by $package" sh -c \
        "$cc '$dest/rt.c' -o '$dest/rt' \$(pkg-config --cflags --libs $package bmlib)"
    is "a program of the runtime runs by $package" clean "$dest/rt"
done
is "a program compiles with the vendor's names" sh -c \
    "$cc -I'$root/include' '$dest/rt.c' -o '$dest/rt' -L'$root/lib' -lbmrt -lbmlib -Wl,-rpath-link,'$root/lib' \
        \$(pkg-config --cflags --libs-only-L libdrm)"
is "and runs" clean "$dest/rt"

# libnpu's header and flags are for C99 and for static checks as strict as they come; libdrm is nobody's to link with.
printf '#include <npu.h>\nint main(void) { return npu_device_count() < 0; }\n' >"$dest/npu.c"
is "npu.h compiles as C99, pedantic" sh -c \
    "$cc -std=c99 -Wall -Wextra -pedantic -Werror '$dest/npu.c' -o '$dest/npu' \$(pkg-config --cflags --libs npu)"
is "pkg-config does not link with libdrm" sh -c "! pkg-config --libs npurt | grep -q drm"

# The name that programs have recorded which were linked with the vendor's library.
vendors_name() {
    $cc -c "$dest/rt.c" -o "$dest/rt.o" $(pkg-config --cflags bmrt) &&
        nm -u "$dest/rt.o" | awk '$2 ~ /^bmrt_/ { print "void " $2 "(void) {}" }' >"$dest/stubs.c" &&
        grep -q bmrt_create "$dest/stubs.c" &&
        $cc -shared -o "$dest/libbmrt.so" -Wl,-soname,libbmrt.so.1.0 "$dest/stubs.c" &&
        $cc "$dest/rt.o" -o "$dest/prebuilt" "$dest/libbmrt.so" "$root/lib/libbmlib.so" -Wl,-rpath-link,"$root/lib" &&
        readelf -d "$dest/prebuilt" | grep -q 'NEEDED.*libbmrt.so.1.0' && clean "$dest/prebuilt"
}
is "a program that wants libbmrt.so.1.0 runs" vendors_name

# CMake, in the words of the vendor's users and in our own.
by_cmake() {
    mkdir "$dest/cmake-$1" && cat >"$dest/cmake-$1/CMakeLists.txt" && cp "$dest/rt.c" "$dest/cmake-$1/" &&
        cmake -S "$dest/cmake-$1" -B "$dest/cmake-$1/build" -DCMAKE_PREFIX_PATH="$root" &&
        cmake --build "$dest/cmake-$1/build" && clean "$dest/cmake-$1/build/rt"
}
is "find_package(libsophon)" by_cmake libsophon <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(rt C)
find_package(libsophon REQUIRED)
include_directories(${LIBSOPHON_INCLUDE_DIRS})
link_directories(${LIBSOPHON_LIB_DIRS})
add_executable(rt rt.c)
target_link_libraries(rt ${the_libbmlib.so} ${the_libbmrt.so})
CMAKE
is "find_package(qnpu)" by_cmake qnpu <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(rt C)
find_package(qnpu 0.1 REQUIRED)
add_executable(rt rt.c)
target_link_libraries(rt qnpu::bmrt)
CMAKE

# The simulator that it uses is the installed one, however the library was found.
uses_installed_sim() { clean env LD_DEBUG=files "$@" 2>&1 | grep -o '/[^ ]*libnpu-sim.so' | sort -u |
    grep -qx "$root/lib/qnpu/libnpu-sim.so"; }
is "the simulator of the library" uses_installed_sim "$dest/user-c"
mkdir "$dest/elsewhere" && ln -s "$root"/lib/libnpu.so.1 "$root"/lib/libbmlib.so.0 "$dest/elsewhere/"
found_by_links() { env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$dest/elsewhere" NPU_DEVICE=sim \
    NPU_SIM=backend=reference "$dest/user-c"; }
is "the simulator when the library was found by a link" found_by_links

# All tools tell their version, and wrong options from other failures.
for program in "${tools[@]}"; do
    is "$program --version" sh -c "env -i '$root/bin/$program' --version | grep -qx '$program [0-9]*\.[0-9]*\.[0-9]*'"
    is "$program: a wrong option is status 2" sh -c \
        "env -i '$root/bin/$program' --no-such-option 2>/dev/null; [ \$? = 2 ]"
    is "$program names a wrong option, or shows which there are" sh -c \
        "env -i '$root/bin/$program' --no-such-option 2>&1 | grep -qE -- '--no-such-option|^usage:'"
done

# Tools find their libraries without help.
tool() { env -i PATH=/usr/bin:/bin NPU_DEVICE=sim NPU_SIM=backend=reference "$@"; }
is "npu-smi runs" tool "$root/bin/npu-smi" --json
is "npuc compiles a network" tool "$root/bin/npuc" "$top/networks/digits/digits.onnx" -o "$dest/digits.bmodel" -q
is "a network has a name" sh -c "env -i '$root/bin/npuc' model.onnx -o out.bmodel --name '' 2>&1 | grep -q -- --name"
is "bmrt_test runs it" tool "$root/bin/bmrt_test" --bmodel "$dest/digits.bmodel"

# The package for Python finds libraries and compiler where they are installed.
python() { tool env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/lib/python3/dist-packages" /usr/bin/python3 "$@"; }
is "Python compiles and runs it" python -c "
import numpy, qnpu
from qnpu import compiler
assert compiler.program('npuc') == '$root/bin/npuc', compiler.program('npuc')
with qnpu.Session('$top/networks/digits/digits.onnx') as session:
    session.run(numpy.zeros((1, 1, 8, 8), numpy.float32))
    with open('/proc/self/maps') as maps:
        ours = {line.split()[-1] for line in maps if 'libnpu' in line}
assert ours and all(path.startswith('$root/lib/') for path in ours), ours
"

# The runtime compiles for shapes that no stage has, by the compiler beside it; without that it says so, and stages run
# as ever.
"$top/tests/oracle/gen_nets.py" "$dest/nets" --only 'relu_*' >"$dest.log" 2>&1 || cat "$dest.log"
rm -f "$dest.log"
is "npuc compiles a dynamic network" tool "$root/bin/npuc" "$dest/nets/relu_1x5x7x9/open.onnx" --shape x0=2,5,7,9 \
    --dynamic -o "$dest/dynamic.bmodel" -q
other_shape() { tool "$root/bin/bmrt_test" --bmodel "$dest/dynamic.bmodel" --net_idx 0 --shapes '[1,3,2,2]' 2>&1; }
is "it runs in another shape" other_shape
mv "$root/lib/qnpu/libnpuc.so" "$dest/"
no_compiler() { ! other_shape >"$dest/out" && grep -q \
    "bmrt_launch_tensor: .*the compiler cannot be loaded: .*libnpuc.so" "$dest/out"; }
is "without a compiler it says so" no_compiler
is "its stages need none" tool "$root/bin/bmrt_test" --bmodel "$dest/dynamic.bmodel"
mv "$dest/libnpuc.so" "$root/lib/qnpu/"

# Another folder for libraries, as distributions have it, stays below the prefix; its files know their way.
multiarch() {
    cmake -S "$top" -B "$dest/multiarch" -G Ninja -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu &&
        grep -q 'DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/x86_64-linux-gnu"' "$dest/multiarch/cmake_install.cmake" &&
        grep -qF 'RPATH "\$ORIGIN/../lib/x86_64-linux-gnu"' "$dest/multiarch/cmake_install.cmake" &&
        grep -qx 'prefix=${pcfiledir}/../../..' "$dest/multiarch/pkgconfig/npu.pc"
}
is "CMAKE_INSTALL_LIBDIR on the command line is below the prefix" multiarch

is "it runs with the fast back end, too" env -i PATH=/usr/bin:/bin NPU_DEVICE=sim "$root/bin/bmrt_test" --bmodel \
    "$dest/digits.bmodel"
if command -v man >/dev/null; then
    is "man finds a page of a function" sh -c \
        "MANPATH='$root/share/man' man -P cat 3 bm_memcpy_s2d | grep -q 'copies beyond'"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
