// SPDX-License-Identifier: MIT
// Store modes: where a launch has a tensor otherwise than its program, jobs of the card bring it from one mode to the
// other, before and after the program's.
#ifndef NPURT_CONVERT_H
#define NPURT_CONVERT_H

#include <map>
#include <mutex>

#include "runtime/launch/exec/bind.h"

namespace npurt {

struct Card;

/// The commands that convert, made when a kind of tensor is first met. Thread-safe.
class Converter {
 public:
  explicit Converter(npu_device *device) : device_(device) {}

  /// COPY commands from region 1 to region 2. One of both modes of the tensor, `from` and `to`, is 1N.
  Status commands(const TensorInfo &tensor, bm_store_mode_t from, bm_store_mode_t to, Sealed &code, uint32_t &count);

 private:
  static constexpr size_t kMost = 256;  // kinds that are kept; jobs keep the code that they run

  struct Kind {
    uint64_t batch, inner;  ///< elements: the first dimension, the product of the others
    uint32_t lanes;
    bool joins;  ///< to batches that share words; else from them
    auto operator<=>(const Kind &) const = default;
  };
  static void append(const Kind &kind, uint64_t batch, uint64_t batches, std::vector<uint8_t> &code);

  npu_device *const device_;
  std::mutex mutex_;  // guards what follows
  std::map<Kind, Sealed> known_;
};

/// One tensor's way from one mode to another.
struct Conversion {
  const Card *card;
  TensorInfo tensor;  ///< as the launch has it
  bm_store_mode_t from_mode, to_mode;
  Place from, to;
};

/// Memory of the scratch for an input or output, in the program's store mode.
Status converted_place(npu_device *device, bool output, size_t number, const TensorInfo &program, Scratch &scratch,
                       Place &out);

}  // namespace npurt

#endif  // NPURT_CONVERT_H
