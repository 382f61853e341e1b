// SPDX-License-Identifier: MIT
// How functions of the C++ parts report failure: a Status, returned and never ignored. Needs nothing but the standard
// library, so every part may include it.
#ifndef NPU_COMMON_STATUS_H
#define NPU_COMMON_STATUS_H

#include <cerrno>
#include <string>
#include <utility>

namespace npu {

/// Success, or an error: a negative errno and a message that names what failed, where, and what was expected.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() = default;

  static Status error(std::string message) { return error(-EINVAL, std::move(message)); }
  /// `code` is a negative errno.
  static Status error(int code, std::string message) {
    Status s;
    s.code_ = code < 0 ? code : -EINVAL;
    s.message_ = std::move(message);
    return s;
  }

  bool ok() const { return code_ == 0; }
  /// 0, or a negative errno.
  int code() const { return code_; }
  /// Empty for success.
  const std::string &message() const { return message_; }

  /// The same error with "WHERE: " in front of its message; success stays success.
  Status within(const std::string &where) const { return ok() ? Status() : error(code_, where + ": " + message_); }

 private:
  int code_ = 0;
  std::string message_;
};

}  // namespace npu

/// Leaves the function with the status of `expr` unless that is success.
#define NPU_TRY(expr)                                \
  do {                                               \
    ::npu::Status npu_try_status = (expr);           \
    if (!npu_try_status.ok()) return npu_try_status; \
  } while (0)

#endif  // NPU_COMMON_STATUS_H
