#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""table.py NAME MARK DOCUMENT HEADER... LIBRARY: the document's table of NAME functions has every function that the
headers declare with MARK and the library exports, once.
"not supported" are, and no others, those of a header whose name says so and those whose comment begins with these
words."""
import re
import sys

from symbols import declared, exported

ANSWERS = ('works', 'partly', 'not supported')
# In bmlib_not_supported.h because it belongs there, and yet it works.
WORKS_ANYWAY = {'show_md5'}


def rows(name, document):
    """Function -> answer. Rows are | `a`, `b` | answer | how |."""
    text = open(document).read()
    table = text[text.index(f'<!-- {name} functions -->'):text.index(f'<!-- end of {name} functions -->')]
    found, problems = {}, []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split('|')]
        if not line.startswith('| `'):
            continue
        if cells[2] not in ANSWERS:
            problems.append(f'{cells[1]}: "{cells[2]}" is none of {", ".join(ANSWERS)}')
        if cells[2] != 'works' and not cells[3]:
            problems.append(f'{cells[1]}: {cells[2]}, but the table does not say how or why')
        for name in re.findall(r'`(\w+)`', cells[1]):
            if name in found:
                problems.append(f'{name} stands in the table twice')
            found[name] = cells[2]
    return found, problems


def refused(mark, headers):
    """Functions that answer "not supported"."""
    names = declared(mark, [h for h in headers if 'not_supported' in h]) - WORKS_ANYWAY
    for header in headers:
        for code in re.findall(r'/\* Not supported.*?\*/(.*?)(?=/\*|\n\n)', open(header).read(), flags=re.S):
            names |= set(re.findall(mark + r'\b[^;]*?(\w+)\s*\(', code))
    return names


def main():
    name, mark, document, *headers, library = sys.argv[1:]
    table, problems = rows(name, document)
    functions = declared(mark, headers)
    without = refused(mark, headers)
    problems += [f'{name} is declared, but not in the table' for name in sorted(functions - set(table))]
    problems += [f'{name} is in the table, but not declared' for name in sorted(set(table) - functions)]
    problems += [f'{name} is in the table, but not exported' for name in sorted(set(table) - exported(library))]
    for name in sorted(functions & set(table)):
        if (table[name] == 'not supported') != (name in without):
            problems.append(f'{name}: the table says "{table[name]}", its header another thing')
    print('\n'.join(problems + [f'{len(table)} functions']))
    return 1 if problems or not table else 0


if __name__ == '__main__':
    sys.exit(main())
