// SPDX-License-Identifier: MIT
// Success, or a message that names what failed, where, and what was expected.
#ifndef NPU_GRAPH_STATUS_H
#define NPU_GRAPH_STATUS_H

#include <string>
#include <utility>

namespace npu {

class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status error(std::string message) {
    Status s;
    s.message_ = message.empty() ? "unknown error" : std::move(message);
    return s;
  }
  bool ok() const { return message_.empty(); }
  const std::string &message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace npu

/// Leaves the function with the status of `expr` unless it is a success.
#define NPU_TRY(expr)                                \
  do {                                               \
    ::npu::Status npu_try_status = (expr);           \
    if (!npu_try_status.ok()) return npu_try_status; \
  } while (0)

#endif  // NPU_GRAPH_STATUS_H
