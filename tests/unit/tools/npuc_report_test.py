#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""npuc --report: its figures against what the chip model does with the same file, and against its commands counted by
docs/reference/hardware.md; its schema, its page; and what npuc says of networks that it refuses.

usage: npuc_report_test.py BIN TOP
"""
import collections
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import jsonschema
import numpy as np

BIN, TOP = sys.argv.pop(1), sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

# pylint: disable=wrong-import-position
import net_chains  # noqa: E402
import net_parts  # noqa: E402
from net_builder import Builder  # noqa: E402
from onnx_writer import Graph  # noqa: E402

DIGITS = os.path.join(TOP, "networks", "digits", "digits.onnx")
PLACES = ("local_memory", "activations", "inputs_outputs", "coefficients")
SVG = "{http://www.w3.org/1999/xhtml}"
BY_CYCLES = 2000  # processes of a trace from there on are cards in cycles


def run(program, *arguments, **environment):
    done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "NPU_DEVICE": "sim", **environment})
    return done.returncode, done.stdout, done.stderr


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def schema(name):
    return load(os.path.join(TOP, "docs", "reference", "schemas", name + ".schema.json"))


def network(make):
    builder = Builder(make.__name__, 7)
    make(builder)
    return builder.graph.serialize()


def wide(b):
    """Weights of 1 MiB that nothing hides."""
    b.output(b.dense(b.input([1, 512]), 512, 512))


# name -> (ONNX bytes or path, options of npuc)
NETWORKS = {
    "digits": (DIGITS, ()),
    "small local memory": (network(net_chains.bottleneck), ("--lmem", "64K")),
    "in turns": (network(net_chains.batch_of_pictures), ("--turns", "always", "--lmem", "64K")),
    "two cores": (network(net_chains.residual), ("--cores", "2", "--all-cores")),
    "attention": (network(net_chains.attention), ()),
    "half precision": (DIGITS, ("--reals", "fp16")),
    "weights": (network(wide), ()),
    "with parts on the CPU": (network(net_parts.classify), ()),
}


SIZES = {"f32": 4, "s32": 4, "u32": 4, "f16": 2, "bf16": 2, "s16": 2, "u16": 2, "s64": 8}  # of elements; others: bytes


class Command:
    """A command of --dump-asm: its memory traffic and MACs by docs/reference/hardware.md section 8.1."""

    def __init__(self, line):
        self.op, *fields = line.split()
        self.fields = dict(field.split("=", 1) for field in fields)

    def number(self, name):
        return int(self.fields.get(name, "0"), 0)

    def product(self, *names):
        return math.prod(self.number(name) for name in names)

    def numbers(self, name):
        return [int(n) for n in self.fields[name].strip("[]").split(",")]

    def size(self, name):
        return SIZES.get(self.fields.get(name, "f32"), 1)

    def moved(self, place, size):
        """`size` bytes of an operand, if it is in memory."""
        return 0 if self.number(place + "_region") == 0xff else -(-size // 64) * 64

    def vectors(self, length):
        flags = self.fields.get("flags", "").split("|")
        count = sum(flag in ("bias", "requant", "scale", "in_scales", "out_scales") for flag in flags)
        return self.moved("param", 4 * count * length)

    def side(self, place):
        """Of COPY and FILL: rows of one side."""
        if self.number(place + "_region") == 0xff:
            return 0
        dims, strides = self.numbers("dims"), self.numbers(place + "_stride")
        row = 1
        for dim, stride in zip(reversed(dims), reversed(strides)):
            if dim > 1 and stride != row:
                break
            row *= dim
        return math.prod(dims) // row * self.moved(place, row * self.size(place + "_dtype"))

    def bytes(self):
        if self.op == "copy":
            return self.side("src") + self.side("dst")
        if self.op == "fill":
            return self.side("dst")
        if self.op in ("gather", "scatter"):
            rows, row = self.product("outer", "count"), self.number("cols") * self.size("dtype")
            return (rows * (self.moved("src", row) + self.moved("dst", row)) +
                    self.moved("idx", self.number("count") * self.size("idx_dtype")))
        if self.op == "conv":
            weights = self.product("oc", "kh", "kw", "ic") // self.number("groups") * self.size("wgt_dtype")
            return self.moved("wgt", weights) + self.vectors(self.number("oc"))
        if self.op == "matmul":
            weights = (self.number("batch") if self.number("b_batch_stride") else 1) * self.product("k", "n")
            return self.moved("wgt", weights * self.size("wgt_dtype")) + self.vectors(self.number("n"))
        if self.op in ("norm", "requant"):
            return self.vectors(self.number("cols"))
        if self.op == "lut":
            return self.moved("param", 256 * self.size("out_dtype"))
        return 0

    def macs(self):
        if self.op == "conv":
            return self.product("n", "oh", "ow", "oc", "kh", "kw", "ic") // self.number("groups")
        return self.product("batch", "m", "n", "k") if self.op == "matmul" else 0


def counted(text):
    """Commands, bytes and MACs of each node, from its commands as text."""
    nodes, name = collections.defaultdict(lambda: np.zeros(3, np.int64)), None
    for line in text.splitlines():
        if line.startswith("# "):
            name = line[2:]
        elif not line.startswith("."):
            command = Command(line)
            nodes[name] += [1, command.bytes(), command.macs()]
    return {name: v.tolist() for name, v in nodes.items()}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="npu-report-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def model(self, content):
        if isinstance(content, str):
            return content
        with open(self.path("net.onnx"), "wb") as file:
            file.write(content)
        return self.path("net.onnx")


class Reports(Case):
    @classmethod
    def setUpClass(cls):
        cls.schema = schema("npuc-report")

    def compiled(self, content, *options):
        """The report, and the page as XML."""
        code, out, err = run("npuc", self.model(content), "-o", self.path("out.bmodel"), *options, "--report",
                             "json=" + self.path("r.json"), "--report", "html=" + self.path("r.html"), "--dump-asm",
                             self.path("out.asm"))
        self.assertEqual(code, 0, err)
        report = load(self.path("r.json"))
        self.table = out
        jsonschema.validate(report, self.schema)
        self.assertEqual(report["status"], "compiled")
        return report, ElementTree.parse(self.path("r.html")).getroot()

    def launched(self):
        """Modelled cycles of a launch, and the commands of its trace: (name, category, cycles, bytes, macs)."""
        code, out, err = run("bmrt_test", "--bmodel", self.path("out.bmodel"), "--profile", "--json",
                             self.path("run.json"), BMRUNTIME_PROFILE_FILE=self.path("trace.json"))
        self.assertEqual(code, 0, out + err)
        result = load(self.path("run.json"))
        jsonschema.validate(result, schema("bmrt-test"))
        commands = [(e["name"], e["cat"], e["args"]["cycles"], e["args"]["bytes"], e["args"].get("macs", 0))
                    for e in load(self.path("trace.json"))
                    if e["ph"] == "X" and e["pid"] >= BY_CYCLES and e["cat"] != "launch"]
        return result, commands

    def check_against_chip(self, report):
        stage = report["stages"][0]
        result, commands = self.launched()
        self.assertEqual(result["clock_khz"], report["chip"]["clock_khz"])
        self.assertEqual(result["cases"][0]["modelled_cycles"], stage["cycles"])
        self.assertAlmostEqual(result["cases"][0]["modelled_us"], stage["us"], places=6)
        self.assertEqual(sum(n["cycles"] for n in stage["nodes"]), stage["cycles"])
        seen, told = (collections.defaultdict(lambda: np.zeros(5, np.int64)) for _ in range(2))
        for name, category, cycles, moved, macs in commands:
            engine = [cycles, 0] if category == "compute" else [0, cycles]
            seen[name] += [1, moved, macs, *engine]
        for n in stage["nodes"]:
            if n["commands"]:
                told[n["name"]] += [n["commands"], n["bytes"], n["macs"], n["tiu_cycles"], n["gdma_cycles"]]
        self.assertEqual({name: v.tolist() for name, v in seen.items()}, {name: v.tolist() for name, v in told.items()})
        self.assertEqual(stage["bytes"], sum(c[3] for c in commands))
        self.assertEqual(stage["macs"], sum(c[4] for c in commands))

    def check_against_commands(self, stage):
        with open(self.path("out.asm"), encoding="utf-8") as file:
            found = counted(file.read())
        told = collections.defaultdict(lambda: np.zeros(3, np.int64))
        for n in stage["nodes"]:
            if n["commands"]:
                told[n["name"]] += [n["commands"], n["bytes"], n["macs"]]
        self.assertEqual(found, {name: v.tolist() for name, v in told.items()})

    def check_table(self, stage):
        """Cycles are the same in the table and in the other forms; no bound is above them."""
        bound = re.search(r"\nlower bound +(\d+) \(.*\): no program takes fewer cycles; it is \d+ % of these\n",
                          self.table)
        self.assertEqual(int(bound[1]), max(stage["bounds"].values()))
        self.assertLessEqual(int(bound[1]), stage["cycles"])
        rows = [line.split() for line in self.table.splitlines()[1:len(stage["nodes"]) + 1]]
        for row, node in zip(rows, stage["nodes"]):
            if node["commands"]:
                self.assertEqual([int(v) for v in row[-3:]], [node[k] for k in ("cycles", "active_cycles", "macs")])
        self.assertEqual(re.split(" {2,}| (?=MACs)", self.table.splitlines()[0])[-3:], ["cycles", "active", "MACs"])

    def check_nodes(self, stage):
        for n in stage["nodes"]:
            self.assertEqual(sum(n["spent"].values()), n["cycles"], n)
            self.assertLessEqual(n["cycles"], n["active_cycles"], n)
            self.assertLessEqual(n["active_cycles"], min(n["tiu_cycles"] + n["gdma_cycles"], stage["cycles"]), n)
            self.assertLessEqual(n["bytes"], 64 * n["active_cycles"] * stage["cores"], n)
            most = max(n["spent"], key=lambda kind, node=n: node["spent"][kind]).replace("_", " ")
            self.assertEqual(n["bound"], None if not n["commands"] else most if n["cycles"] else "hidden", n)
            self.assertEqual(n["commands"] > 0, "TIU" in n["runs_on"] or "GDMA" in n["runs_on"], n)
        cycles = [stage["nodes"][i]["cycles"] for i in stage["costliest"]]
        self.assertEqual(cycles, sorted((n["cycles"] for n in stage["nodes"] if n["cycles"]), reverse=True)[:10])

    def check_memory(self, stage):
        """What is in a place at a time is one thing, unless a result takes the place of its operand."""
        local = stage["held"]["local_memory"]
        for piece in local:
            self.assertLess(piece["from"], piece["to"])
            self.assertLessEqual(piece["to"], stage["cycles"])
        self.assertEqual(max(p["address"] + p["bytes"] for p in local), stage["local_memory"]["used"])
        for i, a in enumerate(local):
            for b in local[:i]:
                apart = (a["core"] != b["core"] or a["to"] <= b["from"] or b["to"] <= a["from"] or
                         a["address"] + a["bytes"] <= b["address"] or b["address"] + b["bytes"] <= a["address"])
                self.assertTrue(apart or (a["address"], a["bytes"]) == (b["address"], b["bytes"]), (a, b))
        for piece in stage["held"]["activations"]:
            self.assertLessEqual(piece["address"] + piece["bytes"], stage["memory"]["activations"])
        for piece in stage["held"]["coefficients"]:
            self.assertLessEqual(piece["address"] + piece["bytes"], stage["memory"]["coefficients"])

    def check_needs(self, stage):
        """A launch needs what the runtime says."""
        code, out, err = run("tpu_model", "--info", self.path("out.bmodel"))
        self.assertEqual(code, 0, err)
        needs = int(re.search(r"card memory for a launch: (\d+) bytes", out).group(1))
        self.assertEqual(needs, stage["memory"]["launch"])

    def check_page(self, page, stage):
        text = ElementTree.tostring(page, encoding="unicode")
        self.assertNotRegex(text, r"(src|href)=|url\(|@import")
        self.assertIn("prefers-color-scheme:dark", text)
        tables = {t.get("class"): t for t in page.iter(SVG + "table")}
        rows = {name: [[cell.get("data-v", "".join(cell.itertext())) for cell in row]
                       for row in table.find(SVG + "tbody")] for name, table in tables.items()}
        self.assertEqual([int(row[0]) for row in rows["costliest"]], stage["costliest"])
        self.assertEqual([row[1] for row in rows["nodes"]], [n["name"] for n in stage["nodes"]])
        for row, node in zip(rows["nodes"], stage["nodes"]):
            if node["commands"]:
                self.assertEqual([int(v) for v in row[6:11]],
                                 [node[k] for k in ("tiles", "bytes", "macs", "active_cycles", "cycles")])
                self.assertEqual(row[13], node["bound"])
        self.check_narrow(page)
        self.check_graph(page, stage)
        points = [n for n in stage["nodes"] if n["macs"]]
        self.assertEqual(len(list(page.iter(SVG + "circle"))), len(points))
        maps = [svg for svg in page.iter(SVG + "svg") if svg.get("aria-label") == "memory over time"]
        self.assertEqual(sum(len(list(svg.iter(SVG + "rect"))) for svg in maps),
                         sum(len(stage["held"][place]) for place in PLACES))

    def check_graph(self, page, stage):
        """The drawing has the report's edges; boxes do not overlap, and their texts are inside."""
        boxes = [g for g in page.iter(SVG + "g") if "node" in g.get("class", "").split()]
        drawn = {int(g.get("data-i")): g for g in boxes if g.get("data-i")}
        edges = stage["edges"]
        self.assertEqual(set(drawn), {e[end] for e in edges for end in ("from", "to")} - {None})
        for edge in edges:
            if None not in (edge["from"], edge["to"]):
                source, target = drawn[edge["from"]], drawn[edge["to"]]
                self.assertTrue(set(source.get("data-out").split()) & set(target.get("data-in").split()), edge)
                self.assertLess(int(source.get("data-r")), int(target.get("data-r")), edge)
        places = []
        for g in boxes:
            x, y = (float(v) for v in re.fullmatch(r"translate\((\S+) (\S+)\)", g.get("transform")).groups())
            box = g.find(SVG + "rect")
            width, height = float(box.get("width")), float(box.get("height"))
            places.append((x, y, x + width, y + height))
            lines = list(g.iter(SVG + "tspan"))
            self.assertLessEqual(max(6.7 * len(line.text) for line in lines), width - 16, g.get("aria-label"))
            self.assertLessEqual(sum(15 for _ in lines), height)
            if g.get("data-i"):
                node = stage["nodes"][int(g.get("data-i"))]
                self.assertIn(node["name"], "".join(line.text for line in lines[1:]))
        for i, a in enumerate(places):
            for b in places[:i]:
                self.assertTrue(a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b))

    def check_narrow(self, page):
        """In a narrow window tables and drawings scroll on their own; numbers stand on no point of the roofline."""
        for parent in page.iter():
            for child in parent:
                if child.tag in (SVG + "table", SVG + "svg"):
                    self.assertIn(parent.get("class"), ("scroll", "graph"))
        roofline = [svg for svg in page.iter(SVG + "svg") if svg.get("aria-label") == "roofline"]
        circles = [[float(c.get(k)) for k in ("cx", "cy", "r")] for svg in roofline for c in svg.iter(SVG + "circle")]
        legend = [li.text for ul in page.iter(SVG + "ul") if ul.get("class") == "points" for li in ul]
        numbers = [t for svg in roofline for t in svg.iter(SVG + "text") if t.get("class") == "point"]
        self.assertEqual([int(line.split(":")[0]) for line in legend], [int(t.text) for t in numbers])
        self.assertEqual(bool(numbers), bool(circles))
        for text in numbers:
            x, y, width = float(text.get("x")), float(text.get("y")), 7 * len(text.text)
            left = x - {"end": 1, "middle": 0.5, "start": 0}[text.get("text-anchor")] * width
            for cx, cy, r in circles:
                apart = cx + r <= left or cx - r >= left + width or cy + r <= y - 9 or cy - r >= y + 3
                self.assertTrue(apart, (text.text, x, y, cx, cy, r))

    def test_figures_are_those_of_the_chip(self):
        for name, (content, options) in NETWORKS.items():
            with self.subTest(name):
                report, page = self.compiled(content, *options)
                stage = report["stages"][0]
                self.check_against_chip(report)
                self.check_against_commands(stage)
                self.check_table(stage)
                self.check_nodes(stage)
                self.check_memory(stage)
                self.check_needs(stage)
                self.check_page(page, stage)

    def test_the_cpu_has_no_cycles(self):
        g = Graph("net")
        x = g.input("x", [4, 4], np.int64)
        g.output(g.node("Mod", [x, g.const(np.int64(3))]), [4, 4], np.int64)
        report, page = self.compiled(g.serialize())
        stage = report["stages"][0]
        self.assertEqual((stage["cycles"], stage["bounds"]), (0, {"arithmetic": 0, "memory": 0, "order": 0}))
        self.assertRegex(self.table, r"\ncycles +none: the CPU computes the whole network")
        self.assertNotIn("lower bound", self.table)
        self.assertNotIn("lower bound", "".join(page.itertext()))

    def test_what_is_not_read_is_in_no_bound(self):
        g = Graph("net")
        ends = [g.const(np.array([n], np.int64)) for n in (0, 16, 0)]
        y = g.node("Slice", [g.input("x", [1 << 20]), *ends])
        g.output(g.node("Relu", [y]), [16])
        stage = self.compiled(g.serialize())[0]["stages"][0]
        self.check_table(stage)

    def test_edges_are_those_of_the_file(self):
        g = Graph("net")
        x = g.input("x", [1, 4, 8, 8])
        a = g.node("Relu", [x], out="a")
        b = g.node("Sigmoid", [a], out="b")
        c = g.node("Tanh", [a], out="c")
        g.output(g.node("Mul", [b, c], out="d"), [1, 4, 8, 8])
        g.output(c, [1, 4, 8, 8])
        stage = self.compiled(g.serialize())[0]["stages"][0]
        names = [n["name"] for n in stage["nodes"]] + [None]
        found = {(names[-1 if e["from"] is None else e["from"]], names[-1 if e["to"] is None else e["to"]], e["tensor"])
                 for e in stage["edges"]}
        self.assertEqual(found, {(None, "Relu_0", "x"), ("Relu_0", "Sigmoid_1", "a"), ("Relu_0", "Tanh_2", "a"),
                                 ("Sigmoid_1", "Mul_3", "b"), ("Tanh_2", "Mul_3", "c"), ("Mul_3", None, "d"),
                                 ("Tanh_2", None, "c")})
        self.assertEqual({(e["dtype"], *e["shape"]) for e in stage["edges"]}, {("float32", 1, 4, 8, 8)})

    def test_an_open_batch_is_one(self):
        g = Graph("open")
        x = g.input("x", ["batch", 8])
        g.output(g.node("Add", [x, g.input("y", ["batch", "batch"])]), ["batch", 8])
        plain = Graph("open")
        plain.output(plain.node("Relu", [plain.input("x", ["n", 8])]), ["n", 8])
        code, _, err = run("npuc", self.model(plain.serialize()), "-o", self.path("o"), "-q", "--report",
                           "json=" + self.path("r.json"))
        self.assertEqual((code, err), (0, "npuc: warning: input 'x' has an open batch: compiled for 1, shape 1,8; "
                                          "--shape x=N,8 with a number for N chooses another\n"))
        stage = load(self.path("r.json"))["stages"][0]
        self.assertEqual(stage["inputs"][0]["shape"], [1, 8])
        self.assertEqual(err, f"npuc: warning: {stage['warnings'][0]}\n")
        code, _, err = run("npuc", self.model(g.serialize()), "-o", self.path("o"), "-q")
        self.assertEqual((code, err.count("has an open batch")), (0, 2), err)
        for shape in (["sequence", 8], ["n", "m"], ["n"]):
            other = Graph("open")
            other.output(other.node("Relu", [other.input("x", shape)]), shape)
            code, _, err = run("npuc", self.model(other.serialize()), "-o", self.path("o"))
            self.assertEqual(code, 1, shape)
            self.assertIn("--shape x=", err)

    def test_networks_are_what_they_are_for(self):
        def stage_of(name):
            content, options = NETWORKS[name]
            return self.compiled(content, *options)[0]["stages"][0]
        stage = stage_of("weights")
        self.assertEqual(stage["nodes"][stage["costliest"][0]]["bound"], "memory")
        self.assertEqual(stage_of("two cores")["cores"], 2)
        self.assertGreater(stage_of("with parts on the CPU")["cpu"]["parts"], 0)
        self.assertTrue(stage_of("in turns")["turns"])

    def test_shapes_and_types_of_results(self):
        nodes = {n["operator"]: n for n in self.compiled(DIGITS)[0]["stages"][0]["nodes"]}
        self.assertEqual(nodes["Softmax"]["outputs"], [{"dtype": "float32", "shape": [1, 10]}])
        half = {n["operator"]: n for n in self.compiled(DIGITS, "--reals", "bf16")[0]["stages"][0]["nodes"]}
        self.assertIn({"dtype": "bfloat16", "shape": half["Conv"]["outputs"][0]["shape"]}, half["Conv"]["outputs"])

    def test_stages(self):
        g = Graph("open")
        g.output(g.node("Relu", [g.input("x", ["n", 8])]), ["n", 8])
        report = self.compiled(g.serialize(), "--stage", "x=1,8", "--stage", "x=4,8")[0]
        self.assertEqual([s["shapes"] for s in report["stages"]], ["x=1,8", "x=4,8"])
        self.assertEqual([s["inputs"][0]["shape"] for s in report["stages"]], [[1, 8], [4, 8]])

    def test_standard_output(self):
        code, out, _ = run("npuc", DIGITS, "-o", self.path("o"), "-q", "--report", "json")
        self.assertEqual(code, 0)
        jsonschema.validate(json.loads(out), self.schema)
        code, out, _ = run("npuc", DIGITS, "-o", self.path("o"), "--report", "html")
        self.assertEqual(code, 0)
        ElementTree.fromstring(out)
        for wrong in ("text",), ("json=",), ("json", "--report", "html"):
            self.assertEqual(run("npuc", DIGITS, "-o", self.path("o"), "--report", *wrong)[0], 2)
        self.assertEqual(run("npuc", DIGITS, "-o", self.path("o"), "--report", "json=" + self.path("o"))[0], 1)

    def test_names_are_text(self):
        g = Graph("<b>&\"'")
        g.output(g.node("Relu", [g.input("x<i>", [1, 8])], out="y]]>&\x01\u00e9"), [1, 8])
        report, page = self.compiled(g.serialize())
        self.assertEqual(report["network"], "<b>&\"'")
        self.assertIn("y]]>& \u00e9", "".join(page.itertext()))


