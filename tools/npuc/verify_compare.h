// SPDX-License-Identifier: MIT
// An output of the chip against what it should be, part by part.
#ifndef NPU_NPUC_VERIFY_COMPARE_H
#define NPU_NPUC_VERIFY_COMPARE_H

#include <string>
#include <vector>

#include "compiler/graph/output_parts.h"
#include "compiler/graph/rounding.h"

namespace npu::npuc {

/// The greater, the worse.
enum class Verdict : uint8_t {
  Right,
  Unclear,  ///< rounding alone moves the part by as much as its numbers are large
  Wrong,
};
const char *verdict_name(Verdict verdict);

/// A part of an output: what an operand of a Concat has become, or all of it.
struct PartResult {
  std::string name;                 ///< name of that operand; empty: all of the output
  std::string where;                ///< indices in which it is worst: "index 4 of dimension 1"; empty: nowhere more
  int64_t count = 0;                ///< elements
  bool integers = false;            ///< elements that differ count, not by how much
  double largest = 0, allowed = 0;  ///< differences; of integers: elements that differ
  double rms = 0, allowed_rms = 0;  ///< roots of mean squares of differences
  double cosine = 1;                ///< NaN: one of them is 0
  int64_t at = -1;                  ///< element of the reason, else the one that differs most; -1: none has a number
  double got = 0, wanted = 0;       ///< its values; `at` counts in the whole output
  int64_t not_compared = 0;         ///< elements that rounding makes NaN or infinite on one side
  std::string reason;               ///< reason of the verdict, unless that is Right
  Verdict verdict = Verdict::Right;
};

struct OutputResult {
  std::string name;
  graph::TensorKind kind;
  std::vector<PartResult> parts;
  Verdict verdict() const;
};

/// The expected contents of an output.
struct Expected {
  const graph::Tensor *wanted;                 ///< the reference
  const graph::Tensor *exact;                  ///< results of the evaluator
  std::vector<const graph::Tensor *> rounded;  ///< the same with errors of rounding (graph::evaluate_rounded)
  graph::Rounding rounding;
  graph::Dtype stored = graph::Dtype::F32;   ///< type of the output in the .bmodel
  graph::Dtype in_file = graph::Dtype::F32;  ///< 16-bit type to which the reference has rounded; F32: none
  bool decisions = false;                    ///< integers of 8 bits are truth values, not numbers
  double step = 0;                           ///< distance of two integers as numbers; 0: they are numbers themselves
};

/// `got` has the type and shape of the expected tensors.
OutputResult compare_output(const std::string &name, const graph::Tensor &got, const Expected &expected,
                            const graph::OutputParts &parts);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_COMPARE_H
