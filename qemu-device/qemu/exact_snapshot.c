/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared folders in a snapshot of an exact board: for each folder the fids of
 * the guest, that is, which files it knows by which number, and how those are
 * open. The host's files themselves are no part of a snapshot; they are opened
 * again by their paths when it is loaded.
 *
 * A request is answered within the guest's write to the doorbell, so between
 * two instructions, where a board is saved, none is being carried out.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "fsdev/qemu-fsdev.h"
#include "hw/9pfs/9p.h"
#include "migration/qemu-file-types.h"
#include "migration/vmstate.h"
#include "exact.h"
#include "exact_files.h"

#define FIDS_MAX (1 << 24)

/* How a file is opened again: it is there already, with its contents. */
#define OPENED_AGAIN (~(O_CREAT | O_EXCL | O_TRUNC))

/* --- saving --------------------------------------------------------------- */

static const char *shown(const V9fsFidState *fid)
{
    return fid->path.data ? fid->path.data : "(no path)";
}

/* Why the fid cannot be saved; NULL: it can. */
static const char *fid_obstacle(V9fsState *s, V9fsFidState *fid)
{
    if (fid->ref) {
        return "is being used by a request";
    }
    if (fid->fid_type == P9_FID_XATTR) {
        return "has an extended attribute that is being read or written";
    }
    if (fid->fid_type != P9_FID_NONE &&
        !exact_files_still_there(&s->ctx, &fid->path, fid->fid_type,
                                 &fid->fs)) {
        return "is open and was removed";
    }
    return NULL;
}

static int by_fid(gconstpointer a, gconstpointer b)
{
    const V9fsFidState *const *x = a, *const *y = b;

    return ((*x)->fid > (*y)->fid) - ((*x)->fid < (*y)->fid);
}

static GPtrArray *sorted_fids(V9fsState *s)
{
    GPtrArray *fids = g_ptr_array_new();
    GHashTableIter iter;
    gpointer fid;

    g_hash_table_iter_init(&iter, s->fids);
    while (g_hash_table_iter_next(&iter, NULL, &fid)) {
        g_ptr_array_add(fids, fid);
    }
    g_ptr_array_sort(fids, by_fid);
    return fids;
}

static void put_fid_state(QEMUFile *f, V9fsState *s, V9fsFidState *fid)
{
    qemu_put_sbe32(f, fid->fid);
    qemu_put_sbe32(f, fid->fid_type);
    qemu_put_sbe32(f, fid->flags);
    qemu_put_sbe32(f, fid->open_flags);
    qemu_put_be32(f, fid->uid);
    qemu_put_be32(f, fid->path.size);
    qemu_put_buffer(f, (uint8_t *)fid->path.data, fid->path.size);
    if (fid->fid_type == P9_FID_DIR) {
        exact_files_put_listing(f, fid->fs.dir.stream);
    }
}

static int folder_put(QEMUFile *f, void *pv, size_t size,
                      const VMStateField *field, JSONWriter *vmdesc)
{
    V9fsState *s = pv;
    g_autoptr(GPtrArray) fids = sorted_fids(s);

    if (!exact_files_serves(s->ops) || !QLIST_EMPTY(&s->active_list)) {
        error_report("the shared folder '%s' cannot be saved: %s", s->tag,
                     QLIST_EMPTY(&s->active_list)
                         ? "it is no folder of the host" : "it is in use");
        return -EBUSY;
    }
    for (guint i = 0; i < fids->len; i++) {
        V9fsFidState *fid = g_ptr_array_index(fids, i);
        const char *obstacle = fid_obstacle(s, fid);

        if (obstacle) {
            error_report("the shared folder '%s' cannot be saved: %s %s",
                         s->tag, shown(fid), obstacle);
            return -EBUSY;
        }
    }
    qemu_put_be32(f, s->proto_version);
    qemu_put_sbe32(f, s->msize);
    qemu_put_sbe32(f, s->root_fid);
    exact_files_put_numbers(f, &s->ctx);
    qemu_put_be32(f, fids->len);
    for (guint i = 0; i < fids->len; i++) {
        put_fid_state(f, s, g_ptr_array_index(fids, i));
    }
    return 0;
}

