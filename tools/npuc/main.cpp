// SPDX-License-Identifier: MIT
// npuc: compiles an ONNX network to a .bmodel.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <new>
#include <set>

#include "common/command_line.h"
#include "common/standard_output.h"
#include "compiler/api/npuc.h"
#include "compiler/api/text.h"
#include "compiler/import/external_files.h"
#include "runtime/arrays/file.h"
#include "runtime/cpu/plugin.h"
#include "tools/npuc/outputs.h"
#include "tools/npuc/quantize_arguments.h"
#include "tools/npuc/reports.h"
#include "tools/npuc/verify.h"

namespace {

using npu::Status;

struct Arguments {
  std::string model, output, lmem = "8M", name, asm_file, dump_folder;
  std::string schedule_file;
  double optimize_seconds = 0;
  std::vector<std::string> shapes, stages, inputs, input_types, output_types, plugins;
  std::vector<npu::npuc::ReportRequest> reports;
  int cores = 1;
  std::string turns = "faster";  ///< key of kTurns
  std::string reals;             ///< key of kReals; empty: as --quantize says
  npu::npuc::QuantizeArguments quantize;
  npu::npuc::VerifyArguments verify;
  bool quiet = false, all_cores = false, io_alone = false, dynamic = false, dynamic_batch = false, explain = false;
};

constexpr int kWrong = 3, kUnclear = 4;  // statuses of --verify

const std::map<std::string, npu::compiler::TakeTurns> kTurns{{"faster", npu::compiler::TakeTurns::Faster},
                                                             {"never", npu::compiler::TakeTurns::Never},
                                                             {"always", npu::compiler::TakeTurns::Always}};

const std::map<std::string, npu::graph::Dtype> kReals{
    {"fp32", npu::graph::Dtype::F32}, {"fp16", npu::graph::Dtype::F16}, {"bf16", npu::graph::Dtype::BF16}};

int fail(const std::string &message) {
  std::fprintf(stderr, "npuc: %s\n", message.c_str());
  return 1;
}

/// The exit status of --verify. The figures are on standard output or in the reports.
int exit_status(npu::npuc::Verdict verdict) {
  switch (verdict) {
    case npu::npuc::Verdict::Right:
      return 0;
    case npu::npuc::Verdict::Unclear:
      fail("--verify: these inputs do not decide if the outputs are right");
      return kUnclear;
    case npu::npuc::Verdict::Wrong:
      fail("--verify: the outputs are wrong");
      return kWrong;
  }
  return 1;
}

Status make_folder(const std::string &path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  return failed ? Status::error("cannot make the folder " + path + ": " + failed.message()) : Status();
}

/// Searches for so many seconds a program. Reports progress on standard error, if that is a terminal.
class Search {
 public:
  Search(double seconds, bool quiet) : seconds_(seconds), quiet_(quiet || !::isatty(STDERR_FILENO)) {}

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

/// The file of a stage's commands.
std::string asm_file(const Arguments &args, size_t stage) {
  return args.asm_file + (stage ? "." + std::to_string(stage) : "");
}

/// Before work that may take long: whether its results can be kept.
Status check_files(const Arguments &args) {
  std::vector<npu::npuc::NamedFile> outputs, others{{"the model", args.model}};
  const auto add = [](std::vector<npu::npuc::NamedFile> &list, const char *option, const std::string &path) {
    if (!path.empty()) list.push_back({option, path});
  };
  add(outputs, "--output", args.output);
  add(outputs, "--quantize-report", args.quantize.report);
  add(outputs, "--save-table", args.quantize.saved_table);
  for (const npu::npuc::ReportRequest &r : args.reports) add(outputs, "--report", r.path);
  for (size_t s = 0; s < std::max<size_t>(args.stages.size(), 1) && !args.asm_file.empty(); ++s)
    add(outputs, "--dump-asm", asm_file(args, s));
  add(others, "--schedule", args.schedule_file);
  add(others, "--labels", args.quantize.labels);
  add(others, "--verify-bmodel", args.verify.bmodel);
  add(others, "--calibration-table", args.quantize.table);
  for (const std::string &path : npu::cpu::loaded_plugins()) add(others, "a plug-in", path);
  std::map<std::string, std::string> data;
  if (npu::graph::external_files(args.model, data).ok())  // else the import names the error
    for (const auto &[location, path] : data) add(others, "the model's external data", path);
  add(others, "--calibrate", args.quantize.samples);
  std::error_code none;  // the calibration names the error
  for (const auto &entry : std::filesystem::directory_iterator(args.quantize.samples, none))
    add(others, "a sample of --calibrate", entry.path());
  // NAME=FILE, and a name or a path may have the character as well.
  const auto add_parts = [&](const char *option, const std::vector<std::string> &texts) {
    for (const std::string &text : texts)
      for (size_t at = 0; at < text.size(); at = text.find('=', at) + 1) {
        add(others, option, text.substr(at));
        if (text.find('=', at) == std::string::npos) break;
      }
  };
  add_parts("--input", args.inputs);
  add_parts("--verify-input", args.verify.inputs);
  return npu::npuc::check_outputs(outputs, others);
}

/// Compiles for each --stage, or once; the first has the stages of all.
Status compile_stages(const Arguments &args, const npu::compiler::Options &common,
                      std::vector<npu::compiler::Compiled> &out, npu::compiler::Refusal &refusal) {
  npu::quantize::Options quantize = common.quantize;
  for (size_t s = 0; s < std::max<size_t>(args.stages.size(), 1); ++s) {
    npu::compiler::Options options = common;
    options.quantize = quantize;
    if (!args.stages.empty()) NPU_TRY(npu::compiler::parse_stage(args.stages[s], options.shapes));
    const Status compiled = npu::compiler::compile_onnx_file(args.model, options, out.emplace_back());
    refusal = std::move(out.back().refusal);
    NPU_TRY(compiled);
    if (s) NPU_TRY(npu::compiler::add_stage(out[s], out[0]));
    // All stages have the same integers: those that the samples show in the first.
    quantize.samples = nullptr;
    if (s == 0 && options.quantize.type != npu::quantize::Type::None) {
      quantize.table = out[0].quantized.table;
      quantize.means = out[0].quantized.means;
      quantize.accuracy = {};  // the table names the layers that are kept
    }
  }
  return {};
}

/// From --reals, or --quantize fp16 or bf16. The runtime compiles in float32 alone.
Status choose_reals(const Arguments &args, npu::graph::Dtype &out) {
  const std::string &type = args.quantize.type;
  if (kReals.count(type) && !args.reals.empty() && args.reals != type)
    return Status::error("--quantize " + type + " and --reals " + args.reals + ": one of them is expected");
  for (const std::string &t : {args.reals, type})
    if (kReals.count(t)) out = kReals.at(t);
  if (args.dynamic && out != npu::graph::Dtype::F32)
    return Status::error((args.reals.empty() ? "--quantize " + type : "--reals " + args.reals) +
                         " with --dynamic: the runtime compiles other shapes in float32. Give each shape as a --stage");
  return {};
}

/// The commands of a stage as text.
std::string asm_text(const npu::bmodel::StageDesc &stage) {
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
  return text;
}

/// A compiled network, and the result of its comparison.
struct Made {
  std::vector<npu::compiler::Compiled> stages;
  std::vector<uint8_t> bmodel;
  std::optional<npu::npuc::Verification> verification;

