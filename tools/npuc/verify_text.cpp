// SPDX-License-Identifier: MIT
// The text that npuc --verify prints.
#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "tools/npuc/page.h"
#include "tools/npuc/verify.h"

namespace npu::npuc {
namespace {

using page::print;

std::string padded(std::string text, size_t width) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 32) c = '?';
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string index_text(int64_t at, const graph::Shape &shape) {
  std::string out;
  for (size_t d = shape.size(); d-- > 0;) {
    out = std::to_string(at % shape[d]) + (out.empty() ? "" : ",") + out;
    at /= shape[d];
  }
  return "[" + out + "]";
}

std::string part_name(const PartResult &p) {
  std::string out = p.name.empty() ? "all" : p.name;
  return p.where.empty() ? out : out + ", " + p.where;
}

std::string part_line(const std::string &output, const PartResult &p) {
  std::string out = padded(output, 32) + " " + padded(part_name(p), 24) + print(" %10" PRId64, p.count);
  if (p.integers)
    out += print(" %10.0f differ %10.0f", p.largest, p.allowed);
  else
    out += print(" %17.6g %10.3g", p.largest, p.allowed);
  out += std::isnan(p.cosine) ? "          -" : print(" %10.6f", p.cosine);
  out += std::string("  ") + verdict_name(p.verdict);
  return out + (p.not_compared ? print(", %" PRId64 " not compared", p.not_compared) : "") + "\n";
}

/// "output 'y', part 'scores': the largest difference is ...; element 7 (index [0,7]): got 0, expected 0.5"
std::string reason(const OutputResult &o, const PartResult &p) {
  std::string out = "'" + o.name + "'" + (p.name.empty() ? "" : ", part '" + p.name + "'") +
                    (p.where.empty() ? "" : ", " + p.where) + ": " + p.reason;
  if (p.at < 0) return out;  // no number to compare
  return out + print("; element %" PRId64, p.at) + " (index " + index_text(p.at, o.kind.shape) +
         "): " + print("got %.9g, expected %.9g", p.got, p.wanted);
}

void add_reasons(const std::vector<OutputResult> &outputs, Verdict verdict, const char *what, std::string &out) {
  for (const OutputResult &o : outputs)
    for (const PartResult &p : o.parts)
      if (p.verdict == verdict) out += std::string("  ") + what + " " + reason(o, p) + "\n";
}

std::string run_table(const VerifiedRun &run, const std::string &reference) {
  std::string out = "inputs         " + run.shapes + ": " + run.inputs + reference + "\n" + padded("output", 32) + " " +
                    padded("part", 24) + "   elements largest difference    allowed     cosine\n";
  for (const OutputResult &o : run.outputs)
    for (const PartResult &p : o.parts) out += part_line(o.name + " " + graph::kind_text(o.kind), p);
  return out;
}

}  // namespace

std::string Verification::text() const {
  std::string out = "verification   device " + device + ", reference " + reference() + "\n";
  for (const std::string &note : notes) out += "               " + note + "\n";
  if (std::any_of(runs.begin(), runs.end(), [](const VerifiedRun &r) { return r.reference == kEvaluator; }))
    out += "               the evaluator reads the file with npuc's importer, and would share its mistakes\n";
  const bool same =
      std::all_of(runs.begin(), runs.end(), [&](const auto &r) { return r.reference == runs[0].reference; });
  for (const VerifiedRun &run : runs) out += run_table(run, same ? "" : ", reference " + run.reference);
  const Verdict worst = verdict();
  out += std::string("verdict        ") + verdict_name(worst) + "\n";
  for (const VerifiedRun &run : runs)
    if (worst != Verdict::Right) add_reasons(run.outputs, worst, "output", out);
  add_reasons(understood, Verdict::Wrong, "npuc reads the file differently: its evaluator's output", out);
  if (first) {
    out += "first wrong    '" + first->tensor + "', result of " + first->type + " '" + first->node + "'";
    for (size_t i = 0; i < first->agreed.size(); ++i) out += (i ? ", '" : "; right: '") + first->agreed[i] + "'";
    out += "\n";
    add_reasons({first->result}, Verdict::Wrong, "tensor", out);
  }
  if (!searched.empty()) out += "first wrong    " + searched + "\n";
  if (worst == Verdict::Unclear)
    out += "               inputs that the network is for decide more: --verify-input, --verify-range\n";
  return out;
}

}  // namespace npu::npuc
