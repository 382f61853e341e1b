/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QNPU1, a neural network accelerator on a PCI Express card.
 *
 * The chip is a library (npu_model.h, described in docs/hardware.md of the
 * project); this device is its board: it gives the chip configuration space,
 * BARs, memory, threads, a way to the bus and interrupts.
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
 * - dma_read and dma_write need no lock for plain RAM: QEMU's memory core
 *   works under RCU. Behind an IOMMU they take the BQL, because a failing
 *   translation raises the IOMMU's fault interrupt, which needs it.
 * - interrupt only sets a bit and schedules a bottom half; the main loop then
 *   delivers the message under the BQL.
 * - As a thread may wait for the BQL in a callback, nobody who holds the BQL
 *   ever waits for a thread. Unplugging marks the device as gone and asks the
 *   threads to leave; the last one to leave schedules npu_reap(), which frees
 *   what they used and drops the reference that kept the device alive.
 */

#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "qemu/error-report.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/rcu.h"
#include "qemu/thread.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "exec/address-spaces.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "hw/resettable.h"
#include "migration/blocker.h"
#include "migration/qemu-file-types.h"
#include "migration/vmstate.h"
#include "system/dma.h"
#include "system/runstate.h"
#include "system/system.h"
#include "trace.h"

#include <npu_model.h>
#include <npu_regs.h>

#define TYPE_NPU "npu"
OBJECT_DECLARE_SIMPLE_TYPE(NpuState, NPU)

#define NPU_CLASS_PROCESSING_ACCELERATOR 0x1200
#define NPU_DDR_DEFAULT (512 * MiB)
#define NPU_DDR_MIN (1 * MiB)
#define NPU_LMEM_MAX (256 * MiB)
#define NPU_STATE_MAX (4 * GiB)     /* of a chip in a snapshot */
#define NPU_VECTORS_MAX (PCI_MSIX_FLAGS_QSIZE + 1)

typedef struct NpuWorker {
    NpuState *npu;
    unsigned int index;
    QemuThread thread;
} NpuWorker;

struct NpuState {
    PCIDevice parent_obj;

    /* Set by realize, constant afterwards. */
    MemoryRegion regs;
    MemoryRegion ddr_bar;           /* ddr, or dead_ddr above it */
    MemoryRegion ddr;
    MemoryRegion dead_ddr;          /* of a dead card; enabled under the BQL */
    struct npu_model_config config;
    uint64_t lmem;                  /* property; goes to config.lmem_bytes */
    char *backend;                  /* property; goes to config.backend */
    char *time;                     /* property: "host" or "virtual" */
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
    bool behind_iommu;              /* set by reset, under the BQL */

    /* Under the BQL: faults that are wanted before there is a model. */
    uint64_t early_faults[NPU_MODEL_FAULT_COUNT];
};

/* A number that the user may choose, and the register that shows it. */
typedef struct NpuNumber {
    const char *name;
    size_t offset;                  /* of a uint32_t in npu_model_config */
    uint32_t reg;
    uint32_t max;
    const char *description;
} NpuNumber;

