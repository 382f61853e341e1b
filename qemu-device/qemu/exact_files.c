/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared folders of an exact board. Contents, names, sizes, owners and modes
 * are the host's. These are not, since two runs may find them different:
 *
 * - numbers of files: they are counted as the guest meets the files;
 * - times: a file that was written after the board's start has the date on
 *   which the board starts, and it was read and changed when it was written;
 * - sizes of folders, and blocks: as many as the size needs;
 * - the order in a folder: that of the names;
 * - the file system's size, free space, identity and generation numbers.
 *
 * All of this runs on the thread of the processors, once the board runs.
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "fsdev/qemu-fsdev.h"
#include "hw/9pfs/9p.h"
#include "hw/9pfs/9p-util.h"
#include "migration/vmstate.h"
#include "system/rtc.h"
#include "exact.h"
#include "exact_files.h"

/* What every file system claims to be: 1 TiB, half of it free. */
#define BLOCK 4096
#define BLOCKS (1ull << 28)
#define FILES (1ull << 24)

/* One file of the host; a key of @numbers. */
typedef struct HostFile {
    uint64_t dev;
    uint64_t ino;
} HostFile;

/* What the guest knows of it; a value of @numbers. */
typedef struct KnownFile {
    uint64_t number;
    FsContext *ctx;                 /* of the folder in which it was seen */
    char *path;                     /* there */
} KnownFile;

/* An open folder, as it was when it was opened or rewound. */
typedef struct Listing {
    GPtrArray *entries;             /* of struct dirent */
    guint next;
} Listing;

static FileOperations *host;        /* what the host's file systems do */
static FileOperations files;        /* the same, made exact */
static GHashTable *numbers;         /* HostFile -> KnownFile */
static GHashTable *listings;        /* DIR -> Listing */
static struct Counted {
    uint64_t last_number;
    struct timespec started;        /* on the host's clock */
} counted;
static time_t date;                 /* on the board's clock, at its start */

/* --- numbers and times ---------------------------------------------------- */

static guint host_file_hash(gconstpointer key)
{
    const HostFile *file = key;

    return g_int64_hash(&file->ino) ^ g_int64_hash(&file->dev);
}

static gboolean host_file_equal(gconstpointer a, gconstpointer b)
{
    return !memcmp(a, b, sizeof(HostFile));
}

static void known_file_free(void *opaque)
{
    KnownFile *known = opaque;

    g_free(known->path);
    g_free(known);
}

static uint64_t set_number(FsContext *ctx, V9fsPath *path,
                           const struct stat *st, uint64_t number)
{
    HostFile key = { .dev = st->st_dev, .ino = st->st_ino };
    KnownFile *known = g_new0(KnownFile, 1);

    known->number = number;
    known->ctx = ctx;
    known->path = path ? g_strdup(path->data) : NULL;
    g_hash_table_replace(numbers, g_memdup2(&key, sizeof(key)), known);
    return number;
}

static KnownFile *known_file(const struct stat *st)
{
    HostFile key = { .dev = st->st_dev, .ino = st->st_ino };

    return g_hash_table_lookup(numbers, &key);
}

/* @path: where it is, or NULL where that is not said. */
static uint64_t number_of(FsContext *ctx, V9fsPath *path, const struct stat *st)
{
    KnownFile *known = known_file(st);

    if (!known) {
        return set_number(ctx, path, st, ++counted.last_number);
    }
    if (path && g_strcmp0(known->path, path->data)) {
        g_free(known->path);
        known->path = g_strdup(path->data);
        known->ctx = ctx;
    }
    return known->number;
}

static struct timespec time_of(struct timespec time)
{
    bool before = time.tv_sec != counted.started.tv_sec
        ? time.tv_sec < counted.started.tv_sec
        : time.tv_nsec < counted.started.tv_nsec;

    return before ? time : (struct timespec){ .tv_sec = date };
}

static int made_exact(int result, FsContext *ctx, V9fsPath *path,
                      struct stat *st)
{
    if (result < 0) {
        return result;
    }
    st->st_ino = number_of(ctx, path, st);
    st->st_dev = 1;
    if (S_ISDIR(st->st_mode)) {
        st->st_size = BLOCK;    /* it depends on what was in there once */
    }
    st->st_blocks = DIV_ROUND_UP(st->st_size, 512);
    st->st_blksize = BLOCK;
    st->st_mtim = time_of(st->st_mtim);
    st->st_ctim = st->st_atim = st->st_mtim;
    return result;
}

