// SPDX-License-Identifier: MIT
// What a job that failed on the card did, in the network's own terms.
#ifndef NPURT_FAULT_H
#define NPURT_FAULT_H

#include "runtime/launch/model/network.h"

namespace npurt {

/// "the job failed: ...: TIU command 17, region 3 ... (region 3 is output 0 'y'; layer 'conv1')".
/// `unit` is the program that the job ran; null: another.
Status fault_text(const Unit *unit, const npu_result &result);

}  // namespace npurt

#endif  // NPURT_FAULT_H
