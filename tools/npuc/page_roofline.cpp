// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "npu_cost.hpp"
#include "tools/npuc/page.h"

namespace npu::npuc::page {
namespace {

using compiler::LayerReport;
using compiler::Report;

constexpr Frame kPlot{.width = 920, .height = 430, .left = 64, .right = 24, .top = 18, .bottom = 46};
constexpr double kBeside = 80;  ///< where nodes stand that move nothing through memory, right of the scale
constexpr size_t kLabels = 6;   ///< points that have their name beside them

struct Point {
  const LayerReport *layer;
  double intensity, speed;  ///< MACs a byte, infinite where there are none; MACs a cycle
};

/// Both scales are logarithmic.
struct Axes {
  double x_low, x_high, y_low, y_high;

  double x(double v) const {
    const double right = kPlot.width - kPlot.right - kBeside;
    if (std::isinf(v)) return right + kBeside * 0.65;
    return kPlot.left + (right - kPlot.left) * std::log(v / x_low) / std::log(x_high / x_low);
  }
  double y(double v) const {
    return kPlot.height - kPlot.bottom -
           (kPlot.height - kPlot.bottom - kPlot.top) * std::log(v / y_low) / std::log(y_high / y_low);
  }
};

std::vector<Point> points_of(const Report &r) {
  std::vector<Point> out;
  for (const LayerReport &l : r.layers) {
    if (l.macs == 0 || l.active == 0) continue;
    const double macs = static_cast<double>(l.macs);
    out.push_back({&l, l.bytes ? macs / static_cast<double>(l.bytes) : std::numeric_limits<double>::infinity(),
                   macs / static_cast<double>(l.active)});
  }
  return out;
}

double power_below(double v) { return std::pow(10, std::floor(std::log10(v))); }
double power_above(double v) { return std::pow(10, std::ceil(std::log10(v))); }

Axes axes_for(const std::vector<Point> &points, double peak, double bandwidth) {
  double x_low = peak / bandwidth / 4, x_high = peak / bandwidth * 4, y_low = peak / 100;
  for (const Point &p : points) {
    if (std::isfinite(p.intensity)) x_low = std::min(x_low, p.intensity);
    if (std::isfinite(p.intensity)) x_high = std::max(x_high, p.intensity);
    y_low = std::min(y_low, p.speed);
  }
  return {power_below(x_low), power_above(x_high), power_below(y_low), peak * 1.6};
}

std::string line(double x1, double y1, double x2, double y2, const char *style) {
  return print("<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", style, x1, y1, x2, y2);
}

std::string label(double x, double y, const char *anchor, const std::string &text) {
  return print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) + text + "</text>";
}

std::string grid(const Axes &a) {
  std::string out;
  for (double v = a.x_low; v <= a.x_high * 1.001; v *= 10)
    out += line(a.x(v), kPlot.top, a.x(v), kPlot.height - kPlot.bottom, "grid") +
           label(a.x(v), kPlot.height - kPlot.bottom + 16, "middle", print("%g", v));
  for (double v = a.y_low; v <= a.y_high; v *= 10)
    out += line(kPlot.left, a.y(v), kPlot.width - kPlot.right, a.y(v), "grid") +
           label(kPlot.left - 6, a.y(v) + 4, "end", print("%g", v));
  out += label((kPlot.left + kPlot.width) / 2, kPlot.height - 10, "middle", "MACs per byte of memory traffic");
  out += label(a.x(std::numeric_limits<double>::infinity()), kPlot.height - kPlot.bottom + 16, "middle", "no bytes");
  out += print("<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">MACs per cycle</text>",
               kPlot.height / 2);
  return out;
}

/// One roof: memory up to the ridge, arithmetic behind it.
std::string roof(const Axes &a, double peak, double bandwidth, const std::string &name) {
  const double ridge = peak / bandwidth, from = std::max(a.x_low, a.y_low / bandwidth);
  return line(a.x(from), a.y(from * bandwidth), a.x(ridge), a.y(peak), "roof") +
         line(a.x(ridge), a.y(peak), kPlot.width - kPlot.right, a.y(peak), "roof") +
         label(kPlot.width - kPlot.right, a.y(peak) - 5, "end", name);
}

double share_of(const Point &p, uint64_t cycles) {
  return cycles ? static_cast<double>(p.layer->cycles) / static_cast<double>(cycles) : 0;
}

double radius(const Point &p, uint64_t cycles) { return 3.5 + 9 * std::sqrt(share_of(p, cycles)); }

std::string point(const Axes &a, const Point &p, uint64_t cycles) {
  const double share = share_of(p, cycles);
  std::string out = print("<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">",
                          bound_class(p.layer->bound()).c_str(), a.x(p.intensity), a.y(p.speed), radius(p, cycles));
  out += "<title>" + escaped(p.layer->name) + " (" + escaped(p.layer->type) + "): ";
  out += std::isinf(p.intensity) ? "no bytes" : print("%.3g MACs a byte", p.intensity);
  return out + print(", %.4g MACs a cycle, %.1f %% of all cycles</title></circle>", p.speed, 100 * share);
}

/// Where something is drawn.
struct Area {
  double left, top, right, bottom;

