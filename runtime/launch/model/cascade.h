// SPDX-License-Identifier: MIT
// Distributed networks: steps that run on several cards, one after another or side by side, and the tensors between
// them.
#ifndef NPURT_CASCADE_H
#define NPURT_CASCADE_H

#include <span>

#include "runtime/launch/model/card.h"
#include "runtime/launch/model/network.h"

namespace npurt {

using Nets = std::vector<const npu::bmodel::fb::Net *>;

/// Makes stage `index` of a distributed network of the stages `index` of its steps: its tensors, a plan, pools. `steps`
/// are in the file's order; `who` begins the reason.
Status load_cascade(std::span<const Card> cards, const std::string &who, const npu::bmodel::Container &container,
                    const Nets &steps, unsigned index, Stage &stage);

}  // namespace npurt

#endif  // NPURT_CASCADE_H
