// SPDX-License-Identifier: MIT
// Models taken apart and put together: the flatbuffer as plain structures, each with the file its Binary entries point
// into.
#ifndef NPU_TPU_MODEL_EDIT_H
#define NPU_TPU_MODEL_EDIT_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bmodel/container.h"

namespace npu::tpu_model {

using Bytes = std::vector<uint8_t>;
using bmodel::Container;

/// Networks of several files on their way into one.
class Assembly {
 public:
  /// Adds network `net` of a container, which must outlive this. A network whose name is there already gives its stages
  /// to that one.
  Status add(const Container &from, size_t net);
  /// The container's bytes. Equal contents are stored once. Returns an empty string or what is wrong.
  Status write(Bytes &out);

 private:
  uint64_t keep(const Container &from, const bmodel::fb::Binary &binary);
  Status merge(bmodel::fb::NetT &into, bmodel::fb::NetT &net) const;

  bmodel::fb::ModelT model_;
  Bytes blob_;
  std::vector<std::pair<std::string, uint64_t>> kept_;  ///< contents' SHA-256, and where they are
};

/// One file of all networks of these.
Status combine(const std::vector<const Container *> &models, Bytes &out);
/// One file for one network.
Status extract(const Container &model, size_t net, Bytes &out);

/// A piece of a network's coefficients: (network, offset). Its size is that of the location there, or of all
/// coefficients where the file names no locations.
struct Weights {
  std::string net;
  uint64_t offset = 0;
};
/// Replaces coefficients of `model`, a file's bytes, by those of another model, and their SHA-256. Sizes must be equal.
Status update_weights(Bytes &model, const Weights &to, const Container &source, const Weights &from);

/// "1048576 bytes (1.00 MiB)"
std::string bytes_text(uint64_t bytes);

/// Texts for people and programs.
std::string describe(const Container &model);
std::string describe_weights(const Container &model);
std::string json(const Container &model);

}  // namespace npu::tpu_model

#endif  // NPU_TPU_MODEL_EDIT_H
