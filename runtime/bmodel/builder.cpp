// SPDX-License-Identifier: MIT
#include "runtime/bmodel/builder.h"

#include <sha256.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "npu_isa.h"
#include "runtime/bmodel/container.h"
#include "runtime/bmodel/source.h"

namespace npu::bmodel {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

void align(std::vector<uint8_t> &v, size_t to) { v.resize((v.size() + to - 1) / to * to); }

template <class T>
uint32_t append(std::vector<uint8_t> &v, const T *data, size_t n) {
  const auto at = static_cast<uint32_t>(v.size());
  const auto *p = reinterpret_cast<const uint8_t *>(data);
  v.insert(v.end(), p, p + n * sizeof(T));
  return at;
}

/// Header, tables and TIU commands of a program.
std::vector<uint8_t> program_binary(const ProgramDesc &s) {
  npu_program_header h{};
  h.magic = NPU_PROGRAM_MAGIC;
  h.version = NPU_PROGRAM_VERSION;
  h.header_bytes = sizeof h;
  h.isa_version = NPU_ISA_VERSION;
  h.chip_id = NPU_CHIP_ID;
  h.lmem_bytes = s.lmem_bytes;
  h.cycles = s.cycles;
  std::memcpy(h.cost, s.cost, sizeof h.cost);
  h.rate_16 = s.rate_16;
  h.rate_8 = s.rate_8;
  std::vector<uint8_t> out(sizeof h);
  h.region_count = static_cast<uint32_t>(s.regions.size());
  h.region_offset = append(out, s.regions.data(), s.regions.size());
  h.alias_count = static_cast<uint32_t>(s.aliases.size());
  h.alias_offset = append(out, s.aliases.data(), s.aliases.size());
  h.layer_count = static_cast<uint32_t>(s.layers.size());
  h.layer_offset = static_cast<uint32_t>(out.size());
  for (const std::string &name : s.layers) {
    const auto size = static_cast<uint32_t>(name.size());
    append(out, &size, 1);
    append(out, name.data(), name.size());
  }
  align(out, NPU_CMD_BYTES);
  h.commands_offset = static_cast<uint32_t>(out.size());
  std::memcpy(out.data(), &h, sizeof h);
  out.insert(out.end(), s.tiu.begin(), s.tiu.end());
  return out;
}

bool whole_commands(const ProgramDesc &s) {
  return s.tiu.size() % NPU_CMD_BYTES == 0 && s.gdma.size() % NPU_CMD_BYTES == 0;
}

std::vector<uint8_t> source_binary(const std::vector<uint8_t> &network) {
  npu_source_header h{NPU_SOURCE_MAGIC, NPU_SOURCE_VERSION, sizeof h, NPU_SOURCE_ONNX, 0, network.size(), 0};
  const auto *p = reinterpret_cast<const uint8_t *>(&h);
  std::vector<uint8_t> out(p, p + sizeof h);
  out.insert(out.end(), network.begin(), network.end());
  return out;
}

/// A vector to be written, or none if it is empty.
template <class T>
const std::vector<T> *some(const std::vector<T> &list) {
  return list.empty() ? nullptr : &list;
}

class Writer {
 public:
  Writer(std::span<const NetDesc> nets, const std::string &time) : nets_(nets), time_(time) {}

  Status write(std::vector<uint8_t> &out) {
    std::vector<Offset<fb::Net>> nets;
    uint64_t neuron = 0;
    uint32_t devices = 1;
    for (const NetDesc &n : nets_) {
      devices = std::max(devices, n.device + 1);
      std::vector<Offset<fb::NetParameter>> stages;
      const fb::Binary source = n.source.empty() ? fb::Binary() : add(source_binary(n.source));
      for (const StageDesc &s : n.stages) {
        stages.push_back(stage(s, source));
        neuron = std::max(neuron, s.ctx_bytes);
      }
      const auto cascade =
          n.part_of.empty() ? Offset<fb::Cascade>() : fb::CreateCascadeDirect(b_, n.device, n.step, n.part_of.c_str());
      nets.push_back(fb::CreateNetDirect(b_, n.name.c_str(), nullptr, nullptr, &stages, cascade, n.addr_mode));
    }
    b_.Finish(fb::CreateModelDirect(b_, "B", std::string(kVersion).c_str(), time_.c_str(), std::string(kChip).c_str(),
                                    &nets, neuron, 0, devices));
    std::span<uint8_t> blob;
    NPU_TRY(assemble({b_.GetBufferPointer(), b_.GetSize()}, blob_bytes_, out, blob));
    for (const auto &[at, piece] : pieces_)
      std::copy(piece.begin(), piece.end(), blob.begin() + static_cast<std::ptrdiff_t>(at));
    return {};
  }

