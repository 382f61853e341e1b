/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QNPU1 as a block of a SoC: a device of the system bus with one interrupt
 * line, without memory of its own, not coherent with the processors' caches
 * (soc_caches.h), and with power, clock and reset from outside (soc_scmi.h).
 * Around the chip of npu_core.h, which says what there is to say about threads
 * and time. It writes its own nodes of the device tree:
 * docs/reference/boards.md of the project describes them.
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "exec/address-spaces.h"
#include "hw/arm/fdt.h"
#include "hw/arm/firmware-call.h"
#include "hw/core/platform-node.h"
#include "hw/irq.h"
#include "hw/pci/pci.h"
#include "hw/pci/pci_bus.h"
#include "hw/pci/pci_host.h"
#include "hw/resettable.h"
#include "hw/sysbus.h"
#include "system/device_tree.h"
#include "system/tcg.h"
#include "npu_core.h"
#include "soc_caches.h"
#include "soc_scmi.h"
#include "trace.h"

#define TYPE_NPU_SOC "npu-soc"
OBJECT_DECLARE_SIMPLE_TYPE(NpuSocState, NPU_SOC)

/* Behind the SMMU, the block is what no slot of the PCI bus is. */
#define NPU_SOC_STREAM 0xff

#define NPU_SOC_WATCH_NS (20 * SCALE_MS)

struct NpuSocState {
    SysBusDevice parent_obj;

    NpuCore core;
    MemoryRegion regs;
    MemoryRegion shmem;             /* of the control processor */
    SocScmi scmi;
    qemu_irq irq;
    AddressSpace *bus;              /* set by reset */
    QEMUBH *watch_bh;
    QEMUTimer *watch_timer;         /* after it, reports are shown */

    /* Properties. */
    bool caches;                    /* the processors' are not coherent */
    bool managed;                   /* power, clock, reset come from outside */
    bool smmu;
    bool watch_fatal;
    uint64_t cache_seed;

    /* Under the BQL. */
    uint32_t line;                  /* LINE_STATUS */
    bool alive;                     /* it has power and clock, and no reset */
};

static NpuSocState *npu_soc_of(NpuCore *core)
{
    return container_of(core, NpuSocState, core);
}

/* --- the chip's board ---------------------------------------------------- */

static AddressSpace *npu_soc_bus(NpuCore *core)
{
    return npu_soc_of(core)->bus;
}

static void npu_soc_update_line(NpuSocState *s)
{
    qemu_set_irq(s->irq, s->line && s->alive);
}

static void npu_soc_deliver(NpuCore *core, unsigned int vector)
{
    NpuSocState *s = npu_soc_of(core);

    trace_npu_interrupt(vector);
    s->line |= NPU_LINE_STATUS_VECTOR;
    npu_soc_update_line(s);
}

static void npu_soc_copy(NpuCore *core, const struct npu_model_access *access,
                         MemoryRegion *mr, hwaddr offset, void *buf,
                         hwaddr bytes, bool is_write)
{
    soc_caches_copy(mr, offset, access, buf, bytes, is_write);
}

static const NpuCoreOps npu_soc_ops = {
    .bus = npu_soc_bus,
    .deliver = npu_soc_deliver,
    .copy = npu_soc_copy,
};

/* --- the watch ------------------------------------------------------------ */

/* Any thread. */
static void npu_soc_notify(void *opaque)
{
    NpuSocState *s = opaque;

    qemu_bh_schedule(s->watch_bh);
}

/* What follows at once may belong to the same report. */
static void npu_soc_watch_bh(void *opaque)
{
    NpuSocState *s = opaque;

    if (!timer_pending(s->watch_timer)) {
        timer_mod(s->watch_timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                  NPU_SOC_WATCH_NS);
    }
}

static void npu_soc_watch_timer(void *opaque)
{
    NpuSocState *s = opaque;

    if (soc_watch_report().kind) {
        s->line |= NPU_LINE_STATUS_WATCH;
        npu_soc_update_line(s);
    }
}

