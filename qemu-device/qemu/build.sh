#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds QEMU 10.0 with the NPU device of this directory, in the cache: a binary for each kind of processor, from one
# source tree with a build folder per binary. Prints the path of the binary for x86_64, or of the one for TARGET.
# A change of the device rebuilds in seconds. A change of the chip model rebuilds nothing: the model is a shared
# library that the loader finds when QEMU starts, and QEMU is linked with a stand-in for it (stage_model).
#
#   build.sh [TARGET]          build the binary for TARGET where it is missing, print its path
#   build.sh --print [TARGET]  only print the path; fails where the binary is not built
#   build.sh --plugin NAME     build plugins/NAME.c for it, print the plugin's path; needs the binary
#
# NPU_QEMU_TARBALL=FILE uses a QEMU 10.0 source archive that is already here (its checksum is compared).

NPU_STEP=qemu
# shellcheck source=../../scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"

BASE=$NPU_CACHE/qemu
DEVICE=$NPU_TOP/qemu-device/qemu
FACADE=$NPU_TOP/qemu-device/model/include/npu_model.h
MAP=$NPU_TOP/qemu-device/model/libnpumodel.map

# Source archives whose contents were looked at; another 10.0.x is taken on the word of the archive's signed index.
known_checksum() {
    case $1 in
        qemu_10.0.13+ds.orig.tar.xz) echo 6a0888e806c2ffc0c5f0733e974f9aea55491950d3c47c98669c8b236dde59ae ;;
    esac
}

# The processors that boards have; devices-TARGET.mak lists what else.
TARGETS=(x86_64 aarch64)

FLAGS=(--without-default-features --without-default-devices
    --enable-tcg --enable-plugins --enable-fdt=system --enable-attr --enable-cap-ng --enable-virtfs
    --enable-trace-backends=log
    --disable-docs --disable-tools --disable-guest-agent --disable-install-blobs --disable-download
    --disable-werror --disable-debug-info -Dwarning_level=0)

# Most of the archive: firmware sources, tests and documentation. patches/boards-only.patch takes these folders out of
# the build. Patterns of tar.
UNUSED=('qemu-*/roms' 'qemu-*/tests' 'qemu-*/docs' 'qemu-*/pc-bios')

# MB that the first build for a target takes, with the source; and a later one.
SPACE_FIRST=500
SPACE_LATER=100

device_files() {
    find "$DEVICE" -maxdepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name meson.build -o -name Kconfig \
        -o -name trace-events -o -name 'devices-*.mak' \) | sort
}

# Corrections to QEMU itself; each says in its head what for.
patch_files() { find "$DEVICE/patches" -name '*.patch' | sort; }

# Headers that the device sees beside QEMU's own: the model's facade and the chip's registers.
contract_headers() { ls "$FACADE" "$NPU_TOP"/uapi/hw/*.h; }

key() {
    {
        basename "$1"
        echo "${FLAGS[*]}"
        { device_files; patch_files; } | xargs -d '\n' sha256sum | sed 's| .*/| |'
        { contract_headers; echo "$MAP"; } | xargs -d '\n' sha256sum | sed 's| .*/| |'
    } | hash_of
}

# The newest source tree; nothing where there is none. One with the mark .patching has an unknown part of its patches:
# what was built from it is whole, and nothing more is built in it.
source_dir() {
    local tree
    for tree in "$BASE"/tree-10.0.*; do
        [ ! -e "$tree/.unpacked" ] || echo "$tree"
    done | sort -V | tail -n 1
}

# --- source ---------------------------------------------------------------------------------------

# Downloads the source archive that Debian 13 ships into $1; prints its file name and the index's checksum.
download_source() {
    local uri name size sum
    apt_refresh
    read -r uri name size sum < <(apt_private --print-uris --download-only --tar-only source qemu 2>/dev/null) || true
    case ${name:-} in
        qemu_10.0.*.orig.tar.xz) ;;
        *) die "the archive offers no source of QEMU 10.0 (found: ${name:-nothing})" \
            "take qemu-10.0.x.tar.xz from elsewhere and set NPU_QEMU_TARBALL to it" ;;
    esac
    say "downloading $name ($((size / 1000000)) MB)"
    (cd "$1" && apt_private --download-only --tar-only source qemu >/dev/null </dev/null) ||
        die "cannot download $name; is there a network?"
    echo "$name ${sum#SHA256:} ${uri:+}"
}