 private:
  /// Binary data of the description, which is copied when the file is put together: coefficients are large.
  fb::Binary add(const std::vector<uint8_t> &bytes) {
    blob_bytes_ = (blob_bytes_ + 127) / 128 * 128;
    const fb::Binary b(blob_bytes_, bytes.size());
    pieces_.emplace_back(blob_bytes_, bytes);
    blob_bytes_ += bytes.size();
    return b;
  }
  fb::Binary add(std::vector<uint8_t> &&bytes) { return add(made_.emplace_back(std::move(bytes))); }

  std::vector<Offset<fb::Tensor>> tensors(const std::vector<TensorDesc> &list) {
    std::vector<Offset<fb::Tensor>> out;
    for (size_t i = 0; i < list.size(); ++i) {
      const TensorDesc &t = list[i];
      std::vector<Offset<fb::Shape>> shape{fb::CreateShapeDirect(b_, &t.shape)};
      out.push_back(fb::CreateTensorDirect(b_, t.name.c_str(), t.dtype, t.store_mode, t.address, t.bytes, &shape, 0,
                                           t.scale, 0, 0, t.zero_point, t.hidden,
                                           t.index < 0 ? static_cast<int32_t>(i) : t.index, t.step));
    }
    return out;
  }

  std::vector<Offset<fb::CmdGroup>> groups(const ProgramDesc &s, const fb::Binary &tiu, const fb::Binary &gdma) {
    const auto nt = static_cast<uint32_t>(s.tiu.size() / NPU_CMD_BYTES),
               ng = static_cast<uint32_t>(s.gdma.size() / NPU_CMD_BYTES);
    return {fb::CreateCmdGroup(b_, nt, ng, &tiu, &gdma, static_cast<uint32_t>(tiu.size()),
                               static_cast<uint32_t>(gdma.size()))};
  }

  /// Cores after the first: their command binaries are commands only.
  void add_cores(const ProgramDesc &s, std::vector<Offset<fb::CoreCommands>> &cores) {
    for (const CoreDesc &core : s.more_cores) {
      const fb::Binary tiu = add(core.tiu), gdma = add(core.gdma);
      std::vector<Offset<fb::CmdGroup>> list{
          fb::CreateCmdGroup(b_, static_cast<uint32_t>(core.tiu.size() / NPU_CMD_BYTES),
                             static_cast<uint32_t>(core.gdma.size() / NPU_CMD_BYTES), &tiu, &gdma,
                             static_cast<uint32_t>(core.tiu.size()), static_cast<uint32_t>(core.gdma.size()))};
      cores.push_back(fb::CreateCoreCommandsDirect(b_, &list));
    }
  }

  Offset<fb::CoeffMem> coeff(const StageDesc &s) {
    std::vector<uint8_t> digest(SHA256_DIGEST_LENGTH);
    SHA256_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, s.coeff.data(), s.coeff.size());
    SHA256Final(digest.data(), &ctx);
    // Stages of a network have the same coefficients as a rule: once in the file is enough.
    const auto [known, is_new] = coefficients_.try_emplace(digest);
    if (is_new) known->second = add(s.coeff);
    const fb::Binary data = known->second;
    return fb::CreateCoeffMemDirect(b_, kCoeffAddress, &digest, &data);
  }

  /// A program in the file.
  struct Placed {
    fb::Binary tiu, gdma;
  };
  Placed place(const ProgramDesc &s) {
    const fb::Binary tiu = add(program_binary(s));
    return {tiu, add(s.gdma)};
  }

  Offset<fb::SubNet> npu_sub(const ProgramDesc &s, const Placed &at, const std::vector<TensorDesc> &inputs,
                             const std::vector<TensorDesc> &outputs, int32_t id, const std::vector<int32_t> *next) {
    std::vector<Offset<fb::CoreCommands>> cores;
    auto list = groups(s, at.tiu, at.gdma);
    cores.push_back(fb::CreateCoreCommandsDirect(b_, &list));
    add_cores(s, cores);
    auto in = tensors(inputs), out = tensors(outputs);
    auto again = groups(s, at.tiu, at.gdma);
    return fb::CreateSubNetDirect(b_, 0, &again, nullptr, &in, &out, 0, 0, 0, 0, 0, id, next, 0, 0, &cores);
  }

