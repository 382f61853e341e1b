// SPDX-License-Identifier: MIT
// npuc: compiles an ONNX network to a .bmodel.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/api/npuc.h"
#include "compiler/api/text.h"
#include "tools/npuc/folder.h"

namespace {

using npu::Status;

struct Arguments {
  std::string model, output, lmem = "8M", name, asm_file, dump_folder;
  std::string schedule_file;
  double optimize_seconds = 0;
  std::vector<std::string> shapes, stages, inputs, input_types, output_types;
  int cores = 1;
  npu::compiler::TakeTurns turns = npu::compiler::TakeTurns::Faster;
  std::string quantize;  ///< of kQuantize or kReals; empty: neither
  std::string reals;     ///< of kReals; empty: as --quantize says
  std::string samples, preprocess, method = "mse", table, saved_table;
  std::vector<std::string> keep;
  size_t most_samples = SIZE_MAX;
  std::string accuracy, labels, quantize_report;
  bool symmetric = false, keep_biases = false, equalize = false;
  bool quiet = false, all_cores = false, io_alone = false, dynamic = false, dynamic_batch = false;
};

constexpr int kUsage = 2;

const std::map<std::string, npu::compiler::TakeTurns> kTurns{{"faster", npu::compiler::TakeTurns::Faster},
                                                             {"never", npu::compiler::TakeTurns::Never},
                                                             {"always", npu::compiler::TakeTurns::Always}};

const std::map<std::string, npu::graph::Dtype> kReals{
    {"fp32", npu::graph::Dtype::F32}, {"fp16", npu::graph::Dtype::F16}, {"bf16", npu::graph::Dtype::BF16}};
const std::map<std::string, npu::quantize::Type> kQuantize{{"int8", npu::quantize::Type::Int8},
                                                           {"uint8", npu::quantize::Type::Uint8}};

int fail(const std::string &message) {
  std::fprintf(stderr, "npuc: %s\n", message.c_str());
  return 1;
}

Status write_file(const std::string &path, const void *data, size_t bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  file.close();
  return file ? Status() : Status::error("cannot write " + path);
}

Status make_folder(const std::string &path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  return failed ? Status::error("cannot make the folder " + path + ": " + failed.message()) : Status();
}

/// Goes on for so many seconds a program, and says on stderr what has been found.
class Search {
 public:
  Search(double seconds, bool quiet) : seconds_(seconds), quiet_(quiet) {}

  bool operator()(const npu::compiler::SearchState &s) {
    const auto now = std::chrono::steady_clock::now();
    if (s.tried == 0) {
      start_ = said_ = now;
      cycles_ = s.cycles;
    }
    const double passed = std::chrono::duration<double>(now - start_).count();
    if (!quiet_ && s.cycles < cycles_ && now - said_ >= std::chrono::seconds(1)) {
      std::fprintf(stderr, "npuc: %4.0f s, %zu schedules tried, cycles %" PRIu64 " -> %" PRIu64 "\n", passed, s.tried,
                   s.first_cycles, s.cycles);
      said_ = now;
      cycles_ = s.cycles;
    }
    return passed < seconds_;
  }

 private:
  double seconds_;
  bool quiet_;
  std::chrono::steady_clock::time_point start_, said_;
  uint64_t cycles_ = 0;  ///< that were said
};

/// Before work that may take long: whether its result can be kept.
Status check_output(const Arguments &args) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!args.schedule_file.empty() &&
      (fs::equivalent(args.output, args.schedule_file, ignored) ||
       fs::path(args.output).lexically_normal() == fs::path(args.schedule_file).lexically_normal()))
    return Status::error("--output and --schedule are the same file, " + args.output);
  const fs::path folder = fs::path(args.output).parent_path();
  const std::string place = fs::exists(args.output, ignored) ? args.output : folder.empty() ? "." : folder.string();
  if (::access(place.c_str(), W_OK) == 0) return {};
  return Status::error("cannot write " + args.output + ": " + std::strerror(errno));
}

