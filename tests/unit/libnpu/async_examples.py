#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes programs of the examples in docs/reference/libnpu.md.

usage: async_examples.py docs/reference/libnpu.md OUT.c OUT.cpp

Of the section "Asynchronous launches": the first piece of each language is a function, the rest is the body of main().
An assertion that does not hold ends the program with its line in the document.
"""
import sys

SECTION = "## Asynchronous launches"
HEAD = """/* Made by tests/unit/libnpu/async_examples.py from docs/reference/libnpu.md. */
#undef NDEBUG
#include <assert.h>
#include <npu.h>
#include <poll.h>
#include <stdio.h>
"""
BODY = """
int main(void) {
  npu_device *device;
  npu_context *context;
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {0};
  job.streams = &stream;
  job.stream_count = 1;
  assert(!npu_device_open(0, &device));
  assert(!npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context));
"""
TAIL = """
  npu_context_destroy(context);
  npu_device_close(device);
  return 0;
}
"""


def pieces(lines, language):
    """(number of its first line, its text) of each piece of the section in a language."""
    inside, piece, start = False, None, 0
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            inside = line.strip() == SECTION
        elif inside and piece is None and line.strip() == "```" + language:
            piece, start = [], number + 1
        elif piece is not None and line.startswith("```"):
            yield start, "".join(piece)
            piece = None
        elif piece is not None:
            piece.append(line)


def write(path, head, found):
    """A program: the first piece, then main() with the others."""
    if len(found) < 2:
        raise SystemExit(f"{path}: a function and a use of it are expected in the section '{SECTION}'")
    with open(path, "w", encoding="utf-8") as file:
        file.write(head)
        file.write(f'#line {found[0][0]} "docs/reference/libnpu.md"\n{found[0][1]}{BODY}')
        for start, text in found[1:]:
            file.write(f'#line {start} "docs/reference/libnpu.md"\n{text}')
        file.write(TAIL)


def main():
    document, c, cpp = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        lines = file.readlines()
    write(c, HEAD, list(pieces(lines, "c")))
    write(cpp, HEAD.replace("{0}", "{}") + "#include <npu_async.hpp>\n", list(pieces(lines, "cpp")))


if __name__ == "__main__":
    main()
