/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Caches that are not coherent with a device, and the watch over them.
 *
 * The machine's RAM block is what processors see, that is what their caches
 * hold or would fetch; a second copy of it is what DRAM holds. Both are equal
 * for what nobody keeps apart. A page is tracked from the first time that a
 * processor maintains a line of it, maps it without cache, or the device
 * accesses it: then each of its lines has a state, and every access by a
 * processor comes here (exec/soc-caches.h is the interface to the TLB).
 *
 * State of a line
 *
 * - ABSENT: in no cache. RAM and DRAM are equal, and what the device writes
 *   goes to both, since a processor would fetch it.
 * - CLEAN: in a cache, not written since. The device writes to DRAM only.
 * - DIRTY: in a cache, newer than DRAM where a processor has written.
 *
 * All processors share one cache: they are coherent with each other. Other
 * devices of the board (virtio) are coherent, too: what they write is dirty.
 *
 * What a processor writes past the caches is in DRAM only: in a page that was
 * mapped so, ABSENT and CLEAN lines may differ from DRAM, too, and a line that
 * gets into the cache is fetched then.
 *
 * Two masks with a bit for each byte serve the watch: `written`, by a
 * processor since the line was last cleaned, and `fresh`, by the device since
 * the line was last invalidated and not written by a processor since. They
 * follow what software does, and not the luck of evictions.
 *
 * A page that processors use much while nobody maintains it has been given to
 * somebody else: it is let go, as if the lines that are not dirty had left
 * the cache. Its DRAM stays, and when it is tracked again, what differs is
 * dirty. That is wrong where a processor still has a way past the caches and
 * writes there; pages that are never let go, though, lose what virtio writes
 * between its write and device_wrote().
 *
 * Locks: a page's lines are under one of PAGE_LOCKS spin locks, which nothing
 * is done in but copies of a line; reports are under watch.lock. A page that
 * exists stays.
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/host-utils.h"
#include "qemu/thread.h"
#include "cpu.h"
#include "exec/cputlb.h"
#include "exec/exec-all.h"
#include "exec/memory.h"
#include "exec/ram_addr.h"
#include "exec/soc-caches.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "tcg/insn-start-words.h"
#include "internals.h"
#include "soc_caches.h"
#include "trace.h"

#include <npu_model.h>
#include <npu_regs.h>

#define PAGE_BYTES 4096
#define PAGE_LINES (PAGE_BYTES / SOC_LINE_BYTES)
#define PAGE_LOCKS 1024
#define REPORTS 256
#define RECENT 4                    /* reports that a new one may belong to */
#define KINDS (NPU_WATCH_DISCARDED + 1)
/* Accesses of processors without maintenance after which a page is let go. */
#define PAGE_PATIENCE 16384
/* One line in so many does something on its own when the device meets it. */
#define DICE 8

typedef enum LineState {
    LINE_ABSENT,
    LINE_CLEAN,
    LINE_DIRTY,
} LineState;

typedef struct Line {
    uint64_t written;
    uint64_t fresh;
    uint64_t writer_pc;             /* of the first write in `written` */
    uint8_t state;
    uint8_t reported;               /* bit for each kind */
} Line;

typedef struct Page {
    Line lines[PAGE_LINES];
    uint64_t writer_space;          /* of the last write */
    uint32_t writer_level;
    uint32_t patience;              /* accesses until it is let go */
    bool tracked;                   /* read without the lock */
    bool uncached;                  /* processors see it without cache */
    bool cached;                    /* or through it, since maintenance */
    bool past_caches;               /* they have, since it is tracked */
    bool accessed;                  /* by a job: then */
    struct npu_model_access access; /* which, with va of the page's first byte */
    uint64_t addr;                  /* of the first byte, for processors */
} Page;

static struct {
    bool active;                    /* constant while a processor runs */
    MemoryRegion *mr;
    ram_addr_t start;
    uint64_t bytes;
    uint8_t *ram;
    uint8_t *dram;
    Page **pages;                   /* set once, atomically */
    QemuSpin locks[PAGE_LOCKS];
    uint64_t dice;                  /* atomic: throws so far */
    SocWatch settings;
} caches;

