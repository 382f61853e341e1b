// SPDX-License-Identifier: MIT
#include "runtime/cpu/plugin.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/include/npu_plugin.h"

namespace npu::cpu {
namespace {

std::string file_name(const std::string &path) { return path.substr(path.rfind('/') + 1); }

std::string full_name(const std::string &domain, const std::string &op) {
  return domain.empty() ? op : domain + "." + op;
}

struct Operator {
  const npu_plugin_op *table;
  std::string library;  ///< file name
};

/// The libraries of the process; never destroyed, since threads may still compute while it ends.
struct Registry {
  std::mutex lock;  ///< protects all members
  std::vector<LoadedPlugin> libraries;
  std::map<std::pair<std::string, std::string>, Operator> operators;  ///< by domain and type
  std::string environment_error;                                      ///< why a library of NPU_PLUGINS is not loaded
};

Registry &plain_registry() {
  static auto *const registry = new Registry;
  return *registry;
}

/// Reserved fields belong to later versions.
template <size_t count>
bool is_null(const void *const (&reserved)[count]) {
  return std::ranges::none_of(reserved, [](const void *p) { return p; });
}

Status check_operator(const npu_plugin_op &op, uint32_t number) {
  const std::string name = op.domain && op.name ? full_name(op.domain, op.name) : "number " + std::to_string(number);
  const auto wrong = [&](const char *what) { return Status::error("operator " + name + ": " + what); };
  if (!op.domain || !op.name || !*op.name) return wrong("it has no domain or no name");
  if (!op.infer || !op.compute) return wrong("infer or compute is null");
  if (op.least_inputs > op.most_inputs || op.most_inputs < 1)
    return wrong("least_inputs and most_inputs are not in order, or most_inputs is 0");
  if (op.least_outputs < 1 || op.least_outputs > op.most_outputs || op.most_outputs > NPU_PLUGIN_MAX_OUTPUTS)
    return wrong("least_outputs and most_outputs are not in order, or outside of 1 to 16");
  return is_null(op.reserved) ? Status() : wrong("a reserved field is not null");
}

Status check_table(const npu_plugin *table) {
  if (!table) return Status::error("npu_plugin_entry() returns null");
  if (table->version < 1 || table->version > NPU_PLUGIN_VERSION)
    return Status::error("it is of version " + std::to_string(table->version) + ", expected version " +
                         std::to_string(NPU_PLUGIN_VERSION) +
                         " or an older one: compile it with the npu_plugin.h of this installation");
  if (!table->ops || !table->op_count) return Status::error("it has no operators");
  if (!is_null(table->reserved)) return Status::error("a reserved field is not null");
  for (uint32_t i = 0; i < table->op_count; ++i) NPU_TRY(check_operator(table->ops[i], i));
  return {};
}

/// "ai.onnx" is another name of ONNX's own domain.
std::string domain_of(const npu_plugin_op &op) { return std::strcmp(op.domain, "ai.onnx") == 0 ? "" : op.domain; }

Status register_library(Registry &r, void *handle, const std::string &path, const npu_plugin &table) {
  const std::lock_guard hold(r.lock);
  for (const LoadedPlugin &l : r.libraries)
    if (l.handle == handle) return {};
  std::map<std::pair<std::string, std::string>, Operator> operators;
  for (uint32_t i = 0; i < table.op_count; ++i) {
    const npu_plugin_op &op = table.ops[i];
    const std::pair key(domain_of(op), std::string(op.name));
    const auto known = r.operators.find(key);
    if (known != r.operators.end() || !operators.emplace(key, Operator{&op, file_name(path)}).second)
      return Status::error("operator " + full_name(key.first, key.second) + ": plug-in " +
                           (known != r.operators.end() ? known->second.library : file_name(path)) + " has it already");
  }
  // Both or neither: without memory, the library is closed again.
  r.libraries.push_back({handle, path});
  r.operators.merge(operators);
  return {};
}

/// "TEXT: what it says", or TEXT of an exception that says nothing.
std::string with_reason(const std::string &text, const std::exception &e) {
  return e.what() ? text + ": " + e.what() : text;
}

/// Calls npu_plugin_entry(), which no exception may leave.
Status call_entry(const npu_plugin *(*entry)(), const npu_plugin *&table) {
  try {
    table = entry();
    return {};
  } catch (const abi::__forced_unwind &) {  // the thread ends
    throw;
  } catch (const std::exception &e) {
    return Status::error(with_reason("a C++ exception left npu_plugin_entry()", e));
  } catch (...) {
    return Status::error("a C++ exception left npu_plugin_entry()");
  }
}

Status adopt_into(Registry &r, void *handle, const std::string &path) {
  const auto entry = reinterpret_cast<const npu_plugin *(*)()>(::dlsym(handle, "npu_plugin_entry"));
  if (!entry) return Status::error("it has no function npu_plugin_entry(), which every plug-in has (npu_plugin.h)");
  const npu_plugin *table = nullptr;
  NPU_TRY(call_entry(entry, table));
  NPU_TRY(check_table(table));
  return register_library(r, handle, path, *table);
}

Status load_into(Registry &r, const std::string &path) {
  // A name without a slash is a file, too: dlopen() would look for it among the system's libraries.
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) return Status::error("plug-in " + path + ": " + std::strerror(errno));
  std::unique_ptr<void, int (*)(void *)> handle(::dlopen(real.get(), RTLD_NOW | RTLD_LOCAL), ::dlclose);
  if (!handle) return Status::error("plug-in " + path + " cannot be loaded: " + ::dlerror());
  NPU_TRY(adopt_into(r, handle.get(), real.get()).within("plug-in " + path));
  (void)handle.release();
  return {};
}

void load_environment(Registry &r) {
  const char *const list = ::secure_getenv("NPU_PLUGINS");
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string path(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    if (path.empty()) continue;
    if (const Status status = load_into(r, path); !status.ok() && r.environment_error.empty())
      r.environment_error = "NPU_PLUGINS: " + status.message();
  }
}

/// With the libraries of NPU_PLUGINS.
Registry &registry() {
  static std::once_flag once;
  Registry &r = plain_registry();
  std::call_once(once, load_environment, r);
  return r;
}

bool find_operator(const std::string &domain, const std::string &op, Operator &out) {
  Registry &r = registry();
  const std::lock_guard hold(r.lock);
  const auto it = r.operators.find({domain, op});
  if (it != r.operators.end()) out = it->second;
  return it != r.operators.end();
}

Status need_operator(const PluginAttrs &attrs, Operator &out) {
  if (find_operator(attrs.domain, attrs.op, out)) return {};
  const std::string &why = registry().environment_error;
  return Status::error("operator " + full_name(attrs.domain, attrs.op) + " is in the plug-in " +
                       file_name(attrs.library) +
                       ", which is not loaded: name its file in NPU_PLUGINS, bmrt_load_plugin(), "
                       "qnpu.load_plugin() or --plugin" +
                       (why.empty() ? "" : " (" + why + ")"));
}

bool is_plugin_type(Dtype type) {
  switch (type) {
    case Dtype::F32:
    case Dtype::U8:
    case Dtype::I8:
    case Dtype::U16:
    case Dtype::I16:
    case Dtype::I32:
    case Dtype::I64:
    case Dtype::Bool:
    case Dtype::U32:
    case Dtype::U64:
      return true;
    case Dtype::Undefined:
    case Dtype::String:
    case Dtype::F16:
    case Dtype::F64:
    case Dtype::BF16:
      break;
  }
  return false;
}

Status check_plugin_tensor(const std::string &what, const TensorKind &kind) {
  if (!is_plugin_type(kind.dtype))
    return Status::error(what + " is " + dtype_name(kind.dtype) + ", which operators of plug-ins do not have");
  if (kind.shape.size() > NPU_PLUGIN_MAX_DIMS)
    return Status::error(what + " has " + std::to_string(kind.shape.size()) + " dimensions, expected at most " +
                         std::to_string(NPU_PLUGIN_MAX_DIMS));
  if (element_count(kind.shape) < 0)
    return Status::error(what + " has the shape " + shape_text(kind.shape) +
                         ", expected dimensions of 0 or more, and " + std::to_string(kMaxElements) +
                         " elements at most");
  return {};
}

npu_plugin_tensor tensor_of(const TensorKind &kind, const void *data) {
  npu_plugin_tensor t{};
  t.type = static_cast<uint32_t>(kind.dtype);
  t.rank = static_cast<uint32_t>(kind.shape.size());
  std::copy(kind.shape.begin(), kind.shape.end(), t.dims);
  t.count = static_cast<uint64_t>(element_count(kind.shape));
  t.data = const_cast<void *>(data);
  return t;
}

/// The error with the operator and its library in front.
Status named(const Status &status, const PluginAttrs &attrs, const Operator &op) {
  return status.within("operator " + full_name(attrs.domain, attrs.op) + " of plug-in " + op.library);
}

/// One call of a callback, with all that it may look at.
class Call : private npu_plugin_call {
 public:
  Call(const PluginAttrs &attrs, const Operator &op, std::vector<npu_plugin_tensor> inputs,
       std::vector<npu_plugin_tensor> outputs)
      : npu_plugin_call{}, attrs_(attrs), operator_(op), in_(std::move(inputs)), out_(std::move(outputs)) {
    this->op = op.table;
    input_count = static_cast<uint32_t>(in_.size());
    output_count = static_cast<uint32_t>(out_.size());
    this->inputs = in_.data();
    this->outputs = out_.data();
    for (const PluginAttribute &a : attrs.attributes) {
      std::vector<const char *> &texts = texts_.emplace_back();
      for (const std::string &s : a.strings) texts.push_back(s.c_str());
      // Attributes of other kinds in a file may have a tensor that nothing has checked.
      tensors_.push_back(a.kind == PluginValue::Tensor ? tensor_of(a.tensor, a.tensor.data.data())
                                                       : npu_plugin_tensor{});
    }
    get_ints = [](const npu_plugin_call *call, const char *name, uint64_t *count) {
      const Call &c = of(call);
      return c.list(
          name, PluginValue::Ints, count, [&](size_t i) -> auto & { return c.attrs_.attributes[i].ints; });
    };
    get_floats = [](const npu_plugin_call *call, const char *name, uint64_t *count) {
      const Call &c = of(call);
      return c.list(
          name, PluginValue::Floats, count, [&](size_t i) -> auto & { return c.attrs_.attributes[i].floats; });
    };
    get_strings = [](const npu_plugin_call *call, const char *name, uint64_t *count) {
      const Call &c = of(call);
      return c.list(
          name, PluginValue::Strings, count, [&](size_t i) -> auto & { return c.texts_[i]; });
    };
    get_tensor = [](const npu_plugin_call *call, const char *name) -> const npu_plugin_tensor * {
      const Call &c = of(call);
      const size_t i = c.find(name, PluginValue::Tensor);
      return i < c.tensors_.size() ? &c.tensors_[i] : nullptr;
    };
    fail = [](const npu_plugin_call *call, const char *reason) {
      of(call).set_error([&] { return reason && *reason ? std::string(reason) : "it failed and gave no reason"; });
    };
  }
  Call(const Call &) = delete;  // the base points into the vectors
  Call &operator=(const Call &) = delete;