  Offset<fb::SubNet> sub(const SubNetDesc &s) {
    if (s.mode == 0) return npu_sub(s, place(s), s.inputs, s.outputs, s.id, some(s.next));
    std::vector<Offset<fb::CpuParam>> cpu;
    if (s.mode == 1) {
      const fb::Binary param = add(s.param);
      cpu.push_back(fb::CreateCpuParam(b_, s.op, &param));
    }
    Offset<fb::MergeParam> merge;
    if (s.mode == 2) {
      std::vector<Offset<fb::OutputFrom>> from;
      for (const auto &list : s.from) from.push_back(fb::CreateOutputFromDirect(b_, &list));
      merge = fb::CreateMergeParamDirect(b_, &from);
    }
    Offset<fb::SwitchParam> branches;
    if (s.mode == 3) {
      std::vector<int32_t> from;
      for (const auto &list : s.from) from.push_back(list.empty() ? -1 : list[0]);
      branches = fb::CreateSwitchParamDirect(b_, &from, &s.branch);
    }
    auto in = tensors(s.inputs), out = tensors(s.outputs);
    return fb::CreateSubNetDirect(b_, s.mode, nullptr, some(cpu), &in, some(out), 0, 0, 0, 0, 0, s.id, some(s.next),
                                  merge, branches);
  }

  Offset<fb::NetParameter> stage(const StageDesc &s, const fb::Binary &source) {
    std::vector<Offset<fb::SubNet>> subs;
    std::vector<Offset<fb::CmdGroup>> cmds;  // where older readers look
    if (s.subs.empty()) {
      const Placed at = place(s);
      subs.push_back(npu_sub(s, at, s.inputs, s.outputs, -1, nullptr));
      cmds = groups(s, at.tiu, at.gdma);
    }
    size_t cores = 1 + s.more_cores.size();
    for (const SubNetDesc &part : s.subs) {
      subs.push_back(sub(part));
      cores = std::max(cores, 1 + part.more_cores.size());
    }
    auto inputs = tensors(s.inputs), outputs = tensors(s.outputs);
    std::vector<uint64_t> ctx_sizes{s.ctx_bytes};
    Offset<fb::CoeffMem> coeff_mem = s.coeff.empty() ? Offset<fb::CoeffMem>() : coeff(s);
    return fb::CreateNetParameterDirect(b_, &inputs, &outputs, s.ctx_address, s.ctx_bytes, coeff_mem, s.is_dynamic,
                                        s.n_dynamic, 0, some(cmds), nullptr, nullptr, source.size() ? &source : nullptr,
                                        &subs, 0, &ctx_sizes, nullptr, static_cast<uint32_t>(cores), s.io_address,
                                        s.io_bytes);
  }

  const std::span<const NetDesc> nets_;
  const std::string &time_;
  FlatBufferBuilder b_;
  uint64_t blob_bytes_ = 0;
  std::vector<std::pair<uint64_t, std::span<const uint8_t>>> pieces_;  // places in the binary data
  std::deque<std::vector<uint8_t>> made_;                              // what is not in the description
  std::map<std::vector<uint8_t>, fb::Binary> coefficients_;            // by SHA-256
};

Status build_nets(std::span<const NetDesc> nets, const std::string &time, std::vector<uint8_t> &out) {
  if (nets.empty()) return Status::error("a model needs a network");
  for (const NetDesc &n : nets) {
    if (n.name.empty()) return Status::error("a network needs a name");
    if (n.stages.empty()) return Status::error("network '" + n.name + "' has no stage");
    for (const StageDesc &s : n.stages) {
      bool whole = whole_commands(s);
      for (const SubNetDesc &sub : s.subs) whole = whole && whole_commands(sub);
      if (!whole) return Status::error("network '" + n.name + "': commands have 128 bytes each");
    }
  }
  return Writer(nets, time).write(out);
}

}  // namespace

std::vector<std::string> written_names(const std::vector<std::string> &inputs,
                                       const std::vector<std::string> &outputs) {
  std::set<std::string> used(inputs.begin(), inputs.end()), taken = used;
  taken.insert(outputs.begin(), outputs.end());
  std::vector<std::string> out;
  for (size_t k = 0; k < outputs.size(); ++k) {
    std::string &name = out.emplace_back(outputs[k]);
    if (used.insert(name).second) continue;
    name += " (output " + std::to_string(k) + ")";
    while (!taken.insert(name).second) name += "'";
  }
  return out;
}

Status build(const ModelDesc &model, std::vector<uint8_t> &out) { return build_nets(model.nets, model.time, out); }

Status build_one(const NetDesc &net, std::vector<uint8_t> &out) { return build_nets({&net, 1}, {}, out); }

}  // namespace npu::bmodel
