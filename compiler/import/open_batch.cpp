// SPDX-License-Identifier: MIT
#include "compiler/import/open_batch.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "compiler/import/node_order.h"

namespace npu::graph {
namespace {

/// Parts of names that exporters give to dimensions which are no batch.
constexpr const char *kOthers[] = {"seq",   "len",   "time", "tok", "step",   "frame",  "height",
                                   "width", "point", "past", "num", "sample", "channel"};

bool may_be_batch(const RawDim &dim) {
  std::string name = dim.symbol;
  for (char &c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.find("batch") != name.npos) return true;
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](const char *part) { return name.find(part) != name.npos; });
}

bool is_open(const RawDim &dim) { return dim.value < 0; }

/// Inputs with open dimensions.
std::vector<const RawValue *> open_inputs(const RawModel &model, const ImportOptions &options) {
  std::vector<const RawValue *> out;
  for (const RawValue &v : model.inputs) {
    const bool open = !v.has_shape || std::any_of(v.dims.begin(), v.dims.end(), is_open);
    if (open && !options.values.count(v.name)) out.push_back(&v);
  }
  return out;
}

std::string open_shape_text(const RawValue &v, const Shape *shape) {
  std::string out;
  for (size_t i = 0; i < v.dims.size(); ++i)
    out +=
        (i ? "," : "") + (!shape && is_open(v.dims[i]) ? "N" : std::to_string(shape ? (*shape)[i] : v.dims[i].value));
  return out;
}

}  // namespace

std::vector<std::string> assume_batch(const RawModel &model, ImportOptions &options) {
  if (!options.shapes.empty()) return {};
  const std::vector<const RawValue *> inputs = open_inputs(model, options);
  std::set<std::string> batches;  // names
  for (const RawValue *v : inputs) {
    // The length of a list is a batch only where another input says so.
    if (!v->has_shape || v->dims.empty()) return {};
    const RawDim &first = v->dims[0];
    if (is_open(first) && v->dims.size() > 1 && may_be_batch(first)) batches.insert(first.symbol);
    if (is_open(first) && first.symbol.find("batch") != std::string::npos) batches.insert(first.symbol);
  }
  std::vector<std::string> sentences;
  std::map<std::string, Shape> shapes;
  for (const RawValue *v : inputs) {
    Shape shape;
    for (size_t i = 0; i < v->dims.size(); ++i) {
      const RawDim &d = v->dims[i];
      const bool batch = is_open(d) && batches.count(d.symbol) && (i == 0 || !d.symbol.empty());
      if (is_open(d) && !batch) return {};
      shape.push_back(batch ? 1 : d.value);
    }
    const std::string name = printable(v->name);
    sentences.push_back("input '" + name + "' has an open batch: compiled for 1, shape " + open_shape_text(*v, &shape) +
                        "; --shape " + name + "=" + open_shape_text(*v, nullptr) +
                        " with a number for N chooses another");
    shapes.emplace(v->name, std::move(shape));
  }
  options.shapes = std::move(shapes);
  return sentences;
}

}  // namespace npu::graph