  const std::vector<npu_plugin_tensor> &results() const { return out_; }

  Status run(int (*callback)(const npu_plugin_call *)) {
    int status = 0;
    try {
      status = callback(this);
    } catch (const abi::__forced_unwind &) {  // the thread ends
      throw;
    } catch (const std::exception &e) {
      set_error([&] { return with_reason("a C++ exception left it", e); });
    } catch (...) {
      set_error([] { return std::string("a C++ exception left it"); });
    }
    if (status != 0)
      set_error([&] { return "it failed with status " + std::to_string(status) + " and gave no reason"; });
    const std::lock_guard hold(lock_);
    if (!failed_) return {};
    return named(Status::error(error_.empty() ? "it failed, and there is no memory for the reason" : error_), attrs_,
                 operator_);
  }

 private:
  static const Call &of(const npu_plugin_call *call) { return *static_cast<const Call *>(call); }

  /// The first error of all threads counts. Plug-ins call this through C.
  template <class F>
  void set_error(F text) const noexcept {
    const std::lock_guard hold(lock_);
    if (failed_) return;
    failed_ = true;
    try {
      error_ = text();
    } catch (const std::bad_alloc &) {  // it stays empty
    }
  }

  /// The place of an attribute, or SIZE_MAX. A list without elements has any type.
  size_t find(const char *name, PluginValue kind) const noexcept {
    for (size_t i = 0; name && i < attrs_.attributes.size(); ++i) {
      const PluginAttribute &a = attrs_.attributes[i];
      if (a.name != name) continue;
      const bool empty = a.kind == PluginValue::Ints && a.ints.empty();
      if (a.kind == kind || (empty && kind != PluginValue::Tensor)) return i;
      constexpr const char *kTexts[] = {"integers", "floats", "strings", "a tensor"};
      set_error([&] {
        return "attribute '" + a.name + "' has " + kTexts[static_cast<size_t>(a.kind)] + ", expected " +
               kTexts[static_cast<size_t>(kind)];
      });
    }
    return SIZE_MAX;
  }

