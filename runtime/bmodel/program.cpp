// SPDX-License-Identifier: MIT
// Checks the program in a command binary against itself and against the stage that it belongs to.
#include <algorithm>
#include <cstring>

#include "npu_isa.h"
#include "runtime/bmodel/flow.h"
#include "runtime/bmodel/text.h"

namespace npu::bmodel {

namespace {

constexpr uint32_t kRatesSince = 3;  // ISA version

/// Copies `count` elements from a table at `offset` of the binary; false when it does not lie before the commands.
template <class T>
bool read_table(std::span<const uint8_t> bytes, uint32_t offset, uint32_t count, std::vector<T> &out) {
  if (offset > bytes.size() || uint64_t{count} * sizeof(T) > bytes.size() - offset) return false;
  out.resize(count);
  if (count) std::memcpy(out.data(), bytes.data() + offset, count * sizeof(T));
  return true;
}

bool read_layers(std::span<const uint8_t> bytes, const npu_program_header &h, std::vector<std::string_view> &out) {
  uint64_t at = h.layer_offset;
  for (uint32_t i = 0; i < h.layer_count; ++i) {
    uint32_t size;
    if (at + sizeof size > bytes.size()) return false;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (size > bytes.size() - at) return false;
    out.emplace_back(reinterpret_cast<const char *>(bytes.data() + at), size);
    at += size;
  }
  return true;
}

Status check_header(std::span<const uint8_t> bytes, npu_program_header &h) {
  if (bytes.size() < sizeof h)
    return Status::error("the command binary has " + number(bytes.size()) + " bytes, too few for its header");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != NPU_PROGRAM_MAGIC)
    return Status::error("the command binary does not begin with a QNPU1 program header");
  if (h.version != NPU_PROGRAM_VERSION || h.header_bytes != sizeof h)
    return Status::error("program header version " + number(h.version) + " with " + number(h.header_bytes) +
                         " bytes, expected version 1 with 128");
  if (h.chip_id != NPU_CHIP_ID)
    return Status::error("compiled for chip id " + number(h.chip_id) + ", expected " + number(NPU_CHIP_ID));
  // Later versions only add to the instruction set.
  if (h.isa_version < 1 || h.isa_version > NPU_ISA_VERSION)
    return Status::error("compiled for ISA version " + number(h.isa_version) + ", this runtime has 1 to " +
                         number(NPU_ISA_VERSION));
  if (h.commands_offset % NPU_CMD_BYTES != 0 || h.commands_offset < sizeof h || h.commands_offset > bytes.size())
    return Status::error("commands begin at " + number(h.commands_offset) + ", which is not inside the binary");
  const bool too_early = h.isa_version < kRatesSince && (h.rate_16 || h.rate_8);
  if (too_early || std::any_of(std::begin(h.reserved), std::end(h.reserved), [](uint32_t r) { return r != 0; }))
    return Status::error("reserved words of the program header are not zero");
  return {};
}

/// Tensor `index` of a list, or nullptr.
const fb::Tensor *tensor(const TensorList *list, uint32_t index) {
  return list && index < list->size() ? list->Get(index) : nullptr;
}

}  // namespace

uint64_t tensor_bytes(const fb::Tensor &t) {
  uint64_t n = dtype_bytes(t.data_type()), lanes = store_lanes(t.gmem_stmode(), t.data_type());
  if (t.shape() && t.shape()->size() && t.shape()->Get(0)->dim())
    for (uint64_t d : *t.shape()->Get(0)->dim()) {
      if (lanes > 1) d = (d + lanes - 1) / lanes * lanes;  // the batch, the first of them, is filled up
      lanes = 1;
      if (__builtin_mul_overflow(n, d, &n)) return ~uint64_t{0};
    }
  return n * std::max<uint64_t>(lanes, 1);  // a scalar is a batch of one
}

