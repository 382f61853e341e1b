#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""man1.py PAGE COMMAND...: the manual page has the options that `COMMAND... --help` shows, all of them
and no others, and troff has nothing to say about it."""
import re
import shutil
import subprocess
import sys

OPTION = r'(?<![\w-])(--?[a-zA-Z][\w-]*)'


def options_of_page(text):
    """Option names in the lines after .TP."""
    names = set()
    for line in re.findall(r'^\.TP\n(.*)$', text, flags=re.M):
        line = re.sub(r'\\f.', '', line).replace('\\-', '-')
        names.update(re.findall(OPTION, line))
    return names


def options_of_help(text):
    """Option names at the beginnings of lines: in the explanations, a sentence may name an option of another tool."""
    names = set()
    for line in re.findall(r'^ +(-.*)$', text, flags=re.M):
        names.update(re.findall(OPTION, re.split(r' {2,}', line)[0]))
    return names


def main():
    page, command = sys.argv[1], sys.argv[2:]
    run = subprocess.run(command + ['--help'], capture_output=True, text=True, check=False)
    shown = run.stdout + run.stderr
    with open(page, encoding='utf-8') as f:
        text = f.read()
    have, want = options_of_page(text), options_of_help(shown)
    # A program without --help shows its usage when it is asked for it, and that is no option.
    if run.returncode:
        want.discard('--help')
    problems = [f'{page} does not have {o}, which --help shows' for o in sorted(want - have)]
    problems += [f'{page} has {o}, which --help does not show' for o in sorted(have - want)]
    if shutil.which('groff'):
        lint = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-z', page], capture_output=True, text=True,
                              check=False)
        problems += lint.stderr.splitlines()
    print('\n'.join(problems + [f'{len(have & want)} options']))
    return 1 if problems or not have else 0


sys.exit(main())
