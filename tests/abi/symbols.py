#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""symbols.py [--cpp NAMESPACE] LIBRARY MARK HEADER...: the library exports exactly the functions that the headers
declare with MARK, and nothing else; with --cpp also
C++ symbols of one namespace, of which a program that links tells whether they are all there."""
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


def of_namespace(names, namespace):
    """The C++ symbols among `names` that belong to a namespace: functions, vtables, type information."""
    mangled = sorted(name for name in names if name.startswith('_Z'))
    plain = subprocess.run(['c++filt'], input='\n'.join(mangled), check=True, capture_output=True, text=True).stdout
    inside = re.compile(r'(vtable for |typeinfo (name )?for )?' + namespace + '::')
    return {name for name, text in zip(mangled, plain.splitlines()) if inside.match(text)}


def main():
    arguments = sys.argv[1:]
    namespace = arguments[1] if arguments[0] == '--cpp' else None
    library, mark, *headers = arguments[2:] if namespace else arguments
    want, have = declared(mark, headers), exported(library)
    if namespace:
        have -= of_namespace(have, namespace)
    for name in sorted(want - have):
        print(f'{library} does not export {name}, which a header declares')
    for name in sorted(have - want):
        print(f'{library} exports {name}, which no header declares')
    print(f'{len(want & have)} functions')
    return 1 if want != have or not want else 0


if __name__ == '__main__':
    sys.exit(main())
