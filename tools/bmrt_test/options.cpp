// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

#include "common/status.h"
#include "runtime/arrays/picture.h"

namespace bmrt_test {

using npu::Status;

namespace {

/// "[1,3,224]" at `at`; moves `at` behind it.
bool parse_shape(const std::string &text, size_t &at, bm_shape_t &shape) {
  int dims[BM_MAX_DIMS_NUM], count = 0;
  if (at >= text.size() || text[at++] != '[') return false;
  while (at < text.size() && text[at] != ']') {
    char *end;
    const long v = std::strtol(text.c_str() + at, &end, 10);
    if (end == text.c_str() + at || v < 1 || v > 0x7fffffff || count == BM_MAX_DIMS_NUM) return false;
    dims[count++] = static_cast<int>(v);
    at = static_cast<size_t>(end - text.c_str());
    if (at < text.size() && text[at] == ',') ++at;
  }
  if (at++ >= text.size()) return false;
  bmrt_shape(&shape, dims, count);
  return true;
}

}  // namespace

bool parse_shapes(const std::string &text, std::vector<bm_shape_t> &out) {
  out.clear();
  size_t at = 0;
  do {
    bm_shape_t shape;
    if (!out.empty() && text[at] == ',') ++at;
    if (!parse_shape(text, at, shape)) return false;
    out.push_back(shape);
  } while (at < text.size());
  return true;
}

namespace {

/// Reads the shapes; says which options do not go together.
Status check(Options &o, const std::string &shapes, bool compare_given) {
  if (!shapes.empty() && !parse_shapes(shapes, o.shapes))
    return Status::error("--shapes " + shapes + ": expected [1,3,224,224] for each input, separated by commas");
  if (o.bmodel.empty() == o.context_dir.empty())
    return Status::error("exactly one of --bmodel and --context_dir is needed");
  if (std::isnan(o.accuracy_f)) return Status::error("--accuracy_f: expected a number");
  if (compare_given && o.compare && o.context_dir.empty())
    return Status::error("--compare 1 needs the reference data of --context_dir");
  if ((o.float_inputs || o.float_outputs) && o.context_dir.empty())
    return Status::error("--float_inputs and --float_outputs are said of the reference data of --context_dir");
  if (!o.inputs.empty() && !o.context_dir.empty())
    return Status::error("--input and --context_dir: the inputs come from one of them");
  npu::arrays::Preprocess preprocess;
  if (!o.preprocess.empty()) {
    if (o.inputs.empty()) return Status::error("--preprocess is for pictures of --input");
    NPU_TRY(npu::arrays::parse_preprocess(o.preprocess, preprocess));
  }
  return {};
}

}  // namespace

std::optional<int> parse_options(int argc, const char *const *argv, Options &out) {
  CLI::App app{"Runs the networks of a .bmodel on the NPU and compares their outputs with reference data.",
               "bmrt_test"};
  int compare = -1;
  std::string shapes;
  app.add_option("--bmodel", out.bmodel, "model to run with inputs of zeros; nothing is compared");
  app.add_option("--context_dir", out.context_dir,
                 "directory with compilation.bmodel, input_ref_data.dat and output_ref_data.dat");
  app.add_option("--loopnum", out.loops, "how often everything is repeated")->check(CLI::Range(1, 1000000000));
  app.add_option("--thread_num", out.threads, "threads that do the same at once")->check(CLI::Range(1, 1024));
  app.add_option("--calculate_times", out.calculate_times, "launches in flight in each loop")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--devid", out.device, "device number")->check(CLI::Range(0, 65535));
  app.add_option("--net_idx", out.network, "only this network, from 0 in the order of the file")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--stage_idx", out.stage, "only this stage, from 0")->check(CLI::Range(0, 1000000));
  app.add_option("--shapes", shapes,
                 "input shapes, [1,3,224,224],[1,10]; default: the stage's. Of several networks, --net_idx says "
                 "which");
  app.add_option("--core_list", out.cores, "cores to run on, 0,1; default: any")->delimiter(',');
  app.add_option("--compare", compare, "0: do not compare with output_ref_data.dat; default 1 with --context_dir")
      ->check(CLI::Range(0, 1));
  app.add_option("--accuracy_f", out.accuracy_f,
                 "floating point: |got - expected| may be this much times the largest |expected| of the tensor")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e30));
  app.add_option(
         "--ulp", out.ulp,
         "floating point: so many numbers of the type may lie between got and expected; instead of --accuracy_f")
      ->check(CLI::Range(0ll, 1ll << 32));
  app.add_option("--accuracy_i,--lsb", out.accuracy_i,
                 "integers: |got - expected| may be this much, counted in steps of what they stand for")
      ->capture_default_str()
      ->check(CLI::Range(0ll, 1ll << 40));
  app.add_flag("--float_inputs", out.float_inputs,
               "input_ref_data.dat has float32 for all tensors, which becomes their type by scale and zero point");
  app.add_flag("--float_outputs", out.float_outputs,
               "output_ref_data.dat has float32 for all tensors, which becomes their type before it is compared");
  app.add_option("--input", out.inputs,
                 "FILE or NAME=FILE: an input as .npy, .npz or picture instead of zeros; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--preprocess", out.preprocess,
                 "what pictures of --input become, as npuc --preprocess has it; default: as large as the input, 0 to "
                 "255");
  app.add_option("--plugin", out.plugins,
                 "FILE: shared library with operators of your own that the model has; may be repeated")
      ->take_all()
      ->expected(1);
  app.add_option("--json", out.json, "file for results, latencies and throughput as JSON")
      ->check([](const std::string &path) { return std::string(path.empty() ? "a file has a name" : ""); });
  app.add_flag("--export_output", out.export_output,
               "write the outputs to output_ref_data.dat.bmrt_test in --context_dir, or here");
  app.add_flag("--profile", out.profile,
               "write a trace for Perfetto to bmrt_test_profile.json in --context_dir, or here");
  app.set_version_flag("--version", "bmrt_test " BMRT_TEST_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? kSuccess : kUsage;
  }
  out.compare = compare < 0 ? !out.context_dir.empty() : compare == 1;
  const Status status = check(out, shapes, compare >= 0);
  if (status.ok()) {
    if (!out.context_dir.empty()) out.bmodel = out.context_dir + "/compilation.bmodel";
    return std::nullopt;
  }
  std::fprintf(stderr, "bmrt_test: %s\nRun with --help for more information.\n", status.message().c_str());
  return kUsage;
}

}  // namespace bmrt_test
