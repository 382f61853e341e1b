// SPDX-License-Identifier: MIT
#include "tools/npuc/quantize_arguments.h"

#include <unistd.h>

#include <cstdio>

#include "runtime/arrays/file.h"
#include "tools/npuc/folder.h"

namespace npu::npuc {
namespace {

const std::map<std::string, quantize::Type> kTypes{{"int8", quantize::Type::Int8}, {"uint8", quantize::Type::Uint8}};

/// Progress of a calibration: a bar on standard error, for a terminal.
class Bar {
 public:
  Bar() = default;
  Bar(const Bar &) = delete;
  Bar &operator=(const Bar &) = delete;
  /// The next message, an error, has a line of its own.
  ~Bar() {
    if (open_) std::fputc('\n', stderr);
  }
  void operator()(const quantize::Progress &p) {
    const size_t twentieths = p.total ? 20 * p.done / p.total : 20;
    open_ = p.done != p.total;
    std::fprintf(stderr, "\rnpuc: %s [%-20s] %zu of %zu%s", p.what, std::string(twentieths, '#').c_str(), p.done,
                 p.total, open_ ? "" : "\n");
  }

 private:
  bool open_ = false;  ///< the line has no end yet
};

/// With a type of reals options of integers mean nothing: samples are for a comparison alone.
Status check_reals(const QuantizeArguments &args) {
  const std::pair<const char *, bool> integers[] = {{"--calibration-table", !args.table.empty()},
                                                    {"--save-table", !args.saved_table.empty()},
                                                    {"--symmetric", args.symmetric},
                                                    {"--calibrate-method", args.method != QuantizeArguments().method},
                                                    {"--no-bias-correction", args.keep_biases},
                                                    {"--accuracy", !args.accuracy.empty()},
                                                    {"--equalize", args.equalize},
                                                    {"--keep-float", !args.keep.empty()}};
  for (const auto &[option, given] : integers)
    if (given) return Status::error(std::string(option) + " is for --quantize int8 and uint8, not for " + args.type);
  return {};
}

/// The samples, and how it is said how far they are.
Status sample_options(const QuantizeArguments &args, bool quiet, quantize::Options &out) {
  out.compare = !quiet || !args.report.empty();
  if (!quiet && ::isatty(STDERR_FILENO))
    out.progress = [bar = std::make_shared<Bar>()](const quantize::Progress &p) { (*bar)(p); };
  std::optional<arrays::Preprocess> preprocess;
  if (!args.preprocess.empty()) NPU_TRY(arrays::parse_preprocess(args.preprocess, preprocess.emplace()));
  if (!args.samples.empty()) out.samples = std::make_shared<FolderSamples>(args.samples, args.most_samples, preprocess);
  return {};
}

}  // namespace

void add_options(CommandLine &line, QuantizeArguments &args) {
  line.heading("Quantization");
  Option &quantize =
      line.choice("--quantize", {"int8", "uint8", "fp16", "bf16"}, args.type,
                  "int8 or uint8: compute a network of float32 with integers of 8 bits; fp16 or bf16: as --reals");
  Option &samples =
      line.text("--calibrate", "DIR", args.samples,
                "folder of samples of the inputs that show which numbers the network's tensors have: .npy files or "
                "images, .npz files with an array for each input, or a folder of files for each input")
          .needs(quantize);
  line.number("--calibrate-count", "N", args.most_samples, 1, INT64_MAX,
              "at most so many of the samples, spread over all of them")
      .needs(samples);
  line.text("--calibrate-method", "METHOD", args.method,
            "range of a tensor's numbers that integers stand for: minmax, percentile:P (P % of them), kl or mse")
      .shows(args.method)
      .needs(samples);
  line.text("--preprocess", "KEY=VALUE,...", args.preprocess,
            "steps from an image's pixels to the input: resize=N|WxH, crop=N|WxH, scale=1/255, mean=R,G,B, "
            "std=R,G,B, order=rgb|bgr|gray, layout=nchw|nhwc, with commas between them and no blanks; a value is "
            "(pixel * scale - mean) / std")
      .needs(samples);
  line.text("--calibration-table", "FILE", args.table,
            "file of ranges that are known; samples are for the other tensors")
      .needs(quantize);
  line.text("--save-table", "FILE", args.saved_table, "write the ranges of all tensors to this file").needs(quantize);
  line.flag("--symmetric", args.symmetric, "zero points in the middle, but for tensors that are never negative")
      .needs(quantize);
  line.flag("--no-bias-correction", args.keep_biases,
            "leave biases as they are; else they make up for what rounding the weights changes in the mean")
      .needs(samples);
  line.flag("--equalize", args.equalize,
            "give the channels between two convolutions weights of the same magnitude on both sides first")
      .needs(quantize);
  Option &accuracy =
      line.text("--accuracy", "cosine:C|top1:SHARE", args.accuracy,
                "keep the layers that hurt most in float32 until outputs and their parts have that cosine, or the "
                "share of samples "
                "whose class is right is at most SHARE below float32's")
          .needs(samples);
  line.text("--labels", "FILE", args.labels, "file with a sample's name and class on each line, for --accuracy top1")
      .needs(accuracy);
  line.text("--quantize-report", "FILE", args.report, "write a page with all layers, ranked by error").needs(samples);
  line.texts("--keep-float", "NODE", args.keep, "a node of the file that stays in float32").needs(quantize);
}

Status quantize_options(const QuantizeArguments &args, bool quiet, bool dynamic, quantize::Options &out) {
  if (!kTypes.count(args.type)) {
    NPU_TRY(check_reals(args));
    return sample_options(args, quiet, out);
  }
  out.type = kTypes.at(args.type);
  if (dynamic)
    return Status::error(
        "--quantize with --dynamic: the runtime compiles from the ONNX file, which has no integers. "
        "Give each shape as a --stage");
  if (args.samples.empty() && args.table.empty())
    return Status::error("--quantize needs --calibrate, a folder of samples, or --calibration-table");
  if (!quantize::parse_rule(args.method, out.rule))
    return Status::error("--calibrate-method " + args.method +
                         ": minmax, percentile:P (50 < P <= 100), kl or mse is expected");
  out.symmetric = args.symmetric;
  out.correct_biases = !args.keep_biases;
  out.equalize = args.equalize;
  if (!args.accuracy.empty() && !quantize::parse_accuracy(args.accuracy, out.accuracy))
    return Status::error("--accuracy " + args.accuracy +
                         ": cosine:C or top1:SHARE is expected, with a number from 0 to 1");
  if (out.accuracy.kind == quantize::AccuracyLimit::Kind::Top1 && args.labels.empty())
    return Status::error("--accuracy top1 needs --labels, a file with the class of each sample");
  out.keep.insert(args.keep.begin(), args.keep.end());
  return sample_options(args, quiet, out);
}

Status read_quantize_files(const QuantizeArguments &args, quantize::Options &out) {
  if (out.type == quantize::Type::None) return {};
  if (!args.labels.empty()) NPU_TRY(read_labels(args.labels, out.labels));
  if (args.table.empty()) return {};
  std::string text;
  NPU_TRY(arrays::read_file(args.table, text));
  return quantize::parse_table(text, out.table.emplace()).within(args.table);
}

}  // namespace npu::npuc