namespace {

/// Whose program it is: its tensors, and the stage with coefficients and activation memory.
struct Scope {
  const Container &container;
  const fb::NetParameter &stage;
  const TensorList *inputs, *outputs;
};

Status check_region(const Scope &scope, const npu_program_region &r) {
  const fb::NetParameter &stage = scope.stage;
  uint64_t limit = 0;
  switch (r.kind) {
    case NPU_PROGRAM_COEFF:
      limit = stage.coeff_mem() ? scope.container.binary(stage.coeff_mem()->binary_coeff()).size() : 0;
      if (r.access != NPU_ACCESS_READ) return Status::error("coefficients are written");
      break;
    case NPU_PROGRAM_CTX:
      limit = stage.ctx_size();
      break;
    case NPU_PROGRAM_INPUT:
    case NPU_PROGRAM_OUTPUT: {
      const fb::Tensor *t = tensor(r.kind == NPU_PROGRAM_INPUT ? scope.inputs : scope.outputs, r.index);
      if (!t) return Status::error("tensor number " + number(r.index) + " does not exist");
      if (r.kind == NPU_PROGRAM_INPUT && r.access != NPU_ACCESS_READ) return Status::error("an input is written");
      limit = tensor_bytes(*t);
      break;
    }
    default:
      return Status::error("kind " + number(r.kind) + " is unknown");
  }
  if (r.access == 0 || (r.access & ~(NPU_ACCESS_READ | NPU_ACCESS_WRITE)))
    return Status::error("access " + number(r.access) + " is unknown");
  if (r.bytes == 0 || r.bytes > limit)
    return Status::error(number(r.bytes) + " bytes, what it stands for has " + number(limit));
  if (r.reserved0 || r.reserved1) return Status::error("reserved words are not zero");
  return {};
}

Status check_tensor(const fb::Tensor &t, const char *what) {
  const std::string name = t.name() ? t.name()->str() : "";
  if (name.empty()) return Status::error(std::string("an ") + what + " has no name");
  const std::string who = std::string(what) + " '" + name + "'";
  const auto *dims = t.shape() && t.shape()->size() ? t.shape()->Get(0)->dim() : nullptr;
  if (!dims) return Status::error(who + " has no shape");
  if (dims->size() > 8) return Status::error(who + " has more than 8 dims");
  // The verifier checks the alignment of a vector's length, not of its 64-bit elements; a scalar has none.
  if (dims->size() && reinterpret_cast<uintptr_t>(dims->Data()) % alignof(uint64_t) != 0)
    return Status::error(who + " has a misaligned shape");
  for (uint64_t d : *dims)
    if (d == 0 || d > 0x7fffffff) return Status::error(who + " has the dim " + number(d));
  const uint64_t bytes = tensor_bytes(t);
  if (dtype_bytes(t.data_type()) && !store_lanes(t.gmem_stmode(), t.data_type()))
    return Status::error(who + " has " + store_mode_error(t.gmem_stmode(), t.data_type()));
  if (bytes == 0 || bytes > 0xffffffffu) return Status::error(who + " has an unknown type or more than 4 GiB");
  return {};
}

}  // namespace

Status check_tensors(const TensorList *list, const char *what) {
  if (!list || list->size() == 0) return Status::error(std::string("no ") + what);
  for (const fb::Tensor *t : *list) {
    NPU_TRY(check_tensor(*t, what));
  }
  return {};
}