static void npu_soc_next_report(NpuSocState *s)
{
    if (!soc_watch_next()) {
        s->line &= ~NPU_LINE_STATUS_WATCH;
        npu_soc_update_line(s);
    }
}

/* A register of 32 bits, or half of one. */
static uint32_t npu_soc_watch_read(NpuSocState *s, hwaddr offset)
{
    SocReport report = soc_watch_report();

    switch (offset) {
    case NPU_REG_LINE_STATUS:
        return s->line;
    case NPU_REG_WATCH_CTRL:
        return (s->caches ? NPU_WATCH_CTRL_PRESENT : 0) |
               (soc_watch_is_enabled() ? NPU_WATCH_CTRL_ENABLE : 0);
    case NPU_REG_WATCH_LOST:
        return soc_watch_count(NPU_WATCH_NONE);
    case NPU_REG_WATCH_UNCLEANED:
        return soc_watch_count(NPU_WATCH_UNCLEANED);
    case NPU_REG_WATCH_STALE:
        return soc_watch_count(NPU_WATCH_STALE);
    case NPU_REG_WATCH_OVERWRITTEN:
        return soc_watch_count(NPU_WATCH_OVERWRITTEN);
    case NPU_REG_WATCH_DISCARDED:
        return soc_watch_count(NPU_WATCH_DISCARDED);
    case NPU_REG_REPORT_KIND:
        return report.kind;
    case NPU_REG_REPORT_BYTES:
        return report.bytes;
    case NPU_REG_REPORT_ADDR:
        return report.addr;
    case NPU_REG_REPORT_ADDR + 4:
        return report.addr >> 32;
    case NPU_REG_REPORT_VA:
        return report.va;
    case NPU_REG_REPORT_VA + 4:
        return report.va >> 32;
    case NPU_REG_REPORT_ASID:
        return report.asid;
    case NPU_REG_REPORT_QUEUE:
        return report.queue;
    case NPU_REG_REPORT_JOB:
        return report.job;
    case NPU_REG_REPORT_JOB + 4:
        return report.job >> 32;
    case NPU_REG_REPORT_COMMAND:
        return report.command;
    case NPU_REG_REPORT_ENGINE:
        return report.engine;
    case NPU_REG_REPORT_PC:
        return report.pc;
    case NPU_REG_REPORT_PC + 4:
        return report.pc >> 32;
    case NPU_REG_REPORT_SPACE:
        return report.space;
    case NPU_REG_REPORT_SPACE + 4:
        return report.space >> 32;
    case NPU_REG_REPORT_LEVEL:
        return report.level;
    case NPU_REG_REPORT_LAYER:
        return report.layer;
    default:
        return 0;
    }
}

static void npu_soc_watch_write(NpuSocState *s, hwaddr offset, uint32_t value)
{
    switch (offset) {
    case NPU_REG_LINE_STATUS:
        s->line &= ~(value & NPU_LINE_STATUS_VECTOR);
        npu_soc_update_line(s);
        break;
    case NPU_REG_WATCH_CTRL:
        soc_watch_enable(value & NPU_WATCH_CTRL_ENABLE);
        break;
    case NPU_REG_REPORT_NEXT:
        npu_soc_next_report(s);
        break;
    default:
        break;
    }
}

/* --- registers ------------------------------------------------------------ */

/* Registers that belong to the board around the chip. */
static bool npu_soc_is_own(hwaddr offset)
{
    return offset == NPU_REG_LINE_STATUS ||
           (offset >= NPU_REG_WATCH_CTRL && offset <= NPU_REG_REPORT_LAYER);
}

/* Whoever is here has booted: from now on its caches matter. */
static void npu_soc_begin_caches(NpuSocState *s)
{
    if (s->caches) {
        const SocWatch watch = {
            .notify = npu_soc_notify,
            .opaque = s,
            .seed = s->cache_seed,
            .fatal = s->watch_fatal,
        };

        soc_caches_begin(&watch);
    }
}

