// SPDX-License-Identifier: MIT
// ONNX Runtime in a process of its own: it shares no importer with npuc, and a crash there is a message here.
#ifndef NPU_NPUC_VERIFY_ONNXRUNTIME_H
#define NPU_NPUC_VERIFY_ONNXRUNTIME_H

#include "tools/npuc/tensor_file.h"

namespace npu::npuc {

/// The program npuc-onnxruntime: NPUC_ONNXRUNTIME of the environment, else one beside the libraries; empty: it is not
/// there, because it was built without ONNX Runtime.
std::string onnxruntime_program();

/// Runs a model. `inputs` become the types that it has; `wanted`: tensors of the model, empty: its outputs.
Status run_onnxruntime(const std::string &program, const std::string &model, const std::vector<NamedTensor> &inputs,
                       const std::vector<std::string> &wanted, std::vector<NamedTensor> &outputs, std::string &version);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_ONNXRUNTIME_H
