// SPDX-License-Identifier: MIT
// What has become of a network that was quantized, and how near it is to what it was.
#ifndef NPU_QUANTIZE_RESULT_H
#define NPU_QUANTIZE_RESULT_H

#include <array>
#include <optional>
#include <vector>

#include "compiler/quantize/table.h"
#include "runtime/cpu/attributes.h"

namespace npu::quantize {

/// How far numbers are from those that they stand for.
struct Difference {
  double signal = 0, noise = 0;             ///< sums of squares: of the numbers in float32, of the differences
  double product = 0, power = 0, most = 0;  ///< sums of products of both and of squares of the others; the largest
                                            ///< difference
  int64_t left_out = 0;                     ///< numbers that are NaN or infinite, and so have no difference

  void add(const float *wanted, const float *got, int64_t count);
  void add(const Difference &other);
  double sqnr() const;    ///< in dB: signal to noise; infinite without any
  double cosine() const;  ///< 1: of the same direction
};

/// A layer or an output with a smaller cosine is likely to be wrong.
inline constexpr double kLeastCosine = 0.9;

/// One operator of integers, or one that was kept in float32, with what it absorbs.
struct LayerResult {
  std::string name, type;  ///< of the node of the file
  std::string tensor;      ///< its result
  bool integer = true;     ///< false: kept in float32
  bool rounded = false;    ///< its result is integers
  std::string stored;      ///< in networks without integers: the type that its result is stored in
  Range range;
  cpu::Quant quant;
  Difference difference;              ///< with all layers as they are in the end
  std::optional<double> sensitivity;  ///< with this layer alone in integers: noise by signal of the network's outputs
  float low = 0, high = 0;            ///< what its result reached over
  std::array<double, 64> shares{};    ///< of its numbers in 64 equal parts of that
};

/// An input of the network that integers are computed from.
struct InputResult {
  std::string name;
  Range range;
  cpu::Quant quant;
};

/// A part of an output whose numbers have a magnitude of their own.
struct PartResult {
  std::string name;
  Difference difference;
};

struct OutputResult {
  std::string name;
  Difference difference;
  std::vector<PartResult> parts = {};
};

/// A tensor for which no integers stand, though operators of integers could make or read it.
struct RealResult {
  std::string name, reason;
};

struct Result {
  Table table;                                       ///< of all tensors that are integers
  std::map<std::string, std::vector<double>> means;  ///< of the channels that products read, for other shapes (Options)
  std::vector<LayerResult> layers;
  std::vector<InputResult> inputs;
  std::vector<OutputResult> outputs;
  std::vector<RealResult> real_tensors;
  std::vector<std::string> warnings;  ///< sentences
  size_t samples = 0, compared = 0;   ///< numbers of samples: for ranges; for differences
  std::string reals;                  ///< the type of 16 bits of a network without integers
  size_t named = 0;                   ///< nodes that stay in float32 by name; they are in no layer
  /// Shares of labelled samples whose class is right, in float32 and in integers.
  std::optional<double> float_top1, top1;

  /// Adds a warning for each layer, output and part whose cosine is below kLeastCosine.
  void warn_of_differences();

  /// The layers as a table, that with most noise first, and what was reached.
  std::string text() const;
  /// The same as the content of a page, in XML, with histograms of the tensors.
  std::string html() const;
};

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_RESULT_H
