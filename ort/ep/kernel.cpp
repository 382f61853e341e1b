// SPDX-License-Identifier: MIT
#include "ort/ep/kernel.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ort/ep/cache.h"
#include "ort/ep/compiler.h"
#include "ort/ep/memory.h"
#include "ort/ep/stream.h"

namespace npu::ort {
namespace {

std::string shape_text(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

size_t count_of(const Shape &shape) {
  size_t n = 1;
  for (int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

/// Numbers of 64 bits in 32. One that does not fit is an error.
template <class Wide, class Narrow>
Status narrow(const void *from, size_t count, const std::string &name, void *to) {
  for (size_t i = 0; i < count; ++i) {
    Wide v;
    std::memcpy(&v, static_cast<const char *>(from) + i * sizeof v, sizeof v);
    if (v < static_cast<Wide>(std::numeric_limits<Narrow>::min()) ||
        v > static_cast<Wide>(std::numeric_limits<Narrow>::max()))
      return Status::error("input '" + name + "': element " + std::to_string(i) + " is " + std::to_string(v) +
                           ", the chip has integers of 32 bits");
    const auto n = static_cast<Narrow>(v);
    std::memcpy(static_cast<char *>(to) + i * sizeof n, &n, sizeof n);
  }
  return {};
}

template <class Wide, class Narrow>
void widen(const void *from, size_t count, void *to) {
  for (size_t i = 0; i < count; ++i) {
    Narrow n;
    std::memcpy(&n, static_cast<const char *>(from) + i * sizeof n, sizeof n);
    const Wide v = n;
    std::memcpy(static_cast<char *>(to) + i * sizeof v, &v, sizeof v);
  }
}

}  // namespace

/// A tensor of ONNX Runtime's during a run.
struct Operand {
  const Port *port = nullptr;
  Shape shape;
  const OrtValue *value = nullptr;  ///< null for an output
  void *bytes = nullptr;
  bool on_card = false;
  CardMemory own;  ///< what the chip uses in its place
  uint64_t address = 0;

  size_t count() const { return count_of(shape); }
  size_t host_bytes() const { return count() * element_size(port->type); }
  size_t chip_bytes() const { return host_bytes() / (is_wide(port->type) ? 2 : 1); }
};

namespace {

/// Whether a tensor is on this card; what is neither there nor in the host's memory cannot be used.
Status find_memory(const Card &card, const OrtValue *value, bool &on_card) {
  std::optional<int> number;
  NPU_TRY(card_of(value, number));
  if (number.value_or(card.index()) != card.index())
    return Status::error("it is on NPU " + std::to_string(*number) + ", and the session on NPU " +
                         std::to_string(card.index()));
  on_card = number.has_value();
  return {};
}

Status check_type(const Ort::TensorTypeAndShapeInfo &info, const Port &port) {
  if (info.GetElementType() == port.type) return {};
  return Status::error("its elements have ONNX type " + std::to_string(info.GetElementType()) +
                       ", and those of its network " + std::to_string(port.type));
}

Status read_input(const Ort::KernelContext &context, const Card &card, const Port &port, Operand &out) {
  const Ort::ConstValue value = context.GetInput(port.place);
  if (!value) return Status::error("input '" + port.name + "' is left out");
  const Ort::TensorTypeAndShapeInfo info = value.GetTensorTypeAndShapeInfo();
  NPU_TRY(check_type(info, port).within("input '" + port.name + "'"));
  out.port = &port;
  out.shape = info.GetShape();
  out.bytes = const_cast<void *>(value.GetTensorRawData());
  out.value = value;
  return find_memory(card, value, out.on_card).within("input '" + port.name + "'");
}

Status check_not_empty(const std::vector<Operand> &inputs) {
  for (const Operand &o : inputs)
    if (o.count() == 0)
      return Status::error("input '" + o.port->name + "' of the shape " + shape_text(o.shape) +
                           " is empty, and the NPU computes nothing from that");
  return {};
}

/// A copy of a tensor on the card in the host's memory.
Status copy_to_host(const Card &card, const Operand &o, Ort::Value &out) {
  Ort::AllocatorWithDefaultOptions allocator;
  out = Ort::Value::CreateTensor(allocator, o.shape.data(), o.shape.size(), o.port->type);
  return o.count() ? card.read(out.GetTensorMutableRawData(), address_of(o.bytes), o.host_bytes()) : Status();
}

/// Gives ONNX Runtime an output that is in the host's memory.
Status give_output(const Ort::KernelContext &context, const Card &card, const Port &port, const Ort::Value &from) {
  const Ort::TensorTypeAndShapeInfo info = from.GetTensorTypeAndShapeInfo();
  NPU_TRY(check_type(info, port).within("output '" + port.name + "'"));
  Ort::UnownedValue value = context.GetOutput(port.place, info.GetShape());
  const size_t bytes = value ? from.GetTensorSizeInBytes() : 0;
  if (bytes == 0) return {};
  bool on_card = false;
  NPU_TRY(find_memory(card, value, on_card).within("output '" + port.name + "'"));
  if (on_card) return card.write(address_of(value.GetTensorMutableRawData()), from.GetTensorRawData(), bytes);
  std::memcpy(value.GetTensorMutableRawData(), from.GetTensorRawData(), bytes);
  return {};
}

/// Puts an input where the chip can read it.
Status bring_in(const std::shared_ptr<Card> &card, Operand &o) {
  if (o.on_card && !is_wide(o.port->type)) {
    o.address = address_of(o.bytes);
    return {};
  }
  std::vector<uint8_t> wide, narrowed;
  const void *host = o.bytes;
  if (o.on_card) {
    wide.resize(o.host_bytes());
    NPU_TRY(card->read(wide.data(), address_of(o.bytes), wide.size()));
    host = wide.data();
  }
  if (is_wide(o.port->type)) {
    narrowed.resize(o.chip_bytes());
    NPU_TRY(o.port->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
                ? (narrow<int64_t, int32_t>(host, o.count(), o.port->name, narrowed.data()))
                : (narrow<uint64_t, uint32_t>(host, o.count(), o.port->name, narrowed.data())));
    host = narrowed.data();
  }
  NPU_TRY(o.own.allocate(card, o.chip_bytes()));
  o.address = o.own.address();
  return card->write(o.address, host, o.chip_bytes());
}

/// Has ONNX Runtime make an output, and finds memory for what the chip writes.
Status make_output(const Ort::KernelContext &context, const std::shared_ptr<Card> &card, const Port &port,
                   const Shape &shape, Operand &o) {
  Ort::UnownedValue value = context.GetOutput(port.place, shape);
  o.port = &port;
  o.shape = shape;
  if (value) {
    NPU_TRY(check_type(value.GetTensorTypeAndShapeInfo(), port).within("output '" + port.name + "'"));
    o.bytes = value.GetTensorMutableRawData();
    NPU_TRY(find_memory(*card, value, o.on_card).within("output '" + port.name + "'"));
  }
  if (o.bytes && o.on_card && !is_wide(port.type)) {
    o.address = address_of(o.bytes);
    return {};
  }
  NPU_TRY(o.own.allocate(card, o.chip_bytes()));
  o.address = o.own.address();
  return {};
}

/// Brings an output to where ONNX Runtime wants it. The launch has ended.
Status bring_out(const std::shared_ptr<Card> &card, Operand &o) {
  if (!o.own.address() || !o.bytes) return {};
  std::vector<uint8_t> found(o.chip_bytes()), wide;
  NPU_TRY(card->read(found.data(), o.address, found.size()));
  const std::vector<uint8_t> *host = &found;
  if (is_wide(o.port->type)) {
    wide.resize(o.host_bytes());
    if (o.port->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
      widen<int64_t, int32_t>(found.data(), o.count(), wide.data());
    else
      widen<uint64_t, uint32_t>(found.data(), o.count(), wide.data());
    host = &wide;
  }
  if (o.on_card) return card->write(address_of(o.bytes), host->data(), host->size());
  std::memcpy(o.bytes, host->data(), host->size());
  return {};
}

std::vector<uint64_t> addresses(const std::vector<Operand> &operands) {
  std::vector<uint64_t> out;
  for (const Operand &o : operands) out.push_back(o.address);
  return out;
}

}  // namespace

Status compile_group(const Group &group, const std::vector<uint8_t> &network, const std::vector<Shape> &shapes,
                     const Options &options, CompiledGroup &out) {
  CompileRequest request;
  request.network = &network;
  request.name = group.name;
  request.options = options.compiler;
  std::string key = options.text() + compiler_identity();
  if (const auto table = options.compiler.find("quantize_table"); table != options.compiler.end()) {
    std::vector<uint8_t> bytes;
    if (read_file(table->second, bytes)) key += digest(bytes.data(), bytes.size());
  }
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Port &port = group.inputs[i];
    request.shapes[port.name] = shapes[i];
    key += ";" + port.name + shape_text(shapes[i]);
    if (!stored_type(port.type, request.input_types[port.name])) return Status::error("input '" + port.name + "'");
  }
  for (const Port &port : group.outputs)
    if (!stored_type(port.type, request.output_types[port.name])) return Status::error("output '" + port.name + "'");
  const Cache cache(options.cache);
  const std::string entry = cache.entry(key, network);
  if (cache.find(entry, out.bmodel)) {
    out.on_chip = !out.bmodel.empty();
    return {};
  }
  CompileResult result;
  const Status compiled = compile(request, result);
  out.refused = result.refused;
  out.on_chip = result.chip_commands > 0;
  out.bmodel = std::move(result.bmodel);
  if (compiled.ok() && out.on_chip) cache.keep(entry, out.bmodel);
  return compiled;
}

Kernel::Kernel(std::shared_ptr<Card> card, std::shared_ptr<const Group> group, std::shared_ptr<const Options> options,
               std::shared_ptr<Profile> profile, const OrtLogger *logger)
    : OrtNodeComputeInfo{},
      card_(std::move(card)),
      group_(std::move(group)),
      options_(std::move(options)),
      profile_(std::move(profile)),
      logger_(logger) {
  ort_version_supported = kAbi;
  CreateState = [](OrtNodeComputeInfo *p, OrtNodeComputeContext *, void **state) -> OrtStatus * {
    return *state = p, nullptr;
  };
  Compute = [](OrtNodeComputeInfo *p, void *, OrtKernelContext *context) -> OrtStatus * {
    return guarded([&] { return static_cast<Kernel *>(p)->run(Ort::KernelContext(context)); });
  };
  ReleaseState = [](OrtNodeComputeInfo *, void *) {};
}

Status Kernel::prepare() {
  if (group_->bmodel.empty()) return {};
  std::unique_ptr<Program> program;
  NPU_TRY(Program::load(card_, group_->bmodel, *group_, program));
  Shapes shapes;
  for (size_t i = 0; i < group_->inputs.size(); ++i) shapes.push_back(program->input_shape(i));
  variant_for(shapes)->program = std::move(program);
  return {};
}

/// Sets the variant's program, or `refused` if there is none for these shapes. Its mutex is held.
Status Kernel::make_program(const Shapes &shapes, Variant &variant) const {
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i)
    text += (i ? ", '" : "'") + group_->inputs[i].name + "' " + shape_text(shapes[i]);
  if (group_->network.empty())
    return Status::error("network '" + group_->name + "' was compiled for other shapes than " + text);
  CompiledGroup compiled;
  const Status status = compile_group(*group_, group_->network, shapes, *options_, compiled)
                            .within("network '" + group_->name + "' with " + text);
  if (compiled.refused) variant.refused = status;
  NPU_TRY(status);
  std::unique_ptr<Program> program;
  NPU_TRY(Program::load(card_, compiled.bmodel, *group_, program));
  variant.program = std::move(program);
  return {};
}

/// The variant for these shapes, new or known. The one that was used longest ago is forgotten for a new one.
std::shared_ptr<Kernel::Variant> Kernel::variant_for(const Shapes &shapes) {
  std::shared_ptr<Variant> gone;  // waits for its launches, without the lock
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Variant> &known = variants_[shapes];
  if (!known) known = std::make_shared<Variant>();
  const std::shared_ptr<Variant> found = known;
  found->used = ++uses_;
  if (variants_.size() > kVariants) {
    const auto oldest = std::min_element(variants_.begin(), variants_.end(),
                                         [](const auto &a, const auto &b) { return a.second->used < b.second->used; });
    gone = std::move(oldest->second);
    variants_.erase(oldest);
  }
  return found;
}

/// A variant that failed for another reason than its shapes takes no place: its next run tries again.
void Kernel::forget(const Shapes &shapes, const std::shared_ptr<Variant> &variant) {
  const std::lock_guard lock(mutex_);
  if (const auto at = variants_.find(shapes); at != variants_.end() && at->second == variant) variants_.erase(at);
}

/// Runs with the same new shapes wait for one compilation, others do not. `refused`: the compiler has no program for
/// these shapes, which later runs know without it.
Status Kernel::program_for(const Shapes &shapes, std::shared_ptr<const Program> &out, bool &refused) {
  const std::shared_ptr<Variant> variant = variant_for(shapes);
  Status made;
  {
    const std::lock_guard lock(variant->mutex);
    made = variant->refused;
    if (made.ok() && !variant->program) made = make_program(shapes, *variant);
    refused = !variant->refused.ok();
    out = variant->program;
  }
  if (!made.ok() && !refused) forget(shapes, variant);
  return made;
}

/// Computes the part where the NPU has no program for these shapes, for `reason`. The network is there where a
/// dimension was open.
Status Kernel::run_on_cpu(const Ort::KernelContext &context, const std::vector<Operand> &inputs, const Status &reason) {
  if (!options_->cpu || group_->network.empty()) return reason;
  const std::string text = "on the CPU for these shapes: " + reason.message();
  const OrtLoggingLevel level = warned_.exchange(true) ? ORT_LOGGING_LEVEL_INFO : ORT_LOGGING_LEVEL_WARNING;
  NPU_TRY(
      take(Ort::GetApi().Logger_LogMessage(logger_, level, text.c_str(), ORT_TSTR("kernel.cpp"), __LINE__, "QNPU")));
  NPU_TRY(card_->sync_thread());
  std::vector<Ort::Value> copies, results;
  std::vector<const OrtValue *> values;
  for (const Operand &o : inputs) {
    values.push_back(o.value);
    if (!o.on_card) continue;
    NPU_TRY(copy_to_host(*card_, o, copies.emplace_back(nullptr)));
    values.back() = copies.back();
  }
  NPU_TRY(cpu_.run(*group_, values, results).within(reason.message() + "; and on the CPU"));
  for (size_t i = 0; i < results.size(); ++i) NPU_TRY(give_output(context, *card_, group_->outputs[i], results[i]));
  return {};
}

Status Kernel::run(Ort::KernelContext context) {
  std::vector<Operand> inputs(group_->inputs.size()), outputs(group_->outputs.size());
  std::vector<Shape> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NPU_TRY(read_input(context, *card_, group_->inputs[i], inputs[i]).within("network '" + group_->name + "'"));
    shapes.push_back(inputs[i].shape);
  }
  const bool traced = profile_->active();
  auto begin = Profile::Clock::now();
  const auto trace = [&](const char *what) {
    if (traced) profile_->add_host(group_->name + "_" + what, begin);
    begin = Profile::Clock::now();
  };
  std::shared_ptr<const Program> program;
  Status found = check_not_empty(inputs).within("network '" + group_->name + "'");
  bool refused = !found.ok();
  if (found.ok()) found = program_for(shapes, program, refused);
  trace("program");
  if (!found.ok()) {
    if (!refused) return found;
    NPU_TRY(run_on_cpu(context, inputs, found));
    return trace("cpu"), Status();
  }
  bool to_host = false;
  for (Operand &o : inputs) NPU_TRY(bring_in(card_, o));
  for (size_t i = 0; i < outputs.size(); ++i) {
    NPU_TRY(make_output(context, card_, group_->outputs[i], program->output_shape(i), outputs[i]));
    to_host = to_host || outputs[i].own.address();
  }
  trace("inputs");
  const auto submitted = begin;
  NPU_TRY(program->launch(addresses(inputs), addresses(outputs)));
  trace("submit");
  auto *const stream = static_cast<Stream *>(context.GetGPUComputeStream());
  if (stream && !to_host && !traced) return stream->note(card_), Status();
  NPU_TRY(card_->sync_thread());
  trace("wait");
  if (traced) {
    uint64_t cycles = 0;
    NPU_TRY(program->last_cycles(cycles));
    profile_->add_chip(group_->name + "_npu", submitted, cycles, card_->clock_khz());
  }
  for (Operand &o : outputs) NPU_TRY(bring_out(card_, o));
  trace("outputs");
  return {};
}

}  // namespace npu::ort
