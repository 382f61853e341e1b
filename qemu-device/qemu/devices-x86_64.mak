# SPDX-License-Identifier: GPL-2.0-or-later
#
# The devices that QEMU for x86_64 has: those of the board pc, and no other. Q35 selects its interrupt controllers,
# timers, firmware interface and ISA serial port.

CONFIG_Q35=y
CONFIG_VTD=y
CONFIG_HPET=y
CONFIG_PCIE_PORT=y
CONFIG_NPU_QNPU1=y

# Console, control and streams of the launcher, shared folders
CONFIG_SERIAL_ISA=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VIRTIO_9P=y

# A conventional bus, which the device refuses
CONFIG_PCI_BRIDGE=y
CONFIG_PCIE_PCI_BRIDGE=y

# The benchmark compares rings with its passthrough commands
CONFIG_NVME_PCI=y
