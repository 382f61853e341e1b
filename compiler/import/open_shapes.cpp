// SPDX-License-Identifier: MIT
#include "compiler/import/open_shapes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "compiler/import/declared_shapes.h"
#include "compiler/import/node_order.h"

namespace npu::graph {
namespace {

/// Sizes that exporters and networks often have. Each costs an import.
constexpr int64_t kImageSizes[] = {224, 640, 256, 512, 320, 64, 32, 16, 1};
constexpr int64_t kOtherSizes[] = {128, 16000, 64, 80, 16, 512, 8, 2, 1};

/// Sizes of dimensions other than the batch, for one import.
struct Trial {
  int64_t size = 1;
  int64_t total = 1;                  ///< for dimensions that are named as a sum of others
  std::set<std::string> behind = {};  ///< names_behind()
};

std::string lower(std::string text) {
  for (char &c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

/// Named as a batch, or the first dimension wherever it stands.
bool is_batch(const RawDim &dim, size_t place, const std::set<std::string> &others) {
  const std::string name = lower(dim.symbol);
  if (name.find("batch") != name.npos || name == "n" || name == "b") return true;
  return place == 0 && (name.empty() || !others.count(name));
}

/// Names of dimensions that are the first one not everywhere.
std::set<std::string> names_behind(const std::vector<OpenInput> &inputs) {
  std::set<std::string> out;
  for (const OpenInput &input : inputs)
    for (size_t i = 1; i < input.value->dims.size(); ++i) out.insert(lower(input.value->dims[i].symbol));
  return out;
}

/// "past_length + 1": the sum of what its terms are.
int64_t size_of(const RawDim &dim, size_t place, const Trial &trial) {
  const size_t plus = dim.symbol.find('+');
  if (plus != std::string::npos) {
    int64_t sum = 0;
    for (size_t from = 0; from <= dim.symbol.size();) {
      const size_t end = std::min(dim.symbol.find('+', from), dim.symbol.size());
      std::string term = dim.symbol.substr(from, end - from);
      std::erase(term, ' ');
      int64_t number = 0;
      const auto [stop, failed] = std::from_chars(term.data(), term.data() + term.size(), number);
      sum += failed == std::errc() && stop == term.data() + term.size() ? number : trial.size;
      from = end + 1;
    }
    return sum;
  }
  if (is_batch(dim, place, trial.behind)) return 1;
  return lower(dim.symbol).find("total") != std::string::npos ? trial.total : trial.size;
}

Shape shape_for(const OpenInput &input, const Trial &trial) {
  Shape out = input.dims;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] < 0) out[i] = size_of(input.value->dims[i], i, trial);
  return out;
}

bool works(const RawModel &model, const ImportOptions &options, const std::vector<OpenInput> &inputs,
           const Trial &trial) {
  ImportOptions tried = options;
  tried.suggest = false;
  for (const OpenInput &input : inputs) tried.shapes[input.value->name] = shape_for(input, trial);
  Graph scratch;
  return import_model(model, tried, scratch).ok();
}

std::optional<Trial> find_sizes(const RawModel &model, const ImportOptions &options,
                                const std::vector<OpenInput> &inputs) {
  const bool images = std::ranges::any_of(inputs, [](const OpenInput &i) { return i.dims.size() >= 4; });
  const bool totals = std::ranges::any_of(inputs, [](const OpenInput &input) {
    return std::ranges::any_of(input.value->dims,
                               [](const RawDim &d) { return lower(d.symbol).find("total") != std::string::npos; });
  });
  // A total is one size, or that of a past and of what is new.
  for (const int64_t factor : {1, 2}) {
    if (factor > 1 && !totals) break;
    for (const int64_t size : images ? kImageSizes : kOtherSizes)
      if (const Trial trial{size, size * factor, names_behind(inputs)}; works(model, options, inputs, trial))
        return trial;
  }
  return {};
}

}  // namespace

std::string open_inputs_text(const std::vector<OpenInput> &inputs) {
  const bool one = inputs.size() == 1;
  std::string text = one ? "input " : "inputs ";
  bool zero = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const RawValue &v = *inputs[i].value;
    text += (i == 0 ? "'" : i + 1 < inputs.size() ? ", '" : " and '") + printable(v.name) + "'";
    text += one ? " has " : " ";
    text += v.has_shape ? (one ? "shape " : "") + dims_text(v)
            : one       ? "no shape in the file"
                        : "(no shape in the file)";
    for (const RawDim &d : v.dims) zero = zero || d.zero;
  }
  return text + (one ? "" : " have open dimensions") + (zero ? " in the file, where 0 stands for any size" : "") +
         ", and a program needs fixed sizes";
}

std::string suggested_shapes(const RawModel &model, const ImportOptions &options,
                             const std::vector<OpenInput> &inputs) {
  const bool all_have_ranks = std::ranges::all_of(inputs, [](const OpenInput &i) { return i.value->has_shape; });
  std::optional<Trial> trial;
  if (options.suggest && all_have_ranks) trial = find_sizes(model, options, inputs);
  std::string text = trial ? ", for example with" : " with";
  for (const OpenInput &input : inputs) {
    text += " --shape " + printable(input.value->name) + "=";
    if (!input.value->has_shape) text += "D0,D1,...";
    const Shape shape = trial ? shape_for(input, *trial) : input.dims;
    for (size_t i = 0; i < shape.size(); ++i) {
      const RawDim &d = input.value->dims[i];
      const std::string name = d.symbol.empty() ? "N" : printable(d.symbol);
      text += (i ? "," : "") + (shape[i] < 0 ? name : std::to_string(shape[i]));
    }
  }
  return trial ? text : text + ", with numbers for the names";
}

}  // namespace npu::graph
