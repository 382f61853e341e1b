# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the set-up scripts share: where the cache is, how they talk, and how they ask apt for packages
# that are unpacked into the cache instead of being installed. Sourced, never run.

set -euo pipefail

# The same words of other programs, and the same order of names, in every locale; and cd prints nothing.
export LC_ALL=C.UTF-8
unset LANGUAGE CDPATH

NPU_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# libnpu reads a variable of this name: programs that scripts start do not get this one.
unset NPU_CACHE
NPU_CACHE=${XDG_CACHE_HOME:-${HOME:-}/.cache}/npu
# shellcheck disable=SC2034  # used by the scripts that source this file
NPU_BUILD=$(realpath -ms "${NPU_BUILD:-$NPU_TOP/build}")
# shellcheck disable=SC2034
NPU_JOBS=${NPU_JOBS:-$(($(nproc) + 1))} # one more than processors, which keeps them busy while one waits

# Every generated source needs Debian's own python3 and its modules; another one may come first on PATH.
# shellcheck disable=SC2034
NPU_PYTHON=/usr/bin/python3

say() { printf '[%s] %s\n' "$NPU_STEP" "$*" >&2; }

die() {
    local line
    printf '[%s] error: %s\n' "$NPU_STEP" "$1" >&2
    shift
    for line in "$@"; do printf '[%s]        %s\n' "$NPU_STEP" "$line" >&2; done
    exit 1
}

[ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || die "neither HOME nor XDG_CACHE_HOME is set" "the cache is below one of them"
[ "${NPU_CACHE#/}" != "$NPU_CACHE" ] || die "XDG_CACHE_HOME is '${XDG_CACHE_HOME:-}'" "expected: a path from the root"
[[ $NPU_JOBS =~ ^[1-9][0-9]*$ ]] || die "NPU_JOBS is '$NPU_JOBS'" "expected: a number of jobs, 1 or more"

need_program() {
    command -v "$1" >/dev/null 2>&1 || die "$1 is not installed" "run: make setup SET=full"
}

# need_network WHY [URI]: an error within seconds where nothing answers at a package archive: that of the URI, or else
# the first of apt's sources; at the proxy, where there is one. Archives and proxies of other kinds than http and https
# are taken for reachable.
need_network() {
    local uri host port
    uri=$(apt-config dump 2>/dev/null |
        awk -F'"' 'tolower($1) ~ /^acquire::https?::proxy/ && $2 != "" && !n++ { print $2 }' || true)
    uri=${uri:-${http_proxy:-${https_proxy:-${HTTPS_PROXY:-${2:-}}}}}
    [ -n "$uri" ] ||
        uri=$(apt-get --print-uris update 2>/dev/null | awk -F"'" '$2 ~ /^http/ && !n++ { print $2 }' || true)
    [[ $uri =~ ^(https?)://([^/@]*@)?([^]/:@[]+)(:([0-9]+))?(/|$) ]] || return 0
    host=${BASH_REMATCH[3]} port=${BASH_REMATCH[5]}
    [ -n "$port" ] || port=$([ "${BASH_REMATCH[1]}" = https ] && echo 443 || echo 80)
    timeout 5 bash -c ': <"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null ||
        die "the network is needed $1, and $host, port $port, cannot be reached" \
            "it is the archive (or proxy) of apt's sources; see 'apt-get update'"
}

# need_plain PATH WHAT: an error where a path has a space or a colon, which make and meson take for its end.
need_plain() {
    [[ $1 != *[[:space:]:]* ]] || die "$2 cannot be built in a folder with a space or a colon: $1" \
        "NPU_BUILD and XDG_CACHE_HOME choose other folders"
}

# write_whole FILE: writes the standard input to a file that is there as a whole or not at all.
write_whole() { cat >"$1.new" && mv "$1.new" "$1"; }

# need_space MEGABYTES FOLDER: an error where the file system of a folder, which may not exist yet, has less free space.
need_space() {
    local folder=$2 free
    while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
    [ -w "$folder" ] || die "this user cannot write to $folder" "it is needed for $2"
    free=$(($(df --output=avail -k "$folder" | tail -n 1) / 1024))
    [ "$free" -ge "$1" ] || die "only $free MB are free in $folder, and $1 MB are needed" \
        "builds go to $NPU_BUILD, downloads and QEMU to $NPU_CACHE (XDG_CACHE_HOME chooses another place)"
}

# Runs a long command with its output in a log; on failure shows the end of that log.
logged() {
    local log=$1 status=0
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 25 "$log" >&2
        die "'$1' failed with status $status" "whole output: $log"
    fi
}

# Only one process at a time may fill one part of the cache; the others wait for it.
cache_lock() {
    mkdir -p "$NPU_CACHE"
    exec 9>"$NPU_CACHE/.lock-$1"
    flock -n 9 || { say "waiting for another process that fills the cache ($1)"; flock 9; }
}

# lock_tree FOLDER: only one process at a time may build in a folder; the others name the one that they wait for. The
# lock ends with the process, or with the one that it becomes by exec.
lock_tree() {
    mkdir -p "$1"
    exec 8>>"$1/.lock"
    flock -n 8 || {
        say "waiting for the build of process $(tail -n 1 "$1/.lock") in $1"
        flock 8
    }
    echo "$$ ($(ps -o args= -p $$ | cut -c1-80))" >"$1/.lock"
}

# Kbuild and CMake find the compiler for arm64 on PATH.
cross_path() {
    local env
    env=$("$NPU_TOP/scripts/sysroot-arm64.sh")
    # shellcheck source=/dev/null
    . "$env"
    PATH=$COMPILER:$PATH
}

# One hash over files (contents and names relative to the current directory) and strings.
hash_of() { sha256sum | cut -c1-16; }

# --- the host -----------------------------------------------------------------------------------

# The codename of the host's release: bookworm (Debian 12), trixie (Debian 13), or another one.
host_release() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# The number of the host's GCC: Debian's names of cross compilers and their libraries have it.
gcc_version() { gcc -dumpversion | cut -d. -f1; }

# --- apt, asked privately -----------------------------------------------------------------------
# A package index of our own in the cache, so that nothing of the system's changes and no root is
# needed. Its sources are the URIs that apt already uses here, with the suites that we ask for: those of the
# host's release, or, for a script that sets NPU_APT_SUITE, that suite alone, in an index of its own. A script that sets
# NPU_APT_ARCH gets packages for that architecture, of a system on which nothing is installed.

apt_root() { echo "$NPU_CACHE/apt${NPU_APT_SUITE:+-$NPU_APT_SUITE}${NPU_APT_ARCH:+-$NPU_APT_ARCH}"; }

# The options that turn apt to the private index $1, one a line.
apt_options() {
    printf -- '-o\n%s\n' Dir::Etc::SourceList="$1/sources.list" Dir::Etc::SourceParts=- Dir::State="$1/state" \
        Dir::Cache="$1/cache"
    if [ -n "${NPU_APT_ARCH:-}" ]; then
        printf -- '-o\n%s\n' Dir::State::status="$1/status" APT::Architecture="$NPU_APT_ARCH" \
            APT::Architectures="$NPU_APT_ARCH"
    else
        printf -- '-o\n%s\n' Dir::State::status=/var/lib/dpkg/status
    fi
}

apt_private() {
    local options
    mapfile -t options < <(apt_options "$(apt_root)")
    apt-get -qq "${options[@]}" -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=1 "$@"
}

# "origin|codename|URI" of every index that apt uses here. An apt that never read its indexes knows none
# of this (container images are shipped so): then they are read into the cache first.
apt_targets() {
    local format='$(ORIGIN)|$(CODENAME)|$(REPO_URI)' lists=$NPU_CACHE/apt/system found
    found=$(apt-get indextargets --format "$format" 2>/dev/null || true)
    if [ -z "$found" ]; then
        mkdir -p "$lists/partial"
        apt-get -qq -o Dir::State::Lists="$lists" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
            -o Dir::Cache="$NPU_CACHE/apt/cache" update >"$NPU_CACHE/apt/update.log" 2>&1 </dev/null || true
        found=$(apt-get -o Dir::State::Lists="$lists" indextargets --format "$format" 2>/dev/null || true)
    fi
    echo "$found"
}

# The base URI of the Debian archive with codename $1 among the indexes $2.
apt_uri_of() {
    awk -F'|' -v name="$1" '$1 ~ /^Debian/ && $2 == name { print $3; exit }' <<<"$2"
}

# Sets, for the functions below: `release`, its codename; `main` and `security`, URIs; `option`, a keyring.
apt_find_debian() {
    local targets keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    option=
    targets=$(apt_targets)
    release=$(host_release)
    main=$(apt_uri_of "$release" "$targets")
    security=$(apt_uri_of "$release-security" "$targets")
    case $release in bookworm | trixie) ;; *) main= ;; esac
    [ -n "$main" ] || die "this host is $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release), or apt has no index of it" \
        "QEMU and the kernel of the emulated board need Debian 12 or 13: if this is one, run: apt-get update" \
        "the chip model in the process works on other hosts: make demo BOARD=sim"
    [ -n "$security" ] || [ "$release" != bookworm ] ||
        die "apt here has no bookworm-security suite, which carries Linux 6.12" \
            "add it to apt's sources and run: apt-get update"
    [ ! -e "$keyring" ] || option="[signed-by=$keyring] "
}

# apt_sources_of_debian [RELEASE]: a Debian of its own (default: the host's release), as lines of a sources.list.
apt_sources_of_debian() {
    local main security option release
    apt_find_debian
    echo "deb $option$main ${1:-$release} main"
    [ -z "$security" ] || echo "deb $option$security ${1:-$release}-security main"
}

# The suite that has meson for QEMU 10.
apt_meson_suite() {
    case $(host_release) in
        bookworm) echo bookworm-backports ;;
        *) host_release ;;
    esac
}

