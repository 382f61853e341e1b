// SPDX-License-Identifier: MIT
// What a launch must agree with before anything is bound: counts, types, store modes, shapes, cores.
#ifndef NPURT_LAUNCH_CHECK_H
#define NPURT_LAUNCH_CHECK_H

#include <span>
#include <string>
#include <vector>

#include "runtime/launch/model/network.h"

namespace npurt {

/// "network 'x' input 0 ('name')".
std::string tensor_name(const Network &net, const char *what, size_t i, const TensorInfo &t);
/// The complaint `text` about a tensor.
Status tensor_error(const Network &net, const char *what, size_t i, const TensorInfo &t, const std::string &text);

Status check_counts(const Network &net, size_t inputs, size_t outputs);
Status check_inputs(const Network &net, std::span<const bm_tensor_t> inputs);
/// The store modes that a caller wants for the outputs.
Status check_store_modes(const Network &net, std::span<const bm_tensor_t> outputs);
/// Batches that share words cannot be counted otherwise than by the stage; `infos` are its tensors as the launch has
/// them.
Status check_batches(const Network &net, const std::vector<TensorInfo> &infos, std::span<const bm_tensor_t> inputs);
/// The stage for inputs of these shapes; one is compiled if there is none and the network is in the file.
Status choose_stage(const Network &net, const std::vector<bm_shape_t> &shapes, std::shared_ptr<const Stage> &stage);
/// Why find_stage() found none.
Status no_stage(const Network &net, const std::vector<bm_shape_t> &shapes);
/// The mask for a list of cores: its first core_num different ones, missing ones added; 0 (any) for an empty list.
Status choose_cores(const Network &net, std::span<const int> list, uint32_t cores_of_card, uint32_t &mask);

}  // namespace npurt

#endif  // NPURT_LAUNCH_CHECK_H