static int files_lstat(FsContext *ctx, V9fsPath *path, struct stat *st)
{
    return made_exact(host->lstat(ctx, path, st), ctx, path, st);
}

static int files_fstat(FsContext *ctx, int fid_type, V9fsFidOpenState *fs,
                       struct stat *st)
{
    return made_exact(host->fstat(ctx, fid_type, fs, st), ctx, NULL, st);
}

static int files_statfs(FsContext *ctx, V9fsPath *path, struct statfs *st)
{
    int result = host->statfs(ctx, path, st);

    if (result < 0) {
        return result;
    }
    *st = (struct statfs){
        .f_type = st->f_type,
        .f_bsize = BLOCK,
        .f_blocks = BLOCKS,
        .f_bfree = BLOCKS / 2,
        .f_bavail = BLOCKS / 2,
        .f_files = FILES,
        .f_ffree = FILES / 2,
        .f_namelen = st->f_namelen,
    };
    return result;
}

/* --- new files ------------------------------------------------------------ */

/* The host says what is at this place; false where nothing is. */
static bool look(FsContext *ctx, V9fsPath *folder, const char *name,
                 V9fsPath *path, struct stat *st)
{
    int error = errno;
    bool found = !host->name_to_path(ctx, folder, name, path) &&
                 !host->lstat(ctx, path, st);

    errno = error;
    return found;
}

/* The host may give a new file the number of one that is gone. */
static int made_new(int result, FsContext *ctx, V9fsPath *folder,
                    const char *name)
{
    V9fsPath path = { 0 };
    struct stat st;

    if (result >= 0 && look(ctx, folder, name, &path, &st)) {
        set_number(ctx, &path, &st, ++counted.last_number);
    }
    g_free(path.data);
    return result;
}

static int files_mknod(FsContext *ctx, V9fsPath *folder, const char *name,
                       FsCred *cred)
{
    return made_new(host->mknod(ctx, folder, name, cred), ctx, folder, name);
}

static int files_mkdir(FsContext *ctx, V9fsPath *folder, const char *name,
                       FsCred *cred)
{
    return made_new(host->mkdir(ctx, folder, name, cred), ctx, folder, name);
}

static int files_symlink(FsContext *ctx, const char *target, V9fsPath *folder,
                         const char *name, FsCred *cred)
{
    return made_new(host->symlink(ctx, target, folder, name, cred), ctx, folder,
                    name);
}

static int files_open2(FsContext *ctx, V9fsPath *folder, const char *name,
                       int flags, FsCred *cred, V9fsFidOpenState *fs)
{
    V9fsPath path = { 0 };
    struct stat st;
    bool there = look(ctx, folder, name, &path, &st);
    int result = host->open2(ctx, folder, name, flags, cred, fs);

    g_free(path.data);
    return there ? result : made_new(result, ctx, folder, name);
}

/* --- folders -------------------------------------------------------------- */

static int by_name(gconstpointer a, gconstpointer b)
{
    const struct dirent *const *x = a, *const *y = b;

    return strcmp((*x)->d_name, (*y)->d_name);
}

static void listing_free(void *opaque)
{
    Listing *listing = opaque;

    g_ptr_array_unref(listing->entries);
    g_free(listing);
}

static void files_rewinddir(FsContext *ctx, V9fsFidOpenState *fs)
{
    Listing *listing = g_new0(Listing, 1);
    struct dirent *entry;

    listing->entries = g_ptr_array_new_with_free_func(g_free);
    host->rewinddir(ctx, fs);
    while ((entry = host->readdir(ctx, fs))) {
        g_ptr_array_add(listing->entries, qemu_dirent_dup(entry));
    }
    g_ptr_array_sort(listing->entries, by_name);
    for (guint i = 0; i < listing->entries->len; i++) {
        entry = g_ptr_array_index(listing->entries, i);
        entry->d_off = i + 1;
        entry->d_ino = 0;
    }
    g_hash_table_replace(listings, fs->dir.stream, listing);
}