#define NPU_NUMBER(name, field, reg, max, text) \
    { name, offsetof(struct npu_model_config, field), NPU_REG_##reg, max, text }

static const NpuNumber npu_numbers[] = {
    NPU_NUMBER("cores", cores, CORES, NPU_MAX_CORES, "cores"),
    NPU_NUMBER("queues", queues, QUEUES, NPU_MAX_QUEUES, "queue pairs"),
    NPU_NUMBER("asids", asids, ASIDS, NPU_MAX_ASIDS, "address spaces"),
    NPU_NUMBER("vectors", vectors, VECTORS, NPU_VECTORS_MAX, "MSI-X vectors"),
    NPU_NUMBER("clock-khz", clock_khz, CLOCK_KHZ, UINT32_MAX, "clock, kHz"),
    NPU_NUMBER("mac-ic", mac_ic, MAC_IC, UINT32_MAX,
               "cost model: window elements a cycle"),
    NPU_NUMBER("mac-oc", mac_oc, MAC_OC, UINT32_MAX,
               "cost model: output channels a cycle"),
    NPU_NUMBER("mac-pixels", mac_pixels, MAC_PIXELS, UINT32_MAX,
               "cost model: output pixels a cycle"),
    NPU_NUMBER("lmem-bw", lmem_bw, LMEM_BW, UINT32_MAX,
               "cost model: local-memory bytes a cycle"),
    NPU_NUMBER("ew-lanes", ew_lanes, EW_LANES, UINT32_MAX,
               "cost model: element-wise lanes"),
    NPU_NUMBER("tiu-fixed", tiu_fixed, TIU_FIXED, UINT32_MAX,
               "cost model: cycles of every TIU command"),
    NPU_NUMBER("gdma-fixed", gdma_fixed, GDMA_FIXED, UINT32_MAX,
               "cost model: cycles of every GDMA command"),
    NPU_NUMBER("ddr-latency", ddr_latency, DDR_LATENCY, UINT32_MAX,
               "cost model: cycles of memory latency"),
    NPU_NUMBER("ddr-bw", ddr_bw, DDR_BW, UINT32_MAX,
               "cost model: memory bytes a cycle of each core"),
    NPU_NUMBER("rate-16", rate_16, RATE_16, UINT32_MAX,
               "cost model: elements of 16 bits in the place of one of 32"),
    NPU_NUMBER("rate-8", rate_8, RATE_8, UINT32_MAX,
               "cost model: elements of 8 bits in the place of one of 32"),
};

static bool npu_in_virtual_time(NpuState *s)
{
    return s->time && g_str_equal(s->time, "virtual");
}

static uint32_t *npu_number(NpuState *s, const NpuNumber *number)
{
    return (uint32_t *)((char *)&s->config + number->offset);
}

/* --- bus master --------------------------------------------------------- */

/*
 * Copy one piece that lies in a single memory region. Only RAM is accessed:
 * a device's registers would need the BQL and could be our own. Our own DDR
 * is reached by page-table entries, not over the bus.
 *
 * @bytes: in: wanted; out: copied
 */
static bool npu_dma_piece(NpuState *s, uint64_t addr, void *buf, hwaddr *bytes,
                          bool is_write)
{
    const MemTxAttrs attrs = { .memory = true };
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));
    MemoryRegion *mr;
    hwaddr offset;

    RCU_READ_LOCK_GUARD();
    /* The address space goes away one grace period after this is set. */
    if (qatomic_read(&s->gone)) {
        return false;
    }
    mr = address_space_translate(as, addr, &offset, bytes, is_write, attrs);
    if (mr == &s->ddr || !memory_access_is_direct(mr, is_write, attrs)) {
        return false;
    }
    return dma_memory_rw(as, addr, buf, *bytes,
                         is_write ? DMA_DIRECTION_FROM_DEVICE
                                  : DMA_DIRECTION_TO_DEVICE,
                         attrs) == MEMTX_OK;
}

static bool npu_dma_pieces(NpuState *s, uint64_t addr, void *buf, size_t bytes,
                           bool is_write)
{
    if (bytes && addr + (bytes - 1) < addr) {
        return false;
    }
    while (bytes) {
        hwaddr piece = bytes;

        if (!npu_dma_piece(s, addr, buf, &piece, is_write)) {
            return false;
        }
        addr += piece;
        buf = (char *)buf + piece;
        bytes -= piece;
    }
    return true;
}

static bool npu_dma(NpuState *s, uint64_t addr, void *buf, size_t bytes,
                    bool is_write)
{
    if (qatomic_read(&s->behind_iommu)) {
        BQL_LOCK_GUARD();
        return npu_dma_pieces(s, addr, buf, bytes, is_write);
    }
    return npu_dma_pieces(s, addr, buf, bytes, is_write);
}

static int npu_dma_read(void *opaque, uint64_t addr, void *buf, size_t bytes)
{
    if (npu_dma(opaque, addr, buf, bytes, false)) {
        return 0;
    }
    trace_npu_dma_read_error(addr, bytes);
    return -EIO;
}

static int npu_dma_write(void *opaque, uint64_t addr, const void *buf,
                         size_t bytes)
{
    if (npu_dma(opaque, addr, (void *)buf, bytes, true)) {
        return 0;
    }
    trace_npu_dma_write_error(addr, bytes);
    return -EIO;
}

/* --- interrupts and trace ------------------------------------------------ */

static void npu_deliver(NpuState *s, unsigned int vector)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    if (qatomic_read(&s->gone) || !msix_enabled(pdev)) {
        trace_npu_interrupt_dropped(vector);
        return;
    }
    trace_npu_interrupt(vector);
    msix_notify(pdev, vector);
}