static struct {
    QemuMutex lock;
    bool ready;                     /* the lock is */
    bool off;
    uint32_t counts[KINDS];         /* 0: lost */
    SocReport reports[REPORTS];
    unsigned first, used;
} watch;

/* --- reports -------------------------------------------------------------- */

static const char *const kind_names[KINDS] = {
    [NPU_WATCH_UNCLEANED] = "the NPU read what was not cleaned",
    [NPU_WATCH_STALE] = "a processor read what was not invalidated",
    [NPU_WATCH_OVERWRITTEN] = "a cleaned line replaced what the NPU had written",
    [NPU_WATCH_DISCARDED] = "an invalidation discarded what was not cleaned",
};

static void report_fatal(const SocReport *r)
{
    error_report("npu-soc: %s: address 0x%" PRIx64 ", %" PRIu32
                 " bytes, pc 0x%" PRIx64 " at EL%" PRIu32 ", job %" PRIu64
                 " of queue %" PRIu32 ", core %" PRIu32 " engine %" PRIu32
                 " command %" PRIu32, kind_names[r->kind], r->addr, r->bytes,
                 r->pc, r->level, r->job, r->queue, r->engine >> 8,
                 r->engine & 0xff, r->command);
    _exit(EXIT_FAILURE);
}

/* Does it begin in the line after the one in which that one ends? */
static bool is_next_line(uint64_t from, uint32_t bytes, uint64_t to)
{
    return ROUND_UP(from + bytes, SOC_LINE_BYTES) ==
           ROUND_DOWN(to, SOC_LINE_BYTES);
}

/* Does it go on where that one ends, for the same reason? */
static bool report_continues(const SocReport *last, const SocReport *r)
{
    bool next = last->va ? is_next_line(last->va, last->bytes, r->va)
                         : !r->va && is_next_line(last->addr, last->bytes,
                                                  r->addr);

    return next && last->kind == r->kind && last->asid == r->asid &&
           last->queue == r->queue && last->job == r->job &&
           last->engine == r->engine && last->command == r->command &&
           last->pc == r->pc && last->space == r->space &&
           last->bytes <= UINT32_MAX - 2 * SOC_LINE_BYTES;
}

/* Under the lock. False: there is no room. */
static bool watch_put(const SocReport *r)
{
    unsigned i;

    /* Several processors and engines may be at it in turn. */
    for (i = watch.used; i-- > watch.used - MIN(watch.used, RECENT);) {
        SocReport *last = &watch.reports[(watch.first + i) % REPORTS];

        if (report_continues(last, r)) {
            last->bytes = r->bytes + (last->va ? r->va - last->va
                                               : r->addr - last->addr);
            return true;
        }
    }
    if (watch.used == REPORTS) {
        watch.counts[0]++;
        return false;
    }
    watch.reports[(watch.first + watch.used++) % REPORTS] = *r;
    return true;
}

static void watch_add(const SocReport *r)
{
    bool notify = false;

    qemu_mutex_lock(&watch.lock);
    if (!watch.off) {
        watch.counts[r->kind]++;
        notify = watch_put(r);
    }
    qemu_mutex_unlock(&watch.lock);
    trace_soc_watch(kind_names[r->kind], r->addr, r->bytes, r->pc, r->job,
                    r->command);
    if (notify && caches.settings.fatal) {
        report_fatal(r);
    }
    if (notify) {
        caches.settings.notify(caches.settings.opaque);
    }
}

void soc_watch_enable(bool on)
{
    qatomic_set(&watch.off, !on);
}

bool soc_watch_is_enabled(void)
{
    return !qatomic_read(&watch.off);
}

uint32_t soc_watch_count(unsigned kind)
{
    return qatomic_read(&watch.counts[kind]);
}

SocReport soc_watch_report(void)
{
    SocReport report = { 0 };

    if (watch.ready) {
        QEMU_LOCK_GUARD(&watch.lock);
        if (watch.used) {
            report = watch.reports[watch.first];
        }
    }
    return report;
}

bool soc_watch_next(void)
{
    if (!watch.ready) {
        return false;
    }
    QEMU_LOCK_GUARD(&watch.lock);
    if (watch.used) {
        watch.first = (watch.first + 1) % REPORTS;
        watch.used--;
    }
    return watch.used;
}

