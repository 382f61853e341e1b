// SPDX-License-Identifier: MIT
// libnpuc.so: the compiler for who runs networks, behind one function of C.
#include <cstdlib>
#include <cstring>

#include "compiler/api/npuc.h"
#include "runtime/bmodel/source.h"
#include "runtime/cpu/subnet.h"

namespace {

using npu::Status;

void *copied(const void *bytes, size_t size) {
  void *const p = std::malloc(size ? size : 1);
  if (p) std::memcpy(p, bytes, size);
  return p;
}

/// Those that tensors may be given; all others are what the file says.
void read_types(const npu_compile_type *types, uint32_t count, npu::graph::IoTypes::Side &side) {
  for (uint32_t i = 0; i < count; ++i) {
    const npu::graph::Dtype type = npu::cpu::dtype_of_bm(types[i].type);
    if (npu::graph::is_io_type(type)) side.named[types[i].tensor] = type;
  }
}

Status compile(const npu_compile_request &request, std::vector<uint8_t> &file) {
  npu::compiler::Options options;
  options.lmem_bytes = static_cast<int64_t>(std::min<uint64_t>(request.lmem_bytes, npu::compiler::kMaxLmemBytes));
  options.name = request.name;
  for (uint32_t i = 0; i < request.shape_count; ++i) {
    const npu_compile_shape &s = request.shapes[i];
    options.shapes[s.input].assign(s.dims, s.dims + s.num_dims);
  }
  read_types(request.input_types, request.input_type_count, options.io_types.inputs);
  read_types(request.output_types, request.output_type_count, options.io_types.outputs);
  npu::compiler::Compiled compiled;
  NPU_TRY(npu::compiler::compile_onnx(request.network, request.network_bytes, options, compiled));
  return npu::compiler::write_bmodel(compiled, file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool npuc_compile_2(const npu_compile_request *request,
                                                                      npu_compile_result *result) {
  *result = {};
  try {
    std::vector<uint8_t> file;
    const Status status = compile(*request, file);
    if (status.ok()) {
      result->file = copied(file.data(), file.size());
      result->file_bytes = file.size();
    } else {
      result->error = static_cast<char *>(copied(status.message().c_str(), status.message().size() + 1));
    }
  } catch (const std::bad_alloc &) {
    return false;
  }
  return result->file != nullptr;
}
