// SPDX-License-Identifier: MIT
// EPContext: nodes that have a compiled network in them, or name the file that has it.
#ifndef NPU_ORT_CONTEXT_H
#define NPU_ORT_CONTEXT_H

#include "ort/ep/group.h"
#include "ort/ep/options.h"

namespace npu::ort {

/// Whether a node is one of ours.
bool is_own_context(Ort::ConstNode node);

/// Reads what a node has or names. `model` is the path of the model, empty where it was in memory.
Status read_context(Ort::ConstNode node, const std::string &model, const Options &options, Group &out);

/// A node in the place of `fused`. `number` tells the files of a model apart.
Status write_context(Ort::ConstNode fused, const std::string &model, const Options &options, const Group &group,
                     size_t number, OrtNode **out);

}  // namespace npu::ort

#endif  // NPU_ORT_CONTEXT_H