  npu::npuc::Reported reported(const Arguments &args) const {
    return {args.model, args.stages, stages, verification ? &*verification : nullptr};
  }
};

/// The .bmodel, and what else was asked for.
Status write_files(const Arguments &args, const Made &made) {
  const std::vector<npu::compiler::Compiled> &stages = made.stages;
  const std::vector<uint8_t> &bytes = made.bmodel;
  std::vector<std::pair<std::string, std::string>> texts;  // path, text
  const npu::quantize::Result &quantized = stages[0].quantized;
  if (!args.quantize.report.empty())
    texts.emplace_back(args.quantize.report, npu::npuc::quantize_page(args.model, quantized));
  if (!args.quantize.saved_table.empty())
    texts.emplace_back(args.quantize.saved_table, npu::quantize::table_text(quantized.table));
  for (size_t s = 0; s < stages.size() && !args.asm_file.empty(); ++s)
    texts.emplace_back(asm_file(args, s), asm_text(stages[0].net.stages[s]));
  for (const npu::npuc::ReportRequest &r : args.reports)
    if (!r.path.empty()) texts.emplace_back(r.path, npu::npuc::report_text(r.format, made.reported(args)));
  std::vector<npu::npuc::Output> outputs;
  if (!args.output.empty())
    outputs.push_back({args.output, std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size())});
  for (const auto &[path, text] : texts) outputs.push_back({path, text});
  return npu::npuc::write_outputs(outputs);
}

/// Prints warnings of the quantization if no table is printed, which ends with them.
void print_quantize_warnings(const npu::quantize::Result &quantized) {
  for (const std::string &warning : quantized.warnings) std::fprintf(stderr, "npuc: warning: %s\n", warning.c_str());
}

/// Prints the warnings of all stages, each one once.
void print_warnings(const Arguments &args, const std::vector<npu::compiler::Compiled> &stages) {
  std::set<std::string> printed;
  for (size_t s = 0; s < stages.size(); ++s)
    for (const std::string &warning : stages[s].report.warnings)
      if (printed.insert(warning).second)
        std::fprintf(stderr, "npuc: warning: %s%s\n", s ? ("--stage " + args.stages[s] + ": ").c_str() : "",
                     warning.c_str());
}

void print_tables(const Arguments &args, const std::vector<npu::compiler::Compiled> &stages) {
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages.size() > 1) std::printf("%sstage %zu: %s\n", s ? "\n" : "", s, args.stages[s].c_str());
    std::fputs(stages[s].report.text().c_str(), stdout);
    const npu::quantize::Result &quantized = stages[s].quantized;
    if (s == 0 && (!quantized.layers.empty() || !quantized.outputs.empty() || !quantized.real_tensors.empty()))
      std::fputs(quantized.text().c_str(), stdout);
  }
}