static uint64_t npu_soc_read(void *opaque, hwaddr offset, unsigned size)
{
    NpuSocState *s = opaque;
    uint64_t value;

    npu_soc_begin_caches(s);
    if (!s->alive || npu_core_is_dead(&s->core)) {
        return UINT64_MAX;
    }
    if (!npu_soc_is_own(offset)) {
        return npu_core_mmio_read(&s->core, offset, size);
    }
    value = npu_soc_watch_read(s, offset);
    if (size == 8) {
        value |= (uint64_t)npu_soc_watch_read(s, offset + 4) << 32;
    }
    trace_npu_mmio_read(offset, size, value);
    return value;
}

static void npu_soc_write(void *opaque, hwaddr offset, uint64_t value,
                          unsigned size)
{
    NpuSocState *s = opaque;

    npu_soc_begin_caches(s);
    if (!s->alive || npu_core_is_dead(&s->core)) {
        return;
    }
    if (!npu_soc_is_own(offset)) {
        npu_core_mmio_write(&s->core, offset, value, size);
        return;
    }
    trace_npu_mmio_write(offset, size, value);
    npu_soc_watch_write(s, offset, value);
}

static const MemoryRegionOps npu_soc_mmio_ops = {
    .read = npu_soc_read,
    .write = npu_soc_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 8 },
    .impl = { .min_access_size = 4, .max_access_size = 8 },
};

/* --- power, clock, reset --------------------------------------------------- */

/* What the block was doing when it lost one of them is gone. */
static void npu_soc_power_changed(void *opaque)
{
    NpuSocState *s = opaque;
    const SocScmi *scmi = &s->scmi;
    bool alive = !s->managed ||
                 (scmi->powered && scmi->clocked && !scmi->in_reset);

    if (alive == s->alive) {
        return;
    }
    trace_npu_soc_alive(alive);
    s->alive = alive;
    npu_core_set_power(&s->core, alive);
    if (!alive) {
        s->line &= ~NPU_LINE_STATUS_VECTOR;
    }
    npu_soc_update_line(s);
}

static NpuSocState *npu_soc_firmware;

/* Functions of Arm's firmware interfaces: DEN0028, DEN0022. */
#define SMCCC_VERSION 0x80000000u
#define SMCCC_VERSION_1_1 0x10001
#define PSCI_FEATURES 0x8400000au

/*
 * Linux calls firmware for SCMI only where it follows version 1.1 of the
 * calling convention, which is what PSCI is asked for.
 */
static bool npu_soc_firmware_call(uint64_t function, uint64_t argument,
                                  int32_t *result)
{
    *result = 0;
    switch ((uint32_t)function) {
    case PSCI_FEATURES:
        return (uint32_t)argument == SMCCC_VERSION;
    case SMCCC_VERSION:
        *result = SMCCC_VERSION_1_1;
        return true;
    case SCMI_FUNCTION:
        soc_scmi_request(&npu_soc_firmware->scmi);
        return true;
    default:
        return false;
    }
}

/* --- device tree ----------------------------------------------------------- */

static void add_cells(void *fdt, const char *node, uint32_t address)
{
    qemu_fdt_setprop_cell(fdt, node, "#address-cells", address);
    qemu_fdt_setprop_cell(fdt, node, "#size-cells", address ? 1 : 0);
}

/* A protocol of the control processor; returns its phandle. */
static uint32_t add_protocol(void *fdt, const char *scmi, unsigned number,
                             const char *cells)
{
    g_autofree char *node = g_strdup_printf("%s/protocol@%x", scmi, number);
    uint32_t phandle = qemu_fdt_alloc_phandle(fdt);

    qemu_fdt_add_subnode(fdt, node);
    qemu_fdt_setprop_cell(fdt, node, "reg", number);
    qemu_fdt_setprop_cell(fdt, node, cells, 1);
    qemu_fdt_setprop_cell(fdt, node, "phandle", phandle);
    return phandle;
}

