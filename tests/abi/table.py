#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""table.py DOCUMENT HEADER... LIBRARY: the document's table of BMLIB functions has every function that the headers declare and the library exports, once; those of
bmlib_not_supported.h, and no others, are called "not supported" (or "works" where the header says so)."""
import re
import sys

from symbols import declared, exported

ANSWERS = ('works', 'partly', 'not supported')
# In bmlib_not_supported.h because it belongs there, and yet it works.
WORKS_ANYWAY = {'show_md5'}


def rows(document):
    """Function -> answer. Rows are | `a`, `b` | answer | how |."""
    text = open(document).read()
    table = text[text.index('<!-- bmlib functions -->'):text.index('<!-- end of bmlib functions -->')]
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


def main():
    document, headers, library = sys.argv[1], sys.argv[2:-1], sys.argv[-1]
    table, problems = rows(document)
    functions = declared('DECL_EXPORT', headers)
    without = declared('DECL_EXPORT', [h for h in headers if 'not_supported' in h]) - WORKS_ANYWAY
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
