// SPDX-License-Identifier: MIT
// Graphs for the CPU as bytes: little endian, no padding. A list is its length (u32) and its elements; a tensor's kind
// is its type (u8, the number of ONNX) and its shape (a list of i64). The whole: magic, version, the kinds of the
// inputs, the constants (kind and data), the nodes (operator u8, alternative of Attrs u8, its fields in the order of
// their declaration, operands, name), the outputs. A text is a list of bytes; a tensor its kind and a list of bytes.
#include <cstring>
#include <string_view>

#include "runtime/cpu/fields.h"
#include "runtime/cpu/host_graph.h"
#include "runtime/cpu/names.h"

namespace npu::cpu {
namespace {

constexpr uint32_t kMagic = 0x54534851, kVersion = 2;  // "QHST"

/// Version 1 has no quantization: the attributes of its operators end where these fields begin.
template <class T>
constexpr bool kIsQuant = std::is_same_v<T, Quant> || std::is_same_v<T, ProductQuant>;
bool is_in_version_1(std::string_view name) { return name != "out_type"; }

template <class T>
constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  void kind(const TensorKind &k) {
    one(k.dtype);
    one(k.shape);
  }
  void raw(const void *data, size_t bytes) {
    const auto *p = static_cast<const uint8_t *>(data);
    out.insert(out.end(), p, p + bytes);
  }
  template <class T>
  void one(const T &value) {
    if constexpr (kIsPlain<T>)
      raw(&value, sizeof value);
    else
      for_each_field(value, [&](const char *, const auto &field) { one(field); });
  }
  template <class T>
  void one(const std::vector<T> &list) {
    one(static_cast<uint32_t>(list.size()));
    if constexpr (kIsPlain<T>)
      raw(list.data(), list.size() * sizeof(T));
    else
      for (const T &value : list) one(value);
  }
  void one(const TensorKind &k) { kind(k); }
  void one(const std::string &value) { text(value); }
  void one(const Tensor &tensor) {
    kind(tensor);
    one(tensor.data);
  }
  void one(const std::array<int64_t, 2> &list) { raw(list.data(), sizeof list); }
  void text(const std::string &text) {
    one(static_cast<uint32_t>(text.size()));
    raw(text.data(), text.size());
  }

  std::vector<uint8_t> out;
};

/// After an error everything reads as zero.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  void set_version(uint32_t version) { version_ = version; }

