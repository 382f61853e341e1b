# SPDX-License-Identifier: MIT
"""Operators of a user's own from a shared library: examples/plugin, and libraries that are wrong."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import qnpu
import support
from onnx_writer import Graph

EXAMPLE = os.path.join(support.TOP, "examples", "plugin", "signal_operators.c")
DOMAIN = "com.example"
# Libraries stay loaded as long as the process lives.
_folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with

# A plug-in of one operator: PREFIX, the name and the bodies of its functions come in front of this.
TABLE = """
static const struct npu_plugin_op ops[] = {{"test", NAME, 1, 2, 1, 2, infer, compute}};
const struct npu_plugin *npu_plugin_entry(void) {
  static const struct npu_plugin plugin = {VERSION, COUNT, ops};
  return &plugin;
}
"""
SAME = "call->outputs[0] = call->inputs[0]; return 0;"
NOTHING = "(void)call; return 0;"


def library(source, name, *flags, compiler="cc"):
    """The path of a shared library; compiled as a user does it, with the header and nothing else."""
    path = os.path.join(_folder.name, name)
    if not os.path.exists(path):
        subprocess.run([compiler, *flags, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-I",
                        os.path.join(support.TOP, "runtime", "include"), "-o", path, source], check=True)
    return path


def example():
    return library(EXAMPLE, "libsignal_operators.so", "-std=c99", "-pedantic")


def written(name, infer=SAME, compute=NOTHING, version="NPU_PLUGIN_VERSION", count="1", table=TABLE, language="c"):
    """A library with the operator test.`name`."""
    source = os.path.join(_folder.name, name + "." + language)
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <stdexcept>\n" * (language == "cc") +
                   f'#include <npu_plugin.h>\n#include <stdlib.h>\n#define NAME "{name}"\n#define VERSION {version}\n'
                   f"#define COUNT {count}\n"
                   f"static int infer(const struct npu_plugin_call *call) {{ {infer} }}\n"
                   f"static int compute(const struct npu_plugin_call *call) {{ {compute} }}\n"
                   + table.strip() + "\n")
    return library(source, f"lib{name}.so", compiler="c++" if language == "cc" else "cc")


def network(op, domain=DOMAIN, shape=(2, 6), dtype=np.float32, outputs=1, more=(), **attributes):
    """x -> y, or several outputs."""
    graph = Graph("own")
    x = graph.input("x", shape, dtype)
    inputs = [x, *(graph.const(value) for value in more)]
    for y in graph.node(op, inputs, [f"y{k}" for k in range(outputs)], domain=domain, **attributes):
        graph.output(y, None, np.int64)
    return graph.serialize()


def run_lengths(x, least=1):
    """As RunLengths."""
    values, lengths, counts = np.zeros_like(x), np.zeros(x.shape, np.int64), []
    for row, out, lens in zip(x, values, lengths):
        ends = [*np.flatnonzero(row[1:] != row[:-1]) + 1, len(row)]
        runs = [(begin, end) for begin, end in zip([0, *ends[:-1]], ends) if end - begin >= least]
        out[:len(runs)] = row[[begin for begin, _ in runs]]
        lens[:len(runs)] = [end - begin for begin, end in runs]
        counts.append([len(runs)])
    return values, lengths, np.array(counts)


def tearDownModule():  # pylint: disable=invalid-name
    _folder.cleanup()


class Own(support.Test):
    @classmethod
    def setUpClass(cls):
        qnpu.load_plugin(example())

    def run_program(self, *line, **environment):
        done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        return done.returncode, done.stdout + done.stderr

    def test_between_nodes_of_the_chip(self):
        graph = Graph("gate")
        x = graph.input("x", (4, 8192))
        twice = graph.node("Mul", [x, graph.const(np.float32(2))])
        on = graph.node("Hysteresis", [twice], domain=DOMAIN, low=-0.5, high=1.5)
        graph.output(graph.node("Mul", [graph.node("Cast", [on], to=1), twice], "y"), (4, 8192))
        values = np.cumsum(np.random.default_rng(1).normal(size=(4, 8192)), 1).astype(np.float32) / 8
        expected = np.zeros_like(values)
        for row, out in zip(values * 2, expected):
            state = False
            for i, number in enumerate(row):
                state = number >= 1.5 or (state and number >= -0.5)
                out[i] = number if state else 0
        self.assertGreater((expected != 0).sum(), 100)
        with qnpu.Session(graph.serialize()) as session:
            np.testing.assert_array_equal(session.run(values)["y"], expected)
            self.assertGreater(session.run(values).cycles, 0)
            threads = [threading.Thread(target=lambda: np.testing.assert_array_equal(session.run(values)[0], expected))
                       for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def test_types_outputs_and_inputs_that_are_left_out(self):
        numbers = np.array([[1, 1, 0, 0, 0, 1], [1, 0, 1, 1, 1, 1]])
        for name in ("float32", "int64", "int32", "uint8", "int8", "bool", "int16", "uint16", "uint32", "float16"):
            x = numbers.astype(name)
            stored = {"int64": "int32", "bool": "uint8", "float16": "float16"}.get(name, name)
            for more, least in (((), 1), ((np.array([2], np.int64),), 2)):
                for outputs in (2, 3):
                    with qnpu.Session(network("RunLengths", dtype=x.dtype, more=more, outputs=outputs)) as session:
                        feed = x.astype(session.inputs[0].dtype)
                        got = session.run(feed)
                        for k, right in enumerate(run_lengths(x, least)[:outputs]):
                            np.testing.assert_array_equal(got[k], right, f"{name} {stored} {k}")

    def test_constants_are_computed_when_it_is_compiled(self):
        graph = Graph("folded")
        x = graph.input("x", (1, 4))
        runs = graph.node("RunLengths", [graph.const(np.array([[5, 5, 5, 7]], np.float32))], ["v", "n"], domain=DOMAIN)
        graph.output(graph.node("Add", [x, runs[0]], "y"), (1, 4))
        data = qnpu.compile(graph.serialize()).data
        self.assertNotIn(b"libsignal_operators.so", data)
        with qnpu.Session(data) as session:
            np.testing.assert_array_equal(session.run(np.ones((1, 4), np.float32))["y"], [[6, 8, 1, 1]])

    def test_programs_name_the_library(self):
        onnx, bmodel = self.path("own.onnx"), self.path("own.bmodel")
        with open(onnx, "wb") as file:
            file.write(network("RunLengths", outputs=2))
        npuc, bmrt_test = (os.path.join(os.environ["QNPU_BUILD"], "bin", name) for name in ("npuc", "bmrt_test"))
        code, said = self.run_program(npuc, onnx, "-o", bmodel)
        self.assertEqual(code, 1)
        for words in ("com.example.RunLengths", "not supported", "--plugin FILE"):
            self.assertIn(words, said)
        self.assertEqual(self.run_program(npuc, onnx, "-o", bmodel, "-q", "--plugin", example()), (0, ""))
        self.assertEqual(self.run_program(npuc, onnx, "-o", bmodel, "-q", NPU_PLUGINS="::" + example())[0], 0)
        code, said = self.run_program(bmrt_test, "--bmodel", bmodel)
        self.assertEqual(code, 1)
        for words in ("com.example.RunLengths", "plug-in libsignal_operators.so, which is not loaded", "NPU_PLUGINS"):
            self.assertIn(words, said)
        self.assertEqual(self.run_program(bmrt_test, "--bmodel", bmodel, "--plugin", example())[0], 0)
        self.assertEqual(self.run_program(bmrt_test, "--bmodel", bmodel, NPU_PLUGINS=example())[0], 0)
        code, said = self.run_program(bmrt_test, "--bmodel", bmodel, NPU_PLUGINS="/no/such.so")
        self.assertEqual(code, 1)
        self.assertIn("NPU_PLUGINS: plug-in /no/such.so: No such file or directory", said)

    def test_a_file_does_not_choose_the_library(self):
        data = qnpu.compile(network("RunLengths", outputs=2)).data
        name = b"libsignal_operators.so"
        self.assertIn(name, data)
        with qnpu.Session(data.replace(name, b"/tmp/../no/such/lib.so")) as session:
            self.assertEqual(session.run(np.zeros((2, 6), np.float32))[1][0, 0], 6)
        with open(self.path("own.bmodel"), "wb") as file:
            file.write(data.replace(name, b"/////////////libc.so.6"))
        code, said = self.run_program(sys.executable, "-c", "import qnpu, sys; qnpu.Session(sys.argv[1])",
                                      self.path("own.bmodel"))
        self.assertEqual(code, 1)
        self.assertIn("plug-in libc.so.6, which is not loaded", said)

    def test_a_session_loads_the_library(self):
        path = written("Given")
        code = "import qnpu, sys; print(qnpu.Session(sys.argv[1], plugin=sys.argv[2]).inputs[0].name)"
        model = self.path("given.onnx")
        with open(model, "wb") as file:
            file.write(network("Given", "test"))
        self.assertEqual(self.run_program(sys.executable, "-c", code, model, path), (0, "x\n"))

    def test_libraries_that_are_no_plug_ins(self):
        empty = self.path("empty.c")
        with open(empty, "w", encoding="utf-8"):
            pass
        for words, path in (
                ("No such file", self.path("none.so")), ("file too short", empty), ("No such file", "libc.so.6"),
                ("has no function npu_plugin_entry()", library(empty, "libempty.so")),
                ("returns null", written("Null", table="const struct npu_plugin *npu_plugin_entry(void) "
                                                       "{ (void)infer, (void)compute; return 0; }")),
                ("of version 7, expected version 1", written("Version", version="7")),
                ("no operators", written("Count", count="0")),
                ("test.Zero: least_inputs", written("Zero", table=TABLE.replace("1, 2, 1, 2", "1, 0, 1, 1"))),
                ("test.Many: least_outputs", written("Many", table=TABLE.replace("1, 2, 1, 2", "1, 1, 1, 17"))),
                ("infer or compute is null", written("Without", compute="return infer(call);",
                                                     table=TABLE.replace("infer, compute", "compute, 0"))),
                ("has no domain or no name", written("Nameless", table=TABLE.replace("NAME", '""')))):
            self.fails(words, qnpu.load_plugin, path)
            self.fails(words, qnpu.load_plugin, path)
            self.fails(["--plugin", words], qnpu.compile, support.add_model(), plugin=path, kind=qnpu.CompileError)
        qnpu.load_plugin(example())  # again
        copy = library(EXAMPLE, "libcopy.so")
        self.fails("operator com.example.Hysteresis: plug-in libsignal_operators.so has it already", qnpu.load_plugin,
                   copy)
        self.fails("load_plugin: path: int", qnpu.load_plugin, 5, kind=TypeError)
        self.fails("NUL", qnpu.load_plugin, "a\0b")

    def test_operators_that_fail_when_a_network_is_compiled(self):
        for number, (words, infer) in enumerate((
                ("too odd", 'call->fail(call, "too odd"); call->fail(call, "x"); return 0;'),
                ("failed with status 3 and gave no reason", "return 3;"),
                ("does not set output 0", "return 0;"),
                ("output 0 is float16", SAME.replace("return", "call->outputs[0].type = 10; return")),
                ("output 0 is an unknown type", SAME.replace("return", "call->outputs[0].type = 300; return")),
                ("output 0 has 9 dimensions", SAME.replace("return", "call->outputs[0].rank = 9; return")),
                ("[2, -6]", SAME.replace("return", "call->outputs[0].dims[1] = -6; return")),
                ("[2, 4611686018427387904]",
                 SAME.replace("return", "call->outputs[0].dims[1] = INT64_C(1) << 62; return")),
                ("attribute 'a' has integers, expected floats",
                 'uint64_t n = 1; if (call->get_floats(call, "a", &n) || n) return 1; ' + SAME),
                ("attribute 'a' has integers, expected a tensor", 'call->get_tensor(call, "a"); ' + SAME))):
            qnpu.load_plugin(written(f"Fails{number}", infer))
            self.fails([words, f"operator test.Fails{number} of plug-in libFails{number}.so: ",
                        "help: the plug-in decides what its operator takes"], qnpu.compile,
                       network(f"Fails{number}", "test", a=[1, 2]), kind=qnpu.CompileError)
        graph = Graph("missing")
        for y in graph.node("RunLengths", ["", graph.input("x", (1,))], ["v", "n"], domain=DOMAIN):
            graph.output(y)
        self.fails("input 0 is missing", qnpu.compile, graph.serialize(), kind=qnpu.CompileError)
        self.fails("1 outputs, expected 2 to 3", qnpu.compile, network("RunLengths"), kind=qnpu.CompileError)
        self.fails("4 outputs, expected 2 to 3", qnpu.compile, network("RunLengths", outputs=4), kind=qnpu.CompileError)
        self.fails("3 inputs, expected at most 2", qnpu.compile,
                   network("RunLengths", outputs=2, more=[np.ones(1, np.int64)] * 2), kind=qnpu.CompileError)
        self.fails("low is above high", qnpu.compile, network("Hysteresis", low=2.0, high=1.0), kind=qnpu.CompileError)
        self.fails("9 dimensions", qnpu.compile, network("Hysteresis", shape=(1,) * 9), kind=qnpu.CompileError)
        self.fails("attribute 't': the tensor has 9 dimensions", qnpu.compile,
                   network("Hysteresis", t=np.zeros((1,) * 9, np.float32)), kind=qnpu.CompileError)

    def test_refusals_say_what_the_plug_ins_have_instead(self):
        qnpu.load_plugin(example())
        self.fails("com.examples.Hysteresis 'Hysteresis_0': the operator is not supported; plug-in "
                   "libsignal_operators.so has com.example.Hysteresis, the file has com.examples.Hysteresis",
                   qnpu.compile, network("Hysteresis", "com.examples"), kind=qnpu.CompileError)
        os.environ["NPU_PLUGINS"] = example() + ":" + self.path("none.so")
        self.addCleanup(os.environ.pop, "NPU_PLUGINS")
        self.fails(f"the operator is not supported; NPU_PLUGINS: plug-in {self.path('none.so')}: No such file",
                   qnpu.compile, network("Other", "test"), kind=qnpu.CompileError)

    def test_attributes(self):
        texts = ('uint64_t n; const char *const *s = call->get_strings(call, "s", &n);'
                 'if (n != 2 || s[0][0] != \'a\' || s[1][1] != \'c\') return 1;'
                 'const struct npu_plugin_tensor *t = call->get_tensor(call, "t");'
                 'if (!t || t->type != NPU_PLUGIN_FLOAT32 || t->count != 2) return 2;'
                 'if (((const float *)t->data)[1] != 2.5f) return 2;'
                 'const int64_t *i = call->get_ints(call, "i", &n); if (n != 1 || i[0] != -7) return 3;'
                 'if (!call->get_ints(call, "e", &n) || n || !call->get_floats(call, "e", &n) || n) return 4;'
                 'if (call->get_ints(call, "none", &n) || n || call->get_tensor(call, "none")) return 5;')
        qnpu.load_plugin(written("Reads", texts + SAME, texts + "*(float *)call->outputs[0].data = 9; return 0;"))
        model = network("Reads", "test", s=["ab", "cc"], t=np.array([1, 2.5], np.float64), i=-7, e=[])
        with qnpu.Session(model) as session:
            self.assertEqual(session.run(np.zeros((2, 6), np.float32))[0][0, 0], 9)

    def test_operators_that_fail_when_they_compute(self):
        refuse = 'if (*(float *)call->inputs[0].data < 0) { call->fail(call, "it is negative"); return 1; } return 0;'
        qnpu.load_plugin(written("Refuses", compute=refuse))
        good, bad = np.ones((2, 6), np.float32), -np.ones((2, 6), np.float32)
        with qnpu.Session(network("Refuses", "test")) as session:
            session.run(good)
            for _ in range(2):
                self.fails(["operator test.Refuses of plug-in libRefuses.so: it is negative", "Refuses_0"], session.run,
                           bad)
                session.run(good)
        throws = written("Throws", compute='(void)call; throw std::runtime_error("thrown");', language="cc")
        qnpu.load_plugin(throws)
        with qnpu.Session(network("Throws", "test")) as session:
            self.fails(["test.Throws", "a C++ exception left it: thrown"], session.run, good)

    def test_a_library_that_has_changed_since(self):
        path = written("Changes", SAME.replace("return", 'if (getenv("CHANGED")) call->outputs[0].dims[0] = 5; return'))
        qnpu.load_plugin(path)
        data = qnpu.compile(network("Changes", "test")).data
        os.environ["CHANGED"] = "1"
        self.addCleanup(os.environ.pop, "CHANGED")
        self.fails(["test.Changes", "float32 [5, 6], the network was compiled with float32 [2, 6]"], qnpu.Session, data)


if __name__ == "__main__":
    unittest.main()
