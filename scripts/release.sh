#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# All files of a release, of the last commit, in build/release. docs/develop/packages.md describes them. A part that is
# there for this commit is not made again, so that an interrupted run is continued by the same command. As root.
#
#   release.sh               makes all parts
#   release.sh PART...       makes these parts
#   release.sh --again PART  makes a part although it is there
#   release.sh --list        names the parts
#   release.sh --verify      compares the files with SHA256SUMS

NPU_STEP=release
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/clean-system.sh
. "$(dirname "$0")/clean-system.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/release
WORK=$NPU_BUILD/release-work
again=

# part | what it makes
parts() {
    cat <<'LIST'
source|the source archive, qnpu-VERSION.tar.xz
board|QEMU, kernel and driver of the package qnpu-board (stays outside of the release)
bookworm|Debian packages and wheel for Debian 12, built in a clean system
trixie|Debian packages and wheel for Debian 13, built in a clean system
image|a system with the packages and the emulated board, qnpu-image-VERSION.tar.gz
sources|source archives of QEMU and Linux, whose programs qnpu-board and the image contain
sbom|the bill of materials, qnpu-VERSION.cdx.json (CycloneDX)
tag|the text of the signed tag, tag.txt
checksums|SHA256SUMS
LIST
}

make_source() {
    rm -f "$OUT"/qnpu-*.tar.xz
    cp "$(scripts/dist.sh)" "$OUT/"
}

make_board() {
    make programs qemu kernel-stock module
    scripts/stage-board.sh >/dev/null
}

# A clone, since a worktree's data is elsewhere; at a path that does not change.
make_clone() {
    rm -rf "$WORK/checkout"
    git clone -q --no-hardlinks . "$WORK/checkout"
    git -C "$WORK/checkout" checkout -q "$commit"
}

# Debian packages and wheel, by the scripts of the checkout in a system of the suite.
make_suite() {
    local suite=$1 work=$WORK/$1 file
    is_done board || make_part board
    make_clone
    rm -rf "$work"
    mkdir -p "$work"
    with_clean_system "$suite" "$NPU_TOP/scripts/release.sh" "$suite"
    rm -f "$OUT"/*"+$(cat "$work/distribution")"[_.]* "$OUT"/qnpu-*-"$(cat "$work/python")"-*.whl
    for file in "$work"/deb/*.{deb,dsc,debian.tar.xz} "$work"/wheel/*.whl; do cp "$file" "$OUT/"; done
}

# Run by mmdebstrap, with the new system.
build_in_system() {
    local work=$WORK/$1 ccache
    ccache=$(ccache --get-config cache_dir)
    bring_archives
    inside apt-get -q -y --no-install-recommends install ca-certificates ccache git
    bind "$WORK/checkout" "$work" "$OUT" "$NPU_BUILD/board" "$NPU_CACHE" "$ccache"
    cat >"$ROOT/build.sh" <<SH
set -eu
cd '$WORK/checkout'
export XDG_CACHE_HOME='${NPU_CACHE%/npu}' CCACHE_DIR='$ccache' NPU_BUILD='$work' NPU_JOBS='$NPU_JOBS'
export QNPU_DIST='$OUT/qnpu-$version.tar.xz' QNPU_BOARD='$NPU_BUILD/board' QNPU_KEEP=1
export SOURCE_DATE_EPOCH='$SOURCE_DATE_EPOCH'
git config --global --add safe.directory '*'
scripts/setup.sh package board wheel
scripts/deb.sh ${QNPU_QUICK:+--quick}
(cd '$work/deb/qnpu-$version' && QNPU_BUILD="\$(echo "\$PWD"/obj-*)" scripts/wheel.sh --here '$work/wheel')
. /etc/os-release
echo "deb\$VERSION_ID" >'$work/distribution'
/usr/bin/python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])' >'$work/python'
set -- '$work'/deb/*.deb
controls=; for deb; do case \$deb in *dbgsym*) ;; *) controls="\$controls --control \$deb" ;; esac; done
scripts/sbom.py --version '$version' \$controls -o '$work/packages.cdx.json'
rm -rf '$work/deb/qnpu-$version'
SH
    inside env HOME=/tmp sh /build.sh
    keep_archives
}

make_bookworm() { make_suite bookworm; }
make_trixie() { make_suite trixie; }

make_image() {
    local name=qnpu-image-$version.tar.gz
    is_done bookworm || make_part bookworm
    QNPU_DEBS=$WORK/bookworm/deb QNPU_RELEASE=bookworm scripts/image.sh >/dev/null
    cp "$NPU_BUILD/image/$name" "$OUT/$name"
}

# Name and version of the source package of the kernel in the cache: linux-6.12=6.12.117-1~deb12u1.
kernel_source() {
    local env history
    env=$(scripts/kernel-stock.sh --env)
    history=$(find "$(dirname "$env")/usr/share/doc" -path '*/linux-image-*/changelog*.gz' | head -n 1)
    [ -n "$history" ] || die "the kernel in the cache has no history that names its source" "looked beside $env"
    zcat "$history" | sed -nE '1s/^linux(-signed)?(-[0-9.]+)?(-amd64)? \((\S+)\).*/linux\2=\4/p' |
        sed 's/+\([0-9~a-z]*\)$/-\1/'
}

