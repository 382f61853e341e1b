/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exact board: what the guest sees depends on its command line and its
 * input alone, never on the host's time.
 * docs/explanation/exact.md of the project says how each way for host time is
 * closed; the small patches of patches/ call these functions.
 */
#ifndef NPU_EXACT_H
#define NPU_EXACT_H

#include "qemu/option.h"

struct FileOperations;
struct VMStateInfo;

/* "-icount ...,exact=SEED": the board is exact. Constant after the start. */
bool exact_enabled(void);

/* The options exact, report and stop of -icount. */
bool exact_configure(QemuOpts *opts, Error **errp);

/*
 * All processors, by the one thread that carries them. Called under the BQL;
 * does not return.
 */
G_NORETURN void exact_run(void);

/*
 * On an exact board, what a device has just left to the main loop is done
 * now, and what comes of that; on another board nothing. Called under the
 * BQL by the thread of the processors, as the last thing that the device does
 * in an access of the guest.
 */
void exact_settle(void);

/*
 * What a shared folder does on this board: @ops, or on an exact board the
 * same without what one host says differently from run to run.
 */
struct FileOperations *exact_files(struct FileOperations *ops);

/* A field of a shared folder's device in snapshots: its V9fsState. */
extern const struct VMStateInfo exact_folder_info;

/* What RDRAND gives. */
uint64_t exact_guest_random(void);

#endif
