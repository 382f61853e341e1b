// SPDX-License-Identifier: MIT
// Post-training quantization: what a caller decides, and the samples that it is made by.
#ifndef NPU_QUANTIZE_OPTIONS_H
#define NPU_QUANTIZE_OPTIONS_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "compiler/graph/tensor.h"
#include "compiler/quantize/table.h"
#include "runtime/arrays/inputs.h"

namespace npu::quantize {

/// What a network of float32 computes with.
enum class Type : uint8_t { None, Int8, Uint8 };

using arrays::Input;

/// Inputs of a network as it will see them.
class Samples {
 public:
  virtual ~Samples() = default;
  /// Called before everything else: what the network has for inputs. Later calls are for another shape of it.
  virtual Status open(const std::vector<Input> &inputs) = 0;
  virtual size_t count() const = 0;

  // Several threads may call these at once.

  /// For messages, and to find a sample's label.
  virtual std::string name(size_t index) const = 0;
  /// One tensor for each input, of its type and shape. The same ones each time.
  virtual Status load(size_t index, std::vector<graph::Tensor> &out) const = 0;
};

/// How far work is: called from any thread, by one at a time.
struct Progress {
  const char *what = "";  ///< "calibration"
  size_t done = 0, total = 0;
};

/// What a network of integers has to reach, else layers stay in float32.
struct AccuracyLimit {
  enum class Kind : uint8_t {
    None,
    Cosine,  ///< each output and each of its parts has at least this cosine with float32, over all samples
    Top1,    ///< share of labelled samples whose class is right: at most that much less than in float32
  };
  Kind kind = Kind::None;
  double limit = 0;
};
/// "cosine:0.99", "top1:0.01"
bool parse_accuracy(const std::string &text, AccuracyLimit &out);

/// The means of channels of tensors, by their names.
using Means = std::map<std::string, std::vector<double>>;

struct Options {
  Type type = Type::None;
  std::shared_ptr<Samples> samples;  ///< null: ranges come from the table alone
  RangeRule rule;
  std::optional<Table> table;     ///< ranges that are known: samples do not change them
  bool symmetric = false;         ///< zero points in the middle, except for what is never negative
  bool correct_biases = true;     ///< for what rounding weights changes in the mean
  Means means;                    ///< that are known, where there are no samples: those of another shape of the network
  bool equalize = false;          ///< weights of consecutive convolutions, by their channels (equalize.h)
  std::set<std::string> keep;     ///< nodes of the file that stay in float32
  std::set<std::string> inputs;   ///< the network's inputs that arrive as integers
  std::set<std::string> outputs;  ///< of the network, that get a scale as integers, even if they are made in float32
  /// In which type real numbers are stored between operators, in the end (graph::use_half).
  graph::Dtype reals = graph::Dtype::F32;
  AccuracyLimit accuracy;
  std::map<std::string, int64_t> labels;  ///< the classes of samples, by their names: places in the first output
  bool compare = true;                    ///< measures each layer's error, for the report
  unsigned threads = 0;                   ///< 0: as many as the machine has processors
  std::function<void(const Progress &)> progress;
};

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_OPTIONS_H
