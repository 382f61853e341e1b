// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/onnxruntime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace npu::fuzz {
namespace {

/// Places in the table of version 1 of the interface, which never change.
enum Place : size_t {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kDisableCpuMemArena = 19,
  kSetSessionGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kCreateTensorWithData = 49,
  kGetTensorMutableData = 51,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTensorTypeAndShape = 99,
  kReleaseSessionOptions = 100,
};

constexpr int kLogErrorsOnly = 4, kNoOptimization = 0, kArenaAllocator = 1, kDefaultMemory = 0;

struct Base {
  void *const *(*table)(uint32_t version);
  const char *(*version)();
};

using Release = void (*)(void *);
/// Frees an object of the library at the end of a block.
struct Owned {
  Release release;
  void *object = nullptr;
  ~Owned() {
    if (object) release(object);
  }
};

}  // namespace

Status OnnxRuntime::checked(void *status) const {
  if (!status) return {};
  const Status out = Status::error(function<const char *(*)(void *)>(kGetErrorMessage)(status));
  function<Release>(kReleaseStatus)(status);
  return out;
}

Status OnnxRuntime::open(std::unique_ptr<OnnxRuntime> &out) {
  const char *path = std::getenv("NPU_ONNXRUNTIME");
  if (!path || !*path) return {};
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return Status::error(std::string("NPU_ONNXRUNTIME: ") + dlerror());
  const auto base = reinterpret_cast<const Base *(*)()>(dlsym(library, "OrtGetApiBase"));
  if (!base) return Status::error(std::string("NPU_ONNXRUNTIME: ") + path + " is not ONNX Runtime");
  std::unique_ptr<OnnxRuntime> made(new OnnxRuntime);
  made->version_ = base()->version();
  made->table_ = base()->table(1);
  const auto create = made->function<void *(*)(int, const char *, void **)>(kCreateEnv);
  NPU_TRY(made->checked(create(kLogErrorsOnly, "fuzz_nets", &made->environment_)));
  const auto memory = made->function<void *(*)(int, int, void **)>(kCreateCpuMemoryInfo);
  NPU_TRY(made->checked(memory(kArenaAllocator, kDefaultMemory, &made->memory_)));
  NPU_TRY(made->checked(made->function<void *(*)(void **)>(kCreateSessionOptions)(&made->options_)));
  using Set = void *(*)(void *, int);
  NPU_TRY(made->checked(made->function<Set>(kSetSessionGraphOptimizationLevel)(made->options_, kNoOptimization)));
  NPU_TRY(made->checked(made->function<Set>(kSetIntraOpNumThreads)(made->options_, 1)));
  NPU_TRY(made->checked(made->function<void *(*)(void *)>(kDisableCpuMemArena)(made->options_)));
  out = std::move(made);
  return {};
}

OnnxRuntime::~OnnxRuntime() {
  if (options_) function<Release>(kReleaseSessionOptions)(options_);
  if (memory_) function<Release>(kReleaseMemoryInfo)(memory_);
  if (environment_) function<Release>(kReleaseEnv)(environment_);
}

Status OnnxRuntime::run(const std::string &model, const std::vector<std::string> &input_names,
                        const std::vector<cpu::Tensor> &inputs, const std::vector<std::string> &output_names,
                        std::vector<cpu::Tensor> &outputs) const {
  Owned session{function<Release>(kReleaseSession)};
  const auto create = function<void *(*)(void *, const void *, size_t, void *, void **)>(kCreateSessionFromArray);
  NPU_TRY(checked(create(environment_, model.data(), model.size(), options_, &session.object)));
  std::vector<Owned> owned(inputs.size() + output_names.size(), Owned{function<Release>(kReleaseValue)});
  std::vector<const char *> in_names, out_names;
  std::vector<void *> in, results(output_names.size());
  for (const std::string &n : output_names) out_names.push_back(n.c_str());
  for (size_t k = 0; k < inputs.size(); ++k) {
    in_names.push_back(input_names[k].c_str());
    const cpu::Tensor &t = inputs[k];
    const auto wrap =
        function<void *(*)(void *, const void *, size_t, const int64_t *, size_t, int, void **)>(kCreateTensorWithData);
    NPU_TRY(checked(wrap(memory_, t.data.data(), t.data.size(), t.shape.data(), t.shape.size(),
                         static_cast<int>(t.dtype), &owned[k].object)));
    in.push_back(owned[k].object);
  }
  const auto execute = function<void *(*)(void *, void *, const char *const *, void *const *, size_t,
                                          const char *const *, size_t, void **)>(kRun);
  NPU_TRY(checked(execute(session.object, nullptr, in_names.data(), in.data(), in.size(), out_names.data(),
                          out_names.size(), results.data())));
  outputs.clear();
  for (size_t k = 0; k < results.size(); ++k) owned[inputs.size() + k].object = results[k];
  for (void *result : results) {
    Owned info{function<Release>(kReleaseTensorTypeAndShape)};
    NPU_TRY(checked(function<void *(*)(void *, void **)>(kGetTensorTypeAndShape)(result, &info.object)));
    size_t rank = 0;
    NPU_TRY(checked(function<void *(*)(void *, size_t *)>(kGetDimensionsCount)(info.object, &rank)));
    cpu::Shape shape(rank);
    NPU_TRY(checked(function<void *(*)(void *, int64_t *, size_t)>(kGetDimensions)(info.object, shape.data(), rank)));
    void *data = nullptr;
    NPU_TRY(checked(function<void *(*)(void *, void **)>(kGetTensorMutableData)(result, &data)));
    int type = 0;  // with the numbers of ONNX, as Dtype
    NPU_TRY(checked(function<void *(*)(void *, int *)>(kGetTensorElementType)(info.object, &type)));
    cpu::Tensor &t = outputs.emplace_back(static_cast<cpu::Dtype>(type), shape);
    if (!t.data.empty()) std::memcpy(t.data.data(), data, t.data.size());
  }
  return {};
}

}  // namespace npu::fuzz
