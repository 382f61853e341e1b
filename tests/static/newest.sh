#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver as drivers/accel/qnpu of the newest kernel source: configured by its Kconfig, built by its Makefile,
# without a complaint of compiler (W=1), sparse or coccicheck, and with nothing that the kernel does not export;
# checkpatch. Sourced by driver.sh. upstream.py has the same driver as the patches that go upstream.

# in_tree FOLDER: a source tree of links, in which the driver stands.
in_tree() {
    local tree=$1 folder
    mkdir -p "$tree/drivers/accel/qnpu"
    for folder in . drivers drivers/accel; do
        find "$KSOURCE/$folder" -mindepth 1 -maxdepth 1 ! -path "$KSOURCE/./drivers" ! -path "$KSOURCE/drivers/accel" \
            -exec ln -s -t "$tree/$folder" {} +
    done
    # Linked, these would lead back to the original tree.
    cp --remove-destination "$KSOURCE/Makefile" "$tree/Makefile"
    cp --remove-destination "$KSOURCE/drivers/accel/Kconfig" "$KSOURCE/drivers/accel/Makefile" "$tree/drivers/accel"
    cp -r kernel/. "$tree/drivers/accel/qnpu"
    sed -i '/^endif/i source "drivers/accel/qnpu/Kconfig"' "$tree/drivers/accel/Kconfig"
    printf '\nobj-$(CONFIG_DRM_ACCEL_QNPU) += qnpu/\n' >>"$tree/drivers/accel/Makefile"
}

# newest_make TREE ARGUMENT...
newest_make() { make -C "$1" O="$1-build" ARCH=x86_64 QNPU_UAPI="$PWD/uapi" -j"$(nproc)" "${@:2}"; }

newest_build() {
    local tree=$1 option
    mkdir -p "$tree-build"
    newest_make "$tree" KCONFIG_ALLCONFIG="$PWD/kernel/newest.config" allnoconfig || return
    while read -r option; do
        grep -qxF "$option" "$tree-build/.config" || echo "error: the configuration does not take $option"
    done < <(grep ^CONFIG_ kernel/newest.config)
    newest_make "$tree" prepare || return
    # An older sparse does not know this keyword of newer compilers; as far as it is concerned, the plain one does.
    newest_make "$tree" W=1 C=2 CHECK="sparse -D__typeof_unqual__=__typeof__" drivers/accel/qnpu/
}

# Names that the driver needs and the kernel does not export; those in the pattern are made by compilers and macros.
newest_missing() {
    nm -u "$1-build/drivers/accel/qnpu/qnpu.o" | awk '{ print $2 }' |
        grep -vE '^__(x86_|fentry|SCT|tracepoint|start|stop|this_module|asan|kasan|ubsan|sanitizer)' |
        grep -vE '^_GLOBAL|^_dev_(err|warn|info)$|^param_ops_' |
        sort -u | comm -23 - "$KEXPORTS" | sed 's/$/: error: not exported/'
}

# One semantic patch of the kernel over all files of the driver: prints complaints.
coccicheck_one() {
    local options
    options=$(sed -n 's|^/// *Options:||p; s|^// *Options:||p' "$1" | head -n 1)
    # shellcheck disable=SC2086  # a list of options
    spatch -D report --no-show-diff --very-quiet --cocci-file "$1" $options --dir kernel -I kernel 2>&1 ||
        echo "$1: error: status $?"
}

# Those of the kernel's semantic patches that can report: their complaints, and how many there are ("semantic patches:
# N").
newest_coccicheck() {
    local patches
    export -f coccicheck_one
    patches=$(grep -rlE --include='*.cocci' '^virtual.*\breport\b' "$KSOURCE/scripts/coccinelle" | sort)
    [ -n "$patches" ] || return
    xargs -P "$(nproc)" -I{} bash -c 'coccicheck_one {}' <<<"$patches" &&
        echo "semantic patches: $(wc -l <<<"$patches")"
}

# checkpatch FILE OPTION...: prints complaints. Its summary shows that it has read the file.
checkpatch() {
    local file=$1 log
    shift
    log=$(perl "$CHECKPATCH" --no-tree --strict --max-line-length=100 "$@" --file "$file" 2>&1)
    grep -E '^(ERROR|WARNING|CHECK):|^#[0-9]+: FILE: ' <<<"$log"
    grep -q '^total: .* [1-9][0-9]* lines checked$' <<<"$log" || echo "$file: checkpatch did not run"
}
