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

constexpr Frame kPlot{.width = 920, .height = 430, .left = 72, .right = 24, .top = 18, .bottom = 46};
constexpr double kBeside = 80;             ///< room right of the scale, for nodes that move nothing through memory
constexpr size_t kLabels = 10;             ///< points that have their number beside them
constexpr double kLetter = 7;              ///< width of a letter of the page's font, about
constexpr double kAbove = 10, kBelow = 3;  ///< height of text above and below its line

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
    // Circles stay apart from the numbers of the axes.
    if (std::isfinite(p.intensity)) x_low = std::min(x_low, 0.8 * p.intensity);
    if (std::isfinite(p.intensity)) x_high = std::max(x_high, 1.25 * p.intensity);
    y_low = std::min(y_low, 0.7 * p.speed);
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
           label(a.x(v), kPlot.height - kPlot.bottom + 20, "middle", print("%g", v));
  for (double v = a.y_low; v <= a.y_high; v *= 10)
    out += line(kPlot.left, a.y(v), kPlot.width - kPlot.right, a.y(v), "grid") +
           label(kPlot.left - 6, a.y(v) + 4, "end", print("%g", v));
  out += label((kPlot.left + kPlot.width) / 2, kPlot.height - 10, "middle", "MACs per byte of memory traffic");
  out += label(a.x(std::numeric_limits<double>::infinity()), kPlot.height - kPlot.bottom + 20, "middle", "no bytes");
  out += print("<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">MACs per cycle</text>",
               kPlot.height / 2);
  return out;
}

/// Area of a text.
struct Area {
  double left, top, right, bottom;

  bool meets(const Area &o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

/// Texts on the plot, none of which overlaps another one or a point.
class Labels {
 public:
  void keep_free(const Area &area) { taken_.push_back(area); }

  /// Adds a text that ends or begins at `x`, unless something is there. Returns false then.
  bool add(double x, double y, const char *anchor, const std::string &text, const char *style = "") {
    const double width = kLetter * static_cast<double>(text.size());
    const double left = anchor[0] == 'e' ? x - width : anchor[0] == 'm' ? x - width / 2 : x;
    const Area place{left, y - kAbove, left + width, y + kBelow};
    const auto meets = [&](const Area &other) { return place.meets(other); };
    if (place.left < kPlot.left || place.right > kPlot.width || place.top < 0 ||
        place.bottom > kPlot.height - kPlot.bottom || std::any_of(taken_.begin(), taken_.end(), meets))
      return false;
    taken_.push_back(place);
    text_ += print("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", style, x, y, anchor) +
             escaped(text) + "</text>";
    return true;
  }
  const std::string &text() const { return text_; }

 private:
  std::vector<Area> taken_;
  std::string text_;
};

/// One roof: memory up to the ridge, arithmetic behind it. Its name stands left of the ridge, where no point can be, or
/// at the right end.
std::string roof(const Axes &a, double peak, double bandwidth, const std::string &name, Labels &labels) {
  constexpr int kPieces = 60;  // pieces of the slope, which labels keep off
  const double ridge = a.x(peak / bandwidth), from = a.x(std::max(a.x_low, a.y_low / bandwidth));
  const double low = a.y(std::max(a.x_low * bandwidth, a.y_low)), high = a.y(peak), right = kPlot.width - kPlot.right;
  if (!labels.add(ridge - 8, high - 5, "end", name)) labels.add(right, high - 5, "end", name);
  labels.keep_free({ridge, high - 1, right, high + 1});
  for (int i = 0; i < kPieces; ++i) {
    const double x = from + (ridge - from) * i / kPieces, y = low + (high - low) * i / kPieces;
    labels.keep_free({x, y + (high - low) / kPieces - 1, x + (ridge - from) / kPieces, y + 1});
  }
  return line(from, low, ridge, high, "roof") + line(ridge, high, right, high, "roof");
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

/// Numbers beside the first points that have room for them. Returns the indices of these points.
std::vector<size_t> add_numbers(const Axes &a, const std::vector<Point> &points, const Report &r, Labels &labels) {
  std::vector<size_t> out;
  for (size_t i = 0; i < points.size() && out.size() < kLabels; ++i) {
    const std::string number = std::to_string(points[i].layer - r.layers.data());
    const double x = a.x(points[i].intensity), y = a.y(points[i].speed), size = radius(points[i], r.cycles) + 3;
    if (labels.add(x + size, y + 4, "start", number, "point") || labels.add(x - size, y + 4, "end", number, "point") ||
        labels.add(x, y - size - kBelow, "middle", number, "point") ||
        labels.add(x, y + size + kAbove, "middle", number, "point"))
      out.push_back(i);
  }
  return out;
}

/// The names behind the numbers.
std::string legend(const std::vector<Point> &points, const std::vector<size_t> &numbered, const Report &r) {
  std::string out = "<ul class=\"points\">";
  for (const size_t i : numbered) {
    const LayerReport &l = *points[i].layer;
    out += "<li>" + std::to_string(&l - r.layers.data()) + ": " + escaped(l.name) + " (" + escaped(l.type) + ")</li>";
  }
  return out + "</ul>\n";
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
  std::string out =
      print("<div class=\"scroll\"><svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"roofline\">",
            kPlot.width, kPlot.height);
  Labels labels;
  for (const Point &p : points) {
    const double x = axes.x(p.intensity), y = axes.y(p.speed), size = radius(p, r.cycles);
    labels.keep_free({x - size, y - size, x + size, y + size});
  }
  out += grid(axes);
  for (const uint64_t rate : rates)
    out += roof(axes, once * static_cast<double>(rate), bandwidth,
                print("%.0f MACs a cycle, %s bits", once * static_cast<double>(rate),
                      rate == 1              ? "32"
                      : rate == chip.rate_16 ? "16"
                                             : "8"),
                labels);
  const double slope = std::sqrt(std::max(axes.x_low, axes.y_low / bandwidth) * once / bandwidth);
  labels.add(axes.x(slope) - 8, axes.y(slope * bandwidth) - 6, "end", print("%.0f bytes a cycle", bandwidth));
  std::stable_sort(points.begin(), points.end(),
                   [](const Point &a, const Point &b) { return a.layer->cycles > b.layer->cycles; });
  for (const Point &p : points) out += point(axes, p, r.cycles);
  const std::vector<size_t> numbered = add_numbers(axes, points, r, labels);
  return out + labels.text() + "</svg></div>\n" + legend(points, numbered, r);
}

}  // namespace npu::npuc::page
