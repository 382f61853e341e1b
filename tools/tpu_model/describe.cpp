// SPDX-License-Identifier: MIT
#include <flatbuffers/minireflect.h>

#include <algorithm>
#include <cstdio>

#include "runtime/bmodel/flow.h"
#include "tools/tpu_model/edit.h"

namespace npu::tpu_model {
namespace {

namespace fb = bmodel::fb;

std::string text(const flatbuffers::String *s) { return s ? s->str() : ""; }

std::string tensor_line(const char *what, const fb::Tensor &t) {
  std::string shape;
  if (t.shape() && t.shape()->size() && t.shape()->Get(0)->dim())
    for (const uint64_t d : *t.shape()->Get(0)->dim()) shape += (shape.empty() ? "" : ", ") + std::to_string(d);
  const std::string mode = t.gmem_stmode() == bmodel::kStore1N ? "" : ", " + bmodel::store_mode_name(t.gmem_stmode());
  char scale[64];
  snprintf(scale, sizeof(scale), ", scale %g, zero point %d", static_cast<double>(t.scale()), t.zero_point());
  return "    " + std::string(what) + ": " + text(t.name()) + ", [" + shape + "], " +
         bmodel::dtype_name(t.data_type()) + scale + mode + "\n";
}

template <class List>
size_t count(const List *list) {
  return list ? list->size() : 0;
}

std::string names(const flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>> *list) {
  std::string out;
  for (size_t i = 0; i < count(list); i++)
    out += (i ? ", " : "") + text(list->Get(static_cast<flatbuffers::uoffset_t>(i))->name());
  return out;
}

/// Of a stage that is more than one program.
std::string sub_net_lines(const fb::NetParameter &p) {
  static constexpr const char *kModes[] = {"NPU", "CPU", "merge", "switch"};
  std::string out;
  for (size_t i = 0; i < count(p.sub_net()); i++) {
    const fb::SubNet &s = *p.sub_net()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const bool known = s.subnet_mode() >= 0 && s.subnet_mode() < 4;
    out += "    subnet " + std::to_string(s.id() == -1 ? static_cast<int>(i) : s.id()) + ": " +
           (known ? kModes[s.subnet_mode()] : "mode " + std::to_string(s.subnet_mode()));
    for (size_t k = 0; k < count(s.cpu_param()); k++)
      out += " operator " + std::to_string(s.cpu_param()->Get(static_cast<flatbuffers::uoffset_t>(k))->op_type());
    out += ", (" + names(s.input_tensor()) + ") -> (" + names(s.output_tensor()) + ")";
    for (size_t k = 0; k < count(s.next_subnet_ids()); k++)
      out +=
          (k ? " or " : ", next ") + std::to_string(s.next_subnet_ids()->Get(static_cast<flatbuffers::uoffset_t>(k)));
    out += "\n";
  }
  return out;
}

std::string stage_lines(const fb::NetParameter &p, size_t number) {
  std::string out = "  stage " + std::to_string(number) + ":" + (p.is_dynamic() ? " dynamic" : " static") + ", " +
                    std::to_string(std::max<uint32_t>(p.core_num(), 1)) + " core(s), " +
                    std::to_string(count(p.sub_net())) + " subnet(s)\n";
  for (size_t i = 0; i < count(p.input_tensor()); i++)
    out += tensor_line("input", *p.input_tensor()->Get(static_cast<flatbuffers::uoffset_t>(i)));
  for (size_t i = 0; i < count(p.output_tensor()); i++)
    out += tensor_line("output", *p.output_tensor()->Get(static_cast<flatbuffers::uoffset_t>(i)));
  const fb::Binary *coeff = p.coeff_mem() ? p.coeff_mem()->binary_coeff() : nullptr;
  out += "    coefficients: " + bytes_text(coeff ? coeff->size() : 0) + "\n";
  out += "    activations: " + bytes_text(p.ctx_size()) + "\n";
  if (bmodel::has_flow(p)) out += sub_net_lines(p);
  return out;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  char out[64];
  snprintf(out, sizeof(out), "%llu bytes (%.2f MiB)", static_cast<unsigned long long>(bytes),
           static_cast<double>(bytes) / (1 << 20));
  return out;
}

std::string describe(const Container &model) {
  const fb::Model &m = model.model();
  std::string out = "bmodel version: " + text(m.type()) + "." + text(m.version()) + "\nchip: " + text(m.chip()) + "\n";
  if (m.time() && m.time()->size()) out += "create time: " + text(m.time()) + "\n";
  for (size_t n = 0; n < m.net()->size(); n++) {
    const fb::Net &net = *m.net()->Get(static_cast<flatbuffers::uoffset_t>(n));
    out += "==========================================\nnet " + std::to_string(n) + ": [" + text(net.name()) +
           "]  addr_mode " + std::to_string(net.addr_mode()) + "\n";
    if (bmodel::is_step(net))
      out += "  step " + std::to_string(net.cascade()->step()) + " of [" + text(net.cascade()->main_name()) +
             "] on device " + std::to_string(net.cascade()->device_id()) + "\n";
    for (size_t s = 0; s < count(net.parameter()); s++)
      out += stage_lines(*net.parameter()->Get(static_cast<flatbuffers::uoffset_t>(s)), s);
  }
  return out;
}

std::string describe_weights(const Container &model) {
  std::string out;
  for (const fb::Net *net : *model.model().net())
    for (size_t s = 0; s < count(net->parameter()); s++) {
      const fb::CoeffMem *coeff = net->parameter()->Get(static_cast<flatbuffers::uoffset_t>(s))->coeff_mem();
      out += "net [" + net->name()->str() + "] stage " + std::to_string(s) + ":\n";
      if (coeff && coeff->binary_coeff() && !count(coeff->location()))
        out += "  offset 0, " + std::to_string(coeff->binary_coeff()->size()) + " bytes, all coefficients\n";
      for (size_t i = 0; coeff && i < count(coeff->location()); i++) {
        const fb::Location *l = coeff->location()->Get(static_cast<flatbuffers::uoffset_t>(i));
        out += "  offset " + std::to_string(l->offset()) + ", " + std::to_string(l->size()) + " bytes, " +
               text(l->name()) + "\n";
      }
    }
  return out;
}

namespace {

/// Scales are small: six decimals would be no number at all.
struct Visitor : flatbuffers::ToStringVisitor {
  Visitor() : ToStringVisitor("\n", true, "  ") {}
  void Float(float x) override {
    char out[32];
    snprintf(out, sizeof(out), "%.9g", static_cast<double>(x));
    s += out;
  }
};

}  // namespace

std::string json(const Container &model) {
  Visitor visitor;
  const auto *root = reinterpret_cast<const uint8_t *>(&model.model());
  flatbuffers::IterateObject(root, fb::ModelTypeTable(), &visitor);
  return visitor.s + "\n";
}

}  // namespace npu::tpu_model
