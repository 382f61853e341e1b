// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "common/command_line.h"
#include "runtime/arrays/inputs.h"
#include "runtime/arrays/npy.h"
#include "runtime/cpu/element.h"

namespace npu::npuc {
namespace {

using arrays::FileKind;
using graph::Dtype;
using graph::Graph;
using graph::Tensor;

std::vector<arrays::Input> inputs_of(const Graph &g) {
  std::vector<arrays::Input> out;
  for (graph::ValueId v : g.inputs) {
    arrays::Input input;
    static_cast<graph::TensorKind &>(input) = g[v];
    input.name = g[v].name;
    out.push_back(std::move(input));
  }
  return out;
}

/// The input that NAME=... names: names and paths may have the character as well.
const arrays::Input *named_in(const std::string &text, const std::vector<arrays::Input> &inputs) {
  const arrays::Input *found = nullptr;
  for (const arrays::Input &input : inputs)
    if (text.starts_with(input.name + "=") && (!found || input.name.size() > found->name.size())) found = &input;
  return found;
}

/// "'a', 'b'"
std::string quoted(const std::set<std::string> &names) {
  std::string out;
  for (const std::string &name : names) out += (out.empty() ? "'" : ", '") + printable(name) + "'";
  return out;
}

/// Arrays of --verify-input by the names of their inputs.
Status read_given(const std::vector<std::string> &texts, const std::vector<arrays::Input> &inputs,
                  std::map<std::string, graph::TensorPtr> &out) {
  for (const std::string &text : texts) {
    const auto wrong = [&text](const std::string &what) {
      return Status::error("--verify-input " + text + ": " + what);
    };
    if (arrays::kind_of(text) == FileKind::Archive) {
      std::set<std::string> names, others;
      for (const arrays::Input &input : inputs) names.insert(input.name);
      NPU_TRY(arrays::read_archive(text, names, out, &others).within("--verify-input"));
      if (!others.empty())
        return wrong("the network has no input " + quoted(others) + ", its inputs are " + quoted(names));
      continue;
    }
    const arrays::Input *input = named_in(text, inputs);
    const bool alone = !input && text.find('=') == std::string::npos;
    if (alone && inputs.size() == 1) input = &inputs[0];
    if (!input)
      return wrong(alone ? "NAME=FILE.npy or FILE.npz is expected"
                         : "the network has no input '" + text.substr(0, text.find('=')) + "'");
    NPU_TRY(arrays::read_npy(alone ? text : text.substr(input->name.size() + 1), out[input->name])
                .within("--verify-input"));
  }
  return {};
}

/// "%.9g"
std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

struct Range {
  double low = -1, high = 1;
};

/// Inputs that the file has as truth values are uint8 in the graph.
Dtype type_in_file(const compiler::Reference &reference, const std::string &name) {
  for (const compiler::FileTensor &t : reference.inputs)
    if (t.name == name) return t.dtype;
  return Dtype::Undefined;
}

/// The smallest and the largest number of a type.
template <class T>
Range limits() {
  return {static_cast<double>(std::numeric_limits<T>::lowest()), static_cast<double>(std::numeric_limits<T>::max())};
}

Range limits_of(Dtype type) {
  switch (type) {
    case Dtype::Bool:
      return {0, 1};
    case Dtype::I8:
      return limits<int8_t>();
    case Dtype::U8:
      return limits<uint8_t>();
    case Dtype::I16:
      return limits<int16_t>();
    case Dtype::U16:
      return limits<uint16_t>();
    case Dtype::I32:
      return limits<int32_t>();
    case Dtype::U32:
      return limits<uint32_t>();
    case Dtype::F16:
      return {-65504, 65504};
    case Dtype::BF16:
      return {-0x1.fep127, 0x1.fep127};
    default:
      return limits<float>();
  }
}

Status read_ranges(const std::vector<std::string> &texts, const std::vector<arrays::Input> &inputs,
                   const compiler::Reference &reference, std::map<std::string, Range> &out) {
  for (const std::string &text : texts) {
    const auto wrong = [&text](const std::string &what) {
      return Status::error("--verify-range " + text + ": " + what);
    };
    const size_t equals = text.rfind('='), comma = text.find(',', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || comma == std::string::npos) return wrong("NAME=LOW,HIGH is expected");
    const std::string name = text.substr(0, equals);
    const arrays::Input *const input = named_in(text, inputs);
    if (!input || input->name != name) return wrong("the network has no input '" + name + "'");
    Range &range = out[name];
    const char *const low = text.data() + equals + 1, *const middle = text.data() + comma;
    const char *const end = text.data() + text.size();
    const auto [low_end, low_error] = std::from_chars(low, middle, range.low);
    const auto [high_end, high_error] = std::from_chars(middle + 1, end, range.high);
    if (low_error != std::errc() || low_end != middle || high_error != std::errc() || high_end != end ||
        !std::isfinite(range.low) || !std::isfinite(range.high) || range.low > range.high)
      return wrong("two numbers are expected, the lower one first");
    // The graph's type and the file's, of which the narrower one counts.
    Dtype type = type_in_file(reference, name);
    if (type != Dtype::Bool && !graph::is_half(type)) type = input->dtype;
    const Range most = limits_of(type);
    if (range.low < most.low || range.high > most.high)
      return wrong("input '" + printable(name) + "' is " + cpu::dtype_name(type) + ", whose numbers are from " +
                   number_text(most.low) + " to " + number_text(most.high));
  }
  return {};
}

/// Integers that are tried, the last one exclusive: indices of small tables, and divisors, are not all of these.
struct Integers {
  double low, high;
};
constexpr Integers kChoices[] = {{0, 8}, {1, 8}, {0, 2}, {1, 2}, {0, 1}};

/// Integers of 8 bits have all values at the first choice.
Tensor random_tensor(const graph::TensorKind &kind, Dtype in_file, const Range *range, const Integers &choice,
                     std::mt19937_64 &random) {
  Tensor out(kind.dtype, kind.shape);
  double low = choice.low, high = choice.high;
  if (in_file == Dtype::Bool) high = std::min(high, 2.0);
  if (graph::is_byte(kind.dtype) && in_file != Dtype::Bool && &choice == kChoices) {
    low = kind.dtype == Dtype::I8 ? -128 : 0;
    high = low + 256;
  }
  if (range) low = range->low, high = range->high + (cpu::is_integer(kind.dtype) ? 1 : 0);
  if (!cpu::is_integer(kind.dtype) && !range) low = -1, high = 1;
  for (int64_t i = 0; i < out.count(); ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53, v = low + (high - low) * unit;
    cpu::store(out, i, cpu::is_integer(kind.dtype) ? std::floor(v) : v);
  }
  return out;
}

}  // namespace

Status given_shapes(const compiler::Reference &reference, const VerifyArguments &args,
                    std::map<std::string, graph::Shape> &out) {
  const std::vector<arrays::Input> inputs = inputs_of(reference.graph);
  std::map<std::string, graph::TensorPtr> given;
  NPU_TRY(read_given(args.inputs, inputs, given));
  for (const arrays::Input &input : inputs) {
    const auto it = given.find(input.name);
    if (it != given.end() && it->second->shape.size() == input.shape.size()) out[input.name] = it->second->shape;
  }
  return {};
}

Status make_inputs(const compiler::Reference &reference, const VerifyArguments &args, const Calibrated &calibrated,
                   const TryInputs &can, std::vector<Tensor> &out, std::string &where) {
  const std::vector<arrays::Input> inputs = inputs_of(reference.graph);
  std::map<std::string, graph::TensorPtr> given;
  std::map<std::string, Range> ranges;
  NPU_TRY(read_given(args.inputs, inputs, given));
  NPU_TRY(read_ranges(args.ranges, inputs, reference, ranges));
  // Samples have the shapes of the first stage, and do not fit others.
  if (quantize::Samples *const samples = calibrated.samples; samples && given.empty() && ranges.empty() &&
                                                             samples->open(inputs).ok() && samples->count() > 0 &&
                                                             samples->load(0, out).ok()) {
    where = "sample " + samples->name(0);
    return can(out);
  }
  // Integers do not hold numbers outside of the range.
  for (const quantize::InputResult &i : calibrated.inputs) ranges.try_emplace(i.name, Range{i.range.low, i.range.high});
  const bool all_given = given.size() == inputs.size();
  where = all_given ? "given"
                    : (given.empty() ? "random, seed " : "given, others random, seed ") + std::to_string(args.seed);
  Status last;
  for (const Integers &choice : kChoices) {
    std::mt19937_64 random(args.seed);
    out.clear();
    for (const arrays::Input &input : inputs) {
      if (const auto it = given.find(input.name); it != given.end()) {
        NPU_TRY(arrays::fit(*it->second, input, out.emplace_back()).within("--verify-input " + input.name));
        continue;
      }
      const auto range = ranges.find(input.name);
      out.push_back(random_tensor(input, type_in_file(reference, input.name),
                                  range == ranges.end() ? nullptr : &range->second, choice, random));
    }
    last = can(out);
    if (last.ok() || all_given) return last;
  }
  return Status::error("--verify: the network cannot be computed with random inputs: " + last.message() +
                       ". Give inputs that it is for, with --verify-input or --verify-range");
}

}  // namespace npu::npuc
