// SPDX-License-Identifier: MIT
// The command line of bmrt_test.
#ifndef BMRT_TEST_OPTIONS_H
#define BMRT_TEST_OPTIONS_H

#include <optional>
#include <string>
#include <vector>

#include "bmruntime_interface.h"

namespace bmrt_test {

enum ExitCode : int {
  kSuccess = 0,
  kLoad = 1,      ///< no device, bad model, bad reference data
  kUsage = 2,     ///< bad command line, as of all tools
  kLaunch = 3,    ///< a launch was refused or its job failed
  kMismatch = 4,  ///< outputs differ from the reference
};

struct Options {
  std::string bmodel;       ///< the file; inside context_dir if that is set
  std::string context_dir;  ///< empty: zero inputs, nothing to compare with
  unsigned loops = 1;
  unsigned threads = 1;
  unsigned calculate_times = 1;  ///< launches in flight in each loop
  int device = 0;
  int network = -1;  ///< index, -1: all
  int stage = -1;
  std::vector<bm_shape_t> shapes;  ///< of the inputs; empty: the stage's
  std::vector<int> cores;          ///< empty: any
  bool compare = false;
  double accuracy_f = 1e-2;
  double accuracy_abs = -1;  ///< negative: the default of compare.h
  long long accuracy_i = 0;
  long long ulp = -1;                                ///< negative: not given
  bool float_inputs = false, float_outputs = false;  ///< the reference data are float32 for all tensors
  std::vector<std::string> inputs;                   ///< FILE or NAME=FILE: in place of zeros
  std::string preprocess;                            ///< of pictures among them; empty: as large as the input, 0 to 255
  std::vector<std::string> plugins;                  ///< shared libraries with operators of the user's own
  std::string json;                                  ///< file for the results; empty: none
  bool export_output = false;
  bool profile = false;  ///< write a trace of the runtime
};

/// "[1,3,224,224],[1,10]"; false: not such a text.
bool parse_shapes(const std::string &text, std::vector<bm_shape_t> &out);

/// Reads the command line. Returns the exit code if the program is to end: after --help, --version or a bad option (it
/// has been printed then).
std::optional<int> parse_options(int argc, const char *const *argv, Options &out);

}  // namespace bmrt_test

#endif  // BMRT_TEST_OPTIONS_H
