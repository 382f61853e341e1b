// SPDX-License-Identifier: MIT
#include "runtime/arrays/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/arrays/file.h"

namespace npu::arrays {
namespace {

/// The value of a key of the header, a Python dictionary as text: "{'descr': '<f4', ...}".
std::string field(const std::string &header, const std::string &key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) return {};
  const size_t from = header.find_first_not_of(' ', at + key.size() + 3);
  if (from == std::string::npos) return {};
  const char close = header[from] == '(' ? ')' : ',';
  return header.substr(from, header.find(close, from) - from);
}

/// An element type, and whether its bytes are in the order of this machine's, which is little-endian.
struct Descr {
  cpu::Dtype type = cpu::Dtype::Undefined;
  bool swapped = false;
};

/// "'<f4'", "'>f4'", "'|u1'"
Descr parse_descr(std::string_view text) {
  constexpr std::pair<std::string_view, cpu::Dtype> kTypes[] = {
      {"f4", cpu::Dtype::F32}, {"f8", cpu::Dtype::F64}, {"f2", cpu::Dtype::F16}, {"i8", cpu::Dtype::I64},
      {"i4", cpu::Dtype::I32}, {"i2", cpu::Dtype::I16}, {"i1", cpu::Dtype::I8},  {"u1", cpu::Dtype::U8},
      {"u2", cpu::Dtype::U16}, {"u4", cpu::Dtype::U32}, {"u8", cpu::Dtype::U64}, {"b1", cpu::Dtype::Bool}};
  if (text.size() != 5 || text.front() != '\'' || text.back() != '\'') return {};
  const char order = text[1];
  for (const auto &[name, type] : kTypes)
    if (text.substr(2, 2) == name && (order == '<' || order == '>' || (order == '|' && cpu::dtype_bytes(type) == 1)))
      return {type, order == '>'};
  return {};
}

/// Reverses the bytes of each element.
void swap_bytes(cpu::Tensor &t) {
  const size_t bytes = cpu::dtype_bytes(t.dtype);
  for (size_t at = 0; at < t.data.size(); at += bytes) std::reverse(t.data.data() + at, t.data.data() + at + bytes);
}

/// The elements in C order of an array whose first index is the fastest one.
cpu::Tensor from_fortran(const cpu::Tensor &t) {
  const size_t bytes = cpu::dtype_bytes(t.dtype);
  cpu::Tensor out(t.dtype, t.shape);
  std::vector<int64_t> index(t.shape.size());
  std::vector<int64_t> strides(t.shape.size(), 1);
  for (size_t d = 1; d < strides.size(); ++d) strides[d] = strides[d - 1] * t.shape[d - 1];
  int64_t from = 0;
  for (size_t at = 0; at < out.data.size(); at += bytes) {
    std::memcpy(out.data.data() + at, t.data.data() + static_cast<size_t>(from) * bytes, bytes);
    for (size_t d = index.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < t.shape[d]) break;
      from -= strides[d] * t.shape[d];
      index[d] = 0;
    }
  }
  return out;
}

/// "(2, 3", "(4,", "(": a tuple without its end. Old versions of numpy write 2L. False: something else.
bool parse_shape(std::string_view dims, cpu::Shape &out) {
  if (dims.empty() || dims[0] != '(') return false;
  for (dims.remove_prefix(1); dims.find_first_not_of(' ') != dims.npos;) {
    const size_t comma = std::min(dims.find(','), dims.size());
    std::string_view word = dims.substr(0, comma);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    word = word.substr(0, word.find_last_not_of(' ') + 1);
    if (word.ends_with('L')) word.remove_suffix(1);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out.emplace_back());
    if (error != std::errc() || end != word.data() + word.size() || out.back() < 0) return false;
    dims.remove_prefix(std::min(comma + 1, dims.size()));
  }
  return true;
}

}  // namespace

Status parse_npy(std::string_view bytes, cpu::TensorPtr &out) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY") return Status::error("not a .npy file");
  const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  const size_t data = 8 + length_bytes + length;
  if (data > bytes.size()) return Status::error("its header does not end");
  const std::string header(bytes.substr(8 + length_bytes, length));
  const auto [type, swapped] = parse_descr(field(header, "descr"));
  if (type == cpu::Dtype::Undefined)
    return Status::error(
        "its element type is neither floating point of 16 to 64 bits nor an integer nor bool: convert it with "
        "astype()");
  const std::string order = field(header, "fortran_order"), dims = field(header, "shape");
  if (order != "True" && order != "False")
    return Status::error("its header does not say whether it is in Fortran order");
  cpu::Shape shape;
  if (!parse_shape(dims, shape)) return Status::error("its header does not have a shape such as (2, 3)");
  const int64_t count = cpu::element_count(shape);
  if (count < 0 || bytes.size() - data != static_cast<uint64_t>(count) * cpu::dtype_bytes(type))
    return Status::error("its data has not the size that its header says");
  auto tensor = std::make_shared<cpu::Tensor>(type, shape);
  if (count) std::memcpy(tensor->data.data(), bytes.data() + data, tensor->data.size());
  if (swapped) swap_bytes(*tensor);
  if (order == "True" && shape.size() > 1) *tensor = from_fortran(*tensor);
  out = std::move(tensor);
  return {};
}

Status read_npy(const std::string &path, cpu::TensorPtr &out) {
  std::string bytes;
  NPU_TRY(read_file(path, bytes));
  return parse_npy(bytes, out).within(path);
}

}  // namespace npu::arrays