/* --- loading --------------------------------------------------------------- */

static int damaged(V9fsState *s)
{
    error_report("the snapshot's state of the shared folder '%s' is damaged",
                 s->tag);
    return -EINVAL;
}

static bool is_file(int fd)
{
    struct stat st;

    errno = EISDIR;
    return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* Opens what the fid had open. */
static int open_again(QEMUFile *f, V9fsState *s, V9fsFidState *fid)
{
    int result = 0;

    if (fid->fid_type == P9_FID_FILE) {
        result = s->ops->open(&s->ctx, &fid->path,
                              fid->open_flags & OPENED_AGAIN, &fid->fs);
        if (result >= 0 && !is_file(fid->fs.fd)) {
            result = -1;
        }
    } else if (fid->fid_type == P9_FID_DIR) {
        result = s->ops->opendir(&s->ctx, &fid->path, &fid->fs);
    }
    if (result < 0) {
        error_report("the snapshot has %s open, which cannot be opened in the "
                     "shared folder '%s' (%s): %s", shown(fid), s->tag,
                     s->ctx.fs_root, strerror(errno));
        return -EINVAL;
    }
    if (fid->fid_type != P9_FID_NONE) {
        total_open_fd++;
    }
    if (fid->fid_type == P9_FID_DIR &&
        exact_files_get_listing(f, fid->fs.dir.stream)) {
        return damaged(s);
    }
    return 0;
}

static int get_fid_state(QEMUFile *f, V9fsState *s)
{
    V9fsFidState *fid = g_new0(V9fsFidState, 1);

    v9fs_readdir_init(s->proto_version, &fid->fs.dir);
    v9fs_readdir_init(s->proto_version, &fid->fs_reclaim.dir);
    fid->fid = qemu_get_sbe32(f);
    fid->fid_type = qemu_get_sbe32(f);
    fid->flags = qemu_get_sbe32(f);
    fid->open_flags = qemu_get_sbe32(f);
    fid->uid = qemu_get_be32(f);
    fid->path.size = qemu_get_be32(f);
    if (fid->path.size > PATH_MAX || fid->fid_type < P9_FID_NONE ||
        fid->fid_type > P9_FID_DIR) {
        g_free(fid);
        return damaged(s);
    }
    g_hash_table_insert(s->fids, GINT_TO_POINTER(fid->fid), fid);
    if (fid->path.size) {
        fid->path.data = g_malloc0(fid->path.size + 1);
        qemu_get_buffer(f, (uint8_t *)fid->path.data, fid->path.size);
    }
    return open_again(f, s, fid);
}

static int folder_get(QEMUFile *f, void *pv, size_t size,
                      const VMStateField *field)
{
    V9fsState *s = pv;
    V9fsPath root = { 0 };
    uint32_t count;
    int error;

    s->proto_version = qemu_get_be32(f);
    s->msize = qemu_get_sbe32(f);
    s->root_fid = qemu_get_sbe32(f);
    error = exact_files_get_numbers(f, &s->ctx);
    count = qemu_get_be32(f);
    if (error || count > FIDS_MAX || g_hash_table_size(s->fids)) {
        return damaged(s);
    }
    while (count--) {
        error = get_fid_state(f, s);
        if (error) {
            return error;
        }
    }
    if (s->ops->name_to_path(&s->ctx, NULL, "/", &root) ||
        s->ops->lstat(&s->ctx, &root, &s->root_st)) {
        error_report("%s: %s", s->ctx.fs_root, strerror(errno));
        error = -EINVAL;
    }
    g_free(root.data);
    return error;
}

const VMStateInfo exact_folder_info = {
    .name = "shared folder",
    .get = folder_get,
    .put = folder_put,
};
