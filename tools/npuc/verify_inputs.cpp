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

/// The name that NAME=... begins with: names and paths may have the character as well. Null: none of them.
const std::string *named_in(const std::string &text, const std::set<std::string> &names) {
  const std::string *found = nullptr;
  for (const std::string &name : names)
    if (text.starts_with(name + "=") && (!found || name.size() > found->size())) found = &name;
  return found;
}

/// "'a', 'b'"
std::string quoted(const std::set<std::string> &names) {
  std::string out;
  for (const std::string &name : names) out += (out.empty() ? "'" : ", '") + printable(name) + "'";
  return out;
}

/// The arrays of --verify-input.
class Given {
 public:
  explicit Given(const compiler::Reference &reference) {
    for (graph::ValueId v : reference.graph.inputs) inputs_.insert(reference.graph[v].name);
    for (const auto &[name, value] : reference.values) values_.insert(name);
  }

  Status read(const std::vector<std::string> &texts) {
    for (const std::string &text : texts)
      if (const Status status = arrays::kind_of(text) == FileKind::Archive ? read_archive(text) : read_array(text);
          !status.ok())
        return Status::error(status.code(), printable("--verify-input " + status.message()));
    return {};
  }

  std::map<std::string, graph::TensorPtr> arrays;  ///< by the names of their inputs
  std::vector<std::string> notes;

 private:
  Status add(const std::string &text, const std::string &name, const graph::TensorPtr &array) {
    return arrays.emplace(name, array).second ? Status()
                                              : Status::error(text + ": the input '" + name + "' is given twice");
  }

  /// Arrays of an archive that no input has are left out, as those of samples are.
  Status read_archive(const std::string &path) {
    std::map<std::string, graph::TensorPtr> found;
    std::set<std::string> others;
    NPU_TRY(arrays::read_archive(path, inputs_, found, &others));
    const bool has_value = std::erase_if(others, [this](const std::string &name) { return values_.count(name); });
    // Other names have lost the suffix.
    const bool plain = std::ranges::any_of(others, [this](const std::string &name) { return inputs_.count(name); });
    const std::string names = plain ? " (an array is NAME.npy)" : "";
    if (found.empty())
      return Status::error(path + ": no array of it is for an input: the inputs are " + quoted(inputs_) +
                           (others.empty() ? has_value ? ", others have their value from --input" : ", it is empty"
                                           : ", the arrays " + quoted(others) + names));
    if (!others.empty())
      notes.push_back("--verify-input " + printable(path) + ": no input has the names " + quoted(others) + names +
                      ", which are left out");
    for (const auto &[name, array] : found) NPU_TRY(add(path, name, array));
    return {};
  }

  Status read_array(const std::string &text) {
    std::set<std::string> names = inputs_;
    names.insert(values_.begin(), values_.end());
    const std::string *name = named_in(text, names);
    const bool alone = !name && text.find('=') == std::string::npos;
    if (name && values_.count(*name))
      return Status::error(text + ": the input '" + *name + "' has its value from --input");
    const std::string path = name ? text.substr(name->size() + 1) : text;
    if (alone && inputs_.size() == 1) name = &*inputs_.begin();
    if (!name)
      return Status::error(text + ": " +
                           (alone ? "NAME=FILE.npy or FILE.npz is expected"
                                  : "the network has no input '" + text.substr(0, text.find('=')) + "'"));
    graph::TensorPtr array;
    NPU_TRY(arrays::read_npy(path, array));
    return add(text, *name, array);
  }

  std::set<std::string> inputs_, values_;
};

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
  if (type == Dtype::Bool) return {0, 1};
  if (type == Dtype::F16) return {-65504, 65504};
  if (type == Dtype::BF16) return {-0x1.fep127, 0x1.fep127};
  if (!cpu::is_integer(type)) return limits<float>();
  return cpu::with_integer(type, [](auto integer) { return limits<decltype(integer)>(); });
}

/// Reads NAME=LOW,HIGH.
Status parse_range(const std::string &text, std::string &name, Range &range) {
  const auto wrong = [&text](const char *what) { return Status::error("--verify-range " + text + ": " + what); };
  const size_t equals = text.rfind('='), comma = text.find(',', equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || equals == 0 || comma == std::string::npos)
    return wrong("NAME=LOW,HIGH is expected");
  name = text.substr(0, equals);
  const char *const low = text.data() + equals + 1, *const middle = text.data() + comma;
  const char *const end = text.data() + text.size();
  const auto [low_end, low_error] = std::from_chars(low, middle, range.low);
  const auto [high_end, high_error] = std::from_chars(middle + 1, end, range.high);
  if (low_error != std::errc() || low_end != middle || high_error != std::errc() || high_end != end ||
      !std::isfinite(range.low) || !std::isfinite(range.high) || range.low > range.high)
    return wrong("two numbers are expected, the lower one first");
  return {};
}

