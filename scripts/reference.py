#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference pages from the comments of public headers: one page a section, and a page that points there for each of its
functions.

  reference.py --man DIR HEADER...      manual pages, section 3
  reference.py --markdown FILE HEADER...
  reference.py --check HEADER...        every function that a header exports must have a description; status 1 if one
                                        has none

What is read: the header's first comment is about all of it; "/* ---- title ---- */" begins a section; a comment
describes the declarations that follow it up to the next empty line or comment.
"""
import argparse
import os
import re
import sys
import textwrap

MARK = r'(?:BMLIB_API|NPU_API|BMRT_API)'
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|\n[ \t]*\n|[^/#\n]+|\n|.', re.S | re.M)


class Section:
    """A title, and items: (description, declarations)."""

    def __init__(self, header, title):
        self.header, self.title, self.items = header, title, []

    def functions(self):
        return [name for _, declarations in self.items for name in map(function_of, declarations) if name]

    def page(self):
        return re.sub(r'\W+', '_', os.path.splitext(self.header)[0] + ' ' + self.title.split(':')[0]).strip('_')


def function_of(declaration):
    """The name of an exported function, or None."""
    if not re.search(MARK + r'\b', declaration) or declaration.lstrip().startswith('#'):
        return None
    return re.search(r'(\w+)\s*\(', declaration).group(1)


def text_of(comment):
    """A comment without its marks, as paragraphs."""
    lines = [re.sub(r'^\s*\*? ?', '', line) for line in comment[2:-2].strip().splitlines()]
    return '\n'.join(' '.join(paragraph.split()) for paragraph in re.split(r'\n\s*\n', '\n'.join(lines)))


def declarations_of(code):
    """Complete declarations of a piece of code; the rest, if it is not complete."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(code):
        depth += {'{': 1, '}': -1}.get(c, 0)
        if c == ';' and depth == 0:
            found.append(code[start:i + 1].strip())
            start = i + 1
    return found, code[start:]


def parse(path):
    """(what the header says of itself, sections)."""
    header = os.path.basename(path)
    with open(path, encoding='utf-8') as f:
        source = f.read()
    source = re.sub(r'^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', '', source, flags=re.M)
    about, sections, doc, rest = '', [], None, ''
    for token in TOKEN.findall(source):
        section = re.fullmatch(r'/\* ---- (.*?) ---- \*/', token, re.S)
        if section:
            sections.append(Section(header, ' '.join(section.group(1).split())))
            doc, rest = None, ''
        elif token.startswith('/*') and rest.strip():
            rest += token  # inside a declaration
        elif token.startswith('/*'):
            if 'SPDX' in token:
                continue
            if not about and not sections:
                about = text_of(token)
                continue
            doc = (text_of(token), [])
            if sections:
                sections[-1].items.append(doc)
        elif re.fullmatch(r'\n[ \t]*\n', token):
            if not rest.strip():
                doc, rest = None, ''
            else:
                rest += token
        elif not token.lstrip().startswith('#'):
            rest += token
            found, rest = declarations_of(rest)
            if found and sections:
                if doc is None:
                    doc = ('', [])
                    sections[-1].items.append(doc)
                doc[1].extend(found)
    return about, [s for s in sections if s.functions()]


def plain(declaration):
    """As a program sees it."""
    text = re.sub(MARK + r'\s+', '', declaration)
    text = re.sub(r'\s*__attribute__\(\((?:[^()]|\([^()]*\))*\)\)', '', text)
    if '{' in text:
        return text
    return textwrap.fill(' '.join(text.split()), 96, subsequent_indent='        ', break_long_words=False)


# ---- output ----

def roff(text):
    return re.sub(r'^([.\'])', r'\\&\1', text.replace('\\', '\\e').replace('-', '\\-'), flags=re.M)


def man_page(section, about, version):
    names = ', '.join(section.functions())
    out = [f'.TH {section.page()} 3 "" "qnpu {version}" "Library functions"', '.SH NAME',
           f'{roff(names)} \\- {roff(section.title)}', '.SH SYNOPSIS', '.nf', f'#include <{section.header}>', '']
    for _, declarations in section.items:
        out += [roff(plain(d)) for d in declarations]
    out += ['.fi', '.SH DESCRIPTION']
    for description, declarations in section.items:
        functions = [name for name in map(function_of, declarations) if name]
        if not description or not functions:
            continue
        out += ['.TP', '.BR ' + ' ", " '.join(f'{roff(name)} ()' for name in functions)]
        out += ['.IP\n'.join(roff(p) + '\n' for p in description.splitlines()).rstrip()]
    out += ['.SH NOTES']
    out += ['.PP\n'.join(roff(p) + '\n' for p in about.splitlines()).rstrip()]
    return '\n'.join(out) + '\n'


def write_man(folder, headers, version):
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    for path in headers:
        about, sections = parse(path)
        for section in sections:
            with open(f'{folder}/{section.page()}.3', 'w', encoding='utf-8') as f:
                f.write(man_page(section, about, version))
            for name in section.functions():
                with open(f'{folder}/{name}.3', 'w', encoding='utf-8') as f:
                    f.write(f'.so man3/{section.page()}.3\n')


def write_markdown(path, headers):
    out = ['# Reference\n', 'Made from the headers by scripts/reference.py.\n']
    for header in headers:
        about, sections = parse(header)
        out += [f'## {os.path.basename(header)}\n', about.replace('\n', '\n\n') + '\n']
        for section in sections:
            out.append(f'### {section.title}\n')
            for description, declarations in section.items:
                if declarations:
                    out.append('```c\n' + '\n'.join(plain(d) for d in declarations) + '\n```\n')
                if description:
                    out.append(description.replace('\n', '\n\n') + '\n')
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(out))


def check(headers):
    """Functions without a description, and headers that say nothing of themselves."""
    problems, count = [], 0
    for path in headers:
        about, sections = parse(path)
        with open(path, encoding='utf-8') as f:
            code = re.sub(r'/\*.*?\*/', ' ', f.read(), flags=re.S)
        code = re.sub(r'^\s*#(?:.*\\\n)*.*$', ' ', code, flags=re.M)
        exported = {re.search(r'(\w+)\s*\(', d).group(1) for d in re.findall(MARK + r'\b([^;{]*)', code)}
        described = {name for s in sections for description, declarations in s.items if description
                     for name in map(function_of, declarations) if name}
        problems += [f'{path}: {name} has no description' for name in sorted(exported - described)]
        if exported and not about:
            problems.append(f'{path}: it does not begin with a comment about itself')
        count += len(described)
    print('\n'.join(problems + [f'{count} functions']))
    return 1 if problems or not count else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--man', metavar='DIR')
    parser.add_argument('--markdown', metavar='FILE')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--version', default='')
    parser.add_argument('headers', nargs='+')
    arguments = parser.parse_args()
    if arguments.man:
        write_man(arguments.man, arguments.headers, arguments.version)
    if arguments.markdown:
        write_markdown(arguments.markdown, arguments.headers)
    return check(arguments.headers) if arguments.check else 0


if __name__ == '__main__':
    sys.exit(main())
