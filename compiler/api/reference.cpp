// SPDX-License-Identifier: MIT
#include "compiler/api/reference.h"

#include <algorithm>

#include "compiler/api/compile_graph.h"
#include "compiler/import/importer.h"
#include "compiler/import/open_batch.h"
#include "compiler/import/plugin_ops.h"

namespace npu::compiler {
namespace {

/// Operators that a plug-in computes, also in bodies and functions.
void find_plugins(const std::vector<graph::RawNode> &nodes, const graph::RawModel &model, std::set<std::string> &out) {
  for (const graph::RawNode &n : nodes) {
    const bool function = std::ranges::any_of(
        model.functions, [&n](const graph::RawFunction &f) { return f.domain == n.domain && f.name == n.type; });
    if (!function && !graph::find_op(n.domain, n.type) && graph::is_plugin_operator(n))
      out.insert((n.domain.empty() ? "" : n.domain + ".") + n.type);
    for (const auto &[name, a] : n.attributes)
      if (a.graph) find_plugins(a.graph->nodes, model, out);
  }
}

/// The value of an input in the shape of the file.
graph::TensorPtr shaped(const graph::RawValue &v, const graph::TensorPtr &given) {
  graph::Shape shape;
  if (!graph::fit_value(v, given->shape, shape) || shape == given->shape) return given;
  auto out = std::make_shared<graph::Tensor>(*given);
  out->shape = shape;
  return out;
}

}  // namespace

Status import_reference(const std::string &path, const Options &options, Reference &out) {
  return guarded([&]() -> Status {
    out = {};
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx_file(path, raw));
    NPU_TRY(replace_outputs(options.outputs, raw));
    for (const graph::RawValue &v : raw.inputs) {
      FileTensor &t = out.inputs.emplace_back(FileTensor{v.name, v.dtype, {}, v.has_shape});
      for (const graph::RawDim &d : v.dims) t.open.push_back(d.value < 0);
    }
    for (const auto &[name, value] : options.values)
      for (const graph::RawValue &v : raw.inputs)
        if (v.name == name) out.values[name] = shaped(v, value);
    find_plugins(raw.nodes, raw, out.plugins);
    for (const graph::RawFunction &f : raw.functions) find_plugins(f.nodes, raw, out.plugins);
    for (const graph::RawNode &n : raw.nodes) out.results.insert(n.outputs.begin(), n.outputs.end());
    graph::ImportOptions import_options{options.shapes, options.values};
    if (options.assume_batch) graph::assume_batch(raw, import_options);
    return graph::import_with_types(raw, import_options, out.graph, out.types).within(path);
  });
}

}  // namespace npu::compiler