void print_reports(const Arguments &args, const Made &made) {
  for (const npu::npuc::ReportRequest &r : args.reports)
    if (r.path.empty()) {
      std::fputs(npu::npuc::report_text(r.format, made.reported(args)).c_str(), stdout);
      return print_quantize_warnings(made.stages[0].quantized);
    }
  args.quiet ? print_quantize_warnings(made.stages[0].quantized) : print_tables(args, made.stages);
  if (made.verification) std::fputs(made.verification->text().c_str(), stdout);
}

/// Runs what was compiled, or a file that was compiled before.
Status verify(const Arguments &args, const npu::compiler::Options &options, Made &made) {
  std::string given;
  if (!args.verify.bmodel.empty())
    if (const Status read = npu::arrays::read_file(args.verify.bmodel, given); !read.ok())
      return Status::error(read.code(), npu::printable("--verify-bmodel: " + read.message()));
  const auto *const bytes = reinterpret_cast<const uint8_t *>(given.data());
  const npu::npuc::Verified what{
      args.model,
      options,
      args.stages,
      made.stages,
      args.verify.bmodel.empty() ? std::span<const uint8_t>(made.bmodel) : std::span(bytes, given.size()),
      args.dynamic,
      args.dynamic_batch};
  npu::npuc::Verification &result = made.verification.emplace();
  NPU_TRY(npu::npuc::verify(what, args.verify, result));
  if (!args.verify.first) return {};
  if (const Status found = npu::npuc::find_first(what, args.verify, result); !found.ok())
    result.searched = "the search ended with an error: " + found.message();  // the verdict stays
  return {};
}

/// A file that npuc refuses has its reports all the same.
Status report_refusal(const Arguments &args, const npu::compiler::Refusal &refusal) {
  std::vector<std::string> texts;
  for (const npu::npuc::ReportRequest &r : args.reports)
    texts.push_back(npu::npuc::report_text(r.format, args.model, refusal));
  std::vector<npu::npuc::Output> outputs;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (args.reports[i].path.empty())
      std::fputs(texts[i].c_str(), stdout);
    else
      outputs.push_back({args.reports[i].path, texts[i]});
  }
  return npu::npuc::write_outputs(outputs);
}

/// Says which nodes do not run on the chip, and writes nothing.
Status explain(const Arguments &args, const npu::compiler::Options &options) {
  npu::compiler::Explanation explanation;
  NPU_TRY(npu::compiler::explain_onnx_file(args.model, options, explanation));
  std::fputs(npu::compiler::explain_text(explanation).c_str(), stdout);
  return {};
}

/// Checks all values of --shape, --stage, --input and of types. No file is read.
Status tensor_options(const Arguments &args, npu::compiler::Options &options) {
  for (const std::string &s : args.shapes) NPU_TRY(npu::compiler::parse_shape(s, options.shapes));
  std::set<std::map<std::string, npu::graph::Shape>> stages;
  for (const std::string &s : args.stages) {
    std::map<std::string, npu::graph::Shape> shapes = options.shapes;
    if ((";" + s + ";").find(";;") != std::string::npos)
      return Status::error("--stage " + s + ": NAME=D0,D1,... is expected before and behind each ';'");
    NPU_TRY(npu::compiler::parse_stage(s, shapes));
    if (!stages.insert(std::move(shapes)).second)
      return Status::error("--stage " + s + ": another --stage has the same shapes");
  }
  if (args.dynamic && !args.inputs.empty())
    return Status::error(
        "--input with --dynamic: the runtime compiles other shapes from the ONNX file, which does not "
        "have the value. Give each shape as a --stage");
  std::set<std::string> names;
  for (const std::string &s : args.inputs) {
    npu::compiler::InputValue value;
    NPU_TRY(npu::compiler::split_input(s, value));
    if (!names.insert(value.name).second) return Status::error("--input names '" + value.name + "' twice");
  }
  for (const std::string &s : args.input_types)
    NPU_TRY(npu::compiler::parse_io_type("--input-type", s, options.io_types.inputs));
  for (const std::string &s : args.output_types)
    NPU_TRY(npu::compiler::parse_io_type("--output-type", s, options.io_types.outputs));
  return {};
}

