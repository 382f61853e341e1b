// SPDX-License-Identifier: MIT
// A page that needs nothing but itself. It is well-formed XML, too.
#include <algorithm>

#include "npu_clock.h"
#include "runtime/bmodel/types.h"
#include "tools/npuc/page.h"
#include "tools/npuc/reports.h"

namespace npu::npuc {
namespace {

using compiler::LayerReport;
using compiler::Report;
using page::escaped;
using page::grouped;
using page::print;

constexpr size_t kMostRows = 20000;

constexpr const char *kStyle = R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1c1f24;--soft:#59616d;--line:#d8dce2;--band:#f4f6f8;
--compute:#2563c4;--local:#0f8a74;--memory:#c4570c;--latency:#8546b8;--hidden:#8a919b}
@media(prefers-color-scheme:dark){:root{--page:#15181c;--ink:#e7eaee;--soft:#a3acb8;--line:#353b43;--band:#1e2227;
--compute:#6ea4f4;--local:#3fc3a8;--memory:#f0914a;--latency:#c190ec;--hidden:#7c848f}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:0 auto;padding:1.5rem;
max-width:1200px}
h1,p{overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.5rem 0 .5rem}
p.sub{color:var(--soft);margin:.25rem 0}
dl.keys{display:flex;flex-wrap:wrap;gap:.75rem 2rem;margin:1rem 0}dl.keys div{min-width:7rem}
dl.keys dt{color:var(--soft);font-size:.85rem}dl.keys dd{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.87rem;width:100%}
th,td{padding:.3rem .55rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.name{overflow-wrap:anywhere;min-width:10rem}
th{color:var(--soft);font-weight:600;background:var(--page)}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--compute)}
th[aria-sort=ascending] button::after{content:" \2191"}th[aria-sort=descending] button::after{content:" \2193"}
tbody tr:hover{background:var(--band)}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{display:inline-block;height:.6em;margin-right:.4em;border-radius:2px;vertical-align:baseline}
.tag{white-space:nowrap}.tag::before{content:"";display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.4em}
.b-compute.tag::before,.bar.b-compute{background:var(--compute)}
.b-local.tag::before,.bar.b-local{background:var(--local)}
.b-memory.tag::before,.bar.b-memory{background:var(--memory)}
.b-latency.tag::before,.bar.b-latency{background:var(--latency)}
.b-hidden.tag::before,.bar.b-hidden{background:var(--hidden)}
svg.picture{width:100%;min-width:640px;height:auto;display:block;font:11px system-ui,sans-serif}
svg text{fill:var(--soft)}svg .grid{stroke:var(--line);stroke-width:1}svg .roof{stroke:var(--ink);stroke-width:2}
circle{fill:var(--hidden);fill-opacity:.75;stroke:var(--page);stroke-width:1}
circle.b-compute{fill:var(--compute)}circle.b-local{fill:var(--local)}circle.b-memory{fill:var(--memory)}
circle.b-latency{fill:var(--latency)}
rect{stroke:var(--page);stroke-width:.4;fill:var(--hidden)}rect:hover,circle:hover{stroke:var(--ink);stroke-width:1.5}
rect.m-tensor{fill:var(--compute)}rect.m-tile-buffer{fill:var(--local)}rect.m-weights,rect.m-coefficients
{fill:var(--memory)}rect.m-exchange{fill:var(--latency)}rect.m-input{fill:var(--local)}rect.m-output{fill:var(--compute)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.85rem;color:var(--soft);margin:.4rem 0}
.key i::before{content:"";display:inline-block;width:.8em;height:.8em;margin-right:.4em;background:var(--c)}
.key i{font-style:normal}
@media(max-width:640px){body{padding:.75rem}th,td{padding:.25rem .35rem}dl.keys{gap:.5rem 1.25rem}}
figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.87rem}
.finding{border-left:3px solid var(--memory);padding:.1rem 0 .1rem .9rem;margin:1rem 0}
)";

// Sorts the table of a heading that is clicked, by data-v where a cell has it. No "<" and no "&" in it: the page is
// XML.
constexpr const char *kScript = R"(
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const th = button.parentElement, body = th.closest('table').tBodies[0];
  const column = Array.prototype.indexOf.call(th.parentElement.children, th);
  const down = th.getAttribute('aria-sort') !== 'descending';
  for (const other of th.parentElement.children) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const value = row => {
    const c = row.children[column];
    return c.dataset.v === undefined ? c.textContent : +c.dataset.v;
  };
  const order = (a, b) => a === b ? 0 : a > b ? 1 : -1;
  const rows = Array.from(body.rows).sort((a, b) => (down ? -1 : 1) * order(value(a), value(b)));
  for (const row of rows) body.appendChild(row);
});
)";

std::string begin_page(const std::string &title) {
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta charset=\"utf-8\"/>"
         "<meta name=\"viewport\" content=\"width=device-width\"/><title>" +
         escaped(title) + "</title>\n<style>" + kStyle + "</style></head>\n<body>\n";
}

std::string end_page() { return "<script>" + std::string(kScript) + "</script>\n</body></html>\n"; }

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
  const uint64_t bound = std::max({r.mac_bound, r.memory_bound, r.order_bound});
  std::string out = "<dl class=\"keys\">";
  out += key_figure("cycles", grouped(r.cycles));
  out += key_figure("time", print("%.1f us at %.0f MHz", us(r.cycles), NPU_FULL_CLOCK_KHZ / 1e3));
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
  return out +
         "</dl>\n<p class=\"sub\">No program of this network takes fewer cycles than the lower bound, the largest of "
         "three: all arithmetic at full rate; all coefficients, inputs and outputs moved once; and the arithmetic of "
         "the operators in their order with the loads of weights that local memory has no room for earlier.</p>\n";
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
  std::string out = "<tr>" + number_cell(index) + "<td class=\"name\">" + escaped(l.name) + "</td><td>" +
                    escaped(l.type) + "</td><td>" + shapes + "</td><td>" + types + "</td><td>" + escaped(l.where) +
                    "</td>";
  if (l.commands == 0) return out + "<td/><td/><td/><td/><td/><td/><td/></tr>\n";
  out +=
      number_cell(static_cast<uint64_t>(l.tiles)) + number_cell(l.bytes) + number_cell(l.macs) + number_cell(l.cycles);
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

std::string table(const Report &r, const std::vector<size_t> &layers, const char *name) {
  std::string out = "<div class=\"scroll\"><table class=\"" + std::string(name) + "\"><thead><tr>";
  for (const char *head : {"no.", "node", "operator", "shape", "type", "engine", "tiles", "bytes", "MACs", "cycles",
                           "share", "us", "bound by"})
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
  const std::vector<size_t> costliest = r.costliest(kCostliest);
  out += "<h2>Costliest nodes</h2>\n" + table(r, costliest, "costliest");
  out +=
      "<p class=\"sub\">The cycles of all nodes add up to those of the network: they are those of the critical path, "
      "command after command, and what a cycle there goes to bounds the node. A node whose commands run beside those "
      "of others only is hidden.</p>\n";
  out += "<h2>Roofline</h2>\n" + bound_key() + page::roofline(r);
  out +=
      "<p class=\"sub\">A node's MACs over the cycles in which a command of it is at work, on all cores. The larger "
      "a circle, the more of the network's cycles are its own.</p>\n";
  out += "<h2>Memory over time</h2>\n" + memory_key() + page::memory_maps(r);
  out += "<h2>All nodes</h2>\n" + table(r, all, "nodes");
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
