// SPDX-License-Identifier: MIT
// libFuzzer target: whatever bytes come, an ONNX file is refused with a reason or becomes a program.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/api/npuc.h"
#include "compiler/import/raw_model.h"
#include "runtime/bmodel/container.h"
#include "runtime/bmodel/flow.h"

/// Programs that it has read back: a test that runs some inputs sees by this that not all were refused.
unsigned long fuzz_onnx_programs;

namespace {

using namespace npu;

constexpr int64_t kMostElements = 1 << 14;
constexpr std::string_view kInternalError = "internal error";  // begins messages that must never appear

/// Sizes that only cost time are left out: small networks have the same paths.
bool is_small(const graph::RawModel &model) {
  if (model.nodes.size() > 64) return false;
  const auto fits = [](const graph::Shape &shape) {
    const int64_t count = graph::element_count(shape);
    return count >= 0 && count <= kMostElements;
  };
  for (const auto &[name, tensor] : model.initializers)
    if (!fits(tensor->shape)) return false;
  for (const graph::RawValue &input : model.inputs) {
    graph::Shape shape;
    for (const graph::RawDim &d : input.dims) shape.push_back(d.value < 0 ? 1 : d.value);
    if (!fits(shape)) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Messages quote names of the file: one that reads like such a message says nothing.
  if (std::string_view(reinterpret_cast<const char *>(data), size).find(kInternalError) != std::string_view::npos)
    return 0;
  graph::RawModel raw;
  const Status read = graph::read_onnx(data, size, raw);
  if (!read.ok() && read.message().empty()) std::abort();
  if (!read.ok() || !is_small(raw)) return 0;
  compiler::Options options;
  options.lmem_bytes = 64 << 10;
  compiler::Compiled compiled;
  const Status status = compiler::compile_onnx(data, size, options, compiled);
  if (!status.ok()) {
    if (status.message().find(kInternalError) != std::string::npos) std::abort();
    return 0;
  }
  // What it writes, the reader of files accepts.
  std::vector<uint8_t> file;
  if (!compiler::write_bmodel(compiled, file).ok()) return 0;
  std::unique_ptr<bmodel::Container> container;
  if (!bmodel::Container::from_memory(file.data(), file.size(), container).ok()) std::abort();
  const auto *net = container->model().net()->Get(0);
  const auto &stage = *net->parameter()->Get(0);
  bmodel::Flow flow;
  bmodel::Program program;
  const Status back = bmodel::has_flow(stage) ? bmodel::read_flow(*container, stage, flow)
                                              : bmodel::read_program(*container, *net, stage, program);
  if (!back.ok()) std::abort();
  fuzz_onnx_programs++;
  return 0;
}