static Listing *listing_of(FsContext *ctx, V9fsFidOpenState *fs)
{
    if (!g_hash_table_contains(listings, fs->dir.stream)) {
        files_rewinddir(ctx, fs);
    }
    return g_hash_table_lookup(listings, fs->dir.stream);
}

static off_t files_telldir(FsContext *ctx, V9fsFidOpenState *fs)
{
    return listing_of(ctx, fs)->next;
}

static void files_seekdir(FsContext *ctx, V9fsFidOpenState *fs, off_t offset)
{
    Listing *listing = listing_of(ctx, fs);

    listing->next = MIN(MAX(offset, 0), listing->entries->len);
}

/* What was removed since the folder was listed is left out. */
static struct dirent *files_readdir(FsContext *ctx, V9fsFidOpenState *fs)
{
    Listing *listing = listing_of(ctx, fs);
    struct stat st;

    errno = 0;
    while (listing->next < listing->entries->len) {
        struct dirent *entry =
            g_ptr_array_index(listing->entries, listing->next++);

        if (!fstatat(dirfd(fs->dir.stream), entry->d_name, &st,
                     AT_SYMLINK_NOFOLLOW)) {
            return entry;
        }
        errno = 0;
    }
    return NULL;
}

static int files_closedir(FsContext *ctx, V9fsFidOpenState *fs)
{
    g_hash_table_remove(listings, fs->dir.stream);
    return host->closedir(ctx, fs);
}

/* --- snapshots ------------------------------------------------------------ */

#define LISTED_MAX (1 << 24)    /* entries of a folder */

bool exact_files_serves(const FileOperations *ops)
{
    return ops == &files;
}

/* It is where the guest has seen it last. */
static bool still_known(KnownFile *known)
{
    V9fsPath path = { .data = known->path };
    struct stat st;

    return known->path && !host->lstat(known->ctx, &path, &st) &&
           known_file(&st) == known;
}

/* Gives the files below that are not where they were seen their new paths. */
static void find_moved(FsContext *ctx, const char *folder)
{
    g_autofree char *place = g_build_filename(ctx->fs_root, folder, NULL);
    g_autoptr(GDir) entries = g_dir_open(place, 0, NULL);
    const char *name;

    while (entries && (name = g_dir_read_name(entries))) {
        g_autofree char *path = g_strdup_printf("%s/%s", folder, name);
        V9fsPath there = { .data = path };
        KnownFile *known;
        struct stat st;

        if (host->lstat(ctx, &there, &st)) {
            continue;
        }
        known = known_file(&st);
        if (known && !still_known(known)) {
            g_free(known->path);
            known->path = g_strdup(path);
            known->ctx = ctx;
        }
        if (S_ISDIR(st.st_mode)) {
            find_moved(ctx, path);
        }
    }
}

/*
 * The guest may have renamed a file, or a folder above it, or removed one of
 * its names, and not looked at it since.
 */
static void find_all_moved(FsContext *ctx)
{
    GHashTableIter iter;
    gpointer known;

    g_hash_table_iter_init(&iter, numbers);
    while (g_hash_table_iter_next(&iter, NULL, &known)) {
        if (((KnownFile *)known)->ctx == ctx && !still_known(known)) {
            find_moved(ctx, ".");
            return;
        }
    }
}

/* Those that were removed meanwhile are left out. */
void exact_files_put_numbers(QEMUFile *f, FsContext *ctx)
{
    GHashTableIter iter;
    gpointer known;

    if (!(ctx->export_flags & V9FS_RDONLY)) {
        find_all_moved(ctx);
    }
    g_hash_table_iter_init(&iter, numbers);
    while (g_hash_table_iter_next(&iter, NULL, &known)) {
        KnownFile *file = known;

        if (file->ctx == ctx && still_known(file)) {
            qemu_put_be64(f, file->number);
            qemu_put_be32(f, strlen(file->path));
            qemu_put_buffer(f, (uint8_t *)file->path, strlen(file->path));
        }
    }
    qemu_put_be64(f, 0);
}

/* What is there now has the number, also if it is another file of the host. */
int exact_files_get_numbers(QEMUFile *f, FsContext *ctx)
{
    uint64_t number;

    while ((number = qemu_get_be64(f))) {
        uint32_t bytes = qemu_get_be32(f);
        g_autofree char *name = bytes < PATH_MAX ? g_malloc0(bytes + 1) : NULL;
        V9fsPath path = { .data = name, .size = bytes + 1 };
        struct stat st;

        if (!name || qemu_get_buffer(f, (uint8_t *)name, bytes) != bytes) {
            return -EINVAL;
        }
        if (!host->lstat(ctx, &path, &st)) {
            set_number(ctx, &path, &st, number);
        }
    }
    return 0;
}

