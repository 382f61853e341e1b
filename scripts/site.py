#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Renders the project's Markdown as a searchable site: `make site`.

usage: site.py [--output FOLDER]     default: build/site
       site.py --check               only whether the navigation has all pages

The pages are those of `docs/`, README.md, CONTRIBUTING.md, CHANGELOG.md and the README.md of folders that pages link
to. The sections of docs/README.md are the navigation, in its order. Sphinx with MyST does the work (Debian's packages
python3-sphinx, python3-myst-parser, furo). Neither the build nor the site needs a network, and the site works from
file:// as well. Every warning is an error: a broken link, a missing anchor, a page that the navigation lacks.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX = "docs/README.md"
START = "README.md"  # becomes index.html

CONF = """\
project = "QNPU"
copyright = "the QNPU authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
html_theme = "furo"
html_title = "QNPU %(version)s"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {"top_of_page_button": None}
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
"""


def die(text):
    raise SystemExit("site: " + text)


def links(text):
    """Matches of the links of a page that are not in code: group 1 is the target, group 2 the anchor."""
    code = [match.span() for match in re.finditer(r"^```.*?^```|`[^`\n]*`", text, re.M | re.S)]
    for match in re.finditer(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        if "://" not in match[1] and not any(start <= match.start() < end for start, end in code):
            yield match


def target(page, link):
    """The file that a link of a page means, from the checkout's top."""
    return os.path.normpath(os.path.join(os.path.dirname(page), link)) if link else page


def pages():
    """All pages: those of the documentation, and further ones that they link to."""
    todo = [START, INDEX, "CONTRIBUTING.md", "CHANGELOG.md"]
    todo += sorted(glob.glob("docs/**/*.md", root_dir=TOP, recursive=True))
    found = {}
    while todo:
        page = todo.pop(0)
        if page in found:
            continue
        with open(os.path.join(TOP, page), encoding="utf-8") as file:
            found[page] = file.read()
        for match in links(found[page]):
            path = target(page, match[1])
            if not os.path.exists(os.path.join(TOP, path)):
                die(f"{page}: a link to {match[1]}, which does not exist")
            if path.endswith(".md"):
                todo.append(path)
    return found


def staged_name(page):
    return "index.md" if page == START else page


def stage(page, text, everything, source, files):
    """Writes a page for Sphinx. Links to what is no page become plain HTML; `files` gets what they mean."""
    def rewrite(match):
        path = target(page, match[1])
        if path in everything:
            here = os.path.dirname(staged_name(page))
            return "](%s%s)" % (os.path.relpath(staged_name(path), here) if match[1] else "", match[2] or "")
        if os.path.isdir(os.path.join(TOP, path)):
            die(f"{page}: a link to the folder {path}: name a file")
        files.add(path)
        return match[0] if path.endswith((".svg", ".png")) else "](%s)" % os.path.relpath(path, os.path.dirname(page))

    out, last = [], 0
    for match in links(text):
        out += [text[last:match.start()], rewrite(match)]
        last = match.end()
    text = "".join(out) + text[last:]
    # MyST would look for a page; an anchor in HTML is left alone.
    for path in sorted(files):
        relative = re.escape(os.path.relpath(path, os.path.dirname(page)))
        text = re.sub(r"(?<!!)\[([^\]]*)\]\((%s)\)" % relative, r'<a href="\2">\1</a>', text)
    full = os.path.join(source, staged_name(page))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)
        if page == START:
            file.write(navigation(everything))


def navigation(everything):
    """Hidden tables of contents, one for each section of the index."""
    listed, out = set(), []
    for section in re.split(r"^## ", everything[INDEX], flags=re.M)[1:]:
        entries = []
        for match in links(section):
            path = target(INDEX, match[1])
            if path in everything and path not in listed and path not in (START, INDEX):
                listed.add(path)
                title = section[section.rfind("[", 0, match.start()) + 1:match.start()]
                entries.append(f"{title} <{staged_name(path)[:-3]}>")
        if entries:
            out.append("\n\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" %
                       (section.split("\n", 1)[0], "\n".join(entries)))
    lost = set(everything) - listed - {START, INDEX}
    if lost:
        die(f"{INDEX} does not list {', '.join(sorted(lost))}")
    return "".join(["\n\n```{toctree}\n:hidden:\n\nAll pages <%s>\n```\n" % INDEX[:-3]] + out)


def complete(output):
    """Debian's furo reads one style from a web server's /javascript: it goes into the site."""
    style = os.path.join(output, "_static", "styles", "furo.css")
    with open(style, encoding="utf-8") as file:
        text = file.read()
    for path in set(re.findall(r"/javascript/([\w./-]+)", text)):
        name = os.path.basename(path)
        shutil.copy(os.path.join("/usr/share/javascript", path), os.path.join(os.path.dirname(style), name))
        text = text.replace("/javascript/" + path, name)
    with open(style, "w", encoding="utf-8") as file:
        file.write(text)


def version():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.search(r"project\([^)]*VERSION ([\d.]+)", file.read())
    return found[1] if found else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    build = os.environ.get("NPU_BUILD", os.path.join(TOP, "build"))
    parser.add_argument("--output", default=os.path.join(build, "site"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        navigation(pages())
        return 0
    if not shutil.which("sphinx-build"):
        die("sphinx-build is missing: make setup SET=site")
    output = os.path.abspath(options.output)
    source = output + "-source"
    for folder in (source, output):
        shutil.rmtree(folder, ignore_errors=True)
    everything, files = pages(), set()
    for page, text in everything.items():
        stage(page, text, everything, source, files)
    for path in files:
        for where in (source, output):
            os.makedirs(os.path.dirname(os.path.join(where, path)), exist_ok=True)
            shutil.copy(os.path.join(TOP, path), os.path.join(where, path))
    with open(os.path.join(source, "conf.py"), "w", encoding="utf-8") as file:
        file.write(CONF % {"version": version()})
    done = subprocess.run(["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "-d", output + "-doctrees", source,
                           output], check=False)
    if done.returncode:
        die("Sphinx found the problems above")
    complete(output)
    print(f"{len(everything)} pages: {os.path.join(output, 'index.html')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