/// The options of the compiler. An error is one of the command line alone: no file is read.
Status command_options(const Arguments &args, npu::compiler::Options &options) {
  options.memory_maps = !args.reports.empty();
  options.name = args.name;
  options.io_alone = args.io_alone;
  options.cores = args.cores;
  options.all_cores = args.all_cores;
  options.turns = kTurns.at(args.turns);
  NPU_TRY(choose_reals(args, options.reals));
  options.assume_batch = !args.dynamic && !args.dynamic_batch;
  options.dump_folder = args.dump_folder;
  options.schedule_file = args.schedule_file;
  if (args.optimize_seconds > 0) options.optimize = Search(args.optimize_seconds, args.quiet);
  if (!npu::compiler::parse_size(args.lmem, options.lmem_bytes))
    return Status::error("--lmem " + args.lmem + ": a size such as 262144, 256K or 8M is expected");
  NPU_TRY(npu::compiler::check_lmem(options.lmem_bytes).within("--lmem " + args.lmem));
  NPU_TRY(tensor_options(args, options));
  NPU_TRY(npu::npuc::check_arguments(args.verify));
  if (args.explain) return {};
  return npu::npuc::quantize_options(args.quantize, args.quiet, args.dynamic, options.quantize);
}

/// `refusal`: why the network cannot be compiled, if that is the error.
Status run(const Arguments &args, npu::compiler::Options &options, npu::compiler::Refusal &refusal,
           npu::npuc::Verdict &verdict) {
  for (const std::string &path : args.plugins) NPU_TRY(npu::cpu::load_plugin(path).within("--plugin"));
  if (!args.explain) NPU_TRY(check_files(args));
  if (!args.dump_folder.empty()) NPU_TRY(make_folder(args.dump_folder));
  for (const std::string &s : args.inputs) NPU_TRY(npu::compiler::parse_input(s, options.values));
  if (args.explain) return explain(args, options);
  NPU_TRY(npu::npuc::read_quantize_files(args.quantize, options.quantize));
  Made made;
  NPU_TRY(compile_stages(args, options, made.stages, refusal));
  if (args.dynamic) NPU_TRY(npu::compiler::make_dynamic_file(args.model, made.stages[0]));
  if (args.dynamic_batch) NPU_TRY(npu::compiler::make_batch_dynamic(made.stages[0]));
  NPU_TRY(npu::compiler::write_bmodel(made.stages[0], made.bmodel));
  Status verified;
  if (args.verify.on) verified = verify(args, options, made);
  if (!verified.ok()) made.verification.reset();
  NPU_TRY(write_files(args, made));  // also what could not be compared
  print_warnings(args, made.stages);
  print_reports(args, made);
  NPU_TRY(verified);
  if (made.verification) verdict = made.verification->verdict();
  return {};
}

/// Options of the network: shapes, values, types.
void add_network_options(npu::CommandLine &line, Arguments &args) {
  line.text("--name", "NAME", args.name, "name of the network in the file; else the graph's");
  line.texts(
      "--shape", "NAME=D0,D1,...", args.shapes,
      "shape of an input whose dimensions the file leaves open; D0xD1x... as well. Without it an open batch is 1");
  line.texts("--stage", "NAME=D0,D1,...[;NAME=...]", args.stages, "shapes of one stage of the network");
  line.texts("--input", "NAME=VALUE[,VALUE...]|NAME=FILE.npy", args.inputs,
             "value of an input that is a constant from now on");
  line.texts("--input-type", "[NAME=]TYPE", args.input_types,
             "type of all inputs of float32 or of integers with a scale, or of one: int8, uint8, float16, bfloat16, "
             "float32");
  line.texts("--output-type", "[NAME=]TYPE", args.output_types, "the same of outputs");
  line.texts("--plugin", "FILE", args.plugins, "shared library with operators of your own, which run on the CPU");
  line.flag("--io-alone", args.io_alone,
            "addr_mode 1: programs keep state in the memory that the network has for its inputs and outputs");
  npu::Option &dynamic =
      line.flag("--dynamic", args.dynamic,
                "launches may have anything up to the sizes of --shape or --stage, one of which it needs, in the "
                "dimensions that the model leaves open: the runtime compiles for what comes");
  line.flag("--dynamic-batch", args.dynamic_batch,
            "launches may have any batch up to the largest stage's, and run in the smallest stage that holds it; rows "
            "of the batch must not depend on each other")
      .excludes(dynamic);
}

