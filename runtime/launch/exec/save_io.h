// SPDX-License-Identifier: MIT
// BMRT_SAVE_IO_TENSORS=1 in the environment: what each launch reads and writes, in files of the working directory.
#ifndef NPURT_SAVE_IO_H
#define NPURT_SAVE_IO_H

#include <span>
#include <vector>

#include "runtime/launch/model/card.h"
#include "runtime/launch/model/unit.h"

namespace npurt {

bool saves_io();

/// Writes the tensors' bytes, one after another, to a file that each launch overwrites: "input_ref_data.dat.bmrt" or
/// "output_ref_data.dat.bmrt". `devices` are the numbers of their cards.
Status save_io(const char *file, std::span<const Card> cards, std::span<const unsigned> devices,
               const std::vector<TensorInfo> &infos, std::span<const bm_tensor_t> tensors);

inline constexpr const char *kSavedInputs = "input_ref_data.dat.bmrt", *kSavedOutputs = "output_ref_data.dat.bmrt";

}  // namespace npurt

#endif  // NPURT_SAVE_IO_H
