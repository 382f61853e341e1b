#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The examples of docs/reference/onnxruntime.md and docs/guide/serving.md: those in C compile, those in Python and YAML
can be read.

usage: test_documents.py INCLUDE
"""
import os
import re
import subprocess
import sys
import unittest

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDE = sys.argv[1]


def blocks(document, language):
    with open(os.path.join(TOP, "docs", document), encoding="utf-8") as f:
        return re.findall(rf"^```{language}\n(.*?)^```$", f.read(), flags=re.M | re.S)


class Documents(unittest.TestCase):
    def test_c(self):
        found = blocks("reference/onnxruntime.md", "c")
        self.assertEqual(len(found), 1)
        done = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-isystem", INCLUDE,
                               "-x", "c", "-"], input=found[0], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_python(self):
        found = blocks("guide/serving.md", "python")
        self.assertEqual(len(found), 1)
        compile(found[0], "guide/serving.md", "exec")

    def test_yaml(self):
        found = blocks("guide/serving.md", "yaml")
        self.assertEqual(len(found), 1)
        runtime, service = yaml.safe_load_all(found[0])
        self.assertEqual(runtime["kind"], "ServingRuntime")
        container = runtime["spec"]["containers"][0]
        self.assertEqual({e["name"] for e in container["env"]}, {"LD_PRELOAD", "QNPU_ORT_OPTIONS"})
        self.assertTrue(container["image"] and container["args"][0] == "tritonserver")
        self.assertEqual(service["kind"], "InferenceService")
        self.assertEqual(service["spec"]["predictor"]["model"]["runtime"], runtime["metadata"]["name"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
