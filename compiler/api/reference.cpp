// SPDX-License-Identifier: MIT
#include "compiler/api/reference.h"

#include "compiler/api/compile_graph.h"
#include "compiler/import/importer.h"
#include "compiler/import/open_batch.h"

namespace npu::compiler {

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
    for (const graph::RawNode &n : raw.nodes) out.results.insert(n.outputs.begin(), n.outputs.end());
    graph::ImportOptions import_options{options.shapes, options.values};
    if (options.assume_batch) graph::assume_batch(raw, import_options);
    return graph::import_with_types(raw, import_options, out.graph, out.types).within(path);
  });
}

}  // namespace npu::compiler