static void npu_interrupt(void *opaque, unsigned int vector)
{
    NpuState *s = opaque;

    if (vector < s->config.vectors) {
        set_bit_atomic(vector, s->irq_pending);
        qemu_bh_schedule(s->irq_bh);
    }
}

/* Under the BQL, like everything that the chip does in virtual time. */
static void npu_interrupt_now(void *opaque, unsigned int vector)
{
    NpuState *s = opaque;

    if (vector < s->config.vectors) {
        npu_deliver(s, vector);
    }
}

/* In the main loop, under the BQL. */
static void npu_irq_bh(void *opaque)
{
    NpuState *s = opaque;
    unsigned long vectors = s->config.vectors;
    unsigned long vector;

    for (vector = find_first_bit(s->irq_pending, vectors); vector < vectors;
         vector = find_next_bit(s->irq_pending, vectors, vector + 1)) {
        if (bitmap_test_and_clear_atomic(s->irq_pending, vector, 1)) {
            npu_deliver(s, vector);
        }
    }
}

/* Its trace goes on where the saved one's ended: without its power-on. */
static bool npu_awaits_snapshot(void)
{
    return runstate_check(RUN_STATE_INMIGRATE);
}

static void npu_trace(void *opaque, const char *kind, const char *text)
{
    if (npu_awaits_snapshot()) {
        return;
    }
    if (g_str_has_prefix(kind, "job_")) {
        trace_npu_job(kind, text);
    } else {
        trace_npu_model(kind, text);
    }
}

static const struct npu_model_board npu_board = {
    .dma_read = npu_dma_read,
    .dma_write = npu_dma_write,
    .interrupt = npu_interrupt,
    .trace = npu_trace,
};

/* --- virtual time ---------------------------------------------------------- */

static uint64_t npu_now(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void npu_wake_at(void *opaque, uint64_t ns)
{
    NpuState *s = opaque;

    if (ns > INT64_MAX) {
        timer_del(s->timer);
    } else {
        timer_mod(s->timer, ns);
    }
}

static void npu_timer(void *opaque)
{
    NpuState *s = opaque;

    npu_model_advance(s->model);
}

static const struct npu_model_board npu_board_in_virtual_time = {
    .dma_read = npu_dma_read,
    .dma_write = npu_dma_write,
    .interrupt = npu_interrupt_now,
    .trace = npu_trace,
    .now = npu_now,
    .wake_at = npu_wake_at,
};

/* --- registers ----------------------------------------------------------- */

static uint64_t npu_mmio_read(void *opaque, hwaddr offset, unsigned size)
{
    NpuState *s = opaque;
    /* A CPU may have been on its way here when the card was pulled. */
    uint64_t value = qatomic_read(&s->gone)
        ? UINT64_MAX : npu_model_read(s->model, offset, size);

    trace_npu_mmio_read(offset, size, value);
    return value;
}

static void npu_mmio_write(void *opaque, hwaddr offset, uint64_t value,
                           unsigned size)
{
    NpuState *s = opaque;

    if (offset >= NPU_DOORBELL_BASE) {
        trace_npu_doorbell((offset - NPU_DOORBELL_BASE) / NPU_DOORBELL_STRIDE,
                           offset % NPU_DOORBELL_STRIDE, value);
    } else {
        trace_npu_mmio_write(offset, size, value);
    }
    if (!qatomic_read(&s->gone)) {
        npu_model_write(s->model, offset, value, size);
    }
}

static const MemoryRegionOps npu_mmio_ops = {
    .read = npu_mmio_read,
    .write = npu_mmio_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 8 },
    .impl = { .min_access_size = 4, .max_access_size = 8 },
};

static uint64_t npu_dead_read(void *opaque, hwaddr offset, unsigned size)
{
    return UINT64_MAX;
}

static void npu_dead_write(void *opaque, hwaddr offset, uint64_t value,
                           unsigned size)
{
}

static const MemoryRegionOps npu_dead_ops = {
    .read = npu_dead_read,
    .write = npu_dead_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .impl = { .min_access_size = 1, .max_access_size = 8 },
};

static bool npu_is_dead(NpuState *s)
{
    return s->model && npu_model_fault(s->model, NPU_MODEL_FAULT_DEAD);
}

