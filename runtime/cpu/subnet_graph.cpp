// SPDX-License-Identifier: MIT
#include "runtime/cpu/subnet_graph.h"

#include "runtime/cpu/subnet.h"

namespace npu::cpu {
namespace {

Status check_tensor(const char *what, size_t number, const TensorKind &stored, const TensorKind &kind) {
  if (holds(stored, kind)) return {};
  return Status::error(std::string(what) + " " + std::to_string(number) + " is " + kind_text(stored) +
                       ", the graph has " + kind_text(kind));
}

Status check_count(const char *what, size_t got, size_t expected) {
  return got == expected
             ? Status()
             : Status::error(std::to_string(got) + " " + what + ", the graph has " + std::to_string(expected));
}

}  // namespace

StoredKind stored_kind(const TensorKind &kind) {
  for (uint32_t number = 0; dtype_of_bm(number) != Dtype::Undefined; ++number)
    if (dtype_of_bm(number) == kind.dtype) return {number, kind.shape};
  return {bm_type_of(Dtype::U8), {element_count(kind.shape) * dtype_bytes(kind.dtype)}};
}

bool holds(const TensorKind &stored, const TensorKind &kind) {
  const int64_t have = element_count(stored.shape), want = element_count(kind.shape);
  if (stored.dtype == kind.dtype) return have == want;
  return stored.dtype == Dtype::U8 && dtype_of_bm(stored_kind(kind).bm_type) == Dtype::U8 &&
         have == want * dtype_bytes(kind.dtype);
}

Status read_subnet_graph(std::span<const uint8_t> bytes, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs, HostGraph &graph) {
  NPU_TRY(decode_host_graph(bytes, graph));
  NPU_TRY(check_count("inputs", inputs.size(), graph.inputs.size()));
  NPU_TRY(check_count("outputs", outputs.size(), graph.outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) NPU_TRY(check_tensor("input", i, inputs[i], graph.inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    NPU_TRY(check_tensor("output", i, outputs[i], graph.kinds[static_cast<size_t>(graph.outputs[i])]));
  return {};
}

Status run_subnet_graph(const HostGraph &graph, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  std::vector<Tensor> in(inputs.begin(), inputs.end()), out;
  for (size_t i = 0; i < in.size(); ++i) static_cast<TensorKind &>(in[i]) = graph.inputs[i];
  NPU_TRY(run_host_graph(graph, in, out));
  for (size_t i = 0; i < out.size(); ++i) outputs[i].data = std::move(out[i].data);
  return {};
}

}  // namespace npu::cpu
