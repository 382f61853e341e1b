// SPDX-License-Identifier: MIT
// The functions of npuc_c.h.
#include <charconv>

#include "compiler/api/entry.h"
#include "compiler/api/npuc_c.h"
#include "runtime/arrays/file.h"

namespace {

using npu::Status;
using npu::compiler::Options;

Status wrong(const std::string &name, const std::string &value, const std::string &expected) {
  return Status::error("option " + name + "=" + value + ": " + expected + " expected");
}

template <class T>
Status choose(const std::string &name, const std::string &value, const std::map<std::string, T> &known, T &out) {
  const auto it = known.find(value);
  if (it != known.end()) {
    out = it->second;
    return {};
  }
  std::string names;
  for (const auto &[word, meaning] : known) names += (names.empty() ? "" : ", ") + word;
  return wrong(name, value, "one of " + names + " is");
}

Status read_table(const std::string &path, Options &options) {
  std::string text;
  NPU_TRY(npu::arrays::read_file(path, text).within("option quantize_table"));
  return npu::quantize::parse_table(text, options.quantize.table.emplace()).within("option quantize_table=" + path);
}

Status read_option(const std::string &name, const std::string &value, Options &options) {
  using npu::compiler::TakeTurns, npu::graph::Dtype, npu::quantize::Type;
  if (name == "cores") {
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), options.cores);
    if (failed != std::errc() || end != value.data() + value.size() || options.cores < 1 ||
        options.cores > npu::compiler::kMaxCores)
      return wrong(name, value, "a number from 1 to " + std::to_string(npu::compiler::kMaxCores) + " is");
    return {};
  }
  if (name == "lmem") {
    if (!npu::compiler::parse_size(value, options.lmem_bytes))
      return wrong(name, value, "a size such as 262144, 256K or 8M is");
    return npu::compiler::check_lmem(options.lmem_bytes).within("option lmem=" + value);
  }
  if (name == "reals")
    return choose<Dtype>(name, value, {{"fp32", Dtype::F32}, {"fp16", Dtype::F16}, {"bf16", Dtype::BF16}},
                         options.reals);
  if (name == "turns")
    return choose<TakeTurns>(name, value, {{"faster", TakeTurns::Faster}, {"never", TakeTurns::Never}}, options.turns);
  if (name == "quantize")
    return choose<Type>(name, value, {{"none", Type::None}, {"int8", Type::Int8}, {"uint8", Type::Uint8}},
                        options.quantize.type);
  if (name == "quantize_table") return read_table(value, options);
  return Status::error("option " + name + ": the options are cores, lmem, reals, turns, quantize, quantize_table");
}

Status read_request(const npuc_request &request, Options &options) {
  options.failing_branches = false;  // ONNX Runtime's own provider computes what cannot be compiled
  for (uint32_t i = 0; i < request.option_count; ++i)
    NPU_TRY(read_option(request.options[i].name, request.options[i].value, options));
  const bool integers = options.quantize.type != npu::quantize::Type::None;
  if (integers != options.quantize.table.has_value())
    return Status::error("options quantize and quantize_table: one is given without the other");
  npu::compiler::read_tensors(request, options);
  return {};
}

Status compile(const npuc_request &request, npuc_result &result, std::vector<uint8_t> &file) {
  Options options;
  NPU_TRY(read_request(request, options));
  npu::compiler::Compiled compiled;
  const Status status = npu::compiler::compile_onnx(request.network, request.network_bytes, options, compiled);
  result.refused = !status.ok() && status.code() != -ENOMEM;
  NPU_TRY(status);
  const npu::compiler::Report &report = compiled.report;
  result.chip_commands = report.tiu_commands + report.gdma_commands;
  result.host_nodes = report.host_nodes;
  result.cycles = report.cycles;
  return npu::compiler::write_bmodel(compiled, file);
}

Status explain(const npuc_request &request, npuc_result &, std::vector<uint8_t> &file) {
  Options options;
  NPU_TRY(read_request(request, options));
  npu::compiler::Explanation explanation;
  NPU_TRY(npu::compiler::explain_onnx(request.network, request.network_bytes, options, false, explanation));
  std::string text;
  for (const npu::compiler::NodePlace &p : explanation.nodes) {
    if (p.compiled) continue;
    std::string reason = p.reason;
    for (char &c : reason) c = c == '\n' ? ' ' : c;
    text += std::to_string(p.node) + " " + reason + "\n";
  }
  file.assign(text.begin(), text.end());
  return {};
}

Status check(const npuc_request &request, npuc_result &, std::vector<uint8_t> &) {
  Options options;
  return read_request(request, options);
}

template <class F>
bool answer(F f, const npuc_request *request, npuc_result *result) {
  return npu::compiler::answer([&](std::vector<uint8_t> &file) { return f(*request, *result, file); }, *result);
}

}  // namespace

#define NPUC_EXPORT extern "C" __attribute__((visibility("default")))

NPUC_EXPORT bool npuc_compile_onnx_2(const npuc_request *request, npuc_result *result) {
  return answer(compile, request, result);
}

NPUC_EXPORT bool npuc_explain_2(const npuc_request *request, npuc_result *result) {
  return answer(explain, request, result);
}

NPUC_EXPORT bool npuc_check_options_2(const npuc_request *request, npuc_result *result) {
  return answer(check, request, result);
}
