// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/save.h"

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/nets/check.h"

namespace npu::fuzz {
namespace {

Status write_bytes(const std::filesystem::path &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file ? Status() : Status::error("cannot write " + path.string());
}

std::string serialized(const cpu::Tensor &t) {
  onnx::TensorProto proto;
  for (const int64_t d : t.shape) proto.add_dims(d);
  proto.set_data_type(static_cast<int>(t.dtype));
  proto.set_raw_data(t.data.data(), t.data.size());
  return proto.SerializeAsString();
}

}  // namespace

Status save_network(const Made &made, const std::string &folder) {
  std::vector<cpu::Tensor> inputs;
  NPU_TRY(make_declared_inputs(made, inputs));
  const std::filesystem::path data = std::filesystem::path(folder) / "test_data_set_0";
  std::error_code failed;
  std::filesystem::create_directories(data, failed);
  if (failed) return Status::error("cannot make the folder " + data.string() + ": " + failed.message());
  NPU_TRY(write_bytes(std::filesystem::path(folder) / "model.onnx", made.model));
  for (size_t k = 0; k < inputs.size(); ++k)
    NPU_TRY(write_bytes(data / ("input_" + std::to_string(k) + ".pb"), serialized(inputs[k])));
  return {};
}

}  // namespace npu::fuzz
