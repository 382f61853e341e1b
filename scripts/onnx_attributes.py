# SPDX-License-Identifier: MIT
"""Prints compiler/import/known_attributes.cpp: the attributes of each operator, from the schemas that ONNX's Python
module has inside.

usage: onnx_attributes.py FOLDER-OF-THE-MODULE VERSION      (scripts/onnx-newest.sh --attributes)
"""
import sys

HEAD = """\
// SPDX-License-Identifier: MIT
// Made by scripts/onnx-newest.sh --attributes from the schemas of ONNX %s. Do not edit.
#include "compiler/import/known_attributes.h"

namespace npu::graph {
namespace {

/// By operator and version, a line for each in which the names have changed.
constexpr AttributeNames kTable[] = {
"""
TAIL = """\
};

}  // namespace

std::span<const AttributeNames> attribute_names() { return kTable; }

}  // namespace npu::graph
"""


def main():
    folder, version = sys.argv[1:]
    sys.path.insert(0, folder)
    import onnx_cpp2py_export  # pylint: disable=import-outside-toplevel,import-error

    operators = {}
    for schema in onnx_cpp2py_export.defs.get_all_schemas_with_history():
        if not schema.domain:
            operators.setdefault(schema.name, {})[schema.since_version] = " ".join(sorted(schema.attributes))
    print(HEAD % version, end="")
    for name in sorted(operators):
        before = None
        for since, names in sorted(operators[name].items()):
            if names != before:
                print('    {"%s", %d, "%s"},' % (name, since, names))
            before = names
    print(TAIL, end="")


if __name__ == "__main__":
    main()
