// SPDX-License-Identifier: MIT
// What the functions of libnpuc.so have in common: requests and results of C.
#ifndef NPU_COMPILER_API_ENTRY_H
#define NPU_COMPILER_API_ENTRY_H

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "compiler/api/npuc.h"
#include "runtime/cpu/subnet.h"

namespace npu::compiler {

/// For the caller to free(). Null: no memory.
inline void *copied(const void *bytes, size_t size) {
  void *const p = std::malloc(size ? size : 1);
  if (p && size) std::memcpy(p, bytes, size);
  return p;
}

/// Types that tensors may be given; all others are what the file says.
template <class Type>
void read_types(const Type *types, uint32_t count, graph::IoTypes::Side &side) {
  for (uint32_t i = 0; i < count; ++i) {
    const graph::Dtype type = cpu::dtype_of_bm(types[i].type);
    if (graph::is_io_type(type)) side.named[types[i].tensor] = type;
  }
}

/// The request's name, shapes and types.
template <class Request>
void read_tensors(const Request &request, Options &options) {
  options.name = request.name ? request.name : "";
  for (uint32_t i = 0; i < request.shape_count; ++i)
    options.shapes[request.shapes[i].input].assign(request.shapes[i].dims,
                                                   request.shapes[i].dims + request.shapes[i].num_dims);
  read_types(request.input_types, request.input_type_count, options.io_types.inputs);
  read_types(request.output_types, request.output_type_count, options.io_types.outputs);
}

/// Fills in the result: the file that f(file) makes, or what it says is wrong. False: there is no file.
template <class F, class Result>
bool answer(F f, Result &result) {
  result = {};
  try {
    std::vector<uint8_t> file;
    const Status status = f(file);
    if (status.ok()) {
      result.file = copied(file.data(), file.size());
      result.file_bytes = file.size();
    } else {
      result.error = static_cast<char *>(copied(status.message().c_str(), status.message().size() + 1));
    }
  } catch (const std::bad_alloc &) {
    return false;
  }
  return result.file != nullptr;
}

}  // namespace npu::compiler

#endif  // NPU_COMPILER_API_ENTRY_H