/// How far calibration is, on stderr: a bar on a terminal, else a line for each tenth.
class Bar {
 public:
  void operator()(const npu::quantize::Progress &p) {
    const size_t tenths = p.total ? 10 * p.done / p.total : 10;
    if (terminal_) {
      std::fprintf(stderr, "\rnpuc: %s [%-20s] %zu of %zu%s", p.what, std::string(2 * tenths, '#').c_str(), p.done,
                   p.total, p.done == p.total ? "\n" : "");
    } else if (tenths != said_ || p.what != what_) {
      std::fprintf(stderr, "npuc: %s %zu of %zu\n", p.what, p.done, p.total);
    }
    said_ = tenths;
    what_ = p.what;
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  size_t said_ = 0;
  const char *what_ = nullptr;
};

/// What --quantize and the options that belong to it say.
Status quantize_options(const Arguments &args, npu::quantize::Options &out) {
  namespace quantize = npu::quantize;
  if (!kQuantize.count(args.quantize))
    return args.samples.empty() && args.table.empty()
               ? Status()
               : Status::error("--quantize " + args.quantize +
                               " needs no samples and no table: those are for integers");
  out.type = kQuantize.at(args.quantize);
  if (args.dynamic)
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
  out.compare = !args.quiet || !args.quantize_report.empty();
  if (!args.accuracy.empty() && !quantize::parse_accuracy(args.accuracy, out.accuracy))
    return Status::error("--accuracy " + args.accuracy +
                         ": cosine:C or top1:SHARE is expected, with a number from 0 to 1");
  if (out.accuracy.kind == quantize::AccuracyLimit::Kind::Top1 && args.labels.empty())
    return Status::error("--accuracy top1 needs --labels, a file with the class of each sample");
  if (!args.labels.empty()) NPU_TRY(npu::npuc::read_labels(args.labels, out.labels));
  out.keep.insert(args.keep.begin(), args.keep.end());
  if (!args.quiet) out.progress = Bar();
  if (!args.table.empty()) {
    std::string text;
    NPU_TRY(npu::npuc::read_file(args.table, text));
    NPU_TRY(quantize::parse_table(text, out.table.emplace()).within(args.table));
  }
  std::optional<npu::npuc::Preprocess> preprocess;
  if (!args.preprocess.empty()) NPU_TRY(npu::npuc::parse_preprocess(args.preprocess, preprocess.emplace()));
  if (!args.samples.empty())
    out.samples = std::make_shared<npu::npuc::FolderSamples>(args.samples, args.most_samples, preprocess);
  return {};
}

/// Compiles for each --stage, or once; the first has the stages of all.
Status compile_stages(const Arguments &args, const npu::compiler::Options &common,
                      std::vector<npu::compiler::Compiled> &out) {
  npu::quantize::Options quantize = common.quantize;
  for (size_t s = 0; s < std::max<size_t>(args.stages.size(), 1); ++s) {
    npu::compiler::Options options = common;
    options.quantize = quantize;
    if (!args.stages.empty()) NPU_TRY(npu::compiler::parse_stage(args.stages[s], options.shapes));
    NPU_TRY(npu::compiler::compile_onnx_file(args.model, options, out.emplace_back()));
    if (s) NPU_TRY(npu::compiler::add_stage(out[s], out[0]));
    // All stages have the same integers: those that the samples show in the first.
    if (s == 0 && options.quantize.type != npu::quantize::Type::None) {
      quantize.table = out[0].quantized.table;
      quantize.means = out[0].quantized.means;
      quantize.samples = nullptr;
    }
  }
  return {};
}

Status run(const Arguments &args) {
  npu::compiler::Options options;
  options.name = args.name;
  options.io_alone = args.io_alone;
  options.cores = args.cores;
  options.all_cores = args.all_cores;
  options.turns = args.turns;
  if (kReals.count(args.quantize) && !args.reals.empty() && args.reals != args.quantize)
    return Status::error("--quantize " + args.quantize + " and --reals " + args.reals + ": one of them is expected");
  for (const std::string &type : {args.reals, args.quantize})
    if (kReals.count(type)) options.reals = kReals.at(type);
  options.dump_folder = args.dump_folder;
  options.schedule_file = args.schedule_file;
  NPU_TRY(check_output(args));
  if (args.optimize_seconds > 0) options.optimize = Search(args.optimize_seconds, args.quiet);
  if (!args.dump_folder.empty()) NPU_TRY(make_folder(args.dump_folder));
  if (!npu::compiler::parse_size(args.lmem, options.lmem_bytes))
    return Status::error("--lmem " + args.lmem + ": a size such as 262144, 256K or 8M is expected");
  for (const std::string &s : args.shapes) NPU_TRY(npu::compiler::parse_shape(s, options.shapes));
  for (const std::string &s : args.inputs) NPU_TRY(npu::compiler::parse_input(s, options.values));
  for (const std::string &s : args.input_types)
    NPU_TRY(npu::compiler::parse_io_type("--input-type", s, options.io_types.inputs));
  for (const std::string &s : args.output_types)
    NPU_TRY(npu::compiler::parse_io_type("--output-type", s, options.io_types.outputs));
  NPU_TRY(quantize_options(args, options.quantize));
  std::vector<npu::compiler::Compiled> stages;
  NPU_TRY(compile_stages(args, options, stages));
  if (args.dynamic) NPU_TRY(npu::compiler::make_dynamic_file(args.model, stages[0]));
  if (args.dynamic_batch) NPU_TRY(npu::compiler::make_batch_dynamic(stages[0]));
  std::vector<uint8_t> bytes;
  NPU_TRY(npu::compiler::write_bmodel(stages[0], bytes));
  NPU_TRY(write_file(args.output, bytes.data(), bytes.size()));
  if (!args.quantize_report.empty()) {
    const std::string page = stages[0].quantized.html(args.model);
    NPU_TRY(write_file(args.quantize_report, page.data(), page.size()));
  }
  if (!args.saved_table.empty()) {
    const std::string table = npu::quantize::table_text(stages[0].quantized.table);
    NPU_TRY(write_file(args.saved_table, table.data(), table.size()));
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto &stage = stages[0].net.stages[s];
    if (!args.asm_file.empty()) {
      std::string text;
      const auto add = [&text](const npu::bmodel::ProgramDesc &p) {
        if (!p.tiu.empty() || !p.gdma.empty()) text += npu::compiler::disassemble(p.tiu, p.gdma, p.layers);
        for (size_t core = 0; core < p.more_cores.size(); ++core)
          text += "# core " + std::to_string(core + 1) + "\n" +
                  npu::compiler::disassemble(p.more_cores[core].tiu, p.more_cores[core].gdma, p.layers);
      };
      add(stage);
      for (const auto &sub : stage.subs) {
        text += "# sub-network " + std::to_string(sub.id) + (sub.mode ? ", on the CPU\n" : "\n");
        add(sub);
      }
      NPU_TRY(write_file(args.asm_file + (s ? "." + std::to_string(s) : ""), text.data(), text.size()));
    }
    if (args.quiet) continue;
    if (stages.size() > 1) std::printf("%sstage %zu: %s\n", s ? "\n" : "", s, args.stages[s].c_str());
    std::fputs(stages[s].report.text().c_str(), stdout);
    if (s == 0 && !stages[s].quantized.layers.empty()) std::fputs(stages[s].quantized.text().c_str(), stdout);
  }
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  Arguments args;
  CLI::App app("Compiles an ONNX network to a .bmodel for QNPU1.");
  app.add_option("model", args.model, "network, ONNX")->required();
  app.add_option("-o,--output", args.output, "file to write")->required();
  app.add_option("--lmem", args.lmem, "local memory of the card's cores: 64K to 256M")->capture_default_str();
  auto *cores =
      app.add_option("--cores", args.cores, "cores that may compute the network together; fewer where that is faster")
          ->check(CLI::Range(1, npu::compiler::kMaxCores))
          ->capture_default_str();
  app.add_flag("--all-cores", args.all_cores, "with --cores: as many also where fewer are faster; for tests")
      ->needs(cores);
  app.add_option("--turns", args.turns,
                 "whether operators are computed in turns, rows or pictures of a batch after the other: where that is "
                 "faster, never, or always, for tests")
      ->transform(CLI::CheckedTransformer(kTurns))
      ->default_str("faster");
  app.add_option("--reals", args.reals,
                 "type in which results of floating point are stored between operators, and weights: fp32, fp16 or "
                 "bf16; inputs and outputs keep theirs")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  app.add_option("--name", args.name, "name of the network in the file; else the graph's")
      ->check([](const std::string &name) { return std::string(name.empty() ? "a network has a name" : ""); });
  app.add_option("--shape", args.shapes,
                 "NAME=D0,D1,...: shape of an input whose dimensions the file leaves open; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--stage", args.stages,
                 "NAME=D0,D1,...[;NAME=...]: shapes of one stage; repeated: a network with as many stages")
      ->take_all()
      ->expected(1);
  app.add_option("--input", args.inputs,
                 "NAME=VALUE[,VALUE...] or NAME=FILE.npy: an input that is a constant from now on; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--input-type", args.input_types,
                 "TYPE or NAME=TYPE: type of all inputs of float32 or of integers with a scale, or of one: int8, "
                 "uint8, float16, bfloat16, float32; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--output-type", args.output_types, "the same of outputs")->take_all()->expected(1);
  app.add_option("--optimize", args.optimize_seconds,
                 "SECONDS: look for a better schedule for so long, for each program; says on stderr what it finds")
      ->check([](const std::string &text) { return text.find("nan") == text.npos ? "" : "a number is expected"; })
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--schedule", args.schedule_file,
                 "file of the best schedules found: they are used, and --optimize begins with them and adds to it")
      ->check([](const std::string &path) { return std::string(path.empty() ? "a file has a name" : ""); });
  app.add_option("--dump-asm", args.asm_file,
                 "write the commands as text to this file; those of stage 1 to FILE.1 and so on");
  app.add_option("--dump", args.dump_folder,
                 "write the graph after each pass to this folder, as text and for Graphviz; of the last stage");
  app.add_flag("--io-alone", args.io_alone,
               "addr_mode 1: programs keep state in the memory that the network has for its inputs and outputs");
  auto *dynamic = app.add_flag("--dynamic", args.dynamic,
                               "dimensions that the model leaves open may be anything up to those of a stage: the "
                               "runtime compiles for what a launch has");
  app.add_flag(
         "--dynamic-batch", args.dynamic_batch,
         "launches may have any batch up to the largest stage's, and run in the smallest stage that holds it; rows "
         "of the batch must not depend on each other")
      ->excludes(dynamic);
  auto *quantize =
      app.add_option("--quantize", args.quantize,
                     "int8 or uint8: compute a network of float32 with integers of 8 bits; fp16 or bf16: as --reals")
          ->check(CLI::IsMember({"int8", "uint8", "fp16", "bf16"}));
  auto *samples =
      app.add_option(
             "--calibrate", args.samples,
             "folder of samples of the inputs that show which numbers the network's tensors have: .npy files or "
             "pictures, .npz files with an array for each input, or a folder of files for each input")
          ->needs(quantize);
  app.add_option("--calibrate-count", args.most_samples, "at most so many of the samples, spread over all of them")
      ->check(CLI::PositiveNumber)
      ->needs(samples);
  app.add_option("--calibrate-method", args.method,
                 "range of a tensor's numbers that integers stand for: minmax, percentile:P (P % of them), kl or mse")
      ->capture_default_str()
      ->needs(samples);
  app.add_option(
         "--preprocess", args.preprocess,
         "what happens to pictures: resize=N|WxH,crop=N|WxH,scale=1/255,mean=R,G,B,std=R,G,B,order=rgb|bgr|gray,"
         "layout=nchw|nhwc; a value is (pixel * scale - mean) / std")
      ->needs(samples);
  app.add_option("--calibration-table", args.table, "file of ranges that are known; samples are for the other tensors")
      ->needs(quantize);
  app.add_option("--save-table", args.saved_table, "write the ranges of all tensors to this file")->needs(quantize);
  app.add_flag("--symmetric", args.symmetric, "zero points in the middle, but for tensors that are never negative")
      ->needs(quantize);
  app.add_flag("--no-bias-correction", args.keep_biases,
               "leave biases as they are; else they make up for what rounding the weights changes in the mean")
      ->needs(samples);
  app.add_flag("--equalize", args.equalize,
               "give the channels between two convolutions weights of the same magnitude on both sides first")
      ->needs(quantize);
  auto *accuracy =
      app.add_option("--accuracy", args.accuracy,
                     "cosine:C or top1:SHARE: keep the layers that hurt most in float32 until outputs have "
                     "that cosine, or so much less of the samples' classes are right at most")
          ->needs(samples);
  app.add_option("--labels", args.labels, "file with a sample's name and class on each line, for --accuracy top1")
      ->needs(accuracy);
  app.add_option("--quantize-report", args.quantize_report, "write a page with all layers, ranked by error")
      ->needs(samples);
  app.add_option("--keep-float", args.keep, "NODE: a node of the file that stays in float32; may be repeated")
      ->take_all()
      ->expected(1)
      ->needs(quantize);
  app.add_flag("-q,--quiet", args.quiet, "no report");
  app.set_version_flag("--version", "npuc " NPU_VERSION, "version of this program");
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError &e) {
    // A misspelt option is the reason rather than what is missing then.
    const auto unknown = app.remaining();
    unknown.empty() ? app.exit(e) : app.exit(CLI::ExtrasError("npuc", unknown));
    return kUsage;
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  const Status status = run(args);
  return status.ok() ? 0 : fail(status.message());
}
