// SPDX-License-Identifier: MIT
// libnpuc.so, which lies beside the plug-in and is loaded with the first session.
#ifndef NPU_ORT_COMPILER_H
#define NPU_ORT_COMPILER_H

#include <bmdef.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"

namespace npu::ort {

struct CompileRequest {
  const std::vector<uint8_t> *network = nullptr;  ///< ONNX
  std::string name;
  std::map<std::string, std::string> options;
  std::map<std::string, std::vector<int64_t>> shapes;  ///< of inputs with open dimensions
  std::map<std::string, bm_data_type_t> input_types, output_types;
};

struct CompileResult {
  std::vector<uint8_t> bmodel;
  uint64_t chip_commands = 0, host_nodes = 0;
  bool refused = false;  ///< the compiler cannot compile the network; other errors may pass, as a lack of memory
};

Status compile(const CompileRequest &request, CompileResult &out);
/// Why nodes of the network cannot be compiled, by their places in it.
Status explain(const CompileRequest &request, std::map<size_t, std::string> &problems);
/// Whether the compiler knows the options.
Status check_options(const std::map<std::string, std::string> &options);
/// Changes with the compiler: what is kept from one session to the next is only good for the same.
std::string compiler_identity();

}  // namespace npu::ort

#endif  // NPU_ORT_COMPILER_H
