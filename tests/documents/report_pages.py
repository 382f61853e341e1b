#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Opens the pages that npuc writes in a headless browser: labels neither overlap nor leave their drawing or box, no
page is wider than its window, the graph's search, zoom, keys and links to the table work, also for 2000 nodes, and
colours have enough contrast in light and dark.

usage: report_pages.py [--keep FOLDER]     FOLDER: gets the pages, and screenshots of them

Needs the build of $NPU_BUILD (default: build) and Debian's chromium. The last line is "N passed, N failed".
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("NPU_BUILD", os.path.join(TOP, "build"))
DIGITS = os.path.join(TOP, "networks", "digits", "digits.onnx")
WIDTHS = (400, 900, 1400)
LARGE = 2000  # nodes
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

# pylint: disable=wrong-import-position
import browser  # noqa: E402
import net_chains  # noqa: E402
import net_parts  # noqa: E402
from net_builder import Builder  # noqa: E402
from onnx_writer import Graph  # noqa: E402

LOOKS = """
const pages = PAGES, widths = WIDTHS;
const boxes = elements => elements.map(e => [e.getBoundingClientRect(), e.textContent]).filter(([r]) => r.width > 0);

/// Pairs of texts that overlap by more than half a pixel.
const overlaps = texts => {
  const list = boxes(texts).sort((a, b) => a[0].top - b[0].top), out = [];
  for (let i = 0; i < list.length; ++i)
    for (let k = i + 1; k < list.length && list[k][0].top < list[i][0].bottom - 0.5; ++k) {
      const a = list[i][0], b = list[k][0];
      if (a.left < b.right - 0.5 && b.left < a.right - 0.5) out.push(list[i][1] + " over " + list[k][1]);
    }
  return out.slice(0, 5);
};
const outside = (inner, outer) => inner.left < outer.left - 0.5 || inner.right > outer.right + 0.5 ||
                                  inner.top < outer.top - 0.5 || inner.bottom > outer.bottom + 0.5;

const look = doc => {
  const problems = [], view = doc.defaultView;
  if (doc.documentElement.scrollWidth > view.innerWidth + 1)
    problems.push("the page is " + doc.documentElement.scrollWidth + " px wide");
  for (const cell of doc.querySelectorAll("th, td"))
    if (cell.scrollWidth > cell.clientWidth + 1) problems.push("a cell is cut off: " + cell.textContent.slice(0, 60));
  for (const svg of doc.querySelectorAll("svg.plot")) {
    const texts = [...svg.querySelectorAll("text")], frame = svg.getBoundingClientRect();
    problems.push(...overlaps(texts).map(t => svg.getAttribute("aria-label") + ": " + t));
    for (const [rect, text] of boxes(texts)) if (outside(rect, frame)) problems.push("outside of its drawing: " + text);
    for (const [rect, text] of boxes(texts))
      if (rect.height < 9) problems.push("too small to read: " + text + ", " + rect.height + " px");
  }
  for (const graph of doc.querySelectorAll(".stage-graph")) {
    graph.querySelector('[data-do="full"]').click();
    problems.push(...overlaps([...graph.querySelectorAll("tspan")]));
    for (const node of graph.querySelectorAll(".node"))
      for (const [rect, text] of boxes([...node.querySelectorAll("tspan")]))
        if (outside(rect, node.querySelector(".box").getBoundingClientRect())) problems.push("not in its box: " + text);
  }
  return problems.slice(0, 10);
};

const press = (element, key, more) => element.dispatchEvent(
    new element.ownerDocument.defaultView.KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...more}));

const use = doc => {
  const problems = [], expect = (right, what) => { if (!right) problems.push(what); };
  const stage = doc.querySelector(".stage-graph"), box = stage.querySelector(".graph"), svg = box.querySelector("svg");
  const search = stage.querySelector("input"), found = stage.querySelector("output");
  const nodes = [...svg.querySelectorAll(".node")], chosen = () => svg.querySelector(".chosen");
  const visible = node => !outside(node.getBoundingClientRect(), box.getBoundingClientRect());
  const word = nodes[nodes.length - 2].getAttribute("aria-label").split(" ")[1].replace(",", "").toLowerCase();
  const count = nodes.filter(n => n.getAttribute("aria-label").toLowerCase().includes(word)).length;
  search.value = word;
  search.dispatchEvent(new doc.defaultView.Event("input"));
  expect(found.textContent === "1 of " + count, "search says " + found.textContent + ", expected 1 of " + count);
  expect(svg.querySelectorAll(".hit").length === count, "search marks its nodes");
  expect(chosen() && visible(chosen()), "the found node is in the window");
  const first = chosen();
  press(search, "Enter");
  expect(count === 1 || chosen() !== first, "Enter goes to the next node");
  press(search, "Enter", {shiftKey: true});
  expect(chosen() === first, "Shift+Enter goes back");
  search.value = "no such node";
  search.dispatchEvent(new doc.defaultView.Event("input"));
  expect(found.textContent === "0 found" && !svg.querySelector(".hit"), "a search without result");

  const size = () => svg.getBoundingClientRect().width, before = size();
  stage.querySelector('[data-do="in"]').click();
  expect(Math.abs(size() / before - 1.25) < 0.01, "zoom in");
  press(box, "-");
  expect(Math.abs(size() / before - 1) < 0.01, "the key - zooms out");
  stage.querySelector('[data-do="fit"]').click();
  expect(size() <= box.clientWidth + 1, "the graph fits");

  box.focus();
  press(box, "Enter");
  const top = chosen();
  expect(top === nodes[0] && doc.activeElement === top, "Enter chooses the first node");
  press(top, "ArrowDown");
  const next = chosen(), nets = top.dataset.out.split(" ");
  expect(next !== top && next.dataset.in.split(" ").some(n => nets.includes(n)), "ArrowDown goes to a reader");
  expect(svg.querySelectorAll(".w.on").length > 0, "the tensors of a node are marked");
  press(next, "ArrowUp");
  const up = chosen().dataset.out.split(" ");
  expect(up.some(n => next.dataset.in.split(" ").includes(n)), "ArrowUp leads to a producer");
  expect(svg.querySelectorAll('[tabindex="0"]').length === 1, "one node is in the order of Tab");

  const cell = doc.querySelector("table.nodes tr[data-i='" + next.dataset.i + "'] td.name");
  cell.click();
  expect(chosen() === next && visible(next), "a click on a name in the table leads to the node");
  expect(cell.parentElement.classList.contains("chosen"), "the row of the node is marked");
  expect(stage.querySelector(".details").textContent.includes(cell.textContent), "the figures of the node are shown");
  const head = [...doc.querySelectorAll("table.nodes th")].find(th => th.textContent === "cycles");
  head.querySelector("button").click();
  const column = [...head.parentElement.children].indexOf(head);
  const values = [...doc.querySelectorAll("table.nodes tbody tr")].map(r => +(r.children[column].dataset.v ?? 0));
  expect(values[0] === Math.max(...values), "a click on a heading sorts");
  return problems;
};

start(async () => {
  const result = {};
  for (const width of widths)
    for (const page of pages) {
      frame.width = width;
      result[page + " at " + width + " px"] = look(await open(page));
    }
  for (const page of pages) {
    const doc = await open(page);
    if (doc.querySelector(".stage-graph")) result["graph of " + page] = use(doc);
  }
  return result;
});
"""


