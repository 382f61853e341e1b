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

cpu::Dtype type_of(const std::string &descr) {
  constexpr std::pair<const char *, cpu::Dtype> kTypes[] = {
      {"'<f4'", cpu::Dtype::F32}, {"'<f8'", cpu::Dtype::F64}, {"'<f2'", cpu::Dtype::F16}, {"'<i8'", cpu::Dtype::I64},
      {"'<i4'", cpu::Dtype::I32}, {"'<i2'", cpu::Dtype::I16}, {"'|i1'", cpu::Dtype::I8},  {"'|u1'", cpu::Dtype::U8},
      {"'<u2'", cpu::Dtype::U16}, {"'<u4'", cpu::Dtype::U32}, {"'<u8'", cpu::Dtype::U64}, {"'|b1'", cpu::Dtype::Bool}};
  for (const auto &[name, type] : kTypes)
    if (descr == name) return type;
  return cpu::Dtype::Undefined;
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
  const cpu::Dtype type = type_of(field(header, "descr"));
  if (type == cpu::Dtype::Undefined) return Status::error("its element type is not a little-endian number or bool");
  const std::string order = field(header, "fortran_order"), dims = field(header, "shape");
  if (order == "True") return Status::error("it is in Fortran order, C order is expected");
  if (order != "False") return Status::error("its header does not say whether it is in Fortran order");
  cpu::Shape shape;
  if (!parse_shape(dims, shape)) return Status::error("its header does not have a shape such as (2, 3)");
  const int64_t count = cpu::element_count(shape);
  if (count < 0 || bytes.size() - data != static_cast<uint64_t>(count) * cpu::dtype_bytes(type))
    return Status::error("its data has not the size that its header says");
  auto tensor = std::make_shared<cpu::Tensor>(type, shape);
  if (count) std::memcpy(tensor->data.data(), bytes.data() + data, tensor->data.size());
  out = std::move(tensor);
  return {};
}

Status read_npy(const std::string &path, cpu::TensorPtr &out) {
  std::string bytes;
  NPU_TRY(read_file(path, bytes));
  return parse_npy(bytes, out).within(path);
}

}  // namespace npu::arrays