  template <class F>
  auto list(const char *name, PluginValue kind, uint64_t *count, F values) const -> decltype(values(0).data()) {
    const size_t i = find(name, kind);
    if (count) *count = i == SIZE_MAX ? 0 : values(i).size();
    if (i == SIZE_MAX) return nullptr;
    static constexpr uint64_t kNothing = 0;  // an empty list is not null
    return values(i).empty() ? reinterpret_cast<decltype(values(i).data())>(&kNothing) : values(i).data();
  }

  const PluginAttrs &attrs_;
  const Operator operator_;
  std::vector<npu_plugin_tensor> in_, out_, tensors_;
  std::vector<std::vector<const char *>> texts_;
  mutable std::mutex lock_;
  mutable std::string error_;    // under lock_; empty after a failure for whose reason there was no memory
  mutable bool failed_ = false;  // under lock_
};

/// One that may come from a file.
Status check_attribute(const PluginAttribute &a) {
  if (a.kind > PluginValue::Tensor)
    return Status::error("values of kind " + std::to_string(static_cast<int>(a.kind)) + ", there are 0 to 3");
  if (a.kind != PluginValue::Tensor) return {};
  NPU_TRY(check_plugin_tensor("the tensor", a.tensor));
  const auto bytes = static_cast<uint64_t>(element_count(a.tensor.shape)) * dtype_bytes(a.tensor.dtype);
  return a.tensor.data.size() == bytes ? Status()
                                       : Status::error("a tensor of " + std::to_string(a.tensor.data.size()) +
                                                       " bytes, expected " + std::to_string(bytes));
}

/// The number of inputs, and which of them may be left out.
Status check_inputs(const npu_plugin_op &op, std::span<const TensorKind *const> operands) {
  if (operands.size() > op.most_inputs)
    return Status::error(std::to_string(operands.size()) + " inputs, expected at most " +
                         std::to_string(op.most_inputs));
  for (size_t k = 0; k < std::max<size_t>(operands.size(), op.least_inputs); ++k) {
    const bool missing = k >= operands.size() || !operands[k];
    if (missing && k < op.least_inputs) return Status::error("input " + std::to_string(k) + " is missing");
    if (!missing) NPU_TRY(check_plugin_tensor("input " + std::to_string(k), *operands[k]));
  }
  return {};
}

Status check_outputs(const std::vector<npu_plugin_tensor> &got, std::vector<TensorKind> &out) {
  out.clear();
  for (size_t k = 0; k < got.size(); ++k) {
    const std::string what = "output " + std::to_string(k);
    if (got[k].type == 0) return Status::error("infer() does not set " + what);
    if (got[k].rank > NPU_PLUGIN_MAX_DIMS)
      return Status::error(what + " has " + std::to_string(got[k].rank) + " dimensions, expected at most " +
                           std::to_string(NPU_PLUGIN_MAX_DIMS));
    const Dtype type = got[k].type > UINT8_MAX ? Dtype::Undefined : static_cast<Dtype>(got[k].type);
    out.push_back({type, Shape(got[k].dims, got[k].dims + got[k].rank)});
    NPU_TRY(check_plugin_tensor(what, out.back()));
  }
  return {};
}

}  // namespace

