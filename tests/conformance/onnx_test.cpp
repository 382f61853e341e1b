// SPDX-License-Identifier: MIT
// ONNX's own tests (Debian's libonnx-testdata): what npuc compiles gives the outputs that ONNX expects, on the chip
// model and in the evaluator; everything else is refused with a reason. onnx_compiled.txt holds which tests are
// compiled: one that is refused although it is listed fails, and so does one that is compiled and not listed.
//
// A test is compiled as it is. Where that is refused, because weights, axes and the like are inputs there, it is
// compiled once more with the data of all inputs but the first as constants.
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
#include "tests/unit/compiler/chip.h"

namespace npu::test {
namespace {

namespace fs = std::filesystem;

/// The tolerances of ONNX's own runner.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;
constexpr char kAsItIs[] = "as it is", kConstants[] = "with constants";

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

std::vector<float> floats_of(const onnx::TensorProto &t) {
  EXPECT_EQ(t.data_type(), onnx::TensorProto::FLOAT);
  if (!t.has_raw_data()) return {t.float_data().begin(), t.float_data().end()};
  std::vector<float> out(t.raw_data().size() / sizeof(float));
  std::memcpy(out.data(), t.raw_data().data(), out.size() * sizeof(float));
  return out;
}

std::string differences(const std::vector<float> &got, const std::vector<float> &want) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " elements, expected " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    if (!(std::fabs(static_cast<double>(got[i]) - want[i]) <= kRelative * std::fabs(want[i]) + kAbsolute))
      return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]);
  }
  return {};
}

/// One set of inputs and outputs of a test, and the model that it is compiled as.
struct Sample {
  std::string model;
  std::vector<onnx::TensorProto> inputs, outputs;
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

Sample read_sample(const fs::path &test, const fs::path &set, bool constants) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(read_file(test / "model.onnx"))) << test;
  const std::vector<std::string> names = inputs_of(model.graph());
  Sample s;
  s.inputs = read_tensors(set, "input_", static_cast<int>(names.size()));
  s.outputs = read_tensors(set, "output_", model.graph().output_size());
  if (constants && names.size() > 1) {
    for (size_t k = 1; k < names.size(); ++k) {
      s.inputs[k].set_name(names[k]);
      *model.mutable_graph()->add_initializer() = s.inputs[k];
    }
    s.inputs.resize(1);
  }
  s.model = model.SerializeAsString();
  return s;
}

Status compile(const Sample &s, compiler::Compiled &out) {
  return compiler::compile_onnx(s.model.data(), s.model.size(), {}, out);
}

void expect_evaluates(const Sample &s) {
  graph::RawModel raw;
  graph::Graph g;
  Status status = graph::read_onnx(s.model.data(), s.model.size(), raw);
  ASSERT_TRUE(status.ok()) << status.message();
  status = graph::import_model(raw, {}, g);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<graph::Tensor> inputs, outputs;
  for (size_t k = 0; k < s.inputs.size(); ++k)
    inputs.push_back(*graph::make_f32(g[g.inputs[k]].shape, floats_of(s.inputs[k])));
  status = graph::evaluate_graph(g, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t k = 0; k < outputs.size(); ++k) {
    const float *values = outputs[k].as<float>();
    EXPECT_EQ(differences({values, values + outputs[k].count()}, floats_of(s.outputs[k])), "")
        << "evaluator, output " << k;
  }
}

void expect_right_on_chip(const Sample &s, const bmodel::StageDesc &stage) {
  ASSERT_EQ(stage.inputs.size(), s.inputs.size());
  ASSERT_EQ(stage.outputs.size(), s.outputs.size());
  std::vector<std::vector<float>> inputs;
  for (const onnx::TensorProto &t : s.inputs) inputs.push_back(floats_of(t));
  const ChipResult result = run_on_chip(stage, inputs, static_cast<int64_t>(stage.lmem_bytes + 4095) / 4096 * 4096);
  EXPECT_EQ(result.cycles, stage.cycles);
  for (size_t k = 0; k < s.outputs.size(); ++k) {
    const auto &dims = s.outputs[k].dims();
    EXPECT_EQ(stage.outputs[k].shape, std::vector<uint64_t>(dims.begin(), dims.end())) << "output " << k;
    EXPECT_EQ(differences(result.outputs[k], floats_of(s.outputs[k])), "") << "chip, output " << k;
  }
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
std::string run_test(const fs::path &test) {
  for (const char *how : {kAsItIs, kConstants}) {
    bool compiled_all = true;
    const std::vector<fs::path> sets = folders_in(test, "test_data_set");
    EXPECT_FALSE(sets.empty()) << "no data";
    for (const fs::path &set : sets) {
      const Sample sample = read_sample(test, set, how == kConstants);
      compiler::Compiled compiled;
      const Status status = compile(sample, compiled);
      compiled_all = compiled_all && status.ok();
      if (!status.ok()) {
        EXPECT_GT(status.message().size(), 10u) << "refused without a reason";
        EXPECT_EQ(status.message().find("internal error"), std::string::npos) << status.message();
        break;
      }
      expect_right_on_chip(sample, compiled.net.stages[0]);
      expect_evaluates(sample);
    }
    if (compiled_all) return how;
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

class OnnxTests : public testing::TestWithParam<const char *> {};

TEST_P(OnnxTests, AreCompiledRightOrRefusedAsListed) {
  const std::string suite = GetParam();
  std::map<std::string, std::string> expected = expected_to_compile(suite);
  EXPECT_FALSE(expected.empty()) << "nothing is listed";
  const std::vector<fs::path> tests = folders_in(fs::path(NPU_ONNX_TESTDATA) / suite);
  ASSERT_FALSE(tests.empty()) << "no tests in " NPU_ONNX_TESTDATA ": is the package libonnx-testdata installed?";
  size_t compiled = 0, refused = 0;
  for (const fs::path &test : tests) {
    const std::string name = suite + "/" + test.filename().string();
    SCOPED_TRACE(name);
    const std::string how = run_test(test), listed = expected.count(name) ? expected[name] : "";
    EXPECT_EQ(how, listed) << "empty: refused; onnx_compiled.txt should say " << name << ": " << how;
    expected.erase(name);
    ++(how.empty() ? refused : compiled);
  }
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
