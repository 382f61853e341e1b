/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The caches of a SoC's processors, as far as a device that is not coherent
 * with them can tell, and the watch over their maintenance: section 10 of
 * docs/reference/hardware.md of the project.
 */
#ifndef NPU_SOC_CACHES_H
#define NPU_SOC_CACHES_H

#include "exec/hwaddr.h"

struct MemoryRegion;
struct npu_model_access;

#define SOC_LINE_BYTES 64

/* What the watch has to say; see the registers REPORT_*. */
typedef struct SocReport {
    uint32_t kind;                  /* NPU_WATCH_ */
    uint32_t bytes;
    uint64_t addr;
    uint64_t va;
    uint32_t asid;
    uint32_t queue;
    uint64_t job;
    uint32_t command;
    uint32_t engine;                /* core << 8 | engine */
    uint32_t layer;
    uint64_t pc;
    uint64_t space;
    uint32_t level;
} SocReport;

typedef struct SocWatch {
    /* A report waits; any thread, no lock held. */
    void (*notify)(void *opaque);
    void *opaque;
    uint64_t seed;                  /* of what caches do on their own */
    bool fatal;                     /* a report ends QEMU */
} SocWatch;

/*
 * From now on memory and caches are two things. Under the BQL, by a processor
 * that accesses the device; a second call does nothing.
 */
void soc_caches_begin(const SocWatch *watch);
/* The board was reset: memory is what the caches held. Under the BQL. */
void soc_caches_end(void);

/*
 * The device copies between @buf and memory as DRAM holds it. @access says why
 * (NULL: no job is the reason). Any thread.
 */
void soc_caches_copy(struct MemoryRegion *mr, hwaddr offset,
                     const struct npu_model_access *access, void *buf,
                     hwaddr bytes, bool is_write);

/* --- the watch; under the BQL -------------------------------------------- */

void soc_watch_enable(bool on);
bool soc_watch_is_enabled(void);
/* How many reports of that kind there were; kind 0: that were lost. */
uint32_t soc_watch_count(unsigned kind);
/* The oldest report, kind 0 where there is none; it stays. */
SocReport soc_watch_report(void);
/* Drops the oldest report. Is there another one? */
bool soc_watch_next(void);

#endif
