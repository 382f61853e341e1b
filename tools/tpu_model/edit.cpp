// SPDX-License-Identifier: MIT
#include "tools/tpu_model/edit.h"

#include <sha256.h>

#include <algorithm>
#include <cstring>

namespace npu::tpu_model {
namespace {

namespace fb = bmodel::fb;

std::string digest(std::span<const uint8_t> data) {
  std::string out(SHA256_DIGEST_LENGTH, 0);
  SHA256_CTX ctx;
  SHA256Init(&ctx);
  SHA256Update(&ctx, data.data(), data.size());
  SHA256Final(reinterpret_cast<uint8_t *>(out.data()), &ctx);
  return out;
}

/// Calls visit for every Binary of a stage.
template <class Visit>
void each_binary(fb::NetParameterT &p, Visit visit) {
  const auto one = [&](const std::unique_ptr<fb::Binary> &b) {
    if (b) visit(*b);
  };
  const auto commands = [&](std::vector<std::unique_ptr<fb::CmdGroupT>> &groups) {
    for (auto &g : groups) {
      one(g->binary_bdc);
      one(g->binary_gdma);
    }
  };
  commands(p.cmd_group);
  for (const auto *b : {&p.net_profile, &p.binary_ir, &p.net_stat, &p.tensor_loc}) one(*b);
  if (p.coeff_mem) one(p.coeff_mem->binary_coeff);
  for (auto &sub : p.sub_net) {
    commands(sub->cmd_group);
    for (auto &cpu : sub->cpu_param) one(cpu->binary_param);
    for (auto &core : sub->core_commands) {
      commands(core->gdma_tiu_commands);
      for (auto *list : {&core->sdma_commands, &core->hau_commands, &core->cdma_commands})
        for (fb::Binary &b : *list) visit(b);
    }
  }
}

/// Tables whose fields this program does not know would come out empty.
std::string opaque_parts(const fb::NetT &net) {
  if (!net.net_static.empty() || !net.net_dynamic.empty()) return "networks of the old kind (net_static, net_dynamic)";
  for (const auto &p : net.parameter) {
    if (!p->stage_ir.empty()) return "code for dynamic shapes (stage_ir)";
    for (const auto &sub : p->sub_net)
      for (const auto &cpu : sub->cpu_param)
        if (!cpu->cpu_const.empty()) return "constants of CPU layers (cpu_const)";
  }
  return {};
}

std::string signature(const std::vector<std::unique_ptr<fb::TensorT>> &tensors) {
  std::string out;
  for (const auto &t : tensors) out += t->name + " of type " + std::to_string(t->data_type) + "; ";
  return out;
}

std::string shapes(const std::vector<std::unique_ptr<fb::TensorT>> &tensors) {
  std::string out;
  for (const auto &t : tensors)
    for (const auto &shape : t->shape) {
      for (const uint64_t d : shape->dim) out += std::to_string(d) + " ";
      out += "; ";
    }
  return out;
}

}  // namespace

uint64_t Assembly::keep(const Container &from, const fb::Binary &binary) {
  const auto data = from.binary(&binary);
  const std::string key = digest(data);
  for (const auto &[known, at] : kept_)
    if (known == key) return at;
  blob_.resize((blob_.size() + 127) / 128 * 128);
  const uint64_t at = blob_.size();
  blob_.insert(blob_.end(), data.begin(), data.end());
  kept_.emplace_back(key, at);
  return at;
}

Status Assembly::merge(fb::NetT &into, fb::NetT &net) const {
  const std::string name = "network '" + net.name + "'";
  if (into.parameter.empty() || net.parameter.empty()) return Status::error(name + " has no stage");
  if (into.addr_mode != net.addr_mode)
    return Status::error(name + ": addr_mode is " + std::to_string(into.addr_mode) + " in one file and " +
                         std::to_string(net.addr_mode) + " in the other");
  for (const auto &stage : net.parameter)
    for (const auto &other : into.parameter) {
      if (signature(stage->input_tensor) != signature(other->input_tensor) ||
          signature(stage->output_tensor) != signature(other->output_tensor))
        return Status::error(name + ": the files have different tensors: " + signature(other->input_tensor) + "to " +
                             signature(other->output_tensor) + "and " + signature(stage->input_tensor) + "to " +
                             signature(stage->output_tensor));
      if (shapes(stage->input_tensor) == shapes(other->input_tensor))
        return Status::error(name + ": two stages have the same input shapes: " + shapes(stage->input_tensor));
    }
  std::move(net.parameter.begin(), net.parameter.end(), std::back_inserter(into.parameter));
  return {};
}

Status Assembly::add(const Container &from, size_t index) {
  const fb::Model &model = from.model();
  std::unique_ptr<fb::NetT> net(model.net()->Get(static_cast<flatbuffers::uoffset_t>(index))->UnPack());
  if (const std::string what = opaque_parts(*net); !what.empty())
    return Status::error(from.name() + ": network '" + net->name + "' has " + what +
                         ", which cannot be rewritten here");
  if (model.kernel_module() || model.cpuop_module())
    return Status::error(from.name() +
                         ": has code for another chip (kernel_module, cpuop_module), which cannot be rewritten here");
  const std::string chip = model.chip() ? model.chip()->str() : "";
  if (model_.net.empty()) {
    model_.type = model.type() ? model.type()->str() : "";
    model_.version = model.version() ? model.version()->str() : "";
    model_.time = model.time() ? model.time()->str() : "";
    model_.chip = chip;
    model_.device_num = model.device_num();
  } else if (chip != model_.chip) {
    return Status::error(from.name() + ": compiled for " + chip + ", the others for " + model_.chip);
  }
  model_.neuron_size = std::max(model_.neuron_size, model.neuron_size());
  model_.device_num = std::max(model_.device_num, model.device_num());
  for (auto &stage : net->parameter)
    each_binary(*stage, [&](fb::Binary &b) { b = fb::Binary(keep(from, b), b.size()); });
  for (auto &other : model_.net)
    if (other->name == net->name) return merge(*other, *net);
  model_.net.push_back(std::move(net));
  return {};
}

Status Assembly::write(Bytes &out) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::Net>> nets;
  for (const auto &net : model_.net) nets.push_back(fb::CreateNet(builder, net.get()));
  // Not by Pack(), which leaves out empty strings: readers expect these to be there.
  builder.Finish(fb::CreateModelDirect(builder, model_.type.c_str(), model_.version.c_str(), model_.time.c_str(),
                                       model_.chip.c_str(), &nets, model_.neuron_size, 0, model_.device_num));
  return bmodel::assemble({builder.GetBufferPointer(), builder.GetSize()}, blob_, out);
}

