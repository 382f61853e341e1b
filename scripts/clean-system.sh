# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Tests in a clean Debian: mmdebstrap makes the smallest system of a release from apt's own sources, a script uses it,
# and the system is gone afterwards. Works as root, or where users may have namespaces. Sourced after lib.sh.
#
# The script calls in_clean_system, which calls the script again with `--in ROOT`; there ROOT is set, and is() and
# inside() work. Packages that a system downloads are kept in the cache for the next one.

ARCHIVES=$NPU_CACHE/deb-archives
passed=0
failed=0

# is WHAT COMMAND...: one test.
is() {
    local what=$1 out
    shift
    if out=$("$@" 2>&1 </dev/null); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'not ok: %s\n%s\n' "$what" "$(tail -n 40 <<<"$out")"
    fi
}

# The system's own environment, not this one's. Its kernel, a dependency of the headers, is never booted: no initramfs.
inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive INITRD=No \
        chroot "$ROOT" "$@"
}

# bind FOLDER...: shows folders of this machine in the system under their own paths, until the script ends.
bind() {
    local folder
    for folder; do
        mkdir -p "$folder" "$ROOT$folder"
        mount --bind "$folder" "$ROOT$folder"
        bound=("$ROOT$folder" "${bound[@]}")
    done
    trap 'umount "${bound[@]}"' EXIT
}
bound=()

# Packages that earlier systems downloaded.
bring_archives() {
    cp -l "$ARCHIVES"/*.deb "$ROOT/var/cache/apt/archives/" 2>/dev/null ||
        cp "$ARCHIVES"/*.deb "$ROOT/var/cache/apt/archives/" 2>/dev/null || true
    echo 'APT::Keep-Downloaded-Packages "true";' >"$ROOT/etc/apt/apt.conf.d/99keep"
}

keep_archives() {
    cp -lf "$ROOT"/var/cache/apt/archives/*.deb "$ARCHIVES/" 2>/dev/null ||
        cp -f "$ROOT"/var/cache/apt/archives/*.deb "$ARCHIVES/"
}

# base_system RELEASE SOURCES: prints the path of an archive with the smallest system of a release, in the cache. It is
# made again each week, and for other sources of apt.
base_system() {
    local release=$1 sources=$2 folder=$NPU_CACHE/systems archive
    archive=$folder/$release-$(hash_of <<<"$sources")-$(date +%G-%V).tar
    if [ ! -e "$archive" ]; then
        cache_lock systems
        mkdir -p "$folder"
        say "making a system of $release"
        mmdebstrap --quiet --variant=minbase --format=tar "$release" "$archive.new" - <<<"$sources" >&2 ||
            die "a system of $release cannot be made" "mmdebstrap needs root, or users who may have namespaces"
        rm -f "$folder/$release"-*.tar
        mv "$archive.new" "$archive"
    fi
    echo "$archive"
}

# with_clean_system RELEASE SCRIPT [ARGUMENT...]: runs the script with a new system, which is removed afterwards.
with_clean_system() {
    local release=$1 script=$2 sources base
    shift 2
    need_program mmdebstrap
    mkdir -p "$ARCHIVES"
    find "$ARCHIVES" -name '*.deb' -mtime +60 -delete
    sources=$(apt_sources_of_debian "$release")
    base=$(base_system "$release" "$sources")
    # shellcheck disable=SC2016  # $1 is mmdebstrap's
    mmdebstrap --quiet --variant=custom --format=null --setup-hook="tar -C \"\$1\" -xf $(printf %q "$base")" \
        --customize-hook="$(printf '%q --in "$1"' "$script")$(printf ' %q' "$@")" "$release" - - <<<"$sources" >&2 ||
        die "the new system cannot be made, or $(basename "$script") broke off in it"
}

# in_clean_system RELEASE RESULT SCRIPT [ARGUMENT...]: the result is the last line that the tests print, and a file.
in_clean_system() {
    local release=$1 result=$2
    shift 2
    mkdir -p "$(dirname "$result")"
    rm -f "$result"
    with_clean_system "$release" "$@"
    cat "$result"
    [[ $(cat "$result") = *' 0 failed' ]]
}
