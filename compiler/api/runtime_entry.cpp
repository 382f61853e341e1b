// SPDX-License-Identifier: MIT
// libnpuc.so: the compiler for who runs networks, behind one function of C.
#include <algorithm>
#include <cstring>
#include <exception>

#include "compiler/api/entry.h"
#include "runtime/bmodel/source.h"
#include "runtime/cpu/plugin.h"

namespace {

using npu::Status;

Status compile(const npu_compile_request &request, std::vector<uint8_t> &file) {
  npu::compiler::Options options;
  options.lmem_bytes = static_cast<int64_t>(std::min<uint64_t>(request.lmem_bytes, npu::compiler::kMaxLmemBytes));
  npu::compiler::read_tensors(request, options);
  npu::compiler::Compiled compiled;
  NPU_TRY(npu::compiler::compile_onnx(request.network, request.network_bytes, options, compiled));
  return npu::compiler::write_bmodel(compiled, file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool npuc_compile_2(const npu_compile_request *request,
                                                                      npu_compile_result *result) {
  return npu::compiler::answer([&](std::vector<uint8_t> &file) { return compile(*request, file); }, *result);
}

extern "C" __attribute__((visibility("default"))) char *npuc_adopt_plugin_1(void *handle, const char *path) {
  try {
    if (!handle || !path) return ::strdup("null pointer instead of a plug-in");
    const Status status = npu::cpu::adopt_plugin(handle, path);
    return status.ok() ? nullptr : ::strdup(status.message().c_str());
  } catch (const std::exception &e) {
    return ::strdup(e.what());
  }
}