Status combine(const std::vector<const Container *> &models, Bytes &out) {
  Assembly all;
  for (const Container *model : models)
    for (size_t net = 0; net < model->model().net()->size(); net++) NPU_TRY(all.add(*model, net));
  return all.write(out);
}

Status extract(const Container &model, size_t net, Bytes &out) {
  Assembly one;
  NPU_TRY(one.add(model, net));
  return one.write(out);
}

namespace {

struct Place {
  const fb::CoeffMem *coeff = nullptr;
  uint64_t offset = 0, size = 0;  ///< in the coefficients
};

/// Finds a piece of coefficients; of several stages with the same name, the first that has it.
Status find(const Container &model, const Weights &w, Place &place) {
  for (const fb::Net *net : *model.model().net()) {
    if (net->name()->str() != w.net) continue;
    for (const fb::NetParameter *stage : *net->parameter()) {
      const fb::CoeffMem *coeff = stage->coeff_mem();
      if (!coeff || !coeff->binary_coeff()) continue;
      if (!coeff->location() && w.offset == 0) {
        place = {coeff, 0, coeff->binary_coeff()->size()};
        return {};
      }
      for (size_t i = 0; coeff->location() && i < coeff->location()->size(); i++) {
        const fb::Location *l = coeff->location()->Get(static_cast<flatbuffers::uoffset_t>(i));
        if (l->offset() != w.offset) continue;
        if (l->offset() > coeff->binary_coeff()->size() || l->size() > coeff->binary_coeff()->size() - l->offset())
          return Status::error(model.name() + ": corrupt: a location lies beyond the coefficients of '" + w.net + "'");
        place = {coeff, l->offset(), l->size()};
        return {};
      }
    }
    return Status::error(model.name() + ": network '" + w.net + "' has no weights at offset " +
                         std::to_string(w.offset) + " (--weight lists them)");
  }
  return Status::error(model.name() + ": no network '" + w.net + "'");
}

}  // namespace

Status update_weights(Bytes &bytes, const Weights &to, const Container &source, const Weights &from) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::from_memory(bytes.data(), bytes.size(), model));
  Place target, origin;
  NPU_TRY(find(*model, to, target));
  NPU_TRY(find(source, from, origin));
  if (target.size != origin.size)
    return Status::error("the weights have different sizes: " + std::to_string(target.size) + " bytes in '" + to.net +
                         "', " + std::to_string(origin.size) + " in '" + from.net + "'");
  const auto all = model->binary(target.coeff->binary_coeff());
  const auto piece = source.binary(origin.coeff->binary_coeff()).subspan(origin.offset, origin.size);
  // The container looks at these very bytes.
  std::memcpy(bytes.data() + (all.data() - bytes.data()) + target.offset, piece.data(), piece.size());
  const std::string sum = digest(all);
  for (const fb::Net *net : *model->model().net())
    for (const fb::NetParameter *stage : *net->parameter()) {
      // Stages may share their coefficients.
      const fb::CoeffMem *c = stage->coeff_mem();
      if (!c || !c->binary_coeff() || c->binary_coeff()->start() != target.coeff->binary_coeff()->start()) continue;
      if (c->check_code() && c->check_code()->size() == sum.size())
        std::memcpy(bytes.data() + (reinterpret_cast<const uint8_t *>(c->check_code()->data()) - bytes.data()),
                    sum.data(), sum.size());
    }
  return {};
}

}  // namespace npu::tpu_model
