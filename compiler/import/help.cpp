// SPDX-License-Identifier: MIT
#include "compiler/import/help.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/nearest.h"
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

/// Operators of other frameworks and of experiments of old ONNX versions, and what ONNX has for them.
struct Foreign {
  std::string_view type, onnx;
};
constexpr Foreign kForeign[] = {
    {"affine", "Mul and Add"},
    {"batchmatmul", "MatMul"},
    {"batchnorm", "BatchNormalization"},
    {"constantfill", "ConstantOfShape"},
    {"conv1d", "Conv"},
    {"conv2d", "Conv"},
    {"conv3d", "Conv"},
    {"crop", "Slice"},
    {"deconvolution", "ConvTranspose"},
    {"dense", "Gemm"},
    {"dynamicslice", "Slice"},
    {"floordiv", "Div and Floor"},
    {"fullyconnected", "Gemm"},
    {"giventensorfill", "Constant"},
    {"groupnorm", "GroupNormalization"},
    {"gruunit", "GRU"},
    {"imagescaler", "Mul and Add"},
    {"innerproduct", "Gemm"},
    {"instancenorm", "InstanceNormalization"},
    {"interpolate", "Resize"},
    {"layernorm", "LayerNormalization"},
    {"linear", "Gemm"},
    {"lstmunit", "LSTM"},
    {"parametricsoftplus", "Softplus and Mul"},
    {"permute", "Transpose"},
    {"relu6", "Clip"},
    {"rmsnorm", "RMSNormalization"},
    {"rsqrt", "Sqrt and Reciprocal"},
    {"scale", "Mul and Add"},
    {"scaledtanh", "Mul and Tanh"},
    {"silu", "Sigmoid and Mul"},
    {"square", "Mul"},
    {"stack", "Unsqueeze and Concat"},
    {"swish", "Sigmoid and Mul"},
    {"upscale", "Resize"},
    {"view", "Reshape"},
};

/// The operator of ONNX whose name is nearest, as far as that is a slip of the keyboard: one letter, in long names two.
/// Empty: none is near.
std::string_view nearest(std::string_view type) {
  constexpr size_t kLongest = 64, kLong = 8;
  std::string_view best;
  size_t least = type.size() < kLong ? 2 : 3;
  if (type.size() > kLongest) return best;
  for (const AttributeNames &known : attribute_names()) {
    const size_t d = edit_distance(lower(type), lower(known.op));
    if (d >= least || d * 3 > type.size()) continue;
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
    for (const Foreign &f : kForeign)
      if (lower(type) == f.type) return none + ": export with " + std::string(f.onnx);
    if (type == "ATen")
      return "PyTorch writes it for what ONNX lacks in the operator set of the export: export with a newer one "
             "(opset_version), without the fallback to ATen";
    const std::string_view near = nearest(type);
    return none + (near.empty() ? ": define it in the file as a function of ONNX's operators, which npuc expands, or "
                                  "export without it"
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
    return "npuc has none of that name in com.microsoft: where an exporter or you wrote it, use ONNX's own operators, "
           "or define it in the file as a function of these, which npuc expands; where ONNX Runtime's optimizer wrote "
           "it, save the model before that (ORT_DISABLE_ALL)";
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
      return "what follows from an input is known with --input NAME=VALUE, what follows from shapes once all of these "
             "are fixed (--shape, --stage); what the network computes from data has to be a constant in the export";
    case Obstacle::DataShape:
      return "shapes are fixed when a network is compiled: end the network in front of it and compute it in the "
             "program, or export with a fixed count (TopK); where its data is an input, --input NAME=VALUE";
    case Obstacle::OpenShape:
      return "--shape for one shape, --stage once for each of several; with --dynamic as well launches may have any "
             "shape up to these";
    case Obstacle::Type:
      return "put a Cast to a type that the message lists in front of it, or export with that type; text, lists and "
             "maps are for the program in front of the network";
    case Obstacle::Form:
      return "export without what the message names, or with ONNX's basic operators in place of this one; or " + kCut;
    case Obstacle::Size:
      return "smaller sizes help: of the inputs (--shape, a smaller batch, image or sequence), or of what the message "
             "counts";
    case Obstacle::Option:
      return "--shape and --input give an input what its dimensions and its type in the file allow; the message has "
             "both";
    case Obstacle::DeclaredShape:
      return "remove what the file says of results and infer it anew (clear value_info, "
             "onnx.shape_inference.infer_shapes), or fix open dimensions with --shape";
    case Obstacle::LocalMemory:
      return "more local memory (--lmem, and a card that has it), a smaller batch, or smaller tensors";
    case Obstacle::File:
      return "onnx.checker.check_model says whether the file is whole and where it breaks a rule: download or export "
             "it again; weights beside the file have to lie in its folder";
    case Obstacle::Unsuitable:
      return "";
    case Obstacle::Plugin:
      return "the plug-in decides what its operator takes and makes: correct the plug-in, whose rules are in "
             "docs/guide/own-operators.md, or give its operator other inputs or attributes";
    case Obstacle::Function:
      return "correct the function or its calls in the file: a call gives each attribute that has no default and that "
             "a "
             "node of the function needs, and no function calls itself, directly or through others";
    case Obstacle::NoInput:
      return "leave out an --input, if one made the last input a constant; else compute the outputs once, without a "
             "program (onnx.reference.ReferenceEvaluator), or export with the data as an input";
    case Obstacle::Operator:
      return kCut;
    case Obstacle::Other:
      break;
  }
  return "what it reads does not fit the operator: give other sizes where they come from the inputs (--shape), or "
         "correct the export (onnx.checker.check_model(model, full_check=True) finds nodes that are wrong for every "
         "size)";
}

}  // namespace npu::graph
