// SPDX-License-Identifier: MIT
// Option values as people type them.
#include <charconv>
#include <cstring>
#include <fstream>

#include "compiler/api/npuc.h"
#include "runtime/cpu/element.h"

namespace npu::compiler {
namespace {

bool parse_number(std::string_view text, int64_t &out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

bool parse_size(const std::string &text, int64_t &out) {
  std::string_view digits = text;
  for (std::string_view suffix : {"iB", "B"})
    if (digits.size() > suffix.size() + 1 && digits.ends_with(suffix)) {
      digits.remove_suffix(suffix.size());
      break;
    }
  int64_t unit = 1;
  if (!digits.empty()) {
    const char last = digits.back();
    unit = last == 'K' || last == 'k' ? 1024 : last == 'M' || last == 'm' ? 1024 * 1024 : 1;
    if (unit > 1) digits.remove_suffix(1);
  }
  return parse_number(digits, out) && out >= 0 && !__builtin_mul_overflow(out, unit, &out);
}

namespace {

/// The value of a key of the header of a .npy file, a Python dictionary as text: "{'descr': '<f4', ...}".
std::string npy_field(const std::string &header, const std::string &key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) return {};
  const size_t from = header.find_first_not_of(' ', at + key.size() + 3);
  if (from == std::string::npos) return {};
  const char close = header[from] == '(' ? ')' : ',';
  return header.substr(from, header.find(close, from) - from);
}

graph::Dtype npy_type(const std::string &descr) {
  constexpr std::pair<const char *, graph::Dtype> kTypes[] = {
      {"'<f4'", graph::Dtype::F32}, {"'<f8'", graph::Dtype::F64}, {"'<f2'", graph::Dtype::F16},
      {"'<i8'", graph::Dtype::I64}, {"'<i4'", graph::Dtype::I32}, {"'<i2'", graph::Dtype::I16},
      {"'|i1'", graph::Dtype::I8},  {"'|u1'", graph::Dtype::U8},  {"'<u2'", graph::Dtype::U16},
      {"'<u4'", graph::Dtype::U32}, {"'<u8'", graph::Dtype::U64}, {"'|b1'", graph::Dtype::Bool}};
  for (const auto &[name, type] : kTypes)
    if (descr == name) return type;
  return graph::Dtype::Undefined;
}

/// A file of numpy, format 1 to 3: magic, version, length of the header, header, data.
Status read_npy(const std::string &path, graph::TensorPtr &out) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file && bytes.empty()) return Status::error("cannot read " + path);
  const auto wrong = [&](const char *what) { return Status::error(path + ": " + what); };
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0) return wrong("not a .npy file");
  const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  const size_t data = 8 + length_bytes + length;
  if (data > bytes.size()) return wrong("its header does not end");
  const std::string header = bytes.substr(8 + length_bytes, length);
  const graph::Dtype type = npy_type(npy_field(header, "descr"));
  if (type == graph::Dtype::Undefined) return wrong("its element type is not a little-endian number or bool");
  if (npy_field(header, "fortran_order") != "False") return wrong("it is in Fortran order, C order is expected");
  graph::Shape shape;
  const std::string dims = npy_field(header, "shape");
  for (size_t at = 0; (at = dims.find_first_of("0123456789", at)) != std::string::npos;) {
    int64_t d = 0;
    const auto end = std::from_chars(dims.data() + at, dims.data() + dims.size(), d).ptr;
    at = static_cast<size_t>(end - dims.data());
    shape.push_back(d);
  }
  const int64_t count = graph::element_count(shape);
  if (count < 0 || bytes.size() - data != static_cast<uint64_t>(count) * graph::dtype_bytes(type))
    return wrong("its data has not the size that its header says");
  auto tensor = std::make_shared<graph::Tensor>(type, shape);
  std::memcpy(tensor->data.data(), bytes.data() + data, tensor->data.size());
  out = std::move(tensor);
  return {};
}