static uint32_t add_shmem(void *fdt, const char *parent, hwaddr base)
{
    g_autofree char *sram = g_strdup_printf("%s/sram@%" HWADDR_PRIx, parent,
                                            base);
    g_autofree char *shmem = g_strdup_printf("%s/sram@0", sram);
    uint32_t phandle = qemu_fdt_alloc_phandle(fdt);

    qemu_fdt_add_subnode(fdt, sram);
    qemu_fdt_setprop_string(fdt, sram, "compatible", "mmio-sram");
    qemu_fdt_setprop_cells(fdt, sram, "reg", base, SCMI_SHMEM_BYTES);
    qemu_fdt_setprop_cells(fdt, sram, "ranges", 0, base, SCMI_SHMEM_BYTES);
    qemu_fdt_setprop_cell(fdt, sram, "#address-cells", 1);
    qemu_fdt_setprop_cell(fdt, sram, "#size-cells", 1);
    qemu_fdt_add_subnode(fdt, shmem);
    qemu_fdt_setprop_string(fdt, shmem, "compatible", "arm,scmi-shmem");
    qemu_fdt_setprop_cells(fdt, shmem, "reg", 0, SCMI_SHMEM_BYTES);
    qemu_fdt_setprop_cell(fdt, shmem, "phandle", phandle);
    return phandle;
}

/* The control processor, and what the block gets from it. */
static void add_management(void *fdt, const char *parent, const char *npu,
                           hwaddr shmem_base)
{
    const char *scmi = "/firmware/scmi";
    uint32_t shmem = add_shmem(fdt, parent, shmem_base);

    qemu_fdt_add_path(fdt, scmi);
    qemu_fdt_setprop_string(fdt, scmi, "compatible", "arm,scmi-smc");
    qemu_fdt_setprop_cell(fdt, scmi, "arm,smc-id", SCMI_FUNCTION);
    qemu_fdt_setprop_cell(fdt, scmi, "shmem", shmem);
    add_cells(fdt, scmi, 1);
    qemu_fdt_setprop_cell(fdt, scmi, "#size-cells", 0);
    qemu_fdt_setprop_cells(fdt, npu, "power-domains",
                           add_protocol(fdt, scmi, SCMI_PROTOCOL_POWER,
                                        "#power-domain-cells"), 0);
    qemu_fdt_setprop_cells(fdt, npu, "clocks",
                           add_protocol(fdt, scmi, SCMI_PROTOCOL_CLOCK,
                                        "#clock-cells"), 0);
    qemu_fdt_setprop_cells(fdt, npu, "resets",
                           add_protocol(fdt, scmi, SCMI_PROTOCOL_RESET,
                                        "#reset-cells"), 0);
}

static void add_fixed_clock(void *fdt, const char *npu, uint64_t hz)
{
    const char *node = "/npu-clock";
    uint32_t phandle = qemu_fdt_alloc_phandle(fdt);

    qemu_fdt_add_subnode(fdt, node);
    qemu_fdt_setprop_string(fdt, node, "compatible", "fixed-clock");
    qemu_fdt_setprop_cell(fdt, node, "#clock-cells", 0);
    qemu_fdt_setprop_cell(fdt, node, "clock-frequency", hz);
    qemu_fdt_setprop_cell(fdt, node, "phandle", phandle);
    qemu_fdt_setprop_cell(fdt, npu, "clocks", phandle);
}