def network(make):
    builder = Builder(make.__name__, 7)
    make(builder)
    return builder.graph.serialize()


def large():
    """A network of LARGE nodes with names as exporters write them, branches and long connections."""
    rng, g = np.random.default_rng(1), Graph("large")
    tensors = [g.input("image", [1, 8])]
    for i in range(LARGE):
        op = ("Relu", "Sigmoid", "Add", "Tanh", "Mul")[rng.integers(5)]
        inputs = [tensors[-1 if rng.integers(5) else -int(rng.integers(1, min(len(tensors), 6) + 1))]]
        if op in ("Add", "Mul"):
            inputs.append(tensors[-int(rng.integers(1, min(len(tensors), 400 if i % 40 == 0 else 8) + 1))])
        name = f"/model/layers.{i // 9}/self_attention/rotary.embedding/{op}_{i}_output_0"
        tensors.append(g.node(op, inputs, out=name))
    g.output(tensors[-1], [1, 8])
    return g.serialize()


def compiled(folder, name, content, *options):
    """Writes the page of a network."""
    path = content
    if not isinstance(content, str):
        path = os.path.join(folder, name + ".onnx")
        with open(path, "wb") as file:
            file.write(content)
    return subprocess.run([os.path.join(BUILD, "bin", "npuc"), path, "-q", "-o", os.path.join(folder, name + ".bmodel"),
                           "--report", "html=" + os.path.join(folder, name + ".html"), *options],
                          check=False, capture_output=True, text=True)


