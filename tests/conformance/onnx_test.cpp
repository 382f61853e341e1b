// SPDX-License-Identifier: MIT
// ONNX's own tests (Debian's libonnx-testdata): what npuc compiles gives the outputs that ONNX expects, on the chip
// model (parts for the CPU by runtime/cpu) and in the evaluator; everything else is refused with a reason, which
// `make conformance` prints. onnx_compiled.txt holds which tests are
// compiled: one that is refused although it is listed fails, and so does one that is compiled and not listed.
//
// A test is compiled as it is. Where that is refused, because weights, axes and the like are inputs there, it is
// compiled once more with the data of all inputs but the first as constants, and then with the data of all inputs of
// integers and bools. Where nothing is left to run with all inputs as constants, what the compiler has folded is
// compared. Dimensions that a test leaves open are those of its data.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/subnet.h"
#include "tests/unit/compiler/chip.h"

namespace npu::test {
namespace {

namespace fs = std::filesystem;

/// The tolerances of ONNX's own runner.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;
enum class Constants : uint8_t { None, AllButFirst, Integers, All };
constexpr std::pair<const char *, Constants> kWays[] = {{"as it is", Constants::None},
                                                        {"with constants", Constants::AllButFirst},
                                                        {"with integer constants", Constants::Integers},
                                                        {"folded", Constants::All}};

std::string read_file(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(file) << "cannot read " << path;
  return bytes;
}

onnx::TensorProto read_tensor(const fs::path &path) {
  onnx::TensorProto tensor;
  EXPECT_TRUE(tensor.ParseFromString(read_file(path))) << path;
  return tensor;
}

graph::Tensor tensor_of(const onnx::TensorProto &t) {
  // The compiler's own reader knows all forms of a tensor: an initializer of a network that only hands it on.
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto &g = *model.mutable_graph();
  g.set_name("tensor");
  *g.add_initializer() = t;
  g.mutable_initializer(0)->set_name("t");
  g.add_output()->set_name("t");
  graph::RawModel raw;
  const std::string bytes = model.SerializeAsString();
  const Status status = graph::read_onnx(bytes.data(), bytes.size(), raw);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? *raw.initializers.at("t") : graph::Tensor();
}

/// A tensor in the type that a .bmodel has for it.
graph::Tensor converted(const graph::Tensor &from, const graph::TensorKind &to) {
  graph::Tensor out(to.dtype, to.shape);
  if (from.count() == out.count()) cpu::cast(from, cpu::Overflow::Saturate, out);
  return out;
}

double relative_tolerance(graph::Dtype type) {
  return type == graph::Dtype::F16 ? 2e-3 : type == graph::Dtype::BF16 ? 1e-2 : kRelative;
}

/// `accepts`: what else is right where an element is not the expected one.
std::string differences(const graph::Tensor &got, const graph::Tensor &want, bool (*accepts)(double, double)) {
  if (got.shape != want.shape)
    return "shape " + graph::shape_text(got.shape) + ", expected " + graph::shape_text(want.shape);
  const graph::Tensor exact = converted(want, got);
  const bool floating = !cpu::is_integer(got.dtype);
  for (int64_t i = 0; i < got.count(); ++i) {
    const double a = cpu::load(got, i), b = cpu::load(exact, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (accepts && accepts(a, b)) continue;
    if (!floating || !(std::fabs(a - b) <= relative_tolerance(want.dtype) * std::fabs(b) + kAbsolute))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return {};
}

/// Stored results that are not what ONNX's specification says, or has said since: with align_corners the last element
/// of the result is the last of the input, so the length that counts is that of the result, not input * scale before it
/// is rounded. ONNX Runtime gives other numbers than the stored ones, too.
constexpr std::string_view kDisputed[] = {"test_resize_downsample_scales_cubic_align_corners",
                                          "test_resize_downsample_scales_linear_align_corners"};

/// The folder of another version's tests, whose results are reported and stand in no list; nullptr: the installed ones.
const char *other_tests() { return std::getenv("NPU_CONFORMANCE_DATA"); }

/// Whether they are of a version before 1.MINOR.
bool are_before(int minor) {
  const char *const version = std::getenv("NPU_CONFORMANCE_VERSION");
  int have = 0;
  return version && std::sscanf(version, "1.%d.", &have) == 1 && have < minor;
}

/// These have a mask and a cap, and before ONNX 1.22 the mask came first (onnx/onnx, pull request 7867).
constexpr std::string_view kMaskedAndCapped[] = {"test_attention_3d_with_past_and_present_qk_matmul_softcap",
                                                 "test_attention_4d_with_qk_matmul_softcap"};

bool is_disputed(const fs::path &test) {
  const std::string name = test.filename().string();
  const auto among = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return among(kDisputed) || (are_before(22) && among(kMaskedAndCapped));
}

/// Stored results of some versions that ONNX has corrected since, element by element.
struct Erratum {
  std::string_view tests;  ///< what their names begin with
  int before;              ///< the version that has the correction is 1.BEFORE
  bool (*accepts)(double got, double want);
};
constexpr Erratum kErrata[] = {
    // With ceil_mode the last window may reach beyond the padding. Elements there do not count; before 1.18 the sum was
    // divided by all 5 * 5 * 5.
    {"test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True", 18,
     [](double got, double want) {
       const double counted = std::round(125 * want / got);
       return counted >= 1 && counted < 125 && std::fabs(got * counted / 125 - want) < 1e-6;
     }},
    // 0 divided by a norm of 0 is 0, not NaN (onnx/onnx, pull request 7618).
    {"test_l2normalization_axis_0", 22, [](double got, double want) { return got == 0 && std::isnan(want); }},
    // What does not fit saturates; numpy had let it wrap round (onnx/onnx, pull request 7868).
    {"test_qlinearmatmul_2D_int8", 22, [](double got, double) { return got == -128 || got == 127; }},
    {"test_qlinearmatmul_3D_int8", 22, [](double got, double) { return got == -128 || got == 127; }},
    // Exactly 0; numpy computes these in single precision since version 2, and sums of 1000 leave 2e-7.
    {"test_dft_inverse", 99, [](double got, double want) { return std::fabs(got - want) < 1e-6; }}};

bool (*accepts_in(const fs::path &test))(double, double) {
  const std::string name = test.filename().string();
  for (const Erratum &e : kErrata)
    if (name.starts_with(e.tests) && are_before(e.before)) return e.accepts;
  return nullptr;
}

/// One set of inputs and outputs of a test, and the model that it is compiled as.
struct Sample {
  std::string model;
  std::map<std::string, graph::Shape> shapes;  ///< of inputs that leave dimensions open
  std::vector<onnx::TensorProto> inputs, outputs;
  bool (*accepts)(double got, double want) = nullptr;
};

std::vector<onnx::TensorProto> read_tensors(const fs::path &set, const std::string &stem, int count) {
  std::vector<onnx::TensorProto> out;
  for (int i = 0; i < count; ++i) {
    const fs::path path = set / (stem + std::to_string(i) + ".pb");
    out.push_back(fs::exists(path) ? read_tensor(path) : onnx::TensorProto());
  }
  return out;
}

/// Inputs of the graph that no initializer gives a value.
std::vector<std::string> inputs_of(const onnx::GraphProto &g) {
  std::vector<std::string> out;
  for (const auto &v : g.input())
    if (std::none_of(g.initializer().begin(), g.initializer().end(),
                     [&](const auto &t) { return t.name() == v.name(); }))
      out.push_back(v.name());
  return out;
}

/// Whether an input is a constant in this way of compiling a test.
bool is_constant(Constants constants, size_t k, const onnx::TensorProto &data) {
  switch (constants) {
    case Constants::None:
      return false;
    case Constants::AllButFirst:
      return k > 0;
    case Constants::Integers:
      return cpu::is_integer(static_cast<graph::Dtype>(data.data_type()));
    default:
      return true;
  }
}

/// ONNX's package has bfloat16 as the bits of its numbers, uint16.
void set_declared_type(const onnx::ValueInfoProto &declared, onnx::TensorProto &data) {
  if (declared.type().tensor_type().elem_type() == onnx::TensorProto::BFLOAT16 &&
      data.data_type() == onnx::TensorProto::UINT16)
    data.set_data_type(onnx::TensorProto::BFLOAT16);
}

bool has_open_dims(const onnx::ValueInfoProto &v) {
  const auto &dims = v.type().tensor_type().shape().dim();
  return std::any_of(dims.begin(), dims.end(), [](const auto &d) { return d.dim_value() <= 0; });
}

/// Attention's modes 1 and 2 had changed places until ONNX 1.22, since the mask came in front of the cap (onnx/onnx,
/// pull requests 7867 and 7913). The meaning of the stored results is told by the numbers of today.
void renumber_modes(onnx::GraphProto &g) {
  for (auto &node : *g.mutable_node())
    for (auto &a : *node.mutable_attribute())
      if (node.op_type() == "Attention" && a.name() == "qk_matmul_output_mode" && (a.i() == 1 || a.i() == 2))
        a.set_i(3 - a.i());
}

Sample read_sample(const fs::path &test, const fs::path &set, Constants constants) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(read_file(test / "model.onnx"))) << test;
  auto &g = *model.mutable_graph();
  const std::vector<std::string> names = inputs_of(g);
  Sample s;
  s.accepts = accepts_in(test);
  if (are_before(22)) renumber_modes(g);
  const std::vector<onnx::TensorProto> inputs = read_tensors(set, "input_", static_cast<int>(names.size()));
  s.outputs = read_tensors(set, "output_", g.output_size());
  for (int k = 0; k < g.output_size(); ++k) set_declared_type(g.output(k), s.outputs[static_cast<size_t>(k)]);
  for (size_t k = 0; k < names.size(); ++k) {
    onnx::TensorProto data = inputs[k];
    for (const auto &v : g.input()) {
      if (v.name() != names[k]) continue;
      set_declared_type(v, data);
      if (has_open_dims(v)) s.shapes[names[k]] = graph::Shape(data.dims().begin(), data.dims().end());
    }
    data.set_name(names[k]);
    if (is_constant(constants, k, data)) {
      s.shapes.erase(names[k]);
      *g.add_initializer() = data;
    } else {
      s.inputs.push_back(std::move(data));
    }
  }
  s.model = model.SerializeAsString();
  return s;
}

Status compile(const Sample &s, compiler::Compiled &out) {
  compiler::Options options;
  options.shapes = s.shapes;
  return compiler::compile_onnx(s.model.data(), s.model.size(), options, out);
}

void expect_evaluates(const Sample &s) {
  graph::RawModel raw;
  graph::Graph g;
  Status status = graph::read_onnx(s.model.data(), s.model.size(), raw);
  ASSERT_TRUE(status.ok()) << status.message();
  status = graph::import_model(raw, {s.shapes, {}}, g);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<graph::Tensor> inputs, outputs;
  for (size_t k = 0; k < s.inputs.size(); ++k) inputs.push_back(converted(tensor_of(s.inputs[k]), g[g.inputs[k]]));
  status = graph::evaluate_graph(g, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t k = 0; k < outputs.size(); ++k)
    EXPECT_EQ(differences(outputs[k], tensor_of(s.outputs[k]), s.accepts), "") << "evaluator, output " << k;
}

/// Whether the compiler folds the whole test.
bool folds(const Sample &s) {
  graph::RawModel raw;
  graph::Graph g;
  return graph::read_onnx(s.model.data(), s.model.size(), raw).ok() && graph::import_model(raw, {}, g).ok() &&
         g.nodes.empty();
}

void expect_right_in_parts(const Sample &s, const bmodel::StageDesc &stage) {
  ASSERT_EQ(stage.inputs.size(), s.inputs.size());
  ASSERT_EQ(stage.outputs.size(), s.outputs.size());
  std::vector<graph::Tensor> inputs;
  for (size_t k = 0; k < s.inputs.size(); ++k) {
    const auto &t = stage.inputs[k];
    inputs.push_back(
        converted(tensor_of(s.inputs[k]), cpu::make_kind(t.dtype, graph::Shape(t.shape.begin(), t.shape.end()))));
  }
  const StageResult result = run_stage(stage, inputs, lmem_of(stage));
  ASSERT_EQ(result.error, "");
  for (size_t k = 0; k < s.outputs.size(); ++k)
    EXPECT_EQ(differences(result.outputs[k], tensor_of(s.outputs[k]), s.accepts), "") << "output " << k;
}

/// Where the parts of a network run.
const char *place_of(const bmodel::StageDesc &stage) {
  const auto on_cpu = [](const bmodel::SubNetDesc &sub) { return sub.mode != 0; };
  if (stage.subs.empty()) return "";
  return std::all_of(stage.subs.begin(), stage.subs.end(), on_cpu) ? ", on the CPU" : ", partly on the CPU";
}

std::vector<fs::path> folders_in(const fs::path &path, const std::string &prefix = {}) {
  std::vector<fs::path> out;
  std::error_code missing;
  for (const auto &entry : fs::directory_iterator(path, missing))
    if (entry.is_directory() && entry.path().filename().string().starts_with(prefix)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

/// How a test is compiled; empty when it is refused, with a reason each time. What is compiled has to be right.
std::string run_test(const fs::path &test, std::string &reason) {
  for (const auto &[how, constants] : kWays) {
    std::string place;
    bool compiled_all = true;
    const std::vector<fs::path> sets = folders_in(test, "test_data_set");
    EXPECT_FALSE(sets.empty()) << "no data";
    for (const fs::path &set : sets) {
      const Sample sample = read_sample(test, set, constants);
      if (constants == Constants::All) {
        if (!(compiled_all = folds(sample))) break;
        expect_evaluates(sample);
        continue;
      }
      compiler::Compiled compiled;
      const Status status = compile(sample, compiled);
      compiled_all = compiled_all && status.ok();
      if (!status.ok()) {
        EXPECT_GT(status.message().size(), 10u) << "refused without a reason";
        EXPECT_EQ(status.message().find("internal error"), std::string::npos) << status.message();
        reason = status.message();
        break;
      }
      if (!is_disputed(test)) {
        expect_right_in_parts(sample, compiled.net.stages[0]);
        expect_evaluates(sample);
      }
      place = place_of(compiled.net.stages[0]);
    }
    if (compiled_all) return std::string(how) + place;
  }
  return {};
}

/// "SUITE/TEST: how"
std::map<std::string, std::string> expected_to_compile(const std::string &suite) {
  std::map<std::string, std::string> out;
  std::istringstream lines(read_file(NPU_CONFORMANCE_LIST));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(suite + "/")) out[line.substr(0, line.find(':'))] = line.substr(line.find(':') + 2);
  return out;
}

/// "SUITE/TEST, how, whether it was right, why it was refused", with tabs between them, for conformance.py.
void report(const std::string &name, const std::string &how, bool right, std::string reason) {
  const char *const path = std::getenv("NPU_CONFORMANCE_REPORT");
  if (!path) return;
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  std::ofstream(path, std::ios::app) << name << '\t' << how << '\t' << (right ? "right" : "") << '\t'
                                     << (how.empty() ? reason : "") << '\n';
}

int failures() { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

class OnnxTests : public testing::TestWithParam<const char *> {};

TEST_P(OnnxTests, AreCompiledRightOrRefusedAsListed) {
  const std::string suite = GetParam();
  const bool is_listed = !other_tests();
  const fs::path data = is_listed ? NPU_ONNX_TESTDATA : other_tests();
  std::map<std::string, std::string> expected = expected_to_compile(suite);
  EXPECT_FALSE(expected.empty()) << "nothing is listed";
  const std::vector<fs::path> tests = folders_in(data / suite);
  ASSERT_FALSE(tests.empty()) << "no tests in " << data << ": is the package libonnx-testdata installed?";
  size_t compiled = 0, refused = 0;
  for (const fs::path &test : tests) {
    const std::string name = suite + "/" + test.filename().string();
    SCOPED_TRACE(name);
    std::string reason;
    const int failures_before = failures();
    const std::string how = run_test(test, reason);
    report(name, how, failures() == failures_before, reason);
    if (is_listed) {
      EXPECT_EQ(how, expected.count(name) ? expected[name] : "")
          << "empty: refused; onnx_compiled.txt should say " << name << ": " << how;
    } else if (expected.count(name)) {
      EXPECT_FALSE(how.empty()) << "refused, and compiled in the version that is listed: " << reason;
    }
    expected.erase(name);
    ++(how.empty() ? refused : compiled);
  }
  if (is_listed)
    for (const auto &[name, how] : expected) ADD_FAILURE() << name << " is listed and not in the package";
  std::printf("%s: %zu compiled and right, %zu refused\n", suite.c_str(), compiled, refused);
}

INSTANTIATE_TEST_SUITE_P(Suites, OnnxTests, testing::Values("node", "pytorch-converted", "pytorch-operator", "simple"),
                         [](const auto &suite) {
                           std::string name = suite.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace npu::test