def bernoullis():
    g = Graph("net", 15)
    x = g.input("x", [4])
    for _ in range(5):
        x = g.node("Bernoulli", [x])
    x = g.node("Gelo", [g.node("Whatever", [x], domain="com.example")])
    g.output(g.node("SequenceAt", [g.node("Relu", [x], domain="com.example"), x]))
    return g.serialize()


def one(op, shape, *constants, opset=13, **attrs):
    g = Graph("net", opset)
    x = g.input("x", shape)
    g.output(g.node(op, [x, *(g.const(c) for c in constants)], **attrs))
    return g.serialize()


def late_shape():
    g = Graph("net")
    g.output(g.node("Reshape", [g.input("x", [4]), g.input("late", [2], np.int64)]))
    return g.serialize()


def declared():
    g = Graph("net")
    g.output(g.node("Relu", [g.input("x", [4])]), [5])
    return g.serialize()


class Refusals(Case):
    @classmethod
    def setUpClass(cls):
        cls.schema = schema("npuc-report")

    def refused(self, content, *options):
        """What is on standard error, and the report."""
        code, out, err = run("npuc", self.model(content), "-o", self.path("out.bmodel"), *options, "--report", "json",
                             "--report", "html=" + self.path("r.html"))
        self.assertEqual(code, 1, err)
        self.assertFalse(os.path.exists(self.path("out.bmodel")))
        report = json.loads(out)
        jsonschema.validate(report, self.schema)
        self.assertEqual(report["status"], "refused")
        self.page = "".join(ElementTree.parse(self.path("r.html")).getroot().itertext())
        return err, report

    def test_missing_operators_are_named_once(self):
        err, report = self.refused(bernoullis())
        found = {f["operator"]: f for f in report["findings"]}
        self.assertEqual({op: f["count"] for op, f in found.items()},
                         {"Bernoulli": 5, "com.example.Whatever": 1, "Gelo": 1, "com.example.Relu": 1, "SequenceAt": 1})
        self.assertEqual(found["Bernoulli"]["nodes"], ["Bernoulli_0", "Bernoulli_1", "Bernoulli_2"])
        self.assertEqual({f["reason"] for f in report["findings"]}, {"operator"})
        for op, part in (("Bernoulli", "random"), ("Gelo", "'Gelu'"), ("com.example.Relu", "ONNX has 'Relu'"),
                         ("com.example.Whatever", "function"), ("SequenceAt", "lists of tensors")):
            self.assertIn(part, found[op]["help"])
            self.assertIn(found[op]["help"], err)
            self.assertIn(found[op]["help"], self.page)
        self.assertIn("9 nodes have operators that are not supported:", err)
        self.assertIn("  Bernoulli (5 nodes: 'Bernoulli_0', 'Bernoulli_1', 'Bernoulli_2', ...): the operator is not",
                      err)
        self.assertEqual(err.count("Bernoulli ("), 1)

    def test_nodes_that_cannot_be_compiled(self):
        for content, reason, part in (
                (one("Relu", [4], alpha=1.0), "attribute", "onnx.version_converter"),
                (one("NonZero", [4]), "data-dependent shape", "end the network in front of it"),
                (late_shape(), "value", "--input NAME=VALUE"),
                (declared(), "declared shape", "infer it anew"),
                (one("MatMul", [4, 3], np.zeros((4, 3), np.float32)), "other", "onnx.checker")):
            with self.subTest(reason):
                err, report = self.refused(content)
                self.assertEqual([f["reason"] for f in report["findings"]], [reason])
                self.assertIn(part, report["findings"][0]["help"])
                self.assertIn("help: ", err)
                self.assertEqual(report["reason"], reason)

    def test_whole_files(self):
        for content, options, reason, part in (
                (b"no network", (), "file", "onnx.checker"),
                (one("Relu", [4], opset=99), (), "operator set", "convert_version"),
                (one("Relu", ["n", "m"]), (), "open shape", "--shape"),
                (one("MaxPool", [1, 1, 1, 60000], kernel_shape=[1, 50000]), ("--lmem", "64K"), "local memory",
                 "--lmem")):
            with self.subTest(reason):
                err, report = self.refused(content, *options)
                self.assertEqual((report["reason"], report["findings"]), (reason, []))
                self.assertIn(part, report["help"])
                self.assertIn("\n  help: " + report["help"], err)
                self.assertIn(report["help"], self.page)

    def test_networks_without_inputs_and_calls_have_a_help_of_their_own(self):
        g = Graph("net")
        g.output(g.node("Neg", [g.const(np.ones(3, np.float32))]))
        _, report = self.refused(g.serialize())
        self.assertEqual(report["reason"], "no input")
        self.assertIn("ReferenceEvaluator", report["help"])
        self.model(one("Add", [4], np.ones(4, np.float32)))
        code, _, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"), "--input", "x=1,2,3,4")
        self.assertEqual(code, 1)
        self.assertIn("leave out an --input", err)

    def test_files_that_are_something_else(self):
        self.model(one("Relu", [4]))
        code, _, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"))
        self.assertEqual(code, 0, err)
        code, _, err = run("npuc", self.path("o"), "-o", self.path("p"))
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^npuc: \S+: it is a \.bmodel, which is compiled already: .*tpu_model --info.*\n$")
        for tool, option in ("tpu_model", "--info"), ("bmrt_test", "--bmodel"):
            code, _, err = run(tool, option, self.path("net.onnx"))
            self.assertEqual(code, 1)
            self.assertIn("it looks like an ONNX file: compile it first, npuc FILE.onnx -o FILE.bmodel", err)
        _, out, _ = run("tpu_model", "--info", self.path("o"))
        self.assertNotIn("create time", out)

    def test_a_layer_in_another_one_has_the_type_of_its_result(self):
        """A Relu that a convolution of 8 bits computes, between two of them; the edges say the same."""
        g = Graph("net")
        values = np.random.default_rng(1)
        weights = [g.const(values.normal(size=shape).astype(np.float32)) for shape in ((8, 3, 3, 3), (4, 8, 3, 3))]
        y = g.node("Relu", [g.node("Conv", [g.input("x", [1, 3, 12, 12]), weights[0]])])
        g.output(g.node("Conv", [y, weights[1]]))
        self.model(g.serialize())
        os.mkdir(self.path("samples"))
        np.save(self.path("samples", "0.npy"), values.normal(size=(1, 3, 12, 12)).astype(np.float32))
        code, out, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"), "--quantize", "int8", "--calibrate",
                             self.path("samples"), "--report", "json")
        self.assertEqual(code, 0, err)
        stage = json.loads(out)["stages"][0]
        self.assertEqual([(n["runs_on"], n["outputs"][0]["dtype"]) for n in stage["nodes"][:3]],
                         [("TIU+GDMA", "int8"), ("in Conv_0", "int8"), ("TIU+GDMA", "float32")])
        self.assertEqual([e["dtype"] for e in stage["edges"] if e["from"] in (0, 1)], ["int8", "int8"])

    def test_a_full_device_is_the_cause(self):
        self.model(one("Relu", [4]))
        code, _, err = run("npuc", self.path("net.onnx"), "-q", "-o", "/dev/full")
        self.assertEqual((code, err), (1, "npuc: cannot write /dev/full: No space left on device\n"))

    def test_what_helps_helps(self):
        self.model(late_shape())
        code, _, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"), "--input", "late=2,2")
        self.assertEqual(code, 0, err)
        self.model(one("Relu", ["n", 4]))
        code, _, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"), "--shape", "x=1,4")
        self.assertEqual(code, 0, err)

    def test_a_wrong_path_is_named_with_its_reason_and_nothing_else(self):
        code, out, err = run("npuc", self.path("none.onnx"), "-o", self.path("o"))
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err, f"npuc: cannot open {self.path('none.onnx')}: No such file or directory\n")
        code, out, err = run("npuc", self.folder, "-o", self.path("o"))
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err.splitlines(), [f"npuc: cannot read {self.folder}: it is a folder, expected an ONNX file"])

    def test_dynamic_needs_the_largest_shape(self):
        self.model(one("Relu", ["n", 4]))
        err, report = self.refused(one("Relu", ["n", 4]), "--dynamic")
        self.assertEqual(report["reason"], "open shape")
        self.assertIn("with --dynamic as well", err)
        code, _, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"), "--dynamic", "--shape", "x=8,4")
        self.assertEqual(code, 0, err)
        told = re.search(r"\n +--dynamic [^-].*?\n +--dynamic-batch", run("npuc", "--help")[1], re.S)[0]
        for option in ("--shape", "--stage"):
            self.assertIn(option, told)


