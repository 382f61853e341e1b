// SPDX-License-Identifier: MIT
// What the C API prints on request.
#ifndef NPURT_PRINT_H
#define NPURT_PRINT_H

#include "runtime/launch/exec/runtime.h"

namespace npurt {

void print_network_info(const bm_net_info_t &info);
void print_trace(const Runtime &runtime);

}  // namespace npurt

#endif  // NPURT_PRINT_H
