#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes a test program of the examples in docs/reference/uapi.md.

usage: uapi_examples.py docs/reference/uapi.md OUT.c

Takes the C pieces of the section "The calls, with examples", in their order, as the body of one test. A call that fails
and an assertion that does not hold are told with their line in the document.
"""
import sys

SECTION = "## The calls, with examples"
HEAD = """/* Made by tests/guest/uapi_examples.py from docs/reference/uapi.md. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <npu_accel.h>
#include <npu_isa.h>
#include <npu_regs.h>

static void must(int result, const char *call, int line) {
  if (result >= 0) return;
  print_error("docs/reference/uapi.md:%d: %s: %s\\n", line, call, strerror(errno));
  _fail("docs/reference/uapi.md", line);
}

#define open(...) must_open(open(__VA_ARGS__), __LINE__)
#define ioctl(file, request, ...) must(ioctl(file, request, __VA_ARGS__), #request, __LINE__)
#define assert(condition) assert_true(condition)

static int must_open(int file, int line) {
  must(file, "open", line);
  return file;
}

static void every_call_of_the_document(void **unused) {
  (void)unused;
"""
TAIL = """}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_of_the_document)};

  return cmocka_run_group_tests_name("uapi_examples", tests, NULL, NULL);
}
"""


def pieces(lines):
    """(number of its first line, its lines) of each C piece of the section."""
    inside, piece, start = False, None, 0
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            inside = line.strip() == SECTION
        elif inside and line.startswith("```c"):
            piece, start = [], number + 1
        elif piece is not None and line.startswith("```"):
            yield start, piece
            piece = None
        elif piece is not None:
            piece.append(line)


def main():
    document, out = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        found = list(pieces(file.readlines()))
    if not found:
        raise SystemExit(f"{document}: no C piece in the section '{SECTION}'")
    with open(out, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for start, piece in found:
            file.write(f'#line {start} "docs/reference/uapi.md"\n')
            file.writelines(piece)
        file.write(TAIL)


if __name__ == "__main__":
    main()