fetch_source() {
    local incoming=$BASE/incoming name sum wanted actual version
    rm -rf "$incoming"
    mkdir -p "$incoming"
    if [ -n "${NPU_QEMU_TARBALL:-}" ]; then
        [ -r "$NPU_QEMU_TARBALL" ] || die "NPU_QEMU_TARBALL names a file that cannot be read: $NPU_QEMU_TARBALL"
        name=$(basename "$NPU_QEMU_TARBALL")
        cp "$NPU_QEMU_TARBALL" "$incoming/$name"
        sum=${NPU_QEMU_SHA256:-}
    else
        local answer
        answer=$(download_source "$incoming")
        read -r name sum <<<"$answer"
    fi
    wanted=$(known_checksum "$name")
    wanted=${wanted:-$sum}
    [ -n "$wanted" ] || die "no checksum is known for $name" "set NPU_QEMU_SHA256 to the one its publisher gives"
    actual=$(sha256sum "$incoming/$name" | cut -d' ' -f1)
    [ "$actual" = "$wanted" ] || die "wrong checksum of $name" "expected SHA-256 $wanted" "found            $actual"
    say "unpacking $name"
    mkdir "$incoming/tree"
    tar -C "$incoming/tree" --strip-components=1 "${UNUSED[@]/#/--exclude=}" -xf "$incoming/$name" ||
        die "cannot unpack $name into $incoming"
    version=$(cat "$incoming/tree/VERSION")
    case $version in 10.0.*) ;; *) die "$name has QEMU $version; the device is for QEMU 10.0.x" ;; esac
    touch "$incoming/tree/.unpacked"
    [ ! -e "$BASE/tree-$version" ] || mv "$BASE/tree-$version" "$incoming/old"
    mv "$incoming/tree" "$BASE/tree-$version"
    rm -rf "$incoming"
}

# --- build ----------------------------------------------------------------------------------------

