#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""docs/pictures/npu-smi-live.svg: the terminal of an emulated board with `npu-smi live` in it, while networks run.

usage: live_picture.py [-o FILE]

Needs the build, QEMU, Debian's kernel and the module (`make build qemu kernel-stock module`), and tmux.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.sax.saxutils

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TOP, "tests"), os.path.join(TOP, "tests/bench")]
# pylint: disable=wrong-import-position
import zoo  # noqa: E402
from terminal import Terminal  # noqa: E402

COLUMNS, ROWS = 100, 28
HISTORY = 40  # so many columns of a graph are waited for
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 17, 10  # of a character of FONT_SIZE, in pixels
FONT_SIZE = 14
BACKGROUND, FOREGROUND = "#16181d", "#d4d7dd"
# SGR 30 to 37, and 90 to 97.
COLORS = ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", FOREGROUND]
BRIGHT = ["#7f848e", "#ff7b86", "#b5e890", "#ffd68a", "#7cc4ff", "#e29bff", "#7adbe6", "#ffffff"]

# One network all the time, another one with pauses, so that there is something to see.
NETWORKS = ["squeezenet", "mobilenetv2"]
LOAD = """
cd /mnt/share
bmrt_test --bmodel squeezenet.bmodel --loopnum 1000000000 >/dev/null 2>&1 &
while :; do bmrt_test --bmodel mobilenetv2.bmodel --loopnum 40; sleep 3; done >/dev/null 2>&1 &
npu-smi live
"""


def style_after(codes, style):
    """The style (colour, background, bold, reversed) behind a sequence with these numbers."""
    style = dict(style)
    codes = list(codes)
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = {}
        elif code in (1, 7):
            style["bold" if code == 1 else "reversed"] = True
        elif code in (22, 27):
            style.pop("bold" if code == 22 else "reversed", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["color"] = (COLORS if code < 40 else BRIGHT)[code % 10]
        elif 40 <= code <= 47:
            style["background"] = COLORS[code - 40]
        elif code in (39, 49):
            style.pop("color" if code == 39 else "background", None)
        elif code not in (2, 3, 10, 23):
            raise ValueError("SGR %d is not known to this picture" % code)
    return style


def runs(line, style):
    """(column, text, style) of what looks alike, and the style behind the line."""
    found, column = [], 0
    for escape, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b\x0e\x0f]+)", line):
        if text:
            found.append((column, text, style))
            column += len(text)
        else:
            style = style_after([int(number or 0) for number in escape.split(";")], style)
    return found, style


def picture(lines):
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, len(lines) * CELL_HEIGHT + 2 * MARGIN
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">'
        % (width, height, width, height),
        "<!-- SPDX-License-Identifier: MIT -->", "<!-- made by scripts/live_picture.py -->",
        "<title>npu-smi live on the terminal of an emulated board</title>",
        '<rect width="100%%" height="100%%" rx="6" fill="%s"/>' % BACKGROUND,
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="%d" fill="%s" xml:space="preserve">'
        % (FONT_SIZE, FOREGROUND)
    ]
    style = {}
    for row, line in enumerate(lines):
        top = MARGIN + row * CELL_HEIGHT
        found, style = runs(line, style)
        for column, text, look in found:
            color, background = look.get("color", FOREGROUND), look.get("background")
            if look.get("reversed"):
                color, background = background or BACKGROUND, color
            left, length = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
            if background:
                out.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' %
                           (left, top, length, CELL_HEIGHT, background))
            if text.strip():
                out.append('<text x="%.1f" y="%d" textLength="%.1f"%s%s>%s</text>' %
                           (left, top + 13, length, ' fill="%s"' % color if color != FOREGROUND else "",
                            ' font-weight="bold"' if look.get("bold") else "", xml.sax.saxutils.escape(text)))
    return "\n".join(out + ["</g>", "</svg>", ""])


def is_full(lines):
    """A graph with some history, and both programs among the processes."""
    return (any(len(re.findall("[\N{LOWER HALF BLOCK}\N{FULL BLOCK}]", line)) >= HISTORY for line in lines) and
            sum("bmrt_test" in line for line in lines) >= 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", "--output", default=os.path.join(TOP, "docs/pictures/npu-smi-live.svg"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npu-picture-") as share:
        for name in NETWORKS:
            subprocess.run([os.path.join(TOP, "build/bin/npuc"), zoo.write(name, share, 1), "-q", "-o",
                            os.path.join(share, name + ".bmodel")], check=True)
        command = [os.path.join(TOP, "tools/npu-vm"), "--interactive", "--share", share, "--", "sh", "-c", LOAD]
        with Terminal(COLUMNS, ROWS, command) as terminal:
            terminal.wait_until(is_full, "a view with some history")
            lines = terminal.colored_lines()
            terminal.press("q")
            terminal.wait_for_end()
    while lines and not lines[-1].strip():
        lines.pop()
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(picture(lines))
    print(options.output)


if __name__ == "__main__":
    main()
