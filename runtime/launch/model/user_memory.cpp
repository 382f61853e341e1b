// SPDX-License-Identifier: MIT
#include "runtime/launch/model/user_memory.h"

#include <algorithm>
#include <vector>

#include "npu_isa.h"
#include "runtime/launch/memory/upload.h"
#include "runtime/launch/model/card.h"
#include "runtime/launch/model/cascade.h"
#include "runtime/launch/model/plan.h"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;

uint64_t Extent::add_once(uint64_t place, uint64_t bytes, bool &is_new) {
  const auto [at, added] = known_.try_emplace({place, bytes});
  is_new = added;
  if (added) at->second = add(bytes, NPU_CMD_BYTES);
  return at->second;
}

uint64_t Extent::add_io(uint64_t bytes, const std::vector<uint64_t> *like) {
  if (!like) return add(bytes, kIoAlign);
  const auto [at, added] = io_.try_emplace(*like);
  if (added) at->second = add(bytes, kIoAlign);
  return at->second;
}

// ---- what a model needs

void Needs::add(const npu::bmodel::Program &program, size_t outputs, std::span<const uint8_t> coeff) {
  instructions.add(code_bytes(program, outputs), NPU_CMD_BYTES);
  bool is_new;
  if (!coeff.empty()) coefficients.add_once(reinterpret_cast<uintptr_t>(coeff.data()), coeff.size(), is_new);
}