/* Who is at work. */
typedef struct Actor {
    CPUState *cpu;                  /* NULL: no processor */
    uintptr_t ra;                   /* in translated code; 0: pc is exact */
    uint64_t pc;                    /* valid where known */
    bool known;
} Actor;

/*
 * In translated code the program counter is known up to its page, and the rest
 * of it by the place in that code. The state of the processor must not be
 * restored from it: the code goes on, and counts from the old one.
 */
static uint64_t actor_pc(Actor *actor)
{
    uint64_t place[TARGET_INSN_START_WORDS];

    if (!actor->known && actor->cpu) {
        CPUARMState *env = cpu_env(actor->cpu);

        actor->pc = is_a64(env) ? env->pc : env->regs[15];
        if (actor->ra && cpu_unwind_state_data(actor->cpu, actor->ra, place)) {
            actor->pc = tcg_cflags_has(actor->cpu, CF_PCREL)
                ? (actor->pc & TARGET_PAGE_MASK) | place[0] : place[0];
        }
    }
    actor->known = true;
    return actor->pc;
}

static uint64_t actor_space(const Actor *actor)
{
    return actor->cpu ? cpu_env(actor->cpu)->cp15.ttbr0_el[1]
                        & MAKE_64BIT_MASK(1, 47) : 0;
}

static uint32_t actor_level(const Actor *actor)
{
    return actor->cpu ? arm_current_el(cpu_env(actor->cpu)) : 0;
}

/*
 * A line's first report of its kind since it was maintained. Under the page's
 * lock; what is reported is left in @out.
 */
static bool line_report(Page *page, unsigned number, unsigned kind,
                        uint64_t bytes, SocReport *out)
{
    Line *line = &page->lines[number];
    unsigned first = ctz64(bytes);
    uint64_t at = number * SOC_LINE_BYTES + first;

    if (line->reported & (1u << kind) || qatomic_read(&watch.off)) {
        return false;
    }
    line->reported |= 1u << kind;
    *out = (SocReport) {
        .kind = kind,
        .bytes = 64 - clz64(bytes) - first,
        .addr = page->addr + at,
        .engine = NPU_ENGINE_NONE,
        .command = NPU_COMMAND_NONE,
    };
    if (page->accessed) {
        out->va = page->access.va + at;
        out->asid = page->access.asid;
        out->queue = page->access.queue;
        out->job = page->access.job;
        out->command = page->access.command;
        out->layer = page->access.layer;
        out->engine = page->access.core << 8 | page->access.engine;
    }
    return true;
}

static void report_by(SocReport *r, Actor *actor)
{
    r->pc = actor_pc(actor);
    r->space = actor_space(actor);
    r->level = actor_level(actor);
    watch_add(r);
}

/* --- pages ----------------------------------------------------------------- */

