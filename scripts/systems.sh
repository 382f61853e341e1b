# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Clean systems of any release of Debian, made by mmdebstrap. Sourced after lib.sh.

# system_sources SUITE: lines of a sources.list for a release of Debian, from the archives that apt uses here.
system_sources() {
    local suite=$1 targets name main='' security='' option='' keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    targets=$(apt_targets)
    for name in "$suite" trixie bookworm sid; do
        [ -n "$main" ] || main=$(apt_uri_of "$name" "$targets")
        [ -n "$security" ] || security=$(apt_uri_of "$name-security" "$targets")
    done
    [ -n "$main" ] && [ -n "$security" ] || die "apt here has no archive of Debian with its security suite" \
        "add them to apt's sources and run: apt-get update"
    [ ! -e "$keyring" ] || option="[signed-by=$keyring] "
    echo "deb $option$main $suite main"
    echo "deb $option$security $suite-security main"
}

# with_system SUITE PACKAGES COMMAND...: makes a minimal system with these packages (separated by commas, or none), runs
# the command with the root folder of the system as its last argument, and removes the system.
with_system() {
    local suite=$1 packages=$2 sources
    shift 2
    need_program mmdebstrap
    sources=$(system_sources "$suite")
    # shellcheck disable=SC2016  # $1 is mmdebstrap's
    mmdebstrap --quiet --variant=minbase --format=null ${packages:+--include="$packages"} \
        --customize-hook="$(printf '%q ' "$@")"' "$1"' "$suite" - - <<<"$sources" >&2
}

# inside ROOT COMMAND...: in the system's own environment.
inside() {
    local root=$1
    shift
    env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive INITRD=No chroot "$root" "$@"
}

# bind ROOT FOLDER...: shows folders of this machine in the system under their own paths, until the script ends.
bind() {
    local root=$1 folder
    shift
    for folder; do
        mkdir -p "$folder" "$root$folder"
        mount --bind "$folder" "$root$folder"
        BOUND=("$root$folder" "${BOUND[@]}")
    done
    trap 'umount "${BOUND[@]}"' EXIT
}
BOUND=()
