/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What card and block in a SoC have in common: see npu_core.h.
 */

#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "qemu/error-report.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "qemu/thread.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "exec/address-spaces.h"
#include "hw/core/cpu.h"
#include "migration/blocker.h"
#include "migration/qemu-file-types.h"
#include "system/dma.h"
#include "system/system.h"
#include "npu_core.h"
#include "trace.h"

#define NPU_DDR_MIN (1 * MiB)
#define NPU_LMEM_MAX (256 * MiB)
#define NPU_STATE_MAX (4 * GiB)     /* of a chip in a snapshot */
#define NPU_VECTORS_MAX 2048        /* what MSI-X has */

struct NpuWorker {
    NpuCore *core;
    unsigned int index;
    QemuThread thread;
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

bool npu_core_in_virtual_time(NpuCore *s)
{
    return s->time && g_str_equal(s->time, "virtual");
}

static uint32_t *npu_number(NpuCore *s, const NpuNumber *number)
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
static bool npu_dma_piece(NpuCore *s, const struct npu_model_access *access,
                          uint64_t addr, void *buf, hwaddr *bytes,
                          bool is_write)
{
    const MemTxAttrs attrs = { .memory = true };
    AddressSpace *as;
    MemoryRegion *mr;
    hwaddr offset;

    RCU_READ_LOCK_GUARD();
    /* The address space goes away one grace period after this is set. */
    if (qatomic_read(&s->gone) || qatomic_read(&s->cut_off)) {
        return false;
    }
    as = s->ops->bus(s);
    mr = address_space_translate(as, addr, &offset, bytes, is_write, attrs);
    if (mr == &s->ddr || !memory_access_is_direct(mr, is_write, attrs)) {
        return false;
    }
    if (s->ops->copy) {
        s->ops->copy(s, access, mr, offset, buf, *bytes, is_write);
        return true;
    }
    return dma_memory_rw(as, addr, buf, *bytes,
                         is_write ? DMA_DIRECTION_FROM_DEVICE
                                  : DMA_DIRECTION_TO_DEVICE,
                         attrs) == MEMTX_OK;
}

static bool npu_dma_pieces(NpuCore *s, const struct npu_model_access *access,
                           uint64_t addr, void *buf, size_t bytes,
                           bool is_write)
{
    struct npu_model_access at = access ? *access
                                        : (struct npu_model_access) { 0 };

    if (bytes && addr + (bytes - 1) < addr) {
        return false;
    }
    while (bytes) {
        hwaddr piece = bytes;

        if (!npu_dma_piece(s, access ? &at : NULL, addr, buf, &piece,
                           is_write)) {
            return false;
        }
        addr += piece;
        at.va += piece;
        buf = (char *)buf + piece;
        bytes -= piece;
    }
    return true;
}

static int npu_dma(NpuCore *s, const struct npu_model_access *access,
                   uint64_t addr, void *buf, size_t bytes, bool is_write)
{
    bool done;

    if (qatomic_read(&s->behind_iommu)) {
        BQL_LOCK_GUARD();
        done = npu_dma_pieces(s, access, addr, buf, bytes, is_write);
    } else {
        done = npu_dma_pieces(s, access, addr, buf, bytes, is_write);
    }
    if (done) {
        return 0;
    }
    if (is_write) {
        trace_npu_dma_write_error(addr, bytes);
    } else {
        trace_npu_dma_read_error(addr, bytes);
    }
    return -EIO;
}

static int npu_dma_read(void *opaque, uint64_t addr, void *buf, size_t bytes)
{
    return npu_dma(opaque, NULL, addr, buf, bytes, false);
}

static int npu_dma_write(void *opaque, uint64_t addr, const void *buf,
                         size_t bytes)
{
    return npu_dma(opaque, NULL, addr, (void *)buf, bytes, true);
}

static int npu_job_read(void *opaque, const struct npu_model_access *access,
                        uint64_t addr, void *buf, size_t bytes)
{
    return npu_dma(opaque, access, addr, buf, bytes, false);
}

static int npu_job_write(void *opaque, const struct npu_model_access *access,
                         uint64_t addr, const void *buf, size_t bytes)
{
    return npu_dma(opaque, access, addr, (void *)buf, bytes, true);
}

/* --- interrupts and trace ------------------------------------------------ */

static void npu_interrupt(void *opaque, unsigned int vector)
{
    NpuCore *s = opaque;

    if (vector < s->config.vectors) {
        set_bit_atomic(vector, s->irq_pending);
        qemu_bh_schedule(s->irq_bh);
    }
}

/* Under the BQL, like everything that the chip does in virtual time. */
static void npu_interrupt_now(void *opaque, unsigned int vector)
{
    NpuCore *s = opaque;

    if (vector < s->config.vectors) {
        s->ops->deliver(s, vector);
    }
}

/* In the main loop, under the BQL. */
static void npu_irq_bh(void *opaque)
{
    NpuCore *s = opaque;
    unsigned long vectors = s->config.vectors;
    unsigned long vector;

    for (vector = find_first_bit(s->irq_pending, vectors); vector < vectors;
         vector = find_next_bit(s->irq_pending, vectors, vector + 1)) {
        if (bitmap_test_and_clear_atomic(s->irq_pending, vector, 1)) {
            s->ops->deliver(s, vector);
        }
    }
}

bool npu_core_awaits_snapshot(void)
{
    return runstate_check(RUN_STATE_INMIGRATE);
}

static void npu_trace(void *opaque, const char *kind, const char *text)
{
    if (npu_core_awaits_snapshot()) {
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
    .job_read = npu_job_read,
    .job_write = npu_job_write,
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
    NpuCore *s = opaque;

    if (ns > INT64_MAX) {
        timer_del(s->timer);
    } else {
        timer_mod(s->timer, ns);
    }
}

static void npu_timer(void *opaque)
{
    NpuCore *s = opaque;

    npu_model_advance(s->model);
}

static const struct npu_model_board npu_board_in_virtual_time = {
    .dma_read = npu_dma_read,
    .dma_write = npu_dma_write,
    .job_read = npu_job_read,
    .job_write = npu_job_write,
    .interrupt = npu_interrupt_now,
    .trace = npu_trace,
    .now = npu_now,
    .wake_at = npu_wake_at,
};

/* --- registers ----------------------------------------------------------- */

/* The chip's register, but for the version that the board may give it. */
static uint64_t npu_core_register(NpuCore *s, hwaddr offset, unsigned size)
{
    uint64_t value = npu_model_read(s->model, offset, size);

    if (npu_core_is_dead(s)) {
        return value;
    }
    if (offset == NPU_REG_HW_VERSION) {
        return deposit64(value, 0, 32, s->hw_version);
    }
    if (offset + 4 == NPU_REG_HW_VERSION && size == 8) {
        return deposit64(value, 32, 32, s->hw_version);
    }
    return value;
}

/* Before it is ready the chip takes no write. */
static void npu_core_look_ready(NpuCore *s)
{
    if (qatomic_read(&s->cut_off) &&
        npu_model_read(s->model, NPU_REG_STATUS, 4) & NPU_STATUS_READY) {
        qatomic_set(&s->cut_off, false);
    }
}

void npu_core_set_power(NpuCore *s, bool on)
{
    if (!on) {
        qatomic_set(&s->cut_off, true);
        npu_core_reset(s);
    }
}

uint64_t npu_core_mmio_read(NpuCore *s, hwaddr offset, unsigned size)
{
    uint64_t value = UINT64_MAX;

    /* A CPU may have been on its way here when the card was pulled. */
    if (!qatomic_read(&s->gone)) {
        npu_core_look_ready(s);
        value = npu_core_register(s, offset, size);
    }
    trace_npu_mmio_read(offset, size, value);
    return value;
}

void npu_core_mmio_write(NpuCore *s, hwaddr offset, uint64_t value,
                         unsigned size)
{
    if (offset >= NPU_DOORBELL_BASE) {
        trace_npu_doorbell((offset - NPU_DOORBELL_BASE) / NPU_DOORBELL_STRIDE,
                           offset % NPU_DOORBELL_STRIDE, value);
    } else {
        trace_npu_mmio_write(offset, size, value);
    }
    if (!qatomic_read(&s->gone)) {
        npu_core_look_ready(s);
        npu_model_write(s->model, offset, value, size);
    }
}

bool npu_core_is_dead(NpuCore *s)
{
    return s->model && npu_model_fault(s->model, NPU_MODEL_FAULT_DEAD);
}

/* --- threads ------------------------------------------------------------- */

static void npu_join(NpuCore *s)
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
    NpuCore *s = opaque;

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
    object_unref(OBJECT(s->dev));
}

static void npu_reap_in_virtual_time(CPUState *cpu, run_on_cpu_data data)
{
    npu_reap(data.host_ptr);
}

static void npu_put(NpuCore *s)
{
    if (qatomic_fetch_dec(&s->users) != 1) {
        return;
    }
    if (npu_core_in_virtual_time(s)) {
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
    npu_model_thread_main(worker->core->model, worker->index);
    rcu_unregister_thread();
    npu_put(worker->core);
    return NULL;
}

static void npu_start_workers(NpuCore *s)
{
    unsigned int i;

    s->worker_count = npu_model_thread_count(s->model);
    s->workers = g_new0(NpuWorker, s->worker_count);
    s->users = s->worker_count + 1;
    if (!npu_core_awaits_snapshot()) {
        trace_npu_realize(s->worker_count, npu_model_backend(s->model));
    }
    for (i = 0; i < s->worker_count; i++) {
        NpuWorker *worker = &s->workers[i];
        g_autofree char *name = g_strdup_printf("npu-%u", i);

        worker->core = s;
        worker->index = i;
        qemu_thread_create(&worker->thread, name, npu_worker, worker,
                           QEMU_THREAD_JOINABLE);
    }
}

/* The machine is being switched off: end the jobs, so that exit is quick. */
static void npu_shutdown_notify(Notifier *notifier, void *data)
{
    NpuCore *s = container_of(notifier, NpuCore, shutdown);

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
    NpuCore *s = container_of(notifier, NpuCore, exit);
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
    NpuCore *s = opaque;

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
    NpuCore *s = pv;
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
    NpuCore *s = pv;
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

const VMStateDescription vmstate_npu_core = {
    .name = "npu/core",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        {
            .name = "chip",
            .info = &npu_chip_info,
            .flags = VMS_SINGLE,
        },
        VMSTATE_END_OF_LIST()
    },
};

static bool npu_block_snapshots(NpuCore *s, Error **errp)
{
    if (npu_core_in_virtual_time(s)) {
        return true;
    }
    error_setg(&s->blocker, "npu: a card with time=host cannot be saved; it "
               "needs time=virtual");
    return migrate_add_blocker(&s->blocker, errp) == 0;
}

/* --- faults -------------------------------------------------------------- */

/* The opaque value of a fault's property. */
typedef struct NpuFaultProperty {
    size_t offset;                  /* of the core in the object */
    unsigned fault;
} NpuFaultProperty;

static NpuCore *npu_fault_core(Object *obj, const NpuFaultProperty *property)
{
    return (NpuCore *)((char *)obj + property->offset);
}

static void npu_get_fault(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    const NpuFaultProperty *property = opaque;
    NpuCore *s = npu_fault_core(obj, property);
    uint64_t value = s->model ? npu_model_fault(s->model, property->fault)
                              : s->early_faults[property->fault];

    visit_type_uint64(v, name, &value, errp);
}

static bool npu_apply_fault(NpuCore *s, unsigned fault, uint64_t value,
                            Error **errp)
{
    if (npu_model_set_fault(s->model, fault, value)) {
        error_setg(errp, "npu: property 'fault-%s' cannot be %" PRIu64,
                   npu_model_fault_name(fault), value);
        return false;
    }
    trace_npu_fault(npu_model_fault_name(fault), value);
    return true;
}

static void npu_set_fault(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    const NpuFaultProperty *property = opaque;
    NpuCore *s = npu_fault_core(obj, property);
    uint64_t value;

    if (!visit_type_uint64(v, name, &value, errp)) {
        return;
    }
    if (s->model) {
        if (npu_apply_fault(s, property->fault, value, errp) &&
            s->ops->fault_set) {
            s->ops->fault_set(s);
        }
    } else {
        s->early_faults[property->fault] = value;
    }
}

static bool npu_apply_early_faults(NpuCore *s, Error **errp)
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

static void npu_add_faults(ObjectClass *klass, size_t offset)
{
    unsigned fault;

    for (fault = 0; fault < NPU_MODEL_FAULT_COUNT; fault++) {
        g_autofree char *name = g_strdup_printf("fault-%s",
                                                npu_model_fault_name(fault));
        NpuFaultProperty *property = g_new(NpuFaultProperty, 1);

        property->offset = offset;
        property->fault = fault;
        object_class_property_add(klass, name, "uint64", npu_get_fault,
                                  npu_set_fault, NULL, property);
        object_class_property_set_description(klass, name,
                                              npu_model_fault_text(fault));
    }
}

/* --- life ---------------------------------------------------------------- */

static bool npu_check_properties(NpuCore *s, Error **errp)
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
    if (s->config.ddr_bytes && (!is_power_of_2(s->config.ddr_bytes) ||
                                s->config.ddr_bytes < NPU_DDR_MIN)) {
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
    if (s->config.seed && !npu_core_in_virtual_time(s)) {
        error_setg(errp, "npu: property 'seed' needs time=virtual");
        return false;
    }
    return true;
}

/* Create the powered-on chip and learn the defaults that it chose. */
static bool npu_create_model(NpuCore *s, Error **errp)
{
    char message[256] = "";
    int error = 0;
    size_t i;

    if (s->config.ddr_bytes) {
        if (!memory_region_init_ram_nomigrate(&s->ddr, OBJECT(s->dev),
                                              "npu-ddr", s->config.ddr_bytes,
                                              errp)) {
            return false;
        }
        s->config.ddr = memory_region_get_ram_ptr(&s->ddr);
    }
    s->config.abi = NPU_MODEL_ABI;
    s->config.lmem_bytes = s->lmem;
    s->config.backend = s->backend;
    s->config.board = npu_core_in_virtual_time(s) ? &npu_board_in_virtual_time
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

bool npu_core_create(NpuCore *s, DeviceState *dev, const NpuCoreOps *ops,
                     Error **errp)
{
    s->dev = dev;
    s->ops = ops;
    if (!npu_check_properties(s, errp)) {
        return false;
    }
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, npu_timer, s);
    if (!npu_create_model(s, errp)) {
        timer_free(s->timer);
        return false;
    }
    if (!npu_apply_early_faults(s, errp) || !npu_block_snapshots(s, errp)) {
        npu_core_discard(s);
        return false;
    }
    return true;
}

void npu_core_discard(NpuCore *s)
{
    migrate_del_blocker(&s->blocker);
    npu_model_destroy(s->model);
    s->model = NULL;
    timer_free(s->timer);
}

void npu_core_start(NpuCore *s)
{
    s->irq_pending = bitmap_new(s->config.vectors);
    s->irq_bh = qemu_bh_new_guarded(npu_irq_bh, s,
                                    &s->dev->mem_reentrancy_guard);
    s->shutdown.notify = npu_shutdown_notify;
    qemu_register_shutdown_notifier(&s->shutdown);
    s->exit.notify = npu_exit_notify;
    qemu_add_exit_notifier(&s->exit);
    s->vm_state = qemu_add_vm_change_state_handler(npu_vm_state_change, s);
    npu_start_workers(s);
}

/* See "Threads and locks". npu_reap() does the rest. */
void npu_core_leave(NpuCore *s)
{
    trace_npu_unplug();
    qemu_del_vm_change_state_handler(s->vm_state);
    migrate_del_blocker(&s->blocker);
    qatomic_set(&s->gone, true);
    npu_model_stop(s->model);
    object_ref(OBJECT(s->dev));
    npu_put(s);
}

void npu_core_reset(NpuCore *s)
{
    if (!npu_core_awaits_snapshot()) {
        trace_npu_reset();
    }
    /* All devices exist at the first reset, an IOMMU too. */
    qatomic_set(&s->behind_iommu, s->ops->bus(s) != &address_space_memory);
    npu_model_reset(s->model);
    bitmap_test_and_clear_atomic(s->irq_pending, 0, s->config.vectors);
}

static void npu_describe_properties(ObjectClass *klass)
{
    size_t i;

    for (i = 0; i < ARRAY_SIZE(npu_numbers); i++) {
        g_autofree char *text = g_strdup_printf("%s; 0: the chip's default",
                                                npu_numbers[i].description);

        if (object_class_property_find(klass, npu_numbers[i].name)) {
            object_class_property_set_description(klass, npu_numbers[i].name,
                                                  text);
        }
    }
    object_class_property_set_description(klass, "lmem", "local memory of a "
                                          "core, bytes; 0: the chip's default");
    object_class_property_set_description(klass, "backend",
                                          "auto, reference, onednn or shadow");
    object_class_property_set_description(klass, "time", "host (default): the "
                                          "chip computes as fast as it can; "
                                          "virtual: it takes its modelled time");
    object_class_property_set_description(klass, "seed", "with time=virtual, "
                                          "one of many chips that keep to the "
                                          "specification; 0: without delays");
}

void npu_core_class_init(ObjectClass *klass, size_t offset)
{
    npu_describe_properties(klass);
    npu_add_faults(klass, offset);
}
