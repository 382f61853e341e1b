# SPDX-License-Identifier: GPL-2.0-or-later
#
# The devices that QEMU for aarch64 has: those of the boards virt and soc, and no other. The machine selects its
# interrupt controller, UART, clock, GPIO, SMMU, platform bus and PCI Express host bridge.

CONFIG_ARM_VIRT=y
CONFIG_PCIE_PORT=y
CONFIG_NPU_QNPU1=y
CONFIG_NPU_SOC=y

# Console, control and streams of the launcher, shared folders
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VIRTIO_9P=y

# A conventional bus, which the device refuses
CONFIG_PCI_BRIDGE=y
CONFIG_PCIE_PCI_BRIDGE=y