class Explains(Case):
    def explained(self, content, *options):
        code, out, err = run("npuc", "--explain", self.model(content), *options)
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def test_an_open_shape_is_said_once_with_what_helps(self):
        g = Graph("net")
        x = g.input("x", ["n", "m"])
        for _ in range(4):
            x = g.node("Relu", [x])
        g.output(g.node("Whatever", [g.node("Relu", [x])]))
        lines = self.explained(g.serialize())
        self.assertEqual(len(lines), 5, lines)
        self.assertRegex(lines[0], r"^not compiled: 5 nodes \('Relu_0', 'Relu_1', 'Relu_2', \.\.\.\) that need input "
                                   r"'x': ")
        self.assertIn("--shape", lines[1])
        self.assertRegex(lines[2], r"^not compiled: Whatever 'Whatever_5': ")
        self.assertRegex(lines[3], r"^  help: ONNX has no such operator")
        self.assertEqual(lines[4], "6 nodes: 0 on the NPU, 0 on the CPU in the .bmodel, 6 not compiled")

    def test_every_node_has_a_place_and_a_reason(self):
        """Constants and identities are folded, nodes that npuc adds are named, and functions count as one node."""
        g = Graph("net")
        x, ids = g.input("x", [128, 130]), g.input("ids", [3], np.int64)
        y = g.node("Add", [g.node("Identity", [x]), g.node("Neg", [g.const(np.ones(130, np.float32))])])
        g.output(g.node("Relu", [y]))
        g.output(g.node("Add", [ids, ids]))
        lines = self.explained(g.serialize())
        self.assertEqual([line for line in lines if line.rstrip().endswith(":")], [])
        self.assertIn("CPU: Cast 'ids': npuc adds it, a conversion between types of the file and of the .bmodel", lines)
        self.assertEqual(lines[-2], "5 nodes: 2 on the NPU, 1 on the CPU in the .bmodel, 2 folded, 0 not compiled")
        self.assertEqual(lines[-1], "2 more that npuc adds: 0 on the NPU, 2 on the CPU")

    def test_a_network_of_constants_is_folded(self):
        g = Graph("net")
        g.input("x", [2])
        g.output(g.node("Neg", [g.const(np.ones(3, np.float32))]))
        self.assertEqual(self.explained(g.serialize()),
                         ["1 node: 0 on the NPU, 0 on the CPU in the .bmodel, 1 folded, 0 not compiled"])

    def test_types_without_commands_are_named(self):
        g = Graph("net")
        x, n = g.input("x", [2, 4]), g.input("n", [4], np.int32)
        g.output(g.node("Relu", [x]))
        g.output(g.node("Concat", [n, n], axis=0))
        self.assertIn("CPU: Concat 'Concat_1': the chip has no commands for it with 'n', which is int32",
                      self.explained(g.serialize()))

    def test_a_gather_by_indices_of_an_input_has_its_own_reason(self):
        g = Graph("net")
        g.output(g.node("Gather", [g.input("x", [8, 4]), g.input("at", [3], np.int64)]))
        lines = self.explained(g.serialize())
        self.assertRegex(lines[0], r"^CPU: Gather 'Gather_0': its indices are not known when the network is compiled")
        # The compiled network also has the conversion of the indices, which is no node of the file.
        self.assertRegex(lines[1], r"^CPU: Cast 'at': npuc adds it")
        self.assertEqual(lines[-2:], ["1 node: 0 on the NPU, 1 on the CPU in the .bmodel, 0 not compiled",
                                      "1 more that npuc adds: 0 on the NPU, 1 on the CPU"])
        code, out, err = run("npuc", self.path("net.onnx"), "-o", self.path("o"))
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"\nat +Cast +CPU\n(.*\n)*CPU +operators 2, parts 1; ")


if __name__ == "__main__":
    unittest.main()
