// SPDX-License-Identifier: MIT
// The memory of a simulated card where NPU_SIM does not say: more on a larger host.
#ifndef NPU_SIM_HOST_MEMORY_H
#define NPU_SIM_HOST_MEMORY_H

#include <cstdint>

namespace npu::sim {

/// Memory that this process may use: the machine's, or less where a control group or RLIMIT_AS limits it. 0 where the
/// kernel does not overcommit memory (vm.overcommit_memory=2).
uint64_t host_memory();

/// The largest power of two that half of the host's memory has for each card, from 512 MiB to 64 GiB. Pages of a card
/// exist only once they are used.
uint64_t default_ddr_bytes(uint64_t host_bytes, uint32_t cards);

}  // namespace npu::sim

#endif  // NPU_SIM_HOST_MEMORY_H
