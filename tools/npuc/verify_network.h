// SPDX-License-Identifier: MIT
// A file with one set of shapes and outputs: what the chip computes against what the evaluator and ONNX Runtime do.
#ifndef NPU_NPUC_VERIFY_NETWORK_H
#define NPU_NPUC_VERIFY_NETWORK_H

#include "compiler/api/reference.h"
#include "tools/npuc/verify.h"
#include "tools/npuc/verify_chip.h"

namespace npu::npuc {

class ComparedNetwork {
 public:
  /// `options` have the shapes, and outputs in place of the file's own. The result gets notes.
  ComparedNetwork(const Verified &what, const VerifyArguments &args, compiler::Options options, Verification &result)
      : what_(what), args_(args), options_(std::move(options)), result_(result) {}

  Status import() { return compiler::import_reference(what_.model, options_, reference_); }
  const compiler::Reference &reference() const { return reference_; }

  /// Precondition of what follows: import() has succeeded. `values`: those of the inputs; null: they are chosen.
  Status compare(const Chip &chip, const std::vector<graph::Tensor> *values, VerifiedRun &out);
  /// Compares the evaluator with ONNX Runtime alone; an error if that fails.
  Status understand(const std::vector<graph::Tensor> &values);

 private:
  graph::Rounding rounding() const;
  /// Makes the inputs numbers that the file's types have.
  void round_inputs();
  /// Computes the evaluator's outputs, and operators of plug-ins twice.
  Status evaluate();
  Status compute_rounded();
  void add_notes();
  void clamp(const graph::Tensor &theirs, const graph::Tensor &own, graph::Tensor &out) const;
  Expected expected(size_t k, const graph::Tensor &wanted) const;
  Status compute_wanted(std::vector<graph::Tensor> &wanted);
  Status try_onnxruntime(std::vector<graph::Tensor> &wanted);
  /// Compares the evaluator with ONNX Runtime.
  void compare_evaluator(const std::vector<graph::Tensor> &wanted);
  Status run_onnxruntime(const std::string &program, std::string &version, std::vector<graph::Tensor> &wanted);

  const Verified &what_;
  const VerifyArguments &args_;
  compiler::Options options_;
  Verification &result_;
  compiler::Reference reference_;
  bool rounds_as_file_ = false;     ///< the reference rounds to the 16-bit types of the file
  std::string used_;                ///< the reference of the last comparison
  Status plugins_;                  ///< an error names an operator that keeps state
  std::vector<int64_t> saturated_;  ///< elements of each output that the graph's type cannot hold
  std::vector<graph::Tensor> inputs_, exact_;
  std::vector<std::vector<graph::Tensor>> rounded_;
};

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_NETWORK_H
