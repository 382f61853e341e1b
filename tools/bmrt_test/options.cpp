// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/options.h"

#include <cstdlib>

#include "common/command_line.h"
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
  if (compare_given && o.compare && o.context_dir.empty())
    return Status::error("--compare 1 needs the reference data of --context_dir");
  if ((o.float_inputs || o.float_outputs) && o.context_dir.empty())
    return Status::error("--float_inputs and --float_outputs are said of the reference data of --context_dir");
  if (!o.inputs.empty() && !o.context_dir.empty())
    return Status::error("--input and --context_dir: the inputs come from one of them");
  npu::arrays::Preprocess preprocess;
  if (!o.preprocess.empty()) {
    if (o.inputs.empty()) return Status::error("--preprocess is for images of --input");
    NPU_TRY(npu::arrays::parse_preprocess(o.preprocess, preprocess));
  }
  return {};
}

}  // namespace

namespace {

/// Options of the runs: how many, of what, where.
void add_run_options(npu::CommandLine &line, Options &out, std::string &shapes) {
  line.text("--bmodel", "FILE", out.bmodel, "model to run with inputs of zeros; nothing is compared");
  line.text("--context_dir", "DIR", out.context_dir,
            "directory with compilation.bmodel, input_ref_data.dat and output_ref_data.dat");
  line.number("--loopnum", "N", out.loops, 1, 1000000000, "how often everything is repeated").shows("1");
  line.number("--thread_num", "N", out.threads, 1, 1024, "threads that do the same at once, 1 to 1024").shows("1");
  line.number("--calculate_times", "N", out.calculate_times, 1, 1000000, "launches in flight in each loop").shows("1");
  line.number("--devid", "N", out.device, 0, 65535, "device number").shows("0");
  line.number("--net_idx", "N", out.network, 0, 1000000, "only this network, from 0 in the order of the file");
  line.number("--stage_idx", "N", out.stage, 0, 1000000, "only this stage, from 0");
  line.text("--shapes", "[D0,D1,...],...", shapes,
            "shape of each input, as [1,3,224,224],[1,10]; default: the stage's. Of several networks, --net_idx says "
            "which");
  line.list("--core_list", "N,...", out.cores, 0, 65535, "cores to run on, 0,1; default: any");
}

/// Options of the comparison with reference data.
void add_comparison_options(npu::CommandLine &line, Options &out, int &compare) {
  line.number("--compare", "0|1", compare, 0, 1,
              "0: do not compare with output_ref_data.dat; default 1 with --context_dir");
  line.real("--accuracy_f", "X", out.accuracy_f, 0, 1e30,
            "floating point: |got - expected| may be this much times the largest |expected| of the tensor")
      .shows("0.01");
  line.real(
      "--accuracy_abs", "X", out.accuracy_abs, 0, 1e30,
      "floating point: |got - expected| may be this much in any case; default 0, or 1e-7 (types of 16 bits: 1e-5) "
      "where no |expected| of the tensor reaches ten times that");
  line.number("--ulp", "N", out.ulp, 0, int64_t{1} << 32,
              "floating point: so many numbers of the type may lie between got and expected; instead of --accuracy_f");
  line.number("--accuracy_i,--lsb", "N", out.accuracy_i, 0, int64_t{1} << 40,
              "integers: |got - expected| may be this much, counted in steps of what they stand for")
      .shows("0");
  line.flag("--float_inputs", out.float_inputs,
            "input_ref_data.dat has float32 for all tensors, which becomes their type by scale and zero point");
  line.flag("--float_outputs", out.float_outputs,
            "output_ref_data.dat has float32 for all tensors, which becomes their type before it is compared");
}

void add_file_options(npu::CommandLine &line, Options &out) {
  line.texts("--input", "[NAME=]FILE", out.inputs, "an input as .npy, .npz or image instead of zeros");
  line.text("--preprocess", "KEY=VALUE,...", out.preprocess,
            "steps from an image of --input to the input, as npuc --preprocess has them; default: as large as the "
            "input, 0 to 255");
  line.texts("--plugin", "FILE", out.plugins, "shared library with operators of your own that the model has");
  line.text("--json", "FILE", out.json, "file for results, latencies and throughput as JSON");
  line.flag("--export_output", out.export_output,
            "write the outputs to output_ref_data.dat.bmrt_test in --context_dir, or here");
  line.flag("--profile", out.profile, "write a trace for Perfetto to bmrt_test_profile.json in --context_dir, or here");
}

}  // namespace

std::optional<int> parse_options(int argc, const char *const *argv, Options &out) {
  npu::CommandLine line("bmrt_test", BMRT_TEST_VERSION, "--bmodel FILE [OPTION...]\n--context_dir DIR [OPTION...]",
                        "Runs the networks of a .bmodel on the NPU and compares their outputs with reference data.");
  int compare = -1;
  std::string shapes;
  add_run_options(line, out, shapes);
  add_comparison_options(line, out, compare);
  add_file_options(line, out);
  if (const auto status = line.parse(argc, argv)) return status;
  out.compare = compare < 0 ? !out.context_dir.empty() : compare == 1;
  const Status status = check(out, shapes, compare >= 0);
  if (!status.ok()) return line.refuse(status.message());
  if (!out.context_dir.empty()) out.bmodel = out.context_dir + "/compilation.bmodel";
  return std::nullopt;
}

}  // namespace bmrt_test