static bool dice(void)
{
    uint64_t x = qatomic_fetch_inc(&caches.dice) + caches.settings.seed;

    /* splitmix64 */
    x = (x + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x % DICE == 0;
}

static bool covers(ram_addr_t addr)
{
    return addr - caches.start < caches.bytes;
}

static Page *page_at(ram_addr_t addr)
{
    return qatomic_load_acquire(
        &caches.pages[(addr - caches.start) / PAGE_BYTES]);
}

static QemuSpin *lock_of(ram_addr_t addr)
{
    return &caches.locks[(addr - caches.start) / PAGE_BYTES % PAGE_LOCKS];
}

static uint8_t *ram_at(ram_addr_t addr)
{
    return caches.ram + (addr - caches.start);
}

static uint8_t *dram_at(ram_addr_t addr)
{
    return caches.dram + (addr - caches.start);
}

static ram_addr_t line_of(ram_addr_t addr)
{
    return addr & ~(ram_addr_t)(SOC_LINE_BYTES - 1);
}

static unsigned number_of(ram_addr_t addr)
{
    return addr % PAGE_BYTES / SOC_LINE_BYTES;
}

/* Bits of bytes in the line of @addr, from there on. */
static uint64_t mask_of(ram_addr_t addr, unsigned bytes)
{
    return MAKE_64BIT_MASK(addr % SOC_LINE_BYTES, bytes);
}

static void line_write_back(ram_addr_t line)
{
    memcpy(dram_at(line), ram_at(line), SOC_LINE_BYTES);
}

static void line_fetch(ram_addr_t line)
{
    memcpy(ram_at(line), dram_at(line), SOC_LINE_BYTES);
}

/* A line that is in no cache gets into one. */
static void line_enter(Page *page, ram_addr_t addr)
{
    if (page->past_caches) {
        line_fetch(line_of(addr));
    }
    page->lines[number_of(addr)].state = LINE_CLEAN;
}

static uint64_t line_difference(ram_addr_t line)
{
    const uint8_t *ram = ram_at(line), *dram = dram_at(line);
    uint64_t mask = 0;
    unsigned i;

    if (!memcmp(ram, dram, SOC_LINE_BYTES)) {
        return 0;
    }
    for (i = 0; i < SOC_LINE_BYTES; i++) {
        mask |= (uint64_t)(ram[i] != dram[i]) << i;
    }
    return mask;
}

/* Nobody knows who wrote what differs, and when. */
static void page_adopt(Page *page, ram_addr_t addr)
{
    ram_addr_t line = addr & ~(ram_addr_t)(PAGE_BYTES - 1);
    unsigned i;

    for (i = 0; i < PAGE_LINES; i++, line += SOC_LINE_BYTES) {
        uint64_t difference = line_difference(line);

        page->lines[i] = (Line) {
            .written = difference,
            .state = difference ? LINE_DIRTY : LINE_CLEAN,
        };
    }
    page->accessed = page->uncached = page->past_caches = false;
    page->cached = false;
    page->addr = caches.mr->addr + ((addr - caches.start) &
                                    ~(ram_addr_t)(PAGE_BYTES - 1));
    page->patience = PAGE_PATIENCE;
}

/*
 * The page of an address, tracked from now on. The locks of TLBs are inside of
 * the page's; who fills an entry looks at `tracked` only.
 */
static Page *page_track(ram_addr_t addr)
{
    Page **slot = &caches.pages[(addr - caches.start) / PAGE_BYTES];
    Page *page = page_at(addr), *other;

    if (!page) {
        page = g_new0(Page, 1);
        other = qatomic_cmpxchg(slot, NULL, page);
        if (other) {
            g_free(page);
            page = other;
        }
    }
    if (!qatomic_read(&page->tracked)) {
        qemu_spin_lock(lock_of(addr));
        if (!page->tracked) {
            /* From now on new entries of TLBs lead here. */
            qatomic_set(&page->tracked, true);
            tlb_watch_page(ram_at(addr & ~(ram_addr_t)(PAGE_BYTES - 1)));
            page_adopt(page, addr);
        }
        qemu_spin_unlock(lock_of(addr));
    }
    return page;
}

/* Under the page's lock. */
static void page_let_go(Page *page, ram_addr_t addr)
{
    ram_addr_t line = addr & ~(ram_addr_t)(PAGE_BYTES - 1);
    unsigned i;

    for (i = 0; i < PAGE_LINES; i++) {
        if (page->lines[i].fresh) {
            page->patience = PAGE_PATIENCE;
            return;
        }
    }
    for (i = 0; i < PAGE_LINES; i++) {
        if (page->past_caches && page->lines[i].state != LINE_DIRTY) {
            line_fetch(line + i * SOC_LINE_BYTES);
        }
    }
    qatomic_set(&page->tracked, false);
}

/* --- processors ------------------------------------------------------------ */

static bool cpu_line_access(Page *page, ram_addr_t addr, uint64_t mask,
                            bool is_write, Actor *actor, SocReport *report)
{
    unsigned number = number_of(addr);
    Line *line = &page->lines[number];

    if (line->state == LINE_ABSENT) {
        line_enter(page, addr);
    }
    if (!is_write) {
        mask &= line->fresh;
        return mask && line_report(page, number, NPU_WATCH_STALE, mask, report);
    }
    if (!line->written || line->state != LINE_DIRTY) {
        line->writer_pc = actor_pc(actor);
    }
    page->writer_space = actor_space(actor);
    page->writer_level = actor_level(actor);
    line->state = LINE_DIRTY;
    line->written |= mask;
    line->fresh &= ~mask;
    return false;
}

/* Of a cached page that is watched, before the access. */
static void cpu_access(CPUState *cpu, ram_addr_t addr, unsigned bytes,
                       bool is_write, uintptr_t ra)
{
    Actor actor = { .cpu = cpu, .ra = ra };

    while (bytes && covers(addr)) {
        unsigned piece = MIN(bytes, SOC_LINE_BYTES - addr % SOC_LINE_BYTES);
        Page *page = page_at(addr);
        SocReport report;
        bool told = false;

        if (page && qatomic_read(&page->tracked)) {
            QemuSpin *lock = lock_of(addr);

            qemu_spin_lock(lock);
            page->uncached = false;
            page->cached = true;
            told = cpu_line_access(page, addr, mask_of(addr, piece), is_write,
                                   &actor, &report);
            if (!--page->patience) {
                page_let_go(page, addr);
            }
            qemu_spin_unlock(lock);
        }
        if (told) {
            report_by(&report, &actor);
        }
        addr += piece;
        bytes -= piece;
    }
}

/*
 * A line gets into the cache of which @mask has been written already: the rest
 * of it is what memory holds.
 */
static void line_enter_around(Page *page, ram_addr_t addr, uint64_t mask)
{
    Line *line = &page->lines[number_of(addr)];
    ram_addr_t at = line_of(addr);
    unsigned i;

    if (line->state != LINE_ABSENT) {
        return;
    }
    for (i = 0; page->past_caches && i < SOC_LINE_BYTES; i++) {
        if (!(mask >> i & 1)) {
            *ram_at(at + i) = *dram_at(at + i);
        }
    }
    line->state = LINE_CLEAN;
}

/* What processors execute may be there. Not under a page's lock. */
static void code_changed(ram_addr_t addr, hwaddr bytes)
{
    if (cpu_physical_memory_range_includes_clean(addr, bytes,
                                                 1 << DIRTY_MEMORY_CODE)) {
        tb_invalidate_phys_range(addr, addr + bytes - 1);
    }
}

/* Another device has written RAM. */
static void device_wrote(ram_addr_t addr, hwaddr bytes)
{
    Actor nobody = { .known = true };

    while (bytes && covers(addr)) {
        unsigned piece = MIN(bytes, SOC_LINE_BYTES - addr % SOC_LINE_BYTES);
        Page *page = page_at(addr);

        if (!page || !qatomic_read(&page->tracked)) {
            piece = MIN(bytes, PAGE_BYTES - addr % PAGE_BYTES);
        } else {
            qemu_spin_lock(lock_of(addr));
            line_enter_around(page, addr, mask_of(addr, piece));
            cpu_line_access(page, addr, mask_of(addr, piece), true, &nobody,
                            NULL);
            qemu_spin_unlock(lock_of(addr));
        }
        addr += piece;
        bytes -= piece;
    }
}

static bool line_clean(Page *page, ram_addr_t addr, SocReport *report)
{
    unsigned number = number_of(addr);
    Line *line = &page->lines[number];
    bool told = false;

    /*
     * Without a mapping past the caches, a line that differs has met a store
     * that came between a look here and the change of the state.
     */
    if (line->state == LINE_DIRTY ||
        (!page->past_caches && line_difference(addr) & ~line->fresh)) {
        told = line->fresh && line_report(page, number, NPU_WATCH_OVERWRITTEN,
                                          line->fresh, report);
        line_write_back(addr);
        line->state = LINE_CLEAN;
        line->fresh = 0;
    }
    line->written = 0;
    return told;
}

static bool line_invalidate(Page *page, ram_addr_t addr, SocReport *report)
{
    unsigned number = number_of(addr);
    Line *line = &page->lines[number];
    bool told = line->state == LINE_DIRTY && line->written &&
                line_report(page, number, NPU_WATCH_DISCARDED, line->written,
                            report);

    line_fetch(addr);
    line->state = LINE_ABSENT;
    line->written = line->fresh = 0;
    return told;
}

/* The line of an address is maintained. */
static void cpu_maintain(CPUState *cpu, ram_addr_t addr, SocMaintenance what)
{
    Actor actor = { .cpu = cpu };
    SocReport report;
    bool told = false;
    Page *page;

    if (!covers(addr)) {
        return;
    }
    addr = line_of(addr);
    page = page_track(addr);
    qemu_spin_lock(lock_of(addr));
    if (what != SOC_INVALIDATE) {
        told = line_clean(page, addr, &report);
    }
    if (what != SOC_CLEAN) {
        told |= line_invalidate(page, addr, &report);
    }
    page->lines[number_of(addr)].reported = 0;
    page->patience = PAGE_PATIENCE;
    page->cached = false;
    qemu_spin_unlock(lock_of(addr));
    if (what != SOC_CLEAN) {
        code_changed(addr, SOC_LINE_BYTES);
    }
    if (told) {
        report_by(&report, &actor);
    }
}

/* Is memory of this kind cached? Attributes are those of MAIR. */
static bool is_cached(CPUState *cpu, const CPUTLBEntryFull *full)
{
    CPUARMState *env = cpu_env(cpu);
    uint8_t attrs = full->extra.arm.pte_attrs;

    /* Without translation all counts as cached: that is how a kernel boots. */
    if (!(env->cp15.sctlr_el[1] & SCTLR_M)) {
        return true;
    }
    return (attrs & 0xf0) && attrs != 0x44;
}

static void *cpu_map(CPUState *cpu, ram_addr_t page,
                     const CPUTLBEntryFull *full, int prot)
{
    Page *tracked;

    if (!covers(page) || prot & PAGE_EXEC || is_cached(cpu, full)) {
        return NULL;
    }
    tracked = page_track(page);
    qatomic_set(&tracked->past_caches, true);
    if (!qatomic_read(&tracked->cached)) {
        qatomic_set(&tracked->uncached, true);
    }
    return dram_at(page);
}

static bool is_watched(ram_addr_t addr)
{
    Page *page = covers(addr) ? page_at(addr) : NULL;

    return page && qatomic_read(&page->tracked);
}

static const SocCachesOps soc_caches_ops = {
    .access = cpu_access,
    .maintain = cpu_maintain,
    .map = cpu_map,
    .is_watched = is_watched,
    .device_wrote = device_wrote,
};

/* --- the device ------------------------------------------------------------ */

static bool npu_line_read(Page *page, ram_addr_t addr, uint64_t mask,
                          SocReport *report)
{
    unsigned number = number_of(addr);
    Line *line = &page->lines[number];
    bool told;

    mask &= line->written;
    told = mask && line_report(page, number, NPU_WATCH_UNCLEANED, mask, report);
    if (told) {
        report->pc = line->writer_pc;
        report->space = page->writer_space;
        report->level = page->writer_level;
    }
    if (line->state == LINE_DIRTY && dice()) {
        /* The cache needs the room. */
        line_write_back(line_of(addr));
        line->state = LINE_ABSENT;
    }
    return told;
}

static void npu_line_write(Page *page, ram_addr_t addr, uint64_t mask,
                           const void *buf, unsigned bytes)
{
    Line *line = &page->lines[number_of(addr)];

    if (line->state == LINE_ABSENT && dice()) {
        /* A processor reads ahead. */
        line_enter(page, addr);
    } else if (line->state == LINE_CLEAN && dice()) {
        /* It needs the room. */
        line_fetch(line_of(addr));
        line->state = LINE_ABSENT;
    }
    if (!page->uncached) {
        line->fresh |= mask;
    }
    memcpy(dram_at(addr), buf, bytes);
    if (line->state == LINE_ABSENT) {
        memcpy(ram_at(addr), buf, bytes);
    }
}

/* @bytes in one line. */
static void npu_line_copy(Page *page, ram_addr_t addr, void *buf,
                          unsigned bytes, bool is_write)
{
    uint64_t mask = mask_of(addr, bytes);
    SocReport report;
    bool told = false;

    if (is_write) {
        npu_line_write(page, addr, mask, buf, bytes);
        return;
    }
    told = npu_line_read(page, addr, mask, &report);
    memcpy(buf, dram_at(addr), bytes);
    if (told) {
        qemu_spin_unlock(lock_of(addr));
        watch_add(&report);
        qemu_spin_lock(lock_of(addr));
    }
}

/* @bytes in one page. */
static void npu_page_copy(ram_addr_t addr,
                          const struct npu_model_access *access, void *buf,
                          unsigned bytes, bool is_write)
{
    Page *page = page_track(addr);
    ram_addr_t start = addr;

    qemu_spin_lock(lock_of(addr));
    page->patience = PAGE_PATIENCE;
    page->accessed = access;
    if (access) {
        page->access = *access;
        page->access.va &= ~(uint64_t)(PAGE_BYTES - 1);
    }
    while (bytes) {
        unsigned piece = MIN(bytes, SOC_LINE_BYTES - addr % SOC_LINE_BYTES);

        npu_line_copy(page, addr, buf, piece, is_write);
        buf = (char *)buf + piece;
        addr += piece;
        bytes -= piece;
    }
    qemu_spin_unlock(lock_of(addr - 1));
    if (is_write) {
        code_changed(start, addr - start);
    }
}

void soc_caches_copy(MemoryRegion *mr, hwaddr offset,
                     const struct npu_model_access *access, void *buf,
                     hwaddr bytes, bool is_write)
{
    struct npu_model_access at = access ? *access
                                        : (struct npu_model_access) { 0 };

    if (!caches.active || mr != caches.mr) {
        uint8_t *host = (uint8_t *)memory_region_get_ram_ptr(mr) + offset;

        memcpy(is_write ? (void *)host : buf, is_write ? buf : host, bytes);
        return;
    }
    while (bytes) {
        unsigned piece = MIN(bytes, PAGE_BYTES - offset % PAGE_BYTES);

        npu_page_copy(caches.start + offset, access ? &at : NULL, buf, piece,
                      is_write);
        buf = (char *)buf + piece;
        at.va += piece;
        offset += piece;
        bytes -= piece;
    }
}

/* --- life -------------------------------------------------------------------- */

/* DRAM holds what RAM does, without touching what nobody has touched. */
static void copy_memory(void)
{
    size_t page = qemu_real_host_page_size(), count = caches.bytes / page, i;
    g_autofree unsigned char *present = g_malloc(count);

    if (mincore(caches.ram, caches.bytes, present)) {
        memset(present, 1, count);
    }
    for (i = 0; i < count; i++) {
        const uint8_t *from = caches.ram + i * page;

        if (present[i] & 1 && !buffer_is_zero(from, page)) {
            memcpy(caches.dram + i * page, from, page);
        }
    }
}

/* It stays for the life of the process: threads of the chip may be on their way out. */
static bool make_memory(void)
{
    uint64_t i;

    if (caches.pages) {
        for (i = 0; i < caches.bytes / PAGE_BYTES; i++) {
            if (caches.pages[i]) {
                memset(caches.pages[i], 0, sizeof(Page));
            }
        }
        madvise(caches.dram, caches.bytes, MADV_DONTNEED);
        return true;
    }
    caches.mr = current_machine->ram;
    caches.start = memory_region_get_ram_addr(caches.mr);
    caches.bytes = memory_region_size(caches.mr);
    caches.ram = memory_region_get_ram_ptr(caches.mr);
    caches.dram = mmap(NULL, caches.bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (caches.dram == MAP_FAILED) {
        warn_report("npu-soc: no memory for caches: all is coherent");
        return false;
    }
    for (i = 0; i < PAGE_LOCKS; i++) {
        qemu_spin_init(&caches.locks[i]);
    }
    qemu_mutex_init(&watch.lock);
    watch.ready = true;
    caches.pages = g_new0(Page *, caches.bytes / PAGE_BYTES);
    return true;
}

void soc_caches_begin(const SocWatch *settings)
{
    if (caches.active || !current_cpu) {
        return;
    }
    caches.settings = *settings;
    if (!make_memory()) {
        return;
    }
    copy_memory();
    caches.active = true;
    qatomic_store_release(&soc_caches, &soc_caches_ops);
    /* Entries of memory without cache lead to RAM. */
    tlb_flush_all_cpus_synced(current_cpu);
}

void soc_caches_end(void)
{
    if (!caches.active) {
        return;
    }
    qatomic_set(&soc_caches, NULL);
    caches.active = false;
    QEMU_LOCK_GUARD(&watch.lock);
    watch.used = watch.first = 0;
    memset(watch.counts, 0, sizeof(watch.counts));
}