namespace {

uint64_t bytes_of(const fb::Binary *b) { return b ? b->size() : 0; }

uint64_t bytes_of(const flatbuffers::Vector<flatbuffers::Offset<fb::CmdGroup>> *groups) {
  uint64_t bytes = 0;
  for (unsigned i = 0; groups && i < groups->size(); ++i)
    bytes += bytes_of(groups->Get(i)->binary_bdc()) + bytes_of(groups->Get(i)->binary_gdma());
  return bytes;
}

void add_coefficients(const fb::NetParameter &p, Needs &needs) {
  const fb::Binary *b = p.coeff_mem() ? p.coeff_mem()->binary_coeff() : nullptr;
  bool is_new;
  if (bytes_of(b)) needs.coefficients.add_once(b->start(), b->size(), is_new);
}

/// What the file says itself.
void add_as_stated(const fb::NetParameter &p, Needs &needs) {
  uint64_t commands = bytes_of(p.cmd_group());
  for (unsigned i = 0; npu::bmodel::has_flow(p) && i < p.sub_net()->size(); ++i)
    commands += bytes_of(p.sub_net()->Get(i)->cmd_group());
  needs.instructions.add(commands, 1);
  add_coefficients(p, needs);
  needs.io.add(p.io_size(), 1);
  needs.activations = std::max(needs.activations, p.ctx_size());
}

/// Of one card, as lay_out() in io_memory.cpp.
void add_io(const fb::NetParameter &p, bool shared, Needs &needs) {
  uint64_t bytes = 0;
  std::vector<uint64_t> sizes;
  for (const npu::bmodel::TensorList *list : {p.input_tensor(), p.output_tensor()}) {
    sizes.push_back(list->size());
    for (const fb::Tensor *t : *list) {
      sizes.push_back(npu::bmodel::tensor_bytes(*t));
      bytes += npu::bmodel::tensor_room(sizes.back());
    }
  }
  needs.io.add_io(bytes, shared ? &sizes : nullptr);
}

/// Commands of a sub-network, or of a stage without any (`sub` null), with the headers in front of them: more than is
/// uploaded.
uint64_t command_bytes(const fb::NetParameter &p, const fb::SubNet *sub) {
  const auto *cores = sub ? sub->core_commands() : nullptr;
  uint64_t bytes = 0;
  for (unsigned i = 0; cores && i < cores->size(); ++i) bytes += bytes_of(cores->Get(i)->gdma_tiu_commands());
  if (bytes == 0 && sub) bytes = bytes_of(sub->cmd_group());
  return bytes ? bytes : bytes_of(p.cmd_group());
}

/// An upper bound from the flatbuffer alone.
void add_from_head(const Container &model, const fb::Net &net, const fb::NetParameter &p, Needs &needs) {
  if (npu::bmodel::is_step(net) || !npu::bmodel::check_supported(model, net, p).ok() ||
      !npu::bmodel::check_tensors(p.input_tensor(), "input").ok() ||
      !npu::bmodel::check_tensors(p.output_tensor(), "output").ok())
    return add_as_stated(p, needs);
  const unsigned subs = p.sub_net() ? p.sub_net()->size() : 0;
  uint64_t between = 0;  // tensors of sub-networks, each as often as it is named
  for (unsigned i = 0; i < std::max(subs, 1u); ++i) {
    const fb::SubNet *sub = subs ? p.sub_net()->Get(i) : nullptr;
    const auto *outputs = sub && sub->output_tensor() ? sub->output_tensor() : p.output_tensor();
    needs.instructions.add(command_bytes(p, sub) + uint64_t{outputs->size()} * NPU_CMD_BYTES, NPU_CMD_BYTES);
    for (const fb::Tensor *t : *outputs) between += npu::bmodel::tensor_bytes(*t) + Plan::kAlign;
  }
  add_coefficients(p, needs);
  add_io(p, net.addr_mode() == ADDR_MODE_BASIC, needs);
  needs.activations =
      std::max(needs.activations, p.ctx_size() + (npu::bmodel::has_flow(p) ? between + Plan::kAlign : 0));
}

void add_stage(const Container &model, const fb::Net &net, const fb::NetParameter &p, Needs &needs) {
  if (model.head_only()) return add_from_head(model, net, p, needs);
  npu::bmodel::Flow flow;
  npu::bmodel::Program program;
  const bool flows = npu::bmodel::has_flow(p);
  const auto coeff = p.coeff_mem() ? model.binary(p.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
  const auto read = [&] {
    NPU_TRY(npu::bmodel::check_supported(model, net, p));
    return flows ? npu::bmodel::read_flow(model, p, flow) : npu::bmodel::read_program(model, net, p, program);
  };
  if (npu::bmodel::is_step(net) || !read().ok()) return add_as_stated(p, needs);
  for (const auto &node : flow.nodes)
    if (node.mode == npu::bmodel::SubNetMode::kNpu) needs.add(node.program, node.outputs.size(), coeff);
  if (!flows) needs.add(program, p.output_tensor()->size(), coeff);
  add_io(p, net.addr_mode() == ADDR_MODE_BASIC, needs);
  needs.activations = std::max(needs.activations, flows ? Plan::activations(p, flow) : p.ctx_size());
}

void describe(uint64_t bytes, memory_t &mem) {
  mem.size = bytes;
  mem.number = bytes ? 1 : 0;
}

}  // namespace

Needs measure(const Container &model) {
  Needs needs;
  for (const fb::Net *net : *model.model().net())
    for (unsigned s = 0; net->parameter() && s < net->parameter()->size(); ++s)
      add_stage(model, *net, *net->parameter()->Get(s), needs);
  return needs;
}

void describe(const Needs &needs, mem_info_t &info) {
  info = {};
  for (memory_t *m : {&info.instruction_mem, &info.variable_instruction_mem, &info.neuron_mem, &info.coeff_mem,
                      &info.io_mem, &info.reserved[0], &info.reserved[1], &info.reserved[2], &info.reserved[3]})
    m->addr = -1;
  describe(needs.instructions.bytes(), info.instruction_mem);
  describe(needs.coefficients.bytes(), info.coeff_mem);
  describe(needs.io.bytes(), info.io_mem);
  describe(needs.activations, info.neuron_mem);
}

// ---- what a program gives

namespace {

/// A kind of memory, and where it was found.
struct UserRange {
  const char *name;
  const memory_t &mem;
  uint64_t need;
  Bo bo{};
  uint64_t offset = 0;

