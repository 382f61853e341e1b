// SPDX-License-Identifier: MIT
// npuc-onnxruntime: runs a model with ONNX Runtime, for npuc --verify.
//
//   npuc-onnxruntime MODEL INPUTS NAMES OUTPUTS VERSION
//
// INPUTS and OUTPUTS are files of tensor_file.h, NAMES is one of tensors that are wanted, a line each; none: all
// outputs of the model. VERSION gets the version of ONNX Runtime.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "runtime/cpu/operators.h"
#include "tools/npuc/tensor_file.h"

namespace {

namespace fs = std::filesystem;
using npu::Status;
using npu::cpu::Dtype;
using npu::cpu::Tensor;
using npu::npuc::NamedTensor;

/// A length as protobuf writes it.
void put_varint(std::string &out, size_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<char>(value % 128 + 128));
  out.push_back(static_cast<char>(value));
}

void put_field(std::string &out, unsigned number, const std::string &bytes) {
  put_varint(out, number << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

/// The bytes that make tensors outputs of a model when they are appended to it: protobuf merges a message in parts.
std::string more_outputs(const std::vector<std::string> &names) {
  constexpr unsigned kModelGraph = 7, kGraphOutput = 12, kValueName = 1;
  std::string graph, out;
  for (const std::string &name : names) {
    std::string value;
    put_field(value, kValueName, name);
    put_field(graph, kGraphOutput, value);
  }
  put_field(out, kModelGraph, graph);
  return out;
}

std::vector<std::string> read_lines(const char *path) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

/// Messages without the colours of terminals.
void ORT_API_CALL log_plainly(void *, OrtLoggingLevel, const char *, const char *, const char *where,
                              const char *message) {
  std::fprintf(stderr, "%s: %s\n", where, message);
}

/// ONNX Runtime numbers types as ONNX does.
ONNXTensorElementDataType ort_type(Dtype type) { return static_cast<ONNXTensorElementDataType>(type); }

class Session {
 public:
  Session(const std::string &model, const std::vector<std::string> &names)
      : env_(ORT_LOGGING_LEVEL_ERROR, "npuc", log_plainly, nullptr) {
    Ort::SessionOptions options;
    options.SetGraphOptimizationLevel(ORT_ENABLE_BASIC);
    // The file itself, so that data beside it are found; a copy only where more outputs are wanted.
    session_ = Ort::Session(env_, model.c_str(), options);
    read_outputs();
    std::vector<std::string> more;
    for (const std::string &name : names)
      if (std::find(outputs_.begin(), outputs_.end(), name) == outputs_.end()) more.push_back(name);
    if (!more.empty()) {
      std::ifstream file(model, std::ios::binary);
      std::string bytes{std::istreambuf_iterator<char>(file), {}};
      bytes += more_outputs(more);
      // The folder of data beside the file. Versions that do not know the key ignore it.
      options.AddConfigEntry("session.model_external_initializers_file_folder_path",
                             fs::absolute(model).parent_path().c_str());
      session_ = Ort::Session(env_, bytes.data(), bytes.size(), options);
    }
    if (!names.empty()) outputs_ = names;
  }

  Status run(std::vector<NamedTensor> given, std::vector<NamedTensor> &out) {
    std::vector<std::string> names;
    std::vector<const char *> input_names, output_names;
    std::vector<Tensor> tensors;
    std::vector<Ort::Value> values;
    const Ort::AllocatorWithDefaultOptions allocator;
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    for (size_t i = 0; i < session_.GetInputCount(); ++i) {
      names.emplace_back(session_.GetInputNameAllocated(i, allocator).get());
      const auto found =
          std::find_if(given.begin(), given.end(), [&](const NamedTensor &t) { return t.name == names.back(); });
      if (found == given.end()) return Status::error("there is no value for input '" + names.back() + "'");
      const auto type = session_.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetElementType();
      tensors.push_back(as(static_cast<Dtype>(type), std::move(found->tensor)));
    }
    for (Tensor &t : tensors)
      values.push_back(Ort::Value::CreateTensor(memory, t.data.data(), t.data.size(), t.shape.data(), t.shape.size(),
                                                ort_type(t.dtype)));
    for (const std::string &name : names) input_names.push_back(name.c_str());
    for (const std::string &name : outputs_) output_names.push_back(name.c_str());
    const auto results = session_.Run(Ort::RunOptions{}, input_names.data(), values.data(), values.size(),
                                      output_names.data(), output_names.size());
    for (size_t k = 0; k < results.size(); ++k) NPU_TRY(add(outputs_[k], results[k], out));
    return {};
  }

 private:
  static Tensor as(Dtype type, Tensor from) {
    if (from.dtype == type) return from;
    Tensor to(type, from.shape);
    npu::cpu::cast(from, npu::cpu::Overflow::Saturate, to);
    return to;
  }

  static Status add(const std::string &name, const Ort::Value &value, std::vector<NamedTensor> &out) {
    if (!value.IsTensor()) return Status::error("'" + name + "' is no tensor");
    const auto info = value.GetTensorTypeAndShapeInfo();
    const auto type = static_cast<Dtype>(info.GetElementType());
    if (npu::cpu::dtype_bytes(type) == 0) return Status::error("'" + name + "' has a type without a size");
    Tensor t(type, info.GetShape());
    const auto *p = static_cast<const uint8_t *>(value.GetTensorRawData());
    std::copy(p, p + t.data.size(), t.data.begin());
    out.push_back({name, std::move(t)});
    return {};
  }

  void read_outputs() {
    const Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetOutputCount(); ++i)
      outputs_.emplace_back(session_.GetOutputNameAllocated(i, allocator).get());
  }

  Ort::Env env_;
  Ort::Session session_{nullptr};
  std::vector<std::string> outputs_;
};

Status run(char **words) {
  std::vector<NamedTensor> inputs, outputs;
  NPU_TRY(npu::npuc::read_tensors(words[2], inputs));
  Session session(words[1], read_lines(words[3]));
  NPU_TRY(session.run(std::move(inputs), outputs));
  NPU_TRY(npu::npuc::write_tensors(words[4], outputs));
  std::ofstream(words[5]) << Ort::GetVersionString() << '\n';
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 6) {
    std::fputs("usage: npuc-onnxruntime MODEL INPUTS NAMES OUTPUTS VERSION (npuc --verify starts it)\n", stderr);
    return 2;
  }
  try {
    const Status status = run(argv);
    if (status.ok()) return 0;
    std::fprintf(stderr, "%s\n", status.message().c_str());
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
