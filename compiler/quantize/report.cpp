// SPDX-License-Identifier: MIT
// What quantization has done, as text and as a page.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compiler/quantize/result.h"

namespace npu::quantize {
namespace {

/// printf into a string.
template <class... T>
std::string print(const char *format, T... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string fitted(const std::string &name, size_t width) {
  std::string out = name.size() <= width ? name : ".." + name.substr(name.size() - width + 2);
  for (char &c : out)
    if (static_cast<unsigned char>(c) < 32) c = '?';
  return out + std::string(width - out.size(), ' ');
}

std::string decibels(double v) { return std::isinf(v) ? (v > 0 ? "exact" : "none") : print("%.1f", v); }

/// The layers with most noise first.
std::vector<const LayerResult *> ranked(const Result &result) {
  std::vector<const LayerResult *> out;
  for (const LayerResult &l : result.layers) out.push_back(&l);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto *a, const auto *b) { return a->difference.sqnr() < b->difference.sqnr(); });
  return out;
}

std::string place(const LayerResult &l) {
  if (!l.stored.empty()) return "stored as " + l.stored;
  return !l.integer ? "kept in float32" : l.rounded ? "" : "to float32";
}

std::string difference_text(const Difference &d) {
  std::string out =
      print("SQNR %s dB, cosine %.6f, largest error %.4g", decibels(d.sqnr()).c_str(), d.cosine(), d.most);
  if (d.left_out) out += print(", without %lld numbers that are NaN or infinite", static_cast<long long>(d.left_out));
  return out;
}

/// The parts of an output that its own cosine says too much good of.
std::vector<const PartResult *> worse_parts(const OutputResult &o) {
  std::vector<const PartResult *> out;
  for (const PartResult &p : o.parts)
    if (p.difference.signal > 0 && p.difference.cosine() < o.difference.cosine()) out.push_back(&p);
  return out;
}

std::string head_text(const Result &r) {
  if (!r.reals.empty())
    return print("%-14s %zu layers stored in 16 bits, compared with %zu samples\n", r.reals.c_str(), r.layers.size(),
                 r.compared);
  const auto kept = std::count_if(r.layers.begin(), r.layers.end(), [](const LayerResult &l) { return !l.integer; });
  const std::string named = r.named ? print(", besides %zu nodes by name", r.named) : "";
  return print("quantized      %zu layers, %zu kept in float32%s; ranges of %zu samples, compared with %zu\n",
               r.layers.size() - static_cast<size_t>(kept), static_cast<size_t>(kept), named.c_str(), r.samples,
               r.compared);
}

std::string top1_text(const Result &r) {
  return r.top1 ? print("top-1          %.4f, in float32 %.4f\n", *r.top1, *r.float_top1) : "";
}

std::string range_text(const InputResult &i) {
  return print("%.5g to %.5g, scale %.4g, zero point %d", static_cast<double>(i.range.low),
               static_cast<double>(i.range.high), static_cast<double>(i.quant.scale), i.quant.zero);
}

/// Text of a page.
std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out;
}

std::string cell(const std::string &text, const char *kind = "") {
  return "<td" + std::string(kind) + ">" + text + "</td>";
}
std::string number_cell(const std::string &text) { return cell(text, " class=\"n\""); }
/// A cell whose column is sorted by `value`.
std::string number_cell(const std::string &text, double value) {
  return cell(text, print(" class=\"n\" data-v=\"%.9g\"", std::isfinite(value) ? value : 1e9).c_str());
}

/// Bars as high as the logarithm of the shares, with the range of the integers as a line below.
std::string histogram_picture(const LayerResult &l) {
  constexpr double kWidth = 128, kHeight = 28, kDecades = 5;  // of shares that are seen
  const double span = static_cast<double>(l.high) - l.low;
  if (span <= 0) return "";
  std::string out =
      print("<svg width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"histogram\">", kWidth, kHeight + 4);
  const double step = kWidth / static_cast<double>(l.shares.size());
  for (size_t i = 0; i < l.shares.size(); ++i) {
    if (l.shares[i] <= 0) continue;
    const double height = std::clamp(1 + std::log10(l.shares[i]) / kDecades, 0.04, 1.0) * kHeight;
    out += print("<rect class=\"h\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                 static_cast<double>(i) * step, kHeight - height, step, height);
  }
  if (l.rounded) {
    const auto x = [&](double v) { return std::clamp((v - l.low) / span, 0., 1.) * kWidth; };
    out += print("<rect class=\"r\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"3\"/>", x(l.range.low), kHeight + 1,
                 x(l.range.high) - x(l.range.low));
  }
  return out + "</svg>";
}

/// A bar for the noise: 60 dB are none, 0 dB all.
std::string noise_picture(const LayerResult &l) {
  constexpr double kWidth = 100, kClean = 60;
  const double noise = std::clamp(1 - l.difference.sqnr() / kClean, 0.0, 1.0) * kWidth;
  return print(
      "<svg width=\"%.0f\" height=\"12\" role=\"img\" aria-label=\"noise\"><rect class=\"%s\" width=\"%.1f\" "
      "height=\"12\"/></svg>",
      kWidth, l.integer ? "b" : "k", noise);
}

std::string row(const LayerResult &l) {
  const Difference &d = l.difference;
  std::string out = "<tr>" + cell(escaped(l.name), " class=\"name\"") + cell(escaped(l.type)) + cell(noise_picture(l)) +
                    number_cell(decibels(d.sqnr()), d.sqnr()) + number_cell(print("%.6f", d.cosine()), d.cosine()) +
                    number_cell(print("%.4g", d.most), d.most);
  out += l.sensitivity ? number_cell(print("%.3g", *l.sensitivity), *l.sensitivity) : number_cell("");
  if (l.rounded)
    out += number_cell(print("%.4g to %.4g", static_cast<double>(l.range.low), static_cast<double>(l.range.high))) +
           number_cell(print("%.4g", static_cast<double>(l.quant.scale)), static_cast<double>(l.quant.scale)) +
           number_cell(std::to_string(l.quant.zero), l.quant.zero);
  else
    out += cell(place(l)) + cell("") + cell("");
  return out + cell(histogram_picture(l)) + "</tr>\n";
}

}  // namespace

