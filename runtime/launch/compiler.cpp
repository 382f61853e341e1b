// SPDX-License-Identifier: MIT
#include "compiler.h"

#include <cstring>
#include <memory>

#include "npu_beside_internal.h"

namespace npurt {

namespace {

struct Library {
  npu_compile_entry entry = nullptr;
  Reason why;
};

/// Loaded once, for ever.
const Library &library() {
  static const Library *const loaded = [] {
    auto *l = new Library;
    const std::string path = npu::beside(reinterpret_cast<const void *>(&compile_network), "libnpuc.so");
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      l->why = std::string("the compiler cannot be loaded: ") + dlerror();
    else if (!(l->entry = reinterpret_cast<npu_compile_entry>(dlsym(handle, NPU_COMPILE_ENTRY))))
      l->why = path + " belongs to another version of libnpurt";
    return l;
  }();
  return *loaded;
}

}  // namespace

Reason read_source(std::span<const uint8_t> binary, std::span<const uint8_t> &network) {
  npu_source_header h;
  if (binary.size() < sizeof h) return "its network (binary_ir) is truncated";
  std::memcpy(&h, binary.data(), sizeof h);
  if (h.magic != NPU_SOURCE_MAGIC) return "its code for dynamic shapes (binary_ir) is another chip's";
  if (h.version != NPU_SOURCE_VERSION || h.header_bytes != sizeof h || h.reserved0 || h.reserved1)
    return "its network (binary_ir) is of version " + std::to_string(h.version) + ", expected " +
           std::to_string(NPU_SOURCE_VERSION);
  if (h.format != NPU_SOURCE_ONNX)
    return "its network (binary_ir) has format " + std::to_string(h.format) + ", expected " +
           std::to_string(NPU_SOURCE_ONNX);
  if (h.bytes != binary.size() - sizeof h)
    return "its network (binary_ir) has " + std::to_string(binary.size() - sizeof h) + " bytes, its header says " +
           std::to_string(h.bytes);
  network = binary.subspan(sizeof h);
  return {};
}

Reason compile_network(const npu_compile_request &request, std::vector<uint8_t> &file) {
  const Library &compiler = library();
  if (!compiler.entry) return compiler.why;
  npu_compile_result result;
  const bool done = compiler.entry(&request, &result);
  const std::unique_ptr<void, decltype(&std::free)> bytes(result.file, std::free);
  const std::unique_ptr<char, decltype(&std::free)> error(result.error, std::free);
  if (!done) return error ? error.get() : "the compiler is out of memory";
  const auto *p = static_cast<const uint8_t *>(bytes.get());
  file.assign(p, p + result.file_bytes);
  return {};
}

}  // namespace npurt
