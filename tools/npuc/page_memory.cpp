// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <map>

#include "tools/npuc/page.h"

namespace npu::npuc::page {
namespace {

using compiler::HeldReport;
using compiler::LayerReport;

constexpr Frame kMap{.width = 920, .height = 240, .left = 84, .right = 14, .top = 8, .bottom = 42};
constexpr size_t kMost = 4000;   ///< rectangles of a picture; the largest ones are drawn
constexpr double kLeast = 0.75;  ///< height and width of the smallest

double area(const HeldReport &h) { return static_cast<double>(h.bytes) * static_cast<double>(h.to - h.from); }

std::string rectangle(const HeldReport &h, const MapPicture &p, const std::vector<LayerReport> &layers) {
  const double width = kMap.width - kMap.left - kMap.right, height = kMap.height - kMap.top - kMap.bottom;
  const auto x = [&](uint64_t cycle) {
    return kMap.left + width * static_cast<double>(cycle) / static_cast<double>(p.cycles);
  };
  const double bytes = static_cast<double>(p.bytes);
  const double high = std::max(kLeast, height * static_cast<double>(h.bytes) / bytes);
  const double bottom = kMap.height - kMap.bottom - height * static_cast<double>(h.address) / bytes;
  std::string kind = h.kind;
  std::replace(kind.begin(), kind.end(), ' ', '-');
  std::string out = print("<rect class=\"m-%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>",
                          kind.c_str(), x(h.from), bottom - high, std::max(kLeast, x(h.to) - x(h.from)), high);
  out += escaped(h.name.empty() ? h.kind : h.kind + (" " + h.name)) + ", node " + escaped(layers[h.layer].name);
  out += ": " + size_text(h.bytes) + " at " + print("0x%llx", static_cast<unsigned long long>(h.address));
  return out + ", cycles " + grouped(h.from) + " to " + grouped(h.to) + "</title></rect>";
}

/// A round number of cycles of which at most six are in all of them: 1, 2 or 5 with zeros.
uint64_t cycle_step(uint64_t all) {
  uint64_t step = 1;
  for (int i = 0; all / step > 6; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

/// A power of two of which at most five are in all bytes.
uint64_t byte_step(uint64_t all) {
  uint64_t step = 1;
  while (all / step > 5) step *= 2;
  return step;
}

std::string axes(const MapPicture &p) {
  const double width = kMap.width - kMap.left - kMap.right, height = kMap.height - kMap.top - kMap.bottom,
               bottom = kMap.height - kMap.bottom;
  const auto part = [](uint64_t v, uint64_t all) { return static_cast<double>(v) / static_cast<double>(all); };
  std::string out;
  for (uint64_t v = 0; v <= p.bytes; v += byte_step(p.bytes)) {
    const double y = bottom - height * part(v, p.bytes);
    out += print("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", kMap.left, y,
                 kMap.width - kMap.right, y);
    out += print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", kMap.left - 6, y + 4) + (v ? size_text(v) : "0") +
           "</text>";
  }
  for (uint64_t v = 0; v <= p.cycles; v += cycle_step(p.cycles)) {
    const double x = kMap.left + width * part(v, p.cycles);
    out += print("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, bottom, x, bottom + 4);
    out += print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, bottom + 16,
                 part(v, p.cycles) > 0.94 ? "end" : "middle") +
           grouped(v) + "</text>";
  }
  return out +
         print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">cycles</text>", kMap.left + width / 2, bottom + 36);
}

/// Inputs and outputs have no addresses before a launch: each has a place of its own here.
std::vector<HeldReport> stacked(std::vector<HeldReport> list, uint64_t &bytes) {
  std::map<std::pair<std::string, std::string>, uint64_t> places;
  bytes = 0;
  for (HeldReport &h : list) {
    const auto [place, fresh] = places.try_emplace({h.kind, h.name}, bytes);
    if (fresh) bytes += h.bytes;
    h.address = place->second;
  }
  return list;
}

uint64_t end_of(const std::vector<HeldReport> &list) {
  uint64_t end = 0;
  for (const HeldReport &h : list) end = std::max(end, h.address + h.bytes);
  return end;
}

}  // namespace

std::string memory_map(const MapPicture &p, const std::vector<HeldReport> &held,
                       const std::vector<LayerReport> &layers) {
  if (held.empty() || p.cycles == 0 || p.bytes == 0) return "";
  std::vector<const HeldReport *> drawn;
  for (const HeldReport &h : held) drawn.push_back(&h);
  std::stable_sort(drawn.begin(), drawn.end(), [](const auto *a, const auto *b) { return area(*a) > area(*b); });
  if (drawn.size() > kMost) drawn.resize(kMost);
  std::string out = "<figure><figcaption>" + escaped(p.title) + ", " + size_text(p.bytes);
  if (held.size() > drawn.size())
    out += ": the largest " + grouped(drawn.size()) + " of " + grouped(held.size()) + " pieces";
  out += "</figcaption>";
  out += print(
      "<div class=\"scroll\"><svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"memory over "
      "time\">",
      kMap.width, kMap.height);
  out += axes(p);
  for (const HeldReport *h : drawn) out += rectangle(*h, p, layers) + "\n";
  return out + "</svg></div></figure>\n";
}

std::string memory_maps(const compiler::Report &r) {
  std::string out;
  for (size_t core = 0; core < r.cores; ++core) {
    std::vector<HeldReport> own;
    for (const HeldReport &h : r.memory.local)
      if (h.core == core) own.push_back(h);
    out += memory_map({r.cores > 1 ? "Local memory of core " + std::to_string(core) : "Local memory",
                       static_cast<uint64_t>(r.lmem_used), r.cycles},
                      own, r.layers);
  }
  out += memory_map({"Memory: activations", end_of(r.memory.activations), r.cycles}, r.memory.activations, r.layers);
  out += memory_map({"Memory: coefficients, while they are read", end_of(r.memory.coefficients), r.cycles},
                    r.memory.coefficients, r.layers);
  uint64_t bytes = 0;
  const std::vector<HeldReport> outside = stacked(r.memory.outside, bytes);
  return out +
         memory_map({"Memory: inputs and outputs, while they are read or written", bytes, r.cycles}, outside, r.layers);
}

}  // namespace npu::npuc::page