static uint32_t npu_read_config(PCIDevice *pdev, uint32_t addr, int len)
{
    return npu_is_dead(NPU(pdev)) ? UINT32_MAX
                                  : pci_default_read_config(pdev, addr, len);
}

static void npu_write_config(PCIDevice *pdev, uint32_t addr, uint32_t val,
                             int len)
{
    if (npu_is_dead(NPU(pdev))) {
        return;
    }
    pci_default_write_config(pdev, addr, val, len);
    pcie_cap_flr_write_config(pdev, addr, val, len);
    pcie_aer_write_config(pdev, addr, val, len);
}

/* --- threads ------------------------------------------------------------- */

static void npu_join(NpuState *s)
{
    unsigned int i;

    for (i = 0; i < s->worker_count; i++) {
        qemu_thread_join(&s->workers[i].thread);
    }
    s->worker_count = 0;
}

/*
 * Under the BQL, once nobody uses the model any more: in the main loop, and in
 * virtual time between two instructions of the guest.
 */
static void npu_reap(void *opaque)
{
    NpuState *s = opaque;

    /* They have nothing left to do but to return: this does not wait. */
    npu_join(s);
    notifier_remove(&s->shutdown);
    qemu_remove_exit_notifier(&s->exit);
    npu_model_destroy(s->model);
    s->model = NULL;
    qemu_bh_delete(s->irq_bh);
    timer_free(s->timer);
    g_free(s->irq_pending);
    g_free(s->workers);
    trace_npu_gone();
    object_unref(OBJECT(s));
}

static void npu_reap_in_virtual_time(CPUState *cpu, run_on_cpu_data data)
{
    npu_reap(data.host_ptr);
}

static void npu_put(NpuState *s)
{
    if (qatomic_fetch_dec(&s->users) != 1) {
        return;
    }
    if (npu_in_virtual_time(s)) {
        async_run_on_cpu(first_cpu, npu_reap_in_virtual_time,
                         RUN_ON_CPU_HOST_PTR(s));
    } else {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), npu_reap, s);
    }
}

static void *npu_worker(void *opaque)
{
    NpuWorker *worker = opaque;

    rcu_register_thread();
    npu_model_thread_main(worker->npu->model, worker->index);
    rcu_unregister_thread();
    npu_put(worker->npu);
    return NULL;
}

static void npu_start_workers(NpuState *s)
{
    unsigned int i;

    s->worker_count = npu_model_thread_count(s->model);
    s->workers = g_new0(NpuWorker, s->worker_count);
    s->users = s->worker_count + 1;
    if (!npu_awaits_snapshot()) {
        trace_npu_realize(s->worker_count, npu_model_backend(s->model));
    }
    for (i = 0; i < s->worker_count; i++) {
        NpuWorker *worker = &s->workers[i];
        g_autofree char *name = g_strdup_printf("npu-%u", i);

        worker->npu = s;
        worker->index = i;
        qemu_thread_create(&worker->thread, name, npu_worker, worker,
                           QEMU_THREAD_JOINABLE);
    }
}

/* The machine is being switched off: end the jobs, so that exit is quick. */
static void npu_shutdown_notify(Notifier *notifier, void *data)
{
    NpuState *s = container_of(notifier, NpuState, shutdown);

    if (!qatomic_read(&s->gone)) {
        npu_model_reset(s->model);
    }
}

/* A trace that was cut off must not pass for a whole one. */
static void npu_check_trace(void)
{
    FILE *trace = qemu_log_trylock();
    bool cut = trace && (fflush(trace) || ferror(trace));

    qemu_log_unlock(trace);
    if (cut) {
        error_report("the trace could not be written: %s", strerror(errno));
        _exit(EXIT_FAILURE);
    }
}

/*
 * The process ends without unplugging devices. The threads have to be gone
 * before libraries that they use take down their own global state. An error
 * path may come here with the BQL, which a thread may be waiting for.
 */
static void npu_exit_notify(Notifier *notifier, void *data)
{
    NpuState *s = container_of(notifier, NpuState, exit);
    bool locked = bql_locked();

    npu_model_stop(s->model);
    if (locked) {
        bql_unlock();
    }
    npu_join(s);
    if (locked) {
        bql_lock();
    }
    npu_check_trace();
}

/*
 * The machine stops or goes on, and the jobs with it: nothing may change in
 * memory while it is stopped. A thread may need the BQL to come to rest.
 */
