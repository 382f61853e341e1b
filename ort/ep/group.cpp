// SPDX-License-Identifier: MIT
#include "ort/ep/group.h"

#include <sha256.h>

#include <cstring>

namespace npu::ort {
namespace {

constexpr char kMagic[8] = {'Q', 'N', 'P', 'U', 'C', 'T', 'X', '1'};
constexpr size_t kDigest = 64;  // digits
constexpr size_t kHeader = sizeof kMagic + kDigest;

class Writer {
 public:
  explicit Writer(std::vector<uint8_t> &out) : out_(out) {}
  void number(uint64_t v) {
    for (int i = 0; i < 8; ++i) out_.push_back(static_cast<uint8_t>(v >> 8 * i));
  }
  void bytes(const void *p, size_t size) {
    number(size);
    const auto *b = static_cast<const uint8_t *>(p);
    out_.insert(out_.end(), b, b + size);
  }
  void ports(const std::vector<Port> &ports) {
    number(ports.size());
    for (const Port &p : ports) {
      number(p.place);
      number(p.type);
      bytes(p.name.data(), p.name.size());
    }
  }

 private:
  std::vector<uint8_t> &out_;
};

class Reader {
 public:
  Reader(const uint8_t *at, size_t size) : at_(at), left_(size) {}
  bool number(uint64_t &v) {
    if (left_ < 8) return false;
    v = 0;
    for (int i = 0; i < 8; ++i) v |= static_cast<uint64_t>(at_[i]) << 8 * i;
    return skip(8);
  }
  template <class T>
  bool bytes(T &out) {
    uint64_t size;
    if (!number(size) || size > left_) return false;
    out.assign(at_, at_ + size);
    return skip(size);
  }
  bool ports(std::vector<Port> &out) {
    uint64_t count, place, type;
    if (!number(count) || count > left_ / 24) return false;  // each has three numbers at least
    for (uint64_t i = 0; i < count; ++i) {
      Port p;
      if (!number(place) || place > UINT32_MAX || !number(type) || type > ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 ||
          !bytes(p.name))
        return false;
      p.place = static_cast<uint32_t>(place);
      p.type = static_cast<ONNXTensorElementDataType>(type);
      out.push_back(std::move(p));
    }
    return true;
  }
  bool at_end() const { return left_ == 0; }

 private:
  bool skip(size_t n) {
    at_ += n;
    left_ -= n;
    return true;
  }
  const uint8_t *at_;
  size_t left_;
};

}  // namespace

std::string digest(const void *bytes, size_t size) {
  char digits[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(static_cast<const uint8_t *>(bytes), size, digits);
  return digits;
}

std::vector<uint8_t> pack(const Group &group) {
  std::vector<uint8_t> out(kHeader);
  Writer w(out);
  w.bytes(group.name.data(), group.name.size());
  w.ports(group.inputs);
  w.ports(group.outputs);
  w.bytes(group.network.data(), group.network.size());
  w.bytes(group.bmodel.data(), group.bmodel.size());
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  std::memcpy(out.data() + sizeof kMagic, digest(out.data() + kHeader, out.size() - kHeader).data(), kDigest);
  return out;
}

Status unpack(const void *bytes, size_t size, Group &out) {
  const auto *p = static_cast<const uint8_t *>(bytes);
  if (size < kHeader || std::memcmp(p, kMagic, sizeof kMagic) != 0)
    return Status::error("it does not begin as a network that this provider has compiled (version 1)");
  if (digest(p + kHeader, size - kHeader)
          .compare(0, kDigest, reinterpret_cast<const char *>(p) + sizeof kMagic, kDigest) != 0)
    return Status::error("it is damaged: its checksum is wrong");
  Reader r(p + kHeader, size - kHeader);
  out = {};
  if (!r.bytes(out.name) || !r.ports(out.inputs) || !r.ports(out.outputs) || !r.bytes(out.network) ||
      !r.bytes(out.bmodel) || !r.at_end() || out.network.empty() == out.bmodel.empty())
    return Status::error("its contents are not those of a compiled network");
  return {};
}

}  // namespace npu::ort
