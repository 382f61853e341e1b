/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a snapshot has to know of the shared folders' files. exact_files.c has
 * it, exact_snapshot.c and exact_time.c save it.
 */
#ifndef NPU_EXACT_FILES_H
#define NPU_EXACT_FILES_H

#include "fsdev/file-op-9p.h"
#include "migration/qemu-file-types.h"

/* Has what is common to all folders saved and, before the folders, loaded. */
void exact_files_register(void);

bool exact_files_serves(const struct FileOperations *ops);

/*
 * The numbers that the guest has seen in a folder, by path: they are those of
 * what is there when they are loaded, also if these are other files of the
 * host. get returns 0 or an error.
 */
void exact_files_put_numbers(QEMUFile *f, FsContext *ctx);
int exact_files_get_numbers(QEMUFile *f, FsContext *ctx);

/* What is open has still this path. */
bool exact_files_still_there(FsContext *ctx, V9fsPath *path, int fid_type,
                             V9fsFidOpenState *fs);

/* A folder that is open, as it was listed; get returns 0 or an error. */
void exact_files_put_listing(QEMUFile *f, DIR *stream);
int exact_files_get_listing(QEMUFile *f, DIR *stream);

#endif