static void npu_vm_state_change(void *opaque, bool running, RunState state)
{
    NpuState *s = opaque;

    bql_unlock();
    npu_model_pause(s->model, !running);
    bql_lock();
}

/* --- snapshots ----------------------------------------------------------- */

/*
 * The chip's state is one piece of bytes with its length before it; the card's
 * memory is saved like the machine's. Only in virtual time: in host time the
 * chip's threads are anywhere (a migration blocker says so).
 */

static int npu_put_bytes(void *opaque, const void *data, size_t bytes)
{
    qemu_put_be64(opaque, bytes);
    qemu_put_buffer(opaque, data, bytes);
    return 0;
}

static int npu_put_chip(QEMUFile *f, void *pv, size_t size,
                        const VMStateField *field, JSONWriter *vmdesc)
{
    NpuState *s = pv;
    char message[256] = "";
    int error = npu_model_save(s->model, npu_put_bytes, f, message,
                               sizeof(message));

    if (error) {
        error_report("npu: the card cannot be saved: %s", message);
    }
    return error;
}

static int npu_get_chip(QEMUFile *f, void *pv, size_t size,
                        const VMStateField *field)
{
    NpuState *s = pv;
    uint64_t bytes = qemu_get_be64(f);
    char message[256] = "";
    g_autofree void *data = bytes <= NPU_STATE_MAX ? g_try_malloc(bytes) : NULL;
    int error;

    if (!data || qemu_get_buffer(f, data, bytes) != bytes) {
        error_report("npu: the snapshot's state of the card is damaged");
        return -EINVAL;
    }
    error = npu_model_load(s->model, data, bytes, message, sizeof(message));
    if (error) {
        error_report("npu: the card cannot be loaded: %s", message);
    }
    return error;
}

static const VMStateInfo npu_chip_info = {
    .name = "npu chip",
    .get = npu_get_chip,
    .put = npu_put_chip,
};

static int npu_post_load(void *opaque, int version)
{
    NpuState *s = opaque;

    memory_region_set_enabled(&s->dead_ddr, npu_is_dead(s));
    return 0;
}

static const VMStateDescription vmstate_npu = {
    .name = TYPE_NPU,
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = npu_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, NpuState),
        VMSTATE_STRUCT(parent_obj.exp.aer_log, NpuState, 0,
                       vmstate_pcie_aer_log, PCIEAERLog),
        VMSTATE_MSIX(parent_obj, NpuState),
        {
            .name = "chip",
            .info = &npu_chip_info,
            .flags = VMS_SINGLE,
        },
        VMSTATE_END_OF_LIST()
    },
};

static bool npu_block_snapshots(NpuState *s, Error **errp)
{
    if (npu_in_virtual_time(s)) {
        return true;
    }
    error_setg(&s->blocker, "npu: a card with time=host cannot be saved; it "
               "needs time=virtual");
    return migrate_add_blocker(&s->blocker, errp) == 0;
}

/* --- life ---------------------------------------------------------------- */

static void npu_reset_hold(Object *obj, ResetType type)
{
    NpuState *s = NPU(obj);
    PCIDevice *pdev = PCI_DEVICE(obj);

    if (!npu_awaits_snapshot()) {
        trace_npu_reset();
    }
    /* The core clears the Bus Master Enable bit, but not what it stands for. */
    memory_region_set_enabled(&pdev->bus_master_enable_region, false);
    pcie_cap_deverr_reset(pdev);
    /* All devices exist at the first reset, an IOMMU too. */
    qatomic_set(&s->behind_iommu,
                pci_device_iommu_address_space(pdev) != &address_space_memory);
    npu_model_reset(s->model);
    bitmap_test_and_clear_atomic(s->irq_pending, 0, s->config.vectors);
}

/* --- faults -------------------------------------------------------------- */

static void npu_get_fault(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    NpuState *s = NPU(obj);
    unsigned fault = GPOINTER_TO_UINT(opaque);
    uint64_t value = s->model ? npu_model_fault(s->model, fault)
                              : s->early_faults[fault];

    visit_type_uint64(v, name, &value, errp);
}

static bool npu_apply_fault(NpuState *s, unsigned fault, uint64_t value,
                            Error **errp)
{
    if (npu_model_set_fault(s->model, fault, value)) {
        error_setg(errp, "npu: property 'fault-%s' cannot be %" PRIu64,
                   npu_model_fault_name(fault), value);
        return false;
    }
    trace_npu_fault(npu_model_fault_name(fault), value);
    memory_region_set_enabled(&s->dead_ddr, npu_is_dead(s));
    return true;
}