# The tree follows the checkout that builds: it keeps a copy of each patch that it has, in their order, and those from
# the first one on that this checkout has not are taken back before this checkout's are applied. An interruption between
# leaves a tree with the mark .patching, and the next build unpacks the source again.
apply_patches() {
    local tree=$1 have=$1/.patches file number=0
    local -a wanted applied
    mkdir -p "$have"
    mapfile -t wanted < <(patch_files)
    mapfile -t applied < <(find "$have" -name '*.patch' | sort -r)
    for file in "${wanted[@]}"; do
        cmp -s "$file" "$(applied_name "$have" "$number" "$file")" || break
        number=$((number + 1))
    done
    [ "$number" -ne ${#wanted[@]} ] || [ "$number" -ne ${#applied[@]} ] || return 0
    touch "$tree/.patching"
    for file in "${applied[@]}"; do
        [ $((10#$(basename "$file" | cut -d- -f1))) -ge "$number" ] || break
        patch_tree "$tree" "$file" --reverse
        rm "$file"
    done
    for file in "${wanted[@]:number}"; do
        patch_tree "$tree" "$file" --forward
        cp "$file" "$(applied_name "$have" "$number" "$file")"
        number=$((number + 1))
    done
    rm "$tree/.patching"
}

applied_name() { printf '%s/%03d-%s' "$1" "$2" "$(basename "$3")"; }

# A patch that can be applied in part only is not applied at all.
patch_tree() {
    local tree=$1 file=$2 how=$3 pass
    say "patching QEMU: $(basename "$file") ($how)"
    for pass in --dry-run --no-backup-if-mismatch; do
        logged "$BASE/patch.log" patch --directory="$tree" --strip=1 --batch "$how" "$pass" --input="$file"
    done
}

# Copies changed files only, so that ninja rebuilds only what depends on them; removes what is gone.
sync_files() {
    local target=$1 file name
    shift
    mkdir -p "$target"
    for file in "$@"; do
        cmp -s "$file" "$target/$(basename "$file")" || cp "$file" "$target/"
    done
    for file in "$target"/*; do
        [ -f "$file" ] || continue
        name=$(basename "$file")
        printf '%s\n' "$@" | grep -q "/$name\$" || rm -f "$file"
    done
}

# The device's meson.build finds the model's headers and a library to link with through pkg-config. That library
# is a stand-in with the model's SONAME and the symbols of its map, so that QEMU is built without the model, beside it.
# The loader finds the real one, in the build folder of the checkout that starts QEMU, and a symbol that it lacks ends
# QEMU there. All is in the cache, so that a configured build folder serves every checkout. The linker's flags are
# written so that meson sees no path in them: it would note the path in the binary, which would run with the stand-in.
stage_model() {
    local stage=$BASE/model stub
    mkdir -p "$stage/lib/pkgconfig"
    mapfile -t headers < <(contract_headers)
    sync_files "$stage/include" "${headers[@]}"
    stub=$(sed -nE 's/^[[:space:]]*(npu_model_[a-z_]+);$/void \1(void); void \1(void) {}/p' "$MAP")
    [ -n "$stub" ] || die "$MAP names no symbol of the chip model"
    if [ "$(cat "$stage/stub.c" 2>/dev/null)" != "$stub" ] || [ ! -e "$stage/lib/libnpumodel.so" ]; then
        echo "$stub" >"$stage/stub.c"
        gcc -shared -fPIC -Wl,-soname,libnpumodel.so.1 -Wl,--version-script="$MAP" \
            -o "$stage/lib/libnpumodel.so.new" "$stage/stub.c" || die "cannot link the stand-in for the chip model"
        mv "$stage/lib/libnpumodel.so.new" "$stage/lib/libnpumodel.so"
    fi
    cat >"$stage/lib/pkgconfig/npumodel.pc" <<PC
Name: npumodel
Description: model of the NPU
Version: 1
Cflags: -I$stage/include
Libs: -Wl,-L$stage/lib,-lnpumodel
PC
}

# Again when the flags have changed, or where configure did not get to its end; ninja itself sees to a change of the
# list of devices.
configure() {
    local tree=$1 build=$2 target=$3 flags=("${FLAGS[@]}" "--target-list=$3-softmmu" "--with-devices-$3=npu") devices
    devices=$tree/configs/devices/$target-softmmu/npu.mak
    cmp -s "$DEVICE/devices-$target.mak" "$devices" || cp "$DEVICE/devices-$target.mak" "$devices"
    [ "$(cat "$build/.flags" 2>/dev/null)" != "${flags[*]}" ] || return 0
    rm -rf "$build"
    mkdir -p "$build"
    say "configuring QEMU ${tree##*/tree-} for $target (half a minute); log: $BASE/configure-$target.log"
    (cd "$build" && logged "$BASE/configure-$target.log" nice "$tree/configure" --python="$NPU_PYTHON" "${flags[@]}")
    echo "${flags[*]}" >"$build/.flags"
}

# Debian 12's meson is too old for QEMU 10; another one is unpacked, not installed.
fetch_meson() {
    local suite
    [ ! -e "$BASE/meson/.complete" ] || return 0
    rm -rf "$BASE/meson"
    suite=$(apt_meson_suite)
    apt_unpack "$BASE/meson" "meson/$suite" "python3-pycotap/$suite"
    touch "$BASE/meson/.complete"
}

build() {
    local tree=$1 bin=$2 target=$3 build=$1/build-$3 program=qemu-system-$3 log=$BASE/build-$3.log
    fetch_meson
    export PYTHONPATH=$BASE/meson/usr/lib/python3/dist-packages
    export PATH=$BASE/meson/usr/bin:$PATH
    stage_model
    export PKG_CONFIG_PATH=$BASE/model/lib/pkgconfig
    mapfile -t files < <(device_files)
    sync_files "$tree/hw/misc/npu" "${files[@]}"
    apply_patches "$tree"
    configure "$tree" "$build" "$target"
    say "building $program (seconds after a change, 2 to 4 minutes the first time); log: $log"
    logged "$log" nice ninja -C "$build" -j"$NPU_JOBS" "$program"
    mkdir -p "$bin"
    strip --strip-debug -o "$bin/$program.new" "$build/$program"
    mv "$bin/$program.new" "$bin/$program"
    # those of some states of the device are enough for some checkouts; older ones can be built again
    ls -dt "$BASE"/bin/*/ | tail -n +9 | xargs -d '\n' -r rm -rf
    say "built $bin/$program"
}

# In the checkout's build folder: a plugin is loaded by whatever board wants it, and no part of the binary.
plugin() {
    local tree source=$DEVICE/plugins/$1.c plugin=$NPU_BUILD/lib/qemu/$1.so flags
    tree=$(source_dir)
    [ -n "$tree" ] || die "QEMU is not built" "run: make qemu"
    [ -e "$source" ] || die "there is no plugin $1" "known: $(cd "$DEVICE/plugins" && echo *.c | sed 's/\.c\b//g')"
    if [ ! "$plugin" -nt "$source" ]; then
        for program in gcc pkg-config; do need_program "$program"; done
        read -ra flags <<<"$(pkg-config --cflags glib-2.0)"
        mkdir -p "$(dirname "$plugin")"
        gcc -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -fPIC -shared "${flags[@]}" \
            -I"$tree/include/qemu" -o "$plugin.new" "$source" ||
            die "the plugin $1 does not build"
        mv "$plugin.new" "$plugin"
    fi
    echo "$plugin"
}

main() {
    local tree bin print=no target space
    case ${1:-} in
        --plugin)
            plugin "${2:-}"
            return
            ;;
        --print) print=yes && shift ;;
    esac
    target=${1:-${TARGETS[0]}}
    [[ " ${TARGETS[*]} " = *" $target "* ]] || die "there is no QEMU for $target" "known: ${TARGETS[*]}"
    [ -e "$DEVICE/meson.build" ] || die "there is no device in $DEVICE (its meson.build is missing)"
    tree=$(source_dir)
    bin=${tree:+$BASE/bin/$(key "$tree")}
    if [ -z "$tree" ] || [ ! -x "$bin/qemu-system-$target" ]; then
        [ $print = no ] || die "QEMU for $target with the device is not built" "run: $0 $target"
        need_plain "$BASE" QEMU
        for program in gcc ninja pkg-config patch xz; do need_program "$program"; done
        space=$SPACE_FIRST
        [ ! -e "${tree:-.}/build-$target/build.ninja" ] || space=$SPACE_LATER
        need_space "$space" "$NPU_CACHE"
        cache_lock qemu
        tree=$(source_dir)
        if [ -z "$tree" ] || [ -e "$tree/.patching" ]; then
            fetch_source
            tree=$(source_dir)
            [ -n "$tree" ] || die "the source of QEMU 10.0 is not in $BASE"
        fi
        bin=$BASE/bin/$(key "$tree")
        [ -x "$bin/qemu-system-$target" ] || build "$tree" "$bin" "$target"
    fi
    echo "$bin/qemu-system-$target"
}

main "$@"