  bool wanted() const { return mem.addr != -1 && mem.addr != 0 && mem.size != 0 && need != 0; }
};

Status locate(const Card &card, UserRange &range) {
  const auto fail = [&range](const std::string &text) { return Status::error(std::string(range.name) + ": " + text); };
  const auto number = [](uint64_t v) { return std::to_string(v); };
  if (range.mem.type != 0) return fail("memory of type " + std::to_string(range.mem.type) + ", expected 0 (device)");
  if (range.mem.size < range.need)
    return fail("it has " + number(range.mem.size) + " bytes, the model needs " + number(range.need));
  const auto address = static_cast<uint64_t>(range.mem.addr);
  npu_bo *bo;
  if (npu_bo_find(card.device, address, &bo, &range.offset) != 0) return fail(npu_last_error());
  range.bo.reset(bo);
  const uint64_t left = npu_bo_size(bo) - range.offset;
  if (left < range.mem.size)
    return fail("its memory ends " + number(left) + " bytes behind its address, it should have " +
                number(range.mem.size));
  return {};
}

/// Two kinds in the same memory would overwrite each other.
Status check_apart(const std::vector<UserRange> &ranges) {
  for (const UserRange &a : ranges)
    for (const UserRange &b : ranges)
      if (&a < &b && a.bo && a.bo.get() == b.bo.get() && a.offset < b.offset + b.need && b.offset < a.offset + a.need)
        return Status::error(std::string(a.name) + " and " + b.name + " overlap");
  return {};
}

}  // namespace

Status UserMemory::find(std::span<const Card> cards, const Container &model, const mem_info_t *info, UserMemory &out) {
  out.file = model.file();
  if (!info) return {};
  const Needs needs = measure(model);
  std::vector<UserRange> ranges;
  ranges.push_back({"instruction_mem", info->instruction_mem, needs.instructions.bytes()});
  ranges.push_back({"coeff_mem", info->coeff_mem, needs.coefficients.bytes()});
  ranges.push_back({"io_mem", info->io_mem, needs.io.bytes()});
  ranges.push_back({"neuron_mem", info->neuron_mem, needs.activations});
  for (UserRange &range : ranges) {
    if (!range.wanted()) continue;
    for (const fb::Net *net : *model.model().net())
      if (npu::bmodel::is_step(*net))
        return Status::error(std::string(range.name) + ": the network '" + net->cascade()->main_name()->str() +
                             "' is for several devices, memory cannot be given for it");
    NPU_TRY(locate(cards[0], range));
  }
  NPU_TRY(check_apart(ranges));
  if (ranges[3].bo)
    NPU_TRY(SharedScratch::of(std::move(ranges[3].bo), ranges[3].offset, info->neuron_mem.size, out.activations)
                .within("neuron_mem"));
  UserPart *const parts[] = {&out.instructions, &out.coefficients, &out.io};
  for (size_t i = 0; i < 3; ++i) {
    parts[i]->bo = std::move(ranges[i].bo);
    parts[i]->offset = ranges[i].offset;
  }
  return {};
}

Status UserMemory::find_activations(std::span<const Card> cards, const memory_t &mem, uint64_t need,
                                    std::shared_ptr<SharedScratch> &out) {
  UserRange range{"neuron_mem", mem, need};
  if (!range.wanted()) return {};
  NPU_TRY(locate(cards[0], range));
  return SharedScratch::of(std::move(range.bo), range.offset, mem.size, out).within("neuron_mem");
}

Status store(npu_device *device, const char *what, std::span<const uint8_t> bytes, const npu::bmodel::MappedFile &file,
             UserPart &part, bool once, Constant &out) {
  out.bytes = bytes.size();
  if (!part) return seal(device, what, bytes, out.bo, file);
  bool is_new = true;
  const uint64_t at = once ? part.used.add_once(reinterpret_cast<uintptr_t>(bytes.data()), bytes.size(), is_new)
                           : part.used.add(bytes.size(), NPU_CMD_BYTES);
  out.bo = Sealed(part.ref(), BoUnref());
  out.offset = part.offset + at;
  if (!is_new) return {};
  return upload(out.bo.get(), out.offset, bytes, file).within(what);
}

}  // namespace npurt