static void npu_set_fault(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    NpuState *s = NPU(obj);
    unsigned fault = GPOINTER_TO_UINT(opaque);
    uint64_t value;

    if (!visit_type_uint64(v, name, &value, errp)) {
        return;
    }
    if (s->model) {
        npu_apply_fault(s, fault, value, errp);
    } else {
        s->early_faults[fault] = value;
    }
}

static bool npu_apply_early_faults(NpuState *s, Error **errp)
{
    unsigned fault;

    for (fault = 0; fault < NPU_MODEL_FAULT_COUNT; fault++) {
        if (s->early_faults[fault] &&
            !npu_apply_fault(s, fault, s->early_faults[fault], errp)) {
            return false;
        }
    }
    return true;
}

static void npu_add_faults(ObjectClass *klass)
{
    unsigned fault;

    for (fault = 0; fault < NPU_MODEL_FAULT_COUNT; fault++) {
        g_autofree char *name = g_strdup_printf("fault-%s",
                                                npu_model_fault_name(fault));

        object_class_property_add(klass, name, "uint64", npu_get_fault,
                                  npu_set_fault, NULL,
                                  GUINT_TO_POINTER(fault));
        object_class_property_set_description(klass, name,
                                              npu_model_fault_text(fault));
    }
}

static bool npu_check_properties(NpuState *s, Error **errp)
{
    size_t i;

    for (i = 0; i < ARRAY_SIZE(npu_numbers); i++) {
        const NpuNumber *number = &npu_numbers[i];

        if (*npu_number(s, number) > number->max) {
            error_setg(errp, "npu: property '%s' must be 1 to %" PRIu32
                       " (0: the chip's default), not %" PRIu32,
                       number->name, number->max, *npu_number(s, number));
            return false;
        }
    }
    if (s->lmem % (1u << NPU_PAGE_SHIFT) || s->lmem > NPU_LMEM_MAX) {
        error_setg(errp, "npu: property 'lmem' must be a multiple of 4 KiB up "
                   "to 256 MiB (0: the chip's default), not %" PRIu64
                   " bytes", s->lmem);
        return false;
    }
    if (!is_power_of_2(s->config.ddr_bytes) ||
        s->config.ddr_bytes < NPU_DDR_MIN) {
        error_setg(errp, "npu: property 'ddr' must be a power of two of at "
                   "least 1 MiB, not %" PRIu64 " bytes", s->config.ddr_bytes);
        return false;
    }
    if (s->time && !g_str_equal(s->time, "host") &&
        !g_str_equal(s->time, "virtual")) {
        error_setg(errp, "npu: property 'time' must be host or virtual, "
                   "not '%s'", s->time);
        return false;
    }
    if (s->config.seed && !npu_in_virtual_time(s)) {
        error_setg(errp, "npu: property 'seed' needs time=virtual");
        return false;
    }
    if (!pci_bus_is_express(pci_get_bus(PCI_DEVICE(s)))) {
        error_setg(errp, "npu: this is a PCI Express card: plug it into a "
                   "pcie-root-port, not into a conventional PCI bus");
        return false;
    }
    return true;
}

/* Create the powered-on chip and learn the defaults that it chose. */
static bool npu_create_model(NpuState *s, Error **errp)
{
    char message[256] = "";
    int error = 0;
    size_t i;

    if (!memory_region_init_ram_nomigrate(&s->ddr, OBJECT(s), "npu-ddr",
                                          s->config.ddr_bytes, errp)) {
        return false;
    }
    memory_region_init_io(&s->dead_ddr, OBJECT(s), &npu_dead_ops, s,
                          "npu-dead", s->config.ddr_bytes);
    memory_region_set_enabled(&s->dead_ddr, false);
    memory_region_init(&s->ddr_bar, OBJECT(s), "npu-bar2", s->config.ddr_bytes);
    s->config.abi = NPU_MODEL_ABI;
    s->config.lmem_bytes = s->lmem;
    s->config.ddr = memory_region_get_ram_ptr(&s->ddr);
    s->config.backend = s->backend;
    s->config.board = npu_in_virtual_time(s) ? &npu_board_in_virtual_time
                                             : &npu_board;
    s->config.opaque = s;
    s->model = npu_model_create(&s->config, &error, message, sizeof(message));
    if (!s->model) {
        error_setg(errp, "npu: the chip cannot be created: %s",
                   message[0] ? message : strerror(-error));
        return false;
    }
    for (i = 0; i < ARRAY_SIZE(npu_numbers); i++) {
        *npu_number(s, &npu_numbers[i]) =
            npu_model_read(s->model, npu_numbers[i].reg, 4);
    }
    s->lmem = npu_model_read(s->model, NPU_REG_LMEM_BYTES, 4);
    return true;
}