namespace {

/// The commands of cores after the first; nothing in files that know of one core only.
Status read_more_cores(const Container &c, const fb::SubNet *sub, Program &program) {
  const auto *cores = sub ? sub->core_commands() : nullptr;
  if (cores && cores->size() > NPU_MAX_CORES)
    return Status::error("compiled for " + number(cores->size()) + " cores, a card has at most " +
                         number(NPU_MAX_CORES));
  for (unsigned i = 1; cores && i < cores->size(); ++i) {
    const auto *groups = cores->Get(i)->gdma_tiu_commands();
    if (!groups || groups->size() != 1)
      return Status::error("core " + number(i) + ": " + number(groups ? groups->size() : 0) +
                           " command groups, expected 1");
    const fb::CmdGroup &g = *groups->Get(0);
    const CoreProgram core{c.binary(g.binary_bdc()), c.binary(g.binary_gdma())};
    if (core.tiu.size() != uint64_t{g.bdc_num()} * NPU_CMD_BYTES ||
        core.gdma.size() != uint64_t{g.gdma_num()} * NPU_CMD_BYTES)
      return Status::error("core " + number(i) + ": the numbers of commands and the sizes of their binaries differ");
    if (core.tiu.empty() && core.gdma.empty()) return Status::error("core " + number(i) + " has no commands");
    program.more_cores.push_back(core);
  }
  return {};
}

/// The first core's only group of commands: of the sub-network, or in old files of the stage itself.
Status only_group(const fb::NetParameter &stage, const fb::SubNet *sub, const fb::CmdGroup *&group) {
  const auto *groups = stage.cmd_group();
  if (sub && sub->core_commands() && sub->core_commands()->size() > 0) {
    groups = sub->core_commands()->Get(0)->gdma_tiu_commands();
  } else if (sub && sub->cmd_group() && sub->cmd_group()->size() > 0) {
    groups = sub->cmd_group();
  }
  if (!groups || groups->size() != 1)
    return Status::error(number(groups ? groups->size() : 0) + " command groups, expected 1");
  group = groups->Get(0);
  return {};
}

Status read_group(const Scope &scope, const fb::CmdGroup &group, Program &program) {
  const auto bytes = scope.container.binary(group.binary_bdc());
  npu_program_header &h = program.header;
  NPU_TRY(check_header(bytes, h));
  const auto head = bytes.first(h.commands_offset);
  if (h.region_count > NPU_MAX_REGIONS - 2 || !read_table(head, h.region_offset, h.region_count, program.regions) ||
      !read_table(head, h.alias_offset, h.alias_count, program.aliases) || !read_layers(head, h, program.layers))
    return Status::error("a table of the program header does not lie between header and commands");
  for (size_t i = 0; i < program.regions.size(); ++i)
    NPU_TRY(check_region(scope, program.regions[i]).within("region " + number(i)));
  for (const npu_program_alias &a : program.aliases)
    if (!tensor(scope.outputs, a.output) || !tensor(scope.inputs, a.input))
      return Status::error("an alias names a tensor that does not exist");
  program.tiu = bytes.subspan(h.commands_offset);
  program.gdma = scope.container.binary(group.binary_gdma());
  if (program.tiu.size() != uint64_t{group.bdc_num()} * NPU_CMD_BYTES ||
      program.gdma.size() != uint64_t{group.gdma_num()} * NPU_CMD_BYTES)
    return Status::error("the numbers of commands and the sizes of their binaries differ");
  return {};
}

Status read_commands(const Scope &scope, const fb::SubNet *sub, Program &program) {
  const fb::CmdGroup *group = nullptr;
  NPU_TRY(only_group(scope.stage, sub, group));
  NPU_TRY(read_group(scope, *group, program));
  return read_more_cores(scope.container, sub, program);
}

Status check_stage(const Container &container, const fb::NetParameter &stage, Program &program) {
  if (has_flow(stage))
    return Status::error("more than one sub-network, or one that is not for the NPU: not one program");
  NPU_TRY(check_tensors(stage.input_tensor(), "input"));
  NPU_TRY(check_tensors(stage.output_tensor(), "output"));
  const fb::SubNet *sub = stage.sub_net() && stage.sub_net()->size() > 0 ? stage.sub_net()->Get(0) : nullptr;
  return read_commands({container, stage, stage.input_tensor(), stage.output_tensor()}, sub, program);
}

}  // namespace

Status check_chip(const Container &container) {
  const fb::Model &m = container.model();
  if (m.chip() && m.chip()->string_view() == kChip) return {};
  return Status::error(container.name() + ": compiled for " + (m.chip() ? m.chip()->str() : "an unnamed chip") +
                       ", this device is " + std::string(kChip));
}

Status read_sub_program(const Container &container, const fb::NetParameter &stage, const fb::SubNet &sub,
                        Program &program) {
  return read_commands({container, stage, sub.input_tensor(), sub.output_tensor()}, &sub, program);
}

Status read_program(const Container &container, const fb::Net &net, const fb::NetParameter &stage, Program &program) {
  NPU_TRY(check_supported(container, net, stage));
  return check_stage(container, stage, program).within(container.name() + ": network '" + net.name()->str() + "'");
}

Status check_supported(const Container &container, const fb::Net &net, const fb::NetParameter &stage) {
  NPU_TRY(check_chip(container));
  const char *why = nullptr;
  const bool batch_only = stage.n_dynamic() == 1 && !stage.h_w_dynamic();
  if ((stage.is_dynamic() && !batch_only && !has_source(net)) || (net.net_dynamic() && net.net_dynamic()->size()))
    why = "compiled for any shape (dynamic), but the network is not in the file: only the batch may vary (n_dynamic)";
  else if (stage.is_dynamic() && is_step(net))
    why = "dynamic, and a step of a network for several devices: not supported";
  else if (stage.is_dynamic() && has_flow(stage) && !has_source(net))
    why = "dynamic in its batch alone, and of several sub-networks: not supported; npuc --dynamic puts the network in";
  return why ? Status::error(container.name() + ": network '" + net.name()->str() + "': " + why) : Status();
}

}  // namespace npu::bmodel
