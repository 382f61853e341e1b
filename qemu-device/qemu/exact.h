/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exact board: what the guest sees depends on its command line and its
 * input alone, never on the host's time. docs/exact.md of the project says
 * how each way for host time is closed; the small patches of patches/ call
 * these functions.
 */
#ifndef NPU_EXACT_H
#define NPU_EXACT_H

#include "qemu/option.h"

struct FileOperations;

/* "-icount ...,exact=SEED": the board is exact. Constant after the start. */
bool exact_enabled(void);

/* The options exact and report of -icount. */
bool exact_configure(QemuOpts *opts, Error **errp);

/*
 * All processors, by the one thread that carries them. Called under the BQL;
 * does not return.
 */
G_NORETURN void exact_run(void);

/*
 * What a shared folder does on this board: @ops, or on an exact board the
 * same without what one host says differently from run to run.
 */
struct FileOperations *exact_files(struct FileOperations *ops);

#endif