  void kind(TensorKind &k) {
    one(k.dtype);
    one(k.shape);
  }
  void raw(void *data, size_t bytes) {
    ok_ = ok_ && bytes <= bytes_.size();
    if (!ok_ || !bytes) return;
    std::memcpy(data, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
  }
  template <class T>
  void one(T &value) {
    if constexpr (std::is_same_v<T, bool>)
      value = number<uint8_t>() != 0;
    else if constexpr (kIsPlain<T>)
      value = number<T>();
    else
      for_each_field(value, [this](const char *name, auto &field) {
        if (version_ > 1 || (is_in_version_1(name) && !kIsQuant<std::remove_reference_t<decltype(field)>>)) one(field);
      });
  }
  template <class T>
  void one(std::vector<T> &list) {
    const size_t size = length(kIsPlain<T> ? sizeof(T) : 1);
    list.resize(kIsPlain<T> ? size : 0);
    if constexpr (kIsPlain<T>)
      raw(list.data(), size * sizeof(T));
    else
      for (size_t i = 0; i < size && ok_; ++i) one(list.emplace_back());
  }
  void one(TensorKind &k) { kind(k); }
  void one(std::string &value) { text(value); }
  void one(Tensor &tensor) {
    kind(tensor);
    one(tensor.data);
  }
  void one(std::array<int64_t, 2> &list) { raw(list.data(), sizeof list); }

  void text(std::string &text) {
    text.resize(length(1));
    raw(text.data(), text.size());
  }

  template <class T>
  T number() {
    T value{};
    raw(&value, sizeof value);
    return ok_ ? value : T{};
  }
  /// Of a list whose elements have at least so many bytes each.
  size_t length(size_t element_bytes) {
    const size_t size = number<uint32_t>();
    ok_ = ok_ && size <= bytes_.size() / element_bytes;
    return ok_ ? size : 0;
  }
  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const uint8_t> bytes_;
  uint32_t version_ = kVersion;
  bool ok_ = true;
};

/// Makes `attrs` the alternative with that number.
template <size_t I = 0>
bool set_alternative(size_t number, Attrs &attrs) {
  if constexpr (I == std::variant_size_v<Attrs>) {
    return false;
  } else {
    if (number != I) return set_alternative<I + 1>(number, attrs);
    attrs.emplace<I>();
    return true;
  }
}

Status read_constant(Reader &in, TensorPtr &out) {
  TensorKind kind;
  in.kind(kind);
  const int64_t count = element_count(kind.shape);
  const uint64_t size = dtype_bytes(kind.dtype);
  if (!in.ok() || count < 0 || size == 0 || static_cast<uint64_t>(count) * size > in.left())
    return Status::error("a constant of " + kind_text(kind) + " does not lie inside the graph");
  auto tensor = std::make_shared<Tensor>(kind.dtype, kind.shape);
  in.raw(tensor->data.data(), tensor->data.size());
  out = std::move(tensor);
  return {};
}

Status read_node(Reader &in, HostNode &node) {
  const auto op = in.number<uint8_t>(), alternative = in.number<uint8_t>();
  if (!name_of(static_cast<Op>(op))) return Status::error("operator number " + std::to_string(op) + " is unknown");
  node.op = static_cast<Op>(op);
  if (!set_alternative(alternative, node.attrs))
    return Status::error("attributes number " + std::to_string(alternative) + " are unknown");
  std::visit([&in](auto &attrs) { in.one(attrs); }, node.attrs);
  in.one(node.operands);
  in.text(node.name);
  return {};
}

}  // namespace

std::vector<uint8_t> encode_host_graph(const HostGraph &graph) {
  Writer out;
  const auto number = [&out](size_t n) { out.one(static_cast<uint32_t>(n)); };
  number(kMagic);
  number(kVersion);
  number(graph.inputs.size());
  for (const TensorKind &k : graph.inputs) out.kind(k);
  number(graph.constants.size());
  for (const TensorPtr &t : graph.constants) {
    out.kind(*t);
    out.raw(t->data.data(), t->data.size());
  }
  number(graph.nodes.size());
  for (const HostNode &n : graph.nodes) {
    out.one(static_cast<uint8_t>(n.op));
    out.one(static_cast<uint8_t>(n.attrs.index()));
    std::visit([&out](const auto &attrs) { out.one(attrs); }, n.attrs);
    out.one(n.operands);
    out.text(n.name);
  }
  out.one(graph.outputs);
  return std::move(out.out);
}

Status decode_host_graph(std::span<const uint8_t> bytes, HostGraph &graph) {
  Reader in(bytes);
  graph = {};
  if (in.number<uint32_t>() != kMagic) return Status::error("no graph for the CPU");
  const auto version = in.number<uint32_t>();
  if (version < 1 || version > kVersion)
    return Status::error("a graph of version " + std::to_string(version) + ", expected 1 to " +
                         std::to_string(kVersion));
  in.set_version(version);
  for (size_t i = in.length(5); i > 0; --i) in.kind(graph.inputs.emplace_back());
  for (size_t i = in.length(5); i > 0; --i) NPU_TRY(read_constant(in, graph.constants.emplace_back()));
  const size_t nodes = in.length(6);
  for (size_t i = 0; i < nodes && in.ok(); ++i)
    NPU_TRY(read_node(in, graph.nodes.emplace_back()).within("operator " + std::to_string(i)));
  in.one(graph.outputs);
  if (!in.ok() || in.left()) return Status::error(in.ok() ? "bytes behind the graph" : "the graph ends too early");
  return infer_host_graph(graph);
}

}  // namespace npu::cpu