static void npu_soc_add_node(SysBusDevice *sbdev, void *fdt, const char *parent,
                             const hwaddr *bases, uint32_t interrupt)
{
    NpuSocState *s = NPU_SOC(sbdev);
    g_autofree char *node = g_strdup_printf("%s/npu@%" HWADDR_PRIx, parent,
                                            bases[0]);

    qemu_fdt_add_subnode(fdt, node);
    qemu_fdt_setprop_string(fdt, node, "compatible", "qnpu,qnpu1");
    qemu_fdt_setprop_cells(fdt, node, "reg", bases[0], NPU_BAR_REGS_BYTES);
    qemu_fdt_setprop_cells(fdt, node, "interrupts", GIC_FDT_IRQ_TYPE_SPI,
                           interrupt, GIC_FDT_IRQ_FLAGS_LEVEL_HI);
    qemu_fdt_setprop(fdt, node, s->caches ? "dma-noncoherent" : "dma-coherent",
                     NULL, 0);
    qemu_fdt_setprop_string(fdt, node, "clock-names", "core");
    if (s->managed) {
        add_management(fdt, parent, node, bases[1]);
    } else {
        add_fixed_clock(fdt, node, s->scmi.clock_hz);
    }
    if (s->smmu) {
        qemu_fdt_setprop_cells(fdt, node, "iommus",
                               qemu_fdt_get_phandle(fdt, "/smmuv3@9050000"),
                               NPU_SOC_STREAM);
    }
}

/* --- life ------------------------------------------------------------------ */

/* The board's SMMU translates for a PCI bus: the block is a device of it. */
static AddressSpace *npu_soc_find_bus(NpuSocState *s)
{
    Object *host = object_resolve_path_type("", TYPE_PCI_HOST_BRIDGE, NULL);
    PCIBus *bus = host ? PCI_HOST_BRIDGE(host)->bus : NULL;

    if (!s->smmu || !bus || !bus->iommu_ops) {
        return &address_space_memory;
    }
    return bus->iommu_ops->get_address_space(bus, bus->iommu_opaque,
                                             NPU_SOC_STREAM);
}

static void npu_soc_reset_hold(Object *obj, ResetType type)
{
    NpuSocState *s = NPU_SOC(obj);

    soc_caches_end();
    s->bus = npu_soc_find_bus(s);
    npu_core_reset(&s->core);
    s->line = 0;
    if (s->managed) {
        soc_scmi_reset(&s->scmi);
        s->alive = false;
    }
    npu_soc_update_line(s);
}

static void npu_soc_realize(DeviceState *dev, Error **errp)
{
    NpuSocState *s = NPU_SOC(dev);
    SysBusDevice *sbd = SYS_BUS_DEVICE(dev);

    if (npu_soc_firmware) {
        error_setg(errp, "npu-soc: the board has one already");
        return;
    }
    if (s->caches && !tcg_enabled()) {
        error_setg(errp, "npu-soc: caches=on needs processors of TCG");
        return;
    }
    s->bus = &address_space_memory;
    if (s->smmu && npu_soc_find_bus(s) == s->bus) {
        error_setg(errp, "npu-soc: smmu=on, and the board has no SMMU, or more "
                   "than one PCI host");
        return;
    }
    s->core.config.vectors = 1;
    if (!npu_core_create(&s->core, dev, &npu_soc_ops, errp)) {
        return;
    }
    if (!memory_region_init_ram(&s->shmem, OBJECT(s), "npu-scmi",
                                SCMI_SHMEM_BYTES, errp)) {
        npu_core_discard(&s->core);
        return;
    }
    memory_region_init_io(&s->regs, OBJECT(s), &npu_soc_mmio_ops, s, "npu-regs",
                          NPU_BAR_REGS_BYTES);
    sysbus_init_mmio(sbd, &s->regs);
    sysbus_init_mmio(sbd, &s->shmem);
    sysbus_init_irq(sbd, &s->irq);
    s->scmi.shmem = memory_region_get_ram_ptr(&s->shmem);
    s->scmi.clock_hz = (uint64_t)s->core.config.clock_khz * 1000;
    s->scmi.changed = npu_soc_power_changed;
    s->scmi.opaque = s;
    s->alive = !s->managed;
    s->watch_bh = qemu_bh_new_guarded(npu_soc_watch_bh, s,
                                      &dev->mem_reentrancy_guard);
    s->watch_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, npu_soc_watch_timer, s);
    npu_soc_firmware = s;
    arm_firmware_call = npu_soc_firmware_call;
    npu_core_start(&s->core);
}