Status load_plugin(const std::string &path) { return load_into(registry(), path); }

Status adopt_plugin(void *handle, const std::string &path) {
  return adopt_into(registry(), handle, path).within("plug-in " + path);
}

std::vector<LoadedPlugin> plugin_libraries() {
  Registry &r = registry();
  const std::lock_guard hold(r.lock);
  return r.libraries;
}

std::vector<std::string> loaded_plugins() {
  std::vector<std::string> out;
  for (const LoadedPlugin &l : plugin_libraries()) out.push_back(l.path);
  return out;
}

bool find_plugin_operator(const std::string &domain, const std::string &op, std::string &library) {
  Operator found;
  if (!find_operator(domain, op, found)) return false;
  library = found.library;
  return true;
}

Status infer_plugin(PluginAttrs &attrs, std::span<const TensorKind *const> operands) {
  Operator op;
  NPU_TRY(need_operator(attrs, op));
  for (const PluginAttribute &a : attrs.attributes)
    NPU_TRY(named(check_attribute(a).within("attribute '" + a.name + "'"), attrs, op));
  NPU_TRY(named(check_inputs(*op.table, operands), attrs, op));
  if (attrs.outputs.size() < op.table->least_outputs || attrs.outputs.size() > op.table->most_outputs)
    return named(
        Status::error(std::to_string(attrs.outputs.size()) + " outputs, expected " +
                      std::to_string(op.table->least_outputs) + " to " + std::to_string(op.table->most_outputs)),
        attrs, op);
  std::vector<npu_plugin_tensor> inputs, outputs(attrs.outputs.size());
  for (const TensorKind *kind : operands) inputs.push_back(kind ? tensor_of(*kind, nullptr) : npu_plugin_tensor{});
  Call call(attrs, op, std::move(inputs), std::move(outputs));
  NPU_TRY(call.run(op.table->infer));
  return named(check_outputs(call.results(), attrs.outputs), attrs, op);
}

