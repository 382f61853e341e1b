// SPDX-License-Identifier: MIT
#include <cmath>
#include <nlohmann/json.hpp>

#include "npu_clock.h"
#include "npu_cost.hpp"
#include "runtime/bmodel/types.h"
#include "tools/npuc/reports.h"

namespace npu::npuc {
namespace {

using compiler::HeldReport;
using compiler::LayerReport;
using compiler::Report;
using nlohmann::ordered_json;

constexpr int kVersion = 1;

/// Keys are pointers: literals of each length would be types of their own, each with constructors of JSON's values.
struct Member {
  const char *key;
  ordered_json value;
};

ordered_json object(std::initializer_list<Member> members) {
  ordered_json out = ordered_json::object();
  for (const Member &m : members) out[m.key] = m.value;
  return out;
}

ordered_json head(const std::string &model, const char *status) {
  return object({{"format", "npuc-report"},
                 {"version", kVersion},
                 {"program", "npuc " NPU_VERSION},
                 {"model", model},
                 {"status", status}});
}

ordered_json text_or_null(const std::string &text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

ordered_json chip_json() {
  constexpr hw::CostParams chip;
  const uint64_t macs = uint64_t{chip.mac_ic} * chip.mac_oc * chip.mac_pixels;
  return object({{"clock_khz", NPU_FULL_CLOCK_KHZ},
                 {"macs_per_cycle", macs},
                 {"macs_per_cycle_16_bits", macs * chip.rate_16},
                 {"macs_per_cycle_8_bits", macs * chip.rate_8},
                 {"memory_bytes_per_cycle", chip.ddr_bw},
                 {"local_memory_bytes_per_cycle", chip.lmem_bw}});
}

ordered_json tensors_json(const std::vector<bmodel::TensorDesc> &list) {
  ordered_json out = ordered_json::array();
  for (const bmodel::TensorDesc &t : list)
    out.push_back(object({{"name", t.name}, {"dtype", bmodel::dtype_name(t.dtype)}, {"shape", t.shape}}));
  return out;
}

ordered_json node_json(const LayerReport &l, size_t index, const Report &r) {
  ordered_json outputs = ordered_json::array();
  for (const graph::TensorKind &kind : l.outputs)
    outputs.push_back(object({{"dtype", graph::dtype_name(kind.dtype)}, {"shape", kind.shape}}));
  return object({{"index", index},
                 {"name", l.name},
                 {"operator", l.type},
                 {"runs_on", l.where},
                 {"outputs", outputs},
                 {"commands", l.commands},
                 {"tiles", l.tiles},
                 {"local_memory", l.lmem_bytes},
                 {"bytes", l.bytes},
                 {"macs", l.macs},
                 {"cycles", l.cycles},
                 {"share", r.cycles ? static_cast<double>(l.cycles) / static_cast<double>(r.cycles) : 0},
                 {"us", us(l.cycles)},
                 {"active_cycles", l.active},
                 {"tiu_cycles", l.tiu_busy},
                 {"gdma_cycles", l.gdma_busy},
                 {"spent", object({{"compute", l.spent.compute},
                                   {"local_memory", l.spent.local_memory},
                                   {"memory", l.spent.memory},
                                   {"latency", l.spent.latency}})},
                 {"bound", text_or_null(l.bound())}});
}

ordered_json held_json(const std::vector<HeldReport> &list, bool addresses) {
  ordered_json out = ordered_json::array();
  for (const HeldReport &h : list)
    out.push_back(object({{"kind", h.kind},
                          {"name", text_or_null(h.name)},
                          {"node", h.layer},
                          {"core", h.core},
                          {"address", addresses ? ordered_json(h.address) : ordered_json(nullptr)},
                          {"bytes", h.bytes},
                          {"from", h.from},
                          {"to", h.to}}));
  return out;
}

ordered_json edges_json(const std::vector<compiler::EdgeReport> &edges) {
  const auto end = [](size_t node) {
    return node == compiler::EdgeReport::kOutside ? ordered_json(nullptr) : ordered_json(node);
  };
  ordered_json out = ordered_json::array();
  for (const compiler::EdgeReport &e : edges)
    out.push_back(object({{"from", end(e.from)},
                          {"to", end(e.to)},
                          {"tensor", text_or_null(e.tensor)},
                          {"dtype", graph::dtype_name(e.kind.dtype)},
                          {"shape", e.kind.shape}}));
  return out;
}

ordered_json turns_json(const compiler::TurnsReport &turns) {
  ordered_json out = ordered_json::array();
  for (const compiler::RunReport &run : turns.runs)
    out.push_back(object({{"first", run.first},
                          {"last", run.last},
                          {"dimension", run.axis},
                          {"pieces", run.count},
                          {"repeats", run.repeats}}));
  return out;
}

ordered_json stage_json(const Reported &what, size_t s) {
  const Report &r = what.stage[s].report;
  const bmodel::StageDesc &stage = what.stage[s].net.stages[0];
  const Totals all = totals(r);
  ordered_json nodes = ordered_json::array();
  for (size_t i = 0; i < r.layers.size(); ++i) nodes.push_back(node_json(r.layers[i], i, r));
  std::vector<std::string> warnings = r.warnings;
  const std::vector<std::string> &more = what.stage[s].quantized.warnings;
  warnings.insert(warnings.end(), more.begin(), more.end());
  return object(
      {{"shapes", s < what.stages.size() ? ordered_json(what.stages[s]) : ordered_json(nullptr)},
       {"inputs", tensors_json(stage.inputs)},
       {"outputs", tensors_json(stage.outputs)},
       {"cores", r.cores},
       {"cycles", r.cycles},
       {"us", us(r.cycles)},
       {"macs", all.macs},
       {"bytes", all.bytes},
       {"commands", object({{"tiu", r.tiu_commands}, {"gdma", r.gdma_commands}})},
       {"busy_cycles", object({{"tiu", r.tiu_busy}, {"gdma", r.gdma_busy}})},
       {"bounds", object({{"arithmetic", r.mac_bound}, {"memory", r.memory_bound}, {"order", r.order_bound}})},
       {"local_memory", object({{"used", r.lmem_used}, {"available", r.lmem_bytes}})},
       {"memory", object({{"coefficients", r.coeff_bytes},
                          {"inputs_outputs", r.io_bytes},
                          {"activations", r.ctx_bytes},
                          {"between_parts", r.between_bytes},
                          {"commands", r.code_bytes},
                          {"launch", r.launch_bytes()}})},
       {"cpu", object({{"parts", r.host_parts}, {"operators", r.host_nodes}})},
       {"turns", turns_json(r.turns)},
       {"warnings", warnings},
       {"notes", r.notes},
       {"costliest", r.costliest(kCostliest)},
       {"nodes", nodes},
       {"edges", edges_json(r.edges)},
       {"held", object({{"local_memory", held_json(r.memory.local, true)},
                        {"activations", held_json(r.memory.activations, true)},
                        {"inputs_outputs", held_json(r.memory.outside, false)},
                        {"coefficients", held_json(r.memory.coefficients, true)}})}});
}

/// JSON has no NaN and no infinity.
ordered_json number_json(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

ordered_json output_json(const OutputResult &o) {
  ordered_json parts = ordered_json::array();
  for (const PartResult &p : o.parts)
    parts.push_back(object({{"part", text_or_null(p.name)},
                            {"where", text_or_null(p.where)},
                            {"verdict", verdict_name(p.verdict)},
                            {"reason", text_or_null(p.reason)},
                            {"elements", p.count},
                            {"measure", p.integers ? "elements that differ" : "difference"},
                            {"largest", number_json(p.largest)},
                            {"allowed", number_json(p.allowed)},
                            {"rms", number_json(p.rms)},
                            {"allowed_rms", number_json(p.allowed_rms)},
                            {"cosine", number_json(p.cosine)},
                            {"not_compared", p.not_compared},
                            {"element", p.at < 0 ? ordered_json(nullptr) : ordered_json(p.at)},
                            {"got", number_json(p.got)},
                            {"expected", number_json(p.wanted)}}));
  return object({{"name", o.name},
                 {"dtype", graph::dtype_name(o.kind.dtype)},
                 {"shape", o.kind.shape},
                 {"verdict", verdict_name(o.verdict())},
                 {"parts", parts}});
}

ordered_json verification_json(const Verification &v) {
  const auto outputs_json = [](const std::vector<OutputResult> &list) {
    ordered_json out = ordered_json::array();
    for (const OutputResult &o : list) out.push_back(output_json(o));
    return out;
  };
  ordered_json runs = ordered_json::array(), first = nullptr;
  for (const VerifiedRun &r : v.runs)
    runs.push_back(object({{"shapes", r.shapes},
                           {"inputs", r.inputs},
                           {"reference", r.reference},
                           {"verdict", verdict_name(r.verdict())},
                           {"outputs", outputs_json(r.outputs)}}));
  if (v.first)
    first = object({{"tensor", v.first->tensor},
                    {"node", v.first->node},
                    {"operator", v.first->type},
                    {"right", v.first->agreed},
                    {"result", output_json(v.first->result)}});
  return object({{"verdict", verdict_name(v.verdict())},
                 {"device", v.device},
                 {"reference", v.reference()},
                 {"notes", v.notes},
                 {"runs", runs},
                 {"read_differently", outputs_json(v.understood)},
                 {"first", first},
                 {"search", text_or_null(v.searched)}});
}

/// Names that are no UTF-8 lose what is not.
std::string dumped(const ordered_json &json) {
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json_report(const Reported &what) {
  ordered_json out = head(what.model, "compiled");
  out["network"] = what.stage[0].net.name;
  out["chip"] = chip_json();
  out["stages"] = ordered_json::array();
  for (size_t s = 0; s < what.stage.size(); ++s) out["stages"].push_back(stage_json(what, s));
  if (what.verification) out["verification"] = verification_json(*what.verification);
  return dumped(out);
}

std::string json_report(const std::string &model, const compiler::Refusal &refusal) {
  ordered_json out = head(model, "refused");
  out["message"] = refusal.message;
  out["reason"] = graph::obstacle_name(refusal.obstacle);
  out["help"] = text_or_null(refusal.help);
  out["findings"] = ordered_json::array();
  for (const graph::Finding &f : refusal.findings.list)
    out["findings"].push_back(object({{"operator", f.op},
                                      {"count", f.count},
                                      {"nodes", f.nodes},
                                      {"reason", graph::obstacle_name(f.obstacle)},
                                      {"what", f.what},
                                      {"help", text_or_null(f.help)}}));
  return dumped(out);
}

}  // namespace npu::npuc