std::string Result::text() const {
  std::string out = fitted("layer", 32) + " " + fitted("operator", 18) + " " +
                    print("%7s %9s %10s %12s %12s %11s %5s  %s\n", "SQNR dB", "cosine", "max error", "from", "to",
                          "scale", "zero", "sensitivity");
  for (const LayerResult *l : ranked(*this)) {
    out += fitted(l->name, 32) + " " + fitted(l->type, 18) + " ";
    out += compared ? print("%7s %9.6f %10.4g", decibels(l->difference.sqnr()).c_str(), l->difference.cosine(),
                            l->difference.most)
                    : print("%7s %9s %10s", "", "", "");
    if (l->rounded)
      out += print(" %12.5g %12.5g %11.4g %5d", static_cast<double>(l->range.low), static_cast<double>(l->range.high),
                   static_cast<double>(l->quant.scale), l->quant.zero);
    else
      out += print(" %-43s", place(*l).c_str());
    if (l->sensitivity) out += print("  %.3g", *l->sensitivity);
    while (out.back() == ' ') out.pop_back();
    out += "\n";
  }
  out += head_text(*this);
  for (const InputResult &i : inputs) out += fitted("input", 14) + " " + i.name + ": " + range_text(i) + "\n";
  for (const OutputResult &o : outputs) {
    out += fitted("output", 14) + " " + o.name + ": " + difference_text(o.difference) + "\n";
    for (const PartResult *p : worse_parts(o))
      out += fitted("", 14) + " " + p->name + ": " + difference_text(p->difference) + "\n";
  }
  for (const RealResult &r : real_tensors)
    out += fitted("in float32", 14) + " tensor '" + r.name + "': " + r.reason + "\n";
  for (const std::string &w : warnings) out += fitted("warning", 14) + " " + w + "\n";
  return out + top1_text(*this);
}

void Result::warn_of_differences() {
  const auto add = [this](const std::string &what, const Difference &d) {
    if (d.cosine() < kLeastCosine && (d.signal > 0 || d.noise > 0))
      warnings.push_back(what + print(" has a cosine of %.4f with float32", d.cosine()));
  };
  for (const LayerResult &l : layers) add("the result of " + l.type + " '" + l.name + "'", l.difference);
  for (const OutputResult &o : outputs) {
    add("output '" + o.name + "'", o.difference);
    for (const PartResult *p : worse_parts(o)) add(p->name + " of output '" + o.name + "'", p->difference);
  }
}

std::string Result::html() const {
  std::string out = "<p>" + escaped(head_text(*this)) + "</p>\n";
  for (const InputResult &i : inputs) out += "<p>Input <b>" + escaped(i.name) + "</b>: " + range_text(i) + "</p>\n";
  for (const OutputResult &o : outputs) {
    out += "<p>Output <b>" + escaped(o.name) + "</b>: " + difference_text(o.difference) + "</p>\n";
    for (const PartResult *p : worse_parts(o))
      out += "<p>&#8211; " + escaped(p->name) + ": " + difference_text(p->difference) + "</p>\n";
  }
  for (const RealResult &r : real_tensors)
    out += "<p>In float32: tensor <b>" + escaped(r.name) + "</b>: " + escaped(r.reason) + "</p>\n";
  for (const std::string &w : warnings) out += "<p><b>Warning:</b> " + escaped(w) + "</p>\n";
  if (top1) out += "<p>" + escaped(top1_text(*this)) + "</p>\n";
  out += "<div class=\"scroll\"><table><thead><tr>";
  for (const char *head : {"layer", "operator", "noise", "SQNR dB", "cosine", "largest error", "sensitivity", "range",
                           "scale", "zero", "numbers in float32 (logarithmic) and range"})
    out += "<th scope=\"col\"><button type=\"button\">" + std::string(head) + "</button></th>";
  out += "</tr></thead><tbody>\n";
  for (const LayerResult *l : ranked(*this)) out += row(*l);
  return out + "</tbody></table></div>\n";
}

}  // namespace npu::quantize