static bool npu_init_capabilities(PCIDevice *pdev, Error **errp)
{
    int pm;

    if (pcie_endpoint_cap_init(pdev, 0) < 0) {
        error_setg(errp, "npu: no room for the PCI Express capability");
        return false;
    }
    pcie_cap_flr_init(pdev);
    pcie_cap_deverr_init(pdev);
    pm = pci_pm_init(pdev, 0, errp);
    if (pm < 0 || pcie_aer_init(pdev, PCI_ERR_VER, PCI_CONFIG_SPACE_SIZE,
                                PCI_ERR_SIZEOF, errp) < 0) {
        pcie_cap_exit(pdev);
        return false;
    }
    pci_set_word(pdev->config + pm + PCI_PM_PMC, PCI_PM_CAP_VER_1_2);
    pci_set_word(pdev->config + pm + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(pdev->wmask + pm + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    return true;
}

static bool npu_init_pci(NpuState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);
    unsigned int i;

    memory_region_init_io(&s->regs, OBJECT(s), &npu_mmio_ops, s, "npu-regs",
                          NPU_BAR_REGS_BYTES);
    pci_register_bar(pdev, NPU_PCI_BAR_REGS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->regs);
    pci_register_bar(pdev, NPU_PCI_BAR_DDR,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->ddr_bar);
    if (msix_init_exclusive_bar(pdev, s->config.vectors, NPU_PCI_BAR_MSIX,
                                errp)) {
        return false;
    }
    if (!npu_init_capabilities(pdev, errp)) {
        msix_uninit_exclusive_bar(pdev);
        return false;
    }
    for (i = 0; i < s->config.vectors; i++) {
        msix_vector_use(pdev, i);
    }
    return true;
}

/* A region in a container holds a reference to the device until it leaves. */
static void npu_fill_ddr_bar(NpuState *s)
{
    memory_region_add_subregion(&s->ddr_bar, 0, &s->ddr);
    memory_region_add_subregion_overlap(&s->ddr_bar, 0, &s->dead_ddr, 1);
}

static void npu_empty_ddr_bar(NpuState *s)
{
    memory_region_del_subregion(&s->ddr_bar, &s->dead_ddr);
    memory_region_del_subregion(&s->ddr_bar, &s->ddr);
}

static void npu_realize(PCIDevice *pdev, Error **errp)
{
    NpuState *s = NPU(pdev);

    if (!npu_check_properties(s, errp)) {
        return;
    }
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, npu_timer, s);
    if (!npu_create_model(s, errp)) {
        timer_free(s->timer);
        return;
    }
    if (!npu_apply_early_faults(s, errp) || !npu_block_snapshots(s, errp) ||
        !npu_init_pci(s, errp)) {
        migrate_del_blocker(&s->blocker);
        npu_model_destroy(s->model);
        s->model = NULL;
        timer_free(s->timer);
        return;
    }
    vmstate_register_ram(&s->ddr, DEVICE(s));
    npu_fill_ddr_bar(s);
    s->irq_pending = bitmap_new(s->config.vectors);
    s->irq_bh = qemu_bh_new_guarded(npu_irq_bh, s,
                                    &DEVICE(s)->mem_reentrancy_guard);
    s->shutdown.notify = npu_shutdown_notify;
    qemu_register_shutdown_notifier(&s->shutdown);
    s->exit.notify = npu_exit_notify;
    qemu_add_exit_notifier(&s->exit);
    s->vm_state = qemu_add_vm_change_state_handler(npu_vm_state_change, s);
    npu_start_workers(s);
}