  bool meets(const Area &o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

/// Names beside the first points that have room for them: on no point and on no other name.
std::string names(const Axes &a, const std::vector<Point> &points, uint64_t cycles) {
  constexpr double kLetter = 6.5, kAbove = 9, kBelow = 3;  // of the page's font, at most
  constexpr size_t kLongest = 40;
  std::vector<Area> taken;
  for (const Point &p : points) {
    const double x = a.x(p.intensity), y = a.y(p.speed), r = radius(p, cycles);
    taken.push_back({x - r, y - r, x + r, y + r});
  }
  std::string out;
  size_t labels = 0;
  for (size_t i = 0; i < points.size() && labels < kLabels; ++i) {
    const std::string name = points[i].layer->name.substr(0, kLongest);
    const double x = a.x(points[i].intensity), y = a.y(points[i].speed) + 4, r = radius(points[i], cycles) + 3;
    const double width = kLetter * static_cast<double>(name.size());
    for (const bool left : {x > kPlot.width * 0.7, x <= kPlot.width * 0.7}) {
      const double from = left ? x - r - width : x + r;
      const Area place{from, y - kAbove, from + width, y + kBelow};
      const auto meets = [&](const Area &other) { return place.meets(other); };
      if (place.left < kPlot.left || place.right > kPlot.width || std::any_of(taken.begin(), taken.end(), meets))
        continue;
      taken.push_back(place);
      out += label(left ? x - r : x + r, y, left ? "end" : "start", escaped(name));
      ++labels;
      break;
    }
  }
  return out;
}

}  // namespace

std::string roofline(const Report &r) {
  constexpr hw::CostParams chip;
  const double cores = static_cast<double>(r.cores), bandwidth = chip.ddr_bw * cores;
  const double once = static_cast<double>(chip.mac_ic) * chip.mac_oc * chip.mac_pixels * cores;
  std::vector<Point> points = points_of(r);
  if (points.empty()) return "<p>No node multiplies and accumulates on the chip.</p>\n";
  std::set<uint64_t> rates{1};
  for (const Point &p : points) rates.insert(p.layer->mac_rate);
  const Axes axes = axes_for(points, once * static_cast<double>(*rates.rbegin()), bandwidth);
  std::string out = print(
      "<div class=\"scroll\"><svg class=\"picture\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"roofline\">",
      kPlot.width, kPlot.height);
  out += grid(axes);
  for (const uint64_t rate : rates)
    out += roof(axes, once * static_cast<double>(rate), bandwidth,
                print("%.0f MACs a cycle, %s bits", once * static_cast<double>(rate),
                      rate == 1              ? "32"
                      : rate == chip.rate_16 ? "16"
                                             : "8"));
  const double slope = std::sqrt(std::max(axes.x_low, axes.y_low / bandwidth) * once / bandwidth);
  out += label(axes.x(slope) - 8, axes.y(slope * bandwidth) - 6, "end", print("%.0f bytes a cycle", bandwidth));
  std::stable_sort(points.begin(), points.end(),
                   [](const Point &a, const Point &b) { return a.layer->cycles > b.layer->cycles; });
  for (const Point &p : points) out += point(axes, p, r.cycles);
  out += names(axes, points, r.cycles);
  return out + "</svg></div>\n";
}

}  // namespace npu::npuc::page