apt_write_sources() {
    local main security option release
    apt_find_debian
    if [ -n "${NPU_APT_SUITE:-}" ]; then
        echo "deb $option$main $NPU_APT_SUITE main"
    else
        apt_sources_of_debian
        [ "$release" != bookworm ] || echo "deb $option$main bookworm-backports main"
        # the source of QEMU 10.0
        [ -n "${NPU_APT_ARCH:-}" ] || echo "deb-src $option$main trixie main"
    fi >"$(apt_root)/sources.list"
}

# Brings the private index up to date, at most once per hour.
apt_refresh() {
    local root
    root=$(apt_root)
    [ -z "$(find "$root/updated" -mmin -60 2>/dev/null)" ] || return 0
    mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial"
    # One process at a time, and the second one finds what the first one read.
    exec 7>"$root/lock"
    flock 7
    if [ -n "$(find "$root/updated" -mmin -60 2>/dev/null)" ]; then
        exec 7>&-
        return 0
    fi
    [ -z "${NPU_APT_ARCH:-}" ] || : >"$root/status"
    apt_write_sources
    need_network "to read the package index" \
        "$(awk '{ for (i = 1; i <= NF; i++) if ($i ~ /:\//) { print $i; exit } }' "$root/sources.list")"
    say "reading the package index (into $root)"
    apt_private update >"$root/update.log" 2>&1 </dev/null || {
        tail -n 5 "$root/update.log" >&2
        die "the package index cannot be read; is there a network?"
    }
    touch "$root/updated"
    exec 7>&-
}

APT_LEAVE_OUT=()

# apt_unpack DIR PACKAGE[=VERSION|/SUITE]...: downloads (checked by apt) and unpacks, installs nothing. Leaves out the
# files that match a pattern of tar in the array APT_LEAVE_OUT.
apt_unpack() {
    local dir=$1 debs deb
    shift
    # those of runs that were interrupted
    find "$NPU_CACHE" -maxdepth 1 -name 'debs.*' -mmin +120 -exec rm -rf {} +
    apt_refresh
    debs=$(mktemp -d "$NPU_CACHE/debs.XXXXXX")
    if [ $# -le 8 ]; then say "downloading $*"; else say "downloading $# packages: ${*:1:4} ..."; fi
    (cd "$debs" && apt_private download "$@" </dev/null) ||
        { rm -rf "$debs"; die "cannot download: $*" "is there a network, and has the archive this package?"; }
    mkdir -p "$dir"
    for deb in "$debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -C "$dir" -xpf - "${APT_LEAVE_OUT[@]/#/--exclude=}" ||
            { rm -rf "$debs"; die "cannot unpack $(basename "$deb")" "is there room in $NPU_CACHE?"; }
    done
    rm -rf "$debs"
}

# apt-cache on the private index.
apt_ask() {
    local options
    mapfile -t options < <(apt_options "$(apt_root)")
    apt_refresh
    apt-cache "${options[@]}" "$@" 2>/dev/null
}

# apt_closure PACKAGE...: these and all that they depend on (with NPU_APT_ARCH), as PACKAGE=VERSION, one a line.
apt_closure() {
    apt_refresh
    apt_private --simulate --no-install-recommends install "$@" |
        sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p'
}

# The package that a metapackage like linux-image-6.12-amd64 stands for now.
apt_resolve() {
    apt_ask depends "$1" |
        awk -v prefix="$2" '$1 == "Depends:" && index($2, prefix) == 1 { print $2; exit }'
}