# Archives with the sources of Debian 12 and 13, in an index of its own.
source_apt() {
    local root=$WORK/apt suite
    mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial"
    for suite in bookworm trixie; do apt_sources_of_debian "$suite"; done |
        sed 's/^deb /deb-src /' >"$root/sources.list"
    apt-get -qq -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$root/state" \
        -o Dir::Cache="$root/cache" -o APT::Sandbox::User=root "$@"
}

make_sources() {
    local qemu linux
    is_done board || make_part board
    qemu=$(sed -nE 's/^QEMU ([0-9.]+):.*/\1/p' "$NPU_BUILD/board/usr/share/doc/qnpu-board/SOURCES")
    linux=$(kernel_source)
    rm -rf "$OUT/sources"
    mkdir -p "$OUT/sources"
    source_apt update
    say "downloading the sources of QEMU $qemu and $linux"
    (
        cd "$OUT/sources"
        source_apt --download-only --tar-only source qemu
        source_apt --download-only source "$linux"
    ) >"$WORK/sources.log" 2>&1 ||
        die "the sources of QEMU $qemu or $linux cannot be downloaded" "$(grep '^E:' "$WORK/sources.log" | head -n 3)"
    compgen -G "$OUT/sources/qemu_$qemu*.orig.tar.xz" >/dev/null ||
        die "the archive has no source of QEMU $qemu, which was built" "remove $NPU_CACHE/qemu and run: make qemu"
}

# Files of the release, relative to its folder, but the three that are computed from the others.
files() {
    (cd "$OUT" && find . -type f ! -name SHA256SUMS ! -name '*.cdx.json' ! -name tag.txt ! -path './.done/*' |
        sed 's|^\./||' | LC_ALL=C sort)
}

make_sbom() {
    local arguments=() file
    while read -r file; do arguments+=(--file "$file"); done < <(files)
    for file in "$WORK"/*/packages.cdx.json; do
        [ -e "$file" ] || die "there are no packages in the release yet" "run: scripts/release.sh bookworm trixie"
        arguments+=(--merge "$file")
    done
    (cd "$OUT" && "$NPU_PYTHON" "$NPU_TOP/scripts/sbom.py" --version "$version" "${arguments[@]}" \
        -o "qnpu-$version.cdx.json")
}

# CHANGELOG.md's section of this version, and the source's checksum.
make_tag() {
    {
        printf 'qnpu %s\n\n' "$version"
        git show "$commit:CHANGELOG.md" | awk -v version="$version" \
            '/^## / { on = $2 == version; next } on' | sed -e '/./,$!d' -e 's/^### //'
        printf '\nSHA-256 of qnpu-%s.tar.xz:\n%s\n' "$version" \
            "$(sha256sum <"$OUT/qnpu-$version.tar.xz" | cut -d' ' -f1)"
    } >"$OUT/tag.txt"
}

make_checksums() {
    (cd "$OUT" && { files && ls qnpu-*.cdx.json tag.txt; } | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
}

is_done() { [ "$(cat "$OUT/.done/$1" 2>/dev/null)" = "$commit" ]; }

make_part() {
    say "part $1: $(parts | sed -n "s/^$1|//p")"
    rm -f "$OUT/.done/$1"
    mkdir -p "$OUT/.done" "$WORK"
    "make_$1"
    echo "$commit" >"$OUT/.done/$1"
}

main() {
    local version commit name wanted=()
    commit=$(git rev-parse HEAD)
    version=$(scripts/dist.sh --version)
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    case ${1:-} in
        --list)
            parts | awk -F'|' '{ printf "%-10s %s\n", $1, $2 }'
            return
            ;;
        --in)
            ROOT=$2
            build_in_system "$3"
            return
            ;;
        --verify)
            [ -e "$OUT/SHA256SUMS" ] || die "there is no release in $OUT" "run: make release"
            (cd "$OUT" && sha256sum --quiet -c SHA256SUMS) || die "files of $OUT differ from SHA256SUMS (above)"
            return
            ;;
        --again)
            [ $# -gt 1 ] || die "--again needs a part" "known: $(parts | cut -d'|' -f1 | xargs)"
            again=yes && shift
            ;;
    esac
    for name; do
        parts | grep "^$name|" >/dev/null || die "unknown part: $name" "known: $(parts | cut -d'|' -f1 | xargs)"
        wanted+=("$name")
    done
    [ -z "$(git status --porcelain)" ] || die "there are changes that are not committed" \
        "a release is built from a commit; commit or remove: $(git status --porcelain | head -n 3 | cut -c4- | xargs)"
    [ "$(id -u)" -eq 0 ] || die "a release is built in clean systems, which needs root" "run: sudo make release"
    [ ${#wanted[@]} -gt 0 ] || mapfile -t wanted < <(parts | cut -d'|' -f1)
    for name in "${wanted[@]}"; do
        if [ -z "$again" ] && is_done "$name"; then
            say "part $name is there"
        else
            make_part "$name"
        fi
    done
    echo "$OUT"
}

main "$@"
