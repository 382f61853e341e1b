// SPDX-License-Identifier: MIT
#include "given.h"

#include <algorithm>
#include <vector>

#include "card.h"
#include "cascade.h"
#include "npu_isa.h"
#include "plan.h"
#include "upload.h"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;

uint64_t Extent::add_once(std::span<const uint8_t> contents, bool &is_new) {
  const auto [at, added] = known_.try_emplace({contents.data(), contents.size()});
  is_new = added;
  if (added) at->second = add(contents.size(), NPU_CMD_BYTES);
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
  if (!coeff.empty()) coefficients.add_once(coeff, is_new);
}

namespace {

uint64_t bytes_of(const fb::Binary *b) { return b ? b->size() : 0; }

uint64_t bytes_of(const flatbuffers::Vector<flatbuffers::Offset<fb::CmdGroup>> *groups) {
  uint64_t bytes = 0;
  for (unsigned i = 0; groups && i < groups->size(); ++i)
    bytes += bytes_of(groups->Get(i)->binary_bdc()) + bytes_of(groups->Get(i)->binary_gdma());
  return bytes;
}

/// What the file says itself.
void add_as_stated(const Container &model, const fb::NetParameter &p, Needs &needs) {
  uint64_t commands = bytes_of(p.cmd_group());
  for (unsigned i = 0; npu::bmodel::has_flow(p) && i < p.sub_net()->size(); ++i)
    commands += bytes_of(p.sub_net()->Get(i)->cmd_group());
  needs.instructions.add(commands, 1);
  bool is_new;
  if (p.coeff_mem() && bytes_of(p.coeff_mem()->binary_coeff()))
    needs.coefficients.add_once(model.binary(p.coeff_mem()->binary_coeff()), is_new);
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
      bytes += (sizes.back() + Extent::kIoAlign - 1) / Extent::kIoAlign * Extent::kIoAlign;
    }
  }
  needs.io.add_io(bytes, shared ? &sizes : nullptr);
}

void add_stage(const Container &model, const fb::Net &net, const fb::NetParameter &p, Needs &needs) {
  npu::bmodel::Flow flow;
  npu::bmodel::Program program;
  const bool flows = npu::bmodel::has_flow(p);
  const auto coeff = p.coeff_mem() ? model.binary(p.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
  const std::string why = npu::bmodel::is_step(net)                              ? "a step"
                          : !npu::bmodel::check_supported(model, net, p).empty() ? "not supported"
                          : flows ? npu::bmodel::read_flow(model, p, flow)
                                  : npu::bmodel::read_program(model, net, p, program);
  if (!why.empty()) return add_as_stated(model, p, needs);
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
struct Claim {
  const char *name;
  const memory_t &mem;
  uint64_t need;
  Bo bo{};
  uint64_t offset = 0;

  bool wanted() const { return mem.addr != -1 && mem.addr != 0 && mem.size != 0 && need != 0; }
};

/// On which of the other cards it is, in words; empty: on none.
std::string elsewhere(std::span<const Card> cards, uint64_t address) {
  for (size_t c = 1; c < cards.size(); ++c) {
    npu_bo *bo;
    uint64_t offset;
    if (npu_bo_find(cards[c].device, address, &bo, &offset) != 0) continue;
    npu_bo_unref(bo);
    return ", it is on device " + std::to_string(c) + " of the runtime, expected on device 0";
  }
  return {};
}

Reason locate(std::span<const Card> cards, Claim &claim) {
  const auto fail = [&claim](const std::string &why) { return std::string(claim.name) + ": " + why; };
  const auto number = [](uint64_t v) { return std::to_string(v); };
  if (claim.mem.type != 0) return fail("memory of type " + std::to_string(claim.mem.type) + ", expected 0 (device)");
  if (claim.mem.size < claim.need)
    return fail("it has " + number(claim.mem.size) + " bytes, the model needs " + number(claim.need));
  const auto address = static_cast<uint64_t>(claim.mem.addr);
  npu_bo *bo;
  if (npu_bo_find(cards[0].device, address, &bo, &claim.offset) != 0) {
    const Reason why = npu_last_error();
    return fail(why + elsewhere(cards, address));
  }
  claim.bo.reset(bo);
  const uint64_t left = npu_bo_size(bo) - claim.offset;
  if (left < claim.mem.size)
    return fail("its memory ends " + number(left) + " bytes behind its address, it should have " +
                number(claim.mem.size));
  return {};
}

/// Two kinds in the same memory would overwrite each other.
Reason check_apart(const std::vector<Claim> &claims) {
  for (const Claim &a : claims)
    for (const Claim &b : claims)
      if (&a < &b && a.bo && a.bo.get() == b.bo.get() && a.offset < b.offset + b.need && b.offset < a.offset + a.need)
        return std::string(a.name) + " and " + b.name + " overlap";
  return {};
}

}  // namespace

Reason Given::find(std::span<const Card> cards, const Container &model, const mem_info_t *info, Given &out) {
  out.file = model.file();
  if (!info) return {};
  const Needs needs = measure(model);
  std::vector<Claim> claims;
  claims.push_back({"instruction_mem", info->instruction_mem, needs.instructions.bytes()});
  claims.push_back({"coeff_mem", info->coeff_mem, needs.coefficients.bytes()});
  claims.push_back({"io_mem", info->io_mem, needs.io.bytes()});
  claims.push_back({"neuron_mem", info->neuron_mem, needs.activations});
  for (Claim &claim : claims) {
    if (!claim.wanted()) continue;
    for (const fb::Net *net : *model.model().net())
      if (npu::bmodel::is_step(*net))
        return std::string(claim.name) + ": the network '" + net->cascade()->main_name()->str() +
               "' is for several devices, memory cannot be given for it";
    const Reason why = locate(cards, claim);
    if (!why.empty()) return why;
  }
  Reason why = check_apart(claims);
  if (why.empty() && claims[3].bo) {
    why = Lent::of(std::move(claims[3].bo), claims[3].offset, info->neuron_mem.size, out.activations);
    if (!why.empty()) why = "neuron_mem: " + why;
  }
  Part *const parts[] = {&out.instructions, &out.coefficients, &out.io};
  for (size_t i = 0; i < 3; ++i) {
    parts[i]->bo = std::move(claims[i].bo);
    parts[i]->offset = claims[i].offset;
  }
  return why;
}

Reason Given::find_activations(std::span<const Card> cards, const memory_t &mem, uint64_t need,
                               std::shared_ptr<Lent> &out) {
  Claim claim{"neuron_mem", mem, need};
  if (!claim.wanted()) return {};
  Reason why = locate(cards, claim);
  if (!why.empty()) return why;
  why = Lent::of(std::move(claim.bo), claim.offset, mem.size, out);
  return why.empty() ? why : "neuron_mem: " + why;
}

Reason store(npu_device *device, const char *what, std::span<const uint8_t> bytes, const npu::bmodel::MappedFile &file,
             Part &part, bool once, Constant &out) {
  out.bytes = bytes.size();
  if (!part) return seal(device, what, bytes, out.bo, file);
  bool is_new = true;
  const uint64_t at = once ? part.used.add_once(bytes, is_new) : part.used.add(bytes.size(), NPU_CMD_BYTES);
  out.bo = Sealed(part.ref(), BoUnref());
  out.offset = part.offset + at;
  if (!is_new) return {};
  const Reason why = upload(out.bo.get(), out.offset, bytes, file);
  return why.empty() ? why : std::string(what) + ": " + why;
}

}  // namespace npurt
