/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QNPU1, a neural network accelerator on a PCI Express card: configuration
 * space, BARs, memory and MSI-X around the chip of npu_core.h, which says
 * what there is to say about threads and time.
 */

#include "qemu/osdep.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/resettable.h"
#include "npu_core.h"
#include "trace.h"

#define TYPE_NPU "npu"
OBJECT_DECLARE_SIMPLE_TYPE(NpuState, NPU)

#define NPU_CLASS_PROCESSING_ACCELERATOR 0x1200
#define NPU_DDR_DEFAULT (512 * MiB)

struct NpuState {
    PCIDevice parent_obj;

    NpuCore core;
    MemoryRegion regs;
    MemoryRegion ddr_bar;           /* core.ddr, or dead_ddr above it */
    MemoryRegion dead_ddr;          /* of a dead card; enabled under the BQL */
};

static NpuState *npu_of(NpuCore *core)
{
    return container_of(core, NpuState, core);
}

/* --- the chip's board ---------------------------------------------------- */

static AddressSpace *npu_bus(NpuCore *core)
{
    return pci_get_address_space(PCI_DEVICE(npu_of(core)));
}

static void npu_deliver(NpuCore *core, unsigned int vector)
{
    PCIDevice *pdev = PCI_DEVICE(npu_of(core));

    if (qatomic_read(&core->gone) || !msix_enabled(pdev)) {
        trace_npu_interrupt_dropped(vector);
        return;
    }
    trace_npu_interrupt(vector);
    msix_notify(pdev, vector);
}

/* A dead card's memory reads as ones, too. */
static void npu_fault_set(NpuCore *core)
{
    memory_region_set_enabled(&npu_of(core)->dead_ddr, npu_core_is_dead(core));
}

static const NpuCoreOps npu_ops = {
    .bus = npu_bus,
    .deliver = npu_deliver,
    .fault_set = npu_fault_set,
};

/* --- registers ----------------------------------------------------------- */

static uint64_t npu_mmio_read(void *opaque, hwaddr offset, unsigned size)
{
    NpuState *s = opaque;

    return npu_core_mmio_read(&s->core, offset, size);
}

static void npu_mmio_write(void *opaque, hwaddr offset, uint64_t value,
                           unsigned size)
{
    NpuState *s = opaque;

    npu_core_mmio_write(&s->core, offset, value, size);
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

static uint32_t npu_read_config(PCIDevice *pdev, uint32_t addr, int len)
{
    return npu_core_is_dead(&NPU(pdev)->core) ? UINT32_MAX
                                  : pci_default_read_config(pdev, addr, len);
}

static void npu_write_config(PCIDevice *pdev, uint32_t addr, uint32_t val,
                             int len)
{
    if (npu_core_is_dead(&NPU(pdev)->core)) {
        return;
    }
    pci_default_write_config(pdev, addr, val, len);
    pcie_cap_flr_write_config(pdev, addr, val, len);
    pcie_aer_write_config(pdev, addr, val, len);
}

/* --- snapshots ----------------------------------------------------------- */

static int npu_post_load(void *opaque, int version)
{
    NpuState *s = opaque;

    npu_fault_set(&s->core);
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
        VMSTATE_STRUCT(core, NpuState, 1, vmstate_npu_core, NpuCore),
        VMSTATE_END_OF_LIST()
    },
};

/* --- life ---------------------------------------------------------------- */

static void npu_reset_hold(Object *obj, ResetType type)
{
    NpuState *s = NPU(obj);
    PCIDevice *pdev = PCI_DEVICE(obj);

    /* The core clears the Bus Master Enable bit, but not what it stands for. */
    memory_region_set_enabled(&pdev->bus_master_enable_region, false);
    pcie_cap_deverr_reset(pdev);
    npu_core_reset(&s->core);
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
    uint64_t ddr_bytes = s->core.config.ddr_bytes;
    unsigned int i;

    memory_region_init_io(&s->dead_ddr, OBJECT(s), &npu_dead_ops, s,
                          "npu-dead", ddr_bytes);
    memory_region_set_enabled(&s->dead_ddr, false);
    memory_region_init(&s->ddr_bar, OBJECT(s), "npu-bar2", ddr_bytes);
    memory_region_init_io(&s->regs, OBJECT(s), &npu_mmio_ops, s, "npu-regs",
                          NPU_BAR_REGS_BYTES);
    pci_register_bar(pdev, NPU_PCI_BAR_REGS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->regs);
    pci_register_bar(pdev, NPU_PCI_BAR_DDR,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->ddr_bar);
    if (msix_init_exclusive_bar(pdev, s->core.config.vectors, NPU_PCI_BAR_MSIX,
                                errp)) {
        return false;
    }
    if (!npu_init_capabilities(pdev, errp)) {
        msix_uninit_exclusive_bar(pdev);
        return false;
    }
    for (i = 0; i < s->core.config.vectors; i++) {
        msix_vector_use(pdev, i);
    }
    return true;
}

/* A region in a container holds a reference to the device until it leaves. */
static void npu_fill_ddr_bar(NpuState *s)
{
    memory_region_add_subregion(&s->ddr_bar, 0, &s->core.ddr);
    memory_region_add_subregion_overlap(&s->ddr_bar, 0, &s->dead_ddr, 1);
}

static void npu_empty_ddr_bar(NpuState *s)
{
    memory_region_del_subregion(&s->ddr_bar, &s->dead_ddr);
    memory_region_del_subregion(&s->ddr_bar, &s->core.ddr);
}

static bool npu_check_slot(NpuState *s, Error **errp)
{
    if (!s->core.config.ddr_bytes) {
        error_setg(errp, "npu: property 'ddr' must be a power of two of at "
                   "least 1 MiB, not 0 bytes");
        return false;
    }
    if (!pci_bus_is_express(pci_get_bus(PCI_DEVICE(s)))) {
        error_setg(errp, "npu: this is a PCI Express card: plug it into a "
                   "pcie-root-port, not into a conventional PCI bus");
        return false;
    }
    return true;
}

static void npu_realize(PCIDevice *pdev, Error **errp)
{
    NpuState *s = NPU(pdev);

    if (!npu_check_slot(s, errp) ||
        !npu_core_create(&s->core, DEVICE(s), &npu_ops, errp)) {
        return;
    }
    if (!npu_init_pci(s, errp)) {
        npu_core_discard(&s->core);
        return;
    }
    vmstate_register_ram(&s->core.ddr, DEVICE(s));
    npu_fill_ddr_bar(s);
    npu_fault_set(&s->core);
    npu_core_start(&s->core);
}

/* Unplugged. */
static void npu_exit(PCIDevice *pdev)
{
    NpuState *s = NPU(pdev);

    /* Another card of this name may come before this memory is gone. */
    vmstate_unregister_ram(&s->core.ddr, DEVICE(s));
    npu_core_leave(&s->core);
    npu_empty_ddr_bar(s);
    pcie_aer_exit(pdev);
    pcie_cap_exit(pdev);
    msix_uninit_exclusive_bar(pdev);
}

static const Property npu_properties[] = {
    NPU_CORE_PROPERTIES(NpuState),
    NPU_CORE_NUMBER(NpuState, "vectors", vectors),
    DEFINE_PROP_SIZE("ddr", NpuState, core.config.ddr_bytes, NPU_DDR_DEFAULT),
};

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
    object_class_property_set_description(klass, "ddr",
                                          "memory of the card, bytes");
    npu_core_class_init(klass, offsetof(NpuState, core));
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