/// Numbers with commas between them; integers stay exact.
bool parse_numbers(std::string_view text, graph::TensorPtr &out) {
  std::vector<double> values;
  std::vector<int64_t> integers;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    int64_t integer;
    if (parse_number(one, integer)) integers.push_back(integer);
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), values.emplace_back());
    if (error != std::errc() || end != one.data() + one.size() || one.empty()) return false;
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  const bool exact = integers.size() == values.size();
  graph::Shape shape;
  if (values.size() > 1) shape = {static_cast<int64_t>(values.size())};
  auto tensor = std::make_shared<graph::Tensor>(exact ? graph::Dtype::I64 : graph::Dtype::F64, shape);
  for (size_t i = 0; i < values.size(); ++i)
    exact ? cpu::store_integer(*tensor, static_cast<int64_t>(i), integers[i])
          : cpu::store(*tensor, static_cast<int64_t>(i), values[i]);
  out = std::move(tensor);
  return true;
}

}  // namespace

Status parse_input(const std::string &text, std::map<std::string, graph::TensorPtr> &values) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Status::error("--input " + text + ": NAME=VALUE or NAME=FILE.npy is expected");
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  graph::TensorPtr tensor;
  if (!parse_numbers(value, tensor)) {
    if (!value.ends_with(".npy"))
      return Status::error("--input " + text + ": '" + value + "' is neither numbers nor the name of a .npy file");
    NPU_TRY(read_npy(value, tensor).within("--input " + name));
  }
  return values.emplace(name, tensor).second ? Status() : Status::error("--input names '" + name + "' twice");
}

namespace {

graph::Dtype io_type(std::string_view name) {
  constexpr std::pair<std::string_view, graph::Dtype> kTypes[] = {
      {"int8", graph::Dtype::I8},     {"uint8", graph::Dtype::U8},      {"float16", graph::Dtype::F16},
      {"fp16", graph::Dtype::F16},    {"bfloat16", graph::Dtype::BF16}, {"bf16", graph::Dtype::BF16},
      {"float32", graph::Dtype::F32}, {"fp32", graph::Dtype::F32}};
  for (const auto &[known, type] : kTypes)
    if (name == known) return type;
  return graph::Dtype::Undefined;
}

}  // namespace

Status parse_io_type(const std::string &option, const std::string &text, graph::IoTypes::Side &side) {
  const size_t equals = text.rfind('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  const graph::Dtype type = io_type(equals == std::string::npos ? text : text.substr(equals + 1));
  if (equals == 0 || type == graph::Dtype::Undefined)
    return Status::error(option + " " + text +
                         ": TYPE or NAME=TYPE is expected, TYPE is int8, uint8, float16, bfloat16 or float32");
  if (equals != std::string::npos)
    return side.named.emplace(name, type).second ? Status() : Status::error(option + " names '" + name + "' twice");
  if (side.all != graph::Dtype::Undefined) return Status::error(option + " gives all tensors a type twice");
  side.all = type;
  return {};
}

Status parse_stage(const std::string &text, std::map<std::string, graph::Shape> &shapes) {
  for (size_t from = 0;;) {
    const size_t end = text.find(';', from);
    NPU_TRY(parse_shape(text.substr(from, end - from), shapes));
    if (end == std::string::npos) return {};
    from = end + 1;
  }
}

Status parse_shape(const std::string &text, std::map<std::string, graph::Shape> &shapes) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return Status::error("--shape " + text + ": NAME=D0,D1,... is expected");
  graph::Shape shape;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  for (;;) {
    const size_t comma = rest.find(',');
    int64_t d;
    if (!parse_number(rest.substr(0, comma), d) || d < 1)
      return Status::error("--shape " + text + ": dimension " + std::to_string(shape.size()) +
                           " is not a positive number");
    shape.push_back(d);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (!shapes.emplace(text.substr(0, equals), shape).second)
    return Status::error("--shape names '" + text.substr(0, equals) + "' twice");
  return {};
}

}  // namespace npu::compiler