def write_pages(folder):
    """The names of the pages."""
    samples = os.path.join(folder, "samples")
    os.mkdir(samples)
    for i in range(4):
        np.save(os.path.join(samples, f"{i}.npy"), np.random.default_rng(i).random((1, 1, 8, 8), np.float32))
    refused = Graph("refused")
    refused.output(refused.node("Bernoulli", [refused.node("Gelo", [refused.input("x", [4])])]), [4])
    for name, code, content, *options in (
            ("digits", 0, DIGITS), ("half", 0, DIGITS, "--reals", "fp16", "--lmem", "64K"),
            ("quantized", 0, DIGITS, "--quantize", "int8", "--calibrate", samples, "--quantize-report",
             os.path.join(folder, "layers.html")),
            ("cores", 0, network(net_chains.residual), "--cores", "2", "--all-cores"),
            ("attention", 0, network(net_chains.attention)), ("parts", 0, network(net_parts.classify)),
            ("large", 0, large(), "--turns", "never"), ("refused", 1, refused.serialize())):
        done = compiled(folder, name, content, *options)
        if done.returncode != code:
            raise SystemExit(f"report_pages.py: {name}: npuc ended with status {done.returncode}: {done.stderr}")
    return sorted(path for path in os.listdir(folder) if path.endswith(".html"))


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * c for c in color[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def low_contrasts(path):
    """Pairs of colours of a page below the ratios of WCAG 2.1, AA: 4.5 for text, 3 for drawings."""
    with open(path, encoding="utf-8") as file:
        palettes = [dict(re.findall(r"--([\w-]+):(#\w+)", text)) for text in re.findall(r":root\{[^}]*\}", file.read())]
    pairs = [("ink", ground, 4.5) for ground in ("page", "band", "hit")]
    pairs += [("soft", ground, 4.5) for ground in ("page", "band")]
    pairs += [(name, "page", 3) for name in ("compute", "local", "memory", "latency", "hidden", "soft")]
    problems = [] if len(palettes) == 2 else [f"{len(palettes)} palettes, expected 2"]
    for number, colors in enumerate(palettes):
        for name, ground, least in pairs:
            a, b = sorted((luminance(colors[name]), luminance(colors[ground])))
            if (b + 0.05) / (a + 0.05) < least:
                problems.append(f"palette {number}: {name} on {ground} has {(b + 0.05) / (a + 0.05):.2f}")
    return problems


def screenshots(folder, pages):
    for page in pages:
        for width in WIDTHS:
            subprocess.run(["chromium", *browser.FLAGS, f"--window-size={width},3000", "--virtual-time-budget=10000",
                            "--user-data-dir=" + os.path.join(folder, "profile"),
                            f"--screenshot={folder}/{page[:-5]}-{width}.png", f"file://{folder}/{page}"],
                           check=False, capture_output=True, timeout=browser.HANGS)


def main():
    if not shutil.which("chromium"):
        raise SystemExit("report_pages.py: chromium is missing: make setup SET=site")
    keep = os.path.abspath(sys.argv[2]) if sys.argv[1:2] == ["--keep"] and len(sys.argv) == 3 else None
    if sys.argv[1:] and not keep:
        raise SystemExit(__doc__)
    results = browser.Results()
    with tempfile.TemporaryDirectory(prefix="npu-pages-") as work:
        folder = keep or os.path.join(work, "pages")
        os.makedirs(folder)
        pages = write_pages(folder)
        script = LOOKS.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
        found, missing = browser.run(folder, script, os.path.join(work, "profile"))
        results.check("no page needs another file", [path for path in missing if path != "/favicon.ico"])
        for page in pages:
            results.check("colours of " + page, low_contrasts(os.path.join(folder, page)))
        if "error" in found:
            found = {"the browser": [found["error"]]}
        for name, problems in found.items():
            results.check(name, problems)
        if keep:
            screenshots(folder, pages)
    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