/// Precondition: check_arguments() has accepted them.
Status read_ranges(const std::vector<std::string> &texts, const std::vector<arrays::Input> &inputs,
                   const compiler::Reference &reference, std::map<std::string, Range> &out) {
  for (const std::string &text : texts) {
    const auto wrong = [&text](const std::string &what) {
      return Status::error(printable("--verify-range " + text + ": " + what));
    };
    std::string name;
    Range range;
    NPU_TRY(parse_range(text, name, range));
    const auto input = std::ranges::find(inputs, name, &arrays::Input::name);
    if (input == inputs.end())
      return wrong(reference.values.count(name) ? "the input '" + name + "' has its value from --input"
                                                : "the network has no input '" + name + "'");
    out[name] = range;
    // The graph's type and the file's, of which the narrower one counts.
    Dtype type = type_in_file(reference, name);
    if (type != Dtype::Bool && !graph::is_half(type)) type = input->dtype;
    const Range most = limits_of(type);
    if (range.low < most.low || range.high > most.high)
      return wrong("input '" + name + "' is " + cpu::dtype_name(type) + ", whose numbers are from " +
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

Status check_arguments(const VerifyArguments &args) {
  std::set<std::string> names;
  for (const std::string &text : args.ranges) {
    std::string name;
    Range range;
    NPU_TRY(parse_range(text, name, range));
    if (!names.insert(name).second) return Status::error("--verify-range names '" + name + "' twice");
  }
  return {};
}

Status given_shapes(const compiler::Reference &reference, const VerifyArguments &args,
                    std::map<std::string, graph::Shape> &out) {
  Given given(reference);
  NPU_TRY(given.read(args.inputs));
  for (const arrays::Input &input : inputs_of(reference.graph)) {
    const auto it = given.arrays.find(input.name);
    if (it != given.arrays.end() && it->second->shape.size() == input.shape.size()) out[input.name] = it->second->shape;
  }
  return {};
}

Status make_inputs(const compiler::Reference &reference, const VerifyArguments &args, const Calibrated &calibrated,
                   const TryInputs &can, ChosenInputs &out) {
  const std::vector<arrays::Input> inputs = inputs_of(reference.graph);
  Given read(reference);
  std::map<std::string, Range> ranges;
  NPU_TRY(read.read(args.inputs));
  const std::map<std::string, graph::TensorPtr> &given = read.arrays;
  out.notes = read.notes;
  NPU_TRY(read_ranges(args.ranges, inputs, reference, ranges));
  // Samples have the shapes of the first stage, and do not fit others.
  if (quantize::Samples *const samples = calibrated.samples; samples && given.empty() && ranges.empty() &&
                                                             samples->open(inputs).ok() && samples->count() > 0 &&
                                                             samples->load(0, out.values).ok()) {
    out.origin = "sample " + samples->name(0);
    return can(out.values);
  }
  // Integers do not hold numbers outside of the range.
  for (const quantize::InputResult &i : calibrated.inputs) ranges.try_emplace(i.name, Range{i.range.low, i.range.high});
  const bool all_given = given.size() == inputs.size();
  out.origin = all_given
                   ? "given"
                   : (given.empty() ? "random, seed " : "given, others random, seed ") + std::to_string(args.seed);
  Status last;
  for (const Integers &choice : kChoices) {
    std::mt19937_64 random(args.seed);
    out.values.clear();
    for (const arrays::Input &input : inputs) {
      if (const auto it = given.find(input.name); it != given.end()) {
        NPU_TRY(arrays::fit(*it->second, input, out.values.emplace_back())
                    .within("--verify-input " + printable(input.name)));
        continue;
      }
      const auto range = ranges.find(input.name);
      out.values.push_back(random_tensor(input, type_in_file(reference, input.name),
                                         range == ranges.end() ? nullptr : &range->second, choice, random));
    }
    last = can(out.values);
    if (last.ok() || all_given) return last;
  }
  return Status::error("--verify: the network cannot be computed with random inputs: " + last.message() +
                       ". Give inputs that it is for, with --verify-input or --verify-range");
}

}  // namespace npu::npuc
