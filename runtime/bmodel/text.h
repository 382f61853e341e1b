// SPDX-License-Identifier: MIT
// Sizes of the container's optional vectors, and numbers in messages.
#ifndef NPU_RUNTIME_BMODEL_TEXT_H
#define NPU_RUNTIME_BMODEL_TEXT_H

#include <cstdint>
#include <string>

namespace npu::bmodel {

/// The length of a flatbuffers vector; 0 if the file has none.
template <class T>
unsigned count(const T *vector) {
  return vector ? vector->size() : 0;
}

inline std::string number(uint64_t v) { return std::to_string(v); }

}  // namespace npu::bmodel

#endif  // NPU_RUNTIME_BMODEL_TEXT_H
