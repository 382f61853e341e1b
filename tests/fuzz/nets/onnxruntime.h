// SPDX-License-Identifier: MIT
// ONNX Runtime, where there is one: its library is opened at run time, and its C interface described here as far as it
// is needed, so that nothing has to be installed to build.
#ifndef NPU_FUZZ_NETS_ONNXRUNTIME_H
#define NPU_FUZZ_NETS_ONNXRUNTIME_H

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "runtime/cpu/tensor.h"

namespace npu::fuzz {

class OnnxRuntime {
 public:
  /// Opens the library that NPU_ONNXRUNTIME names. Null without the variable; an error where it names none.
  static Status open(std::unique_ptr<OnnxRuntime> &out);
  ~OnnxRuntime();

  /// "1.20.1"
  const std::string &version() const { return version_; }
  /// Runs a network without its optimizer, which would change sums: tensors in the file's order.
  Status run(const std::string &model, const std::vector<std::string> &input_names,
             const std::vector<cpu::Tensor> &inputs, const std::vector<std::string> &output_names,
             std::vector<cpu::Tensor> &outputs) const;

 private:
  OnnxRuntime() = default;
  /// A function of the interface, by its place in the table that the library hands out.
  template <class F>
  F function(size_t place) const {
    return reinterpret_cast<F>(table_[place]);
  }
  Status checked(void *status) const;

  std::string version_;
  void *const *table_ = nullptr;
  void *environment_ = nullptr, *memory_ = nullptr, *options_ = nullptr;
};

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_ONNXRUNTIME_H