/// Options of the programs that are generated.
void add_program_options(npu::CommandLine &line, Arguments &args) {
  line.text("--lmem", "SIZE", args.lmem, "local memory of the card's cores: 64K to 256M").shows(args.lmem);
  npu::Option &cores = line.number("--cores", "N", args.cores, 1, npu::compiler::kMaxCores,
                                   "cores that may compute the network together, 1 to 8; fewer where that is faster")
                           .shows("1");
  line.flag("--all-cores", args.all_cores, "as many cores also where fewer are faster; for tests").needs(cores);
  line.choice("--turns", {"faster", "never", "always"}, args.turns,
              "fused tiling of several operators, over rows or parts of the batch: where it is faster, never, or "
              "always, for tests")
      .shows(args.turns);
  line.choice("--reals", {"fp32", "fp16", "bf16"}, args.reals,
              "type in which results of floating point are stored between operators, and weights; inputs and outputs "
              "keep theirs");
  line.real("--optimize", "SECONDS", args.optimize_seconds, 0.1, 1e6,
            "search so long for a faster schedule, for each program; progress is on standard error, if that is a "
            "terminal");
  line.text("--schedule", "FILE", args.schedule_file,
            "file of the best schedules found: they are used, and --optimize begins with them and adds to it");
}

void add_output_options(npu::CommandLine &line, Arguments &args, std::vector<std::string> &reports) {
  line.text("--dump-asm", "FILE", args.asm_file,
            "write the commands as text to this file; those of stage 1 to FILE.1 and so on");
  line.text("--dump", "DIR", args.dump_folder,
            "write the graph after each pass to this folder, as text and for Graphviz; of the last stage");
  line.texts("--report", "json|html[=FILE]", reports,
             "all figures of each node, as JSON or as a page with the network's graph, to standard output in place of "
             "the table, or to a file");
  line.flag("-q,--quiet", args.quiet, "no table");
}

/// The exit status if the program is to end: after --help, --version or a wrong command line.
std::optional<int> parse_arguments(int argc, char **argv, Arguments &args, npu::compiler::Options &options) {
  npu::CommandLine line("npuc", NPU_VERSION,
                        "MODEL -o FILE [OPTION...]\nMODEL --verify [OPTION...]\nMODEL --explain [OPTION...]",
                        "Compiles an ONNX network to a .bmodel for QNPU1.");
  std::vector<std::string> reports;
  line.operand("MODEL", args.model, "network, ONNX");
  npu::Option &output = line.text("-o,--output", "FILE", args.output, "file to write");
  line.flag("--explain", args.explain,
            "write no file: print which nodes do not run on the chip and why, all that cannot be compiled included; "
            "the status is 0 then, too")
      .excludes(output);
  add_network_options(line, args);
  add_program_options(line, args);
  add_output_options(line, args, reports);
  npu::npuc::add_options(line, args.quantize);
  npu::npuc::add_options(line, args.verify);
  if (const auto status = line.parse(argc, argv)) return status;
  if (!args.explain && !args.verify.on && !output.given()) return line.refuse("--output is needed: the file to write");
  Status parsed = npu::npuc::parse_reports(reports, args.reports);
  if (parsed.ok()) parsed = command_options(args, options);
  return parsed.ok() ? std::nullopt : std::optional<int>(line.refuse(parsed.message()));
}

int run_main(int argc, char **argv) {
  Arguments args;
  npu::compiler::Options options;
  if (const auto status = parse_arguments(argc, argv, args, options)) return *status;
  npu::compiler::Refusal refusal;
  npu::npuc::Verdict verdict = npu::npuc::Verdict::Right;
  const Status status = run(args, options, refusal, verdict);
  options = {};  // with the bar of its progress, which ends its line
  if (status.ok()) return exit_status(verdict);
  if (refusal.message.empty() || refusal.message != status.message()) return fail(status.message());
  fail(refusal.text());
  const Status reported = report_refusal(args, refusal);
  return reported.ok() ? 1 : fail(reported.message());
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return npu::written(run_main(argc, argv), "npuc");
  } catch (const std::bad_alloc &) {
    return fail("there is not enough memory");
  } catch (const std::exception &e) {
    return fail(e.what());
  }
}
