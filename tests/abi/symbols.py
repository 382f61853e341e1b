#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""symbols.py LIBRARY MARK HEADER...: the library exports exactly the functions that the headers declare with MARK, and nothing else."""
import re
import subprocess
import sys


def declared(mark, headers):
    names = set()
    for header in headers:
        text = re.sub(r'/\*.*?\*/', ' ', open(header).read(), flags=re.S)
        text = re.sub(r'^\s*#(?:.*\\\n)*.*$', ' ', text, flags=re.M)
        for declaration in re.findall(mark + r'\b([^;{]*)', text):
            names.add(re.search(r'(\w+)\s*\(', declaration).group(1))
    return names


def exported(library):
    out = subprocess.run(['nm', '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    symbols = [line.split() for line in out.splitlines()]
    # Version nodes are absolute symbols.
    return {s[2].split('@')[0] for s in symbols if s[1] != 'A'}


def main():
    library, mark, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    want, have = declared(mark, headers), exported(library)
    for name in sorted(want - have):
        print(f'{library} does not export {name}, which a header declares')
    for name in sorted(have - want):
        print(f'{library} exports {name}, which no header declares')
    print(f'{len(want & have)} functions')
    return 1 if want != have or not want else 0


if __name__ == '__main__':
    sys.exit(main())
