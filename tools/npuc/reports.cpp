// SPDX-License-Identifier: MIT
#include "tools/npuc/reports.h"

#include "npu_clock.h"

namespace npu::npuc {

Status parse_reports(const std::vector<std::string> &texts, std::vector<ReportRequest> &out) {
  bool printed = false;
  for (const std::string &text : texts) {
    const size_t equals = text.find('=');
    const std::string format = text.substr(0, equals);
    ReportRequest request;
    request.format = format == "html" ? ReportFormat::Html : ReportFormat::Json;
    if (format != "html" && format != "json")
      return Status::error("--report " + text + ": json, html, json=FILE or html=FILE is expected");
    if (equals != std::string::npos) {
      request.path = text.substr(equals + 1);
      if (request.path.empty()) return Status::error("--report " + text + ": a file has a name");
    } else if (printed) {
      return Status::error("--report " + text + ": only one report goes to standard output, others need =FILE");
    }
    printed = printed || request.path.empty();
    out.push_back(std::move(request));
  }
  return {};
}

double us(uint64_t cycles) { return static_cast<double>(cycles) * 1e3 / NPU_FULL_CLOCK_KHZ; }

Totals totals(const compiler::Report &report) {
  Totals out;
  for (const compiler::LayerReport &l : report.layers) {
    out.bytes += l.bytes;
    out.macs += l.macs;
  }
  return out;
}

std::string report_text(ReportFormat format, const Reported &what) {
  return format == ReportFormat::Json ? json_report(what) : html_report(what);
}

std::string report_text(ReportFormat format, const std::string &model, const compiler::Refusal &refusal) {
  return format == ReportFormat::Json ? json_report(model, refusal) : html_report(model, refusal);
}

}  // namespace npu::npuc
