#!/bin/busybox sh
# SPDX-License-Identifier: MIT
#
# First process of the emulated board. Loads the driver, runs /npu/command with its output on virtio ports
# of their own (the serial console belongs to the kernel), unloads the driver, and switches the board off.
# Tells npu-vm what happens on the port "control": "ready", "status N", "failed TEXT".

BB=/bin/busybox
export PATH=/bin:/sbin:/usr/local/bin:/usr/bin:/usr/sbin
export HOME=/root TERM=linux LANG=C.UTF-8

mount_system() {
    $BB --install -s /bin
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    mount -t debugfs debugfs /sys/kernel/debug
    [ ! -d /sys/kernel/tracing ] || mount -t tracefs tracefs /sys/kernel/tracing
    ln -s /proc/self/fd /dev/fd
    ln -s /proc/self/fd/0 /dev/stdin
    ln -s /proc/self/fd/1 /dev/stdout
    ln -s /proc/self/fd/2 /dev/stderr
    hostname npu
}

# The device node of the virtio port with this name, which ports get later than their folders.
port() {
    for _ in $(seq 600); do
        for p in /sys/class/virtio-ports/*; do
            [ "$(cat "$p/name" 2>/dev/null)" != "$1" ] || { echo "/dev/${p##*/}"; return; }
        done
        sleep 0.1
    done
}

tell() { echo "$*" >&3; }

switch_off() {
    sync
    poweroff -f
    sleep 60
}

fail() {
    tell "failed $*"
    switch_off
}

mount_folders() {
    while read -r tag mode target; do
        options=trans=virtio,version=9p2000.L,msize=512000
        case $mode in
            ro) options=$options,ro,cache=loose ;;
            rw) options=$options,cache=mmap ;;
        esac
        mkdir -p "$target"
        mount -t 9p -o "$options" "$tag" "$target" || fail "the shared folder $target cannot be mounted"
    done </npu/mounts
}

insert_modules() {
    for module in /modules/*.ko; do
        [ -e "$module" ] || continue
        insmod "$module" 2>/run/insmod.log || fail "$(cat /run/insmod.log)"
    done
}

# Nodes appear with the probe, which may run after insmod has returned.
wait_for_cards() {
    tries=0
    while [ "$(ls /dev/accel 2>/dev/null | grep -c '^accel[0-9]')" -lt "$CARDS" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail \
            "the driver made $(ls /dev/accel 2>/dev/null | wc -l) of $CARDS device nodes in 2 minutes"
        sleep 0.1
    done
    chmod "$NODE_MODE" /dev/accel/accel*
}

load_driver() {
    # An emulated device is slower than the one that it stands for. Of a parameter that is given twice the last value
    # counts. Word splitting is wanted.
    # shellcheck disable=SC2086
    insmod "$NPU_KO" job_limit_ms=600000 $MODULE_ARGS 2>/run/insmod.log || fail "$(cat /run/insmod.log)"
    wait_for_cards
    [ -z "$NPU_WATCH_KO" ] || insmod "$NPU_WATCH_KO" 2>/run/insmod.log || fail "$(cat /run/insmod.log)"
}

unload_driver() {
    ! grep -q '^qnpu_watch ' /proc/modules || rmmod qnpu_watch 2>/run/rmmod.log ||
        fail "qnpu_watch.ko cannot be unloaded after the command: $(cat /run/rmmod.log)"
    grep -q '^qnpu ' /proc/modules || return 0
    rmmod qnpu 2>/run/rmmod.log || fail "qnpu.ko cannot be unloaded after the command: $(cat /run/rmmod.log)"
}

# The board is saved here, and goes on where it is loaded.
stop_here() {
    exec 5<>"$(port machine)"
    echo '{"execute": "stop"}' >&5
    read -r answer <&5
    exec 5>&-
}

# What still runs when the command is over would keep the driver busy and the output open.
end_processes() {
    killall5 -9
}

run_command() {
    mkfifo /run/stdin /run/stdout /run/stderr
    [ "$INPUT" != port ] || INPUT=$(port stdin)
    cat "$INPUT" >/run/stdin &
    input=$!
    cat /run/stdout >"$(port stdout)" &
    pumps=$!
    cat /run/stderr >"$(port stderr)" &
    pumps="$pumps $!"
    # By a shell without children: one whose child ends meanwhile, as the pump of an empty input does, is interrupted
    # while it opens the pipes.
    (exec setsid /npu/command </run/stdin >/run/stdout 2>/run/stderr 3>&-)
    status=$?
    kill $input 2>/dev/null
    end_processes
    # shellcheck disable=SC2086
    wait $pumps
}

# npu-vm tells when the size of its terminal changes.
follow_size() {
    while read -r word rows columns; do
        [ "$word" != size ] || stty rows "$rows" cols "$columns" <"$TTY" 2>/dev/null
    done <&3
}

run_interactive() {
    stty rows "$ROWS" cols "$COLUMNS" <"$TTY" 2>/dev/null
    follow_size &
    setsid -c /npu/command <"$TTY" >"$TTY" 2>&1 3>&- 4>&-
    status=$?
    end_processes
}

# The driver's own allocations are what matters, not those of booting.
forget_leaks_of_boot() {
    [ -e /sys/kernel/debug/kmemleak ] || fail "this kernel has no kmemleak; use --kernel debug"
    echo scan >/sys/kernel/debug/kmemleak || fail "kmemleak is switched off"
    echo clear >/sys/kernel/debug/kmemleak
}

# An object counts as leaked when no pointer to it is found twice and it is older than 5 s.
look_for_leaks() {
    sleep 6
    echo scan >/sys/kernel/debug/kmemleak || fail "kmemleak has given up"
    echo scan >/sys/kernel/debug/kmemleak
    cat /sys/kernel/debug/kmemleak >/run/leaks
    [ ! -s /run/leaks ] || {
        cat /run/leaks >/dev/console
        fail "kmemleak found $(grep -c '^unreferenced object' /run/leaks) leaked objects"
    }
}

mount_system
. /npu/settings
insert_modules
exec 3<>"$(port control)"
mount_folders
[ "$KMEMLEAK" = no ] || forget_leaks_of_boot
[ "$LOAD" = no ] || load_driver
export PATH="$BUILD_BIN:$PATH" LD_LIBRARY_PATH="$BUILD_LIB" NPU_KO NPU_WATCH_KO
[ "$MACHINE" = no ] || export NPU_MACHINE="$(port machine)"
# An open terminal keeps what is typed before the shell reads it.
[ "$INTERACTIVE" = no ] || exec 4<>"$TTY"
cd "$CWD" || fail "there is no folder $CWD"
[ "$SAVE" = no ] || stop_here
tell ready
if [ "$INTERACTIVE" = yes ]; then run_interactive; else run_command; fi
cd /
tell "status $status"
[ "$UNLOAD" = no ] || unload_driver
[ "$KMEMLEAK" = no ] || look_for_leaks
tell "off"
switch_off
