// SPDX-License-Identifier: MIT
// Writes the messages of ONNX's protobuf format. Without the library: another copy of ONNX's descriptions in a process
// that has one ends it.
#ifndef NPU_ORT_ONNX_WRITER_H
#define NPU_ORT_ONNX_WRITER_H

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace npu::ort {

/// Bytes of one message. Fields go behind each other in the order of the calls.
class Message {
 public:
  void number(uint32_t field, int64_t value) {
    key(field, kVarint);
    varint(static_cast<uint64_t>(value));
  }
  void real(uint32_t field, float value) {
    key(field, kFixed32);
    const auto *p = reinterpret_cast<const uint8_t *>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  }
  void bytes(uint32_t field, const void *data, size_t size) {
    key(field, kBytes);
    varint(size);
    const auto *p = static_cast<const uint8_t *>(data);
    bytes_.insert(bytes_.end(), p, p + size);
  }
  void text(uint32_t field, std::string_view s) { bytes(field, s.data(), s.size()); }
  void message(uint32_t field, const Message &m) { bytes(field, m.bytes_.data(), m.bytes_.size()); }

  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  static constexpr uint32_t kVarint = 0, kBytes = 2, kFixed32 = 5;

  void key(uint32_t field, uint32_t type) { varint(field << 3 | type); }
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_.push_back(static_cast<uint8_t>(v | 0x80));
    bytes_.push_back(static_cast<uint8_t>(v));
  }

  std::vector<uint8_t> bytes_;
};

/// Numbers of fields, as onnx.proto has them.
namespace onnx {
struct Model {
  static constexpr uint32_t ir_version = 1, graph = 7, opset_import = 8;
};
struct OperatorSet {
  static constexpr uint32_t domain = 1, version = 2;
};
struct Graph {
  static constexpr uint32_t node = 1, name = 2, initializer = 5, input = 11, output = 12, value_info = 13;
};
struct Node {
  static constexpr uint32_t input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7;
};
struct Attribute {
  static constexpr uint32_t name = 1, f = 2, i = 3, s = 4, t = 5, g = 6, floats = 7, ints = 8, strings = 9, type = 20;
  static constexpr int64_t kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kFloats = 6, kInts = 7,
                           kStrings = 8;
};
struct Tensor {
  static constexpr uint32_t dims = 1, data_type = 2, name = 8, raw_data = 9;
};
struct ValueInfo {
  static constexpr uint32_t name = 1, type = 2;
};
struct Type {
  static constexpr uint32_t tensor_type = 1;
};
struct TensorType {
  static constexpr uint32_t elem_type = 1, shape = 2;
};
struct Shape {
  static constexpr uint32_t dim = 1;
};
struct Dim {
  static constexpr uint32_t value = 1, param = 2;
};
}  // namespace onnx

}  // namespace npu::ort

#endif  // NPU_ORT_ONNX_WRITER_H
