// SPDX-License-Identifier: MIT
#include "compiler/graph/obstacle.h"

#include <iterator>

#include "runtime/cpu/node.h"

namespace npu::graph {
namespace {

/// By Obstacle.
constexpr struct {
  const char *name;
  int code;  ///< of a Status: one for each
} kObstacles[] = {{"other", -EINVAL},
                  {"operator", -ENOSYS},
                  {"operator set", -EPROTONOSUPPORT},
                  {"attribute", -ENOPROTOOPT},
                  {"value", -ENODATA},
                  {"data-dependent shape", -EDOM},
                  {"open shape", -EDESTADDRREQ},
                  {"type", cpu::kWrongType},
                  {"form", -EOPNOTSUPP},
                  {"size", -EFBIG},
                  {"option", -ERANGE},
                  {"declared shape", -EILSEQ},
                  {"local memory", -ENOSPC},
                  {"file", -ENOEXEC},
                  {"file", -EUNATCH},
                  {"plug-in", -ELIBBAD},
                  {"function", -ELOOP},
                  {"no input", -ENXIO}};
static_assert(std::size(kObstacles) == static_cast<size_t>(Obstacle::NoInput) + 1);

}  // namespace

const char *obstacle_name(Obstacle obstacle) { return kObstacles[static_cast<size_t>(obstacle)].name; }

Status refuse(Obstacle obstacle, std::string message) {
  return Status::error(kObstacles[static_cast<size_t>(obstacle)].code, std::move(message));
}

Obstacle obstacle_of(const Status &status) {
  for (size_t i = 0; i < std::size(kObstacles); ++i)
    if (kObstacles[i].code == status.code()) return static_cast<Obstacle>(i);
  return Obstacle::Other;
}

std::string Findings::text(bool help) const {
  std::string out = headline + ":";
  for (const Finding &f : list) {
    out += "\n  " + f.op + (f.count > 1 ? " (" + std::to_string(f.count) + " nodes: " : " ");
    for (size_t i = 0; i < f.nodes.size(); ++i) out += (i ? ", '" : "'") + f.nodes[i] + "'";
    if (f.count > f.nodes.size()) out += ", ...";
    out += (f.count > 1 ? "): " : ": ") + f.what;
    if (help && !f.help.empty()) out += "\n    help: " + f.help;
  }
  return out;
}

}  // namespace npu::graph