Status pack_outputs(std::span<const TensorKind> outputs, std::vector<int64_t> &offsets, TensorKind &packed) {
  constexpr int64_t kAlignment = 64;
  int64_t end = 0;
  offsets.clear();
  for (const TensorKind &kind : outputs) {
    offsets.push_back((end + kAlignment - 1) / kAlignment * kAlignment);
    end = offsets.back() + element_count(kind.shape) * dtype_bytes(kind.dtype);
    if (end > kMaxElements)
      return Status::error("the outputs have more than " + std::to_string(kMaxElements) + " bytes together");
  }
  packed = {Dtype::U8, {end}};
  return {};
}

Status check_plugin(const PluginAttrs &attrs, std::span<const TensorKind *const> operands, TensorKind &packed) {
  PluginAttrs now = attrs;
  NPU_TRY(infer_plugin(now, operands));
  for (size_t k = 0; k < now.outputs.size(); ++k)
    if (!(now.outputs[k] == attrs.outputs[k]))
      return Status::error("operator " + full_name(attrs.domain, attrs.op) + ": output " + std::to_string(k) +
                           " of the plug-in is " + kind_text(now.outputs[k]) + ", the network was compiled with " +
                           kind_text(attrs.outputs[k]) + ": compile it with this plug-in");
  std::vector<int64_t> offsets;
  return pack_outputs(now.outputs, offsets, packed);
}

Status run_plugin(const PluginAttrs &attrs, std::span<const Tensor *const> operands, Tensor &packed) {
  Operator op;
  NPU_TRY(need_operator(attrs, op));
  std::vector<int64_t> offsets;
  TensorKind kind;
  NPU_TRY(pack_outputs(attrs.outputs, offsets, kind));
  std::vector<npu_plugin_tensor> inputs, outputs;
  for (const Tensor *t : operands) inputs.push_back(t ? tensor_of(*t, t->data.data()) : npu_plugin_tensor{});
  for (size_t k = 0; k < offsets.size(); ++k)
    outputs.push_back(tensor_of(attrs.outputs[k], packed.data.data() + offsets[k]));
  return Call(attrs, op, std::move(inputs), std::move(outputs)).run(op.table->compute);
}

}  // namespace npu::cpu
