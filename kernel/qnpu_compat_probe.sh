#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Writes qnpu_compat_config.h: what this kernel's headers offer, found by compiling, not by version.
#
#   qnpu_compat_probe.sh OUTPUT COMPILER [FLAG...]

output=$1
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

compiles() {
	cat >"$dir/probe.c"
	"$@" -Werror -Wno-unused -fsyntax-only "$dir/probe.c" >"$dir/log" 2>&1
}

probe() {
	name=$1
	shift
	if compiles "$@"; then
		echo "#define $name 1" >>"$dir/config.h"
	else
		echo "/* $name is not there */" >>"$dir/config.h"
	fi
}

echo "/* Made by qnpu_compat_probe.sh. */" >"$dir/config.h"

# Without this one every other answer would be worthless.
compiles "$@" <<'C' || { cat "$dir/log" >&2; echo "$0: these flags compile nothing" >&2; exit 1; }
#include <linux/module.h>
#include <drm/drm_device.h>
#include <drm/ttm/ttm_bo.h>
C

probe QNPU_HAVE_GPU_BUDDY "$@" <<'C'
#include <linux/gpu_buddy.h>
void f(struct gpu_buddy *mm, struct list_head *list);
void f(struct gpu_buddy *mm, struct list_head *list) { gpu_buddy_free_list(mm, list, 0); }
C

probe QNPU_HAVE_TTM_BO_FINI "$@" <<'C'
#include <drm/ttm/ttm_bo.h>
void f(struct ttm_buffer_object *bo);
void f(struct ttm_buffer_object *bo) { ttm_bo_fini(bo); }
C

probe QNPU_HAVE_TTM_ALLOC_FLAGS "$@" <<'C'
#include <drm/ttm/ttm_device.h>
int f(struct ttm_device *d, const struct ttm_device_funcs *o);
int f(struct ttm_device *d, const struct ttm_device_funcs *o)
{ return ttm_device_init(d, o, NULL, NULL, NULL, 0u); }
C

probe QNPU_HAVE_UNQUOTED_NS "$@" <<'C'
#include <linux/module.h>
MODULE_IMPORT_NS(DMA_BUF);
C

probe QNPU_HAVE_DRIVER_DATE "$@" <<'C'
#include <drm/drm_drv.h>
char *f(struct drm_driver *d);
char *f(struct drm_driver *d) { return d->date; }
C

probe QNPU_HAVE_URING_SQE_CMD_TYPE "$@" <<'C'
#include <linux/io_uring/cmd.h>
const u64 *f(const struct io_uring_sqe *sqe);
const u64 *f(const struct io_uring_sqe *sqe) { return io_uring_sqe_cmd(sqe, u64); }
C

probe QNPU_HAVE_URING_DONE_RES2 "$@" <<'C'
#include <linux/io_uring/cmd.h>
void f(struct io_uring_cmd *cmd);
void f(struct io_uring_cmd *cmd) { io_uring_cmd_done(cmd, 0, 0, 0); }
C

probe QNPU_HAVE_URING_TW_REQ "$@" <<'C'
#include <linux/io_uring/cmd.h>
struct io_uring_cmd *f(struct io_tw_req req);
struct io_uring_cmd *f(struct io_tw_req req) { return io_uring_cmd_from_tw(req); }
C

probe QNPU_HAVE_FENCE_ARRAY_ANY "$@" <<'C'
#include <linux/dma-fence-array.h>
void f(struct dma_fence_array *array);
void f(struct dma_fence_array *array) { dma_fence_array_init(array, 1, NULL, 0, 0, false); }
C

mv "$dir/config.h" "$output"
