// SPDX-License-Identifier: MIT
#include "ort/ep/compiler.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "compiler/api/npuc_c.h"
#include "npu_beside_internal.h"

namespace npu::ort {
namespace {

struct Library {
  npuc_entry compile = nullptr, explain = nullptr, check = nullptr;
  std::string path;
  Status loaded;
};

/// Loaded once, for ever.
const Library &library() {
  static const Library *const loaded = [] {
    auto *l = new Library;
    l->path = npu::beside(reinterpret_cast<const void *>(&check_options), "libnpuc.so");
    void *const handle = dlopen(l->path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      l->loaded = Status::error(std::string("the compiler cannot be loaded: ") + dlerror());
      return l;
    }
    const auto find = [&](const char *name) { return reinterpret_cast<npuc_entry>(dlsym(handle, name)); };
    l->compile = find(NPUC_COMPILE_ENTRY);
    l->explain = find(NPUC_EXPLAIN_ENTRY);
    l->check = find(NPUC_CHECK_ENTRY);
    if (!l->compile || !l->explain || !l->check)
      l->loaded = Status::error(l->path + " belongs to another version of libqnpu_ep");
    return l;
  }();
  return *loaded;
}

/// A request in the form of C; it refers to what it is made of.
class Call {
 public:
  explicit Call(const CompileRequest &from) {
    for (const auto &[name, dims] : from.shapes)
      shapes_.push_back({name.c_str(), dims.data(), static_cast<uint32_t>(dims.size())});
    for (const auto &[name, type] : from.input_types) inputs_.push_back({name.c_str(), static_cast<uint32_t>(type)});
    for (const auto &[name, type] : from.output_types) outputs_.push_back({name.c_str(), static_cast<uint32_t>(type)});
    for (const auto &[name, value] : from.options) options_.push_back({name.c_str(), value.c_str()});
    if (from.network) {
      request_.network = from.network->data();
      request_.network_bytes = from.network->size();
    }
    request_.name = from.name.c_str();
    request_.shapes = shapes_.data();
    request_.shape_count = static_cast<uint32_t>(shapes_.size());
    request_.input_types = inputs_.data();
    request_.input_type_count = static_cast<uint32_t>(inputs_.size());
    request_.output_types = outputs_.data();
    request_.output_type_count = static_cast<uint32_t>(outputs_.size());
    request_.options = options_.data();
    request_.option_count = static_cast<uint32_t>(options_.size());
  }

  Status run(npuc_entry Library::*entry, std::vector<uint8_t> &file, npuc_result &facts) const {
    const Library &compiler = library();
    NPU_TRY(compiler.loaded);
    const bool done = (compiler.*entry)(&request_, &facts);
    const std::unique_ptr<void, decltype(&std::free)> bytes(facts.file, std::free);
    const std::unique_ptr<char, decltype(&std::free)> error(facts.error, std::free);
    if (!done) return Status::error(error ? error.get() : "the compiler is out of memory");
    const auto *p = static_cast<const uint8_t *>(bytes.get());
    file.assign(p, p + facts.file_bytes);
    return {};
  }

 private:
  npuc_request request_{};
  std::vector<npu_compile_shape> shapes_;
  std::vector<npu_compile_type> inputs_, outputs_;
  std::vector<npuc_option> options_;
};

}  // namespace

Status compile(const CompileRequest &request, CompileResult &out) {
  npuc_result facts{};
  const Status status = Call(request).run(&Library::compile, out.bmodel, facts);
  out.refused = facts.refused;
  NPU_TRY(status);
  out.chip_commands = facts.chip_commands;
  out.host_nodes = facts.host_nodes;
  return {};
}

Status explain(const CompileRequest &request, std::map<size_t, std::string> &problems) {
  npuc_result facts{};
  std::vector<uint8_t> text;
  NPU_TRY(Call(request).run(&Library::explain, text, facts));
  const char *at = reinterpret_cast<const char *>(text.data()), *const end = at + text.size();
  while (at < end) {
    const char *const line_end = std::find(at, end, '\n');
    size_t node = 0;
    const char *const reason = std::from_chars(at, line_end, node).ptr;
    problems[node] = std::string(reason < line_end ? reason + 1 : reason, line_end);
    at = line_end + (line_end < end);
  }
  return {};
}

Status check_options(const std::map<std::string, std::string> &options) {
  CompileRequest request;
  request.options = options;
  npuc_result facts{};
  std::vector<uint8_t> nothing;
  return Call(request).run(&Library::check, nothing, facts);
}

std::string compiler_identity() {
  struct stat s {};
  if (stat(library().path.c_str(), &s) != 0) return "?";
  return std::to_string(s.st_size) + "." + std::to_string(s.st_mtim.tv_sec) + "." + std::to_string(s.st_mtim.tv_nsec);
}

}  // namespace npu::ort
