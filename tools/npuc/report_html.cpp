// SPDX-License-Identifier: MIT
// The report of a network as a page.
#include <algorithm>

#include "npu_clock.h"
#include "runtime/bmodel/types.h"
#include "tools/npuc/page.h"
#include "tools/npuc/reports.h"

namespace npu::npuc {
namespace {

using compiler::LayerReport;
using compiler::Report;
using page::begin_page;
using page::end_page;
using page::escaped;
using page::grouped;
using page::print;

constexpr size_t kMostRows = 20000;

std::string tensors_text(const char *what, const std::vector<bmodel::TensorDesc> &list) {
  std::string out = "<p class=\"sub\">" + std::string(what) + ":";
  for (const bmodel::TensorDesc &t : list) {
    const graph::Shape shape(t.shape.begin(), t.shape.end());
    out += (&t == &list[0] ? " " : ", ") + escaped(t.name) + " " + bmodel::dtype_name(t.dtype) + " " +
           graph::shape_text(shape);
  }
  return out + "</p>\n";
}

std::string key_figure(const char *name, const std::string &value) {
  return "<div><dt>" + std::string(name) + "</dt><dd>" + value + "</dd></div>";
}

std::string key_figures(const Report &r) {
  const Totals all = totals(r);
  const uint64_t bound = r.bound();
  std::string out = "<dl class=\"keys\">";
  if (r.uses_chip()) {
    out += key_figure("cycles", grouped(r.cycles));
    out += key_figure("time", print("%.1f us at %.0f MHz", us(r.cycles), NPU_FULL_CLOCK_KHZ / 1e3));
  }
  out += key_figure("MACs", page::short_number(static_cast<double>(all.macs)));
  out += key_figure("bytes moved", page::size_text(all.bytes));
  if (r.cycles)
    out += key_figure("lower bound", grouped(bound) + print(" (%.0f %%)", 100.0 * static_cast<double>(bound) /
                                                                              static_cast<double>(r.cycles)));
  out += key_figure("cores", std::to_string(r.cores));
  out += key_figure("local memory", page::size_text(static_cast<uint64_t>(r.lmem_used)) + " of " +
                                        page::size_text(static_cast<uint64_t>(r.lmem_bytes)));
  out += key_figure("coefficients", page::size_text(r.coeff_bytes));
  out += key_figure("activations", page::size_text(r.ctx_bytes));
  out += key_figure("card memory for a launch", page::size_text(r.launch_bytes()));
  if (r.host_parts)
    out += key_figure("on the CPU", grouped(r.host_nodes) + " operators in " + grouped(r.host_parts) +
                                        " parts, whose time is not modelled");
  out += "</dl>\n<p class=\"sub\">";
  if (!r.uses_chip())
    return out + "The CPU computes the whole network. Its time is not modelled: there are no cycles.</p>\n";
  return out +
         "No program of this network takes fewer cycles than the lower bound, the largest of three: all arithmetic at "
         "full rate; all coefficients, inputs and outputs moved once; and the arithmetic of the operators in their "
         "order with the loads of weights that local memory has no room for earlier.</p>\n";
}

std::string number_cell(uint64_t v, const std::string &text) {
  return "<td class=\"n\" data-v=\"" + std::to_string(v) + "\">" + text + "</td>";
}
std::string number_cell(uint64_t v) { return number_cell(v, v ? grouped(v) : "0"); }

std::string row(const LayerReport &l, size_t index, const Report &r) {
  const double share = r.cycles ? static_cast<double>(l.cycles) / static_cast<double>(r.cycles) : 0;
  std::string shapes, types;
  for (const graph::TensorKind &kind : l.outputs) {
    shapes += (shapes.empty() ? "" : " ") + graph::shape_text(kind.shape);
    types += (types.empty() ? "" : " ") + std::string(graph::dtype_name(kind.dtype));
    if (shapes.size() > 200) break;
  }
  const std::string style = page::bound_class(l.bound());
  std::string out = "<tr data-i=\"" + std::to_string(index) + "\">" + number_cell(index) + "<td class=\"name\">" +
                    escaped(l.name) + "</td><td>" + escaped(l.type) + "</td><td>" + shapes + "</td><td>" + types +
                    "</td><td>" + escaped(l.where) + "</td>";
  if (l.commands == 0) return out + "<td/><td/><td/><td/><td/><td/><td/><td/></tr>\n";
  out += number_cell(static_cast<uint64_t>(l.tiles)) + number_cell(l.bytes) + number_cell(l.macs) +
         number_cell(l.active) + number_cell(l.cycles);
  out += print("<td class=\"n\" data-v=\"%.9f\"><span class=\"bar %s\" style=\"width:%.1fpx\"></span>%.1f %%</td>",
               share, style.c_str(), 60 * share, 100 * share);
  out += print("<td class=\"n\" data-v=\"%.6f\">%.1f</td>", us(l.cycles), us(l.cycles));
  out += print(
      "<td><span class=\"tag %s\" title=\"compute %llu, local memory %llu, memory %llu, latency %llu "
      "cycles\">%s</span></td>",
      style.c_str(), static_cast<unsigned long long>(l.spent.compute),
      static_cast<unsigned long long>(l.spent.local_memory), static_cast<unsigned long long>(l.spent.memory),
      static_cast<unsigned long long>(l.spent.latency), l.bound().c_str());
  return out + "</tr>\n";
}

std::string table(const Report &r, const std::vector<size_t> &layers, const std::string &name, size_t stage) {
  std::string out =
      "<div class=\"scroll\"><table class=\"" + name + "\" id=\"" + name + std::to_string(stage) + "\"><thead><tr>";
  for (const char *head : {"no.", "node", "operator", "shape", "type", "engine", "tiles", "bytes", "MACs",
                           "active cycles", "cycles", "share", "us", "bound by"})
    out += "<th scope=\"col\"><button type=\"button\">" + std::string(head) + "</button></th>";
  out += "</tr></thead><tbody>\n";
  for (size_t i : layers) out += row(r.layers[i], i, r);
  return out + "</tbody></table></div>\n";
}

std::string bound_key() {
  std::string out = "<p class=\"key\">";
  for (const char *bound : {"compute", "local memory", "memory", "latency", "hidden"})
    out += "<span class=\"tag " + page::bound_class(bound) + "\">" + bound + "</span>";
  return out + "</p>\n";
}

std::string memory_key() {
  std::string out = "<p class=\"key\">";
  for (const auto &[name, color] :
       std::initializer_list<std::pair<const char *, const char *>>{{"tensor, output", "compute"},
                                                                    {"tile buffer, input", "local"},
                                                                    {"weights, coefficients", "memory"},
                                                                    {"exchange between cores", "latency"}})
    out += "<i style=\"--c:var(--" + std::string(color) + ")\">" + name + "</i>";
  return out + "</p>\n";
}

std::string stage_text(const Reported &what, size_t s) {
  const Report &r = what.stage[s].report;
  const bmodel::StageDesc &stage = what.stage[s].net.stages[0];
  std::string out;
  if (what.stage.size() > 1) out += "<h2>Stage " + std::to_string(s) + ": " + escaped(what.stages[s]) + "</h2>\n";
  out += tensors_text("inputs", stage.inputs) + tensors_text("outputs", stage.outputs) + key_figures(r);
  std::vector<size_t> all;
  for (size_t i = 0; i < std::min(r.layers.size(), kMostRows); ++i) all.push_back(i);
  for (const auto *warnings : {&r.warnings, &what.stage[s].quantized.warnings})
    for (const std::string &warning : *warnings)
      out += "<div class=\"finding\"><p>" + escaped(warning) + "</p></div>\n";
  out += page::network_graph(r, s);
  const std::vector<size_t> costliest = r.costliest(kCostliest);
  out += "<h2>Costliest nodes</h2>\n" + table(r, costliest, "costliest", s);
  out +=
      "<p class=\"sub\">The cycles of all nodes add up to those of the network: they are those of the critical path, "
      "command after command, and the largest part of them bounds the node. A node whose commands run beside those "
      "of others only is hidden. Active cycles are those in which a command of the node is at work, beside others or "
      "alone.</p>\n";
  out += "<h2>Roofline</h2>\n" + bound_key() + page::roofline(r);
  out +=
      "<p class=\"sub\">A node's MACs over its active cycles, on all cores. The larger a circle, the more of the "
      "network's cycles are its own. The numbers are those of the tables.</p>\n";
  out += "<h2>Memory over time</h2>\n" + memory_key() + page::memory_maps(r);
  out += "<h2>All nodes</h2>\n" + table(r, all, "nodes", s);
  if (all.size() < r.layers.size())
    out += "<p class=\"sub\">" + grouped(r.layers.size() - all.size()) + " more are in the report as JSON.</p>\n";
  for (const std::string &note : r.notes) out += "<p class=\"sub\">" + escaped(note) + "</p>\n";
  return out;
}

}  // namespace

std::string html_report(const Reported &what) {
  const std::string &name = what.stage[0].net.name;
  std::string out = begin_page(name + ": npuc report");
  out += "<h1>" + escaped(name) + "</h1>\n<p class=\"sub\">" + escaped(what.model) + ", npuc " NPU_VERSION "</p>\n";
  for (size_t s = 0; s < what.stage.size(); ++s) out += stage_text(what, s);
  return out + end_page();
}

std::string quantize_page(const std::string &model, const quantize::Result &result) {
  return begin_page(model + ": quantization") + "<h1>" + escaped(model) + "</h1>\n" + page::valid(result.html()) +
         end_page();
}

std::string html_report(const std::string &model, const compiler::Refusal &refusal) {
  std::string out = begin_page(model + ": cannot be compiled");
  out += "<h1>" + escaped(model) + "</h1>\n";
  if (refusal.findings.empty()) {
    out += "<div class=\"finding\"><p>" + escaped(refusal.message) + "</p>";
    if (!refusal.help.empty()) out += "<p class=\"sub\">" + escaped(refusal.help) + "</p>";
    return out + "</div>\n" + end_page();
  }
  out += "<p>" + escaped(refusal.findings.headline) + "</p>\n";
  for (const graph::Finding &f : refusal.findings.list) {
    out += "<div class=\"finding\"><h3>" + escaped(f.op) + ", " + grouped(f.count) +
           (f.count == 1 ? " node" : " nodes") + "</h3><p>";
    for (size_t i = 0; i < f.nodes.size(); ++i) out += (i ? ", " : "") + escaped(f.nodes[i]);
    if (f.count > f.nodes.size()) out += ", ...";
    out += ": " + escaped(f.what) + "</p>";
    if (!f.help.empty()) out += "<p class=\"sub\">" + escaped(f.help) + "</p>";
    out += "</div>\n";
  }
  return out + end_page();
}

}  // namespace npu::npuc
