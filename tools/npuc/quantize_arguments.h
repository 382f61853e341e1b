// SPDX-License-Identifier: MIT
// npuc's options of quantization.
#ifndef NPU_NPUC_QUANTIZE_ARGUMENTS_H
#define NPU_NPUC_QUANTIZE_ARGUMENTS_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "compiler/quantize/quantize.h"

namespace npu::npuc {

struct QuantizeArguments {
  std::string type;  ///< int8, uint8, or a type of reals, which is for the caller; empty: none
  std::string samples, preprocess, method = "mse", table, saved_table, accuracy, labels, report;
  std::vector<std::string> keep;
  size_t most_samples = SIZE_MAX;
  bool symmetric = false, keep_biases = false, equalize = false;
};

/// Lets a command line set the arguments, which must outlive it.
void add_options(CommandLine &line, QuantizeArguments &args);

/// Translates the arguments and reads no file. `quiet`: no progress, and no comparison but for a page. `dynamic`: the
/// runtime is to compile from the file, which is an error with integers.
Status quantize_options(const QuantizeArguments &args, bool quiet, bool dynamic, quantize::Options &out);

/// Reads the table and the labels, which integers have.
Status read_quantize_files(const QuantizeArguments &args, quantize::Options &out);

}  // namespace npu::npuc

#endif  // NPU_NPUC_QUANTIZE_ARGUMENTS_H
