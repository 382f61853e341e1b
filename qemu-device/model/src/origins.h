// SPDX-License-Identifier: MIT
// Which bytes of local memory are copies of constant memory, and of which: weights that a program brings in by COPY are
// packed once for all launches, as those that CONV and MATMUL read from memory.
#ifndef NPU_MODEL_ORIGINS_H
#define NPU_MODEL_ORIGINS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npu::model {

/// Owned by the core's thread. Whoever writes local memory says so before anybody looks.
class Origins {
 public:
  struct Origin {
    uint64_t first = 0, end = 0;  ///< local addresses
    uint64_t va = 0;              ///< of the byte at `first`
    uint32_t identity = 0;        ///< Mmu: names the contents that were copied
  };

  /// The bytes are those of constant memory.
  void note(const Origin &origin);
  /// The bytes are any.
  void written(uint64_t first, uint64_t end);
  /// Where all of them come from, in one piece. False: they do not.
  bool find(uint64_t first, uint64_t end, Origin &origin) const;
  void clear() { origins_.clear(); }

 private:
  static constexpr size_t kMost = 64;  // the oldest goes where there would be more

  std::vector<Origin> origins_;  // in the order of the copies; they do not overlap
};

}  // namespace npu::model

#endif  // NPU_MODEL_ORIGINS_H
