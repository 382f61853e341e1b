/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the board of a QNPU1 has in common, whether it is a card or a block in
 * a SoC: the chip (npu_model.h, described in docs/reference/hardware.md of the
 * project), its threads, its time, its faults, and what QEMU has to know of its
 * life.
 *
 * Time
 *
 * With time=virtual the chip lives on QEMU_CLOCK_VIRTUAL: it has no threads,
 * its events are a timer's, which runs under the big QEMU lock, and interrupts
 * are delivered in the instant in which they are raised. What follows is about
 * time=host.
 *
 * Threads and locks
 *
 * - Registers are accessed and the device is reset, plugged and unplugged
 *   under the big QEMU lock (BQL). The model returns from these calls without
 *   waiting for its threads.
 * - The chip's threads are created here and run without the BQL. They reach
 *   QEMU through the callbacks of struct npu_model_board only, and the model
 *   holds no lock of its own while it is in one.
 * - Accesses to the bus need no lock for plain RAM: QEMU's memory core works
 *   under RCU. Behind an IOMMU they take the BQL, because a failing
 *   translation raises the IOMMU's fault interrupt, which needs it.
 * - An interrupt only sets a bit and schedules a bottom half; the main loop
 *   then delivers it under the BQL.
 * - As a thread may wait for the BQL in a callback, nobody who holds the BQL
 *   ever waits for a thread. Unplugging marks the device as gone and asks the
 *   threads to leave; the last one to leave schedules npu_reap(), which frees
 *   what they used and drops the reference that kept the device alive.
 */
#ifndef NPU_CORE_H
#define NPU_CORE_H

#include "qemu/notify.h"
#include "qemu/timer.h"
#include "exec/memory.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "system/runstate.h"

#include <npu_model.h>
#include <npu_regs.h>

typedef struct NpuCore NpuCore;
typedef struct NpuWorker NpuWorker;

/* What differs from board to board. */
typedef struct NpuCoreOps {
    /* Where the bus leads. Any thread, under RCU. */
    AddressSpace *(*bus)(NpuCore *core);
    /* Under the BQL. */
    void (*deliver)(NpuCore *core, unsigned int vector);
    /*
     * Copy to or from RAM, @bytes that lie in @mr; @access is NULL where no
     * job is the reason. NULL: as the memory core does it. Any thread.
     */
    void (*copy)(NpuCore *core, const struct npu_model_access *access,
                 MemoryRegion *mr, hwaddr offset, void *buf, hwaddr bytes,
                 bool is_write);
    /* A fault has been set, later than by realize; NULL: that is nothing to it. */
    void (*fault_set)(NpuCore *core);
} NpuCoreOps;

/* Embedded in a device. */
struct NpuCore {
    /* Set by realize, constant afterwards. */
    DeviceState *dev;
    const NpuCoreOps *ops;
    MemoryRegion ddr;               /* none where config.ddr_bytes is 0 */
    struct npu_model_config config;
    uint64_t lmem;                  /* property; goes to config.lmem_bytes */
    char *backend;                  /* property; goes to config.backend */
    char *time;                     /* property: "host" or "virtual" */
    uint32_t hw_version;            /* property; what HW_VERSION reads as */
    struct npu_model *model;
    NpuWorker *workers;
    unsigned int worker_count;
    VMChangeStateEntry *vm_state;
    Error *blocker;                 /* why it cannot be saved; time=host */
    Notifier shutdown;
    Notifier exit;
    QEMUBH *irq_bh;
    QEMUTimer *timer;               /* the chip's next event; time=virtual */

    /* Atomic. */
    unsigned long *irq_pending;     /* bitmap of config.vectors bits */
    unsigned int users;             /* threads that run, and the device */
    bool gone;                      /* unplugged; set under the BQL */
    bool cut_off;                   /* without power, or not ready since */
    bool behind_iommu;              /* set by reset, under the BQL */

    /* Under the BQL: faults that are wanted before there is a model. */
    uint64_t early_faults[NPU_MODEL_FAULT_COUNT];
};

/*
 * The first part of realize: checks the properties and makes the chip. On
 * failure nothing is left.
 */
bool npu_core_create(NpuCore *core, DeviceState *dev, const NpuCoreOps *ops,
                     Error **errp);
/* Undo it, where realize fails later. */
void npu_core_discard(NpuCore *core);
/* The last part of realize, which does not fail: the chip begins to live. */
void npu_core_start(NpuCore *core);
/* The device is unplugged. The object lives until npu_reap(). */
void npu_core_leave(NpuCore *core);

/* The bus was reset. */
void npu_core_reset(NpuCore *core);
bool npu_core_is_dead(NpuCore *core);
/*
 * Power, clock or reset are taken away or given back. Without them the bus is
 * out of reach, and when they are back until the chip is ready: what threads
 * were in the midst of is over then.
 */
void npu_core_set_power(NpuCore *core, bool on);
/* Is the board about to be loaded from a snapshot? */
bool npu_core_awaits_snapshot(void);
bool npu_core_in_virtual_time(NpuCore *core);

uint64_t npu_core_mmio_read(NpuCore *core, hwaddr offset, unsigned size);
void npu_core_mmio_write(NpuCore *core, hwaddr offset, uint64_t value,
                         unsigned size);

extern const VMStateDescription vmstate_npu_core;

/* The properties "fault-*" and descriptions; @offset: of the core in objects. */
void npu_core_class_init(ObjectClass *klass, size_t offset);

#define NPU_CORE_NUMBER(_state, _name, _field) \
    DEFINE_PROP_UINT32(_name, _state, core.config._field, 0)

/* Of a device that has its core in the field "core". */
#define NPU_CORE_PROPERTIES(_state) \
    NPU_CORE_NUMBER(_state, "cores", cores), \
    NPU_CORE_NUMBER(_state, "queues", queues), \
    NPU_CORE_NUMBER(_state, "asids", asids), \
    NPU_CORE_NUMBER(_state, "clock-khz", clock_khz), \
    NPU_CORE_NUMBER(_state, "mac-ic", mac_ic), \
    NPU_CORE_NUMBER(_state, "mac-oc", mac_oc), \
    NPU_CORE_NUMBER(_state, "mac-pixels", mac_pixels), \
    NPU_CORE_NUMBER(_state, "lmem-bw", lmem_bw), \
    NPU_CORE_NUMBER(_state, "ew-lanes", ew_lanes), \
    NPU_CORE_NUMBER(_state, "tiu-fixed", tiu_fixed), \
    NPU_CORE_NUMBER(_state, "gdma-fixed", gdma_fixed), \
    NPU_CORE_NUMBER(_state, "ddr-latency", ddr_latency), \
    NPU_CORE_NUMBER(_state, "ddr-bw", ddr_bw), \
    NPU_CORE_NUMBER(_state, "rate-16", rate_16), \
    NPU_CORE_NUMBER(_state, "rate-8", rate_8), \
    DEFINE_PROP_SIZE("lmem", _state, core.lmem, 0), \
    DEFINE_PROP_STRING("backend", _state, core.backend), \
    DEFINE_PROP_STRING("time", _state, core.time), \
    DEFINE_PROP_UINT32("hw-version", _state, core.hw_version, \
                       NPU_HW_VERSION), \
    DEFINE_PROP_UINT64("seed", _state, core.config.seed, 0)

#endif
