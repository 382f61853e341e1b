// SPDX-License-Identifier: MIT
// npuc --verify: runs what was compiled, and compares the outputs with those of ONNX Runtime or of npuc's evaluator.
#ifndef NPU_NPUC_VERIFY_H
#define NPU_NPUC_VERIFY_H

#include <optional>

#include "common/command_line.h"
#include "compiler/api/npuc.h"
#include "tools/npuc/verify_compare.h"

namespace npu::npuc {

struct VerifyArguments {
  bool on = false, first = false;
  std::string reference = "auto", bmodel;
  std::vector<std::string> inputs, ranges;
  uint64_t seed = 1;
};

/// Lets a command line set the arguments, which must outlive it.
void add_options(CommandLine &line, VerifyArguments &args);
/// Checks values that are wrong for every network.
Status check_arguments(const VerifyArguments &args);

constexpr char kEvaluator[] = "npuc's evaluator";  ///< a reference

/// One launch.
struct VerifiedRun {
  std::string shapes;                 ///< names and shapes of the inputs
  std::string inputs;                 ///< origin of their values
  std::string reference;              ///< "ONNX Runtime 1.23.2", "npuc's evaluator"
  std::vector<graph::Tensor> values;  ///< inputs, in the order of the graph
  std::vector<OutputResult> outputs;
  Verdict verdict() const;
};

/// A tensor that differs while all that it is computed from agrees.
struct FirstDifference {
  std::string tensor, node, type;   ///< the result of which node of the file
  std::vector<std::string> agreed;  ///< tensors that it is computed from
  OutputResult result;              ///< as an output of the network up to it
};

struct Verification {
  std::string device;              ///< "sim" or "drm"
  std::vector<std::string> notes;  ///< limits of the comparison and their reasons
  std::vector<VerifiedRun> runs;
  /// Outputs of the evaluator that are not those of ONNX Runtime: then the file is understood differently.
  std::vector<OutputResult> understood;
  std::optional<FirstDifference> first;
  std::string searched;  ///< result of a search that found no tensor or failed

  Verdict verdict() const;
  /// The references of all launches; mostly there is one.
  std::string reference() const;
  void add_note(const std::string &note);
  /// The tables and the verdict, for people.
  std::string text() const;
};

/// A compiled network, and how it was compiled.
struct Verified {
  std::string model;                 ///< path of the file
  const compiler::Options &options;  ///< without the shapes of stages
  std::vector<std::string> stages;   ///< the --stage options
  std::span<const compiler::Compiled> compiled;
  std::span<const uint8_t> bmodel;  ///< the file's bytes
  bool dynamic = false, dynamic_batch = false;
};

/// Compares all launches. After a wrong one, those that fail are notes.
Status verify(const Verified &what, const VerifyArguments &args, Verification &out);

/// Looks for the first tensor of the file that differs, if an output does.
Status find_first(const Verified &what, const VerifyArguments &args, Verification &out);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_H