/* Unplugged: see "Threads and locks". npu_reap() does the rest. */
static void npu_exit(PCIDevice *pdev)
{
    NpuState *s = NPU(pdev);

    trace_npu_unplug();
    qemu_del_vm_change_state_handler(s->vm_state);
    migrate_del_blocker(&s->blocker);
    /* Another card of this name may come before this memory is gone. */
    vmstate_unregister_ram(&s->ddr, DEVICE(s));
    qatomic_set(&s->gone, true);
    npu_model_stop(s->model);
    npu_empty_ddr_bar(s);
    pcie_aer_exit(pdev);
    pcie_cap_exit(pdev);
    msix_uninit_exclusive_bar(pdev);
    object_ref(OBJECT(s));
    npu_put(s);
}

#define NPU_PROP_NUMBER(name, field) \
    DEFINE_PROP_UINT32(name, NpuState, config.field, 0)

static const Property npu_properties[] = {
    NPU_PROP_NUMBER("cores", cores),
    NPU_PROP_NUMBER("queues", queues),
    NPU_PROP_NUMBER("asids", asids),
    NPU_PROP_NUMBER("vectors", vectors),
    NPU_PROP_NUMBER("clock-khz", clock_khz),
    NPU_PROP_NUMBER("mac-ic", mac_ic),
    NPU_PROP_NUMBER("mac-oc", mac_oc),
    NPU_PROP_NUMBER("mac-pixels", mac_pixels),
    NPU_PROP_NUMBER("lmem-bw", lmem_bw),
    NPU_PROP_NUMBER("ew-lanes", ew_lanes),
    NPU_PROP_NUMBER("tiu-fixed", tiu_fixed),
    NPU_PROP_NUMBER("gdma-fixed", gdma_fixed),
    NPU_PROP_NUMBER("ddr-latency", ddr_latency),
    NPU_PROP_NUMBER("ddr-bw", ddr_bw),
    NPU_PROP_NUMBER("rate-16", rate_16),
    NPU_PROP_NUMBER("rate-8", rate_8),
    DEFINE_PROP_SIZE("lmem", NpuState, lmem, 0),
    DEFINE_PROP_SIZE("ddr", NpuState, config.ddr_bytes, NPU_DDR_DEFAULT),
    DEFINE_PROP_STRING("backend", NpuState, backend),
    DEFINE_PROP_STRING("time", NpuState, time),
    DEFINE_PROP_UINT64("seed", NpuState, config.seed, 0),
};

static void npu_describe_properties(ObjectClass *klass)
{
    size_t i;

    for (i = 0; i < ARRAY_SIZE(npu_numbers); i++) {
        g_autofree char *text = g_strdup_printf("%s; 0: the chip's default",
                                                npu_numbers[i].description);

        object_class_property_set_description(klass, npu_numbers[i].name,
                                              text);
    }
    object_class_property_set_description(klass, "lmem", "local memory of a "
                                          "core, bytes; 0: the chip's default");
    object_class_property_set_description(klass, "ddr",
                                          "memory of the card, bytes");
    object_class_property_set_description(klass, "backend",
                                          "auto, reference, onednn or shadow");
    object_class_property_set_description(klass, "time", "host (default): the "
                                          "chip computes as fast as it can; "
                                          "virtual: it takes its modelled time");
    object_class_property_set_description(klass, "seed", "with time=virtual, "
                                          "one of many chips that keep to the "
                                          "specification; 0: without delays");
}

static void npu_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = npu_realize;
    pc->exit = npu_exit;
    pc->config_read = npu_read_config;
    pc->config_write = npu_write_config;
    pc->vendor_id = NPU_PCI_VENDOR_ID;
    pc->device_id = NPU_PCI_DEVICE_ID;
    pc->subsystem_vendor_id = NPU_PCI_VENDOR_ID;
    pc->subsystem_id = NPU_PCI_DEVICE_ID;
    pc->revision = NPU_HW_VERSION >> 16;
    pc->class_id = NPU_CLASS_PROCESSING_ACCELERATOR;
    rc->phases.hold = npu_reset_hold;
    dc->desc = "QNPU1 neural network accelerator";
    dc->vmsd = &vmstate_npu;
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    device_class_set_props(dc, npu_properties);
    npu_describe_properties(klass);
    npu_add_faults(klass);
}

static const TypeInfo npu_type_info = {
    .name = TYPE_NPU,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(NpuState),
    .class_init = npu_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_PCIE_DEVICE },
        { }
    },
};

static void npu_register_types(void)
{
    type_register_static(&npu_type_info);
}

type_init(npu_register_types)