static const Property npu_soc_properties[] = {
    NPU_CORE_PROPERTIES(NpuSocState),
    DEFINE_PROP_BOOL("caches", NpuSocState, caches, true),
    DEFINE_PROP_UINT64("cache-seed", NpuSocState, cache_seed, 0),
    DEFINE_PROP_BOOL("watch-fatal", NpuSocState, watch_fatal, false),
    DEFINE_PROP_BOOL("managed", NpuSocState, managed, true),
    DEFINE_PROP_BOOL("smmu", NpuSocState, smmu, false),
};

static const VMStateDescription vmstate_npu_soc = {
    .name = TYPE_NPU_SOC,
    .unmigratable = 1,
};

static void npu_soc_describe(ObjectClass *klass)
{
    static const char *const texts[][2] = {
        { "caches", "the processors' caches are not coherent with the block" },
        { "cache-seed", "chooses what they do on their own, and when" },
        { "watch-fatal", "QEMU ends at the first report of the cache watch" },
        { "managed", "power, clock and reset come from the board's firmware; "
          "off: it always has them" },
        { "smmu", "it is behind the board's SMMU (machine option "
          "iommu=smmuv3)" },
    };
    size_t i;

    for (i = 0; i < ARRAY_SIZE(texts); i++) {
        object_class_property_set_description(klass, texts[i][0], texts[i][1]);
    }
}

static void npu_soc_visit_refused(Object *obj, Visitor *v, const char *name,
                                  void *opaque, Error **errp)
{
    visit_type_uint64(v, name,
                      &NPU_SOC(obj)->scmi.refused[GPOINTER_TO_UINT(opaque)],
                      errp);
}

static void npu_soc_add_faults(ObjectClass *klass)
{
    static const struct {
        const char *name;
        unsigned what;
        const char *text;
    } faults[] = {
        { "fault-power", SCMI_GRANT_POWER,
          "next requests for power that the firmware refuses" },
        { "fault-clock", SCMI_GRANT_CLOCK,
          "next requests for the clock that the firmware refuses" },
        { "fault-reset", SCMI_GRANT_RESET,
          "next requests to end the reset that the firmware refuses" },
    };
    size_t i;

    for (i = 0; i < ARRAY_SIZE(faults); i++) {
        object_class_property_add(klass, faults[i].name, "uint64",
                                  npu_soc_visit_refused, npu_soc_visit_refused,
                                  NULL, GUINT_TO_POINTER(faults[i].what));
        object_class_property_set_description(klass, faults[i].name,
                                              faults[i].text);
    }
}

static void npu_soc_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);
    PlatformNodeClass *pn = PLATFORM_NODE_CLASS(klass);

    dc->realize = npu_soc_realize;
    dc->desc = "QNPU1 neural network accelerator, block of a SoC";
    dc->vmsd = &vmstate_npu_soc;
    dc->user_creatable = true;
    dc->hotpluggable = false;
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    rc->phases.hold = npu_soc_reset_hold;
    pn->add_node = npu_soc_add_node;
    device_class_set_props(dc, npu_soc_properties);
    npu_soc_describe(klass);
    npu_soc_add_faults(klass);
    npu_core_class_init(klass, offsetof(NpuSocState, core));
}

static const TypeInfo npu_soc_type_info = {
    .name = TYPE_NPU_SOC,
    .parent = TYPE_DYNAMIC_SYS_BUS_DEVICE,
    .instance_size = sizeof(NpuSocState),
    .class_init = npu_soc_class_init,
    .interfaces = (InterfaceInfo[]) {
        { TYPE_PLATFORM_NODE },
        { }
    },
};

static void npu_soc_register_types(void)
{
    type_register_static(&npu_soc_type_info);
}

type_init(npu_soc_register_types)
