// SPDX-License-Identifier: MIT
// Option values as people type them.
#include <charconv>

#include "compiler/api/npuc.h"
#include "runtime/arrays/npy.h"
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

Status split_input(const std::string &text, InputValue &out) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Status::error("--input " + text + ": NAME=VALUE or NAME=FILE.npy is expected");
  out.name = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  if (parse_numbers(value, out.numbers)) return {};
  out.file = value;
  if (value.ends_with(".npy")) return {};
  return Status::error("--input " + text + ": '" + value + "' is neither numbers nor the name of a .npy file");
}

Status parse_input(const std::string &text, std::map<std::string, graph::TensorPtr> &values) {
  InputValue value;
  NPU_TRY(split_input(text, value));
  if (!value.numbers) NPU_TRY(arrays::read_npy(value.file, value.numbers).within("--input " + value.name));
  return values.emplace(value.name, value.numbers).second ? Status()
                                                          : Status::error("--input names '" + value.name + "' twice");
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
    NPU_TRY(parse_shape(text.substr(from, end - from), shapes, "--stage"));
    if (end == std::string::npos) return {};
    from = end + 1;
  }
}

namespace {

/// Reads "1,3,224,224", "1x3x224x224", or either in brackets. False: `wrong` is the dimension behind those in `shape`
/// that is no positive number.
bool parse_dims(std::string_view text, graph::Shape &shape, std::string_view &wrong) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  const char separator = text.find(',') != text.npos ? ',' : 'x';
  for (;;) {
    const size_t end = text.find(separator);
    wrong = text.substr(0, end);
    while (separator == ',' && wrong.starts_with(' ')) wrong.remove_prefix(1);
    int64_t d;
    if (!parse_number(wrong, d) || d < 1) return false;
    shape.push_back(d);
    if (end == text.npos) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Status parse_shape(const std::string &text, std::map<std::string, graph::Shape> &shapes, const std::string &option) {
  static const std::string expected = "NAME=D0,D1,... or NAME=D0xD1x... is expected, as image=1,3,224,224";
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return Status::error(option + " " + text + ": " + expected);
  const std::string name = text.substr(0, equals);
  graph::Shape shape;
  std::string_view wrong;
  if (!parse_dims(std::string_view(text).substr(equals + 1), shape, wrong))
    return Status::error(option + " " + text + ": dimension " + std::to_string(shape.size()) + ", '" +
                         std::string(wrong) + "', is not a positive number; " + expected);
  if (shapes.emplace(name, shape).second) return {};
  if (option == "--shape") return Status::error("--shape names '" + name + "' twice");
  return Status::error(option + " " + text + ": '" + name + "' has a shape already, from " + option + " or --shape");
}

}  // namespace npu::compiler
