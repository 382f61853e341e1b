// SPDX-License-Identifier: MIT
// Networks as files for other programs.
#ifndef NPU_FUZZ_NETS_SAVE_H
#define NPU_FUZZ_NETS_SAVE_H

#include <string>

#include "common/status.h"
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// Writes a network and its inputs into a folder, as ONNX has its tests: model.onnx, test_data_set_0/input_N.pb.
Status save_network(const Made &made, const std::string &folder);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_SAVE_H
