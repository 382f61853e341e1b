// SPDX-License-Identifier: MIT
// --report: what npuc has made of a network as JSON (docs/reference/schemas/npuc-report.schema.json) or as a page.
#ifndef NPU_NPUC_REPORTS_H
#define NPU_NPUC_REPORTS_H

#include <span>
#include <string>
#include <vector>

#include "compiler/api/npuc.h"
#include "tools/npuc/verify.h"

namespace npu::npuc {

enum class ReportFormat : uint8_t { Json, Html };

/// One --report.
struct ReportRequest {
  ReportFormat format = ReportFormat::Json;
  std::string path;  ///< empty: standard output
};

/// "json", "html", "json=FILE", "html=FILE"; at most one for standard output.
Status parse_reports(const std::vector<std::string> &texts, std::vector<ReportRequest> &out);

/// What a report is about.
struct Reported {
  std::string model;                           ///< path of the file
  std::span<const std::string> stages;         ///< the --stage options; there may be none
  std::span<const compiler::Compiled> stage;   ///< each as it was compiled; the first has the network's name
  const Verification *verification = nullptr;  ///< null: without --verify
};

std::string report_text(ReportFormat format, const Reported &what);
/// Of a network that could not be compiled.
std::string report_text(ReportFormat format, const std::string &model, const compiler::Refusal &refusal);

/// The page of --quantize-report.
std::string quantize_page(const std::string &model, const quantize::Result &result);

/// Nodes that are named first.
inline constexpr size_t kCostliest = 10;

/// Microseconds at the chip's full clock.
double us(uint64_t cycles);

/// Of all nodes.
struct Totals {
  uint64_t bytes = 0, macs = 0;
};
Totals totals(const compiler::Report &report);

// Of one format.
std::string json_report(const Reported &what);
std::string json_report(const std::string &model, const compiler::Refusal &refusal);
std::string html_report(const Reported &what);
std::string html_report(const std::string &model, const compiler::Refusal &refusal);

}  // namespace npu::npuc

#endif  // NPU_NPUC_REPORTS_H
