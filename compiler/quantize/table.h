// SPDX-License-Identifier: MIT
// The calibration table: which range each tensor of a network has. As a file it has one line a tensor, which people may
// edit:
//
//   # npuc calibration table 1
//   "conv1/out"  -1.25  3.5  kl
//   keep "conv2"
//   real "sum/out"
//
// A tensor's name between double quotes (\" \\ \n within stand for " \ and the end of a line), the lowest and the
// highest number that integers stand for, and the method that found them, or "manual". A node behind `keep` stays in
// float32; for a tensor behind `real` no integers stand. Empty lines and lines that begin with # are comments; one such
// as the first above that has another version is an error.
#ifndef NPU_QUANTIZE_TABLE_H
#define NPU_QUANTIZE_TABLE_H

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/status.h"

namespace npu::quantize {

/// How a range follows from the numbers that a tensor has had.
enum class Method : uint8_t {
  MinMax,      ///< all of them
  Percentile,  ///< all but the share that is farthest out, at each end half of it
  Kl,          ///< the least divergence of what integers stand for from what was there (Kullback, Leibler)
  Mse,         ///< the least mean square of what rounding and saturation change
};

struct RangeRule {
  Method method = Method::Mse;
  double percentile = 99.99;  ///< of the numbers that are within
};

/// "minmax", "percentile:99.99", "kl", "mse".
std::string rule_text(const RangeRule &rule);
bool parse_rule(const std::string &text, RangeRule &out);

struct Range {
  float low = 0, high = 0;
  bool operator==(const Range &) const = default;
};

struct TableLine {
  Range range;
  std::string method;  ///< a word
};

struct Table {
  std::map<std::string, TableLine> tensors;  ///< by their names (names.h)
  std::set<std::string> keep;                ///< nodes of the file
  std::set<std::string> reals;               ///< tensors that no integers stand for
};

std::string table_text(const Table &table);
/// Errors name the line.
Status parse_table(const std::string &text, Table &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_TABLE_H
