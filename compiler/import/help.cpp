// SPDX-License-Identifier: MIT
#include "compiler/import/help.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "compiler/import/importer.h"
#include "compiler/import/known_attributes.h"
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

const std::string kCut =
    "cut the network in front of it and behind it (onnx.utils.extract_model): the parts compile, and the program "
    "computes what is between them";

bool is_onnx(std::string_view type) {
  const auto all = attribute_names();
  return std::binary_search(all.begin(), all.end(), AttributeNames{type, 0, {}},
                            [](const AttributeNames &a, const AttributeNames &b) { return a.op < b.op; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char &c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// How many letters have to be put in, left out or changed.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The operator of ONNX whose name is nearest; empty: none is near.
std::string_view nearest(std::string_view type) {
  constexpr size_t kLongest = 64;
  std::string_view best;
  size_t least = 3;
  if (type.size() > kLongest) return best;
  for (const AttributeNames &known : attribute_names()) {
    const size_t d = distance(lower(type), lower(known.op));
    if (d >= least || d * 2 > type.size()) continue;
    least = d;
    best = known.op;
  }
  return best;
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string help_for_onnx(std::string_view type) {
  const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
  if (!is_onnx(type)) {
    const std::string none = "ONNX has no such operator up to operator set " + std::to_string(kMaxOpset);
    if (find_microsoft(type)) return none + ", com.microsoft has: the node lacks its domain";
    const std::string_view near = nearest(type);
    return none + (near.empty() ? "; a newer one may be written with operators of that set (onnx.version_converter), "
                                  "one of a tool's own can be defined in the file as a function"
                                : "; is " + quoted(near) + " meant?");
  }
  if (has("Random") || type == "Bernoulli" || type == "Multinomial")
    return "it draws random numbers: make its result an input of the network, and draw them in the program";
  if (has("Sequence") || has("Optional"))
    return "it is about lists of tensors, and programs of the chip have tensors only: export with Split, Concat and "
           "Gather instead; loops over lists often go when shapes are fixed and a simplifier (onnxsim) has run";
  if (has("String") || has("Regex") || type == "TfIdfVectorizer" || type == "ImageDecoder")
    return "it prepares what the network is to see: do that in the program, and begin the network behind it";
  return kCut;
}

}  // namespace

std::string help_for_operator(std::string_view domain, std::string_view type) {
  if (domain.empty()) return help_for_onnx(type);
  if (domain == kMicrosoft)
    return "ONNX Runtime writes it when it optimizes or quantizes: save the model before that, or with its "
           "optimizations off (ORT_DISABLE_ALL)";
  if (domain == "ai.onnx.ml")
    return "it is none of neural networks: end the network in front of it, and compute it in the program";
  if (domain.find("training") != domain.npos) return "it is for training: export the network for inference";
  if (is_onnx(type)) return "ONNX has " + quoted(type) + " in its own domain: export with that, if it means the same";
  return "define it in the file as a function of ONNX's operators, which npuc expands; or give npuc a plug-in that "
         "computes it on the CPU (--plugin FILE, docs/guide/own-operators.md)";
}

std::string help_for(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::OperatorSet:
      return "write it with another operator set: onnx.version_converter.convert_version(model, " +
             std::to_string(kMaxOpset) + ")";
    case Obstacle::Attribute:
      return "where the attribute belongs to another operator set, write the file with that "
             "(onnx.version_converter); otherwise remove it";
    case Obstacle::Value:
      return "an input gets its value with --input NAME=VALUE; what is computed from shapes is known once all of these "
             "are fixed (--shape, --stage); a simplifier (onnxsim) may compute the rest";
    case Obstacle::DataShape:
      return "shapes are fixed when a network is compiled: end the network in front of it and compute it in the "
             "program, or export with a fixed count (TopK); where its data is an input, --input NAME=VALUE";
    case Obstacle::OpenShape:
      return "--shape for one shape, --stage once for each of several; with --dynamic as well launches may have any "
             "shape up to these";
    case Obstacle::Type:
      return "export with tensors of numbers of at least 8 bits; text, lists and maps are for the program in front of "
             "the network";
    case Obstacle::DeclaredShape:
      return "remove what the file says of results and infer it anew (clear value_info, "
             "onnx.shape_inference.infer_shapes), or fix open dimensions with --shape";
    case Obstacle::LocalMemory:
      return "more local memory (--lmem, and a card that has it), a smaller batch, or smaller tensors";
    case Obstacle::File:
      return "onnx.checker.check_model says whether it is whole; weights beside the file have to lie in its folder";
    case Obstacle::Operator:
      return kCut;
    case Obstacle::Other:
      break;
  }
  return "onnx.checker.check_model(model, full_check=True) says whether the node is right; a simplifier (onnxsim) may "
         "write it in another form; or " +
         kCut;
}

}  // namespace npu::graph