bool exact_files_still_there(FsContext *ctx, V9fsPath *path, int fid_type,
                             V9fsFidOpenState *fs)
{
    bool closed = fid_type == P9_FID_DIR ? !fs->dir.stream : fs->fd == -1;
    struct stat open, there;

    return closed || (!host->fstat(ctx, fid_type, fs, &open) &&
                      !host->lstat(ctx, path, &there) &&
                      open.st_dev == there.st_dev &&
                      open.st_ino == there.st_ino);
}

void exact_files_put_listing(QEMUFile *f, DIR *stream)
{
    Listing *listing = stream ? g_hash_table_lookup(listings, stream) : NULL;

    qemu_put_byte(f, !!listing);
    if (!listing) {
        return;
    }
    qemu_put_be32(f, listing->next);
    qemu_put_be32(f, listing->entries->len);
    for (guint i = 0; i < listing->entries->len; i++) {
        struct dirent *entry = g_ptr_array_index(listing->entries, i);

        qemu_put_byte(f, entry->d_type);
        qemu_put_counted_string(f, entry->d_name);
    }
}

int exact_files_get_listing(QEMUFile *f, DIR *stream)
{
    Listing *listing;
    guint count;

    if (!qemu_get_byte(f)) {
        return 0;
    }
    listing = g_new0(Listing, 1);
    listing->entries = g_ptr_array_new_with_free_func(g_free);
    listing->next = qemu_get_be32(f);
    count = qemu_get_be32(f);
    for (guint i = 0; i < count && count <= LISTED_MAX; i++) {
        struct dirent *entry = g_new0(struct dirent, 1);

        g_ptr_array_add(listing->entries, entry);
        entry->d_off = i + 1;
        entry->d_reclen = sizeof(*entry);
        entry->d_type = qemu_get_byte(f);
        if (!qemu_get_counted_string(f, entry->d_name)) {
            break;
        }
    }
    g_hash_table_replace(listings, stream, listing);
    return listing->entries->len == count && listing->next <= count
        ? 0 : -EINVAL;
}

/* The folders' files get their numbers later. */
static int files_post_load(void *opaque, int version)
{
    if (numbers) {
        g_hash_table_remove_all(numbers);
    }
    return 0;
}

static const VMStateDescription files_vmstate = {
    .name = "exact files",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = files_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(last_number, struct Counted),
        VMSTATE_INT64(started.tv_sec, struct Counted),
        VMSTATE_INT64(started.tv_nsec, struct Counted),
        VMSTATE_END_OF_LIST()
    },
};

void exact_files_register(void)
{
    vmstate_register(NULL, 0, &files_vmstate, &counted);
}

/* --- start ---------------------------------------------------------------- */

/* Before the board's clock runs. */
static int files_init(FsContext *ctx, Error **errp)
{
    int result = host->init(ctx, errp);
    struct tm now;

    ctx->exops.get_st_gen = NULL;
    if (!date) {
        qemu_get_timedate(&now, 0);
        date = mktimegm(&now);
        clock_gettime(CLOCK_REALTIME, &counted.started);
    }
    return result;
}

FileOperations *exact_files(FileOperations *ops)
{
    if (!exact_enabled() || ops != &local_ops) {
        return ops;
    }
    if (!host) {
        host = ops;
        numbers = g_hash_table_new_full(host_file_hash, host_file_equal,
                                        g_free, known_file_free);
        listings = g_hash_table_new_full(NULL, NULL, NULL, listing_free);
        files = *host;
        files.init = files_init;
        files.lstat = files_lstat;
        files.fstat = files_fstat;
        files.statfs = files_statfs;
        files.mknod = files_mknod;
        files.mkdir = files_mkdir;
        files.symlink = files_symlink;
        files.open2 = files_open2;
        files.rewinddir = files_rewinddir;
        files.telldir = files_telldir;
        files.seekdir = files_seekdir;
        files.readdir = files_readdir;
        files.closedir = files_closedir;
    }
    return &files;
}
