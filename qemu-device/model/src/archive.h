// SPDX-License-Identifier: MIT
// A chip's state as bytes, written and read by one description: visit_state(archive) of each class names its fields.
#ifndef NPU_MODEL_ARCHIVE_H
#define NPU_MODEL_ARCHIVE_H

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace npu::model {

/// Values are stored as the host has them, one behind the other; a reader that runs out of bytes reads zeros and says
/// so.
class Archive {
 public:
  Archive() = default;
  explicit Archive(std::span<const uint8_t> from) : from_(from), loading_(true) {}

  bool loading() const { return loading_; }
  /// Reading: were there always enough bytes, and are none left?
  bool sound() const { return sound_ && from_.empty(); }
  /// Says that what was read makes no sense.
  void refuse() { sound_ = false; }
  std::vector<uint8_t> take() { return std::move(bytes_); }

  template <class... T>
  void operator()(T &...value) {
    (one(value), ...);
  }
  void raw(void *data, size_t bytes) {
    if (bytes == 0) return;
    if (!loading_) {
      const auto *p = static_cast<const uint8_t *>(data);
      bytes_.insert(bytes_.end(), p, p + bytes);
    } else if (bytes <= from_.size()) {
      std::memcpy(data, from_.data(), bytes);
      from_ = from_.subspan(bytes);
    } else {
      std::memset(data, 0, bytes);
      from_ = {};
      sound_ = false;
    }
  }

 private:
  template <class T>
  static constexpr bool kDescribed = requires(T &t, Archive &a) {
    t.visit_state(a);
  };

  template <class T>
  void one(T &value) {
    if constexpr (kDescribed<T>) {
      value.visit_state(*this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      raw(&value, sizeof value);
    }
  }
  template <class T>
  void one(std::atomic<T> &value) {
    T copy = value.load();
    one(copy);
    value.store(copy);
  }
  template <class T>
  void one(std::optional<T> &value) {
    bool there = value.has_value();
    one(there);
    if (loading_) value.reset();
    if (there && !value) value.emplace();
    if (there) one(*value);
  }
  template <class T>
  void one(std::vector<T> &values) {
    many(values);
  }
  template <class T>
  void one(std::deque<T> &values) {
    many(values);
  }
  template <class C>
  void many(C &values) {
    uint64_t count = values.size();
    one(count);
    if (loading_ && count > from_.size()) {  // each element has a byte at least
      sound_ = false;
      count = 0;
    }
    if (loading_) values.resize(count);
    for (auto &v : values) one(v);
  }

  std::vector<uint8_t> bytes_;
  std::span<const uint8_t> from_;
  bool loading_ = false;
  bool sound_ = true;
};

}  // namespace npu::model

#endif  // NPU_MODEL_ARCHIVE_H
